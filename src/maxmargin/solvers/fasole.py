"""FASOLE (Algorithm 3): sequential dual ascent on two levels.

    repeat
      for blocks that are not satisfied: call the oracle; cache u; mark the block if g_i <= tol;
        in the online regime, also make the WSS2 step
      if all blocks were checked in the batch regime, and mean g_i <= tol: done
      if at least `switch` of the blocks are marked: go to the batch regime
      if all are marked: remove the marks
      solve the problem reduced to the cached outputs (12)

Any method may solve (12). Its gap only has to be small compared to G = sum mass_i g_i, taken over
the blocks that the last pass visited:

    1. rounds with a proximal term (proximal.py, no oracle), until the gap of (12) is at most PACE G
    2. if PACE G is below MEAN_AT_END tol, also Algorithm 2, until every cached g_i is at most tol

The first passes after the marks are removed find many violations, so an early end of (12) costs
little. The last passes find few violations. Then (12) must be solved to the precision that the paper
prints, or the same few blocks return again and again. If tol is near rounding errors, they return
long before the end. So (12) is solved to that precision if PACE G is below FINE D; D is the dual.

The paper compares the sum of g_i with tol at the end; here the gap is their mean, weighted by mass.
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

PACE = 0.05  # the gap of (12) is small if it is below this fraction of G
MEAN_AT_END = 0.05  # fraction of tol: the typical mean of the g_i once almost all are below tol
# Fraction of the dual: if PACE * G is below it, (12) is solved as the paper prints it. This happens
# before the last passes only if tol is near rounding errors.
FINE = 1e-6
# Fraction of tol, or of the target mean of g_i: the proximal rounds leave blocks with a smaller g_i
# alone.
LEFT_ALONE = 0.2
# Fraction of the total mass: a sweep with a smaller gain makes no progress. A gain is about the
# square of the g_i behind it, so this is the gain of a g_i at the level of rounding.
NO_GAIN = 1e-30


@dataclass(frozen=True)
class Fasole(Solver):
    """FASOLE, the whole of Algorithm 3.

    Parameters
    ----------
    switch : float
        Share of satisfied blocks at which the online regime ends (K = 0.9 in the paper).
    reduced : "growing", "printed" or "sweeps"
        When the reduced problem counts as solved. "printed": once every g_i <= tol. "growing": once
        its gap is a twentieth of the violation that the last pass found; as for "printed" if that
        target is below the one for tol, or below a millionth of the dual. "sweeps": once the mean
        of g_i <= tol.
    care : float
        The reduced problem moves blocks with g_i above this fraction of tol; 1 in the paper. A
        smaller value solves it more precisely, and often sooner, because each step of a neighbour
        reopens blocks just below tol.
    rule : "wss2" or "mvp"
        Direction of a step. With "mvp" this is the paper's SDM.
    order : "cyclic" or "random"
        The order of the examples (as in the paper), or a fresh permutation for every pass.
    accelerated : bool
        First bring the reduced problem near its end by rounds with a proximal term, then finish
        with Algorithm 2 as printed; False: Algorithm 2 alone.
    keep : int
        Drop an output without a multiplier after this many oracle visits; 0: never, as in the
        paper.
    max_sweeps : int
        Limits the visits of one step to as many as this many sweeps of the reduced problem make.
        The next step continues.
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
        # The proximal term would need the inverse of a covariance matrix, so it is not used with
        # one.
        k = STIFFEST if self.accelerated and not dual.full else 0.0
        return FasoleState(dual, tol, none.astype(bool), ProximalState(dual, tol, k, none, none))

    def step(self, problem: Problem, state: FasoleState) -> StepReport:
        todo = problem.active[~state.satisfied[problem.active]]
        # In the batch regime a pass does not change w. Over all blocks it is an exact pass.
        exact = not state.online and len(todo) == problem.n_blocks and not state.dual.single
        if exact:
            state.dual.refresh()  # an exact pass needs w without accumulated rounding
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
        """Solve problem (12) from the current multipliers; `found` is G of the last pass."""
        last_visit = state.dual.core.steps + self.max_sweeps * len(problem.active)
        end = (1.0 if self.reduced == "sweeps" else MEAN_AT_END) * state.tol * problem.total
        growing = self.reduced == "growing" and PACE * found > FINE * state.dual.dual()
        enough = max(end, PACE * found) if growing else end
        loose = enough > end
        open_blocks, visit = self._sweep(problem, state, problem.active)
        if len(open_blocks) > 0 and visit.gain <= NO_GAIN * problem.total:
            # The remaining g_i are rounding errors. Blocks that are marked as satisfied may have a
            # larger g_i: check all blocks.
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
        """Run Algorithm 2 until the gap is at most `enough`; with None, until its own end."""
        pending, opened = problem.active, np.zeros(problem.n_blocks, dtype=bool)
        while state.dual.core.steps < last_visit:
            whole = len(pending) == len(problem.active)
            open_blocks, visit = self._sweep(problem, state, pending)
            idle = visit.gain <= NO_GAIN * problem.total
            if whole and (idle or self._is_solved(problem, state, visit, enough)):
                return
            # Any order is allowed: blocks with g_i <= care tol rest until no other block is left.
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
        """Make steps on cached outputs in random order; return the unsatisfied blocks and the visit."""
        order, tolerance = state.dual.rng.permutation(blocks), self.care * state.tol
        visit = state.dual.visit(order, rule=self.rule, oracle=False, tolerance=tolerance)
        return order[visit.violations > tolerance], visit

    def _approach(
        self, problem: Problem, state: FasoleState, enough: float, last_visit: float
    ) -> bool:
        """Make rounds with a proximal term; if the dual falls, undo them and return False."""
        before, start = state.dual.dual(), state.dual.support()
        below = max(min(LEFT_ALONE, self.care) * state.tol, LEFT_ALONE * enough / problem.total)
        state.proximal.satisfied_below = below
        # The options that were fastest on USPS and OCR letters.
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
        state.tol *= 0.5  # training goes on, so a smaller threshold is needed


@dataclass
class FasoleState:
    """The dual state, the marks of satisfied blocks, and the regime."""

    dual: DualState
    tol: float
    satisfied: np.ndarray
    proximal: ProximalState
    online: bool = True
