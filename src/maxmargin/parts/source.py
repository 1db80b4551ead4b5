"""Sources of parts, and how parts are packed: examples in mapped files, or chunks of an iterable.

A source gives out its examples once per pass and in their order. Each ``Part`` holds about a given number of
bytes. It is a packed copy in memory that can be cut and joined. A source skips examples that are in memory
already and examples of weight 0. The layouts of parts:

    rows        one matrix per block: X of a flat model, of regression, of sets of labels
    sequences   the matrices of a block, one below the other: X of a chain, or groups of constraints
    objects     a list of any other inputs

Dense rows with many zeros become CSR. CSR rows whose values are all 1 share one array of values.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.data.arrays import check_weights, floats, plain_sequence
from maxmargin.data.mapped import (
    CodedLabels,
    CodedSequences,
    MappedRows,
    MappedSequences,
    csr_of,
    one_table,
    sequences_of,
)
from maxmargin.data.memory import float_type
from maxmargin.data.scratch import RUN
from maxmargin.models.chain_examples import table_bytes
from maxmargin.models.protocol import Model
from maxmargin.models.python import bind_model, converted, portable

NO_EXAMPLES = np.empty(0, np.int64)
# Dense rows become sparse if that takes less than this share of their bytes. A larger value converts rows
# for little gain, and sparse rows are slower; a smaller one wastes memory.
SPARSE = 0.6
# Bytes that the core and the solver need besides the features: for each row, and for each example.
ROW_BYTES, EXAMPLE_BYTES = 64, 256
# Bytes of a row whose features stay in their file: its place, norm, label and weight of the loss.
STORED_ROW_BYTES = 48


@dataclass
class Layout:
    """How examples are laid out in memory; the first examples decide, and all others must fit."""

    kind: str
    sparse: bool | None = None
    dtype: Any = None
    tables: bool = False  # whether the core keeps inner products of the rows of a sequence
    listed: int = 0  # bytes of all outputs of an example, if the solver keeps all of them
    ones: np.ndarray = field(default_factory=lambda: np.empty(0, np.float32))

    def copy(self, X: Any, Y: Any, which: np.ndarray) -> tuple[Any, Any]:
        """Return packed copies of some of these examples."""
        if self.kind == "objects":
            return [X[int(i)] for i in which], [Y[int(i)] for i in which]
        labels = copied_labels(Y, which)
        if self.kind == "rows":
            X = one_table(X) if isinstance(X, MappedRows) else as_matrix(X)
            rows = self.compact((X.tocsr() if sp.issparse(X) else X)[which])
            return MappedRows([rows], rows.shape[1]), labels
        if isinstance(X, MappedSequences):
            rows, lengths = X.copy_of(which)
        else:
            matrices = [as_matrix(X[int(i)]) for i in which]
            lengths = np.array([x.shape[0] for x in matrices])
            sparse = any(map(sp.issparse, matrices))
            rows = sp.vstack(matrices, "csr") if sparse else np.vstack(matrices)
        rows = self.compact(rows)
        return sequences_of([rows], lengths), labels

    def compact(self, rows: Any) -> Any:
        """Return a matrix in the form and dtype of the layout; refuse one that does not fit."""
        if self.dtype is None:
            self.dtype = float_type(rows.dtype)
        if np.result_type(rows.dtype, self.dtype) != self.dtype:
            raise ValueError(
                f"X of this chunk has dtype {rows.dtype}, but the first chunk has "
                f"{np.dtype(self.dtype)}; give all chunks the wider dtype, or numbers are rounded"
            )
        if self.sparse is None:
            self.sparse = sp.issparse(rows) or (
                np.count_nonzero(rows) * (4 + rows.itemsize) < SPARSE * rows.nbytes
            )
        if not self.sparse and sp.issparse(rows):
            raise ValueError(
                "X of this chunk is sparse, but the first chunk is dense; give chunks of one kind"
            )
        if not self.sparse:
            return np.ascontiguousarray(rows, dtype=self.dtype)
        rows = sp.csr_matrix(rows, dtype=self.dtype)
        rows.sum_duplicates()
        index, starts = (a.astype(np.int32, copy=False) for a in (rows.indices, rows.indptr))
        if (rows.data != 1).any():
            return csr_of(rows.data, index, starts, rows.shape)
        if rows.nnz > len(self.ones) or self.ones.dtype != self.dtype:
            self.ones = np.ones(rows.nnz, self.dtype)
        return csr_of(self.ones[: rows.nnz], index, starts, rows.shape)

    def bytes_of(self, lengths: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The bytes of sequences with these lengths, if their rows take this many bytes."""
        return EXAMPLE_BYTES + rows + (table_bytes(lengths) if self.tables else 0)


