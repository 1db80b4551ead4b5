"""Sequential dual ascent: one skeleton, three directions (FASOLE paper, Algorithms 1 and 2).

    repeat: for block i:  u = argmax_y s_i(y);  if g_i > tol: move multipliers of block i, exact step

    SDA    WSS2: from the v with the largest gain              (Section 3.2)
    SDM    maximal violating pair: from the worst v            (Section 4)
    BCFW   Frank-Wolfe: the whole block towards the vertex u   (Section 4), and its newer variants

``cpp/solvers/dual_ascent.hpp`` has the pass. This file has the order of visits and the reports of
steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.data.arrays import FLAG, among
from maxmargin.problem import Problem, Support
from maxmargin.problem.regularizer import PRIOR
from maxmargin.solvers.base import Snapshot, Solver, StepReport, option, slow
from maxmargin.solvers.dual_state import PRECISIONS, DualState, open_state

ORDERS = ("random", "cyclic")
REFRESH = 10  # gap sampling: passes from one that visits all blocks to the next


def in_order(blocks: np.ndarray, order: str, rng: np.random.Generator) -> np.ndarray:
    """Return the blocks of a pass in the order of the visits."""
    return rng.permutation(blocks) if order == "random" else blocks


@dataclass(frozen=True)
class DualAscent(Solver):
    """Base of the dual ascent solvers. A step visits every block once and calls the oracle for it.

    Parameters
    ----------
    order : "random" or "cyclic"
        A fresh permutation for every pass, or the order of the examples.
    precision : "double", "single"
        Precision of w while it is updated; multipliers and certificates are always double.
    """

    rule: ClassVar[str] = "wss2"
    order: str = option("random", among(*ORDERS))
    precision: str = option("double", among(*PRECISIONS[1:]))

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> DualState:
        return open_state(problem, tol, rng, self.precision == "single", warm)

    def blocks(self, problem: Problem, state: DualState) -> np.ndarray:
        """Return the blocks of a pass in the order of the visits."""
        return in_order(problem.active, self.order, state.rng)

    def step(self, problem: Problem, state: DualState) -> StepReport:
        # Blocks with g_i below a tenth of tol are skipped. The mean of all g_i must fall below tol.
        order = self.blocks(problem, state)
        visit = state.visit(order, rule=self.rule, tolerance=0.1 * state.tol)
        return state.report(visit.oracle_calls, visit.violation / problem.total)


@dataclass(frozen=True)
class SDA(DualAscent):
    """Sequential dual ascent with the second-order working set selection (Algorithm 2)."""

    name: ClassVar[str] = "sda"


@dataclass(frozen=True)
class SDM(DualAscent):
    """Sequential dual method: directions by the maximal violating pair."""

    name: ClassVar[str] = "sdm"
    rule: ClassVar[str] = "mvp"


@dataclass(frozen=True)
class BCFW(DualAscent):
    """Block-coordinate Frank-Wolfe.

    Parameters
    ----------
    pairwise : bool
        Pairwise steps: move mass from the worst cached output to the new one, instead of from all
        outputs.
    line_search : bool
        Use the exact step; False means 2n / (visits + 2n).
    gap_sampling : bool
        Draw blocks in proportion to their last known gap; every tenth pass visits all of them.
    averaging : bool
        Return the average of the iterates, in which later iterates weigh more.
    """

    name: ClassVar[str] = "bcfw"
    pairwise_optimum: ClassVar[bool] = False
    advice: ClassVar[str] = slow("bcfw")
    pairwise: bool = option(False, FLAG)
    line_search: bool = option(True, FLAG)
    gap_sampling: bool = option(False, FLAG)
    averaging: bool = option(False, FLAG)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pairwise and not self.line_search:
            raise ValueError("BCFW: pairwise steps need line_search=True")

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> DualState:
        state = super().start(problem, tol, rng, warm)
        if self.averaging:
            state.core.start_average()
        return state

    def honoured(self) -> tuple[str, ...]:
        """Return the supported regularisers: the average of clipped iterates is not a sum of the moves."""
        return (PRIOR,) if self.averaging else self.honours

    def blocks(self, problem: Problem, state: DualState) -> np.ndarray:
        if self.whole(state):
            return super().blocks(problem, state)
        share = problem.mass * state.known_violations()
        if not 0 < share.sum() < np.inf:
            return super().blocks(problem, state)
        size = len(problem.active)
        return state.rng.choice(problem.n_blocks, size=size, p=share / share.sum())

    def step(self, problem: Problem, state: DualState) -> StepReport:
        order = self.blocks(problem, state)
        whole = self.whole(state)
        visit = state.visit(
            order,
            rule="mvp" if self.pairwise else "frank-wolfe",
            line_search=self.line_search,
            tolerance=0.0,
            threads=None if whole and not self.averaging else 1,
        )
        state.passes += 1
        if whole:  # after a sampled pass most gaps are old, so keep the estimate
            state.estimate = visit.violation / problem.total
        return state.report(visit.oracle_calls, state.estimate)

    def whole(self, state: DualState) -> bool:
        """Return whether this pass visits every block once."""
        return not self.gap_sampling or state.passes % REFRESH == 0

    def snapshot(self, problem: Problem, state: DualState) -> Snapshot:
        return state.snapshot(state.weights(), self.averaging)

    def resume(
        self, problem: Problem, tol: float, rng: np.random.Generator, at: Snapshot
    ) -> DualState:
        state = self.start(problem, tol, rng, at.support)
        state.go_on(at, self.averaging)
        return state

    def learn(self, problem: Problem, state: DualState, slacks: np.ndarray) -> None:
        super().learn(problem, state, slacks)
        state.passes = 0  # the next pass visits all blocks, because old gaps were too small

    def solution(self, problem: Problem, state: DualState) -> tuple[np.ndarray, Support]:
        w, support = super().solution(problem, state)
        if not self.averaging:
            return w, support
        # sum_j j w_j = (k (k + 1) / 2) w_k - sum_j (j (j - 1) / 2) d_j
        k = max(state.core.steps, 1.0)  # an interrupt may come before the first step
        return w - 2.0 / (k * (k + 1)) * state.core.weighted(), support
