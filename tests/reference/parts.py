"""All placements of the parts of a tree, one by one: the slow reference for models.Tree."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

Places = tuple[tuple[int, int], ...]


class TreeTruth:
    """The outputs are the placements of all parts on the grid of x; the loss is their mean distance."""

    def __init__(self, edges: list[tuple[int, int]], Y: list[Places], n_features: int) -> None:
        self.edges, self.n_parts = edges, len(edges) + 1
        places = np.array(Y, dtype=np.float64)
        lengths = [places[:, child] - places[:, parent] for parent, child in edges]
        self.anchors = [length.mean(axis=0) for length in lengths]
        self.spreads = [3 * np.maximum(length.std(axis=0), 1.0) for length in lengths]
        self.size_joint_feature = self.n_parts * n_features + 4 * len(edges)

    def examples(self, X: Any) -> list[np.ndarray]:
        """Maps in double precision."""
        return [np.asarray(x, dtype=np.float64) for x in X]

    def outputs(self, x: np.ndarray) -> list[Places]:
        """Every placement."""
        grid = list(product(range(x.shape[0]), range(x.shape[1])))
        return list(product(grid, repeat=self.n_parts))

    def joint_feature(self, x: np.ndarray, y: Places) -> np.ndarray:
        """Features at the places of the parts, then the stretch of each spring and its square."""
        values = [float(v) for place in y for v in x[place]]
        for (parent, child), anchor, spread in zip(
            self.edges, self.anchors, self.spreads, strict=True
        ):
            for axis in (0, 1):
                z = (y[child][axis] - y[parent][axis] - anchor[axis]) / spread[axis]
                values += [z, z * z]
        return np.array(values)

    def loss(self, y: Places, y_hat: Places, node_weight: Any = None) -> float:
        """Mean distance."""
        return float(
            np.mean([np.hypot(a - c, b - d) for (a, b), (c, d) in zip(y, y_hat, strict=True)])
        )


class TypedTreeTruth(TreeTruth):
    """A tree whose parts have types; an output gives (row, column, type) of each part.

    The weights: states of the parts (S, d), springs (edges by types of the child, 4), then one
    weight for each pair of types of parent and child, for edges with several types. Only parts with
    a known place have a loss.
    """

    def __init__(
        self, edges: list[tuple[int, int]], Y: list[Any], n_features: int, types: list[int]
    ) -> None:
        super().__init__(edges, [[(0, 0)] * (len(edges) + 1)], n_features)
        self.types, self.n_features = types, n_features
        places = np.array(Y, dtype=np.float64)
        lengths = [places[:, child] - places[:, parent] for parent, child in edges]
        self.anchors = [np.nanmean(length, axis=0) for length in lengths]
        self.spreads = [3 * np.maximum(np.nanstd(length, axis=0), 1.0) for length in lengths]

    def outputs(self, x: np.ndarray) -> list[Any]:
        """Every placement with every choice of types."""
        rows, columns = x.shape[:2]
        own = [list(product(range(rows), range(columns), range(count))) for count in self.types]
        return list(product(*own))

    def joint_feature(self, x: np.ndarray, y: Any) -> np.ndarray:
        """The joint features in the documented order."""
        values: list[float] = []
        for count, (row, column, own) in zip(self.types, y, strict=True):
            for t in range(count):
                values += list(x[row, column] if t == own else np.zeros(self.n_features))
        stretch = iter(super().joint_feature(x, tuple(z[:2] for z in y))[-4 * len(self.edges) :])
        for _, child in self.edges:
            spring = [next(stretch) for _ in range(4)]
            for t in range(self.types[child]):
                values += spring if t == y[child][2] else [0.0] * 4
        for parent, child in self.edges:
            if self.types[parent] * self.types[child] > 1:
                values += [
                    float((a, b) == (y[parent][2], y[child][2]))
                    for a, b in product(range(self.types[parent]), range(self.types[child]))
                ]
        return np.array(values)

    def known_loss(self, y: Any, y_hat: Any) -> float:
        """The distances of the parts whose true place is not NaN, divided by the number of all parts."""
        pairs = zip(y, y_hat, strict=True)
        return sum(np.hypot(a[0] - b[0], a[1] - b[1]) for a, b in pairs if a[0] == a[0]) / len(y)
