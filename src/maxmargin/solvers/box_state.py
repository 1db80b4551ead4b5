"""BoxState: cached outputs, multipliers in a box, and w; the Python side of the core's state.

    hinge="sum":   0 <= a_i(y) <= mass_i,   w = - sum a psi, or with a prior as in ``dual_state``

V_i is the set of cached outputs of block i. It has all outputs if these can be tried one by one,
else only the outputs that searches have found. The problem reduced to the V_i has the same dual
with a = 0 elsewhere. So its dual bound holds for the whole problem, but its primal is too small.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from maxmargin._core import core
from maxmargin.problem import Problem, Support, loss_units
from maxmargin.problem.plane import Cut
from maxmargin.problem.regularizer import Prior, dot, tilted
from maxmargin.solvers.asked_state import AskedState
from maxmargin.solvers.dual_state import KeptState

PLANE_BYTES, LABEL_BYTES = 32, 4  # bytes of a cached output, and of each of its labels
# Largest number of cached outputs of a block to which listed violators are added.
MOST_VIOLATORS = 1000


@dataclass(frozen=True)
class BoxVisit:
    """The result of one pass."""

    oracle_calls: int
    found: int  # number of outputs that were not cached before
    gap: float  # gap of the reduced problem, as seen while w moved
    change: float  # sum of the squared steps
    shares: np.ndarray  # each block's part of the gap, in the order of the visits


@dataclass(eq=False, repr=False)
class BoxState(KeptState):
    """Multipliers and w of a compiled model.

    With ``cuts``, it computes cuts at any w instead of making visits. Cuts only concern the risk,
    so a state for cuts ignores the prior.
    """

    single: ClassVar[bool] = False
    cuts: bool = False
    # Whether the reduced problem is solved and no violator is left to add.
    settled: bool = field(default=False, init=False)
    oracle_calls: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        problem, cuts = self.problem, self.cuts
        self.complete: bool = problem.exact
        # Each block's part of the gap divided by its mass, as of its last visit.
        self.violations: np.ndarray = np.zeros(problem.n_blocks)
        if not cuts:
            problem = tilted_by_plane(problem)
            self.read_prior(problem)
        self.core: Any = self._open(problem, self.unit * problem.mass)
        self.set_prior()

    def take_prior(self, prior: Prior) -> None:
        super().take_prior(prior)
        self.settled = False

    def _open(self, problem: Problem, mass: np.ndarray) -> Any:
        examples: Any = problem.examples
        # With a kernel, visits move w by kernel rows, while a cut needs only the values of w.
        data = examples.plain.core if self.cuts and examples.kernelised else examples.core
        return data.box(problem.rescaling, mass, self.complete)

    def visit(
        self, order: np.ndarray, oracle: bool = True, update: bool = True, keep: int = 0
    ) -> BoxVisit:
        """Make coordinate steps on the blocks of `order`; with `oracle`, search each for a violator first."""
        return self.seen(order, self.core.visit(order, oracle, update, keep))

    def seen(
        self, order: np.ndarray, report: tuple[int, int, float, float, np.ndarray]
    ) -> BoxVisit:
        """Convert the report of the core to the units of the problem, and record it."""
        calls, found, gap, change, shares = report
        shares /= self.unit
        self.oracle_calls += calls
        self.violations[order] = shares / self.problem.mass[order]
        return BoxVisit(calls, found, gap / self.unit, change / self.unit**2, shares)

    def visit_sets(
        self, order: np.ndarray, oracle: bool, tolerance: float = 0.0
    ) -> tuple[int, int, float, float]:
        """Make a pass that adds sets of violators (`oracle`) or moves the multipliers of sets.

        Return the number of oracle calls and of new sets, the violation, and the gain of the dual.
        """
        calls, found, violation, gain = self.core.visit_sets(order, oracle, tolerance)
        return calls, found, violation / self.unit, gain / self.unit

    def values(self, w: np.ndarray) -> np.ndarray:
        """Return w in the form that the core needs for cuts."""
        examples: Any = self.problem.examples
        return examples.values(w) if examples.kernelised else w

    def cut(self, w: np.ndarray, oracle: bool) -> tuple[Cut, int]:
        """Return the plane of the whole set at w, from the violators among the cached outputs.

        Also return how many outputs are new. ``outputs`` of the cut is a bit mask over the numbers
        of the cached outputs: it marks the violators.
        """
        slacks, offset, vector, flags, _, found = self.core.cut(
            np.ascontiguousarray(self.values(w)), oracle, self.problem.n_jobs
        )
        return Cut(
            offset, vector, np.packbits(flags), slacks, dot(self.problem.mass, slacks)
        ), found

    def widen(self, most: int, w: np.ndarray | None = None) -> int:
        """Add violators at w, or at the running w, that are not cached yet; return how many were added."""
        point = None if w is None else np.ascontiguousarray(self.values(w))
        return self.core.widen(point, most, self.problem.n_jobs)

    def reduced_gap(self) -> float:
        """Return the gap of the reduced problem at the running w, in loss units."""
        seen = self.visit(self.problem.active, oracle=False, update=False)
        return loss_units(seen.gap, self.problem.total)

    def support(self, blocks: np.ndarray | None = None) -> Support:
        found, multipliers, kept = self.core.support()
        whole = Support(found, multipliers / self.unit, self.readable(kept))
        if blocks is None:
            return whole
        own = np.flatnonzero(np.isin(found, blocks))
        return replace(whole.chosen(own, self.problem.examples.output_sizes(found)), partial=True)

    def usage(self) -> tuple[np.ndarray, ...]:
        """Return four arrays with a number for each block.

        The numbers are the block's part of the gap divided by its mass, the bytes of its planes,
        1 + the number of its multipliers below the bound, and the sum of its multipliers.
        """
        found, multipliers, _ = self.core.support()
        n, sizes = self.problem.n_blocks, self.problem.examples.output_sizes(found)
        inside = multipliers < self.unit * self.problem.mass[found]
        return (
            np.maximum(self.violations, 0.0),
            np.bincount(found, PLANE_BYTES + LABEL_BYTES * sizes, n),
            1 + np.bincount(found, inside, n),
            np.bincount(found, multipliers, n),
        )

    def restore(self, support: Support) -> None:
        """Start from these multipliers, each clipped to the mass of its block."""
        scaled = self.unit * support.multipliers
        self.core.restore(support.blocks, scaled, self._offered(support))


class ExplicitBoxState(AskedState, BoxState):
    """A box state whose planes are made in Python."""

    def _open(self, problem: Problem, mass: np.ndarray) -> Any:
        examples: Any = problem.examples
        self.batch: int = self.batch_size()
        state = core.ExplicitBox(problem.n_blocks, problem.dimension, mass, self.complete)
        zero = np.zeros(problem.dimension)
        for i in problem.active.tolist() if self.complete else ():
            for offset, (index, value) in examples.every_plane(i):
                state.keep(i, state.offer(i, offset, index, value, zero)[0])
        return state

    def ask(self, blocks: np.ndarray, w: np.ndarray) -> None:
        """Call the oracle and pass its planes to the core, unless all planes are there already."""
        if not self.complete:
            super().ask(blocks, w)

    def batches(self, order: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the parts of an order; the planes of one part are computed at the same w."""
        size = len(order) if self.complete else self.batch
        return (order[start : start + size] for start in range(0, len(order), max(1, size)))

    def visit(
        self, order: np.ndarray, oracle: bool = True, update: bool = True, keep: int = 0
    ) -> BoxVisit:
        if not oracle or not len(order):
            return super().visit(order, oracle, update, keep)
        parts = []
        for blocks in self.batches(order):
            self.ask(blocks, self.running())
            parts.append(self.core.visit(blocks, True, update, keep))
        *numbers, shares = zip(*parts, strict=True)
        calls, found, gap, change = map(sum, numbers)
        return self.seen(order, (calls, found, gap, change, np.concatenate(shares)))

    def visit_sets(
        self, order: np.ndarray, oracle: bool, tolerance: float = 0.0
    ) -> tuple[int, int, float, float]:
        if oracle:
            self.ask(order, self.running())
        return super().visit_sets(order, oracle, tolerance)

    def cut(self, w: np.ndarray, oracle: bool) -> tuple[Cut, int]:
        if oracle:
            self.ask(self.problem.active, w)
        return super().cut(w, oracle)


def tilted_by_plane(problem: Problem) -> Problem:
    """Return the problem with the linear part of its frozen plane moved into the regulariser.

    A linear term shifts the mean of the regulariser, so only the offset of the plane still counts.
    """
    if problem.frozen is None:
        return problem
    other, plane = copy.copy(problem), problem.frozen
    other.regularizer, more = tilted(problem.regularizer, plane.vector)
    other.frozen = replace(plane, offset=plane.offset - more)
    return other


def open_box(
    problem: Problem,
    tol: float,
    rng: np.random.Generator,
    warm: Support | None = None,
    cuts: bool = False,
) -> BoxState:
    """Open a box state for the problem's model."""
    kind = ExplicitBoxState if problem.examples.core is None else BoxState
    state = kind(problem, tol, rng, cuts)
    if warm is not None:
        state.restore(warm)
    return state
