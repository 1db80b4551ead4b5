"""Front ends for flat outputs: classifiers in the style of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted

from maxmargin._sklearn import ClassifierMixin
from maxmargin.callbacks import Callback
from maxmargin.data.arrays import check_weights, takes_outputs
from maxmargin.data.attributes import are_attributes
from maxmargin.data.labels import check_fit_for_labels, distinct_labels, placed
from maxmargin.data.mapped import MappedRows
from maxmargin.estimators.base import BaseSVM, Given, can_stream
from maxmargin.estimators.confidence import ConfidentSVM
from maxmargin.estimators.inputs import check_rows, score_of
from maxmargin.estimators.inspection import Inspection
from maxmargin.models.beliefs import even_beliefs, margins_of
from maxmargin.models.binary import Binary
from maxmargin.models.examples import Examples
from maxmargin.models.flat import FlatModel
from maxmargin.models.multiclass import Multiclass
from maxmargin.models.registry import LABELS
from maxmargin.parts.fit import streams
from maxmargin.parts.problem import check_streams
from maxmargin.problem import make_regularizer

SMALL = 10_000  # largest examples x features (x classes) of a small problem
POLISHED = 1e-13  # gap to which a small problem is solved, in units of the loss; less is below rounding error
Trained = TypeVar("Trained", bound="RowSVM")


def are_labels(y: np.ndarray) -> bool:
    """Whether y is a vector of a discrete type; a fast path, since scikit-learn's checks are slow."""
    return y.ndim == 1 and y.dtype.kind in "biuU"


