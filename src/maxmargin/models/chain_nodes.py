"""The pairs (feature, label) of a chain that have a weight: all pairs, or the pairs seen in training.

    sum_t <w_{y_t}, x_t>  =  sum_t sum_j x_tj w(j, y_t),     w(j, k) = 0 for a pair (j, k) without a weight

In ``coef_``, all pairs form a table (K, d) ravelled. Observed pairs are ordered feature by feature, and by
label within a feature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin._core import core
from maxmargin.io.fields import table

FEATURES = ("all", "observed")
FILE_ARRAYS = ("pair_counts", "pair_labels")


@dataclass
class ChainNodes:
    """The weights of nodes of a fitted chain.

    Parameters
    ----------
    labels, width : int
        K, and d with the bias.
    pairs : core.Pairs or None
        The pairs that have a weight; None: all.
    """

    labels: int
    width: int
    pairs: Any = None

    def __post_init__(self) -> None:
        pairs, width = self.pairs, self.width
        if pairs is not None and len(pairs.first) != width + 1:
            raise ValueError(f"pairs of {len(pairs.first) - 1} features, but there are {width}")
        self.size: int = self.labels * width if pairs is None else len(pairs)

    def select(self, sums: np.ndarray) -> np.ndarray:
        """Select the entries of a table (K, d) that have a weight, in the order of ``coef_``."""
        if self.pairs is None:
            return sums.ravel()
        features = np.repeat(np.arange(self.width), np.diff(self.pairs.first))
        return sums[self.pairs.label, features]

    def unpack(self, w: np.ndarray, bias: float | None) -> dict[str, Any]:
        """Return the parts unary (K, d), a sparse matrix (CSC) if only pairs have weights, and bias (K,)."""
        shape = self.labels, self.width
        parts: dict[str, Any] = {}
        if self.pairs is None:
            parts["unary"] = w.reshape(shape)
        else:
            parts["unary"] = sp.csc_matrix((w, self.pairs.label, self.pairs.first), shape=shape)
        if bias is not None:
            last = parts["unary"][:, [-1]]
            parts["bias"] = (last.toarray() if sp.issparse(last) else last).ravel() * bias
            parts["unary"] = parts["unary"][:, :-1]
        return parts

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the pairs for a model file."""
        if self.pairs is None:
            return {}
        counts = np.diff(self.pairs.first).astype(np.uint16)  # at most the number of labels
        return dict(zip(FILE_ARRAYS, (counts, self.pairs.label), strict=True))


def saved_label_pairs(arrays: dict[str, np.ndarray], labels: int) -> Any:
    """Read the pairs of a model file; None if it has none. Raises an error for invalid pairs."""
    if not any(name in arrays for name in FILE_ARRAYS):
        return None
    counts, own = (table(arrays, name, np.uint16, -1) for name in FILE_ARRAYS)
    first = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    return core.Pairs(first, own, labels)
