"""The state of a stream whose examples come and go: some are in memory, one plane stands for the others.

As long as the multipliers of the examples outside memory do not change, they give one plane that lies below
the risk of those examples at every w:

    sum_gone mass_i xi_i(w) >= b - <q, w>,      b = sum_gone a Delta,   q = - sum_gone a psi

    P'(w) = 1/2 |w|^2 + b - <q, w> + sum_here mass_i xi_i(w)  <=  P(w) of all examples
    D(a)  = b + sum_here a Delta - 1/2 |q - sum_here a psi|^2  <=  min P of all examples

After the examples in memory are optimised, each of them is one of

    kept      the example and its multipliers stay in memory and are optimised further
    dropped   it does not fit, and all of its mass is on the true output: it adds nothing to b and q
    frozen    it does not fit and has multipliers on other outputs, which join the plane

The next examples are optimised together with the kept ones and the plane of the frozen ones.

If all outputs fit the budget, no example leaves (``StoredState``): an output takes a few bytes, the features
of an example take many. The core then reads the features in the mapped files. No example is copied, frozen or
restored, and the steps are the same as in memory. A pass goes from one stretch of the files to the next, in
random order within a stretch, so that each page is read once per pass. The order of the stretches is drawn
again for each pass; a fixed order needs more than three times the passes (docs/data.md). Once outputs no
longer fit, all multipliers go to a file, and examples come and go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.data.scratch import PlaneFile
from maxmargin.parts.source import Layout, Part, keep_only, warn_of_parts
from maxmargin.problem import Formulation, Problem, Support
from maxmargin.problem.plane import FrozenPlane
from maxmargin.problem.regularizer import SquaredNorm
from maxmargin.solvers.box_state import BoxState
from maxmargin.solvers.dual_state import DualState, known_outputs
from maxmargin.solvers.proximal import ProximalState
from maxmargin.solvers.streaming import CHUNKS, Streaming, StreamState, Window

# Largest share of the budget for kept examples. A larger share leaves too little room for new examples and
# new outputs; a smaller one freezes more examples.
KEPT = 0.7
TWICE = 2  # planes are in memory twice while they are copied
# Largest share of the budget for one new example, and for all new examples of a window.
MOST_NEW = 0.125
# Share of the budget that the features of a stretch may take. Larger stretches may not stay in memory during
# their visits; smaller ones make the order less random.
STRETCH = 0.125


@dataclass(frozen=True)
class Past:
    """All that remains of the examples seen; replaced as a whole, so that an interrupt cannot halve it."""

    C: float
    layout: Layout
    parts: list[Part]  # the kept examples
    plane: FrozenPlane  # stands for the examples that are gone
    w: np.ndarray
    dual: float
    support: Support  # multipliers of the kept examples, numbered by their order here
    sizes: np.ndarray  # number of labels in the output of each plane of the support
    index: np.ndarray  # numbers of the kept examples in the stream
    gaps: np.ndarray  # last known g_i of the kept examples
    n_seen: int = 0
    n_frozen: int = 0
    mass: float = 0.0  # total mass of all examples seen
    formulation: Formulation | None = None  # formulation of the planes of gone examples
    # For the file of planes: the new examples, the frozen examples, and the places of their records.
    records: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    @property
    def n_gone(self) -> int:
        """The number of examples that are dropped or frozen."""
        return self.n_seen - len(self.index)

    def whole_support(self) -> Support:
        """The multipliers of the kept examples, under their numbers in the stream.

        The multipliers of frozen examples are lost: all mass of these examples counts as on the true output.
        """
        return replace(self.support, blocks=self.index[self.support.blocks])


def empty_past(C: float, layout: Layout, dimension: int, regularizer: SquaredNorm) -> Past:
    """The past before the first example."""
    q, none = np.zeros(dimension), np.empty(0, np.int64)
    support = Support(none, np.empty(0), [], partial=True)
    w, value = regularizer.maximise(q)
    return Past(
        C, layout, [], FrozenPlane(0.0, q, 0.0), w, -value, support, none, none, np.empty(0)
    )


def moved(plane: FrozenPlane, problem: Problem, support: Support, sign: float) -> FrozenPlane:
    """Return the plane with some multipliers of a problem added (sign = 1) or removed (sign = -1)."""
    if not len(support.blocks):
        return plane
    b, v = problem.examples.combine(support.blocks, support.multipliers, support.outputs)
    return replace(plane, offset=plane.offset + sign * b, vector=plane.vector - sign * v)


def sort_out(
    usage: tuple[np.ndarray, ...], sizes: np.ndarray, most_bytes: float
) -> tuple[np.ndarray, ...]:
    """Keep as many examples as fit, the most useful first; return kept, frozen and all gone examples.

    The most useful examples have multipliers on several outputs: they are on the margin and will move. Next
    come examples with all of their mass on a wrong output, then all others. Ties go to the larger share of
    the gap, then to the newer example.
    """
    gaps, bytes_each, spread, on_others = usage
    number = np.arange(len(gaps))
    order = np.lexsort((number, gaps, on_others, spread > 1))[::-1]
    fits = np.cumsum((sizes + TWICE * bytes_each)[order]) <= most_bytes
    kept, gone = np.sort(order[fits]), np.sort(order[~fits])
    return kept, gone[on_others[gone] > 0], gone


def remember(
    past: Past,
    parts: list[Part],
    dual: DualState | BoxState,
    budget: float,
    file: PlaneFile | None = None,
) -> tuple[Past, np.ndarray, float]:
    """Decide what remains of the parts in memory after they are optimised.

    The parts hold the kept examples of `past` first, then new ones. Returns the later past, the blocks
    that it keeps, and sum mass_i g_i of the other blocks. The parts still hold the other examples:
    ``keep_only`` removes them once `past` is no longer needed. Frozen planes go to the file.
    """
    problem: Any = dual.problem
    w, usage = dual.weights(), dual.usage()
    sizes, gaps = np.concatenate([part.bytes_each for part in parts]), usage[0]
    kept, frozen, gone = sort_out(usage, sizes, KEPT * budget)
    stays, goes = dual.support(kept), dual.support(frozen)
    index = np.concatenate([part.index for part in parts])
    mass, output_sizes = problem.mass, problem.examples.output_sizes
    plane, records = moved(problem.frozen, problem, goes, 1.0), None
    whole = moved(plane, problem, stays, 1.0)
    if file is not None:
        places = file.write(renumbered(goes, frozen), len(frozen), output_sizes(goes.blocks))
        records = index[len(past.index) :], index[frozen], places
    later = replace(
        past,
        parts=parts,
        plane=replace(plane, mass=plane.mass + float(mass[gone].sum())),
        w=w,
        dual=whole.offset - problem.regularizer.conjugate(whole.vector),
        support=renumbered(stays, kept),
        sizes=output_sizes(stays.blocks),
        index=index[kept],
        gaps=gaps[kept],
        n_frozen=past.n_frozen + len(frozen),
        records=records,
    )
    return later, kept, float(mass[gone] @ gaps[gone])


def renumbered(support: Support, blocks: np.ndarray) -> Support:
    """Return the multipliers with each block numbered by its position in `blocks`."""
    return replace(support, blocks=np.searchsorted(blocks, support.blocks))


def joined_multipliers(first: Support, second: Support) -> Support:
    """Return the multipliers of two supports as one."""
    if not len(first.blocks) or not len(second.blocks):
        return second if len(second.blocks) else first
    a, b = first.outputs, second.outputs
    return Support(
        np.concatenate([first.blocks, second.blocks]),
        np.concatenate([first.multipliers, second.multipliers]),
        a + b if isinstance(a, list) else np.concatenate([a, b]),
        partial=True,
    )


class PartState(StreamState):
    """The state of a stream whose examples come and go: their past, and a file of frozen planes."""

    closed_calls: int
    closed_refused: int
    k: Any
    window: Any

    def __init__(
        self, problem: Any, solver: Streaming, cache: Any, tol: float, rng: Any, warm: Any
    ):
        super().__init__(solver.share * tol, cache=cache)
        self.problem: Any = problem
        self.budget: int = solver.cache_bytes
        self.rng: Any = rng
        layout, regularizer = problem.source.layout, problem.regularizer
        self.past: Past = empty_past(problem.C, layout, problem.dimension, regularizer)
        self.parts: list[Part] = []  # the parts in memory
        self.file: PlaneFile = PlaneFile(solver.scratch)
        self.precision: str = solver.precision
        self.counting: bool = True  # examples and masses are added up in the first pass
        self.left: float = 0.0  # sum of mass_i g_i of the examples that left in this pass
        if warm is not None:
            self.restore(warm)

    def windows(self, size: int | None) -> Iterator[Window]:
        self.left = 0.0
        self._adopt_records()
        if self.file.wasteful:
            self.file = self.file.compacted()
        waiting: list[Part] = []
        for part in self.problem.read(np.sort(self.past.index)):
            for piece in self._pieces(part, size or len(part.index)):
                if waiting:
                    yield self.admit(waiting, last=False)
                    self.close()
                waiting = [piece]
        yield self.admit(waiting)

    def _pieces(self, part: Part, most: int) -> Iterator[Part]:
        """Cut a part into pieces of at most `most` examples that fit beside the kept examples."""
        ends = np.cumsum(part.bytes_each)
        if len(ends) <= most and ends[-1] <= MOST_NEW * self.budget:
            yield part
        elif len(ends) == 1:
            raise ValueError(
                f"Streaming: cache_bytes = {self.budget} is too small: example "
                f"{int(part.index[0])} alone takes {int(ends[0])} bytes, and one example may take "
                "an eighth of the cache; raise cache_bytes"
            )
        else:
            count = min(most, max(1, len(ends) // 2))
            for some in (np.arange(count), np.arange(count, len(ends))):
                yield from self._pieces(part.select(some), most)

    def admit(self, new: list[Part], last: bool = True) -> Window:
        """Bind new examples together with the kept ones."""
        self._adopt_records()
        past, kept, parts = self.past, len(self.past.index), [*self.past.parts, *new]
        if self.passes == 0 and self.counting:
            for part in new:
                mass = past.mass + self.problem.C * float(part.weights.sum())
                past = replace(past, mass=mass, n_seen=past.n_seen + len(part.index))
        weights = np.concatenate([part.weights for part in parts])
        gone = past.mass - self.problem.C * float(weights.sum())
        plane = replace(past.plane, mass=gone)
        problem = self.problem.bind(parts, plane)
        # Examples that were seen before get their multipliers back from the file; these leave the plane.
        index = np.concatenate([part.index for part in new] or [past.index[:0]])
        blocks, multipliers, outputs = self.file.read(index)
        back = Support(blocks + kept, multipliers, outputs, partial=True)
        problem.frozen = moved(plane, problem, back, -1.0)
        inner = self._open(problem, joined_multipliers(past.support, back), past.gaps)
        self.past, self.parts = past, parts
        # The next examples are read before these are closed: both must fit.
        in_memory = sum(part.bytes_each.sum() for part in parts)
        budget = (1 - 1 / CHUNKS) * self.budget - in_memory
        inner.most_bytes = int(max(0, budget) / TWICE)
        new_blocks = np.arange(kept, problem.n_blocks)
        self.window = Window(problem, self.cache, inner, new_blocks, problem.active, last)
        return self.window

    def _open(self, problem: Problem, warm: Support, gaps: np.ndarray) -> ProximalState:
        """Open the dual state of a window with these multipliers."""
        known = warm if len(warm.blocks) else None
        inner = self.cache.open(
            problem, self.goal, self.rng, known, k=self.k, precision=self.precision
        )
        self.k, inner.k = inner.k, 0.0
        self.precision = "single" if inner.dual.single else "double"  # decided by the first window
        inner.dual.violations[:] = 0.0
        inner.dual.violations[: len(gaps)] = gaps
        return inner

    def close(self) -> None:
        """Close the window: decide which examples stay, and replace the past in one assignment."""
        if self.window is None:
            return
        inner = self.window.inner
        later, kept, left = remember(self.past, self.parts, inner.dual, self.budget, self.file)
        self.past, self.window = later, None
        self.left += left
        self.closed_calls += inner.dual.oracle_calls
        self.closed_refused += inner.refused
        self.closed_at: tuple[float, int] = self.past.dual, len(self.past.support.blocks)
        keep_only(self.parts, kept)

    def _adopt_records(self) -> None:
        """Register in the file what the last window has frozen; doing it twice does no harm."""
        if self.past.records is not None:
            met, frozen, places = self.past.records
            self.file.take(met)
            self.file.take(frozen, places)
            self.past = replace(self.past, records=None)

    def reopened(self) -> Window:
        return self.window or self.admit([])  # solution() may have closed it for a certificate

    def gap_of_all(self, gap: float, settled: bool) -> float:
        """The gap of all examples, in memory and gone, at the end of a pass; infinity before that.

        Infinity puts off an exact pass, after which the examples in memory would have to be bound again.
        """
        if not settled:
            return np.inf
        self.close()
        return gap + self.left / self.problem.total

    def solution(self) -> tuple[np.ndarray, Support]:
        """w, and all multipliers in the order of the examples."""
        self.close()
        self._adopt_records()
        past = self.past
        found = self.file.read_all(self.problem.n_blocks, past.index, past.support, past.sizes)
        self.problem.dual_found = past.dual
        return past.w, Support(*found, partial=True)

    def restore(self, warm: Support) -> None:
        """Start from these multipliers: write all of them to the file and add them to the plane."""
        plane, count, end, whole = self.past.plane, 0, 0, self.problem
        for index, problem, own in whole.numbered_parts(warm):
            own = own.clipped(problem.mass) if whole.summed else own.rescaled(problem.mass)
            count, end = count + len(own), int(index[-1]) + 1  # examples of weight 0 are left out
            examples: Any = problem.examples
            if examples.core is not None:
                known_outputs(problem, own)
            plane = moved(plane, problem, own, 1.0)
            sizes = examples.output_sizes(own.blocks)
            self.file.take(index, self.file.write(own, len(index), sizes))
        last = int(warm.blocks.max()) + 1 if len(warm) else 0
        if count != len(warm) or (not warm.partial and last != end):
            raise ValueError(
                f"warm_start: the last fit had {last} examples, this one has {whole.n_blocks}; "
                "set warm_start=False, or fit the same examples"
            )
        w, value = whole.regularizer.maximise(plane.vector)
        dual, n, mass = plane.offset - value, whole.n_blocks, whole.total
        self.past = replace(self.past, plane=plane, w=w, dual=dual, n_seen=n, mass=mass)
        self.counting = False


class StoredState(PartState):
    """A state over ``problem.whole`` while that is bound; afterwards examples come and go."""

    k: Any
    closed_calls: int
    closed_refused: int

    def __init__(
        self, problem: Any, solver: Streaming, cache: Any, tol: float, rng: Any, warm: Any
    ):
        super().__init__(problem, solver, cache, tol, rng, None)
        source, budget = problem.source, solver.cache_bytes + problem.spared
        whole = problem.bind_all()
        inner = self.cache.open(whole, self.goal, rng, warm, lean=True)
        self.k, inner.most_bytes = inner.k, (budget - source.bound_bytes) // TWICE
        share = STRETCH * budget / max(1.0, source.row_bytes * int(source.X.firsts[-1]))
        inner.stretch = max(1, int(share * source.n))
        inner.dual.violations[:] = 0.0
        found = np.bincount([] if warm is None else warm.blocks)
        self.window = Window(whole, self.cache, inner, whole.active, np.flatnonzero(found > 1))
        if inner.dual.core.bytes_kept > inner.most_bytes:
            self._leave(warm)

    @property
    def bound(self) -> bool:
        """Whether the outputs of all examples are in memory."""
        return self.problem.whole is not None

    def _leave(self, support: Support) -> None:
        """Write all multipliers to the file, and go on with examples that come and go."""
        inner = self.window.inner
        self.closed_calls += inner.dual.oracle_calls
        self.closed_refused += inner.refused
        self.window: Any = None
        self.problem.release()
        self.restore(support)
        self.closed_at: tuple[float, int] = self.past.dual, len(support)

    def is_full(self) -> bool:
        if not self.bound:
            return super().is_full()
        warn_of_parts(self.budget, 2 * self.budget)
        self._leave(StreamState.solution(self)[1])
        return False

    def windows(self, size: int | None) -> Iterator[Window]:
        return StreamState.windows(self, size) if self.bound else super().windows(size)

    def gap_of_all(self, gap: float, settled: bool) -> float:
        return gap if self.bound else super().gap_of_all(gap, settled)

    def solution(self) -> tuple[np.ndarray, Support]:
        if not self.bound:
            return super().solution()
        self.problem.dual_found = self.window.inner.dual.dual()
        return StreamState.solution(self)