class RowSVM(BaseSVM):
    """Base class of estimators on rows of features, dense or CSR, with or without an intercept."""

    model_: Any
    n_features_in_: int

    fit_intercept: bool = False
    penalized_intercept: bool = True

    intercept_: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def _bias(self) -> float | None:
        """The constant feature whose weight is the intercept; None without one."""
        return 1.0 if self.fit_intercept else None

    @property
    def _free(self) -> bool:  # type: ignore[override]
        """Whether the intercept is not regularised."""
        return bool(self.fit_intercept and not self.penalized_intercept)

    def _prior(self) -> Any:
        """The prior that the solver must support; an unregularised intercept is a prior of infinite scale."""
        return (0.0, np.inf) if self._free else self.prior

    def _regularizer(self, examples: Examples) -> Any:
        """The regulariser from the parameters; the intercept is the last weight of each row."""
        if not self._free:
            return super()._regularizer(examples)
        last = np.arange(1, examples.dimension + 1) % (self.n_features_in_ + 1) == 0
        return make_regularizer((0.0, np.where(last, np.inf, 1.0)), None, examples)

    def _polish(self, given: Given) -> float | None:
        """The gap to which a small problem is solved: rounding error, which costs milliseconds.

        The solution then does not depend on the order of the examples or on the seed.
        """
        if given.in_parts:
            return None
        size, unit = given.X.shape[0] * given.X.shape[1], 1.0
        if LABELS in given.model.powers:
            size *= len(given.model.classes_)
        else:  # losses are in units of the targets
            with np.errstate(over="ignore"):  # if it is infinite, training ends at tol
                unit = max(1.0, float(np.abs(given.Y).mean()))
        return POLISHED * unit if size <= SMALL else None

    def _weights(self) -> np.ndarray:
        """Return w in the layout of the model: the weights of each row, followed by its intercept."""
        bias = getattr(self.model_, "bias", None)
        if bias is None:
            return np.ravel(self.coef_)
        last = np.reshape(self.intercept_, (-1, 1)) / bias
        return np.hstack([np.atleast_2d(self.coef_), last]).ravel()

    @property
    def w_(self) -> np.ndarray:
        """The weights as functions of a fitted estimator take them: ``mm.objective(svm, svm.w_, X, y)``."""
        return self._weights()

    @takes_outputs
    def fit(
        self: Trained,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        checkpoint: Any = None,
        checkpoint_every: float = 300.0,
        resume: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> Trained:
        """Train on X (n, d), dense or CSR, and y (n,), labels or numbers. ``Y`` is another name of ``y``.

        Checkpoints are as in ``StructuralSVM.fit``. For solver="streaming" X may be an iterable
        of chunks (X, y) or (X, y, sample_weight). The first chunk must then contain all labels.
        """
        kept = (checkpoint, checkpoint_every, resume)
        self._fit(Given(X, y, sample_weight, callbacks=callbacks, kept=kept))
        return self

    def _adopt(self, model: Any, w: np.ndarray) -> None:
        self.model_, self.n_features_in_ = model, model.n_features_
        self.coef_ = w

    def _in_chunks(self, given: Given) -> bool:
        """Whether X is an iterable of chunks."""
        return given.Y is None and streams(self.solver, None, given.X, None, None)

    def _rows(self, X: Any) -> Any:
        """Rows to predict from; mapped rows stay on disk."""
        check_is_fitted(self, "coef_")
        if are_attributes(X, sequences=False):
            X = self.model_.convert(X, self._jobs())
        if not isinstance(X, MappedRows):
            return check_rows(self, X, reset=False)
        if X.n_features != self.n_features_in_:
            raise ValueError(f"X has {X.n_features} features, expected {self.n_features_in_}")
        return X


class FlatClassifier(ClassifierMixin, ConfidentSVM, Inspection, RowSVM):
    """Base class of the classifiers: training, weights of examples, scores."""

    _lone: ClassVar[dict[str, str]] = {
        "multiclass": "all of X is predicted to be {} (other classes may need more weight)"
    }

    class_weight: Any = None

    def _check_class_weight(self, who: str) -> None:
        if self.class_weight is not None:
            raise ValueError(
                f"{who}: class_weight needs all examples at once; give sample_weight instead"
            )

    def _read(self, given: Given, reset: bool = True) -> Given:
        """Check X and y as scikit-learn does; mapped rows stay on disk."""
        X, y = given.X, given.Y
        if self._in_chunks(given):
            self._check_class_weight("chunks")
            return replace(given, in_parts=True, model=self._make_model(None))
        if are_attributes(X, sequences=False):
            X = (Multiclass() if reset else self.model_).convert(X, self._jobs())
        if isinstance(y, list | tuple) and len(y) and isinstance(y[0], str | bytes):
            with placed(y, name="y"):  # check strings before NumPy converts them
                check_fit_for_labels(dict.fromkeys(y), "y")
        if not isinstance(X, MappedRows):
            X, y = check_rows(self, X, y=y, reset=reset)
        elif reset:
            self.n_features_in_: int = X.n_features
        y = np.asarray(y)
        if not are_labels(y):
            check_classification_targets(y)
        labels = y if given.classes is None else np.asarray(given.classes)
        model = self._make_model(labels)
        in_parts = streams(self.solver, model, X, y, None)
        return replace(given, X=X, Y=y, in_parts=in_parts, model=model)

    def _make_model(self, labels: np.ndarray | None) -> FlatModel:
        """Make a model with the parameters of this classifier; raise an error for labels it cannot take."""
        raise NotImplementedError

    def _example_weights(self, y: Any, sample_weight: Any) -> np.ndarray | None:
        """v_i, the product of sample_weight and class_weight."""
        weights = None if sample_weight is None else check_weights(sample_weight, len(y))
        if self.class_weight is None:
            return weights
        try:
            balance = compute_sample_weight(self.class_weight, y)
        except (TypeError, ValueError) as error:
            raise ValueError(f"class_weight: {error}") from None
        if not np.isfinite(balance).all() or (balance < 0).any():
            raise ValueError(
                f"class_weight must be finite and not negative, got {self.class_weight!r}"
            )
        return balance if weights is None else weights * balance

    def _adopt(self, model: Any, w: np.ndarray) -> None:
        super()._adopt(model, w)
        self.classes_: np.ndarray = model.classes_
        parts = model.unpack(w)
        self.coef_: np.ndarray = np.ascontiguousarray(np.atleast_2d(parts["weights"]))
        rows = len(self.coef_)  # one row if two classes share their weights
        self.intercept_: np.ndarray = np.array(parts.get("bias", np.zeros(rows))).reshape(rows)

    def _scores(self, X: Any) -> np.ndarray:
        """X coef_' + intercept_."""
        return self._rows(X) @ self.coef_.T + self.intercept_

    def _label_scores(self, X: Any) -> np.ndarray:
        """The score of each label, (n, K)."""
        scores = self._scores(X)
        return scores if scores.shape[1] > 1 else scores * [-0.5, 0.5]

    def predict_margins(self, X: Any) -> np.ndarray:
        """Return the best score minus the second best score of each example, (n,)."""
        return margins_of(self._label_scores(X))

    def _node_beliefs(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        codes = None
        if Y is not None:
            X, y = check_rows(self, X, y=Y, reset=False)
            codes = self.model_.encode(y)
        scores = self._label_scores(X)
        nodes = np.arange(len(scores) + 1)
        return (lambda c: even_beliefs(scores, self.classes_, nodes, c)), codes

    @takes_outputs
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of correct labels."""
        return score_of(super().score, X, y, sample_weight)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return scores (n, K); for two classes (n,), the score of the second minus that of the first."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            return scores[:, 0]
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Return the best label of every example."""
        scores = self.decision_function(X)
        winners = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[winners]


@dataclass(eq=False, repr=False)
class FlatSVC(FlatClassifier):
    """Base class of the support vector classifiers."""

    _divides: ClassVar[bool] = True

    C: float = 1.0
    loss: Any = "zero-one"
    fit_intercept: bool = True
    class_weight: Any = None
    solver: Any = "auto"
    tol: float | str = "auto"
    max_passes: float = 1000
    max_seconds: float | None = None
    warm_start: bool = False
    n_jobs: Any = None
    random_state: Any = None
    verbose: int = 0
    penalized_intercept: bool = True

    def _check_chunks(self) -> None:
        super()._check_chunks()
        self._check_class_weight("partial_fit")
        check_streams(self._make_model(None))

    @available_if(can_stream)
    @takes_outputs
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> FlatSVC:
        """Train on one more chunk, as ``StructuralSVM.partial_fit`` does."""
        self._partial_fit(Given(X, y, sample_weight, classes=classes))
        return self

    @staticmethod
    def _params_of(model: Any) -> dict[str, Any]:
        return {"loss": model.task_loss}


@dataclass(eq=False, repr=False)
class MulticlassSVC(FlatSVC):
    """Multiclass support vector classifier in the form of Crammer and Singer, or of Weston and Watkins.

    Minimises 1/2 |W|^2 + C sum_i v_i max_y [cost(y_i, y) + <w_y - w_{y_i}, x_i>]. The intercept is the
    weight of a constant feature 1, regularised like the rest by default.

    Parameters
    ----------
    C : float
    loss : "zero-one" or array of shape (K, K), costs [true, predicted] over ``classes_``
    fit_intercept : bool
    penalized_intercept : bool
        Whether 1/2 |w|^2 counts the intercept; False takes more time.
    class_weight : dict, "balanced" or None
    hinge : "max" or "sum"
        "max" is the formula above. "sum" adds max(0, .) over all y other than y_i, the form of Weston and
        Watkins.
    solver, tol, max_passes, max_seconds, warm_start, n_jobs, random_state, verbose
        As in ``StructuralSVM``. A problem of at most 10,000 examples x features x classes is solved
        to rounding error, whatever tol, if that takes at most 300 passes more.

    Attributes
    ----------
    coef_ : array of shape (K, d);  intercept_ : array of shape (K,);  classes_ : array of shape (K,)
    certificate_, history_, solver_, support_ : as in ``StructuralSVM``
    """

    hinge: str = "max"

    def _make_model(self, labels: np.ndarray | None) -> Multiclass:
        return Multiclass(loss=self.loss, bias=self._bias)


class BinarySVC(FlatSVC):
    """Linear support vector classifier for two classes, with losses of examples or of the whole sample.

    Minimises 1/2 |w|^2 + C sum_i v_i max(0, cost(y_i) - y_i <w, x_i>) for losses of single examples. For
    losses of the whole sample, such as F1 and ROC area, it minimises 1/2 |w|^2 + C xi(w) with the one slack
    of ``models.Binary``. The intercept is the weight of a constant feature 1, regularised like the rest by
    default.

    Parameters
    ----------
    C : float
    loss : "zero-one", costs, or a loss of the whole sample, as in ``models.Binary``
    fit_intercept : bool
    penalized_intercept : bool
        Whether 1/2 |w|^2 counts the intercept; False takes more time. With False and losses of single
        examples this is the problem of LIBSVM.
    class_weight : dict, "balanced" or None
        Refused, like sample_weight, for losses of the whole sample.
    solver, tol, max_passes, max_seconds, warm_start, n_jobs, random_state, verbose
        As in ``StructuralSVM``. A small problem is solved to rounding error, as in ``MulticlassSVC``.

    Attributes
    ----------
    coef_ : array of shape (1, d);  intercept_ : array of shape (1,);  classes_ : array of shape (2,)
    certificate_, history_, solver_, support_ : as in ``StructuralSVM``
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _make_model(self, labels: np.ndarray | None) -> Binary:
        kind = "binary"  # the labels of chunks are checked later
        if labels is not None and are_labels(labels):
            kind = "binary" if len(distinct_labels(labels)) <= 2 else "multiclass"
        elif labels is not None:
            kind = type_of_target(labels, input_name="y", raise_unknown=True)
        if kind != "binary":
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}; "
                "MulticlassSVC takes more classes"
            )
        return Binary(loss=self.loss, bias=self._bias)
