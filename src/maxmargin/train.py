"""The training loop: start; until the certificate is good enough or a budget ends: step, certify, notify."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.callbacks import Callback
from maxmargin.problem import Certificate, Problem, Status, Support, Tolerance, gap_between
from maxmargin.problem.tolerance import AUTO, check_tolerance
from maxmargin.run import Keeper, Result, Run
from maxmargin.runtime.deadline import TimeUp, deadline
from maxmargin.solvers import Solver
from maxmargin.solvers.dual_state import mean_loss

PATIENCE = 10  # steps without an exact pass, after which one is made whatever was learnt before
NEARBY = 30.0  # times what is enough: an estimate below this is worth an exact pass now and then


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
    loss, calls = problem_loss(problem, random_state) if tol == AUTO else (math.nan, 0)
    tolerance = Tolerance(tol, problem.total, loss)
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
            look_first(run, state)  # for other masses it is never at its goal
        while run.status is None:
            advance(run, state, callbacks, certify_every)
            run.save(state, due=False)
    except KeyboardInterrupt:
        run.status = Status.INTERRUPTED
    except TimeUp:
        run.status = Status.TIME_LIMIT
    if state is None:
        raise KeyboardInterrupt("training was interrupted before there was a solution")
    if not solver.verify:
        estimate(run, state)
    elif run.certified != run.steps:
        conclude(run, state)
    run.save(state)
    if problem.checked and run.ceilings is not None and run.status is not Status.INTERRUPTED:
        assert run.w is not None
        problem.check_ceilings(run.w, run.ceilings)
    if run.proven:
        run.settle(run.tol)
        for callback in callbacks:
            run.take(callback.kept())
    result = finish(run, run.solver.reduced_gap(problem, state) if problem.summed else None)
    for callback in callbacks:
        callback.on_end(run.progress())
    return result


def advance(run: Run, state: Any, callbacks: Sequence[Callback], certify_every: int | None) -> None:
    """One step, an exact pass where it is due, and the decision to go on."""
    if run.problem.files is not None:
        run.problem.files.check()
    with deadline(run.max_seconds - run.seconds):
        report = run.solver.step(run.problem, state)
    if report.ended and report.oracle_calls == 0 and run.certified == run.steps:
        run.status = report.ended  # nothing has moved since the last exact pass
        return
    run.oracle_calls += report.oracle_calls
    run.steps += 1
    run.retarget(state, report)
    asked = certify_every is not None and run.steps % certify_every == 0
    # On the way from tol to the polished solution an exact pass marks the moment when tol is reached.
    passed = run.aim < run.tol < run.gap and report.estimate <= run.tol
    free = report.slacks is not None and report.estimate <= run.aim
    # A solver that is satisfied everywhere makes no more moves: its estimate never falls to a low threshold.
    # Where losses hang on few examples the estimate stays far above the gap.
    near = report.estimate <= NEARBY * (run.enough if run.gap > run.enough else run.aim)
    late = near and run.steps - run.certified >= PATIENCE
    # A step whose numbers are not finite is looked at: what it left may have overflowed.
    lost = not math.isfinite(report.dual) or math.isnan(report.estimate)
    due = free or report.estimate <= run.hope * run.aim or asked or passed or late or lost
    if due and run.chosen.verify:
        run.certify(state, report)
        run.settle(run.goal)
    run.record(report)
    progress = run.progress(state)
    stop = [callback.on_step(progress) for callback in callbacks]
    if run.status is None:
        run.status = report.ended or (Status.STOPPED if any(stop) else run.budget())


def problem_loss(problem: Problem, random_state: Any) -> tuple[float, int]:
    """The mean loss at w = 0 of some examples, and the oracle calls that it took.

    Of a stream, those of its first part; where these have no weight, 1.
    """
    rng = np.random.default_rng(random_state)
    if problem.open_stream is None:
        return mean_loss(problem, rng)
    part = problem.first_part()
    return (1.0, 0) if part is None else mean_loss(part, rng)


def look_first(run: Run, state: Any) -> None:
    """A warm start may be at its goal before the first step."""
    run.certify(state, None, run.begun)
    run.record()
    run.settle(run.goal)


def conclude(run: Run, state: Any) -> None:
    """A truthful certificate for where training ended, which may be better than was known."""
    run.certify(state, None)
    if not run.history.rows:  # interrupted in the first step
        run.record()
    run.history.amend(**run.known())


def estimate(run: Run, state: Any) -> None:
    """The dual of where training ended, and the gap as the solver saw it: no exact pass, no proof."""
    run.w, run.support = run.solver.solution(run.problem, state)
    run.dual = run.problem.dual_objective(run.support)
    run.primal = run.dual + run.history.last("estimate", math.inf) * run.problem.total
    run.proven = False
    if math.isnan(run.primal) or math.isinf(run.dual):
        run.primal, run.status = math.inf, Status.NUMERICAL
    run.gap = gap_between(run.primal, run.dual, run.problem.total)


def finish(run: Run, reduced_gap: float | None) -> Result:
    """The certificate of the best point."""
    if run.w is None or run.support is None:
        raise ValueError(
            "no point with a finite objective was found: C, sample_weight, the costs or X are too large for "
            "double precision; scale them down"
        )
    assert run.status is not None
    exact = run.problem.bounded and run.proven
    certificate = Certificate(
        primal=run.primal,
        dual=run.dual,
        gap=run.gap,
        tol=run.tol,
        converged=run.gap <= run.tol and exact,
        exact=exact,
        passes=run.passes,
        oracle_calls=run.oracle_calls,
        support=len(run.support.blocks),
        seconds=run.seconds,
        status=run.status.value,
        relaxed=run.support.relaxed,
        reduced_gap=reduced_gap,
    )
    return Result(
        run.w,
        run.support,
        certificate,
        run.history,
        run.status,
        run.chosen.name,
        "" if certificate.converged else run.status.advice(certificate, run.chosen.advice),
        resumable=run.support.kind in run.chosen.continues(run.problem),
    )
