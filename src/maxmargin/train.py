"""The training loop: start; until the certificate is good enough or a budget ends: step, certify, notify."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.callbacks import Callback
from maxmargin.problem import Problem, Status, Support, Tolerance
from maxmargin.problem.tolerance import AUTO, check_tolerance
from maxmargin.run import Keeper, Result, Run
from maxmargin.runtime.deadline import TimeUp
from maxmargin.solvers import Solver
from maxmargin.solvers.dual_state import mean_loss


@np.errstate(over="ignore", invalid="ignore")  # what overflows ends training, with a status
def train(
    problem: Problem,
    solver: Solver,
    *,
    tol: float | str = AUTO,
    max_passes: float = 1000,
    max_seconds: float | None = None,
    callbacks: Sequence[Callback] = (),
    random_state: Any = None,
    warm: Support | None = None,
    certify_every: int | None = None,
    polish: float | None = None,
    keeper: Keeper | None = None,
) -> Result:
    """Minimise a problem.

    Parameters
    ----------
    tol : float or "auto"
        Wanted gap: a number in units of the task loss, or a hundredth of the primal.
    max_passes, max_seconds : float
        Budgets; a pass is as many oracle calls as there are blocks, exact passes included. The time limit
        ends a step in the middle; the exact pass of the certificate comes after it.
    certify_every : int or None
        Steps between two exact passes; None: one is made only when it has a chance to end training.
    polish : float or None
        Go on below tol to this gap, for at most 300 passes and within the budgets; tol alone decides
        on convergence.
    keeper : Keeper or None
        Keeps snapshots, and may have one to begin with; budgets then count what was spent before it.
    """
    if not isinstance(solver, Solver):
        raise TypeError(f"solver must be an instance of solvers.Solver, got {solver!r}")
    check_tolerance("tol", tol)
    if tol == math.inf:
        raise ValueError(f"tol must be a positive number or 'auto', got {tol!r}")
    solver.check(problem, warm)
    rng = np.random.default_rng(random_state)
    limit = math.inf if max_seconds is None else max_seconds
    tolerance, calls = tolerance_of(problem, tol, random_state)
    most = polish or math.inf
    run = Run(problem, solver, tolerance, most, max_passes, limit, keeper=keeper)
    run.oracle_calls += calls
    for callback in callbacks:
        callback.on_start(run.progress())
    state = None
    try:
        if warm is None and problem.checked:
            run.oracle_calls += problem.try_oracle()
        state = run.start(rng, warm)
        warm = warm if run.begun is None else run.begun.support
        if warm is not None and (problem.open_stream is not None or problem.feasible(warm)):
            run.look_first(state)  # for other masses it is never at its goal
        while run.status is None:
            run.advance(state, callbacks, certify_every)
            run.save(state, due=False)
    except KeyboardInterrupt:
        run.status = Status.INTERRUPTED
    except TimeUp:
        run.status = Status.TIME_LIMIT
    if state is None:
        raise KeyboardInterrupt("training was interrupted before there was a solution")
    return ended(run, state, callbacks)


def ended(run: Run, state: Any, callbacks: Sequence[Callback]) -> Result:
    """What is known where training ended: the last certificate, snapshot and words of callbacks."""
    problem = run.problem
    if not run.chosen.verify:
        run.estimate(state)
    elif run.certified != run.steps:
        run.conclude(state)
    run.save(state)
    if problem.checked and run.ceilings is not None and run.status is not Status.INTERRUPTED:
        assert run.w is not None
        problem.check_ceilings(run.w, run.ceilings)
    if run.proven:
        run.settle(run.tol)
        for callback in callbacks:
            run.take(callback.kept())
    result = run.finish(run.solver.reduced_gap(problem, state) if problem.summed else None)
    for callback in callbacks:
        callback.on_end(run.progress())
    return result


def tolerance_of(problem: Problem, tol: float | str, random_state: Any) -> tuple[Tolerance, int]:
    """What is asked of the gap, and the oracle calls that it took to know.

    "auto" needs the mean loss at w = 0 of some examples: of a stream, those of its first part; where
    these have no weight, 1.
    """
    loss, calls = math.nan, 0
    if tol == AUTO:
        part = problem if problem.open_stream is None else problem.first_part()
        rng = np.random.default_rng(random_state)
        loss, calls = (1.0, 0) if part is None else mean_loss(part, rng)
    return Tolerance(tol, problem.total, loss), calls
