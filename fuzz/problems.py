"""Random tiny problems of every model, solver, formulation and regulariser, with degenerate data.

The library promises the following, compared with the enumeration of all outputs:

    primal = P(coef_) by definition, or above it if the argmax is a search
    the multipliers are feasible, and dual = D(a) by definition, so no optimum is below it
    dual <= optimum <= primal by the dense QP, for a tenth of the problems
    converged means a finite gap of at most tol; only a fit that has not converged warns about it
    the dual of an ascent never falls, and budgets hold

    python -m fuzz.problems --seconds 600 --seed 1
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from fuzz.common import Find, main
from maxmargin import models, solvers
from maxmargin.problem.plane import MARGINALS

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers import FLAT, as_python, built_in
from reference.box_qp import solve_summed
from reference.dense_qp import solve
from reference.enumerate import Block
from reference.hostile import Hostile, random_problem

KINDS = (
    "multiclass",
    "binary",
    "chain",
    "graph",
    "multilabel",
    "tree",
    "grammar",
    "python-multiclass",
    "python-chain",
    "kernel-multiclass",
    "kernel-binary",
    "kernel-chain",
)
ROUNDING = 1e-9  # relative to the sum of the absolute values of the terms of a bound
SECONDS, GRACE = 2.0, 20.0  # time limit of a fit; extra time on a busy machine
# most iterations of the dense QP; a problem that needs more is not solved precisely enough
JUDGED = 40
# Use many short steps in place of few long ones, because budgets are checked between steps.
QUICK = {"fasole": solvers.Fasole(max_sweeps=30), "n-slack": solvers.NSlack(max_sweeps=30)}
ASCENTS = ("sda", "sdm", "fasole", "n-slack")  # solvers whose running dual never falls


def demand(holds: bool, what: str) -> None:
    """Raise a Find if a promise is broken."""
    if not holds:
        raise Find(what)


def fitted(problem: Hostile) -> tuple[Any, bool]:
    """Fit; return the estimator and whether it warned of convergence.

    Any warning that is not a ConvergenceWarning is an error.
    """
    case = problem.case
    model, X = as_python(case) if problem.python else (built_in(case), case.X)
    if problem.form == "kernel":  # a linear kernel has the same optimum as the model
        model = models.Kernel(model, kernel="linear")
    svm = mm.StructuralSVM(
        model,
        C=case.C,
        hinge=problem.hinge,
        rescaling=case.rescaling,
        solver=QUICK.get(problem.solver, problem.solver),
        tol=problem.tol,
        max_passes=problem.max_passes,
        max_seconds=SECONDS,
        random_state=0,
        **problem.given,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("always", ConvergenceWarning)
        svm.fit(X, case.Y, sample_weight=case.sample_weight)
    # Other convergence warnings say that nothing was learnt, and suggest a C.
    return svm, any(str(own.message).startswith("not converged") for own in caught)


def check_claims(problem: Hostile, svm: Any, warned: bool) -> None:
    """Check that the parts of the certificate agree with each other."""
    c = svm.certificate_
    total = float(problem.case.budgets.sum())
    demand(c.status != "numerical trouble", f"numerical trouble on moderate numbers: {c}")
    demand(np.isfinite(svm.coef_).all() and np.isfinite(c.dual), f"not finite: {c}")
    demand(warned != c.converged, f"warned: {warned}, converged: {c.converged}")
    demand(not c.converged or (np.isfinite(c.gap) and c.gap <= c.tol), f"converged: {c}")
    gap = max(0.0, c.primal - c.dual) / total
    demand(c.gap == gap or abs(c.gap - gap) <= 1e-12 * gap, f"gap {c.gap}, but {gap}")
    demand((c.status == "solved") == c.converged, f"status and converged differ: {c}")
    demand(c.seconds <= SECONDS + GRACE, f"{c.seconds} s for a limit of {SECONDS} s")
    demand(
        c.dual <= c.primal + ROUNDING * problem.primal(0 * problem.prior.mean)[1], f"crossed: {c}"
    )
    demand(c.passes <= problem.max_passes + 3 + 0.1 * problem.max_passes, f"{c.passes} passes")


def check_primal(problem: Hostile, svm: Any) -> None:
    """Check that primal is P(coef_), or above it if the argmax may miss the worst output."""
    c, (value, size) = svm.certificate_, problem.primal(np.asarray(svm.coef_))
    searched = problem.case.kind in ("graph", "multilabel") or problem.case.rescaling == "slack"
    searched |= problem.hinge == "sum" and (problem.python or problem.case.kind == "chain")
    if c.exact or not searched:
        demand(c.primal >= value - ROUNDING * size, f"primal {c.primal} below P(w) = {value}")
    if not searched:
        demand(
            c.primal <= value + ROUNDING * size + c.rounding,
            f"primal {c.primal} above P(w) = {value}",
        )


def multipliers_of(problem: Hostile, support: Any) -> np.ndarray | None:
    """Return the multipliers of all enumerated outputs, or None if the support does not list outputs."""
    case = problem.case
    if support.kind == MARGINALS or case.kind in ("tree", "grammar"):
        return None
    owner, offsets, vectors = problem.planes
    found = np.zeros(len(owner))
    firsts = np.searchsorted(owner, np.arange(len(case.Y)))
    if isinstance(support.outputs, list):  # the support holds planes
        for i, a, (offset, (index, value)) in zip(
            support.blocks, support.multipliers, support.outputs, strict=True
        ):
            plane = np.zeros(vectors.shape[1])
            plane[index] = value
            own = np.flatnonzero(owner == i)
            near = np.abs(vectors[own] - plane).sum(axis=1) + np.abs(offsets[own] - offset)
            demand(near.min() <= 1e-9 * (1 + np.abs(plane).sum() + abs(offset)), "no such plane")
            found[own[near.argmin()]] += a
        return found
    sizes = 1 if case.kind in FLAT else None
    codes, place = np.asarray(support.outputs).ravel().tolist(), 0
    for i, a in zip(support.blocks, support.multipliers, strict=True):
        length = sizes or len(case.Y[i])
        y = tuple(codes[place : place + length])  # here the labels are their own codes
        found[firsts[i] + case.blocks[i].outputs.index(y[0] if sizes else y)] += a
        place += length
    demand(place == len(codes), "outputs are left over")
    return found


def check_dual(problem: Hostile, svm: Any) -> None:
    """Check that the multipliers are feasible and give the dual."""
    a = multipliers_of(problem, svm.support_)
    c, (value, size) = svm.certificate_, problem.primal(np.asarray(svm.coef_))
    if not c.relaxed:
        demand(c.dual <= value + ROUNDING * size, f"dual {c.dual} above P(w) = {value}")
    if a is None:
        return
    owner, offsets, vectors = problem.planes
    budgets = problem.case.budgets
    demand((a >= 0).all(), "a multiplier is negative")
    if problem.hinge == "sum":
        demand((a <= budgets[owner] * (1 + 1e-12)).all(), "a multiplier is above its mass")
    else:
        sums = np.bincount(owner, a, minlength=len(budgets))
        if svm.support_.partial:
            sums = np.where(sums == 0, budgets, sums)
        demand(np.allclose(sums, budgets, rtol=1e-8, atol=0), f"masses {sums}, not {budgets}")
    q, sizes = -(a @ vectors), a @ np.abs(vectors)
    free = np.isinf(problem.prior.root) if problem.prior.root.ndim == 1 else np.zeros(len(q), bool)
    demand((np.abs(q[free]) <= 1e-8 * sizes[free]).all(), f"free weights: {q[free]} is not 0")
    q = np.where(free, 0.0, q)
    dual = float(a @ offsets) - problem.prior.conjugate(q)
    size = float(a @ np.abs(offsets)) + problem.prior.conjugate(sizes * np.where(free, 0, 1))
    size += abs(float(np.abs(problem.prior.mean) @ sizes))
    demand(abs(c.dual - dual) <= ROUNDING * size + c.rounding, f"dual {c.dual}, but D(a) = {dual}")


def check_history(problem: Hostile, svm: Any) -> None:
    """Check the history: the dual of an ascent never falls, and certified bounds only improve."""
    history, c = svm.history_, svm.certificate_
    demand(np.isfinite(history["dual"]).all(), f"dual of steps: {history['dual']}")
    demand(not np.isnan(history["estimate"]).any(), f"estimate of steps: {history['estimate']}")
    for name in ("primal", "gap"):
        column = history[name][np.isfinite(history[name])]
        demand((np.diff(column) <= 0).all(), f"{name} rises: {column}")
    if problem.solver in ASCENTS and "prior" not in problem.given and len(history["dual"]) > 1:
        budgets, (owner, offsets, _) = problem.case.budgets, problem.planes
        noise = 1e-10 * float(budgets[owner] @ np.abs(offsets))
        demand(np.diff(history["dual"]).min() >= -noise, f"dual falls: {history['dual']}")
    demand(len(history["gap"]) > 0 and history["gap"][-1] == c.gap, "the last row is not the end")


def check_optimum(problem: Hostile, svm: Any) -> None:
    """Check that the bounds contain the optimum of the dense QP, if that is precise enough."""
    prior, case = problem.prior, problem.case
    if prior.bound is not None or np.isinf(prior.root).any():
        return
    root = np.diag(prior.root) if prior.root.ndim == 1 else prior.root
    blocks = [
        Block(b.outputs, b.offsets + b.vectors @ prior.mean, b.vectors @ root) for b in case.blocks
    ]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if problem.hinge == "sum":
                best = solve_summed(blocks, case.C, case.sample_weight)
            else:
                best = solve(blocks, case.C, case.sample_weight, max_iterations=JUDGED)
    except (RuntimeError, ValueError, np.linalg.LinAlgError, AttributeError):
        return
    c, scale = svm.certificate_, abs(best.primal) + float(case.budgets.sum())
    demand(c.primal >= best.dual - 1e-8 * scale, f"primal {c.primal} < optimum {best.dual}")
    if not c.relaxed:
        demand(c.dual <= best.primal + 1e-8 * scale, f"dual {c.dual} > optimum {best.primal}")


def check_again(problem: Hostile, svm: Any) -> None:
    """Check that ``certify`` finds the same bounds."""
    case = problem.case
    X = as_python(case)[1] if problem.python else case.X
    again, c = mm.certify(svm, X, case.Y, sample_weight=case.sample_weight), svm.certificate_
    for name in ("primal", "dual"):
        a, b = getattr(again, name), getattr(c, name)
        near = 1e-9 * abs(b) + max(again.rounding, c.rounding)  # a bound on rounding may differ
        demand(a == b or abs(a - b) <= near, f"certify: {name} {a}, but {b}")


def attempt(rng: np.random.Generator) -> str:
    """Try one problem."""
    problem = random_problem(rng, KINDS)
    try:
        svm, warned = fitted(problem)
        check_claims(problem, svm, warned)
        if problem.form != "kernel":
            check_primal(problem, svm)
            check_dual(problem, svm)
        check_history(problem, svm)
        if rng.random() < 0.1:
            check_optimum(problem, svm)
            check_again(problem, svm)
    except Exception as error:
        where = f"{problem.name}, C={problem.case.C:.3g}, tol={problem.tol:.3g}"
        raise Find(f"{where}: {type(error).__name__}: {error}") from error
    return problem.name.split()[0] + " " + problem.name.split()[-1]


if __name__ == "__main__":
    main("problems", attempt)
