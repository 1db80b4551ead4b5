"""The training loop: step, certify and notify until the gap is small enough or a budget ends.

A ``Run`` has the state of the loop: counters, bounds, the best point and the history.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np

from maxmargin.budget import Budget, tolerance_of
from maxmargin.callbacks import Callback, Progress
from maxmargin.problem import Problem, Status, Support
from maxmargin.problem.certificate import AUTO, Best, all_finite
from maxmargin.result import History, Keeper, Result, Saved
from maxmargin.runtime.deadline import TimeUp, deadline
from maxmargin.solvers import Snapshot, Solver, StepReport
from maxmargin.solvers.free import fitted_to

# An exact pass costs as much as a step, so it waits until the running estimate is below this factor
# times tol. If the argmax is a search, the pass also closes the bounds that steps left open, and
# takes as long as many steps.
HOPEFUL, HOPEFUL_OF_SEARCH = 1.4, 1.3
CERTAIN = 0.01  # fraction of tol: an estimate below it always justifies an exact pass
POLISH_PASSES = 300  # most further passes once tol is reached
# Further passes to reach a goal below tol; or as many as were made so far, if more.
WISHED_PASSES = 20
LARGEST_OBJECTIVE = 1e300  # replaces an objective that is not finite
# After this many steps without an exact pass one is made, whatever earlier passes have shown. A
# warm start must beat the starting point of a cold start after this many steps.
PATIENCE = 10
LONG_PATIENCE = 30  # the same if the estimate is still above the aim
# Factor on the target: an estimate below it justifies an exact pass after LONG_PATIENCE steps.
NEARBY = 30.0
MARKED = 4  # steps with an estimate within tol after which an exact pass checks it
# Fraction of the goal: if ceilings leave more unproven, training cannot close the gap.
UNPROVEN = 0.5
LEEWAY = 0.1  # fraction of the aim that the search of an exact pass may leave open, on average
# Stands for the last report before the first step.
BEFORE = StepReport(0, math.inf, -math.inf, 0)
NEWS = 0.1  # the solver is told of a new aim only if it changes by more than this fraction


@np.errstate(over="ignore", invalid="ignore")  # an overflow ends training, with a status
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
        Target gap: a number in units of the task loss, or "auto" for a hundredth of the primal.
    max_passes, max_seconds : float
        Budgets. A pass is as many oracle calls as there are blocks; exact passes count too. The
        time limit interrupts a step early enough to leave time for the final exact pass. Only a
        first exact pass that takes longer than expected can exceed the limit.
    certify_every : int or None
        Make an exact pass after this many steps; None: only if it has a chance to end training.
    polish : float or None
        Go on below tol to this gap, for at most 300 passes and within the budgets. Only tol decides
        whether training has converged.
    keeper : Keeper or None
        Saves snapshots, and may provide one to start from. Budgets then include the cost before
        that snapshot.
    """
    if not isinstance(solver, Solver):
        raise TypeError(f"solver must be an instance of solvers.Solver, got {solver!r}")
    asked = tol == AUTO if isinstance(tol, str) else isinstance(tol, Real) and 0 < tol < math.inf
    if not asked:
        raise ValueError(f"tol must be a positive number or {AUTO!r}, got {tol!r}")
    solver.check(problem, warm)
    limit = math.inf if max_seconds is None else max_seconds
    budget = Budget(problem, max_passes, limit, proves=solver.verify)
    rng = np.random.default_rng(random_state)
    tolerance = tolerance_of(problem, tol, random_state, budget)
    best = Best(problem, tolerance, polish or math.inf)
    run = Run(problem, solver, best, budget, keeper=keeper)
    for callback in callbacks:
        callback.on_start(run.progress())
    state = None
    try:
        if warm is None and problem.checked:
            budget.oracle_calls += problem.try_oracle()
        state = run.start(rng, warm)
        warm = warm if run.begun is None else run.begun.support
        if warm is not None and (problem.open_stream is not None or problem.feasible(warm)):
            run.look_first(state)  # a start with other masses is never at its goal
        while True:
            if run.astray():
                state = run.start_cold(rng)
            if run.status is not None:
                break
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
    """Finish a run: make the last certificate and snapshot, call the callbacks, return the result."""
    problem = run.problem
    if not run.chosen.verify:
        run.estimate(state)
    elif run.certified != run.steps:
        run.conclude(state)
    if run.best.kept is None or run.best.support is None:
        run.status = run.best.fall_back() or run.status
        run.budget.oracle_calls += problem.n_blocks
        run.history.rows[-1] |= run.known()
    run.save(state)
    ceilings = run.best.ceilings
    if problem.checked and ceilings is not None and run.status is not Status.INTERRUPTED:
        problem.check_ceilings(run.best.w, ceilings)
    if run.proven:
        run.settle(run.best.tol)
        run.look_at_rounding()
        for callback in callbacks:
            run.take(callback.kept())
    result = run.finish(run.solver.reduced_gap(problem, state) if problem.summed else None)
    for callback in callbacks:
        callback.on_end(run.progress())
    return result


