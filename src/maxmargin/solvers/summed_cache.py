"""The cache of a stream for the summed error: rounds of ``solvers.SDCD`` over the examples in memory.

    D(a) = b + sum_here a Delta - R*(q - sum_here a psi),    0 <= a_i(y) <= mass_i

(b, q) is the plane of the examples that are not in memory; their multipliers stay fixed. Each
multiplier has its own bounds, so a step on some examples is a step on the whole dual, whatever the
other multipliers are. Passes over parts are passes of coordinate ascent in another order, and have
the same limit.

Between two visits, a part stores its positive multipliers with their outputs. If all outputs of an
example can be tried one by one, this is complete: the other outputs have a = 0, and the gap of the
example is known,

    g_i = sum_y [ max(0, s_i(y)) - a_i(y) s_i(y) / mass_i ]

Otherwise the V_i hold the outputs found so far, and g_i is a part of the gap of the reduced
problem, as for SDCD in memory; only an exact pass gives a proven gap. If one exact pass was not
enough, all violators that can be listed are added to the V_i whenever examples come into memory. If
the gap is then at most tol, training ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from maxmargin.problem import Formulation, Problem, Support
from maxmargin.solvers.box_state import MOST_VIOLATORS, BoxState, open_box
from maxmargin.solvers.sdcd import SDCD

CARE = 0.3  # fraction of tol: a block with a smaller part of the gap is satisfied
SKIP = 1  # number of rounds that a satisfied block misses


@dataclass
class SummedState:
    """The box state of the examples in memory, and which of their blocks are satisfied.

    A block is satisfied if its part of the gap is below ``satisfied_below``. ``rest`` counts the
    rounds that each block still misses.
    """

    dual: BoxState
    satisfied_below: float
    rest: np.ndarray = field(repr=False)
    k: float = 0.0  # no proximal term
    most_bytes: int = -1
    refused: int = 0  # always 0, because new outputs replace old ones


@dataclass
class SummedCache:
    """The solver of the examples in memory, for hinge="sum", and the gaps that it saw in a pass."""

    formulations: ClassVar[tuple[Formulation, ...]] = SDCD.formulations
    method: SDCD = field(default_factory=SDCD)
    listing: bool = False  # whether violators that can be listed are added
    seen: float = 0.0  # sum of mass_i g_i of the examples of a pass when they were new
    others: float = 0.0  # the same for the cached examples, with all listed violators
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
        """Return a state; the arguments for k, tables and precision do not apply."""
        dual = open_box(problem, tol, rng, warm)
        self.complete = dual.complete
        return SummedState(dual, CARE * tol, np.zeros(problem.n_blocks, dtype=np.int64))

    def explore(
        self, problem: Problem, state: SummedState, blocks: np.ndarray, tolerance: float
    ) -> float:
        """Make one search over these blocks in their order; return the gap of all blocks as last seen."""
        if self.listing and not self.complete:
            state.dual.widen(MOST_VIOLATORS)
            state.dual.visit(problem.active, oracle=False, update=False)
            state.rest[:] = 0
            self.others = self._sum(problem, state) - self._sum(problem, state, blocks)
        self.seen += state.dual.visit(blocks, keep=self.method.keep).gap
        return self._sum(problem, state) / problem.total

    def round(self, problem: Problem, state: SummedState, blocks: np.ndarray) -> float:
        """Make a search over the blocks that are due, and sweeps over the cached outputs."""
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
        """Start to add up the gaps of new examples."""
        self.seen = 0.0

    def looks_further(self, problem: Problem) -> bool:
        """Return whether violators that can be listed are added from now on."""
        before, self.listing = self.listing, self.listing or not problem.exact
        return self.listing and not before

    def _sum(self, problem: Problem, state: SummedState, blocks: Any = slice(None)) -> float:
        """Return the sum of mass_i g_i over all or some blocks."""
        return float(problem.mass[blocks] @ np.maximum(state.dual.violations[blocks], 0.0))

    def settled(self, problem: Problem, estimate: float, tol: float) -> bool:
        """Return whether the problem reduced to all outputs that can be listed is solved."""
        most = max(estimate, (self.seen + self.others) / problem.total)
        return self.listing and not self.complete and most <= tol


def kept_risk(problem: Problem, support: Support, w: np.ndarray) -> float:
    """Return the risk at w of the outputs with multipliers alone."""
    state = open_box(problem, 1.0, np.random.default_rng(0), support, cuts=True)
    return state.cut(w, oracle=False)[0].risk
