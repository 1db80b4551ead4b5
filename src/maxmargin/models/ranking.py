"""Ranking: the order of the candidates of a query, learnt from grades.

    s_j = <w, x_j>,   the candidates of a query in the order of their scores
    Delta = 1/N sum of g_a - g_b over the pairs, g_a > g_b, in the wrong order;   N: that of all pairs
    xi    = 1/N sum over all pairs of max(0, (g_a - g_b) - (s_a - s_b))

With grades 0 and 1 the loss is the share of swapped pairs, 1 - the area under the ROC curve of a query. Which
pairs count depends on the grades, so that an order has no joint features apart from them.

``coef_`` is w, (d,). There is no bias: a constant moves all candidates alike.
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
        # The unit of scores is the sum of all differences of grades; a candidate is in `sizes` pairs at most.
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
        """<w, x_j> of the candidates of every query."""
        found = self.rows.core.rows.scores(w, n_jobs)
        return [found[a:b] for a, b in pairwise(self.rows.offsets.tolist())]


def heights(order: np.ndarray) -> np.ndarray:
    """How many candidates are below each, from their numbers, best first."""
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.arange(len(order))[::-1]
    return found


class Ranking(Model):
    """Candidates of a query, in order.

    X is a list of arrays or CSR matrices (m_i, d): a row for each candidate of a query. Y is a list of
    grades, (m_i,): any numbers, the higher the better; how much better says how large the margin must be. A
    prediction counts, for each candidate, how many of its query are below it: the best has the most.
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
        """The candidates of all queries, in the core."""
        rows = feature_rows(X, self.n_features_, None, names="X[{}]")
        rows.check_filled("has no candidates: at least one is needed")
        return rows

    def bind(self, X: Any, Y: Any = None, node_weight: Any = None) -> RankingExamples:
        check_lengths(X, Y)
        if node_weight is not None:
            raise ValueError(
                "node_weight: a query has one loss; use sample_weight, or other grades"
            )
        rows = self.read(X)
        lengths = np.diff(rows.offsets)
        return RankingExamples(rows, np.zeros(lengths.sum()) if Y is None else grades(Y, lengths))

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Refused: which pairs of candidates count depends on the true grades."""
        raise ValueError(
            "Ranking has no joint_feature: which pairs of candidates count depends on the true grades; the "
            "score of a candidate is the product of its row with coef_"
        )

    def loss(self, y: Any, y_hat: Any) -> float:
        """Delta(y, y_hat): the share of grades in the wrong order; equal predictions are half wrong."""
        right, total = self.agreement(y, y_hat)
        return 1.0 - right / total if total > 0 else 0.0

    def agreement(self, y: Any, y_hat: Any) -> tuple[float, float]:
        """Differences of grades that are in the right order, summed, and those of all pairs."""
        true, found = floats(y, "Y"), floats(y_hat, "the prediction")
        if true.shape != found.shape or true.ndim != 1:
            raise ValueError(f"grades of shape {true.shape} and {found.shape} do not fit")
        better = np.maximum(true[:, None] - true[None, :], 0.0)
        order = np.sign(found[:, None] - found[None, :])
        return float((better * (1 + order)).sum() / 2), float(better.sum())

    def scores(self, X: Any, w: np.ndarray) -> list[np.ndarray]:
        """The score of every candidate."""
        return self.bind(X).scores(as_weights(w))

    def unpack(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """Named parts of w: ``weights`` (d,)."""
        return {"weights": np.asarray(w)}

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {"n_features": self.n_features_}, {}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Ranking:
        model = cls()
        model._settle(count(state, "n_features", 1, MOST_FEATURES))
        return model


def grades(Y: Sequence[Any], lengths: np.ndarray) -> np.ndarray:
    """The grades of all candidates, one query after the other."""
    parts = [floats(Y[i], f"Y[{i}]") for i in range(len(lengths))]
    for i, (part, length) in enumerate(zip(parts, lengths, strict=True)):
        if part.shape != (length,):
            raise ValueError(
                f"Y[{i}] must be {length} grades, one for each candidate, got shape {part.shape}"
            )
        if not np.isfinite(part).all():
            raise ValueError(f"Y[{i}] has a grade that is not finite")
    return np.concatenate(parts)
