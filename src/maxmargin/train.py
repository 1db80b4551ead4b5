"""The training loop: start; until the certificate is good enough or a budget ends: step, certify, notify.

A run is what is known on the way: counters, bounds, the best point, the history.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from maxmargin.callbacks import Callback, Progress
from maxmargin.problem import Certificate, Problem, Status, Support, Tolerance, gap_between
from maxmargin.problem.tolerance import AUTO, ROUNDING, check_tolerance
from maxmargin.result import History, Keeper, Result, Saved
from maxmargin.runtime.deadline import TimeUp, deadline
from maxmargin.solvers import Snapshot, Solver, StepReport
from maxmargin.solvers.dual_state import mean_loss
from maxmargin.solvers.free import fitted_to

# An exact pass costs as much as a step: it is made once the running estimate is this close to tol.
HOPEFUL = 1.4
CERTAIN = 0.01  # of tol: below, an exact pass is always worth its cost
POLISH_PASSES = 300  # at most, once tol is reached
LITTLE = 20  # passes, or as many as that took, for what is wished and not asked
LARGEST = 1e300  # in place of an objective that is not finite
PATIENCE = 10  # steps without an exact pass, after which one is made whatever was learnt before
LONG_PATIENCE = 30  # the same while the estimate is above the aim
NEARBY = 30.0  # times what is enough: an estimate below this is worth an exact pass now and then
BEFORE = StepReport(0, math.inf, -math.inf, 0)  # the first step
NEWS = 0.1  # of an aim: smaller changes of it are not passed to the solver


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
    if tol == AUTO and problem.formulation.soft:
        zero = problem.at_zero()
        return Tolerance(tol, problem.total, zero / problem.total, zero), problem.n_blocks
    if tol == AUTO:
        part = problem if problem.open_stream is None else problem.first_part()
        rng = np.random.default_rng(random_state)
        loss, calls = (1.0, 0) if part is None else mean_loss(part, rng)
    return Tolerance(tol, problem.total, loss), calls


@dataclass
class Run:
    """Counters, the best certified point, history; a step at a time."""

    problem: Problem
    chosen: Solver
    tolerance: Tolerance
    polish: float
    max_passes: float
    max_seconds: float
    hope: float = HOPEFUL  # an estimate of this many times the aim is worth an exact pass
    started: float = field(default_factory=time.perf_counter)
    oracle_calls: int = 0
    steps: int = 0
    certified: int = -1  # the step after which the last exact pass was made
    polish_until: float = math.inf
    primal: float = math.inf
    seen: float = math.inf  # the primal as far as a searching argmax found it
    dual: float = -math.inf
    w: np.ndarray | None = None
    ceilings: np.ndarray | None = None  # of the slacks at w
    support: Support | None = None
    history: History = field(default_factory=History)
    last: StepReport = BEFORE  # in the history
    status: Status | None = None
    proven: bool = True
    keeper: Keeper | None = None
    saved: float = 0.0  # seconds, at the last snapshot
    gap: float = math.inf  # certified, in units of the task loss
    seen_gap: float = math.inf  # the same at the primal that was seen

    def __post_init__(self) -> None:
        free = self.problem.regularizer.free is not None
        self.solver: Solver = fitted_to(self.problem, self.chosen) if free else self.chosen
        found = None if self.keeper is None else self.keeper.found
        # What the run goes on from.
        self.begun: Snapshot | None = None if found is None else found.snapshot
        if found is not None:
            self.oracle_calls += found.oracle_calls
            self.started -= found.seconds
        self.saved = self.seconds
        self.enough: float = self.tol  # as it seems
        self.aim: float = self.goal  # what the solver was given

    def _wanted(self, primal: float, dual: float) -> tuple[float, float]:
        """The gap to be proven with these bounds, and the one at which training ends."""
        wish = min(self.tolerance.at(primal, dual, ROUNDING), self.polish)
        return self.tolerance.at(primal, dual), wish

    @property
    def tol(self) -> float:
        """The gap to be proven, in units of the loss; of "auto", with the bounds so far."""
        return self._wanted(self.primal, self.dual)[0]

    @property
    def goal(self) -> float:
        """The gap at which training ends: tol, or less where it goes on for some time."""
        return self._wanted(self.primal, self.dual)[1]

    def retarget(self, state: Any, report: StepReport) -> None:
        """Tell the solver what is asked for, as far as the objective is known: as the step saw the primal."""
        if self.tolerance.asked != AUTO:
            return
        # The mass of a stream is known when it was read.
        self.tolerance = replace(self.tolerance, total=self.problem.total)
        dual = max(report.dual, self.dual)
        seen = dual + report.estimate * self.problem.total
        primal = min(seen, self.primal)
        self.enough, aim = self._wanted(primal, dual)
        if abs(aim - self.aim) > NEWS * self.aim:
            self.solver.retarget(self.problem, state, aim / self.aim)
            self.aim = aim

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    @property
    def passes(self) -> float:
        return self.oracle_calls / self.problem.n_blocks

    def certify(self, state: Any, report: StepReport | None, at: Snapshot | None = None) -> None:
        """One exact pass; the best w and the best multipliers are kept, each for its own bound."""
        w, support = self.solver.solution(self.problem, state)
        w = w if at is None else at.w
        given = None if report is None or not self.problem.exact else report.slacks
        bounds = self.problem.certify(w, support, given)
        self.oracle_calls += self.problem.n_blocks if given is None else 0
        self.seen = min(self.seen, bounds.seen)
        # While nothing bounds the primal (hinge="sum" has such points) the last w is as good as any.
        if bounds.primal < self.primal or math.isinf(self.primal):
            self.primal, self.w, self.ceilings = bounds.primal, w, bounds.ceilings
        if bounds.dual > self.dual or self.support is None:
            self.dual, self.support = bounds.dual, support
        if bounds.overflowed or (math.isinf(bounds.primal) and not self.problem.summed):
            self.status = Status.NUMERICAL
        going = self.status is None and self.problem.open_stream is None
        if going and self.tolerance.needs_zero(self.primal, self.problem.regularizer.mean):
            self.learn_zero()
        self.certified, total = self.steps, self.problem.total
        self.gap = gap_between(self.primal, self.dual, total)
        self.seen_gap = gap_between(self.seen, self.dual, total)
        if self.gap <= self.tol and self.polish_until == math.inf:
            more = max(self.passes, LITTLE) if math.isinf(self.polish) else POLISH_PASSES
            self.polish_until = self.passes + more
        if self.gap > self.goal:
            self.solver.learn(self.problem, state, bounds.slacks)
            if report is not None:
                # The estimate was too hopeful by this factor: wait until it says enough.
                own = gap_between(bounds.primal, bounds.dual, total)
                hope = report.estimate * max(0.5, self.goal / own) / self.aim
                self.hope = max(min(self.hope, hope), CERTAIN)

    def take(self, w: np.ndarray | None) -> None:
        """Return these weights, which a callback has kept: they have a primal of their own."""
        if w is None or self.support is None:
            return
        bounds = self.problem.certify(w, self.support)
        self.oracle_calls += self.problem.n_blocks
        self.w, self.primal, self.ceilings = w, bounds.primal, bounds.ceilings
        self.gap = gap_between(self.primal, self.dual, self.problem.total)
        if self.status is Status.SOLVED and self.gap > self.tol:
            self.status = Status.STOPPED
        self.history.amend(**self.known())

    def learn_zero(self) -> None:
        """P(0), by an exact pass."""
        zero = self.problem.at_zero()
        self.oracle_calls += self.problem.n_blocks
        # Infinite for a sum over too many outputs: then it says nothing.
        self.tolerance = replace(self.tolerance, zero=min(zero, LARGEST))

    def start(self, rng: np.random.Generator, warm: Support | None) -> Any:
        """The solver's state: from a snapshot, from multipliers, or from nothing."""
        if self.begun is None:
            return self.solver.start(self.problem, self.aim, rng, warm)
        return self.solver.resume(self.problem, self.aim, rng, self.begun)

    def save(self, state: Any, due: bool = True) -> None:
        """Hand a snapshot to the keeper; where it is not `due` anyway, once enough time has passed."""
        if self.keeper is None or not (due or self.seconds - self.saved >= self.keeper.every):
            return
        at = self.solver.snapshot(self.problem, state)
        at = at if self.w is None else replace(at, w=self.w)
        self.keeper.save(Saved(at, self.oracle_calls, self.seconds))
        self.saved = self.seconds

    def budget(self) -> Status | None:
        """Whether a budget has ended."""
        if self.passes >= min(self.max_passes, self.polish_until):
            return Status.PASS_LIMIT
        if self.seconds >= self.max_seconds:
            return Status.TIME_LIMIT
        return None

    def settle(self, goal: float) -> None:
        """The certified gap may be small enough; or all that the argmax finds is, and more would not help."""
        if self.gap <= goal and self.problem.bounded:
            self.status = Status.SOLVED
        elif self.problem.summed or self.status is Status.NUMERICAL:
            return  # what was seen says nothing of the rest of a sum, or of what overflowed
        elif self.seen_gap <= goal:
            self.status = Status.INEXACT

    def known(self) -> dict[str, Any]:
        """What every row of the history has."""
        return {
            "seconds": self.seconds,
            "passes": self.passes,
            "oracle_calls": self.oracle_calls,
            "primal": self.primal,
            "gap": self.gap,
        }

    def record(self, report: StepReport | None = None) -> None:
        """Add a step to the history; without a report, the certified point."""
        if report is None:
            report = StepReport(0, self.gap, self.dual, len(self.support or ()))
        self.last = report
        self.history.append(
            **self.known(), dual=report.dual, estimate=report.estimate, planes=report.planes
        )

    def progress(self, state: Any = None) -> Progress:
        """The last step, for callbacks; with the weights that a state gives."""
        shown = state is not None and self.problem.open_stream is None
        return Progress(
            **self.known(),
            step=self.steps,
            dual=self.last.dual,
            estimate=self.last.estimate,
            planes=self.last.planes,
            tol=self.tol,
            max_passes=self.max_passes,
            max_seconds=self.max_seconds,
            solver=self.chosen.name,
            status="" if self.status is None else self.status.value,
            weights=(lambda: self.solver.solution(self.problem, state)[0]) if shown else None,
        )

    def advance(self, state: Any, callbacks: Sequence[Callback], certify_every: int | None) -> None:
        """One step, an exact pass where it is due, and the decision to go on."""
        if self.problem.files is not None:
            self.problem.files.check()
        with deadline(self.max_seconds - self.seconds):
            report = self.solver.step(self.problem, state)
        if report.ended and report.oracle_calls == 0 and self.certified == self.steps:
            self.status = report.ended  # nothing has moved since the last exact pass
            return
        self.oracle_calls += report.oracle_calls
        self.steps += 1
        self.retarget(state, report)
        asked = certify_every is not None and self.steps % certify_every == 0
        # On the way from tol to the polished solution an exact pass marks the moment when tol is reached.
        passed = self.aim < self.tol < self.gap and report.estimate <= self.tol
        free = report.slacks is not None and report.estimate <= self.aim
        # A solver that is satisfied everywhere makes no more moves: its estimate never falls to a low
        # threshold. Where losses hang on few examples the estimate stays far above the gap.
        near = report.estimate <= NEARBY * (self.enough if self.gap > self.enough else self.aim)
        waited = self.steps - self.certified
        late = waited >= (PATIENCE if report.estimate <= self.aim else LONG_PATIENCE) and near
        # A step whose numbers are not finite is looked at: what it left may have overflowed.
        lost = not math.isfinite(report.dual) or math.isnan(report.estimate)
        due = free or report.estimate <= self.hope * self.aim or asked or passed or late or lost
        if due and self.chosen.verify:
            self.certify(state, report)
            self.settle(self.goal)
        self.record(report)
        progress = [self.progress(state)] if callbacks else []
        stop = [callback.on_step(step) for step in progress for callback in callbacks]
        if self.status is None:
            self.status = report.ended or (Status.STOPPED if any(stop) else self.budget())

    def look_first(self, state: Any) -> None:
        """A warm start may be at its goal before the first step."""
        self.certify(state, None, self.begun)
        self.record()
        self.settle(self.goal)

    def conclude(self, state: Any) -> None:
        """A truthful certificate for where training ended, which may be better than was known."""
        self.certify(state, None)
        if not self.history.rows:  # interrupted in the first step
            self.record()
        self.history.amend(**self.known())

    def estimate(self, state: Any) -> None:
        """The dual of where training ended, and the gap as the solver saw it: no exact pass, no proof."""
        self.w, self.support = self.solver.solution(self.problem, state)
        self.dual = self.problem.dual_objective(self.support)
        self.primal = self.dual + self.last.estimate * self.problem.total
        self.proven = False
        if math.isnan(self.primal) or math.isinf(self.dual):
            self.primal, self.status = math.inf, Status.NUMERICAL
        self.gap = gap_between(self.primal, self.dual, self.problem.total)

    def finish(self, reduced_gap: float | None) -> Result:
        """The certificate of the best point."""
        if self.w is None or self.support is None:
            raise ValueError(
                "no point with a finite objective was found: C, sample_weight, the costs or X are too large "
                "for double precision; scale them down"
            )
        assert self.status is not None
        exact = self.problem.bounded and self.proven
        certificate = Certificate(
            primal=self.primal,
            dual=self.dual,
            gap=self.gap,
            tol=self.tol,
            converged=self.gap <= self.tol and exact,
            exact=exact,
            passes=self.passes,
            oracle_calls=self.oracle_calls,
            support=len(self.support.blocks),
            seconds=self.seconds,
            status=self.status.value,
            relaxed=self.support.relaxed,
            reduced_gap=reduced_gap,
        )
        return Result(
            self.w,
            self.support,
            certificate,
            self.history,
            self.status,
            self.chosen.name,
            "" if certificate.converged else self.status.advice(certificate, self.chosen.advice),
            resumable=self.support.kind in self.chosen.continues(self.problem),
        )
