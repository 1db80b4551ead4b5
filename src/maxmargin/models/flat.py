"""Base classes of models that predict one label for a row of features."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from maxmargin.data.arrays import check_lengths, check_start
from maxmargin.data.attributes import Described, encoder_of, saved_attributes
from maxmargin.data.labels import LabelSet
from maxmargin.data.memory import FeatureRows, rows_of_table, shape_of
from maxmargin.io.fields import MOST_FEATURES, count
from maxmargin.losses import Costs, binary_loss, cost_of
from maxmargin.models.beliefs import Beliefs, even_beliefs, margins_of
from maxmargin.models.checks import no_cost
from maxmargin.models.examples import CompiledExamples
from maxmargin.models.extent import Extent, row_lengths, row_terms
from maxmargin.models.protocol import Model, as_weights, encode_all
from maxmargin.models.registry import LABELS, POTENTIALS, ROWS, SUMS, UNKNOWN_LABELS


class FlatExamples(CompiledExamples):
    """Rows with one label each, in the core."""

    enumerates = True
    powers: tuple[str, ...] = (SUMS, POTENTIALS)

    def __init__(self, rows: FeatureRows, labels: LabelSet, data: Any):
        self.rows = rows
        self.labels = labels
        self.take(data)

    def extent(self) -> Extent:
        K, terms = len(self.labels), row_terms(self.rows)
        return Extent(row_lengths(self.rows), terms, choices=K, outputs=K - 1)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        return self.labels.decode(codes)

    def glance(self, w: np.ndarray, n: int) -> np.ndarray:
        return self.decode(self.answers.glance(w, n))

    def scores(self, w: np.ndarray) -> np.ndarray:
        """Return <w, Psi(x_i, y)> of every label, one row for each example."""
        raise NotImplementedError

    def decide(self, w: Any, n_jobs: int = 1) -> np.ndarray:
        return self.scores(w).max(axis=1)

    def margins(self, w: Any, n_jobs: int = 1) -> np.ndarray:
        return margins_of(self.scores(w))

    def beliefs(self, w: Any, temperature: float, n_jobs: int = 1) -> Beliefs:
        return even_beliefs(self.scores(w), self.labels.classes, np.arange(self.n + 1), temperature)


class FlatModel(Described, Model):
    """Labels, rows of features, and the protocol for single rows."""

    n_features_: int

    powers: ClassVar[tuple[str, ...]] = (LABELS, ROWS, SUMS, POTENTIALS, UNKNOWN_LABELS)
    packs = "rows"
    task = "multiclass"
    flat: ClassVar[bool] = True  # an output is a single label, of any type
    cost_: np.ndarray

    def __init__(self, loss: Any = "zero-one", bias: float | None = None, classes: Any = None):
        self.task_loss = loss
        self.bias = bias
        self.classes = classes

    def _learn(self, X: Any, Y: Any) -> None:
        """Check the data; learn the classes and the number of features."""
        check_start(X, Y, self)
        X = self.learn_attributes(X)
        shape = shape_of(X, "X")
        if len(shape) != 2:
            raise ValueError(
                f"X must have 2 dimensions (examples, features), got {len(shape)}: shape {shape}"
            )
        if isinstance(Y, np.ndarray) and Y.ndim != 1:
            raise ValueError(
                f"Y must have 1 dimension, a label for each example, got shape {Y.shape}"
            )
        self.labels_: LabelSet = LabelSet.learn(Y, self.classes)
        self.classes_: np.ndarray = self.labels_.classes
        self.n_features_ = int(shape[1])

    def bind(self, X: Any, Y: Any = None, node_weight: Any = None) -> Any:
        """Bind the model to these data; without Y for prediction only."""
        check_lengths(X, Y)
        return self.bind_rows(self.read(X), Y, node_weight)

    def read(self, X: Any) -> FeatureRows:
        """Copy the features of all examples into the core."""
        return rows_of_table(self.convert(X), self.n_features_, self.bias)

    def _check_nodes(self, node_weight: Any) -> None:
        if node_weight is not None:
            raise ValueError(
                f"node_weight must be None, because an example of {type(self).__name__} has one "
                "node; use sample_weight"
            )

    def encode(self, Y: Any) -> np.ndarray:
        """Return the codes of labels; raise ValueError for a label that is not in ``classes_``."""
        return encode_all(self.labels_, Y)

    def _features(self, x: Any) -> np.ndarray:
        """Return the features of one example, with the bias."""
        found = self.one_row(x)
        row = found.toarray() if sp.issparse(found) else found
        row = np.asarray(row, dtype=np.float64).ravel()
        return row if self.bias is None else np.append(row, self.bias)

    def plain_state(self) -> dict[str, Any]:
        """Return the entries of a model file for the labels and the features."""
        state = {"bias": self.bias, "n_features": self.n_features_, **self.labels_.state()}
        return state | saved_attributes(self.encoder_)

    def take_state(self, labels: LabelSet, state: dict[str, Any]) -> None:
        """Set the labels and the features from the entries of a model file."""
        self.labels_, self.classes_ = labels, labels.classes
        self.n_features_ = count(state, "n_features", 0, MOST_FEATURES)
        self.encoder_: Any = encoder_of(state, self.n_features_, sequences=False)
        self._measure()

    def _measure(self) -> None:
        """Compute the number of weights."""
        raise NotImplementedError

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return Delta(y, y_hat); a true label that the model does not know counts as a mistake."""
        true, other = self.labels_.encode([y])[0], self.encode([y_hat])[0]
        if true >= 0:
            return float(cost_of(self.cost_, true, other))
        if isinstance(binary_loss(self.task_loss), Costs):
            raise no_cost(y)
        return 1.0

    def bind_one(self, x: Any, Y: Any = None) -> Any:
        return self.bind(self.one_row(x), Y)

    def inference_k_best(self, x: Any, w: np.ndarray, k: int) -> list[tuple[Any, float]]:
        """Return the k best labels with their scores, best first."""
        scores = self.bind_one(x).scores(as_weights(w))[0]
        order = np.argsort(-scores, kind="stable")[:k]
        return [(self.classes_[j], float(scores[j])) for j in order]
