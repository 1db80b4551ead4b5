"""FASOLE (Algorithm 3): sequential dual ascent on two levels.

    repeat
      for blocks that are not satisfied: ask the oracle; keep u; g_i <= tol marks it satisfied;
        in the online regime also make the WSS2 step
      all blocks checked, batch regime and mean g_i <= tol: done
      at least `switch` of the blocks satisfied: batch regime
      all satisfied: forget the marks
      solve the problem reduced to the kept outputs (12)

Any method may solve (12). Algorithm 2 ends it, when every g_i over the kept outputs is at most tol; before it
come rounds with a proximal term (proximal.py, without the oracle), which need fewer visits where C is large.

The paper compares the sum of g_i with tol at the end; the gap is their mean, weighted by mass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.problem import Problem, Support
from maxmargin.solvers.base import AT_LEAST_1, SHARE, Solver, StepReport, on_or_off, one_of, option
from maxmargin.solvers.dual_ascent import ORDERS
from maxmargin.solvers.dual_state import PAIRS, PRECISIONS, DualState, Visit, open_state
from maxmargin.solvers.proximal import STIFFEST, Proximal, ProximalState

NEAR = 0.02  # of tol: the mean of the g_i that are not small when most are below tol
CARE = 0.2  # of tol: g_i of blocks that the rounds before leave alone
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
    accelerated : bool
        Bring the reduced problem near its end by rounds with a proximal term, before Algorithm 2 ends it as
        printed; False: Algorithm 2 alone.
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
    accelerated: bool = on_or_off(True)
    max_sweeps: int = option(1000, AT_LEAST_1)
    precision: str = one_of("double", PRECISIONS[1:])

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> FasoleState:
        dual = open_state(problem, tol, rng, self.precision == "single", warm)
        none = np.zeros(problem.n_blocks, dtype=np.int64)
        # The proximal term needs the inverse of a covariance matrix: without it then.
        k = STIFFEST if self.accelerated and not dual.full else 0.0
        return FasoleState(dual, tol, none.astype(bool), ProximalState(dual, tol, k, none))

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
        """Problem (12), from the current multipliers.

        Algorithm 2 ends it, as printed. Its steps alone are slow where C is large: rounds with a proximal
        term come before it.
        """
        last_visit = state.dual.core.steps + self.max_sweeps * len(problem.active)
        open_blocks, visit = self._sweep(problem, state, problem.active)
        near = (NEAR if self.reduced == "printed" else 1.0) * state.tol * problem.total
        if len(open_blocks) > 0 and state.proximal.k > 0 and visit.violation > 2 * near:
            self._approach(problem, state, near, last_visit)
        pending, opened = problem.active, np.zeros(problem.n_blocks, dtype=bool)
        while state.dual.core.steps < last_visit:
            whole = len(pending) == len(problem.active)
            open_blocks, visit = self._sweep(problem, state, pending)
            idle = visit.gain <= NO_GAIN * problem.total
            if whole and (idle or self._is_solved(problem, state, visit)):
                return
            # Any order will do: blocks with g_i <= care tol rest until no other is left.
            opened[open_blocks] = True
            if self.reduced == "sweeps" or idle or not opened.any():
                pending = problem.active
            elif len(open_blocks) > 0:
                pending = open_blocks
            else:
                pending = problem.active[opened[problem.active]]
                opened[:] = False

    def _sweep(
        self, problem: Problem, state: FasoleState, blocks: np.ndarray
    ) -> tuple[np.ndarray, Visit]:
        """Steps on kept outputs, in random order; the blocks that were not satisfied."""
        order, tolerance = state.dual.rng.permutation(blocks), self.care * state.tol
        visit = state.dual.visit(
            order, rule=self.rule, oracle=False, tolerance=tolerance, threads=problem.n_jobs
        )
        return order[visit.violations > tolerance], visit

    def _approach(
        self, problem: Problem, state: FasoleState, near: float, last_visit: float
    ) -> None:
        """Rounds with a proximal term, which are undone where the dual has fallen."""
        before, start = state.dual.dual(), state.dual.support()
        state.proximal.satisfied_below = min(CARE, self.care) * state.tol
        # Measured on USPS and OCR.
        rounds = Proximal(rule=self.rule, keep=0, inner=0.7, momentum=0.2)
        rounds.settle(problem, state.proximal, near, last_visit)
        if state.dual.dual() < before:
            state.dual.restore(start)

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
    proximal: ProximalState
    online: bool = True
