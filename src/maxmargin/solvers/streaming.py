"""Streaming: online dual ascent with a cache that the gap drives (Ramanan, Algorithm 2).

    for every chunk of examples, in their order                                         lines 3-4
      explore:  u = argmax_y s_i(y);  UB += mass_i g_i;  keep u, make a step            lines 5-10
      while (UB - LB) / mass seen > tol:  optimise the cache, as far as it is paid for  lines 11-12
      what has no multiplier leaves the cache                                           line 13

g_i = s_i(u) - sum_y a_i(y) s_i(y) / mass_i is the block's share of UB - LB, the gap of the problem of the
cache. LB = D(a) bounds the optimum of the whole problem; UB does not, until an exact pass has been made.

The cache holds examples with their outputs. To optimise it is to solve the problem of the examples in it
from where it stands, by rounds of ``solvers.Proximal``: the oracle is asked again for cached examples. The
paper solves the cache to tol after every example, which costs a multiple of the data. Here an explored
example pays for `revisits` visits to the cache, and all that is left is done at the end of the pass.

Where the examples are at hand anyway, in arrays, the cache holds outputs alone (``WholeState``). Where they
stay on a disk or come from an iterable, those in the cache are copied into memory, and the multipliers of
those that find no room go to a file (``StreamState``, ``solvers.window``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from maxmargin.problem import Problem, Support
from maxmargin.problem.streamed import StreamedProblem
from maxmargin.solvers.base import Solver, StepReport, option
from maxmargin.solvers.dual_state import PRECISIONS
from maxmargin.solvers.proximal import Proximal, ProximalState
from maxmargin.solvers.stream_state import CHUNKS, StreamState, open_stream

FORGET = 0.75  # pruning goes down to this part of the budget, so that it is rare
LITTLE = 0.1  # a block with less than this part of the wanted gap has nothing to gain
STALLED = 0.99  # of the estimate of the pass before: no progress with a full cache
FEWEST = 100  # examples of a chunk, unless it is told


@dataclass(frozen=True)
class Streaming(Solver):
    """Algorithm 2: explore the next examples, or optimise the cache, as the running gap says.

    Parameters
    ----------
    cache_bytes : int
        Budget of the cache: outputs and multipliers, and for data on a disk or from an iterable the
        examples with all that is kept of them.
    passes : int or None
        Passes over the data; None: until the gap is proven to be at most tol.
    chunk : int or None
        Examples explored before the running gap is looked at; None: a sixteenth of the examples, or of what
        the budget holds.
    revisits : float
        Visits to cached blocks that an explored example pays for.
    rounds : int
        At most so many rounds of optimisation after a chunk, and at the end of a pass; 0: none, the plain
        online ascent.
    share : float
        Optimisation ends when the gap of the cache is at most this part of tol.
    verify : bool
        One exact pass at the end, for a certificate; without, the gap is the running estimate.
    precision : "auto", "single" or "double"
        Of w while it is updated; multipliers and certificates are always double.
    scratch : path or None
        Folder of the unnamed files for what does not fit the cache; None: that of temporary files.
    """

    name: ClassVar[str] = "streaming"
    honours: ClassVar[tuple[str, ...]] = ()
    pairwise_optimum: ClassVar[bool] = False
    cache_bytes: int = 64 * 2**20
    passes: int | None = 1
    chunk: int | None = None
    revisits: float = 5
    rounds: int = 100
    share: float = 0.5
    verify: bool = True
    precision: str = "auto"
    scratch: Any = None

    def __post_init__(self) -> None:
        option(
            "Streaming", "cache_bytes", self.cache_bytes, test=lambda x: x >= 1, says="at least 1"
        )
        for name in ("rounds", "revisits"):
            option("Streaming", name, getattr(self, name), test=lambda x: x >= 0, says="0 or more")
        for name in ("passes", "chunk"):
            value = getattr(self, name)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if value is not None and (not whole or value < 1):
                raise ValueError(
                    f"Streaming: {name} must be None or a whole number of at least 1, got {value!r}"
                )
        option("Streaming", "share", self.share, test=lambda x: 0 < x <= 1, says="in (0, 1]")
        option("Streaming", "verify", self.verify, (True, False))
        option("Streaming", "precision", self.precision, PRECISIONS)
        if self.passes is None and not self.verify:
            raise ValueError("Streaming: passes=None ends with a certificate: it needs verify=True")

    @property
    def verifies(self) -> bool:
        return self.verify

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> StreamState | WholeState:
        proximal = Proximal(precision=self.precision)
        if isinstance(problem, StreamedProblem):
            return open_stream(problem, proximal, self, tol, rng, warm)
        inner = proximal.open(problem, self.share * tol, rng, warm, self._lean(problem))
        if inner.dual.core.bytes_kept > self.cache_bytes:
            raise ValueError(
                f"Streaming: cache_bytes = {self.cache_bytes}, but the multipliers of the warm start "
                f"take {inner.dual.core.bytes_kept} bytes"
            )
        inner.most_bytes = self.cache_bytes
        inner.dual.violations[:] = 0.0
        state = WholeState(proximal, inner, self.share * tol, inner.k)
        state.cached = np.zeros(problem.n_blocks, dtype=bool)
        if warm is not None:
            state.cached |= np.bincount(warm.blocks, minlength=problem.n_blocks) > 1
        return state

    def _lean(self, problem: Problem) -> bool:
        """Whether tables of inner products would take more than the budget."""
        return problem.examples.table_bytes() > self.cache_bytes

    def step(self, problem: Problem, state: Any) -> StepReport:
        """Explore all examples once; the steps after that are rounds that end the pass."""
        calls = state.oracle_calls
        if state.rounds_left is None:
            state.rounds_left, state.refused_before = self.rounds, state.inner_refused
            gap = (
                self._explore_stream(state) if state.moves else self._explore_whole(problem, state)
            )
        else:
            gap = self._settle(problem, state)
        settled = gap <= state.goal or state.rounds_left == 0
        # Before that an exact pass comes too soon: examples at hand would have to be bound anew for it.
        estimate, ended = (np.inf if state.moves else gap), ""
        if settled:
            estimate = state.finish(gap)
            ended = self._end(state, estimate, state.inner_refused - state.refused_before)
        calls = state.oracle_calls - calls
        return StepReport(calls, estimate, state.dual_value(), state.n_planes, ended=ended)

    def _explore_whole(self, problem: Problem, state: WholeState) -> float:
        """A pass over examples that are at hand."""
        size = self.chunk or max(FEWEST, -(-len(problem.active) // CHUNKS))
        parts = list(chunks(problem.active, size))
        if state.inner.dual.core.proximity > 0:  # of the pass before
            state.inner.dual.core.recenter(0.0, 0.0)
        for number, blocks in enumerate(parts, 1):
            self.explore(problem, state.inner, blocks)
            state.cached[blocks] = True
            state.credit += self.revisits * len(blocks)
            if number < len(parts):
                self.optimise(problem, state, state.inner, np.flatnonzero(state.cached))
        return state.proximal.gap(problem, state.inner)

    def _explore_stream(self, state: StreamState) -> float:
        """A pass over examples that come and go; the last of them stay at hand."""
        for chunk, last in state.chunks(self.chunk):
            window = state.admit(chunk)
            self.explore(window.problem, window.inner, window.new)
            state.credit += self.revisits * len(window.new)
            if not last:
                self.optimise(window.problem, state, window.inner, window.problem.active)
                state.close()
        return state.proximal.gap(window.problem, window.inner)

    def _settle(self, problem: Problem, state: Any) -> float:
        """One more round over the cache, with the proximal term."""
        problem, inner, blocks = state.at_hand(problem)
        # It pays in the long run only: on the way it would cost D(a).
        inner.k = state.k
        gap = self._round(problem, state, inner, blocks)
        state.k, state.rounds_left = inner.k, state.rounds_left - 1
        return gap

    def explore(self, problem: Problem, inner: ProximalState, blocks: np.ndarray) -> None:
        """Ask the oracle for some blocks in their order, make their steps, and keep what it found."""
        visit = inner.dual.visit(
            blocks, tolerance=LITTLE * inner.dual.tol, threads=problem.n_jobs, room=inner.room
        )
        inner.refused += visit.refused
        self._make_room(inner, visit.refused)

    def optimise(
        self, problem: Problem, state: Any, inner: ProximalState, blocks: np.ndarray
    ) -> None:
        """Rounds over cached blocks while the gap is large, as far as they are paid for."""
        gap, goal = state.proximal.gap(problem, inner), state.goal / self.share
        inner.k = 0.0
        for _ in range(self.rounds):
            due = int((inner.rest[blocks] == 0).sum())
            if gap <= goal or due > state.credit:
                break
            goal = state.goal
            state.credit -= due
            gap = self._round(problem, state, inner, blocks)

    def _round(
        self, problem: Problem, state: Any, inner: ProximalState, blocks: np.ndarray
    ) -> float:
        """One round; returns the gap."""
        refused = inner.refused
        gap = state.proximal.round(problem, inner, blocks)
        self._make_room(inner, inner.refused - refused)
        return gap

    def _make_room(self, inner: ProximalState, refused: int) -> None:
        """Forget outputs without a multiplier where room is scarce."""
        held = inner.dual.core.bytes_kept
        if held > FORGET * inner.most_bytes and (refused > 0 or held > 0.9 * inner.most_bytes):
            inner.dual.core.prune(int(FORGET * inner.most_bytes))

    def _end(self, state: Any, estimate: float, refused: int) -> str:
        """Why no further pass should be made, or nothing."""
        stalled = refused > 0 and estimate > STALLED * state.estimate
        state.estimate = estimate
        if stalled:
            return "cache full"
        return "passes made" if state.passes == self.passes else ""

    def solution(self, problem: Problem, state: Any) -> tuple[np.ndarray, Support]:
        return state.solution()

    def learn(self, problem: Problem, state: Any, slacks: np.ndarray) -> None:
        state.learn()


@dataclass
class WholeState:
    """The dual state of all examples, which of them were explored (all of these are cached), and the gap."""

    proximal: Proximal
    inner: ProximalState
    goal: float  # the gap of the cache to be reached
    k: float  # of the proximal term
    credit: float = 0.0  # visits to cached blocks that are paid for
    passes: int = 0
    rounds_left: int | None = None  # of the end of a pass; None while examples are explored
    refused_before: int = 0  # outputs that had found no room when the pass began
    estimate: float = np.inf  # of the gap, after the last pass
    cached: np.ndarray = field(default_factory=lambda: np.empty(0, bool))

    moves: ClassVar[bool] = False  # examples come and go

    def at_hand(self, problem: Problem) -> tuple[Problem, ProximalState, np.ndarray]:
        """What a round is made over."""
        return problem, self.inner, np.flatnonzero(self.cached)

    def finish(self, gap: float) -> float:
        """End a pass; returns the estimate of the gap of all."""
        self.passes, self.rounds_left = self.passes + 1, None
        return gap

    @property
    def inner_refused(self) -> int:
        """Outputs that found no room so far."""
        return self.inner.refused

    @property
    def oracle_calls(self) -> int:
        """So far."""
        return self.inner.dual.oracle_calls

    @property
    def n_planes(self) -> int:
        """Outputs kept."""
        return self.inner.dual.n_planes

    def dual_value(self) -> float:
        """D(a) by the running w."""
        return self.inner.dual.dual()

    def solution(self) -> tuple[np.ndarray, Support]:
        """w and the multipliers."""
        return self.inner.dual.weights(), self.inner.dual.support()

    def learn(self) -> None:
        """A smaller gap of the cache was needed."""
        self.inner.dual.refresh()
        self.inner.rest[:] = 0
        self.inner.fine *= 0.5
        self.goal *= 0.5


def chunks(blocks: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Blocks in their order, so many at a time."""
    return (blocks[first : first + size] for first in range(0, len(blocks), size))
