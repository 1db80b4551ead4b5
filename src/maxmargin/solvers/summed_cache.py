"""The cache of a stream for the summed error: rounds of ``solvers.SDCD`` over the examples in memory.

    D(a) = b + sum_here a Delta - R*(q - sum_here a psi),    0 <= a_i(y) <= mass_i

(b, q) is the plane of the examples that are not in memory, whose multipliers stay as they are. Each
multiplier has bounds of its own, so that a step over some examples is one of the whole dual, whatever the
others have: passes over parts are passes of coordinate ascent in another order, and have the same limit.

Between two visits a part keeps its multipliers above zero with their outputs. Where all outputs of an example
can be tried these say everything: the others have a = 0, and the gap of the example is known,

    g_i = sum_y [ max(0, s_i(y)) - a_i(y) s_i(y) / mass_i ]

Else the V_i are what was found, and g_i is that of the reduced problem, as for SDCD in memory; the exact pass
says what is proven. Once one was not enough, all violators that can be listed join the V_i whenever examples
come to memory. If what is seen then is at most tol, nothing that can be listed is left to do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from maxmargin.problem import Formulation, Problem, Support
from maxmargin.solvers.box_state import MOST_VIOLATORS, BoxState, open_box
from maxmargin.solvers.sdcd import SDCD

CARE = 0.3  # of tol: a block with less than this is satisfied
SKIP = 1  # rounds that a satisfied block misses


@dataclass
class SummedState:
    """The box of the examples in memory, when one is satisfied, and the rounds that it may still miss."""

    dual: BoxState
    satisfied_below: float
    rest: np.ndarray = field(repr=False)
    k: float = 0.0  # no proximal term
    most_bytes: int = -1
    refused: int = 0  # outputs that do not fit make others go


@dataclass
class SummedCache:
    """The solver of the examples in memory; what it has seen in a pass."""

    formulations: ClassVar[tuple[Formulation, ...]] = SDCD.formulations
    method: SDCD = field(default_factory=SDCD)
    listing: bool = False  # whether violators that can be listed join
    seen: float = 0.0  # sum mass_i g_i of the examples of a pass when they were new
    others: float = 0.0  # and of those that were kept, with all that was listed
    complete: bool = True

    def open(
        self,
        problem: Problem,
        tol: float,
        rng: np.random.Generator,
        warm: Support | None = None,
        *_: Any,
        **__: Any,
    ) -> SummedState:
        """A state; there is no k, no table, and one precision."""
        dual = open_box(problem, tol, rng, warm)
        self.complete = dual.complete
        return SummedState(dual, CARE * tol, np.zeros(problem.n_blocks, dtype=np.int64))

    def explore(
        self, problem: Problem, state: SummedState, blocks: np.ndarray, tolerance: float
    ) -> float:
        """One search over these blocks in their order; returns the gap of all as last seen."""
        if self.listing and not self.complete:
            state.dual.widen(MOST_VIOLATORS)
            state.dual.visit(problem.active, oracle=False, update=False)
            state.rest[:] = 0
            self.others = self._sum(problem, state) - self._sum(problem, state, blocks)
        self.seen += state.dual.visit(blocks, keep=self.method.keep).gap
        return self._sum(problem, state) / problem.total

    def round(self, problem: Problem, state: SummedState, blocks: np.ndarray) -> float:
        """A search over those of the blocks that are due, and sweeps over the outputs that are kept."""
        dual, rest = state.dual, state.rest
        due = blocks[rest[blocks] == 0]
        rest[blocks] -= rest[blocks] > 0
        found = dual.visit(dual.rng.permutation(due), keep=self.method.keep).gap
        satisfied = dual.violations[due] <= state.satisfied_below
        rest[due[satisfied]] = SKIP
        for _ in range(0 if self.complete else self.method.sweeps):
            todo = dual.rng.permutation(due[~satisfied])
            if dual.visit(todo, oracle=False).gap <= self.method.inner * found:
                break
        return self._sum(problem, state) / problem.total

    def begin_pass(self) -> None:
        """What is seen of new examples is added up from here."""
        self.seen = 0.0

    def looks_further(self, problem: Problem) -> bool:
        """Whether violators that can be listed join from now on."""
        before, self.listing = self.listing, self.listing or not problem.exact
        return self.listing and not before

    def _sum(self, problem: Problem, state: SummedState, blocks: Any = slice(None)) -> float:
        """sum mass_i g_i, of all or of some blocks."""
        return float(problem.mass[blocks] @ np.maximum(state.dual.violations[blocks], 0.0))

    def settled(self, problem: Problem, estimate: float, tol: float) -> bool:
        """Whether the problem reduced to all that can be listed is solved."""
        most = max(estimate, (self.seen + self.others) / problem.total)
        return self.listing and not self.complete and most <= tol


def kept_risk(problem: Problem, support: Support, w: np.ndarray) -> float:
    """The risk at w of outputs with multipliers alone."""
    state = open_box(problem, 1.0, np.random.default_rng(0), support, cuts=True)
    return state.cut(w, oracle=False)[0].risk
