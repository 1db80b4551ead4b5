"""Sequential dual coordinate descent for the summed error (Balamurugan, Shevade and Babu, Algorithm 2).

    max_a  sum a Delta - 1/2 |sum a psi|^2,   0 <= a_i(y) <= mass_i                          (OP3)

    repeat, blocks in turn:
        type I only:  y^ = argmax_y s_i(y);  V_i = V_i + { y^ } if it violates               (lines 9 to 14)
        for y in V_i: a_i(y) = min(max(a_i(y) + g / |psi_i(y)|^2, 0), mass_i)                (IV.6)
                      w = - sum a psi                                                        (IV.7)
                      with g = Delta_i(y) + <w, psi_i(y)>

The first passes are of type I. After them, each pass of type I is followed by passes of type II,
which do not search. If all outputs can be tried one by one, V_i has them from the start, there is
no search, and every pass is the same. As printed (``SDCD.printed``), training ends with a pass of
type I in which, for every block, the sum of its squared steps is at most ``change`` (lines 20 to
28).

With a prior, |psi|^2 is in its metric and w comes from its R* (``dual_state``).

Multipliers move one at a time: no sum ties the multipliers of an example together. The dual of the
problem reduced to the V_i bounds the optimum of the whole problem; docs/objective.md says what is
known of the primal. After an exact pass that did not end training, violators that can be listed are
added to the V_i. If the reduced problem is solved to tol even then, training ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.data.arrays import among
from maxmargin.problem import Formulation, Problem, Status, Support
from maxmargin.solvers.base import AT_LEAST_1, BELOW_1, NOT_NEGATIVE, Solver, StepReport, option
from maxmargin.solvers.box_state import MOST_VIOLATORS, BoxState, BoxVisit, open_box
from maxmargin.solvers.dual_ascent import ORDERS, in_order


@dataclass(frozen=True)
class SDCD(Solver):
    """Sequential dual coordinate descent, for hinge="sum".

    Parameters
    ----------
    searches : int
        Passes of type I before the first of type II (kappa_1 of the paper).
    sweeps : int
        After that, a pass of type I is followed by this many passes of type II, later by one less
        (kappa_2).
    inner : float
        Passes of type II end early when their gap is this fraction of the gap that type I saw; 0:
        never.
    order : "random" or "cyclic"
        A fresh permutation for every pass, or the order of the examples (as in the paper).
    keep : int
        Drop an output without a multiplier after this many searches; 0 never drops one (as
        printed).
    violators : int
        Largest number of cached outputs per example to which the violators listed by an exact pass
        are added; 0 adds none (as in the paper).
    change : float
        End when a search moves the multipliers of no example by more than this, in the sum of
        squares. The gap of the reduced problem then does not end training. 1e-4 in the paper; 0:
        never.
    """

    name: ClassVar[str] = "sdcd"
    formulations: ClassVar[tuple[Formulation, ...]] = (
        Formulation("sum", "margin"),
        Formulation("sum", "slack"),
    )
    searches: int = option(10, NOT_NEGATIVE)
    sweeps: int = option(5, AT_LEAST_1)
    inner: float = option(0.1, BELOW_1)
    order: str = option("random", among(*ORDERS))
    keep: int = option(10, NOT_NEGATIVE)
    violators: int = option(MOST_VIOLATORS, NOT_NEGATIVE)
    change: float = option(0.0, NOT_NEGATIVE)

    @classmethod
    def printed(cls, change: float = 1e-4) -> SDCD:
        """Return Algorithm 2 as printed, with its own end."""
        return cls(inner=0, order="cyclic", keep=0, violators=0, change=change)

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> BoxState:
        return open_box(problem, tol, rng, warm)

    def step(self, problem: Problem, state: BoxState) -> StepReport:
        if state.settled:
            return state.report(0, state.reduced_gap(), ended=Status.REDUCED)
        seen = self.search(problem, state)
        state.passes += 1
        if seen.change <= self.change > 0:
            gap = state.reduced_gap()
            return state.report(seen.oracle_calls, gap, ended=Status.UNCHANGED)
        gap = self.sweep(problem, state, seen.gap)
        if state.complete or seen.found:
            # New outputs were found after part of the visits, so the estimate is at least the gap
            # that the search saw.
            return state.report(seen.oracle_calls, max(gap, seen.gap) / problem.total)
        estimate = state.reduced_gap() if self.change == 0 else np.inf
        return state.report(seen.oracle_calls, estimate)

    def search(self, problem: Problem, state: BoxState) -> BoxVisit:
        """Make a pass of type I; if ``change`` is set, report the largest change of a block."""
        order = in_order(problem.active, self.order, state.rng)
        if self.change == 0:
            return state.visit(order, keep=self.keep)
        parts = [state.visit(order[k : k + 1], keep=self.keep) for k in range(len(order))]
        calls, found, gap = (
            sum(getattr(part, name) for part in parts) for name in ("oracle_calls", "found", "gap")
        )
        change = max(part.change for part in parts)
        return BoxVisit(
            int(calls), int(found), gap, change, np.concatenate([p.shares for p in parts])
        )

    def sweep(self, problem: Problem, state: BoxState, seen: float) -> float:
        """Make passes of type II after one of type I (lines 30 to 37); return their gap."""
        after, gap = state.passes - self.searches, seen
        for _ in range(0 if after < 1 or state.complete else self.sweeps - (after > 1)):
            gap = state.visit(in_order(problem.active, self.order, state.rng), oracle=False).gap
            if gap <= self.inner * seen:
                break
        return gap

    def learn(self, problem: Problem, state: BoxState, slacks: np.ndarray) -> None:
        state.refresh()
        if state.complete or self.change > 0:
            return
        # All violators that can be listed are added. If the gap is small even then, training ends.
        state.widen(self.violators)
        # Before the first pass no violator was searched for.
        state.settled = state.passes > 0 and state.reduced_gap() <= state.tol

    def reduced_gap(self, problem: Problem, state: BoxState) -> float | None:
        return None if state.complete else state.reduced_gap()
