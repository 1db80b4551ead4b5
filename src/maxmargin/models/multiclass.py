"""Multiclass: one of K labels for a row of features.

    Psi(x, y) = x in the row of y of a K x d matrix;   Delta = cost[y, y']

``coef_`` is that matrix, class by class: (K, d) ravelled, or (K, d + 1) with a bias.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from maxmargin._core import core
from maxmargin.data.labels import LabelSet, check_classes
from maxmargin.data.memory import FeatureRows
from maxmargin.io.fields import bias_of, costs_of
from maxmargin.losses import Costs, ZeroOne, flat_loss, mistake_costs, saved_costs
from maxmargin.models.examples import ExplicitConstraints
from maxmargin.models.flat import FlatExamples, FlatModel
from maxmargin.models.inside import Inside
from maxmargin.models.protocol import weights_and_bias

# Largest n K for which all multipliers are stored: more takes too much memory. Above it, solvers
# store only the multipliers of cached outputs.
MOST_EXPLICIT = 2**27


class MulticlassExamples(FlatExamples):
    """Multiclass data in the core."""

    def __init__(self, rows: FeatureRows, labels: LabelSet, codes: np.ndarray, cost: np.ndarray):
        data = core.MulticlassData(rows.core.rows, len(labels), codes, cost.ravel())
        super().__init__(rows, labels, data)
        if self.n * len(labels) <= MOST_EXPLICIT:
            self.explicit: ExplicitConstraints | None = ExplicitConstraints(data, float(cost.max()))

    def scores(self, w: np.ndarray) -> np.ndarray:
        """Return <w_k, x_i> of every label k, one row for each example."""
        return self.core.scores(w).reshape(self.n, len(self.labels))


class Multiclass(FlatModel):
    """Multiclass model.

    Parameters
    ----------
    loss : "zero-one" or array of shape (K, K)
        Cost [true, predicted], in the order of ``classes_``; zero on the diagonal.
    bias : float or None
        Append a constant feature of this value to every example.
    classes : sequence or None
        All labels, if the data may lack some.
    """

    views: ClassVar[Any] = Inside

    def initialize(self, X: Any, Y: Any) -> None:
        """Learn the classes and the number of features."""
        self._learn(X, Y)
        spec = flat_loss(self.task_loss)
        costs = spec.costs if isinstance(spec, Costs) else None
        self.cost_: np.ndarray = mistake_costs(costs, self.classes_)
        self._measure()

    def bind_rows(
        self, rows: FeatureRows, Y: Any = None, node_weight: Any = None
    ) -> MulticlassExamples:
        self._check_nodes(node_weight)
        codes = np.zeros(rows.core.n_rows, np.int32) if Y is None else self.encode(Y)
        return MulticlassExamples(rows, self.labels_, codes, self.cost_)

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Return Psi(x, y), in the order of ``coef_``."""
        row = self._features(x)
        psi = np.zeros((len(self.labels_), len(row)))
        psi[self.encode([y])[0]] = row
        return psi.ravel()

    def unpack(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """Return the named parts of w: ``weights`` (K, d) and, with a bias, ``bias`` (K,)."""
        return weights_and_bias(np.asarray(w).reshape(len(self.labels_), -1), self.bias)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return self.plain_state(), {"cost": self.cost_}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Multiclass:
        labels = LabelSet.from_state(state)
        check_classes(labels.classes)
        costs = saved_costs(costs_of(arrays, "cost", len(labels)))
        model = cls(ZeroOne() if costs is None else Costs(costs), bias_of(state))
        model.cost_ = arrays["cost"]
        model.take_state(labels, state)
        return model

    def _measure(self) -> None:
        self.size_joint_feature: int = len(self.labels_) * (
            self.n_features_ + (self.bias is not None)
        )
