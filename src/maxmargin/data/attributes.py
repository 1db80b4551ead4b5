"""Tokens described by attributes (strings, lists of strings, dicts) as sparse features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp


def are_attributes(X: Sequence[Any]) -> bool:
    """Whether the sequences hold described tokens rather than numbers."""
    for x in X:
        if isinstance(x, np.ndarray) or sp.issparse(x):
            return False
        for token in x:
            if isinstance(token, list | tuple):
                if len(token) == 0:  # a token without attributes: look at the next one
                    continue
                return isinstance(token[0], str)
            return isinstance(token, str | Mapping | set | frozenset)
    return False


def attributes(token: Any) -> Iterable[tuple[str, float]]:
    """Names and values: {'w': 'dog', 'len': 3} gives ('w=dog', 1), ('len', 3); a string is its own name."""
    if isinstance(token, str):
        return [(token, 1.0)]
    if isinstance(token, Mapping):
        return [
            (f"{k}={v}", 1.0) if isinstance(v, str) else (k, float(v)) for k, v in token.items()
        ]
    return [(name, 1.0) for name in token]


class Vocabulary:
    """Attribute names seen in training; names first seen later are left out."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.index)

    def transform(self, X: Sequence[Any], grow: bool = False) -> list[sp.csr_matrix]:
        """One CSR matrix for each sequence, all with as many columns as names are known at the end."""
        rows = [
            [self._row(token, i, t, grow) for t, token in enumerate(x)] for i, x in enumerate(X)
        ]
        return [self._matrix(tokens) for tokens in rows]

    def _row(self, token: Any, example: int, position: int, grow: bool) -> dict[int, float]:
        row: dict[int, float] = {}
        try:
            for name, value in attributes(token):
                column = (
                    self.index.setdefault(name, len(self.index)) if grow else self.index.get(name)
                )
                if column is not None:
                    row[column] = row.get(column, 0.0) + value
        except (TypeError, ValueError):
            raise ValueError(
                f"X[{example}], token {position}: expected a string, strings or a dict of attributes "
                f"with numbers or strings as values, got {token!r}"
            ) from None
        return row

    def _matrix(self, tokens: list[dict[int, float]]) -> sp.csr_matrix:
        columns = [sorted(row) for row in tokens]
        indptr = np.cumsum([0, *map(len, columns)]).astype(np.int32)
        indices = np.array([c for row in columns for c in row], dtype=np.int32)
        data = np.array(
            [row[c] for row, found in zip(tokens, columns, strict=True) for c in found],
            dtype=np.float64,
        )
        return sp.csr_matrix((data, indices, indptr), shape=(len(tokens), len(self.index)))
