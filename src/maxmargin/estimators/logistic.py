"""MulticlassLogistic: logistic regression with a certificate, in the manner of scikit-learn's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxmargin.callbacks import Callback
from maxmargin.estimators.base import Given
from maxmargin.estimators.flat import FlatClassifier
from maxmargin.models.binary import Binary
from maxmargin.models.flat import FlatModel
from maxmargin.models.multiclass import Multiclass


@dataclass(eq=False, repr=False)
class MulticlassLogistic(FlatClassifier):
    """Logistic regression.

    Minimises 1/2 |W|^2 - C sum_i v_i log p(y_i | x_i), with p(y | x) as exp(<w_y, x>); for two classes
    there is one vector w, and p(second | x) = 1 / (1 + exp(-<w, x>)). C is that of scikit-learn's
    LogisticRegression. The intercept is the weight of a constant feature 1, regularised like the rest.

    Parameters
    ----------
    C : float
    fit_intercept : bool
    class_weight : dict, "balanced" or None
    solver, tol, max_passes, max_seconds, warm_start, n_jobs, random_state, verbose
        As in ``CRF``. A problem of at most 10,000 examples x features x classes is solved to rounding,
        whatever tol, if that takes at most 300 passes more.

    Attributes
    ----------
    coef_ : array of shape (K, d), (1, d) for two classes;  intercept_ : as many
    classes_ : array of shape (K,)
    certificate_, history_, solver_, support_ : as in ``CRF``
    """

    hinge: ClassVar[str] = "log"  # type: ignore[misc]

    C: float = 1.0
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

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        checkpoint: Any = None,
        checkpoint_every: float = 300.0,
        resume: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> MulticlassLogistic:
        """Train on X (n, d), dense or CSR, and labels y (n,); checkpoints as in ``StructuralSVM.fit``."""
        self._fit(
            Given(
                X,
                y,
                sample_weight,
                callbacks=callbacks,
                checkpoint=checkpoint,
                checkpoint_every=checkpoint_every,
                resume=resume,
            )
        )
        return self

    def _make_model(self, labels: np.ndarray | None) -> FlatModel:
        two = labels is not None and len(np.unique(labels)) == 2
        return Binary(bias=self._bias) if two else Multiclass(bias=self._bias)

    def predict_proba(self, X: Any) -> np.ndarray:
        """p(y | x), (n, K), in the order of ``classes_``."""
        return self.predict_marginals(X)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """log p(y | x)."""
        beliefs = self._node_beliefs(X)[0](self._temperature(None))
        return self._by_examples(beliefs.split(beliefs.log_marginals()))

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores (n, K); (n,) for two classes, positive for the second."""
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores
