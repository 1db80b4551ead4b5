"""Data that stay where they are: rows of features and codes of labels in parts, which may be mapped files.

Rows are parts of one tall matrix, each an array or a CSR matrix. ``MappedRows`` behaves as the rows of a
matrix, ``MappedSequences`` as a list of (T_i, d) matrices, ``CodedLabels`` and ``CodedSequences`` as their
labels; the core reads the parts in place. Where columns stand for attributes, the ``encoder`` beside them
knows their names: a model that learns from the rows keeps it.

The system ends a process (SIGBUS) that reads a page of a map past the end of its file. A file has its size
when it is mapped; whether somebody made it shorter since is asked (one ``fstat`` each) whenever a part is
handed out: before each pass of training over mapped rows, each chunk of a stream and each read from Python.
A file that is cut while a pass runs over it cannot be noticed in time, nor can a disk that fails. A file
that is replaced or removed does no harm: its map shows the old one.
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
    """A folder of shards that is damaged, incomplete or not such a folder, or that cannot be written."""


def map_file(path: Path, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A file as a read-only array; an empty one cannot be mapped."""
    if 0 in shape:
        return np.empty(shape, dtype=dtype)
    try:
        found = np.memmap(path, dtype=dtype, mode="r", shape=shape)
    except ValueError as error:
        raise ShardError(f"{path} is shorter than its manifest says: {error}") from None
    hold_mapped(found, path)
    return np.asarray(found)


def files_behind(value: Any) -> Iterator[str]:
    """The mapped files that arrays show, alone or in lists."""
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
    """The map that an array shows a part of, or None."""
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
            f"{found.filename} has {size} bytes, but had {found.offset + found.nbytes} when it was opened: "
            "it was cut while in use; write the data set again and open it again"
        )


class MappedParts(Sequence[Any]):
    """Arrays or CSR matrices in mapped files; a part is looked at whenever it is handed out."""

    def __init__(self, parts: Iterable[Any]):
        self.plain: list[Any] = list(parts)  # not looked at: for shapes and types
        self._fresh = set(range(len(self.plain)))  # whose column numbers were not yet looked at

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
        return MappedParts, (self.plain,)  # what was looked at here is looked at again elsewhere

    def check(self) -> None:
        """Look at all parts."""
        for _ in self:
            pass

    def _check_columns(self, part: Any) -> None:
        """SciPy reads and writes wherever column numbers point to."""
        if not sp.issparse(part) or not part.nnz:
            return
        if part.indices.min() < 0 or part.indices.max() >= part.shape[1]:
            found = mapped_file(part.indices)
            name = "X" if found is None else found.filename
            raise ShardError(f"{name}: column indices lie outside the {part.shape[1]} columns")


