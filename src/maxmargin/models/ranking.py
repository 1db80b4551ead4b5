"""Ranking: the order of the candidates of a query, learnt from grades.

    s_j = <w, x_j>,   the candidates of a query are sorted by their scores
    Delta = 1/N sum of g_a - g_b over the wrongly ordered pairs with g_a > g_b
    N     = sum of g_a - g_b over all pairs with g_a > g_b
    xi    = 1/N sum over all pairs of max(0, (g_a - g_b) - (s_a - s_b))

With grades 0 and 1 the loss is the share of swapped pairs, which is 1 minus the area under the ROC curve of
the query. The grades decide which pairs count, so an order without grades has no joint features.

``coef_`` is w, (d,). There is no bias: a constant would shift the scores of all candidates alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from maxmargin._core import core
from maxmargin.data.arrays import check_lengths, floats
from maxmargin.data.memory import FeatureRows, feature_rows
from maxmargin.io.fields import MOST_FEATURES, count
from maxmargin.models.examples import CompiledExamples
from maxmargin.models.extent import Extent, row_lengths, row_terms, sums_between
from maxmargin.models.protocol import Model, as_weights


class RankingExamples(CompiledExamples):
    """Queries with their candidates, in the core."""

    def __init__(self, rows: FeatureRows, grades: np.ndarray):
        self.rows, self.grades = rows, grades
        self.take(core.RankingData(rows.core.rows, rows.offsets, grades))

    def extent(self) -> Extent:
        offsets = self.rows.offsets
        sizes, owner = np.diff(offsets), np.repeat(np.arange(self.n), np.diff(offsets))
        grades = self.grades[np.lexsort((self.grades, owner))]
        places = np.arange(len(grades)) - offsets[owner]
        # Scores are divided by the sum of all differences of grades; a candidate is in at most `sizes` pairs.
        total = sums_between((2 * places - sizes[owner] + 1) * grades, offsets)
        pairs = np.divide(sizes, total, out=np.zeros(self.n), where=total > 0)
        lengths = pairs * sums_between(row_lengths(self.rows), offsets)
        largest = int(sizes.max(initial=1))
        return Extent(lengths, row_terms(self.rows) + largest**2, largest, len(grades))

    def output_sizes(self, blocks: np.ndarray) -> np.ndarray:
        return np.diff(self.rows.offsets)[blocks]

    def decode(self, codes: np.ndarray) -> list[np.ndarray]:
        return [heights(codes[a:b]) for a, b in pairwise(self.rows.offsets.tolist())]

    def scores(self, w: np.ndarray, n_jobs: int = 1) -> list[np.ndarray]:
        """Return <w, x_j> of the candidates of every query."""
        found = self.rows.core.rows.scores(w, n_jobs)
        return [found[a:b] for a, b in pairwise(self.rows.offsets.tolist())]


def heights(order: np.ndarray) -> np.ndarray:
    """Return, for each candidate, how many are ranked below it; ``order`` lists candidates best first."""
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.arange(len(order))[::-1]
    return found


class Ranking(Model):
    """Candidates of a query, in order.

    X is a list of arrays or CSR matrices (m_i, d), with a row for each candidate of a query. Y is a list of
    grades, (m_i,). Grades are any numbers; higher means better. The difference of two grades is the margin
    that their scores must have. A prediction gives, for each candidate, the number of candidates of its query
    below it, so the best candidate has the largest number.
    """

    size_joint_feature: int

    flat: ClassVar[bool] = False

    def initialize(self, X: Any, Y: Any) -> None:
        """Learn the number of features."""
        check_lengths(X, Y)
        self._settle(feature_rows(X, None, None, names="X[{}]").n_features)

    def _settle(self, n_features: int) -> None:
        self.n_features_ = self.size_joint_feature = n_features

    def read(self, X: Any) -> FeatureRows:
        """Copy the candidates of all queries into the core."""
        rows = feature_rows(X, self.n_features_, None, names="X[{}]")
        rows.check_filled("has no candidates; at least one is needed")
        return rows

    def bind(self, X: Any, Y: Any = None, node_weight: Any = None) -> RankingExamples:
        check_lengths(X, Y)
        if node_weight is not None:
            raise ValueError(
                "node_weight must be None, because a query has one loss; use sample_weight, or "
                "other grades"
            )
        rows = self.read(X)
        lengths = np.diff(rows.offsets)
        return RankingExamples(rows, np.zeros(lengths.sum()) if Y is None else grades(Y, lengths))

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Raise ValueError, because the pairs that count depend on the true grades."""
        raise ValueError(
            "Ranking has no joint_feature, because the true grades decide which pairs of "
            "candidates count; the score of a candidate is the product of its row with coef_"
        )

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return Delta(y, y_hat), the share of grade differences in the wrong order; ties count half."""
        right, total = self.agreement(y, y_hat)
        return 1.0 - right / total if total > 0 else 0.0

    def agreement(self, y: Any, y_hat: Any) -> tuple[float, float]:
        """Return the sum of grade differences in the right order, and the sum over all pairs."""
        true, found = floats(y, "Y"), floats(y_hat, "the prediction")
        if true.shape != found.shape or true.ndim != 1:
            raise ValueError(f"grades of shape {true.shape} and {found.shape} cannot be compared")
        better = np.maximum(true[:, None] - true[None, :], 0.0)
        order = np.sign(found[:, None] - found[None, :])
        return float((better * (1 + order)).sum() / 2), float(better.sum())

    def scores(self, X: Any, w: np.ndarray) -> list[np.ndarray]:
        """Return the score of every candidate."""
        return self.bind(X).scores(as_weights(w))

    def unpack(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """Return the named parts of w: ``weights`` (d,)."""
        return {"weights": np.asarray(w)}

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {"n_features": self.n_features_}, {}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Ranking:
        model = cls()
        model._settle(count(state, "n_features", 1, MOST_FEATURES))
        return model


def grades(Y: Sequence[Any], lengths: np.ndarray) -> np.ndarray:
    """Return the grades of all candidates, one query after the other."""
    parts = [floats(Y[i], f"Y[{i}]") for i in range(len(lengths))]
    for i, (part, length) in enumerate(zip(parts, lengths, strict=True)):
        if part.shape != (length,):
            raise ValueError(
                f"Y[{i}] must be {length} grades, one for each candidate, got shape {part.shape}"
            )
        if not np.isfinite(part).all():
            raise ValueError(f"Y[{i}] has a grade that is not finite")
    return np.concatenate(parts)
