"""Features and labels in parts that the core reads in place; the parts may be mapped files.

Each part is an array or a CSR matrix; together they form one tall matrix. ``MappedRows`` behaves like the
rows of a matrix, ``MappedSequences`` like a list of (T_i, d) matrices. ``CodedLabels`` and ``CodedSequences``
behave like their labels. If columns stand for attributes, the ``encoder`` of the rows knows the names of the
columns. A model that learns from the rows keeps this encoder.

The system ends a process (SIGBUS) that reads a page of a map past the end of its file. The size of a file is
checked when it is mapped. It is checked again (one ``fstat``) whenever a part is accessed: before each pass
of training over mapped rows, each chunk of a stream and each read from Python. This cannot detect a file that
is cut during a pass, or a disk that fails. Replacing or removing a file does no harm, since the map still
shows the old content.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.io.files import hold_mapped
from maxmargin.io.quoting import ForeignError


class ShardError(ForeignError):
    """A folder of shards is damaged or incomplete, is not such a folder, or cannot be written."""


def map_file(path: Path, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Map a file as a read-only array; an empty array is made in memory, since it cannot be mapped."""
    if 0 in shape:
        return np.empty(shape, dtype=dtype)
    try:
        found = np.memmap(path, dtype=dtype, mode="r", shape=shape)
    except ValueError as error:
        raise ShardError(f"{path} is shorter than its manifest says: {error}") from None
    hold_mapped(found, path)
    return np.asarray(found)


def files_behind(value: Any) -> Iterator[str]:
    """Yield the names of the mapped files behind an array, a matrix or nested lists of these."""
    if isinstance(value, np.ndarray):
        found = mapped_file(value)
        if found is not None and found.filename is not None:
            yield found.filename
    elif sp.issparse(value):
        for name in ("data", "indices", "indptr"):
            yield from files_behind(getattr(value, name, None))
    elif isinstance(value, list | tuple):
        for item in value:
            if hasattr(item, "shape") or isinstance(item, list | tuple):
                yield from files_behind(item)


def mapped_file(array: Any) -> np.memmap | None:
    """The memory map that an array is a view of, or None."""
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array


def check_file(array: np.ndarray) -> None:
    """Refuse an array whose file has become shorter."""
    found: Any = mapped_file(array)
    while found is not None and not isinstance(found.base, mmap.mmap):
        found = found.base
    if found is None:
        return
    size = found.base.size()
    if size < found.offset + found.nbytes:
        raise ShardError(
            f"{found.filename} has {size} bytes, but had {found.offset + found.nbytes} when it "
            "was opened; it was truncated while in use, so write the data set again and reopen it"
        )


class MappedParts(Sequence[Any]):
    """Arrays or CSR matrices in mapped files; each access checks the files of the part."""

    def __init__(self, parts: Iterable[Any]):
        self.plain: list[Any] = list(parts)  # unchecked parts, for shapes and types
        self._fresh = set(range(len(self.plain)))  # parts whose column indices are not yet checked

    def __len__(self) -> int:
        return len(self.plain)

    def __getitem__(self, k: Any) -> Any:
        part = self.plain[k]
        arrays = (part.data, part.indices, part.indptr) if sp.issparse(part) else (part,)
        for array in arrays:
            check_file(array)
        if k in self._fresh:
            self._check_columns(part)
            self._fresh.discard(k)
        return part

    def __reduce__(self) -> tuple[Any, ...]:
        return MappedParts, (self.plain,)  # another process checks the parts again

    def check(self) -> None:
        """Check the files of all parts."""
        for _ in self:
            pass

    def _check_columns(self, part: Any) -> None:
        """Refuse column indices out of range: SciPy would read and write outside its arrays."""
        if not sp.issparse(part) or not part.nnz:
            return
        if part.indices.min() < 0 or part.indices.max() >= part.shape[1]:
            found = mapped_file(part.indices)
            name = "X" if found is None else found.filename
            raise ShardError(f"{name}: column indices lie outside the {part.shape[1]} columns")


