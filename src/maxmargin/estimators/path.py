"""The regularisation path: one problem for many C, each solved from the multipliers of the previous C.

C increases along the path. The mass that a block gains goes to its true output, so the next solution starts
at the last w. The data are bound once, and every C has its own certificate.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from sklearn.base import clone

from maxmargin.callbacks import Callback
from maxmargin.data.arrays import FINITE, floats, takes_outputs, whole
from maxmargin.estimators.base import BaseSVM, Given
from maxmargin.estimators.hooks import notified
from maxmargin.estimators.inputs import scorer_of
from maxmargin.problem import Certificate, Problem, Status, Support

# Decades of C above the smallest useful C, if only the number of values is given. On OCR letters, USPS and
# CoNLL-2000 the best C is 300 to 1000 times the smallest useful one, so fewer decades may miss it.
DECADES = 4
FIRST_C_SHARE = 0.1  # share of ``first_c`` at which the range is searched
ROUGH = 0.01  # tol of that search, as a share of the loss at w = 0


@dataclass(frozen=True)
class RegularizationPath:
    """Solutions for growing C.

    Attributes
    ----------
    Cs : array, ascending
    estimators : list, a fitted estimator for each C, with its own ``certificate_``
    scores : array of the scores on the validation data, or None
    """

    Cs: np.ndarray
    estimators: list[Any]
    scores: np.ndarray | None = None

    @property
    def certificates(self) -> list[Certificate]:
        """The certificate of each C."""
        return [svm.certificate_ for svm in self.estimators]

    @property
    def best(self) -> Any:
        """The estimator with the best score; among equal scores, the smallest C."""
        if self.scores is None:
            raise ValueError("regularization_path: a choice by score needs validation=(X, Y)")
        return self.estimators[best_of(self.scores)]


@takes_outputs
def regularization_path(
    estimator: BaseSVM,
    X: Any,
    y: Any,
    Cs: Any = 10,
    *,
    validation: Any = None,
    scoring: Any = None,
    callbacks: Sequence[Callback] = (),
    **fit_params: Any,
) -> RegularizationPath:
    """Solve one problem for many C, from the smallest to the largest, each from the last solution.

    Parameters
    ----------
    estimator : any estimator but LatentSVM
        Its C is ignored; its budgets apply to each C.
    X, y : as its ``fit`` takes them, in memory
    Cs : int or array
        The values of C, or their number. A number of values covers four decades from the smallest useful C,
        which is found from the data (docs/choosing_c.md).
    validation : (X, y) or None
        Data on which each solution is scored.
    scoring : None for ``estimator.score``, a name from scikit-learn or ``maxmargin.metrics``, or
        callable(estimator, X, Y)
    callbacks : as ``fit`` takes them; they see every C
    fit_params : sample_weight, node_weight, groups, if ``fit`` takes them
    """
    known = {field.name for field in fields(Given)}
    for name in fit_params:
        if name in ("checkpoint", "checkpoint_every", "resume"):
            raise TypeError(
                f"regularization_path does not take {name}; fit each C separately, with its own "
                "checkpoint"
            )
        if name not in known - {"classes", "in_parts", "model", "kept"}:
            raise TypeError(f"regularization_path: unknown argument {name!r}")
    score = None if validation is None else scorer_of(estimator, scoring)
    given = Given(X, y, callbacks=callbacks, **fit_params)
    estimators = list(solutions(estimator, given, Cs))
    scores = None
    if score is not None:
        scores = np.array([score(svm, *validation) for svm in estimators])
    return RegularizationPath(np.array([svm.C for svm in estimators]), estimators, scores)


def solutions(estimator: BaseSVM, given: Given, Cs: Any) -> Iterator[Any]:
    """Yield a fitted estimator for every C, in ascending order, as soon as it is solved."""
    check_values("Cs", Cs)
    svm = clone(estimator).set_params(warm_start=False)
    svm._check_parameters()
    given = svm._read(given)
    svm._check_convex(given)
    svm._attach(given)
    if given.in_parts:
        raise ValueError("a path needs data in memory; give X and Y, not a stream")
    with svm._workers(given.model) as executor:
        problem, svm._fingerprint = svm._pose(given, executor)
        warm: Support | None = None
        if np.ndim(Cs) == 0:
            Cs, warm = found_range(svm, problem, int(Cs))
        for C in np.unique(floats(Cs, "Cs")):
            fitted = copy.copy(svm).set_params(C=float(C), warm_start=estimator.warm_start)
            with notified(fitted, given.callbacks):
                polish = svm._polish(given)
                problem = problem.at(
                    float(C)
                )  # built from the last problem, whose results at w = 0 still hold
                result = svm._train(problem, warm, polish, given.callbacks)
                if result.status is Status.INTERRUPTED:
                    raise KeyboardInterrupt(f"the path was interrupted at C={C:g}")
                warm = result.support if result.resumable else None
                fitted._finish(given, result)
            yield fitted


def found_range(svm: BaseSVM, problem: Problem, count: int) -> tuple[np.ndarray, Support | None]:
    """Values of C that suit the data, and multipliers to start from.

    The multipliers at a small C show the smallest useful C. They show it better than the worst outputs at w
    = 0, which are all of one kind if outputs tie.
    """
    C = FIRST_C_SHARE * problem.first_c()
    if not 0 < C < np.inf:  # no loss to reduce: w = 0 for every C
        return np.geomspace(1.0, 10.0**DECADES, count), None
    small = problem.at(C)
    loss = float(small.cut(np.zeros(problem.dimension)).risk) / small.total
    result = svm._train(small, None, budget={"tol": ROUGH * loss})
    least = small.useful_c(result.support)
    least = least if np.isfinite(least) else C / FIRST_C_SHARE
    least = float(f"{least:.1e}")  # rounded, so that the seed does not change it
    warm = result.support if result.resumable else None
    return np.geomspace(least, least * 10.0**DECADES, count), warm


def check_values(name: str, Cs: Any) -> None:
    """Raise an error unless ``Cs`` is a number of values or a list of values of C."""
    if np.ndim(Cs) == 0:
        return whole().check(name, Cs)
    if np.ndim(Cs) != 1 or len(Cs) == 0:
        raise ValueError(f"{name} must be a whole number or a list of values of C, got {Cs!r}")
    for C in Cs:
        FINITE.check(f"{name}: each C", C)


def best_of(scores: Any) -> int:
    """The index of the best score, the first among equal ones; NaN does not count."""
    if np.isnan(scores).all():
        raise ValueError("all scores are NaN; change scoring or the validation data")
    return int(np.nanargmax(scores))
