"""The flat front ends: classifiers in the manners of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted

from maxmargin.data.mapped import MappedRows
from maxmargin.estimators.base import (
    SolverMixin,
    check_rows,
    intercept_prior,
    intercept_regularizer,
    polish_of,
    score_of,
)
from maxmargin.models.binary import Binary
from maxmargin.models.examples import Examples
from maxmargin.models.flat import FlatModel
from maxmargin.models.multiclass import Multiclass
from maxmargin.problem import Formulation
from maxmargin.problem.problem import check_weights


class FlatSVC(SolverMixin, ClassifierMixin, BaseEstimator):
    """Base of the classifiers: parameters, training, weights of examples."""

    def __init__(
        self,
        C: float = 1.0,
        loss: Any = "zero-one",
        fit_intercept: bool = True,
        class_weight: Any = None,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_passes: float = 1000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        n_jobs: Any = None,
        random_state: Any = None,
        verbose: int = 0,
        penalized_intercept: bool = True,
    ):
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.penalized_intercept = penalized_intercept
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_passes = max_passes
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _regularizer(self, examples: Examples) -> Any:
        return intercept_regularizer(self, examples)

    def _prior(self) -> Any:
        return intercept_prior(self)

    def _model(self, y: np.ndarray) -> FlatModel:
        """The model with the parameters of this classifier; refuses labels that it cannot take."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FlatSVC:
        """Train on X (n, d), dense or CSR, and labels y (n,)."""
        self._check_shared()
        X, y = self._checked(X, y, reset=True)
        model = self._model(y)
        model.initialize(X, y)
        weights = self.example_weights(y, sample_weight)
        polish = polish_of(X.shape[0] * X.shape[1] * len(model.classes_))
        examples = model.bind(X, y)
        result = self._minimise(examples, weights, polish)
        self._keep(result)
        self.adopt(model, result.w)
        return self

    def _checked(self, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        """X and y as scikit-learn wants them; mapped rows stay where they are."""
        if isinstance(X, MappedRows):
            if reset:
                self.n_features_in_ = X.n_features
            y = np.asarray(y)
        else:
            X, y = check_rows(self, X, y=y, reset=reset)
        check_classification_targets(y)
        return X, y

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> FlatSVC:
        """Train on one more chunk, as ``StructuralSVM.partial_fit`` does."""
        self._check_shared()
        if self.class_weight is not None:
            raise ValueError("partial_fit: class_weight needs all examples; give sample_weight")
        X, y = self._checked(X, y, reset=getattr(self, "memory_", None) is None)
        known = y if classes is None else np.asarray(classes)
        self._stream(lambda: self._model(known), X, y, classes, sample_weight)
        return self

    def example_weights(self, y: Any, sample_weight: Any) -> np.ndarray | None:
        """v_i: the product of sample_weight and class_weight."""
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

    def weights(self) -> np.ndarray:
        return self.w_

    @staticmethod
    def params_of(model: Any) -> dict[str, Any]:
        return {"loss": model.task_loss}

    def adopt(self, model: Any, w: np.ndarray) -> None:
        self.model_, self.classes_, self.w_ = model, model.classes_, w
        self.n_features_in_ = model.n_features_
        parts, rows = model.unpack(w), 1 if isinstance(model, Binary) else len(model.classes_)
        self.coef_ = np.ascontiguousarray(parts["weights"]).reshape(rows, -1)
        self.intercept_ = np.array(parts.get("bias", np.zeros(rows))).reshape(rows)

    def _scores(self, X: Any) -> np.ndarray:
        """X coef_' + intercept_."""
        check_is_fitted(self, "coef_")
        if not isinstance(X, MappedRows):
            X = check_rows(self, X, reset=False)
        elif X.n_features != self.n_features_in_:
            raise ValueError(f"X has {X.n_features} features, expected {self.n_features_in_}")
        return X @ self.coef_.T + self.intercept_

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of right labels."""
        return score_of(super().score, X, y, sample_weight)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores (n, K); (n,) for two classes, positive for the second."""
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        """The best label of every example."""
        scores = self.decision_function(X)
        winners = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[winners]


class MulticlassSVC(FlatSVC):
    """Multiclass support vector classifier in the form of Crammer and Singer, or of Weston and Watkins.

    Minimises 1/2 |W|^2 + C sum_i v_i max_y [cost(y_i, y) + <w_y - w_{y_i}, x_i>], the intercept being
    the weight of a constant feature 1, regularised like the rest unless told otherwise.

    Parameters
    ----------
    C : float
    loss : "zero-one" or array of shape (K, K), costs [true, predicted] over ``classes_``
    fit_intercept : bool
    penalized_intercept : bool
        Whether 1/2 |w|^2 counts the intercept; False takes more time.
    class_weight : dict, "balanced" or None
    hinge : "max", as above, or "sum" over y other than y_i of max(0, .): the form of Weston and Watkins
    solver, tol, max_passes, max_seconds, warm_start, n_jobs, random_state, verbose
        As in ``StructuralSVM``. A problem of at most 10,000 examples x features x classes is solved
        to rounding, whatever tol, if that takes at most 300 passes more.

    Attributes
    ----------
    coef_ : array of shape (K, d);  intercept_ : array of shape (K,);  classes_ : array of shape (K,)
    certificate_, history_, solver_, support_ : as in ``StructuralSVM``
    """

    def __init__(
        self,
        C: float = 1.0,
        loss: Any = "zero-one",
        fit_intercept: bool = True,
        class_weight: Any = None,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_passes: float = 1000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        n_jobs: Any = None,
        random_state: Any = None,
        verbose: int = 0,
        penalized_intercept: bool = True,
        hinge: str = "max",
    ):
        super().__init__(
            C=C,
            loss=loss,
            fit_intercept=fit_intercept,
            class_weight=class_weight,
            solver=solver,
            tol=tol,
            max_passes=max_passes,
            max_seconds=max_seconds,
            warm_start=warm_start,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
            penalized_intercept=penalized_intercept,
        )
        self.hinge = hinge

    def _formulation(self) -> Formulation:
        return Formulation(self.hinge)

    def _model(self, y: np.ndarray) -> Multiclass:
        return Multiclass(loss=self.loss, bias=1.0 if self.fit_intercept else None)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores (n, K); for two classes the score of the second less that of the first, (n,)."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores


class BinarySVC(FlatSVC):
    """Linear support vector classifier of two classes; also for F1, ROC area and other sample losses.

    Minimises 1/2 |w|^2 + C sum_i v_i max(0, cost(y_i) - y_i <w, x_i>) for losses of single examples, and
    1/2 |w|^2 + C xi(w) with the one slack of ``models.Binary`` for losses of the whole sample. The
    intercept is the weight of a constant feature 1, regularised like the rest unless told otherwise.

    Parameters
    ----------
    C : float
    loss : "zero-one", costs, or a loss of the whole sample, as in ``models.Binary``
    fit_intercept : bool
    penalized_intercept : bool
        Whether 1/2 |w|^2 counts the intercept; False takes more time. With False and losses of single
        examples this is the problem of LIBSVM.
    class_weight : dict, "balanced" or None; refused, like sample_weight, for losses of the whole sample
    solver, tol, max_passes, max_seconds, warm_start, n_jobs, random_state, verbose
        As in ``StructuralSVM``. A small problem is solved to rounding, as by ``MulticlassSVC``.

    Attributes
    ----------
    coef_ : array of shape (1, d);  intercept_ : array of shape (1,);  classes_ : array of shape (2,)
    certificate_, history_, solver_, support_ : as in ``StructuralSVM``
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _model(self, y: np.ndarray) -> Binary:
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind != "binary":
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}; "
                "MulticlassSVC takes more classes"
            )
        return Binary(loss=self.loss, bias=1.0 if self.fit_intercept else None)

    def decision_function(self, X: Any) -> np.ndarray:
        """<w, x> + intercept of every example, (n,): positive for the second class, and the ranking."""
        return self._scores(X)[:, 0]
