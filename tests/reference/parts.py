"""All placements of the parts of a tree, one by one: the slow truth about models.Tree."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

Places = tuple[tuple[int, int], ...]


class TreeTruth:
    """Placements of all parts on the grid of x are its outputs; the loss is their mean distance."""

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
        """Features at the places of the parts, then the stretch of the springs and its square."""
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
