"""Multiclass: one of K labels for a row of features.

    Psi(x, y) = x in the row of y of a K x d matrix;   Delta = cost[y, y']

``coef_`` is that matrix, class-major: (K, d) ravelled, or (K, d + 1) with a bias.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from maxmargin._core import core
from maxmargin.data.labels import LabelSet
from maxmargin.data.memory import FeatureRows, feature_rows
from maxmargin.losses import Costs, ZeroOne, cost_matrix, flat_loss, saved_costs
from maxmargin.models.base import (
    CompiledExamples,
    Model,
    check_bias,
    check_classes,
    check_lengths,
    no_cost,
)


class MulticlassExamples(CompiledExamples):
    """Multiclass data in the core."""

    kind = "Multiclass"

    def __init__(self, rows: FeatureRows, labels: LabelSet, codes: np.ndarray, cost: np.ndarray):
        self.rows, self.labels = rows, labels
        self.core = core.MulticlassData(rows.core.rows, len(labels), codes, cost.ravel())
        self.ask = core.MulticlassExact(self.core)
        self.n, self.dimension = self.ask.blocks, self.ask.dimension

    def predict(self, w: np.ndarray, n_jobs: int) -> np.ndarray:
        return self.labels.decode(self.ask.predict(w, n_jobs))

    def worst(self, w: np.ndarray) -> np.ndarray:
        """Loss-augmented argmax of every example."""
        return self.labels.decode(self.ask.slacks(w, 1, True)[1])

    def scores(self, w: np.ndarray) -> np.ndarray:
        """<w_k, x_i>, one row an example."""
        return self.ask.scores(self.core, w).reshape(self.n, len(self.labels))


class Multiclass(Model):
    """Multiclass model.

    Parameters
    ----------
    loss : "zero-one" or array of shape (K, K)
        Cost of predicting column for row, over ``classes_``; zero on the diagonal.
    bias : float or None
        Append a constant feature of this value to every example.
    classes : sequence or None
        All labels, where the data may miss some.
    """

    flat: ClassVar[bool] = True  # an output is one label, whatever it is

    def __init__(self, loss: Any = "zero-one", bias: float | None = None, classes: Any = None):
        self.task_loss = loss
        self.bias = bias
        self.classes = classes

    def initialize(self, X: Any, Y: Any) -> None:
        """Learn the classes and the number of features."""
        check_lengths(X, Y)
        check_bias(self.bias)
        shape = np.shape(X) if not sp.issparse(X) else X.shape
        if len(shape) != 2:
            raise ValueError(
                f"X must have 2 dimensions (examples, features), got {len(shape)}: shape {shape}"
            )
        if isinstance(Y, np.ndarray) and Y.ndim != 1:
            raise ValueError(
                f"Y must have 1 dimension, a label for each example, got shape {Y.shape}"
            )
        self.labels_ = LabelSet(Y if self.classes is None else self.classes)
        self.classes_ = self.labels_.classes
        check_classes(self.classes_)
        spec = flat_loss(self.task_loss)
        costs = spec.costs if isinstance(spec, Costs) else None
        self.cost_ = cost_matrix(costs, self.classes_)
        self.n_features_ = int(shape[1])
        self._measure()

    def bind(self, X: Any, Y: Any = None, node_weight: Any = None) -> MulticlassExamples:
        """The model on these data; without Y for prediction only."""
        check_lengths(X, Y)
        return self.bind_rows(self.read(X), Y, node_weight)

    def read(self, X: Any) -> FeatureRows:
        items = [X if sp.issparse(X) else np.asarray(X)]
        return feature_rows(items, self.n_features_, self.bias, names="X")

    def bind_rows(
        self, rows: FeatureRows, Y: Any = None, node_weight: Any = None
    ) -> MulticlassExamples:
        if node_weight is not None:
            raise ValueError("node_weight: a multiclass example has one node; use sample_weight")
        codes = np.zeros(rows.core.n_rows, np.int32) if Y is None else self.encode(Y)
        return MulticlassExamples(rows, self.labels_, codes, self.cost_)

    def encode(self, Y: Any) -> np.ndarray:
        """Codes of labels; refuses one that is not in ``classes_``."""
        codes = self.labels_.encode(Y)
        if (codes < 0).any():
            i = int(np.argmin(codes))
            raise ValueError(f"Y[{i}] = {Y[i]!r} is not among the classes of the model")
        return codes

    def _row(self, x: Any) -> Any:
        return x if sp.issparse(x) else np.asarray(x)[None, :]

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Psi(x, y), in the order of ``coef_``."""
        row = x.toarray().ravel() if sp.issparse(x) else np.asarray(x, dtype=np.float64).ravel()
        if self.bias is not None:
            row = np.append(row, self.bias)
        psi = np.zeros((len(self.labels_), len(row)))
        psi[self.encode([y])[0]] = row
        return psi.ravel()

    def loss(self, y: Any, y_hat: Any) -> float:
        """Delta(y, y_hat); a true label that the model does not know is a mistake."""
        true, other = self.labels_.encode([y])[0], self.encode([y_hat])[0]
        if true >= 0:
            return float(self.cost_[true, other])
        if isinstance(flat_loss(self.task_loss), Costs):
            raise no_cost(y)
        return 1.0

    def inference(self, x: Any, w: np.ndarray) -> Any:
        """The label with the best score."""
        return self.bind(self._row(x)).predict(np.ascontiguousarray(w, dtype=np.float64), 1)[0]

    def loss_augmented_inference(self, x: Any, y: Any, w: np.ndarray) -> Any:
        """argmax_y' Delta(y, y') + <w, Psi(x, y')>."""
        return self.bind(self._row(x), [y]).worst(np.ascontiguousarray(w, dtype=np.float64))[0]

    def inference_k_best(self, x: Any, w: np.ndarray, k: int) -> list[tuple[Any, float]]:
        """The k best labels with their scores, best first."""
        scores = self.bind(self._row(x)).scores(np.ascontiguousarray(w, dtype=np.float64))[0]
        order = np.argsort(-scores, kind="stable")[:k]
        return [(self.classes_[j], float(scores[j])) for j in order]

    def unpack(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """Named parts of w: ``weights`` (K, d) and, with a bias, ``bias`` (K,)."""
        matrix = np.asarray(w).reshape(len(self.labels_), -1)
        if self.bias is None:
            return {"weights": matrix}
        return {"weights": matrix[:, :-1], "bias": matrix[:, -1] * self.bias}

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        labels = self.labels_.state()
        return {"bias": self.bias, "n_features": self.n_features_, **labels}, {"cost": self.cost_}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Multiclass:
        labels = LabelSet.from_state(state)
        costs = saved_costs(arrays["cost"], len(labels))
        model = cls(ZeroOne() if costs is None else Costs(costs), state["bias"])
        model.labels_, model.classes_, model.cost_ = labels, labels.classes, arrays["cost"]
        model.n_features_ = state["n_features"]
        model._measure()
        return model

    def _measure(self) -> None:
        self.size_joint_feature = len(self.labels_) * (self.n_features_ + (self.bias is not None))
