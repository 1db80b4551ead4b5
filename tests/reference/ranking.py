"""All orders of the candidates of a query, one by one: the slow reference for models.Ranking.

The grades decide which pairs count, so an example here consists of its rows and its grades.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from .enumerate import dense_rows

Order = tuple[int, ...]  # numbers of candidates, best first


class RankingTruth:
    """The outputs are orders; the loss is the share of grade differences that are in the wrong order."""

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
        """The candidates by decreasing grade; equal grades keep their order."""
        return tuple(sorted(range(len(y)), key=lambda j: (-y[j], j)))

    def wrong(self, grades: np.ndarray, y: Any) -> list[tuple[int, int]]:
        """Pairs (a, b) that y orders wrongly: a has the higher grade, but b comes first."""
        if not isinstance(y, tuple):  # y holds the true grades
            return []
        pairs = [(a, b) for k, b in enumerate(y) for a in y[k + 1 :]]
        return [(a, b) for a, b in pairs if grades[a] > grades[b]]

    def total(self, grades: np.ndarray) -> float:
        """The sum of the grade differences over all pairs, or 1 if it is zero."""
        return sum(a - b for a in grades for b in grades if a > b) or 1.0

    def joint_feature(self, x: tuple, y: Any) -> np.ndarray:
        """Minus the sum of x_a - x_b over the wrong pairs, divided by the sum of all differences."""
        rows, grades = x
        moved = [rows[b] - rows[a] for a, b in self.wrong(grades, y)]
        return np.sum(moved, axis=0, initial=0.0) * np.ones(rows.shape[1]) / self.total(grades)

    def loss(self, y: Any, y_hat: Any, node_weight: Any = None) -> float:
        """The sum of grade differences over the wrong pairs, divided by the sum over all pairs."""
        grades = np.asarray(y, float)
        wrong = self.wrong(grades, y_hat)
        return float(sum(grades[a] - grades[b] for a, b in wrong) / self.total(grades))