def layout_of(model: Any, X: Any) -> Layout:
    """The layout in which examples like these are kept for a model."""
    model = getattr(model, "packed_as", model)
    packs = getattr(model, "packs", "objects")
    if packs != "sequences":
        return Layout(packs)
    matrices = isinstance(X, MappedSequences) or all(
        sp.issparse(x) or (isinstance(x, np.ndarray) and x.ndim == 2) for x in X
    )
    return Layout(packs if matrices else "objects", tables=model.tables)


@dataclass(frozen=True)
class Part:
    """Examples stored together in memory, with their numbers in the stream and their weights."""

    layout: Layout
    X: Any
    Y: Any
    index: np.ndarray
    weights: np.ndarray
    # Bytes of each example, including the arrays of the core and the solver; planes are not counted.
    bytes_each: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bytes_each", self._measured())

    def __len__(self) -> int:
        return len(self.index)

    def select(self, which: np.ndarray) -> Part:
        """Return a copy of some of the examples."""
        X, Y = self.layout.copy(self.X, self.Y, which)
        return Part(self.layout, X, Y, self.index[which], self.weights[which])

    def _measured(self) -> np.ndarray:
        if self.layout.kind == "objects":
            own = np.array([bytes_of_object(x) for x in self.X], dtype=np.int64)
            return own + EXAMPLE_BYTES + ROW_BYTES
        rows = self.X.parts[0]
        if sp.issparse(rows):
            shared = rows.data.base is not None and (rows.data[:1] == 1).all()
            each = 4 * np.diff(rows.indptr) * (1 if shared else 1 + rows.dtype.itemsize // 4)
        else:
            each = np.full(rows.shape[0], rows.shape[1] * rows.itemsize)
        ends = np.concatenate([[0], np.cumsum(each.astype(np.int64) + ROW_BYTES)])
        if self.layout.kind == "rows":
            labels = self.Y[:1].nbytes if np.ndim(self.Y) == 2 else 0
            return np.diff(ends) + EXAMPLE_BYTES + labels + self.layout.listed
        return self.layout.bytes_of(np.diff(self.X.offsets), np.diff(ends[self.X.offsets]))


def stacked_examples(parts: list[Part]) -> tuple[Any, Any]:
    """X and Y of some parts in the form that a model takes; features are not copied."""
    X, Y, kind = [part.X for part in parts], [part.Y for part in parts], parts[0].layout.kind
    if kind == "objects":
        return list(chain(*X)), list(chain(*Y))
    blocks = [x.parts[0] for x in X]
    if kind == "rows":
        return MappedRows(blocks, X[0].n_features), joined_labels(Y, None)
    sequences = sequences_of(blocks, np.concatenate([np.diff(x.offsets) for x in X]))
    return sequences, joined_labels(Y, sequences.offsets)


def keep_only(parts: list[Part], which: np.ndarray) -> None:
    """Remove all other examples, one part at a time, so that little is in memory twice."""
    ends = np.cumsum([len(part) for part in parts])
    for k, own in enumerate(np.split(which, np.searchsorted(which, ends[:-1]))):
        if len(own) < len(parts[k]):
            parts[k] = parts[k].select(own - (ends[k] - len(parts[k])))
    parts[:] = [part for part in parts if len(part)]


def bytes_of_object(x: Any) -> int:
    """The bytes of one example, estimated."""
    if sp.issparse(x):
        return 12 * x.nnz + 200
    if isinstance(x, tuple | dict):  # a graph: features, edges, and features of the edges
        parts = x.values() if isinstance(x, dict) else x
        return 100 + sum(bytes_of_object(part) for part in parts if part is not None)
    return x.nbytes + 100 if hasattr(x, "nbytes") else 100 * np.size(x)


def as_matrix(x: Any) -> Any:
    """Return rows of features as a matrix: lists and data frames become arrays."""
    if sp.issparse(x):
        return x
    found = np.asarray(x)
    return found.astype(np.float64) if found.dtype == object else found


def copied_labels(Y: Any, which: np.ndarray) -> Any:
    """Return a copy of some of the labels in memory."""
    if isinstance(Y, CodedLabels | CodedSequences):
        return Y.copy_of(which)
    Y = plain_sequence(Y)
    return Y[which] if isinstance(Y, np.ndarray) else [Y[int(i)] for i in which]


def joined_labels(parts: list[Any], offsets: np.ndarray | None) -> Any:
    """Return the labels of several blocks as one sequence."""
    first = parts[0]
    if isinstance(first, CodedLabels | CodedSequences):
        codes = [code for part in parts for code in part.codes]
        rest = () if offsets is None else (offsets,)
        return type(first)(first.classes, codes, *rest)
    return np.concatenate(parts) if isinstance(first, np.ndarray) else list(chain(*parts))


# Sources


@dataclass
class Read:
    """The chunks of an iterable, mapped by a function; each iteration reads the iterable again."""

    chunks: Iterable[Any]
    function: Callable[..., Any]

    def __iter__(self) -> Iterator[Any]:
        return map(self.function, self.chunks)


def each(chunks: Iterable[Any], function: Callable[[Any], Any]) -> Iterable[Any]:
    """Return chunks mapped by a function; the chunks of an iterator can be read only once."""
    return map(function, chunks) if isinstance(chunks, Iterator) else Read(chunks, function)


def warn_of_parts(cache_bytes: int, better: int) -> None:
    """Warn that the cache is too small for all outputs, and name a size that is large enough."""
    warnings.warn(
        f"Streaming: cache_bytes = {cache_bytes} is too small for the outputs of all examples, so "
        f"they are read in parts, which takes longer; give at least {better}, or set "
        "keeps='examples' to accept this",
        stacklevel=3,
    )


class Stored:
    """Examples in mapped files, read by their numbers; the constructor initializes the model."""

    layout: Layout

    repeatable = True

    def __init__(self, model: Any, X: Any, Y: Any, sample_weight: Any = None):
        model.initialize(X, Y)
        self.X, self.Y, self.layout = X, Y, layout_of(model, X)
        self.n: int = len(Y)
        self.weights: np.ndarray | None = (
            None if sample_weight is None else check_weights(sample_weight, self.n)
        )
        self.weight: float = float(self.n if self.weights is None else self.weights.sum())
        features = X.nnz * (4.0 + X.dtype.itemsize) / max(1, int(X.firsts[-1]))
        # Bytes of all examples in memory while their features stay in the files.
        self.bound_bytes: int = STORED_ROW_BYTES * int(X.firsts[-1]) + EXAMPLE_BYTES * self.n
        self.row_bytes: Any = features if X.sparse else float(X.n_features * X.dtype.itemsize)

    def lengths(self, which: np.ndarray) -> np.ndarray:
        """The number of rows of each example, which is also the number of labels of its output."""
        if self.layout.kind == "rows":
            return np.ones(len(which), np.int64)
        return self.X.offsets[which + 1] - self.X.offsets[which]

    def parts(self, known: np.ndarray, most: float) -> Iterator[Part]:
        """Yield the examples that are not known, about `most` bytes at a time."""
        waiting = NO_EXAMPLES
        for first in range(0, self.n, RUN):
            waiting = np.concatenate([waiting, self._fresh(first, known)])
            last = first + RUN >= self.n
            while len(waiting):
                count = self._count(waiting, most)
                if count == len(waiting) and not last:
                    break  # more may fit
                index, waiting = waiting[:count], waiting[count:]
                weights = np.ones(count) if self.weights is None else self.weights[index]
                yield Part(self.layout, *self.layout.copy(self.X, self.Y, index), index, weights)

    def _fresh(self, first: int, known: np.ndarray) -> np.ndarray:
        index = np.arange(first, min(first + RUN, self.n))
        fresh = ~np.isin(index, known, assume_unique=True)
        if self.weights is not None:
            fresh &= self.weights[index] > 0
        return index[fresh]

    def _count(self, index: np.ndarray, most: float) -> int:
        """Estimate how many of these examples fit in `most` bytes; at least one."""
        lengths = self.lengths(index)
        each = self.layout.bytes_of(lengths, lengths * (ROW_BYTES + self.row_bytes))
        return max(1, int(np.searchsorted(np.cumsum(each), most, side="right")))


@dataclass(eq=False, repr=False)
class Chunks:
    """Chunks (X, Y) or (X, Y, weights) of an iterable; the first chunk initializes the model."""

    model: Any
    iterable: Iterable[Any]
    executor: Any = None
    n_jobs: int = 1
    passes: int = 0

    def __post_init__(self) -> None:
        self.repeatable: bool = not isinstance(self.iterable, Iterator)
        self.running: Iterator[Any] = iter(self.iterable)
        try:
            self.first: tuple[Any, Any, np.ndarray] = checked_chunk(next(self.running), 0)
        except StopIteration:
            raise ValueError("X is empty; at least one chunk is needed") from None
        X, Y, weights = self.first
        model, X = self.model, converted(self.model, X, self.n_jobs)
        model.initialize(X, Y)
        weights = weighed(model, Y, weights)
        self.n: int = len(Y)
        self.weight: float = float(weights.sum())
        self.first = X, portable(model, Y), weights
        self.layout: Layout = layout_of(model, X)

    def some(self, most: float) -> Part | None:
        """Return examples of the first chunk; None if all of them have weight 0."""
        X, Y, weights = self.first
        index = np.flatnonzero(weights > 0)[: max(1, int(most / EXAMPLE_BYTES))]
        if not len(index):
            return None
        return Part(self.layout, *self.layout.copy(X, Y, index), index, weights[index])

    def _all(self) -> Iterator[tuple[Any, Any, np.ndarray]]:
        """Yield the chunks of a pass; the first pass continues after the chunk already read."""
        fresh, self.passes = self.passes == 0, self.passes + 1
        if fresh:
            yield self.first
        running = self.running if fresh else iter(self.iterable)
        for number, chunk in enumerate(running, int(fresh)):
            X, Y, weights = checked_chunk(chunk, number)
            weights = weighed(self.model, Y, weights)
            yield converted(self.model, X, self.n_jobs), portable(self.model, Y), weights

    def parts(self, known: np.ndarray, most: float) -> Iterator[Part]:
        """Yield the examples that are not known, about `most` bytes at a time."""
        counted, first, weight = self.passes == 0, 0, 0.0
        for X, Y, weights in self._all():
            weight += float(weights.sum())
            if counted:
                self.n, self.weight = first + len(Y), weight
                bind_model(self.model, X, Y, None, self.executor)  # raises on unfit examples
            index = np.arange(first, first + len(Y))
            first += len(Y)
            fresh = np.flatnonzero((weights > 0) & ~np.isin(index, known))
            while len(fresh):
                some = fresh[: max(1, int(most / EXAMPLE_BYTES))]
                copy = self.layout.copy(X, Y, some)
                part = Part(self.layout, *copy, index[some], weights[some])
                ends = np.cumsum(part.bytes_each)
                count = max(1, int(np.searchsorted(ends, most, side="right")))
                yield part if count >= len(part) else part.select(np.arange(count))
                fresh = fresh[count:]
        if first != self.n:
            raise ValueError(
                f"X gave {self.n} examples in its first pass but {first} in a later one"
            )


def weighed(model: Any, Y: Any, weights: np.ndarray) -> np.ndarray:
    """The weights of the examples as the model changes them: 0 for an example without known labels."""
    return model.example_weights(Y, weights) if isinstance(model, Model) else weights


def checked_chunk(chunk: Any, number: int) -> tuple[Any, Any, np.ndarray]:
    """Return a chunk as X, Y and weights; refuse anything that is not a valid chunk."""
    if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
        raise ValueError(
            f"chunk {number} of X must be a tuple (X, Y) or (X, Y, sample_weight), got {type(chunk).__name__}"
        )
    X, Y = map(plain_sequence, chunk[:2])
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if n == 0 or n != len(Y):
        raise ValueError(
            f"chunk {number} of X must have equally many examples and outputs, at least one, got "
            f"{n} and {len(Y)}"
        )
    name = f"chunk {number} of X: sample_weight"
    weights = np.ones(n) if len(chunk) == 2 else floats(chunk[2], name)
    if weights.shape != (n,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(f"{name} must be {n} finite numbers that are not negative")
    return X, Y, weights