def ranges(firsts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Concatenate the ranges of counts[k] whole numbers that begin at firsts[k]."""
    counts = np.asarray(counts, dtype=np.int64)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(
        np.asarray(firsts, dtype=np.int64) - (ends - counts), counts
    )


class Counted(Sized):
    """Mixin that gives examples a shape, so that scikit-learn indexes them by arrays of numbers."""

    @property
    def shape(self) -> tuple[int]:
        """The number of examples, as a tuple."""
        return (len(self),)


def numbers_of(key: Any, n: int) -> np.ndarray:
    """The numbers of the examples that a key selects; scikit-learn may give (numbers, ...)."""
    key = key[0] if isinstance(key, tuple) and key[1:] == (Ellipsis,) else key
    return np.arange(n)[key]


def some_of(examples: Any, key: Any) -> Any:
    """Select examples from a list or from an array-like."""
    if hasattr(examples, "shape"):
        return examples[key]
    return [examples[int(i)] for i in numbers_of(key, len(examples))]


class Mapped:
    """Parts with equal numbers of columns, one below the other; CSR matrices if ``sparse``."""

    def __init__(self, parts: Sequence[Any], n_features: int, encoder: Any = None):
        self.encoder = encoder
        self.n_features = n_features
        watched = isinstance(parts, MappedParts)
        self.parts: Sequence[Any] = parts if watched else list(parts)
        plain = parts.plain if isinstance(parts, MappedParts) else self.parts
        self.dtype: Any = plain[0].dtype
        self.sparse: bool = sp.issparse(plain[0])
        self.nnz: int = sum(part.nnz for part in plain) if self.sparse else 0
        self.firsts: np.ndarray = np.concatenate(
            [[0], np.cumsum([part.shape[0] for part in plain])]
        )

    def run(self, first: int, last: int) -> Any:
        """Return the rows first..last of one part: a view, or a CSR matrix that carries the encoder."""
        k = int(np.searchsorted(self.firsts[:-1], first, side="right")) - 1
        start = int(self.firsts[k])
        return with_encoder(row_slice(self.parts[k], first - start, last - start), self.encoder)


def row_slice(part: Any, first: int, last: int) -> Any:
    """Return rows of a part as a view; rows of a CSR matrix share its values and indices."""
    if not sp.issparse(part):
        return part[first:last]
    a, b = int(part.indptr[first]), int(part.indptr[last])
    return csr_of(part.data[a:b], part.indices[a:b], part.indptr[first : last + 1] - a, part.shape)


def csr_of(data: Any, indices: Any, indptr: Any, shape: tuple[int, ...]) -> sp.csr_matrix:
    """Return a CSR matrix that uses these arrays; SciPy's constructor might copy them."""
    matrix = sp.csr_matrix((len(indptr) - 1, shape[1]), dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


def with_encoder(rows: Any, encoder: Any) -> Any:
    """Attach an encoder to sparse rows, if there is one; see ``encoder_in``."""
    if encoder is not None and sp.issparse(rows):
        rows.encoder = encoder
    return rows


def encoder_in(X: Any) -> Any:
    """The encoder that made these features, or the examples of this list; None without an encoder.

    All encoded data carry their encoder, even a single example. A list counts as plain numbers if
    some of its examples have no encoder.
    """
    if not isinstance(X, list | tuple):
        own = getattr(X, "encoder", None)  # a table may have a column of this name
        return own if hasattr(own, "same_columns") else None
    found = [encoder_in(x) if sp.issparse(x) else None for x in X]
    if not found or any(encoder is None for encoder in found):
        return None
    first: Any = found[0]
    for i, encoder in enumerate(found):
        if encoder is not first and not first.same_columns(encoder):
            raise ValueError(
                f"X[{i}] was encoded by a different encoder than X[0]; encode all examples with "
                "one encoder"
            )
    return first


def one_table(X: Mapped) -> Any:
    """Return all rows as one object that rows index; a single part is returned itself."""
    return X.parts[0] if len(X.parts) == 1 else MappedRows(X.parts, X.n_features)


class MappedRows(Mapped):
    """The rows of a matrix in parts: X of a flat model."""

    ndim = 2

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return int(self.firsts[-1]), self.n_features

    @property
    def offsets(self) -> np.ndarray:
        """The offsets of one table that holds all rows."""
        return np.array([0, len(self)], dtype=np.int64)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        """Return a row, a view of a run of rows, or a copy of any other selection."""
        if isinstance(key, int | np.integer):
            i = range(len(self))[key]
            row = self.run(i, i + 1)
            return row if self.sparse else row[0]
        if isinstance(key, slice) and key.step in (None, 1):
            return self._slice(*key.indices(len(self))[:2])
        rows = self._gather(np.arange(len(self))[key])
        return rows if self.encoder is None else MappedRows([rows], self.n_features, self.encoder)

    def _slice(self, first: int, last: int) -> MappedRows:
        pieces, bounds = [], self.firsts.tolist()
        for k in range(len(self.parts)):
            a, b = max(first, bounds[k]), min(last, bounds[k + 1])
            if a < b:
                pieces.append(row_slice(self.parts[k], a - bounds[k], b - bounds[k]))
        pieces = pieces or [row_slice(self.parts[0], 0, 0)]
        watched = isinstance(self.parts, MappedParts)
        parts = MappedParts(pieces) if watched else pieces
        return MappedRows(parts, self.n_features, self.encoder)

    def _gather(self, rows: np.ndarray) -> Any:
        owner = np.searchsorted(self.firsts, rows, side="right") - 1
        order = np.argsort(owner, kind="stable")
        pieces = [
            self.parts[k][rows[order][owner[order] == k] - self.firsts[k]]
            for k in np.unique(owner).tolist()
        ]
        back = np.argsort(order, kind="stable")
        if len(pieces) < 2:  # already in order
            return pieces[0] if pieces else row_slice(self.parts[0], 0, 0)
        stacked = sp.vstack(pieces, format="csr") if self.sparse else np.concatenate(pieces)
        return stacked[back]

    def __matmul__(self, other: np.ndarray) -> np.ndarray:
        return np.concatenate([np.asarray(part @ other) for part in self.parts])

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if self.sparse:
            raise TypeError("these rows are sparse; take a slice of them, or call .tocsr()")
        return np.concatenate(self.parts).astype(dtype or self.dtype, copy=False)

    def tocsr(self) -> sp.csr_matrix:
        """Copy all rows to one CSR matrix in memory."""
        rows = sp.vstack([sp.csr_matrix(part) for part in self.parts], format="csr")
        return with_encoder(rows, self.encoder)


class MappedSequences(Mapped, Counted, Sequence[Any]):
    """Matrices (T_i, d), stored one below the other in parts: X of a chain."""

    def __init__(
        self, parts: Sequence[Any], n_features: int, offsets: np.ndarray, encoder: Any = None
    ):
        super().__init__(parts, n_features, encoder)
        self.offsets = offsets  # rows of sequence i: offsets[i] .. offsets[i + 1]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, key: Any) -> Any:
        """Return a sequence, or a copy of several sequences."""
        if isinstance(key, int | np.integer):
            i = range(len(self))[key]
            return self.run(int(self.offsets[i]), int(self.offsets[i + 1]))
        which = numbers_of(key, len(self))
        rows, lengths = self.copy_of(which)
        return sequences_of([rows], lengths, self.encoder)

    def copy_of(self, which: np.ndarray) -> tuple[Any, np.ndarray]:
        """Copy the rows of some sequences to memory; return them and the length of each sequence."""
        lengths = self.offsets[which + 1] - self.offsets[which]
        return one_table(self)[ranges(self.offsets[which], lengths)], lengths


def sequences_of(parts: Sequence[Any], lengths: Any, encoder: Any = None) -> MappedSequences:
    """Return sequences of these lengths, whose rows lie one below the other in parts."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return MappedSequences(parts, parts[0].shape[1], offsets, encoder)


@dataclass(eq=False, repr=False)
class Coded:
    """Labels as codes of a few classes, in parts that may be mapped files."""

    classes: np.ndarray
    codes: Sequence[np.ndarray]

    by_position = True  # positions index it already, so input checks do not convert it

    def __post_init__(self) -> None:
        self.firsts: np.ndarray = np.cumsum([0, *map(len, self.codes)])

    def used(self) -> np.ndarray:
        """The classes that occur."""
        seen = np.zeros(len(self.classes), dtype=bool)
        for part in self.codes:
            seen[np.unique(part)] = True
        return self.classes[seen]


class CodedLabels(Coded, Counted, np.lib.mixins.NDArrayOperatorsMixin):
    """One label for each example: Y of a flat model.

    It acts as the array of the labels, which is made only on request.
    """

    ndim = 1

    def __len__(self) -> int:
        return int(self.firsts[-1])

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the labels."""
        return self.classes.dtype

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        labels = self.classes[np.concatenate(self.codes)]
        return labels if dtype is None else labels.astype(dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = [np.asarray(x) if isinstance(x, CodedLabels) else x for x in inputs]
        return getattr(ufunc, method)(*arrays, **options)

    def tolist(self) -> list[Any]:
        """Return all labels as a list."""
        return np.asarray(self).tolist()

    def __iter__(self) -> Any:
        return (label for part in self.codes for label in self.classes[part])

    def __getitem__(self, key: Any) -> Any:
        """Return a label, or an array of several labels."""
        if isinstance(key, int | np.integer):
            i = range(len(self))[key]
            k = int(np.searchsorted(self.firsts, i, side="right")) - 1
            return self.classes[self.codes[k][i - int(self.firsts[k])]]
        return np.asarray(self.copy_of(np.arange(len(self))[key]))

    def copy_of(self, which: np.ndarray) -> CodedLabels:
        """Copy some of the labels to memory."""
        owner = np.searchsorted(self.firsts, which, side="right") - 1
        codes = np.empty(len(which), dtype=np.int32)
        for k in np.unique(owner).tolist():
            own = owner == k
            codes[own] = self.codes[k][which[own] - self.firsts[k]]
        return CodedLabels(self.classes, [codes])


@dataclass(eq=False, repr=False)
class CodedSequences(Coded, Sequence[Any]):
    """Sequences of labels: Y of a chain."""

    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, key: Any) -> Any:
        """Return the labels of a sequence, or a list of the labels of several sequences."""
        if not isinstance(key, int | np.integer):
            return [self[int(i)] for i in np.arange(len(self))[key]]
        i = range(len(self))[key]
        first, last = int(self.offsets[i]), int(self.offsets[i + 1])
        k = int(np.searchsorted(self.firsts, first, side="right")) - 1
        start = int(self.firsts[k])
        return self.classes[self.codes[k][first - start : last - start]]

    def copy_of(self, which: np.ndarray) -> CodedSequences:
        """Copy the labels of some sequences to memory."""
        lengths = self.offsets[which + 1] - self.offsets[which]
        rows = ranges(self.offsets[which], lengths)
        codes = CodedLabels(self.classes, self.codes).copy_of(rows).codes
        return CodedSequences(self.classes, codes, np.concatenate([[0], np.cumsum(lengths)]))