@dataclass
class Run:
    """The state of a training run: counters, the best certified point and the history."""

    problem: Problem
    chosen: Solver
    best: Best
    budget: Budget
    hope: float = HOPEFUL  # an estimate below this factor times the aim justifies an exact pass
    steps: int = 0
    certified: int = -1  # number of the step before the last exact pass
    history: History = field(default_factory=History)
    within: int = 0  # number of steps with a small enough estimate
    last: StepReport = BEFORE  # the last report in the history
    status: Status | None = None
    proven: bool = True
    keeper: Keeper | None = None
    saved: float = 0.0  # time of the last snapshot, in seconds
    warm: bool = False  # whether the run began at given multipliers
    dropped_warm: bool = False

    def __post_init__(self) -> None:
        # Weights without a regulariser need a solver that is wrapped in proximal points.
        free = self.problem.regularizer.free is not None
        self.solver: Solver = fitted_to(self.problem, self.chosen) if free else self.chosen
        found = None if self.keeper is None else self.keeper.found
        # The snapshot to resume from, if any.
        self.begun: Snapshot | None = None if found is None else found.snapshot
        if found is not None:
            self.budget.oracle_calls += found.oracle_calls
            self.budget.earlier_seconds = found.seconds
        self.saved = self.budget.earlier_seconds
        self.enough: float = math.inf  # estimate of the tolerance
        self.aim: float = math.inf  # the target that the solver has
        self.retarget(None, BEFORE)
        self.hope = HOPEFUL if self.problem.exact else HOPEFUL_OF_SEARCH

    def retarget(self, state: Any, report: StepReport) -> None:
        """Update the solver's target, as a step has shown more about the objective."""
        self.enough, aim = self.best.expect(report.dual, report.estimate)
        if state is None:
            self.aim = aim
        elif abs(aim - self.aim) > NEWS * self.aim:
            self.solver.retarget(self.problem, state, aim / self.aim)
            self.aim = aim

    def certify(
        self,
        state: Any,
        report: StepReport | None,
        at: Snapshot | None = None,
        hurried: bool = False,
    ) -> None:
        """Make an exact pass, and keep the best w and the best multipliers, each by its own bound.

        A hurried pass takes a cheap upper bound of each slack if the argmax is a search.
        """
        w, support = self.solver.solution(self.problem, state)
        w = w if at is None else at.w
        given = None if report is None or not self.problem.exact else report.slacks
        leeway = LEEWAY * self.aim if self.aim < math.inf else 0.0
        leeway = math.inf if hurried else leeway
        with self.budget.timed("exact" if given is None else "step"):
            bounds = self.problem.certify(w, support, given, leeway)
        self.budget.oracle_calls += self.problem.n_blocks if given is None else 0
        best, self.certified = self.best, self.steps
        best.take(w, support, bounds)
        if bounds.overflowed or (math.isinf(bounds.primal) and not self.problem.summed):
            self.status = Status.NUMERICAL
        if best.wants_zero and self.status is None and self.problem.open_stream is None:
            # It is infinite for a sum over too many outputs, and then has no influence.
            best.know_zero(min(self.budget.at_zero(), LARGEST_OBJECTIVE))
        if best.gap <= best.tol and self.budget.polish_until == math.inf:
            more = (
                max(self.budget.passes, WISHED_PASSES) if math.isinf(best.polish) else POLISH_PASSES
            )
            self.budget.polish_until = self.budget.passes + more
        if best.computed_gap > best.goal:
            del w  # free its memory: the solver may need vectors of this length
            best.go_on()
            self.solver.learn(self.problem, state, bounds.slacks)
            if report is not None:
                # The estimate was too low by this factor, so wait until it is lower.
                hope = (
                    report.estimate * max(0.5, best.goal / max(best.last_gap, best.goal)) / self.aim
                )
                self.hope = max(min(self.hope, hope), CERTAIN)

    def take(self, w: np.ndarray | None) -> None:
        """Return these weights, chosen by a callback, to the user; certify their primal."""
        if w is None or not all_finite(w) or self.best.support is None:
            return
        self.best.return_instead(w, self.problem.certify(w, self.best.support))
        self.budget.oracle_calls += self.problem.n_blocks
        if self.status is Status.SOLVED and self.best.gap > self.best.tol:
            self.status = Status.STOPPED
        self.history.rows[-1] |= self.known()

    def start(self, rng: np.random.Generator, warm: Support | None) -> Any:
        """Open the solver's state from a snapshot, from multipliers, or from scratch."""
        if self.begun is None:
            self.warm = warm is not None
            return self.solver.start(self.problem, self.aim, rng, warm)
        return self.solver.resume(self.problem, self.aim, rng, self.begun)

    def astray(self) -> bool:
        """Return whether to drop a warm start.

        That is so if numbers overflow, or if both bounds are worse than those of a cold start. A
        cold start has all multipliers on the true outputs, so its dual is 0, and w = 0 or the mean
        of a prior.
        """
        if not self.warm or self.status is Status.NUMERICAL:
            return self.warm
        problem, dual = self.problem, self.last.dual
        known = problem.open_stream is None and problem.frozen is None
        if self.status is not None or self.steps != PATIENCE or not known or dual >= 0:
            return False
        return not dual + self.last.estimate * problem.total <= self.budget.at_zero()

    def start_cold(self, rng: np.random.Generator) -> Any:
        """Start again without the warm start; keep finite bounds that were already proven."""
        self.warm, self.dropped_warm, self.status = False, True, None
        if not math.isfinite(self.best.gap):
            self.best = Best(self.problem, self.best.tolerance, self.best.polish)
        self.hope = HOPEFUL if self.problem.exact else HOPEFUL_OF_SEARCH
        return self.solver.start(self.problem, self.aim, rng)

    def save(self, state: Any, due: bool = True) -> None:
        """Pass a snapshot to the keeper, if `due` or if enough time has passed since the last one."""
        if self.keeper is None or not (
            due or self.budget.seconds - self.saved >= self.keeper.every
        ):
            return
        at = self.solver.snapshot(self.problem, state)
        at = at if self.best.kept is None else replace(at, w=self.best.w)
        self.keeper.save(Saved(at, self.budget.oracle_calls, self.budget.seconds))
        self.saved = self.budget.seconds

    def settle(self, goal: float) -> None:
        """Set the status if the certified gap is small enough, or if further steps cannot prove more."""
        best = self.best
        if best.computed_gap <= goal and self.problem.bounded:
            self.status = Status.SOLVED if best.gap <= best.tol else Status.ROUNDING
        elif self.problem.summed or self.status is Status.NUMERICAL:
            return  # sums have unseen terms, and overflowed numbers bound nothing
        elif best.seen_gap <= goal:
            unproven = best.computed_gap - best.seen_gap
            if not self.problem.bounded or unproven > UNPROVEN * goal:
                self.status = Status.INEXACT

    def look_at_rounding(self) -> None:
        """Set the status if rounding makes most of the gap, or if its bound overflowed."""
        gap, computed = self.best.gap, self.best.computed_gap
        if computed < gap == math.inf:
            self.status = Status.NUMERICAL
        elif gap > 2 * computed and self.status in (Status.PASS_LIMIT, Status.TIME_LIMIT):
            self.status = Status.ROUNDING

    def known(self) -> dict[str, Any]:
        """Return the entries that every row of the history has."""
        return self.budget.so_far() | {"primal": self.best.highest, "gap": self.best.gap}

    def record(self, report: StepReport | None = None) -> None:
        """Add a step to the history, or the certified point if there is no report."""
        if report is None:
            best = self.best
            report = StepReport(0, best.gap, best.lowest, len(best.support or ()))
        self.last = report
        seen = {"dual": report.dual, "estimate": report.estimate, "planes": report.planes}
        self.history.rows.append(self.known() | seen)

    def progress(self, state: Any = None) -> Progress:
        """Return the last step for callbacks, with access to the weights of a state."""
        shown = state is not None and self.problem.open_stream is None
        return Progress(
            **self.known(),
            step=self.steps,
            dual=self.last.dual,
            estimate=self.last.estimate,
            planes=self.last.planes,
            tol=self.best.tol,
            max_passes=self.budget.max_passes,
            max_seconds=self.budget.max_seconds,
            solver=self.chosen.name,
            status="" if self.status is None else self.status.value,
            weights=(lambda: self.solver.solution(self.problem, state)[0]) if shown else None,
        )

    def advance(self, state: Any, callbacks: Sequence[Callback], certify_every: int | None) -> None:
        """Make a step, an exact pass if one is due, and the decision whether to go on."""
        if self.problem.files is not None:
            self.problem.files.check()
        if hasattr(state, "passes_left"):  # one of its steps may make several passes
            state.passes_left = (
                min(self.budget.max_passes, self.budget.polish_until) - self.budget.passes
            )
        with deadline(self.budget.seconds_left), self.budget.timed("step"):
            report = self.solver.step(self.problem, state)
        if report.ended and report.oracle_calls == 0 and self.certified == self.steps:
            self.status = report.ended  # no change since the last exact pass
            return
        self.budget.oracle_calls += report.oracle_calls
        self.steps += 1
        self.retarget(state, report)
        asked = certify_every is not None and self.steps % certify_every == 0
        # If the goal is below tol, an exact pass shows that tol is reached. It waits for MARKED
        # steps, because the goal may follow soon.
        enough, gap = self.enough, self.best.gap
        self.within += report.estimate <= enough
        passed = self.aim < enough < gap and self.within >= MARKED
        free = report.slacks is not None and report.estimate <= self.aim
        # Make exact passes from time to time even if the estimate stays high. A solver that is
        # satisfied everywhere makes no more moves, so its estimate stays above a low threshold. If
        # losses depend on few examples, the estimate stays far above the gap.
        near = report.estimate <= NEARBY * (enough if gap > enough else self.aim)
        waited = self.steps - self.certified
        late = waited >= (PATIENCE if report.estimate <= self.aim else LONG_PATIENCE) and near
        # After a step whose numbers are not finite, an exact pass shows whether w has overflowed.
        lost = not math.isfinite(report.dual) or math.isnan(report.estimate)
        due = free or report.estimate <= self.hope * self.aim or asked or passed or late or lost
        if due and self.chosen.verify:
            self.certify(state, report)
            self.settle(self.best.goal)
        self.record(report)
        progress = [self.progress(state)] if callbacks else []
        stop = [callback.on_step(step) for step in progress for callback in callbacks]
        if self.status is None:
            self.status = report.ended or (Status.STOPPED if any(stop) else self.budget.spent())

    def look_first(self, state: Any) -> None:
        """Certify a warm start before the first step: it may already be at its goal."""
        self.certify(state, None, self.begun)
        self.record()
        self.settle(self.best.goal)

    def conclude(self, state: Any) -> None:
        """Certify the final point, which may be better than the best point so far.

        If the time limit ended training, it ends this exact pass as well. If no point has a
        certificate yet, a hurried pass then gives one.
        """
        late = self.status is Status.TIME_LIMIT
        try:
            with deadline(self.budget.rest if late else math.inf):
                self.certify(state, None)
        except TimeUp:
            if self.best.kept is None:
                self.certify(state, None, hurried=True)
        if not self.history.rows:  # interrupted in the first step
            self.record()
        self.history.rows[-1] |= self.known()

    def estimate(self, state: Any) -> None:
        """Record the final dual and the solver's estimate of the gap, without an exact pass or a proof."""
        w, support = self.solver.solution(self.problem, state)
        dual = self.problem.dual_objective(support)
        primal = dual + self.last.estimate * self.problem.total
        self.proven = False
        if math.isnan(primal) or math.isinf(dual):
            primal, self.status = math.inf, Status.NUMERICAL
        self.best.guess(w, support, dual, primal)

    def finish(self, reduced_gap: float | None) -> Result:
        """Return the result, with the certificate of the best point."""
        best = self.best
        if best.kept is None or best.support is None:
            raise ValueError(
                "no point with a finite objective was found, because C, sample_weight, the costs "
                "or X are too large for double precision; scale them down"
            )
        assert self.status is not None
        certificate, advice = best.conclude(
            self.status,
            exact=self.problem.bounded and self.proven,
            advice=self.chosen.advice,
            **self.budget.so_far(),
            reduced_gap=reduced_gap,
        )
        return Result(
            best.w,
            best.support,
            certificate,
            self.history,
            self.status,
            self.chosen.name,
            advice,
            resumable=best.support.kind in self.chosen.continues(self.problem),
            dropped_warm=self.dropped_warm,
        )
