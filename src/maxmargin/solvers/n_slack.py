"""n-slack cutting planes (Joachims, Finley and Yu, 2009, Algorithms 1 and 2), with their Section 4.

Every block has its own working set W_i of outputs; the program over all of them is solved again and again:

    for blocks in turn:  y^ = argmax_y s_i(y);  W_i = W_i + { y^ } if it violates by more than epsilon
                         once `batch` outputs have joined, solve the program from its current point

`batch=1` is Algorithm 1 as printed. The rest is from the paper's Section 4: batches; a program that is solved
the more exactly the less violation is left; outputs leave that had no multiplier for `keep` passes (there:
for 50 programs).

With hinge="sum" (Balamurugan, Shevade and Babu, Section III) the slack of a block is a maximum over sets of
outputs, attained by all violators: sets take the place of outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.data.arrays import FLAG
from maxmargin.formulation import EVERY_FORMULATION
from maxmargin.problem import Formulation, Problem, Status, Support
from maxmargin.solvers.base import AT_LEAST_1, INSIDE, NOT_NEGATIVE, Solver, StepReport, option
from maxmargin.solvers.box_state import MOST_VIOLATORS, BoxState, open_box
from maxmargin.solvers.dual_state import DualState, open_state


@dataclass(frozen=True)
class NSlack(Solver):
    """n-slack cutting planes.

    Parameters
    ----------
    batch : int
        Outputs that join the working sets between two solutions of the quadratic program; 1: as printed.
    accuracy : float
        The program is solved until its gap is this part of tol, and what violates by the rest of tol joins.
    growing : bool
        Or this part of what the last pass saw, where that is more: early programs need no precision.
    keep : int
        Passes that an output without a multiplier is kept; 0: never dropped. With hinge="max".
    max_sweeps : int
        Sweeps of the program's solver, at most.
    violators : int
        As in ``OneSlack``.
    """

    name: ClassVar[str] = "n-slack"
    formulations: ClassVar[tuple[Formulation, ...]] = EVERY_FORMULATION
    batch: int = option(100, AT_LEAST_1)
    accuracy: float = option(0.5, INSIDE)
    growing: bool = option(True, FLAG)
    keep: int = option(50, NOT_NEGATIVE)
    max_sweeps: int = option(1000, AT_LEAST_1)
    violators: int = option(MOST_VIOLATORS, NOT_NEGATIVE)

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> DualState | BoxState:
        if not problem.summed:
            return open_state(problem, tol, rng, warm=warm)
        state = open_box(problem, tol, rng, warm)
        state.core.multipliers_to_sets()
        return state

    def step(self, problem: Problem, state: DualState | BoxState) -> StepReport:
        if isinstance(state, BoxState) and state.settled:
            gap, kept = state.reduced_gap(), state.core.sets
            return StepReport(0, gap, state.dual(), kept, ended=Status.REDUCED)
        calls, seen, waiting, at, n = 0, 0.0, 0, 0, len(problem.active)
        while at < n:
            blocks = problem.active[at : at + self.batch - waiting]
            at += len(blocks)
            joined, violation = self.ask(problem, state, blocks)
            calls, seen, waiting = calls + len(blocks), seen + violation, waiting + joined
            if waiting >= self.batch or (at == n and waiting > 0):
                self.solve(problem, state)
                waiting = 0
        state.estimate = seen / problem.total
        if isinstance(state, DualState):
            return state.report(calls, state.estimate)
        state.core.sets_to_multipliers()
        return StepReport(calls, state.estimate, state.dual(), state.core.sets)

    def ask(
        self, problem: Problem, state: DualState | BoxState, blocks: np.ndarray
    ) -> tuple[int, float]:
        """Lines 5 to 7: how many outputs, or sets, have joined; and the sum of mass_i g_i."""
        enough = (1 - self.accuracy) * state.tol  # what the program leaves open comes on top
        if isinstance(state, BoxState):
            before = state.core.sets
            violation = state.visit_sets(blocks, True, enough)[2]
            # A set that is kept already may violate, too: then the program is not solved well enough.
            return max(state.core.sets - before, int(violation > 0)), violation
        visit = state.visit(blocks, update=False, tolerance=enough, keep=self.keep)
        return int((visit.violations > enough).sum()), visit.violation

    def solve(self, problem: Problem, state: DualState | BoxState) -> None:
        """Line 8: the quadratic program over all working sets, from its current point."""
        wanted = self.accuracy * state.tol
        if self.growing:
            wanted = max(wanted, self.accuracy * state.estimate)
        for _ in range(self.max_sweeps):
            order = state.rng.permutation(problem.active)
            if isinstance(state, BoxState):
                _, _, left, gain = state.visit_sets(order, False)
            else:
                visit = state.visit(order, oracle=False, tolerance=0.0)
                left, gain = visit.violation, visit.gain
            if left <= wanted * problem.total or gain <= 0:
                break

    def learn(self, problem: Problem, state: DualState | BoxState, slacks: np.ndarray) -> None:
        super().learn(problem, state, slacks)
        state.tol *= 0.5  # what it counts as satisfied was not enough
        if isinstance(state, BoxState) and not state.complete:
            state.widen(self.violators)
            state.settled = state.reduced_gap() <= 2 * state.tol

    def reduced_gap(self, problem: Problem, state: DualState | BoxState) -> float | None:
        if not isinstance(state, BoxState) or state.complete:
            return None
        return state.reduced_gap()
