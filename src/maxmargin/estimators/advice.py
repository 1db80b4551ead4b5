"""Warnings after training: not converged, or nothing learnt; and what to change.

If nothing is learnt at C, the warning suggests a larger C that works. Trials find this C. Each trial raises
C to the value at which the dual stops growing along the last multipliers (``Problem.useful_c``). A short
training from these multipliers then shows whether the model still predicts too little.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from maxmargin.io.quoting import short
from maxmargin.models.python import bind_model
from maxmargin.problem import Problem, Status
from maxmargin.result import Result
from maxmargin.train import LARGEST_OBJECTIVE, train

TRIALS = 6  # values of C that are tried if nothing was learnt; more delay the warning
TRIAL: dict[str, Any] = {"max_passes": 100, "random_state": 0}  # options of each trial
TRIAL_SECONDS = 5.0  # seconds for all trials, or the time of the fit if it is longer
LEAP = 1000.0  # largest factor on C between trials; a larger one may skip the C that works
ROUNDED = 1 - 1e-9  # factor on a bound that allows for rounding in sums of another order
GLANCE = 200  # examples to look at first: most models that predict two labels show both among these
FEW = 2000  # up to this many examples, predicting all is faster than selecting some


def advise(svm: Any, given: Any, problem: Problem, result: Result) -> None:
    """Warn if nothing was learnt, and suggest a larger C."""
    ended = result.status in (Status.INTERRUPTED, Status.STOPPED, Status.NUMERICAL)
    if ended or are_ignored():
        return
    lack = lack_of(svm, given, problem, result)
    if lack:
        better = better_c(svm, given, problem, result)
        advice = f"C={problem.C:.3g} is too small, try C={better or 0:.2g}"
        warn_user(
            f"{lack}: {advice if better else 'larger values of C were tried, but do not help'}"
        )


def are_ignored() -> bool:
    """Whether all warnings of training are ignored; nobody should then wait for trials of C."""
    for action, message, category, module, line in warnings.filters:
        if issubclass(ConvergenceWarning, category):
            return action == "ignore" and message is None and module is None and line == 0
    return False


def lack_of(svm: Any, given: Any, problem: Problem, result: Result) -> str:
    """Describe what a solution has not learnt; empty if it has learnt enough."""
    if not problem.learns(result.support, result.certificate.primal):
        return "nothing was learnt (the objective is no better than at w = 0)"
    said = svm._lone.get(getattr(given.model, "task", ""), "")
    # If the primal is below the cost of any single label, several labels are predicted: no need to look.
    lone = said and result.certificate.primal >= ROUNDED * problem.floor_of_constant()
    found = lone_label(given, problem, result.w) if lone else []
    return said.format(*map(short, found)) if found else ""


def lone_label(given: Any, problem: Problem, w: np.ndarray) -> list[Any]:
    """The label that is predicted for all of X although Y has others; empty if there is no such label."""
    examples, X = problem.examples, given.X
    seen = examples.glance(w, GLANCE)
    sliced = isinstance(X, list | np.ndarray) or sp.issparse(X)
    if seen is None and sliced and problem.n_blocks > FEW:
        seen = bind_model(given.model, X[:GLANCE], None).predict(w)
    if seen is not None and len(labels_in(seen)) > 1:
        return []
    found = labels_in(examples.predict(w, problem.n_jobs))
    return list(found) if len(found) == 1 and labels_in(given.Y) - found else []


def labels_in(outputs: Any) -> set[Any]:
    """The set of labels in some outputs, each a label or a label sequence."""
    if isinstance(outputs, np.ndarray):
        return set(outputs.ravel().tolist())
    return {label for y in outputs for label in np.asarray(y).tolist()}


def better_c(svm: Any, given: Any, problem: Problem, result: Result) -> float | None:
    """A larger C at which a short training learns enough; None if none was found."""
    solver, zero = svm._chosen(problem), problem.at_zero()
    left = max(TRIAL_SECONDS, result.certificate.seconds)
    for _ in range(TRIALS):
        useful = problem.useful_c(result.support)
        times = min(max(useful / problem.C, 10.0), LEAP)
        if left <= 0 or not zero * times < LARGEST_OBJECTIVE:
            break
        zero, problem = zero * times, problem.at(problem.C * times)
        warm = result.support if result.resumable else None
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            # Use the tol of the fit: a rougher solution may separate labels that the fit does not.
            result = train(problem, solver, warm=warm, tol=svm.tol, max_seconds=left, **TRIAL)
        if result.certificate.primal < zero and not lack_of(svm, given, problem, result):
            return problem.C
        left -= result.certificate.seconds
    return None


def warn_not_converged(result: Result) -> None:
    """Warn that training has not converged: the gap, the tolerance, and what to do."""
    c = result.certificate
    warn_user(
        f"not converged ({c.status}): gap {c.gap:.3g} after {c.passes:.1f} passes, tol {c.tol:.3g}; "
        f"{result.advice}"
    )


def warn_user(message: str) -> None:
    """Issue a warning of training at the line that called this package."""
    frame, level = sys._getframe(1), 2
    inner = ("maxmargin.", "sklearn.callback.")  # sklearn.callback wraps every fit
    while frame.f_back and str(frame.f_globals.get("__name__")).startswith(inner):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, ConvergenceWarning, stacklevel=level)
