"""Choice of C by validation: each fold walks the regularisation path.

For every fold, a path over all C is trained on its training part, and each solution is scored on the rest.
C_ is the C with the best mean score, the smallest among equal ones. Then all data are fitted at C_.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from maxmargin.data.arrays import FLAG, check_weights, plain_sequence, takes_outputs
from maxmargin.data.mapped import some_of
from maxmargin.estimators.base import BaseSVM, Checks, Given
from maxmargin.estimators.flat import FlatSVC, MulticlassSVC
from maxmargin.estimators.hooks import learnt, watched, with_callbacks
from maxmargin.estimators.inputs import scorer_of
from maxmargin.estimators.path import best_of, check_values, solutions
from maxmargin.estimators.structural import StructuralSVM
from maxmargin.models.examples import Examples
from maxmargin.models.protocol import Model
from maxmargin.problem import Certificate, Problem
from maxmargin.runtime.executor import Threads, count_jobs

OWN_CHECKS: Checks = {"Cs": check_values, "refit": FLAG}


@dataclass
class Fold:
    """A training part, a validation part, and the results of a path over them."""

    given: Given
    rest: tuple[Any, Any]
    Cs: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    certificates: list[Certificate] = field(default_factory=list)
    best: Any = None  # the estimator with the best score so far

    def walk(self, svm: BaseSVM, Cs: Any, score: Any) -> Fold:
        """Solve and score for every C."""
        for fitted in solutions(svm, self.given, Cs):
            self.Cs.append(fitted.C)
            self.scores.append(float(score(fitted, *self.rest)))
            self.certificates.append(fitted.certificate_)
            if not np.isnan(self.scores).all() and best_of(self.scores) == len(self.scores) - 1:
                self.best = fitted
        return self


def class_weighted_score(svm: Any, X: Any, y: Any) -> float:
    """The score with classes weighted as in training; otherwise classes of weight 0 could decide C."""
    weights = svm.class_weight
    if isinstance(weights, Mapping):  # some of its classes may be missing in y
        known = np.array([weights.get(label, 1.0) for label in np.asarray(y).tolist()])
        return svm.score(X, y, sample_weight=known if known.any() else None)
    return svm.score(X, y, sample_weight=svm._example_weights(y, None))


def absent(name: str) -> Any:
    """A property that hides a method of the base class."""

    def refuse(svm: Any) -> Any:
        raise AttributeError(
            f"{type(svm).__name__} has no {name}, because it chooses C on all examples at once"
        )

    return property(refuse)


@dataclass(eq=False, repr=False)
class SearchedC(BaseSVM):
    """Base class of the estimators that choose C; they take the parameters of the estimator of one C."""

    _single: ClassVar[type[BaseSVM]]  # the estimator of one C
    _divides: ClassVar[bool] = False
    partial_fit: ClassVar[Callable[..., Any]] = absent("partial_fit")

    C: float = field(default=1.0, init=False)
    warm_start: bool = field(default=False, init=False)
    Cs: Any = field(default=10, kw_only=True)
    cv: Any = field(default=None, kw_only=True)
    scoring: Any = field(default=None, kw_only=True)
    refit: bool = field(default=True, kw_only=True)

    @with_callbacks
    def _search(self, given: Given, validation: Any, groups: Any) -> None:
        """Choose C, and take over the fitted attributes; callbacks of scikit-learn see one task."""
        self._check_parameters()
        with watched(self, given):
            self._choose(given, validation, groups)

    def _choose(self, given: Given, validation: Any, groups: Any) -> None:
        raw, read = plain_sequence(given.X), self._read(given)
        X, Y = read.X, read.Y
        weights = given.sample_weight
        if weights is not None:
            weights = check_weights(weights, len(Y))
        given = replace(given, X=X, Y=Y, sample_weight=weights)
        names = set(self._single._get_param_names()) & set(self._get_param_names())
        svm = self._single(**{name: getattr(self, name) for name in names})
        weighted = self.scoring is None and getattr(self, "class_weight", None) is not None
        score = class_weighted_score if weighted else scorer_of(svm, self.scoring)
        if validation is not None:
            folds = [Fold(given, validation).walk(svm, self.Cs, score)]
        else:
            # A user's scorer may need the attributes themselves; the default score does not.
            seen = raw if self.scoring is not None and hasattr(X, "encoder") else X
            folds = self._walk(svm, list(self._folds(given, seen, groups)), score)
        self.Cs_: np.ndarray = np.array(folds[0].Cs)
        self.scores_: np.ndarray = np.array([fold.scores for fold in folds])
        self.certificates_: list[list[Certificate]] = [fold.certificates for fold in folds]
        means = self.scores_.mean(axis=0)
        best = best_of(means)
        self.C_: float = float(self.Cs_[best])
        self.best_score_: float = float(means[best])
        if validation is not None:
            self._become(folds[0].best)
        elif self.refit:
            svm.set_params(C=self.C_)._fit(given)
            self._become(svm)

    def _folds(self, given: Given, seen: Any, groups: Any) -> Iterator[Fold]:
        """Yield the folds of ``cv``; the validation parts are in the form that scorers need."""
        X, Y = given.X, given.Y
        splitter = check_cv(self.cv, Y, classifier=is_classifier(self))
        for chosen, left in splitter.split(X, Y, groups):
            part = replace(
                given,
                X=picked(X, chosen),
                Y=picked(Y, chosen),
                sample_weight=picked(given.sample_weight, chosen),
                node_weight=picked(given.node_weight, chosen),
            )
            yield Fold(part, (picked(seen, left), picked(Y, left)))

    def _walk(self, svm: BaseSVM, folds: list[Fold], score: Any) -> list[Fold]:
        """Walk the paths of all folds over the same C; compiled models run one fold per thread.

        If the range of C is not given, the first fold finds it.
        """
        first = 0 if np.ndim(self.Cs) else 1
        for fold in folds[:first]:
            fold.walk(svm, self.Cs, score)
        left, Cs = folds[first:], folds[0].Cs or self.Cs
        jobs = min(count_jobs(self.n_jobs), len(left))
        if jobs < 2 or not isinstance(getattr(self, "model", Model()), Model):
            for fold in left:
                fold.walk(svm, Cs, score)
            return folds
        threads, alone = Threads(jobs), clone(svm).set_params(n_jobs=None)
        try:
            threads.map(Fold.walk, [(fold, alone, Cs, score) for fold in left])
        finally:
            threads.close()
        return folds

    def _become(self, svm: BaseSVM) -> None:
        """Take over the fitted attributes of an estimator."""
        self.best_estimator_ = svm
        vars(self).update(learnt(svm))

    def _problem_of(
        self, examples: Examples, sample_weight: Any, n_jobs: int = 1, C: Any = None
    ) -> Problem:
        return super()._problem_of(examples, sample_weight, n_jobs, self.C_ if C is None else C)

    def save(self, path: Any, dtype: str = "float64") -> None:
        """Write the model of ``C_`` to a file; ``maxmargin.load`` returns an estimator of one C."""
        check_is_fitted(self, "coef_")
        self.best_estimator_.save(path, dtype)


def picked(data: Any, index: np.ndarray) -> Any:
    """Select examples from the user's data."""
    return None if data is None else some_of(plain_sequence(data), index)


