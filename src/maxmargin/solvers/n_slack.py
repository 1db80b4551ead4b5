"""n-slack cutting planes (Joachims, Finley and Yu, 2009, Algorithms 1 and 2), with their Section 4.

Every block has its own working set W_i of outputs. The program over all sets is solved many times:

    for blocks in turn:  y^ = argmax_y s_i(y);  W_i = W_i + { y^ } if it violates by more than epsilon
                         once `batch` outputs were added, solve the program from its current point

`batch=1` is the paper's Algorithm 1. Section 4 of the paper has the other options. Outputs are
added in batches. The program is solved more precisely as the violation falls. Outputs without a
multiplier for `keep` passes are dropped (in the paper: for 50 programs).

With hinge="sum" (Balamurugan, Shevade and Babu, Section III), the slack of a block is a maximum
over sets of outputs, and the set of all violators attains it. Sets take the place of outputs.
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
        Outputs that are added to the working sets between two quadratic programs; 1 in the paper's
        algorithm.
    accuracy : float
        The program is solved until its gap is this fraction of tol. Outputs that violate by the
        rest of tol are added.
    growing : bool
        Let the gap of the program be the fraction ``accuracy`` of the last pass's violation if that
        is more: early programs need no precision.
    keep : int
        With hinge="max": drop an output without a multiplier after this many passes; 0 never drops
        one.
    max_sweeps : int
        Most sweeps of the program's solver.
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
        """Run lines 5 to 7; return how many outputs or sets were added, and the sum of mass_i g_i."""
        enough = (1 - self.accuracy) * state.tol  # the error of the program is added to it
        if isinstance(state, BoxState):
            before = state.core.sets
            violation = state.visit_sets(blocks, True, enough)[2]
            # If a cached set violates, the program was not solved well enough, so solve it again.
            return max(state.core.sets - before, int(violation > 0)), violation
        visit = state.visit(blocks, update=False, tolerance=enough, keep=self.keep)
        return int((visit.violations > enough).sum()), visit.violation

    def solve(self, problem: Problem, state: DualState | BoxState) -> None:
        """Run line 8: solve the quadratic program over all working sets from its current point."""
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
        state.tol *= 0.5  # training goes on, so a smaller threshold is needed
        if isinstance(state, BoxState) and not state.complete:
            state.widen(self.violators)
            state.settled = state.reduced_gap() <= 2 * state.tol

    def reduced_gap(self, problem: Problem, state: DualState | BoxState) -> float | None:
        if not isinstance(state, BoxState) or state.complete:
            return None
        return state.reduced_gap()
