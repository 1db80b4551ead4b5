"""Factor graphs by enumeration: all labellings of small graphs, scored by the definition."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from .enumerate import dense_rows, with_bias, zero_one


def brute_force(counts: Any, unary: Any, links: Any, tables: Any) -> tuple[float, set[tuple]]:
    """The best value of a pairwise problem, and all labellings that attain it (to rounding)."""
    first = np.concatenate([[0], np.cumsum(counts)])
    starts = np.concatenate([[0], np.cumsum([counts[a] * counts[b] for a, b in links])])
    values = {}
    for y in product(*(range(k) for k in counts)):
        value = sum(unary[first[v] + k] for v, k in enumerate(y))
        for start, (a, b) in zip(starts, links, strict=False):
            value += tables[int(start) + y[a] * counts[b] + y[b]]
        values[y] = value
    top = max(values.values())
    return top, {y for y, value in values.items() if value >= top - 1e-9}


def random_links(generator: np.random.Generator, n: int, shape: str) -> np.ndarray:
    """Random links of a tree, a forest, a cycle, or of about half of all pairs; ends in either order."""
    if shape in ("tree", "forest"):
        links = [(int(generator.integers(v)), v) for v in range(1, n)]
        links = [pair for pair in links if shape == "tree" or generator.uniform() < 0.6]
    elif shape == "cycle":
        links = [(v, (v + 1) % n) for v in range(n)] if n > 2 else [(0, 1)] * (n == 2)
    else:
        pairs = [(a, b) for b in range(n) for a in range(b)]
        links = [pair for pair in pairs if generator.uniform() < 0.6]
    links = [pair[:: generator.choice([-1, 1])] for pair in links]
    order = generator.permutation(n)
    return np.array([(order[a], order[b]) for a, b in links], dtype=np.int32).reshape(-1, 2)


class GraphTruth:
    """Factor graphs with one type of nodes; examples are x = (nodes, edges, edge features).

    The outputs are the labellings of the nodes. The weights are unary (K, d [+1]) ravelled, then
    (P, d_e) ravelled; the kind of pairwise weights sets P.
    """

    def __init__(
        self,
        classes: Sequence[Any],
        n_features: int,
        kind: str = "full",
        n_edge_features: int | None = None,
        costs: np.ndarray | None = None,
        mean: bool = False,
        bias: float | None = None,
    ) -> None:
        self.classes, self.n_features, self.kind = list(classes), n_features, kind
        self.n_edge_features = n_edge_features
        self.costs = zero_one(len(self.classes)) if costs is None else np.asarray(costs)
        self.mean, self.bias = mean, bias
        K = len(self.classes)
        self.keys = {
            "full": [(a, b) for a in range(K) for b in range(K)],
            "symmetric": [(a, b) for a in range(K) for b in range(a, K)],
            "diagonal": [(a, a) for a in range(K)],
            "potts": [()],
        }[kind]
        width = 1 if n_edge_features is None else n_edge_features
        self.size_joint_feature = K * (n_features + (bias is not None)) + len(self.keys) * width

    def examples(self, X: Any) -> list[tuple]:
        """Dense parts; edges without features get None, which counts as the constant 1."""
        return [
            (dense_rows(x[0]), np.asarray(x[1]), dense_rows(x[2]) if len(x) > 2 else None)
            for x in X
        ]

    def outputs(self, x: tuple) -> list[tuple]:
        """Every labelling, K^N of them."""
        return list(product(self.classes, repeat=len(x[0])))

    def _key(self, a: int, b: int) -> tuple | None:
        if self.kind == "full":
            return (a, b)
        if self.kind == "symmetric":
            return (min(a, b), max(a, b))
        if a != b:
            return None
        return (a, a) if self.kind == "diagonal" else ()

    def joint_feature(self, x: tuple, y: Sequence[Any]) -> np.ndarray:
        """Sums of the features of nodes by label and of edges by pair of labels."""
        nodes, edges, features = x
        rows = with_bias(nodes, self.bias)
        codes = [self.classes.index(label) for label in y]
        unary = np.zeros((len(self.classes), rows.shape[1]))
        pairs = np.zeros((len(self.keys), 1 if features is None else features.shape[1]))
        for v, code in enumerate(codes):
            unary[code] += rows[v]
        for e, (a, b) in enumerate(edges):
            key = self._key(codes[a], codes[b])
            if key is not None:
                pairs[self.keys.index(key)] += 1.0 if features is None else features[e]
        return np.concatenate([unary.ravel(), pairs.ravel()])

    def loss(self, y: Sequence[Any], y_hat: Sequence[Any], node_weight: Any = None) -> float:
        """Sum (or mean) over nodes of node_weight * cost."""
        weights = np.ones(len(y)) if node_weight is None else np.asarray(node_weight)
        index = self.classes.index
        total = sum(
            weight * self.costs[index(a), index(b)]
            for weight, a, b in zip(weights, y, y_hat, strict=True)
        )
        return float(total / len(y) if self.mean else total)


class MultiLabelTruth:
    """Sets of labels as rows of 0 and 1; the weights are (L, d [+1]) ravelled, then one for each pair."""

    def __init__(
        self, n_labels: int, n_features: int, pairs: list, bias: float | None = None
    ) -> None:
        self.n_labels, self.pairs, self.bias = n_labels, pairs, bias
        self.size_joint_feature = n_labels * (n_features + (bias is not None)) + len(pairs)

    def examples(self, X: Any) -> list[np.ndarray]:
        """One dense row per example."""
        return list(dense_rows(X))

    def outputs(self, x: np.ndarray) -> list[tuple]:
        """All 2^L rows."""
        return list(product((0, 1), repeat=self.n_labels))

    def joint_feature(self, x: np.ndarray, y: Sequence[int]) -> np.ndarray:
        """x for each label that is on, and 1 for each pair that is on."""
        row = with_bias(np.asarray(x, dtype=np.float64), self.bias)
        together = np.array([float(y[a] and y[b]) for a, b in self.pairs])
        return np.concatenate([np.outer(y, row).ravel(), together])

    def loss(self, y: Sequence[int], y_hat: Sequence[int], node_weight: Any = None) -> float:
        """The number of wrong labels."""
        return float(np.sum(np.asarray(y) != np.asarray(y_hat)))
