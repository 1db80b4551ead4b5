"""Convert attributes to rows of features, in plain Python: the slow twin of ``data.AttributeEncoder``."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp


def pairs(node: Any) -> Iterator[tuple[Any, float]]:
    """Names and values: {"w": "dog", "len": 3} gives ("w=dog", 1), ("len", 3); a string is its own name."""
    if isinstance(node, str):
        yield node, 1.0
    elif isinstance(node, Mapping):
        for name, value in node.items():
            yield from pairs_of(name, value)
    else:
        for name in node:
            yield name, 1.0


def pairs_of(name: Any, value: Any) -> Iterator[tuple[Any, float]]:
    """Yield the name and value of each feature of one dict entry."""
    if value is None:
        return
    if isinstance(value, str):
        yield f"{name}={value}", 1.0
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            if not isinstance(one, str):
                raise TypeError(one)
            yield f"{name}={one}", 1.0
    elif isinstance(value, Mapping):
        for inner, own in value.items():
            yield from pairs_of(f"{name}:{inner}", own)
    else:
        yield name, float(value)


class Vocabulary:
    """The names seen in training; names that first appear later are ignored."""

    def __init__(self) -> None:
        self.index: dict[Any, int] = {}
        self.counts: dict[Any, int] = {}

    def transform(self, X: Sequence[Any], grow: bool = False) -> list[sp.csr_matrix]:
        """Return one CSR matrix per sequence; the columns are all names known at the end."""
        rows = [[self._row(node, i, t, grow) for t, node in enumerate(x)] for i, x in enumerate(X)]
        return [matrix(nodes, len(self.index)) for nodes in rows]

    def _row(self, node: Any, example: int, position: int, grow: bool) -> dict[int, float]:
        row: dict[int, float] = {}
        try:
            for name, value in pairs(node):
                known = self.index.get(name)
                column = self.index.setdefault(name, len(self.index)) if grow else known
                self.counts[name] = self.counts.get(name, 0) + (value != 0)
                if column is not None:
                    row[column] = row.get(column, 0.0) + value
        except (TypeError, ValueError, OverflowError):
            raise ValueError(
                f"X[{example}], token {position}: expected a string, strings, or a dict from "
                f"attribute names to numbers or strings, got {node!r}"
            ) from None
        return row

    def frequent(self, least: int) -> Vocabulary:
        """Return a vocabulary of the names that were given at least this often, in the same order."""
        kept = [name for name in self.index if self.counts[name] >= least]
        found = Vocabulary()
        found.index = {name: j for j, name in enumerate(kept)}
        return found


def hashed(X: Sequence[Any], n_features: int) -> list[sp.csr_matrix]:
    """Return CSR matrices whose columns are checksums of the names."""
    found = []
    for x in X:
        rows: list[dict[int, float]] = []
        for node in x:
            row: dict[int, float] = {}
            for name, value in pairs(node):
                column = zlib.crc32(name.encode("utf-8", "surrogatepass")) % n_features
                row[column] = row.get(column, 0.0) + value
            rows.append(row)
        found.append(matrix(rows, n_features))
    return found


def matrix(rows: list[dict[int, float]], width: int) -> sp.csr_matrix:
    """Return the CSR matrix of rows that map columns to values."""
    columns = [sorted(row) for row in rows]
    indptr = np.cumsum([0, *map(len, columns)]).astype(np.int32)
    indices = np.array([c for row in columns for c in row], dtype=np.int32)
    data = np.array(
        [row[c] for row, found in zip(rows, columns, strict=True) for c in found], dtype=np.float64
    )
    return sp.csr_matrix((data, indices, indptr), shape=(len(rows), width))
