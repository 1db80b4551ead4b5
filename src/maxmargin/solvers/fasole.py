"""FASOLE (Algorithm 3): sequential dual ascent on two levels.

    repeat
      for blocks that are not satisfied: ask the oracle; keep u; g_i <= tol marks it satisfied;
        in the online regime also make the WSS2 step
      all blocks checked, batch regime and mean g_i <= tol: done
      at least `switch` of the blocks satisfied: batch regime
      all satisfied: forget the marks
      solve the problem reduced to the kept outputs (12)

Any method may solve (12), and its gap has to be small only beside what the pass has found, G = sum mass_i g_i
over the blocks that it visited:

    rounds with a proximal term (proximal.py, without the oracle) until the gap of (12) is at most PACE G
    where PACE G is below MEAN_AT_END tol: then Algorithm 2, until every g_i over the kept outputs is at most
    tol

The first passes after marks are forgotten find much: what (12) loses by an early end is small beside it. The
last ones find little, and need (12) as printed: else the same few blocks come again and again. So they do
long before the end where tol is that of rounding: from PACE G = FINE D on, D the dual, (12) is solved as
printed.

The paper compares the sum of g_i with tol at the end; the gap is their mean, weighted by mass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.data.arrays import FLAG, among
from maxmargin.problem import Problem, Support
from maxmargin.solvers.base import AT_LEAST_1, NOT_NEGATIVE, SHARE, Solver, StepReport, option
from maxmargin.solvers.dual_ascent import ORDERS, in_order
from maxmargin.solvers.dual_state import PAIR_RULES, PRECISIONS, DualState, Visit, open_state
from maxmargin.solvers.proximal import STIFFEST, Proximal, ProximalState

PACE = 0.05  # of what a pass has found: the gap of (12) that is small beside it
MEAN_AT_END = 0.05  # of tol: the mean of the g_i that are not small when most are below tol
FINE = 1e-6  # of the dual: a gap that counts only where a solution to rounding is asked for
# Of tol, or of the mean g_i that is asked for: g_i of blocks that the rounds leave alone.
LEFT_ALONE = 0.2
# Of the total mass: a sweep that gains less gains nothing. A gain is about the square of the g_i that it
# comes from, and so is this of a g_i at rounding.
NO_GAIN = 1e-30


@dataclass(frozen=True)
class Fasole(Solver):
    """FASOLE, all of Algorithm 3.

    Parameters
    ----------
    switch : float
        Share of satisfied blocks that ends the online regime (K = 0.9 in the paper).
    reduced : "growing", "printed" or "sweeps"
        When the reduced problem is solved. "printed": once every g_i <= tol. "growing": once its gap is a
        twentieth of what the pass before has found, and as printed where that is smaller, or below a
        millionth of the dual. "sweeps": once the mean of g_i <= tol.
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
    keep : int
        Oracle visits that an output without a multiplier is kept; 0: never dropped, as printed.
    max_sweeps : int
        At most as many visits as this many sweeps of the reduced problem make, per step; the next step
        continues.
    """

    name: ClassVar[str] = "fasole"
    switch: float = option(0.9, SHARE)
    reduced: str = option("growing", among("growing", "printed", "sweeps"))
    care: float = option(1.0, SHARE)
    rule: str = option("wss2", among(*PAIR_RULES))
    order: str = option("cyclic", among(*ORDERS))
    accelerated: bool = option(True, FLAG)
    keep: int = option(5, NOT_NEGATIVE)
    max_sweeps: int = option(1000, AT_LEAST_1)
    precision: str = option("double", among(*PRECISIONS[1:]))

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> FasoleState:
        dual = open_state(problem, tol, rng, self.precision == "single", warm)
        none = np.zeros(problem.n_blocks, dtype=np.int64)
        # The proximal term needs the inverse of a covariance matrix: without it then.
        k = STIFFEST if self.accelerated and not dual.full else 0.0
        return FasoleState(dual, tol, none.astype(bool), ProximalState(dual, tol, k, none, none))

    def step(self, problem: Problem, state: FasoleState) -> StepReport:
        todo = problem.active[~state.satisfied[problem.active]]
        # In the batch regime a pass leaves w alone: over all blocks it is an exact pass.
        exact = not state.online and len(todo) == problem.n_blocks and not state.dual.single
        if exact:
            state.dual.refresh()  # w to the last bit that the multipliers give
        order = in_order(todo, self.order, state.dual.rng)
        visit = state.dual.visit(
            order,
            rule=self.rule,
            update=state.online,
            slacks=exact,
            tolerance=state.tol,
            keep=self.keep,
            threads=1 if exact else None,
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
            self._solve_reduced(problem, state, visit.violation)
        elif exact:
            slacks = np.empty(problem.n_blocks)
            slacks[order] = visit.slacks
        return state.dual.report(visit.oracle_calls, estimate, slacks=slacks)

    def _solve_reduced(self, problem: Problem, state: FasoleState, found: float) -> None:
        """Problem (12), from the current multipliers; `found`: mass_i g_i of the pass before, added up."""
        last_visit = state.dual.core.steps + self.max_sweeps * len(problem.active)
        end = (1.0 if self.reduced == "sweeps" else MEAN_AT_END) * state.tol * problem.total
        growing = self.reduced == "growing" and PACE * found > FINE * state.dual.dual()
        enough = max(end, PACE * found) if growing else end
        loose = enough > end
        open_blocks, visit = self._sweep(problem, state, problem.active)
        if len(open_blocks) > 0 and visit.gain <= NO_GAIN * problem.total:
            # What is left of g_i is rounding, also in blocks that are not marked: look at all of them.
            state.satisfied[:] = False
            return
        far = visit.violation > (enough if loose else 2 * enough)
        if far and len(open_blocks) > 0 and state.proximal.k > 0:
            far = not self._approach(problem, state, enough, last_visit)
        if far or not loose:
            self._finish(problem, state, enough if loose else None, last_visit)

    def _finish(
        self, problem: Problem, state: FasoleState, enough: float | None, last_visit: float
    ) -> None:
        """Algorithm 2, until the gap is `enough`; without one, until its own end."""
        pending, opened = problem.active, np.zeros(problem.n_blocks, dtype=bool)
        while state.dual.core.steps < last_visit:
            whole = len(pending) == len(problem.active)
            open_blocks, visit = self._sweep(problem, state, pending)
            idle = visit.gain <= NO_GAIN * problem.total
            if whole and (idle or self._is_solved(problem, state, visit, enough)):
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
        visit = state.dual.visit(order, rule=self.rule, oracle=False, tolerance=tolerance)
        return order[visit.violations > tolerance], visit

    def _approach(
        self, problem: Problem, state: FasoleState, enough: float, last_visit: float
    ) -> bool:
        """Rounds with a proximal term; False where the dual has fallen, and they are undone."""
        before, start = state.dual.dual(), state.dual.support()
        below = max(min(LEFT_ALONE, self.care) * state.tol, LEFT_ALONE * enough / problem.total)
        state.proximal.satisfied_below = below
        # Measured on USPS and OCR.
        rounds = Proximal(rule=self.rule, inner=0.7, momentum=0.2, cached_passes=8)
        rounds.settle(problem, state.proximal, enough, last_visit)
        ascended = state.dual.dual() >= before
        if not ascended:
            state.dual.restore(start)
        return ascended

    def _is_solved(
        self, problem: Problem, state: FasoleState, visit: Visit, enough: float | None
    ) -> bool:
        if enough is not None:
            return visit.violation <= enough
        if self.reduced == "sweeps":
            return visit.violation / problem.total <= state.tol
        return bool(visit.violations.max(initial=0.0) <= state.tol)

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
