"""The generalised SVM over explicit constraints, and regression, in the style of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if

from maxmargin._sklearn import RegressorMixin
from maxmargin.callbacks import Callback
from maxmargin.data.arrays import check_weights, floats, takes_outputs
from maxmargin.estimators.base import Given, can_stream
from maxmargin.estimators.flat import RowSVM
from maxmargin.estimators.inputs import check_rows, score_of
from maxmargin.models.groups import Groups, Regression, numbers, split_groups
from maxmargin.parts.source import each


@dataclass(eq=False, repr=False)
class GeneralizedSVM(RowSVM):
    """Linear SVM over explicit constraints; the constraints of a group share a slack.

    Minimises 1/2 |w|^2 + C sum_i v_i xi_i with xi_i >= 0 and xi_i >= l_ij - <w, x_ij> for every row j of
    group i (Ramanan's generalised SVM). Binary, multiclass, ranking and regression problems have this form.
    A Gaussian prior may replace 1/2 |w|^2, and weights may be constrained to be non-negative.

    Parameters
    ----------
    C : float
    solver : str or solvers.Solver
        Any solver of the library; "dual-coordinate" is made for this problem.
    tol : float or "auto"
        Wanted gap, in units of the margins l; "auto" as in ``StructuralSVM``.
    prior, nonnegative
        As in ``StructuralSVM``. A constant feature with an infinite scale is a bias that is not regularised.
    max_passes, max_seconds, warm_start, n_jobs, random_state, verbose
        As in ``StructuralSVM``. A problem of at most 10,000 rows x features is solved to rounding error,
        whatever tol, if that takes at most 300 passes more.

    Attributes
    ----------
    coef_ : array of shape (d,)
    certificate_, history_, solver_, support_ : as in ``StructuralSVM``
    """

    C: float = 1.0
    solver: Any = "dual-coordinate"
    tol: float | str = "auto"
    max_passes: float = 1000
    max_seconds: float | None = None
    warm_start: bool = False
    n_jobs: Any = None
    random_state: Any = None
    verbose: int = 0
    prior: Any = None
    nonnegative: Any = None

    # Margins are targets, like y, and not metadata.
    __metadata_request__fit: ClassVar[dict[str, str]] = {"margins": UNUSED}
    __metadata_request__partial_fit: ClassVar[dict[str, str]] = {"margins": UNUSED}

    @takes_outputs
    def fit(  # type: ignore[override]
        self,
        X: Any,
        margins: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
        checkpoint: Any = None,
        checkpoint_every: float = 300.0,
        resume: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> GeneralizedSVM:
        """Train.

        Parameters
        ----------
        X : array or CSR matrix of shape (rows, d), the constraints.
        margins : array of shape (rows,), l of each row; or one number for all rows.
            ``y`` and ``Y`` are other names of ``margins``.
        groups : array of shape (n + 1,), offsets: the rows groups[i] : groups[i + 1] share a slack.
            With None each row has its own slack.
        sample_weight : array of shape (n,), one weight for each group
        checkpoint, checkpoint_every, resume, callbacks : as in ``StructuralSVM.fit``

        For solver="streaming" X may be an iterable of chunks (X, margins), (X, margins, groups) or
        (X, margins, groups, sample_weight).
        """
        kept = (checkpoint, checkpoint_every, resume)
        self._fit(Given(X, margins, sample_weight, groups=groups, callbacks=callbacks, kept=kept))
        return self

    @available_if(can_stream)
    @takes_outputs
    def partial_fit(
        self, X: Any, margins: Any, groups: Any = None, sample_weight: Any = None
    ) -> GeneralizedSVM:
        """Train on some more constraints, as ``StructuralSVM.partial_fit`` does.

        The constraints may come from a search at ``coef_``, such as hard negatives. Constraints that were
        never given have no multipliers, so the dual bounds the optimum of the problem with all constraints.
        """
        self._partial_fit(Given(X, margins, sample_weight, groups=groups))
        return self

    def _read(self, given: Given, reset: bool = True) -> Given:
        if self._in_chunks(given):
            return replace(given, X=each(given.X, self._chunk), in_parts=True, model=Groups())
        X, margins = check_rows(self, given.X, reset=reset), floats(given.Y, "margins")
        if margins.ndim == 0:
            margins = np.full(X.shape[0], margins)
        margins = numbers(margins, "margins", X.shape[0])
        return replace(given, X=X, Y=margins, model=Groups(given.groups))

    def _chunk(self, chunk: Any) -> Any:
        """Convert a chunk and split it into single groups."""
        if not isinstance(chunk, tuple) or not 2 <= len(chunk) <= 4:
            raise ValueError(
                "a chunk of X must be a tuple (X, margins), (X, margins, groups) or (X, margins, groups, "
                f"sample_weight), got {type(chunk).__name__}"
            )
        X, margins, groups, weights = (*chunk, None, None)[:4]
        given = self._cut(self._read(Given(X, margins, groups=groups)))
        return given.X, given.Y, check_weights(weights, len(given.Y))

    def _cut(self, given: Given) -> Given:
        X, margins = split_groups(given.X, given.Y, given.groups)
        return replace(given, X=X, Y=margins, model=Groups())

    def decision_function(self, X: Any) -> np.ndarray:
        """Return <w, x> of every row."""
        return self._rows(X) @ self.coef_


@dataclass(eq=False, repr=False)
class RegressionSVR(RegressorMixin, RowSVM):
    """Linear support vector regression with the epsilon-insensitive loss.

    Minimises 1/2 |w|^2 + C sum_i v_i max(0, |y_i - <w, x_i>| - epsilon). The intercept is the weight of a
    constant feature 1, regularised like the rest by default.

    Parameters
    ----------
    C : float
    epsilon : float
        Errors up to this size cost nothing.
    fit_intercept : bool
    penalized_intercept : bool
        Whether 1/2 |w|^2 counts the intercept. False gives the problem of LIBSVM, and takes more time.
    solver : str or solvers.Solver
        Any solver of the library; "dual-coordinate" is fast on scaled or sparse features.
    tol : float or "auto"
        Wanted gap, in units of y; "auto" as in ``StructuralSVM``.
    max_passes, max_seconds, warm_start, n_jobs, random_state, verbose
        As in ``StructuralSVM``. A small problem is solved to rounding error, as in ``GeneralizedSVM``.

    Attributes
    ----------
    coef_ : array of shape (d,);  intercept_ : float
    certificate_, history_, solver_, support_ : as in ``StructuralSVM``
    """

    C: float = 1.0
    epsilon: float = 0.1
    fit_intercept: bool = True
    solver: Any = "auto"
    tol: float | str = "auto"
    max_passes: float = 1000
    max_seconds: float | None = None
    warm_start: bool = False
    n_jobs: Any = None
    random_state: Any = None
    verbose: int = 0
    penalized_intercept: bool = True

    @available_if(can_stream)
    @takes_outputs
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> RegressionSVR:
        """Train on one more chunk, as ``StructuralSVM.partial_fit`` does."""
        self._partial_fit(Given(X, y, sample_weight))
        return self

    def _read(self, given: Given, reset: bool = True) -> Given:
        model = Regression(self.epsilon, self._bias)
        if self._in_chunks(given):
            return replace(given, in_parts=True, model=model)
        X, y = check_rows(self, given.X, y=given.Y, y_numeric=True, reset=reset)
        return replace(given, X=X, Y=floats(y, "y"), model=model)

    @staticmethod
    def _params_of(model: Any) -> dict[str, Any]:
        return {"epsilon": model.epsilon}

    def _adopt(self, model: Any, w: np.ndarray) -> None:
        super()._adopt(model, w)
        parts = model.unpack(w)
        self.coef_: np.ndarray = parts["weights"]
        self.intercept_: float = float(parts.get("bias", 0.0))

    @takes_outputs
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 of the predictions."""
        return score_of(super().score, X, y, sample_weight)

    def predict(self, X: Any) -> np.ndarray:
        """Return <w, x> + intercept of every row."""
        return self._rows(X) @ self.coef_ + self.intercept_
