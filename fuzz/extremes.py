"""The problems of ``fuzz.problems`` with numbers of any size: features, C, weights, costs,
tolerances.

The library promises one of three outcomes: a ValueError with a clear message, a certificate that is
finite
and true, or the status "numerical trouble". It never claims convergence if a bound is not finite,
never
raises another exception or warning, and never hangs.

    python -m fuzz.extremes --seconds 600 --seed 1
"""

from __future__ import annotations

import copy
import traceback
from dataclasses import replace
from pathlib import Path

import numpy as np

import maxmargin
from fuzz.common import Find, main
from fuzz.problems import GRACE, KINDS, ROUNDING, SECONDS, as_python, demand, fitted
from maxmargin.problem import Certificate
from reference.hostile import Hostile, random_problem, spoilt

PACKAGE = str(Path(maxmargin.__file__).parent)
WIDTHS = (5, 40, 100, 300)  # ranges of decimal exponents, from -width to width
FEATURES = [kind for kind in KINDS if kind != "grammar"]
SUBNORMAL = 1e-310  # a tolerance: smaller numbers have few digits
REGULARIZED = (
    "matrix",
    "free",
)  # not compared with P(w): their inverses have a small range


def power(rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
    """Draw random powers of ten."""
    width = float(rng.choice(WIDTHS))
    return 10.0 ** rng.uniform(-width, width, size=shape)


def scaled(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """Scale the features to extreme sizes: all of them, or each column, row or entry on its own."""
    which, (n, d) = rng.integers(4), X.shape
    shape = [(), (1, d), (n, 1), (n, d)][which]
    return X * power(rng, shape)


def extreme(rng: np.random.Generator, problem: Hostile) -> Hostile:
    """Return the problem with numbers of any size."""
    case = problem.case
    with np.errstate(over="ignore", under="ignore"):
        case = spoilt(rng, case, scaled) if rng.random() < 0.7 else case
        if rng.random() < 0.7:
            case = case.replace(C=float(power(rng)))
        if rng.random() < 0.3:
            weights = power(rng, (len(case.Y),)) * (rng.random(len(case.Y)) < 0.8)
            case = case.replace(sample_weight=weights)
        if rng.random() < 0.2 and case.options.get("costs") is not None:
            costs = case.options["costs"] * power(rng)
            truth = copy.copy(case.truth)
            truth.costs = costs
            case = case.replace(truth=truth, options=case.options | {"costs": costs})
    tol = float(power(rng)) if rng.random() < 0.3 else problem.tol
    return replace(problem, case=case, tol=tol, max_passes=15)


def check_refusal(error: ValueError) -> None:
    """Check that the package itself raised the error, and not a library that it calls."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    demand(frame.filename.startswith(PACKAGE), f"raised by {frame.filename}: {error}")


def check_truth(problem: Hostile, c: Certificate, w: np.ndarray) -> None:
    """Check that the primal is not below P(w), and the dual not above it."""
    if problem.name.split()[3] in REGULARIZED or problem.form == "kernel":
        return
    with np.errstate(all="ignore"):
        value, size = problem.primal(w, wide=True)
    if not np.isfinite(float(size)):
        return
    if c.exact:
        demand(
            c.primal >= value - ROUNDING * size - SUBNORMAL,
            f"primal {c.primal} below P(w) = {value}",
        )
    if not c.relaxed:
        demand(c.dual <= value + ROUNDING * size + SUBNORMAL, f"dual {c.dual} above P(w) = {value}")


def check(problem: Hostile, svm: object, warned: bool) -> str:
    """Check that the result is true, and return its status."""
    c, w = svm.certificate_, np.asarray(svm.coef_)  # type: ignore[attr-defined]
    finite = bool(np.isfinite([c.primal, c.dual]).all() and np.isfinite(w).all())
    demand(not np.isnan([c.primal, c.dual, c.gap]).any(), f"NaN: {c}")
    demand(not c.converged or (finite and c.gap <= c.tol), f"converged: {c}")
    demand((c.status == "solved") == c.converged, f"status and converged differ: {c}")
    demand(warned != c.converged, f"warned: {warned}, converged: {c.converged}")
    demand(c.seconds <= SECONDS + GRACE, f"{c.seconds} s for a limit of {SECONDS} s")
    unbounded = problem.hinge == "sum" or not c.exact
    demand(finite or unbounded or c.status == "numerical trouble", f"not finite: {c}")
    if np.isfinite(w).all():
        check_truth(problem, c, w)
    return str(c.status)


def attempt(rng: np.random.Generator) -> str:
    """Try one problem."""
    problem = extreme(rng, random_problem(rng, tuple(FEATURES)))
    where = f"{problem.name}, C={problem.case.C:.3g}, tol={problem.tol:.3g}"
    if problem.python and not all(np.isfinite(x).all() for x in as_python(problem.case)[1]):
        return "not finite: left to an own model"
    try:
        svm, warned = fitted(problem)
        status = check(problem, svm, warned)
    except ValueError as error:
        check_refusal(error)
        return "refused: " + str(error).split(" ")[0].rstrip(":[0123456789]")
    except Exception as error:
        raise Find(f"{where}: {type(error).__name__}: {error}") from error
    return f"{problem.solver}: {status}"


if __name__ == "__main__":
    main("extremes", attempt)
