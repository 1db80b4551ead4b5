"""Binary: one of two labels for a row of features.

    Psi(x, y) = y x / 2,   y = -1 for the first of ``classes_`` (negative), +1 for the second (positive)
    xi_i(w) = max(0, cost[y_i] - y_i <w, x_i>)     margin rescaling; the hinge of a linear SVM
    xi_i(w) = cost[y_i] max(0, 1 - y_i <w, x_i>)   slack rescaling

``coef_`` is w, of shape (d,), or (d + 1,) if there is a bias, which comes last. If the loss is a loss of the
whole sample (F1, ROC area, ...), all examples are one block: see ``models.multivariate``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from maxmargin._core import core
from maxmargin.data.labels import LabelSet
from maxmargin.data.memory import FeatureRows
from maxmargin.io.fields import FieldError, bias_of, entries_of, table
from maxmargin.losses import (
    Costs,
    SampleLoss,
    ZeroOne,
    binary_loss,
    cost_matrix,
    sample_loss_state,
    saved_costs,
    saved_sample_loss,
)
from maxmargin.models.examples import Examples, ExplicitConstraints
from maxmargin.models.flat import FlatExamples, FlatModel
from maxmargin.models.inside import BinaryInside
from maxmargin.models.multivariate import MultivariateExamples
from maxmargin.models.protocol import as_weights, weights_and_bias


class BinaryExamples(FlatExamples):
    """Rows with one of two labels each, in the core."""

    walks = True

    def __init__(self, rows: FeatureRows, labels: LabelSet, codes: np.ndarray, cost: np.ndarray):
        self.codes = codes
        self.mistakes: np.ndarray = np.array([cost[0, 1], cost[1, 0]])
        super().__init__(rows, labels, core.BinaryData(rows.core.rows, codes, self.mistakes))
        self.explicit: ExplicitConstraints | None = ExplicitConstraints(
            self.core, float(self.mistakes.max())
        )

    def slacks_and_plane(
        self, w: np.ndarray, blocks: np.ndarray, multipliers: np.ndarray, outputs: Any
    ) -> tuple[np.ndarray, tuple[float, np.ndarray]] | None:
        """Do ``slacks`` and ``combine`` in one pass over the rows; None if that is not possible."""
        if self.formulation.soft or self.summed or not self.argmax_exact:
            return None
        labels = np.ascontiguousarray(outputs, dtype=np.int32)
        return self.answers.slacks_and_plane(w, blocks, multipliers, labels)

    def scores(self, w: np.ndarray) -> np.ndarray:
        """Return <w, Psi(x_i, y)> of both labels, one row for each example."""
        return np.outer(self.rows.core.rows.scores(w, 1), [-0.5, 0.5])


class Binary(FlatModel):
    """Two labels.

    Parameters
    ----------
    loss : "zero-one", costs, or a loss of the whole sample
        Costs are a dict or a vector with the cost of a mistake for each true label, or a 2 x 2 matrix [true,
        predicted]. Losses of the whole sample are "error-rate", "f1", "roc-area", losses.F1(beta),
        losses.PrecisionAt(k), losses.RecallAt(k).
    bias : float or None
        Append a constant feature of this value to every example.
    classes : sequence or None
        Both labels, if the data may lack one. The second of ``classes_`` is the positive one.
    """

    views: ClassVar[Any] = BinaryInside

    @property
    def joint(self) -> bool:  # type: ignore[override]
        return isinstance(binary_loss(self.task_loss), SampleLoss)

    def initialize(self, X: Any, Y: Any) -> None:
        """Learn the classes and the number of features."""
        spec = binary_loss(self.task_loss)
        self._learn(X, Y)
        if len(self.classes_) != 2:
            raise ValueError(
                f"Binary takes 2 classes, but there are {len(self.classes_)}: "
                f"{self.classes_[:5].tolist()}; use models.Multiclass for more"
            )
        if not isinstance(spec, SampleLoss):
            costs = spec.costs if isinstance(spec, Costs) else None
            self.cost_: np.ndarray = cost_matrix(costs, self.classes_)
        self._measure()

    def bind_rows(self, rows: FeatureRows, Y: Any = None, node_weight: Any = None) -> Examples:
        self._check_nodes(node_weight)
        spec = binary_loss(self.task_loss)
        codes = None if Y is None else self.encode(Y)
        if isinstance(spec, SampleLoss):
            return MultivariateExamples(rows, self.labels_, codes, spec)
        if codes is None:
            codes = np.zeros(rows.core.n_rows, np.int32)
        return BinaryExamples(rows, self.labels_, codes, self.cost_)

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Return Psi(x, y), in the order of ``coef_``.

        If the loss is a loss of the whole sample, x and y are the whole sample and its labels.
        """
        if self.joint:
            return self._whole(x, None).joint_feature(self.encode(y))
        return (self.encode([y])[0] - 0.5) * self._features(x)

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return Delta(y, y_hat); for a loss of the whole sample, y and y_hat are labellings."""
        if self.joint:
            blank = sp.csr_matrix((len(y), self.n_features_))
            return self._whole(blank, y).loss_of(self.encode(y_hat))
        return super().loss(y, y_hat)

    def _whole(self, X: Any, Y: Any) -> MultivariateExamples:
        """Bind the model to a whole sample whose outputs are labellings."""
        examples = self.bind(X, Y)
        assert isinstance(examples, MultivariateExamples)
        return examples

    def inference(self, x: Any, w: np.ndarray) -> Any:
        """Return the label with the better score.

        If the loss is a loss of the whole sample, return the best labelling of x (n, d).
        """
        if not self.joint:
            return super().inference(x, w)
        return self._whole(x, None).labelling(as_weights(w))

    def loss_augmented_inference(self, x: Any, y: Any, w: np.ndarray) -> Any:
        """Return argmax_y' Delta(y, y') + <w, Psi(x, y')>."""
        if not self.joint:
            return super().loss_augmented_inference(x, y, w)
        return self._whole(x, y).worst_labelling(as_weights(w))

    def inference_k_best(self, x: Any, w: np.ndarray, k: int) -> list[tuple[Any, float]]:
        """Return the k best labels of one example with their scores, best first."""
        if self.joint:
            raise ValueError(
                "inference_k_best needs a loss of single examples, but this loss is of the whole "
                "sample"
            )
        return super().inference_k_best(x, w, k)

    def unpack(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """Return the named parts of w: ``weights`` (d,) and, with a bias, ``bias`` ()."""
        return weights_and_bias(np.asarray(w), self.bias)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        plain = self.plain_state()
        spec = binary_loss(self.task_loss)
        if isinstance(spec, SampleLoss):
            return {**plain, "loss": sample_loss_state(spec)}, {}
        return plain, {"cost": self.cost_}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Binary:
        labels = LabelSet.from_state(state)
        if len(labels) != 2:
            raise FieldError(f"a binary model has 2 labels, got {len(labels)}")
        if "loss" in state:
            model = cls(saved_sample_loss(entries_of(state["loss"], "loss")), bias_of(state))
        else:
            costs = saved_costs(table(arrays, "cost", np.float64, 2, 2))
            model = cls(ZeroOne() if costs is None else Costs(costs), bias_of(state))
            model.cost_ = arrays["cost"]
        model.take_state(labels, state)
        return model

    def _measure(self) -> None:
        self.size_joint_feature: int = self.n_features_ + (self.bias is not None)
