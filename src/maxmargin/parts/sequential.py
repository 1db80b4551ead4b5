"""Parts one after the other: the problem of examples that are never in memory all at once, and its state.

    P(w) = R(w) + sum over parts of sum_i mass_i xi_i(w)
    D(a) = (sum over parts of b) - R*(sum over parts of q),   b = sum a Delta,   q = - sum a psi

Examples that no multiplier of the support names have all of their mass on the true output. What is left of
those that are no longer in memory, ``parts.past`` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from maxmargin.data.scratch import RUN, PlaneFile, ranges
from maxmargin.models.protocol import Model
from maxmargin.parts.layout import Part, keep
from maxmargin.parts.past import TWICE, empty_past, joined, moved, remember
from maxmargin.parts.source import NOTHING, Settings, bind, regularizer_of
from maxmargin.problem import Problem, Support
from maxmargin.problem.plane import FrozenPlane
from maxmargin.solvers.dual_state import known_outputs
from maxmargin.solvers.proximal import Proximal, ProximalState
from maxmargin.solvers.streaming import CHUNKS, Streaming, StreamState, Window

MOST_NEW = 0.125  # of the budget, for one example, or for the new ones together


class StreamedProblem(Problem):
    """A model on a source of examples."""

    # Of its weights, as of those of examples in memory.
    metric: Any = staticmethod(np.asarray)
    kernelised = False

    def __init__(self, model: Any, source: Any, C: float, settings: Settings):
        self.model, self.source, self.settings = model, source, settings
        self.C, self.dimension = float(C), int(model.size_joint_feature)
        self.regularizer = regularizer_of(settings, self)
        self.formulation, self.n_jobs = settings.formulation, settings.n_jobs
        self.summed = False
        self.examples: Any = None  # not in memory
        self.frozen = self.files = None
        self.checked = not isinstance(model, Model)
        self.exact = self.bounded = True  # of the parts that were bound so far
        self.dual_found = -np.inf  # by the solver, for its last solution
        self._count()

    def _count(self) -> None:
        """How many examples there are, and their mass; of an iterable, of those that were read."""
        self.n_blocks, self.total = self.source.n, self.C * self.source.weight

    def read(self, known: np.ndarray) -> Iterator[Part]:
        """The examples except the known ones, a part of the budget at a time."""
        for part in self.source.parts(known, self.settings.solver.cache_bytes / CHUNKS):
            self._count()
            yield part
        self._count()

    def bind(self, parts: list[Part], frozen: FrozenPlane | None = None) -> Problem:
        """The problem of some parts; above the plane of the others, where that is given."""
        problem = bind(self.model, parts, self.C, self.settings, frozen, self.regularizer)
        self.exact, self.bounded = self.exact & problem.exact, self.bounded & problem.bounded
        return problem

    def walk(self, support: Support) -> Iterator[tuple[Problem, Support]]:
        """All examples in parts, and the multipliers of each."""
        return ((problem, own) for _, problem, own in self.numbered_parts(support))

    def numbered_parts(self, support: Support) -> Iterator[tuple[np.ndarray, Problem, Support]]:
        """The same, with the numbers of the examples."""
        support, first = self._in_order(support), 0
        for part in self.read(NOTHING):
            problem, index = self.bind([part]), part.index
            a, b = np.searchsorted(support.blocks, [index[0], index[-1] + 1])
            own = np.searchsorted(index, support.blocks[a:b]).astype(np.int64)
            outputs = support.outputs
            if isinstance(outputs, list):
                outputs = outputs[a:b]
            else:
                last = first + int(problem.examples.output_sizes(own).sum())
                outputs, first = np.array(outputs[first:last]), last
            multipliers = np.array(support.multipliers[a:b])
            yield index, problem, Support(own, multipliers, outputs, partial=True)

    def _in_order(self, support: Support) -> Support:
        """The multipliers in the order of their examples; they may be in a file, and are read in runs."""
        blocks, outputs = support.blocks, support.outputs
        runs = (blocks[first : first + RUN + 1] for first in range(0, len(blocks), RUN))
        if all(bool((np.diff(run) >= 0).all()) for run in runs):
            return support
        order = np.argsort(blocks, kind="stable")
        sizes = self.source.lengths(blocks)
        firsts = np.cumsum(sizes) - sizes
        outputs = outputs[ranges(firsts[order], sizes[order])]
        return Support(blocks[order], support.multipliers[order], outputs, support.partial)

    def try_oracle(self) -> int:
        return 0  # no examples are in memory

    def check_ceilings(self, w: np.ndarray, ceilings: np.ndarray) -> None:
        """Checks the first part alone, to which these ceilings belong."""
        self.bind([next(self.read(NOTHING))]).check_ceilings(w, ceilings)

    def objective(
        self, w: np.ndarray, slacks: np.ndarray | None = None, start: float | None = None
    ) -> float:
        """P(w) by definition, part by part."""
        value = self.regularizer.value(np.asarray(w)) if start is None else start
        for part in self.read(NOTHING):
            value = self.bind([part]).objective(w, None, value)
        return value

    def dual_objective(self, support: Support) -> float:
        """D(a) as the solver found it: the source may be gone by now."""
        return self.dual_found

    def first_part(self) -> Problem | None:
        """The problem of the first examples; None where they have no weight."""
        part = self.source.some(self.settings.solver.cache_bytes / CHUNKS)
        return None if part is None else self.bind([part])

    def open_stream(self, solver: Streaming, *args: Any) -> StreamState:
        """The state before the first pass: see ``Streaming.start``."""
        if solver.keeps == "outputs":
            raise ValueError('Streaming: keeps="outputs" is for data in shards, read in place')
        return PartState(self, solver, *args)


class PartState(StreamState):
    """The state of a stream whose examples come and go: what is left of them, and a file of frozen planes."""

    def __init__(self, problem: Any, solver: Streaming, tol: float, rng: Any, warm: Any):
        super().__init__(Proximal(precision=solver.precision), solver.share * tol)
        self.problem, self.budget, self.rng = problem, solver.cache_bytes, rng
        layout, regularizer = problem.source.layout, problem.regularizer
        self.past = empty_past(problem.C, layout, problem.dimension, regularizer)
        self.parts: list[Part] = []  # in memory
        self.file = PlaneFile(solver.scratch)
        self.precision = solver.precision
        self.counting = True  # examples and masses are added up in the first pass
        self.left = 0.0  # sum of mass_i g_i of those that went in this pass
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
                waiting = [piece]
        yield self.admit(waiting)

    def _pieces(self, part: Part, most: int) -> Iterator[Part]:
        """A part in pieces of at most this many examples that fit beside the kept ones."""
        ends = np.cumsum(part.bytes_each)
        if len(ends) <= most and ends[-1] <= MOST_NEW * self.budget:
            yield part
        elif len(ends) == 1:
            raise ValueError(
                f"Streaming: cache_bytes = {self.budget} is too small: example {int(part.index[0])} "
                f"alone takes {int(ends[0])} bytes, and may take an eighth of it"
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
        # Those that were met before get their multipliers back, which leave the plane.
        index = np.concatenate([part.index for part in new] or [past.index[:0]])
        blocks, multipliers, outputs = self.file.read(index)
        back = Support(blocks + kept, multipliers, outputs, partial=True)
        problem.frozen = moved(plane, problem, back, -1.0)
        inner = self._open(problem, joined(past.support, back), past.gaps)
        self.past, self.parts = past, parts
        # The next examples are read while these are optimised.
        held = sum(part.bytes_each.sum() for part in parts)
        budget = (1 - 1 / CHUNKS) * self.budget - held
        inner.most_bytes = int(max(0, budget) / TWICE)
        new_blocks = np.arange(kept, problem.n_blocks)
        self.window = Window(problem, inner, new_blocks, problem.active, last)
        return self.window

    def _open(self, problem: Problem, warm: Support, gaps: np.ndarray) -> ProximalState:
        """The dual state of a window, with these multipliers."""
        known = warm if len(warm.blocks) else None
        inner = self.proximal.open(
            problem, self.goal, self.rng, known, k=self.k, precision=self.precision
        )
        self.k, inner.k = inner.k, 0.0
        self.precision = "single" if inner.dual.single else "double"  # decided by the first window
        inner.dual.violations[:] = 0.0
        inner.dual.violations[: len(gaps)] = gaps
        return inner

    def close(self) -> None:
        """Decide what is kept of the window, and take it over in one assignment."""
        if self.window is None:
            return
        inner = self.window.inner
        later, kept, left = remember(self.past, self.parts, inner.dual, self.budget, self.file)
        self.past, self.window = later, None
        self.left += left
        self.closed_calls += inner.dual.oracle_calls
        self.closed_refused += inner.refused
        self.closed_at = self.past.dual, len(self.past.support.blocks)
        keep(self.parts, kept)

    def _adopt_records(self) -> None:
        """Let the file know what the last window has frozen; doing it twice does no harm."""
        if self.past.records is not None:
            met, frozen, places = self.past.records
            self.file.take(met)
            self.file.take(frozen, places)
            self.past = replace(self.past, records=None)

    def reopened(self) -> Window:
        return self.window or self.admit([])  # a certificate may have closed it

    def gap_of_all(self, gap: float, settled: bool) -> float:
        """Of those in memory and of those that went, at the end of a pass.

        Before that an exact pass would come too soon: the examples in memory would have to be bound again.
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
        """Start from these multipliers: all of them go to the file, and their part to the plane."""
        plane, count, end, whole = self.past.plane, 0, 0, self.problem
        for index, problem, own in whole.numbered_parts(warm):
            own = own.rescaled(problem.mass)
            count, end = count + len(own), int(index[-1]) + 1  # those without a weight are left out
            examples: Any = problem.examples
            if examples.core is not None:
                known_outputs(problem, own)
            plane = moved(plane, problem, own, 1.0)
            sizes = examples.output_sizes(own.blocks)
            self.file.take(index, self.file.write(own, len(index), sizes))
        last = int(warm.blocks.max()) + 1 if len(warm) else 0
        if count != len(warm) or (not warm.partial and last != end):
            raise ValueError(
                f"warm_start: the last fit had {last} examples, now there are {whole.n_blocks}; set "
                "warm_start=False or fit the same examples"
            )
        w, n, mass = whole.regularizer.law(plane.vector), whole.n_blocks, whole.total
        dual = plane.offset - whole.regularizer.conjugate(plane.vector)
        self.past = replace(self.past, plane=plane, w=w, dual=dual, n_seen=n, mass=mass)
        self.counting = False
