"""Batch dual coordinate ascent with single and pair updates (dual coordinate paper, Sections 2 to 4).

    repeat, blocks in random order:                                       (Algorithm 1)
        s(y) = Delta_i(y) + <w, psi_i(y)>                                 the gradient (11)
        move mass from v to u by min(a(v), (s(u) - s(v)) / |psi(u) - psi(v)|^2)

If v is the true output, this is the paper's update of a single variable (12), else its update of a
pair (15). The printed clips are misprints, see ``docs/solvers.md``. The lower bound is D(a),
computed from the running w. The running upper bound adds sum_i mass_i g_i, with each g_i as of its
own visit (23). An exact pass is made once the two are within about tol.

The method has two implementations. If all constraints are explicit (two classes, K classes,
regression, explicit groups), a step is one compiled epoch, ``cpp/solvers/dual_coordinate.hpp``,
with shrinking. Shrinking sets blocks aside that cannot move; all of them return after an exact pass
that did not end training.

If outputs must be searched for, a step is one oracle pass, which gives every violated block a new
plane and a step. Sweeps of pair steps follow, over the cached planes of the unsatisfied blocks.
``order="cyclic"`` and ``prune=True`` use this implementation for explicit constraints too: epochs
are in random order and have no planes to drop. Pruning (Section 3) leaves D(a) unchanged; an output
that is needed again is found again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.data.arrays import FLAG, among
from maxmargin.problem import Problem, Support
from maxmargin.solvers.base import BELOW_1, NOT_NEGATIVE, Solver, StepReport, option
from maxmargin.solvers.coordinate_state import CoordinateState, explicit_constraints
from maxmargin.solvers.dual_ascent import ORDERS
from maxmargin.solvers.dual_state import PRECISIONS, SINGLE_ENOUGH, SearchState, open_state

SATISFIED_SHARE = 0.1  # fraction of tol: blocks with a smaller g_i are skipped


@dataclass(frozen=True)
class DualCoordinate(Solver):
    """Batch dual coordinate ascent.

    Parameters
    ----------
    shrinking : bool
        Set blocks aside that cannot move; if False, every pass visits every block.
    sweeps : int
        If outputs are searched for: most sweeps over cached outputs after each oracle pass.
    inner : float
        Sweeps end when the gap that they see is this fraction of the gap that the oracle pass saw.
    keep : int
        Drop an output without a multiplier after this many oracle visits; 0 never drops one.
    prune : bool
        Drop every output without a multiplier at the end of each step, whatever ``keep`` says. This
        saves memory.
    order : "random" or "cyclic"
        A fresh permutation for every pass, or the order of the examples.
    precision : "auto", "single" or "double"
        Precision of w while it is updated. "auto": single for two or more classes if tol allows it,
        else double.
    """

    name: ClassVar[str] = "dual-coordinate"
    thresholds: ClassVar[tuple[str, ...]] = ("satisfied_below",)
    shrinking: bool = option(True, FLAG)
    sweeps: int = option(30, NOT_NEGATIVE)
    inner: float = option(0.3, BELOW_1)
    keep: int = option(10, NOT_NEGATIVE)
    prune: bool = option(False, FLAG)
    order: str = option("random", among(*ORDERS))
    precision: str = option("auto", among(*PRECISIONS))

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> CoordinateState | SearchState:
        single = self.precision == "single"
        plain = self.order == "random" and not self.prune
        explicit = explicit_constraints(problem) if plain else None
        if explicit is None:
            return SearchState(open_state(problem, tol, rng, single, warm), SATISFIED_SHARE * tol)
        if self.precision == "auto" and explicit.scale is not None:
            single = tol >= SINGLE_ENOUGH * explicit.scale
        state = CoordinateState(problem, explicit, SATISFIED_SHARE * tol, rng, single)
        if warm is not None:
            state.restore(warm)
        return state

    def step(self, problem: Problem, state: CoordinateState | SearchState) -> StepReport:
        if isinstance(state, CoordinateState):
            return state.epoch(self.shrinking)
        return self._search(problem, state)

    def _search(self, problem: Problem, state: SearchState) -> StepReport:
        """Make one oracle pass, then sweeps over the cached outputs."""
        todo, seen = self._visit(problem, state, problem.active, oracle=True)
        calls = len(problem.active)
        for _ in range(self.sweeps):
            blocks = todo if self.shrinking else problem.active
            todo, left = self._visit(problem, state, blocks, oracle=False)
            if left <= self.inner * seen:
                break
        if self.prune:
            state.dual.core.prune(0)
        return state.dual.report(calls, seen / problem.total)

    def _visit(
        self, problem: Problem, state: SearchState, blocks: np.ndarray, oracle: bool
    ) -> tuple[np.ndarray, float]:
        """Make one pass; return the blocks that are not satisfied, and the sum of mass_i g_i."""
        order = state.dual.rng.permutation(blocks) if self.order == "random" else blocks
        visit = state.dual.visit(
            order, oracle=oracle, tolerance=state.satisfied_below, keep=self.keep
        )
        return order[visit.violations > state.satisfied_below], visit.violation

    def learn(
        self, problem: Problem, state: CoordinateState | SearchState, slacks: np.ndarray
    ) -> None:
        state.satisfied_below *= 0.5  # the parts of skipped blocks add up to more than expected
        state.reopen()
