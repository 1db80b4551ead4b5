"""FASOLE (Algorithm 3): sequential dual ascent on two levels.

    repeat
      for blocks that are not satisfied: ask the oracle; keep u; g_i <= tol marks it satisfied;
        in the online regime also make the WSS2 step
      all blocks checked, batch regime and mean g_i <= tol: done
      at least `switch` of the blocks satisfied: batch regime
      all satisfied: forget the marks
      solve the problem reduced to the kept outputs (12)

The paper compares the sum of g_i with tol at the end; the gap is their mean, weighted by mass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.problem import Problem, Support
from maxmargin.solvers.base import AT_LEAST_1, SHARE, Solver, StepReport, one_of, option
from maxmargin.solvers.dual_ascent import ORDERS
from maxmargin.solvers.dual_state import PAIRS, PRECISIONS, DualState, Visit, open_state

NO_GAIN = 1e-16  # a sweep that gains less than this share of the total mass gains nothing


@dataclass(frozen=True)
class Fasole(Solver):
    """FASOLE, all of Algorithm 3.

    Parameters
    ----------
    switch : float
        Share of satisfied blocks that ends the online regime (K = 0.9 in the paper).
    reduced : "printed" or "sweeps"
        Solve the reduced problem until every g_i <= tol, as printed; or until their mean is.
    care : float
        The reduced problem moves blocks with g_i above this share of tol: 1 as printed. Less solves it more
        precisely, and often sooner: blocks left just below tol are opened again by each step of a neighbour.
    rule : "wss2" or "mvp"
        Direction of a step; "mvp" in this frame is the paper's SDM.
    order : "cyclic" or "random"
        As printed, or a fresh permutation for every pass.
    max_sweeps : int
        At most as many visits as this many sweeps of the reduced problem make, per step; the next step
        continues.
    """

    name: ClassVar[str] = "fasole"
    switch: float = option(0.9, SHARE)
    reduced: str = one_of("printed", ("printed", "sweeps"))
    care: float = option(1.0, SHARE)
    rule: str = one_of("wss2", PAIRS)
    order: str = one_of("cyclic", ORDERS)
    max_sweeps: int = option(1000, AT_LEAST_1)
    precision: str = one_of("double", PRECISIONS[1:])

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> FasoleState:
        state = open_state(problem, tol, rng, self.precision == "single", warm)
        return FasoleState(state, tol, np.zeros(problem.n_blocks, dtype=bool))

    def step(self, problem: Problem, state: FasoleState) -> StepReport:
        todo = problem.active[~state.satisfied[problem.active]]
        # In the batch regime a pass leaves w alone: over all blocks it is an exact pass.
        exact = not state.online and len(todo) == problem.n_blocks and not state.dual.single
        if exact:
            state.dual.refresh()  # w to the last bit that the multipliers give
        order = self._ordered(todo, state)
        visit = state.dual.visit(
            order,
            rule=self.rule,
            update=state.online,
            slacks=exact,
            tolerance=state.tol,
            threads=1 if exact else problem.n_jobs,
        )
        satisfied = state.dual.violations[todo] <= state.tol
        state.satisfied[todo] = satisfied
        whole = len(todo) == len(problem.active) and not state.online
        estimate = visit.violation / problem.total if whole else np.inf
        if satisfied.sum() >= self.switch * len(problem.active):
            state.online = False
        if state.satisfied[problem.active].all():
            state.satisfied[:] = False
        slacks = None
        if estimate > state.tol:
            self._solve_reduced(problem, state)
        elif exact:
            slacks = np.empty(problem.n_blocks)
            slacks[order] = visit.slacks
        return state.dual.report(visit.oracle_calls, estimate, slacks)

    def _solve_reduced(self, problem: Problem, state: FasoleState) -> None:
        """Algorithm 2 on the kept outputs, from the current multipliers.

        Any order will do for (12): blocks with g_i <= care tol rest until no other is left.
        """
        active = pending = problem.active
        visits = self.max_sweeps * len(active)
        while visits > 0:
            whole = len(pending) == len(active)
            order = state.dual.rng.permutation(pending)
            visit = state.dual.visit(
                order,
                rule=self.rule,
                oracle=False,
                tolerance=self.care * state.tol,
                threads=problem.n_jobs,
            )
            visits -= len(order)
            idle = visit.gain <= NO_GAIN * problem.total
            if whole and (idle or self._is_solved(problem, state, visit)):
                return
            open_blocks = order[visit.violations > self.care * state.tol]
            rest = self.reduced == "printed" and not idle and len(open_blocks) > 0
            pending = open_blocks if rest else active

    def _is_solved(self, problem: Problem, state: FasoleState, visit: Visit) -> bool:
        if self.reduced == "printed":
            return bool(visit.violations.max(initial=0.0) <= state.tol)
        return visit.violation / problem.total <= state.tol

    def _ordered(self, blocks: np.ndarray, state: FasoleState) -> np.ndarray:
        return state.dual.rng.permutation(blocks) if self.order == "random" else blocks

    def solution(self, problem: Problem, state: FasoleState) -> tuple[np.ndarray, Support]:
        return state.dual.solution()

    def learn(self, problem: Problem, state: FasoleState, slacks: np.ndarray) -> None:
        state.dual.refresh()
        state.satisfied[:] = False
        state.tol *= 0.5  # what it counts as satisfied was not enough


@dataclass
class FasoleState:
    """The dual state, the satisfied marks and the regime."""

    dual: DualState
    tol: float
    satisfied: np.ndarray
    online: bool = True
