"""The state of a stream: examples in memory, the window on them, and the file of what is frozen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.data.scratch import PlaneFile, ranges
from maxmargin.data.source import Chunk
from maxmargin.data.store import Store, bytes_of
from maxmargin.problem import Past, Problem, Support
from maxmargin.problem.streamed import StreamedProblem, SupportReader, ascending, plane_of
from maxmargin.solvers.proximal import Proximal, ProximalState
from maxmargin.solvers.window import (
    KEPT,
    TWICE,
    Memory,
    blobs_of,
    empty_memory,
    file_frozen,
    forgotten,
    joined_support,
    remember,
    support_in,
    whole_support,
)

CHUNKS = 16  # new examples take this part of the budget
LARGEST = 0.125  # of the budget, for one example, or for the new ones together


@dataclass
class Window:
    """The problem of the examples in memory: kept ones first, then new ones."""

    problem: Problem
    inner: ProximalState
    index: np.ndarray  # of all examples here, in the stream
    n_kept: int
    sizes: np.ndarray  # bytes of each, without planes

    @property
    def new(self) -> np.ndarray:
        """Blocks that were not in memory before."""
        return np.arange(self.n_kept, self.problem.n_blocks)


class StreamState:
    """Examples in memory, those that are gone, and the running gap."""

    moves = True  # examples come and go

    def __init__(
        self, problem: StreamedProblem, proximal: Proximal, options: Any, tol: float, rng: Any
    ):
        self.problem, self.proximal, self.rng = problem, proximal, rng
        self.cache_bytes, self.scratch = options.cache_bytes, options.scratch
        self.goal = options.share * tol
        self.store: Store = problem.source.store()
        self.file = PlaneFile(self.scratch)
        self.dtype: Any = None  # of an output's entries, for compiled models
        self.memory: Memory = empty_memory(problem.dimension)
        self.window: Window | None = None
        self.credit, self.left, self.estimate = 0.0, 0.0, np.inf
        self.k: float | None = None  # of the proximal term, once it is known
        self.passes = self.closed_calls = self.closed_refused = self.refused_before = 0
        self.rounds_left: int | None = (
            None  # of the end of a pass; None while examples are explored
        )
        self.counted = True  # masses of examples are added up in the first pass

    @property
    def n_planes(self) -> int:
        """Outputs kept in memory."""
        window = self.window
        return len(self.memory.support) if window is None else window.inner.dual.n_planes

    @property
    def oracle_calls(self) -> int:
        """So far."""
        return self.closed_calls + (
            0 if self.window is None else self.window.inner.dual.oracle_calls
        )

    @property
    def inner_refused(self) -> int:
        """Outputs that found no room so far."""
        return self.closed_refused + (0 if self.window is None else self.window.inner.refused)

    def dual_value(self) -> float:
        """D(a), by the running w or as the last window left it."""
        return self.memory.dual if self.window is None else self.window.inner.dual.dual()

    def at_hand(self, problem: Problem) -> tuple[Problem, ProximalState, np.ndarray]:
        """What a round is made over; a certificate may have closed the window."""
        window = self.admit(None) if self.window is None else self.window
        return window.problem, window.inner, window.problem.active

    def finish(self, gap: float) -> float:
        """End a pass; returns the estimate of the gap of all: of those at hand, and of those that went."""
        self.close()
        self.passes, self.rounds_left = self.passes + 1, None
        return gap + self.left / self.problem.total

    def chunks(self, most: int | None) -> Iterator[tuple[Chunk | None, bool]]:
        """The examples that are not in memory, and whether they are the last of the pass.

        None where all are in memory.
        """
        self.left = 0.0
        self._adopt_records()
        if self.file.wasteful:
            self.file = self.file.compacted()
        known = np.sort(self.memory.index)
        waiting = None
        for chunk in self.problem.source.chunks(self.store, known, self.cache_bytes / CHUNKS):
            for piece in self._pieces(chunk, most or len(chunk.index)):
                if waiting is not None:
                    yield waiting, False
                waiting = piece
        yield waiting, True

    def _pieces(self, chunk: Chunk, most: int) -> Iterator[Chunk]:
        """A chunk in parts of at most so many examples that fit beside the kept ones."""
        ends = np.cumsum(bytes_of(chunk.part))
        if len(ends) <= most and ends[-1] <= LARGEST * self.cache_bytes:
            yield chunk
        elif len(ends) == 1:
            raise ValueError(
                f"Streaming: cache_bytes = {self.cache_bytes} is too small: example {int(chunk.index[0])} "
                f"alone takes {int(ends[0])} bytes, and may take an eighth of it"
            )
        else:
            count = min(most, max(1, len(ends) // 2))
            for some in (np.arange(count), np.arange(count, len(ends))):
                part = self.store.selected(chunk.part, some)
                yield from self._pieces(Chunk(chunk.index[some], part, chunk.weights[some]), most)

    def admit(self, chunk: Chunk | None) -> Window:
        """Bind the examples of a chunk together with the kept ones."""
        memory = self.memory
        self._adopt_records()
        index, weights = memory.index, memory.weights
        if chunk is not None:
            self.store.parts.append(chunk.part)
            index = np.concatenate([index, chunk.index])
            weights = np.concatenate([weights, chunk.weights])
            if self.passes == 0 and self.counted:
                seen = memory.seen + self.problem.C * float(chunk.weights.sum())
                memory = replace(memory, seen=seen, n_seen=memory.n_seen + len(chunk.index))
        mass = self.problem.C * float(weights.sum())
        problem = self.problem.bind(
            self.store, weights, replace(memory.past, mass=memory.seen - mass)
        )
        fresh = support_in(self.file.read(index[len(memory.index) :]), self.dtype)
        warm = joined_support(memory.support, fresh, len(memory.index))
        problem.past = self._without(problem, fresh, len(memory.index))
        sizes = self.store.bytes_each()
        self.window = Window(
            problem, self._open(problem, warm, memory), index, len(memory.index), sizes
        )
        self.memory = memory
        # The next chunk is read while this one is optimised.
        room = (1 - 1 / CHUNKS) * self.cache_bytes - sizes.sum()
        self.window.inner.most_bytes = int(max(0, room) / TWICE)
        return self.window

    def _without(self, problem: Problem, fresh: Support, first: int) -> Past:
        """The plane of those that are gone, without the part of those that came back."""
        past: Past = problem.past
        if not len(fresh):
            return past
        b, v = plane_of(problem, replace(fresh, blocks=fresh.blocks + first))
        return replace(past, offset=past.offset - b, vector=past.vector + v)

    def _open(self, problem: Problem, warm: Support, memory: Memory) -> ProximalState:
        """The dual state of a window, where its multipliers stand."""
        inner = self.proximal.open(
            problem, self.goal, self.rng, warm if len(warm) else None, k=self.k
        )
        self.k, inner.k = inner.k, 0.0
        if self.proximal.precision == "auto":  # asked once
            single = "single" if inner.dual.single else "double"
            self.proximal = replace(self.proximal, precision=single)
        if problem.examples.core is not None:
            self.dtype = inner.dual.core.support()[2].dtype if self.dtype is None else self.dtype
        inner.dual.violations[:] = 0.0
        inner.dual.violations[: len(memory.gaps)] = memory.gaps
        return inner

    def close(self) -> None:
        """Decide what is kept of the window, and take it over in one assignment."""
        if self.window is None:
            return
        window, dual = self.window, self.window.inner.dual
        later, sorting, frozen = remember(
            self.memory, dual, window.index, window.sizes, KEPT * self.cache_bytes
        )
        fresh = window.index[window.n_kept :]
        records = file_frozen(
            self.file,
            fresh[self.file.counts(fresh) > 0],
            window.index[sorting.frozen],
            frozen,
            window.problem.examples.output_sizes(sorting.frozen[frozen.blocks]),
        )
        self.left += float(
            window.problem.mass[sorting.gone] @ dual.known_violations()[sorting.gone]
        )
        self.memory = replace(later, records=records)
        self.window = None
        self.closed_calls += dual.oracle_calls
        self.closed_refused += window.inner.refused
        forgotten(self.store, sorting.kept)

    def _adopt_records(self) -> None:
        """Let the file know what the last window has frozen; doing it twice does no harm."""
        if self.memory.records is not None:
            self.file.take(*self.memory.records)
            self.memory = replace(self.memory, records=None)

    def solution(self) -> tuple[np.ndarray, Support]:
        """w, and all multipliers in the order of the examples."""
        self.close()
        self._adopt_records()
        found = whole_support(self.file, self.memory, self.problem.n_blocks, self.dtype)
        return self.memory.w, found

    def learn(self) -> None:
        """A smaller gap of the cache was needed."""
        self.goal *= 0.5

    def restore(self, warm: Support) -> None:
        """Start from these multipliers: all of them go to the file, and their part to the plane."""
        reader = SupportReader(in_order(warm, self.problem))
        offset, vector, count = 0.0, np.zeros(self.problem.dimension), 0
        for chunk, problem in self.problem.parts():
            own = reader.of(chunk.index, problem.examples).rescaled(problem.mass)
            count += len(own)
            own = self._known(own, problem)
            b, v = plane_of(problem, own)
            offset, vector = offset + b, vector - v
            sizes = problem.examples.output_sizes(own.blocks)
            counts = np.bincount(own.blocks, minlength=problem.n_blocks)
            places = self.file.write(counts, own.multipliers, blobs_of(own.outputs, sizes))
            self.file.take(chunk.index, places)
        last = int(warm.blocks.max()) + 1 if len(warm) else 0
        if count != len(warm) or (not warm.partial and last != self.problem.n_blocks):
            raise ValueError(
                f"warm_start: the last fit had {last} examples, now there are {self.problem.n_blocks}; set "
                "warm_start=False or fit the same examples"
            )
        total = self.problem.total
        self.memory = replace(
            self.memory,
            past=Past(offset, vector, total),
            w=vector,
            dual=offset - self.problem.regularizer.conjugate(vector),
            n_seen=self.problem.n_blocks,
            seen=total,
        )
        self.counted = False

    def _known(self, own: Support, problem: Problem) -> Support:
        """Multipliers whose outputs are those of this model, as its core keeps them."""
        examples: Any = problem.examples
        if examples.core is None:
            return own
        if not examples.knows(own.outputs, own.blocks):
            raise ValueError("warm_start: the last fit had other labels; set warm_start=False")
        if self.dtype is None:
            state = examples.core.ascent(problem.rescaling, False, problem.mass, True)
            self.dtype = state.support()[2].dtype
        return replace(own, outputs=np.asarray(own.outputs, dtype=self.dtype))


def open_stream(
    problem: StreamedProblem,
    proximal: Proximal,
    options: Any,
    tol: float,
    rng: np.random.Generator,
    warm: Support | None,
) -> StreamState:
    """The state before the first pass."""
    state = StreamState(problem, proximal, options, tol, rng)
    if warm is not None:
        state.restore(warm)
    return state


def in_order(support: Support, problem: StreamedProblem) -> Support:
    """The multipliers in the order of their examples."""
    if ascending(support.blocks):
        return support
    order = np.argsort(support.blocks, kind="stable")
    if isinstance(support.outputs, list):
        outputs: Any = [support.outputs[k] for k in order]
    else:
        sizes = problem.source.output_sizes(support.blocks)
        ends = np.cumsum(sizes)
        outputs = support.outputs[ranges((ends - sizes)[order], sizes[order])]
    return replace(
        support,
        blocks=support.blocks[order],
        multipliers=support.multipliers[order],
        outputs=outputs,
    )