@dataclass(eq=False, repr=False)
class StructuralSVMCV(SearchedC, StructuralSVM):
    """StructuralSVM with C chosen by validation: by folds, or on your own data.

    Parameters
    ----------
    model : as in ``StructuralSVM``
    Cs : int or array
        The values of C, or their number. A number of values covers four decades from the smallest useful C,
        which is found from the data.
    cv : int, splitter of scikit-learn, iterable of (train, test) or None
        None: five folds.
    scoring : None for ``score``, a name, or callable(estimator, X, Y)
    refit : bool
        Fit all data at ``C_``. With False, only ``C_`` and the scores are known. With ``validation`` the
        solution of the path is taken, and there is no further fit.
    n_jobs : int, None or concurrent.futures.Executor
        Number of folds at a time; the result is the same as with one thread. For a model in Python, the
        workers of its oracle.
    hinge, rescaling, solver, tol, max_passes, max_seconds, prior, nonnegative, random_state, verbose
        Parameters of each solution, as in ``StructuralSVM``.

    Attributes
    ----------
    C_ : float, the C of the best mean score; among equal scores the smallest
    Cs_ : array, ascending
    scores_ : array of shape (folds, values of C);  best_score_ : float
    certificates_ : one list for each fold, with the certificate of each solution
    best_estimator_ : the ``StructuralSVM`` with ``C_``; this object has the same fitted attributes
    """

    _checks: ClassVar[Checks] = StructuralSVM._checks | OWN_CHECKS
    _single: ClassVar[type[BaseSVM]] = StructuralSVM

    @takes_outputs
    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        node_weight: Any = None,
        validation: Any = None,
        groups: Any = None,
    ) -> StructuralSVMCV:
        """Choose C and train.

        Parameters
        ----------
        X, y, sample_weight, node_weight : as in ``StructuralSVM.fit``; scores do not count weights
        validation : (X, y) to score on, in place of folds
        groups : array of shape (n,), for splitters that keep groups together
        """
        self._search(Given(X, y, sample_weight, node_weight), validation, groups)
        return self


@dataclass(eq=False, repr=False)
class MulticlassSVCCV(SearchedC, MulticlassSVC):
    """MulticlassSVC with C chosen by validation: by folds, or on your own data.

    Parameters
    ----------
    loss, fit_intercept, penalized_intercept, class_weight, hinge, solver, tol, max_passes, max_seconds,
    random_state, verbose
        As in ``MulticlassSVC``.
    Cs, cv, scoring, refit, n_jobs
        As in ``StructuralSVMCV``. Folds keep the shares of the classes. With scoring=None the score weighs
        classes by class_weight.

    Attributes
    ----------
    C_, Cs_, scores_, best_score_, certificates_, best_estimator_ : as in ``StructuralSVMCV``
    coef_, intercept_, classes_, certificate_, history_, solver_, support_ : at ``C_``
    """

    _checks: ClassVar[Checks] = MulticlassSVC._checks | OWN_CHECKS
    _single: ClassVar[type[BaseSVM]] = MulticlassSVC

    @takes_outputs
    def fit(  # type: ignore[override]
        self, X: Any, y: Any, sample_weight: Any = None, validation: Any = None, groups: Any = None
    ) -> FlatSVC:
        """Choose C and train on X (n, d), dense or CSR, and labels y (n,); see ``StructuralSVMCV.fit``."""
        self._search(Given(X, y, sample_weight), validation, groups)
        return self
