"""All orders of the candidates of a query, one by one: the slow truth about models.Ranking.

Which pairs count depends on the grades, so that an example here is its rows together with its grades.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from .enumerate import dense_rows

Order = tuple[int, ...]  # numbers of candidates, best first


class RankingTruth:
    """Orders are the outputs; the loss is the share of differences of grades in the wrong order."""

    def __init__(self, Y: list, n_features: int) -> None:
        self.Y, self.size_joint_feature = Y, n_features
        self.classes = range(max(map(len, Y)))  # numbers of candidates

    def examples(self, X: Any) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows in double precision, with their grades."""
        return [(dense_rows(x), np.asarray(y, float)) for x, y in zip(X, self.Y, strict=True)]

    def outputs(self, x: tuple) -> list[Order]:
        """Every order."""
        return list(permutations(range(len(x[1]))))

    def true_output(self, y: list) -> Order:
        """The candidates by their grades, equals in their order."""
        return tuple(sorted(range(len(y)), key=lambda j: (-y[j], j)))

    def wrong(self, grades: np.ndarray, y: Any) -> list[tuple[int, int]]:
        """Pairs (a, b) with the grade of a above that of b, which y has the wrong way round."""
        if not isinstance(y, tuple):  # the true grades
            return []
        pairs = [(a, b) for k, b in enumerate(y) for a in y[k + 1 :]]
        return [(a, b) for a, b in pairs if grades[a] > grades[b]]

    def total(self, grades: np.ndarray) -> float:
        """The differences of all pairs, or 1 where there is none."""
        return sum(a - b for a in grades for b in grades if a > b) or 1.0

    def joint_feature(self, x: tuple, y: Any) -> np.ndarray:
        """Minus x_a - x_b over the wrong pairs, by the sum of all differences."""
        rows, grades = x
        moved = [rows[b] - rows[a] for a, b in self.wrong(grades, y)]
        return np.sum(moved, axis=0, initial=0.0) * np.ones(rows.shape[1]) / self.total(grades)

    def loss(self, y: Any, y_hat: Any, node_weight: Any = None) -> float:
        """Differences of grades over the wrong pairs, by the sum of all."""
        grades = np.asarray(y, float)
        wrong = self.wrong(grades, y_hat)
        return float(sum(grades[a] - grades[b] for a, b in wrong) / self.total(grades))
