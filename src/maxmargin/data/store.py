"""Examples copied into memory as closely as they go, in parts, and taken out again one by one.

    rows        one matrix a part: X of a flat model
    sequences   the matrices of a part, one below the other: X of a chain
    objects     whatever they are, in a list

Dense rows with many zeros become CSR; of a CSR part whose values are all one only the indices are kept.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.data.labels import CodedLabels, CodedSequences
from maxmargin.data.mapped import Mapped, MappedRows, MappedSequences, csr_of
from maxmargin.data.memory import float_type
from maxmargin.data.scratch import ranges

SPARSE = 0.6  # dense rows become sparse where that takes less than this part of their bytes
# What an example costs besides its features: in the core and in arrays of the solver, for every row and
# for every example.
BYTES_A_ROW, BYTES_AN_EXAMPLE = 64, 256
LONGEST_TABLE = 128  # positions, as in cpp/models/chain.hpp


@dataclass
class Part:
    """Some examples: X as the kind has it, labels, and for sequences where each begins."""

    X: Any
    Y: Any
    offsets: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.X) if isinstance(self.X, list) else self._rows()

    def _rows(self) -> int:
        return self.X.shape[0] if self.offsets is None else len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Rows of each example."""
        return np.ones(len(self), np.int64) if self.offsets is None else np.diff(self.offsets)


def kind_of(X: Any, flat: bool | None) -> str:
    """How examples can be stored; ``flat`` says whether a compiled model reads rows or sequences of rows."""
    if isinstance(X, Mapped) and flat is not None:
        return "rows" if isinstance(X, MappedRows) else "sequences"
    if flat is None:
        return "objects"
    if flat:
        return "rows"
    matrices = all(sp.issparse(x) or (isinstance(x, np.ndarray) and x.ndim == 2) for x in X)
    return "sequences" if matrices else "objects"


