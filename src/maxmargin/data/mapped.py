"""Rows of features that stay where they are: parts of one tall matrix, each an array or a CSR matrix.

The parts may be mapped files. ``MappedRows`` behaves as the rows of a matrix, ``MappedSequences`` as a
list of (T_i, d) matrices; the core reads the parts in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.data.mapping import MappedParts


class Mapped:
    """Parts with as many columns each, one below the other; CSR matrices where it is ``sparse``."""

    def __init__(self, parts: Sequence[Any], n_features: int):
        watched = isinstance(parts, MappedParts)
        self.parts: Sequence[Any] = parts if watched else list(parts)
        plain = parts.plain if isinstance(parts, MappedParts) else self.parts
        self.n_features, self.dtype, self.sparse = n_features, plain[0].dtype, sp.issparse(plain[0])
        self.nnz = sum(part.nnz for part in plain) if self.sparse else 0
        self.firsts = np.concatenate([[0], np.cumsum([part.shape[0] for part in plain])])

    def run(self, first: int, last: int) -> Any:
        """Rows first to last, of one part: a view of a dense part, or a CSR matrix."""
        k = int(np.searchsorted(self.firsts, first, side="right")) - 1
        start = int(self.firsts[k])
        return row_slice(self.parts[k], first - start, last - start)


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
        rows = np.arange(len(self))[key]
        return self._gather(rows)

    def _slice(self, first: int, last: int) -> MappedRows:
        pieces, bounds = [], self.firsts.tolist()
        for k in range(len(self.parts)):
            a, b = max(first, bounds[k]), min(last, bounds[k + 1])
            if a < b:
                pieces.append(row_slice(self.parts[k], a - bounds[k], b - bounds[k]))
        pieces = pieces or [row_slice(self.parts[0], 0, 0)]
        watched = isinstance(self.parts, MappedParts)
        return MappedRows(MappedParts(pieces) if watched else pieces, self.n_features)

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
        return sp.vstack([sp.csr_matrix(part) for part in self.parts], format="csr")


class MappedSequences(Mapped, Sequence):
    """Matrices (T_i, d), one below the other in parts: X of a chain."""

    def __init__(self, parts: Sequence[Any], n_features: int, offsets: np.ndarray):
        super().__init__(parts, n_features)
        self.offsets = offsets  # rows of sequence i: offsets[i] .. offsets[i + 1]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, key: Any) -> Any:
        """A sequence, or a list of several."""
        if isinstance(key, int | np.integer):
            i = range(len(self))[key]
            return self.run(int(self.offsets[i]), int(self.offsets[i + 1]))
        return [self[int(i)] for i in np.arange(len(self))[key]]