def ranges(firsts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """firsts[0], firsts[0] + 1, ... counts[0] of them, then those of firsts[1], and so on."""
    counts = np.asarray(counts, dtype=np.int64)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(
        np.asarray(firsts, dtype=np.int64) - (ends - counts), counts
    )


class Counted(Sized):
    """Examples with a shape: scikit-learn then indexes them by arrays of numbers."""

    @property
    def shape(self) -> tuple[int]:
        """How many there are."""
        return (len(self),)


def numbers_of(key: Any, n: int) -> np.ndarray:
    """The numbers of some of n examples; scikit-learn asks for (numbers, ...)."""
    key = key[0] if isinstance(key, tuple) and key[1:] == (Ellipsis,) else key
    return np.arange(n)[key]


def some_of(examples: Any, key: Any) -> Any:
    """Some examples, of a list or of what numbers index."""
    if hasattr(examples, "shape"):
        return examples[key]
    return [examples[int(i)] for i in numbers_of(key, len(examples))]


class Mapped:
    """Parts with as many columns each, one below the other; CSR matrices where it is ``sparse``."""

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
        """Rows first to last, of one part: a view of a dense part, or a CSR matrix with the encoder."""
        k = int(np.searchsorted(self.firsts[:-1], first, side="right")) - 1
        start = int(self.firsts[k])
        return with_encoder(row_slice(self.parts[k], first - start, last - start), self.encoder)


def row_slice(part: Any, first: int, last: int) -> Any:
    """Rows of a part; those of a CSR matrix share its values and indices."""
    if not sp.issparse(part):
        return part[first:last]
    a, b = int(part.indptr[first]), int(part.indptr[last])
    return csr_of(part.data[a:b], part.indices[a:b], part.indptr[first : last + 1] - a, part.shape)


def csr_of(data: Any, indices: Any, indptr: Any, shape: tuple[int, ...]) -> sp.csr_matrix:
    """A CSR matrix of these arrays themselves, which SciPy's constructor may copy."""
    matrix = sp.csr_matrix((len(indptr) - 1, shape[1]), dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


def with_encoder(rows: Any, encoder: Any) -> Any:
    """Rows that carry their encoder, if they are sparse and have one; see ``encoder_in``."""
    if encoder is not None and sp.issparse(rows):
        rows.encoder = encoder
    return rows


def encoder_in(X: Any) -> Any:
    """The encoder that made these features, or the examples of this list; None if there is none.

    All that was encoded carries its encoder, also a single example. A list in which some examples
    have no encoder holds plain numbers.
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
                f"X[{i}] was encoded by another encoder than X[0]: encode all with one"
            )
    return first


def one_table(X: Mapped) -> Any:
    """All rows, to be indexed; those of one part as they are."""
    return X.parts[0] if len(X.parts) == 1 else MappedRows(X.parts, X.n_features)


class MappedRows(Mapped):
    """The rows of a matrix in parts: X of a flat model."""

    ndim = 2

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.firsts[-1]), self.n_features

    @property
    def offsets(self) -> np.ndarray:
        """All rows are those of one table."""
        return np.array([0, len(self)], dtype=np.int64)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        """A row; a run of rows (a view); or a copy of any others."""
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
        if len(pieces) < 2:  # in their order
            return pieces[0] if pieces else row_slice(self.parts[0], 0, 0)
        stacked = sp.vstack(pieces, format="csr") if self.sparse else np.concatenate(pieces)
        return stacked[back]

    def __matmul__(self, other: np.ndarray) -> np.ndarray:
        return np.concatenate([np.asarray(part @ other) for part in self.parts])

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if self.sparse:
            raise TypeError("these rows are sparse: take a slice of them, or .tocsr()")
        return np.concatenate(self.parts).astype(dtype or self.dtype, copy=False)

    def tocsr(self) -> sp.csr_matrix:
        """A copy in memory of all rows, as one CSR matrix."""
        rows = sp.vstack([sp.csr_matrix(part) for part in self.parts], format="csr")
        return with_encoder(rows, self.encoder)


class MappedSequences(Mapped, Counted, Sequence[Any]):
    """Matrices (T_i, d), one below the other in parts: X of a chain."""

    def __init__(
        self, parts: Sequence[Any], n_features: int, offsets: np.ndarray, encoder: Any = None
    ):
        super().__init__(parts, n_features, encoder)
        self.offsets = offsets  # rows of sequence i: offsets[i] .. offsets[i + 1]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, key: Any) -> Any:
        """A sequence, or some of them: a copy of their rows."""
        if isinstance(key, int | np.integer):
            i = range(len(self))[key]
            return self.run(int(self.offsets[i]), int(self.offsets[i + 1]))
        which = numbers_of(key, len(self))
        rows, lengths = self.copy_of(which)
        return sequences_of([rows], lengths, self.encoder)

    def copy_of(self, which: np.ndarray) -> tuple[Any, np.ndarray]:
        """The rows of some sequences, one below the other, in memory; and how many each has."""
        lengths = self.offsets[which + 1] - self.offsets[which]
        return one_table(self)[ranges(self.offsets[which], lengths)], lengths


def sequences_of(parts: Sequence[Any], lengths: Any, encoder: Any = None) -> MappedSequences:
    """Sequences of these lengths, one below the other in parts."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return MappedSequences(parts, parts[0].shape[1], offsets, encoder)


@dataclass(eq=False, repr=False)
class Coded:
    """Labels as codes of a few classes, in parts that may be mapped files."""

    classes: np.ndarray
    codes: Sequence[np.ndarray]

    by_position = True  # as all outputs must be: it stays what it is

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

    It stands for the array of the labels, which is made where one is asked for.
    """

    ndim = 1

    def __len__(self) -> int:
        return int(self.firsts[-1])

    @property
    def dtype(self) -> np.dtype:
        """Of the labels."""
        return self.classes.dtype

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        labels = self.classes[np.concatenate(self.codes)]
        return labels if dtype is None else labels.astype(dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = [np.asarray(x) if isinstance(x, CodedLabels) else x for x in inputs]
        return getattr(ufunc, method)(*arrays, **options)

    def tolist(self) -> list[Any]:
        """All labels."""
        return np.asarray(self).tolist()

    def __iter__(self) -> Any:
        return (label for part in self.codes for label in self.classes[part])

    def __getitem__(self, key: Any) -> Any:
        """A label, or an array of several."""
        if isinstance(key, int | np.integer):
            i = range(len(self))[key]
            k = int(np.searchsorted(self.firsts, i, side="right")) - 1
            return self.classes[self.codes[k][i - int(self.firsts[k])]]
        return np.asarray(self.copy_of(np.arange(len(self))[key]))

    def copy_of(self, which: np.ndarray) -> CodedLabels:
        """Some of the labels, in memory."""
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
        """The labels of a sequence, or a list of several."""
        if not isinstance(key, int | np.integer):
            return [self[int(i)] for i in np.arange(len(self))[key]]
        i = range(len(self))[key]
        first, last = int(self.offsets[i]), int(self.offsets[i + 1])
        k = int(np.searchsorted(self.firsts, first, side="right")) - 1
        start = int(self.firsts[k])
        return self.classes[self.codes[k][first - start : last - start]]

    def copy_of(self, which: np.ndarray) -> CodedSequences:
        """The labels of some sequences, in memory."""
        lengths = self.offsets[which + 1] - self.offsets[which]
        rows = ranges(self.offsets[which], lengths)
        codes = CodedLabels(self.classes, self.codes).copy_of(rows).codes
        return CodedSequences(self.classes, codes, np.concatenate([[0], np.cumsum(lengths)]))