@dataclass
class Store:
    """Examples in memory."""

    kind: str
    n_features: int = 0
    parts: list[Part] = field(default_factory=list)
    sparse: bool | None = None  # the layout of the parts, once it is known
    dtype: Any = None
    ones: np.ndarray = field(default_factory=lambda: np.empty(0, np.float32))

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def copy_of(self, X: Any, Y: Any, which: np.ndarray) -> Part:
        """Some of these examples as a part of its own."""
        if self.kind == "objects":
            return Part([X[int(i)] for i in which], [Y[int(i)] for i in which])
        if self.kind == "rows":
            X = X if isinstance(X, MappedRows) else as_matrix(X)
            rows = X.tocsr()[which] if sp.issparse(X) else X[which]
            return Part(self.compact(rows), labels_of(Y, which))
        lengths = lengths_of(X, which)
        if isinstance(X, MappedSequences):
            rows = MappedRows(X.parts, X.n_features)[ranges(X.offsets[which], lengths)]
        else:
            matrices = [as_matrix(X[int(i)]) for i in which]
            rows = (
                sp.vstack(matrices, "csr")
                if any(map(sp.issparse, matrices))
                else np.vstack(matrices)
            )
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return Part(self.compact(rows), labels_of(Y, which), offsets)

    def compact(self, rows: Any) -> Any:
        """A matrix as the parts have it."""
        self.n_features = rows.shape[1]
        if self.dtype is None:
            self.dtype = float_type(rows.dtype)
        if np.result_type(rows.dtype, self.dtype) != self.dtype:
            raise ValueError(
                f"X of this chunk is of {rows.dtype}, that of the first of {np.dtype(self.dtype)}: "
                "numbers would be rounded; give all chunks the wider type"
            )
        if self.sparse is None:
            self.sparse = sp.issparse(rows) or (
                np.count_nonzero(rows) * (4 + rows.itemsize) < SPARSE * rows.nbytes
            )
        if not self.sparse and sp.issparse(rows):
            raise ValueError(
                "X of this chunk is sparse, that of the first is dense: give all chunks of one kind"
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

    def joined(self) -> tuple[Any, Any]:
        """X and Y of all parts, as a model takes them; features are not copied."""
        X, Y = [part.X for part in self.parts], [part.Y for part in self.parts]
        if self.kind == "objects":
            return functools.reduce(operator.iadd, X, []), functools.reduce(operator.iadd, Y, [])
        if self.kind == "rows":
            return MappedRows(X, self.n_features), joined_labels(Y, None)
        offsets = np.concatenate([[0], *(part.lengths for part in self.parts)]).cumsum()
        return MappedSequences(X, self.n_features, offsets), joined_labels(Y, offsets)

    def bytes_each(self) -> np.ndarray:
        """What each example takes, with what the core and the solver add to it; no planes yet."""
        return np.concatenate([bytes_of(part) for part in self.parts] or [np.empty(0)])

    def keep(self, mask: np.ndarray) -> None:
        """Leave the other examples out; a part at a time, so that little is held twice."""
        first = 0
        for k, part in enumerate(self.parts):
            own = mask[first : first + len(part)]
            first += len(part)
            if not own.all():
                self.parts[k] = self.selected(part, np.flatnonzero(own))
        self.parts = [part for part in self.parts if len(part)]

    def selected(self, part: Part, which: np.ndarray) -> Part:
        """Some examples of a part, as a copy."""
        if self.kind == "objects":
            return Part([part.X[i] for i in which], [part.Y[i] for i in which])
        if self.kind == "rows":
            return Part(self.compact(part.X[which]), labels_of(part.Y, which))
        assert part.offsets is not None
        lengths = part.lengths[which]
        rows = ranges(part.offsets[which], lengths)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return Part(self.compact(part.X[rows]), labels_of(part.Y, which), offsets)


def bytes_of(part: Part) -> np.ndarray:
    """What each example of a part takes besides its planes."""
    if isinstance(part.X, list):
        own = np.array([bytes_of_object(x) for x in part.X], dtype=np.int64)
        return own + BYTES_AN_EXAMPLE + BYTES_A_ROW
    if sp.issparse(part.X):
        shared = part.X.data.base is not None and (part.X.data[:1] == 1).all()
        each = 4 * np.diff(part.X.indptr) * (1 if shared else 1 + part.X.dtype.itemsize // 4)
    else:
        each = np.full(part.X.shape[0], part.X.shape[1] * part.X.itemsize)
    ends = np.concatenate([[0], np.cumsum(each.astype(np.int64) + BYTES_A_ROW)])
    if part.offsets is None:
        return np.diff(ends) + BYTES_AN_EXAMPLE
    return np.diff(ends[part.offsets]) + BYTES_AN_EXAMPLE + table_bytes(part.lengths)


def table_bytes(lengths: np.ndarray) -> np.ndarray:
    """What the core's table of inner products of its positions takes for a sequence."""
    return np.where(lengths <= LONGEST_TABLE, 2 * lengths * (lengths - 1), 0)


def bytes_of_object(x: Any) -> int:
    """About how many bytes one example takes."""
    if sp.issparse(x):
        return 12 * x.nnz + 200
    if isinstance(x, tuple | dict):  # a graph: features, edges, and what belongs to them
        parts = x.values() if isinstance(x, dict) else x
        return 100 + sum(bytes_of_object(part) for part in parts if part is not None)
    return x.nbytes + 100 if hasattr(x, "nbytes") else 100 * np.size(x)


def lengths_of(X: Any, which: np.ndarray) -> np.ndarray:
    """Rows of some sequences."""
    if isinstance(X, MappedSequences):
        return X.offsets[which + 1] - X.offsets[which]
    return np.array([as_matrix(X[int(i)]).shape[0] for i in which], dtype=np.int64)


def as_matrix(x: Any) -> Any:
    """Rows of features: lists and data frames become arrays."""
    if sp.issparse(x):
        return x
    found = np.asarray(x)
    return found.astype(np.float64) if found.dtype == object else found


def labels_of(Y: Any, which: np.ndarray) -> Any:
    """Some of the labels, as a copy in memory."""
    if isinstance(Y, CodedLabels | CodedSequences):
        return Y.copy_of(which)
    Y = Y.to_numpy() if hasattr(Y, "to_numpy") else Y
    return Y[which] if isinstance(Y, np.ndarray) else [Y[int(i)] for i in which]


def joined_labels(parts: Sequence[Any], offsets: np.ndarray | None) -> Any:
    """Labels of several parts."""
    first = parts[0]
    if isinstance(first, CodedLabels):
        return CodedLabels(first.classes, [code for part in parts for code in part.codes])
    if isinstance(first, CodedSequences):
        codes = [code for part in parts for code in part.codes]
        return CodedSequences(first.classes, codes, offsets)  # type: ignore[arg-type]
    if isinstance(first, np.ndarray):
        return np.concatenate(parts)
    return [y for part in parts for y in part]
