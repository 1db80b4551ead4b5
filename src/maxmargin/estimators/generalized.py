"""The generalised SVM over explicit constraints, and regression, in the manners of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from maxmargin.data.arrays import floats
from maxmargin.estimators.base import (
    SolverMixin,
    check_rows,
    intercept_prior,
    intercept_regularizer,
    polish_of,
    score_of,
)
from maxmargin.models.examples import Examples
from maxmargin.models.groups import GroupExamples, Groups, Regression, RowModel, numbers
from maxmargin.problem.problem import check_weights


class RowSVM(SolverMixin, BaseEstimator):
    """What both share: rows of features in, one weight a feature out."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def weights(self) -> np.ndarray:
        return self.w_

    def _bind(self, model: RowModel, X: Any, y: np.ndarray) -> tuple[GroupExamples, float | None]:
        """The examples, and the gap to polish to: a small problem is solved to rounding."""
        model.initialize(X, y)
        with np.errstate(over="ignore"):  # to infinity: then there is no polish
            unit = max(1.0, float(np.abs(y).mean()))
        return model.bind(X, y), polish_of(X.shape[0] * X.shape[1], unit)

    def _read(self, X: Any) -> Any:
        check_is_fitted(self, "coef_")
        return check_rows(self, X, reset=False)


class GeneralizedSVM(RowSVM):
    """Linear SVM over explicit constraints, of which those of a group share a slack.

    Minimises 1/2 |w|^2 + C sum_i v_i xi_i with xi_i >= 0 and xi_i >= l_ij - <w, x_ij> for every row j of
    group i (Ramanan's generalised SVM). Binary, multiclass, ranking and regression problems are of this form.
    A Gaussian prior may stand in place of 1/2 |w|^2, and weights may be bound to be non-negative.

    Parameters
    ----------
    C : float
    solver : str or solvers.Solver
        Any solver of the library; "dual-coordinate" is made for this.
    tol : float
        Wanted gap, in units of the margins l.
    prior, nonnegative
        As in ``StructuralSVM``: a constant feature whose scale is infinite is a bias without a regulariser.
    max_passes, max_seconds, warm_start, n_jobs, random_state, verbose
        As in ``StructuralSVM``. A problem of at most 10,000 rows x features is solved to rounding, whatever
        tol, if that takes at most 300 passes more.

    Attributes
    ----------
    coef_ : array of shape (d,)
    certificate_, history_, solver_, support_ : as in ``StructuralSVM``
    """

    def __init__(
        self,
        C: float = 1.0,
        solver: Any = "dual-coordinate",
        tol: float = 1e-3,
        max_passes: float = 1000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        n_jobs: Any = None,
        random_state: Any = None,
        verbose: int = 0,
        prior: Any = None,
        nonnegative: Any = None,
    ):
        self.C = C
        self.prior = prior
        self.nonnegative = nonnegative
        self.solver = solver
        self.tol = tol
        self.max_passes = max_passes
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, margins: Any, groups: Any = None, sample_weight: Any = None
    ) -> GeneralizedSVM:
        """Train.

        Parameters
        ----------
        X : array or CSR matrix of shape (rows, d), the constraints
        margins : array of shape (rows,), l of each row; a number for all
        groups : array of shape (n + 1,), offsets: the rows groups[i] : groups[i + 1] share a slack; None:
            each row has its own
        sample_weight : array of shape (n,), one weight for each group
        """
        self._check_shared()
        X = check_rows(self, X)
        margins = floats(margins, "margins")
        if margins.ndim == 0:
            margins = np.full(X.shape[0], margins)
        model = Groups(groups)
        examples, polish = self._bind(model, X, numbers(margins, "margins", X.shape[0]))
        result = self._minimise(examples, sample_weight, polish)
        self._keep(result)
        self.adopt(model, result.w)
        return self

    @staticmethod
    def params_of(model: Any) -> dict[str, Any]:
        return {}

    def adopt(self, model: Any, w: np.ndarray) -> None:
        self.model_, self.w_, self.coef_ = model, w, w
        self.n_features_in_ = model.n_features_

    def decision_function(self, X: Any) -> np.ndarray:
        """<w, x> of every row."""
        return self._read(X) @ self.coef_


class RegressionSVR(RegressorMixin, RowSVM):
    """Linear support vector regression with the epsilon-insensitive loss.

    Minimises 1/2 |w|^2 + C sum_i v_i max(0, |y_i - <w, x_i>| - epsilon), the intercept being the weight of a
    constant feature 1, regularised like the rest unless told otherwise.

    Parameters
    ----------
    C : float
    epsilon : float
        Errors up to this size cost nothing.
    fit_intercept : bool
    penalized_intercept : bool
        Whether 1/2 |w|^2 counts the intercept; False is the problem of LIBSVM, and takes more time.
    solver : str or solvers.Solver
        Any solver of the library; "dual-coordinate" is fast on scaled or sparse features.
    tol : float
        Wanted gap, in units of y.
    max_passes, max_seconds, warm_start, n_jobs, random_state, verbose
        As in ``StructuralSVM``. A small problem is solved to rounding, as by ``GeneralizedSVM``.

    Attributes
    ----------
    coef_ : array of shape (d,);  intercept_ : float
    certificate_, history_, solver_, support_ : as in ``StructuralSVM``
    """

    def __init__(
        self,
        C: float = 1.0,
        epsilon: float = 0.1,
        fit_intercept: bool = True,
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
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.penalized_intercept = penalized_intercept
        self.solver = solver
        self.tol = tol
        self.max_passes = max_passes
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _regularizer(self, examples: Examples) -> Any:
        return intercept_regularizer(self, examples)

    def _prior(self) -> Any:
        return intercept_prior(self)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RegressionSVR:
        """Train on X (n, d), dense or CSR, and numbers y (n,)."""
        self._check_shared()
        X, y = check_rows(self, X, y=y, y_numeric=True)
        weights = None if sample_weight is None else check_weights(sample_weight, len(y))
        model = Regression(self.epsilon, 1.0 if self.fit_intercept else None)
        examples, polish = self._bind(model, X, floats(y, "y"))
        result = self._minimise(examples, weights, polish)
        self._keep(result)
        self.adopt(model, result.w)
        return self

    @staticmethod
    def params_of(model: Any) -> dict[str, Any]:
        return {"epsilon": model.epsilon}

    def adopt(self, model: Any, w: np.ndarray) -> None:
        self.model_, self.w_ = model, w
        self.n_features_in_ = model.n_features_
        parts = model.unpack(w)
        self.coef_, self.intercept_ = parts["weights"], float(parts.get("bias", 0.0))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 of the predictions."""
        return score_of(super().score, X, y, sample_weight)

    def predict(self, X: Any) -> np.ndarray:
        """<w, x> + intercept of every row."""
        return self._read(X) @ self.coef_ + self.intercept_
