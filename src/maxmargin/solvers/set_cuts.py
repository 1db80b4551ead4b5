"""Cuts of the summed error: the state of 1-slack cutting planes for hinge="sum" (OP2-1-slack).

    risk(w) = sum_i mass_i max over sets S_i of outputs: sum_{y in S_i} s_i(y)

A cut is a set of violators for each block (Algorithm 1 of Balamurugan, Shevade and Babu), kept as bits over
the outputs that were found so far. A mixture beta of cuts is the dual point a_i(y) = mass_i (sum of the beta
of the cuts that hold y), which is in the box.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.problem import Problem, Support
from maxmargin.problem.plane import Cut
from maxmargin.solvers.box_state import BoxState, open_box
from maxmargin.solvers.cut_state import CutState


@dataclass
class SetCuts(CutState):
    """What 1-slack cutting planes know of the summed error."""

    box: BoxState | None = None

    def _box(self) -> BoxState:
        assert self.box is not None
        return self.box

    def ask(self, problem: Problem) -> Cut:
        return self._box().cut(self.w, oracle=True)[0]

    def ask_cache(self, problem: Problem) -> Cut:
        return self._box().cut(self.w, oracle=False)[0]

    def point(self, problem: Problem, cut: Cut) -> np.ndarray:
        return cut.outputs

    def shares(self) -> np.ndarray:
        """a_i(y) / mass_i of the kept outputs, by number."""
        parts = [
            (beta, point if point.dtype == np.float64 else np.unpackbits(point))
            for beta, point in zip(self.beta, self.cuts.points, strict=True)
            if beta > 0
        ]
        shares = np.zeros(max((len(part) for _, part in parts), default=0))
        for beta, part in parts:
            shares[: len(part)] += beta * part
        return shares

    def mixture(self, problem: Problem) -> np.ndarray:
        return self.shares()

    def support(self) -> Support:
        box = self._box()
        box.core.set_shares(self.shares())
        return box.support()

    def merged(self, problem: Problem) -> Support:
        return self.support()

    def widen(self, problem: Problem, most: int) -> None:
        """Violators at w that are not kept yet; if the gap is small with them, all is done."""
        box = self._box()
        if box.complete:
            return
        box.widen(most, self.best_w)
        left = self.reduced_primal(problem) - self.dual()
        self.settled: bool = left <= self.tol * problem.total

    def reduced_primal(self, problem: Problem) -> float:
        """The objective at the best w with the kept outputs alone."""
        cut = self._box().cut(self.best_w, oracle=False)[0]
        return problem.regularizer.value(self.best_w) + cut.risk


def open_set_cuts(problem: Problem, tol: float, rng: np.random.Generator, cached: bool) -> SetCuts:
    """No cut yet but the empty one, whose mixture leaves multipliers at zero."""
    box = open_box(problem, tol, rng, cuts=True)
    start = problem.regularizer.law(np.zeros(problem.dimension))
    state = SetCuts(tol, start, np.arange(problem.n_blocks), box=box)
    state.lasting = box.complete
    state.cache = True if cached and not box.complete else None
    zero: Any = np.zeros(0)
    state.add(problem, 0.0, np.zeros(problem.dimension), zero, beta=np.ones(1))
    return state


def warm_point(problem: Problem, state: SetCuts, warm: Support) -> tuple[float, np.ndarray, Any]:
    """The multipliers of an earlier fit as a cut: offset, vector and point."""
    box = state._box()
    box.restore(warm)
    point = box.support()
    offset, vector = problem.examples.combine(point.blocks, point.multipliers, point.outputs)
    return offset, vector, box.core.shares()
