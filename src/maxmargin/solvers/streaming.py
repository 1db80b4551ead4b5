"""Streaming: online dual ascent with a cache that the gap drives (Ramanan, Algorithm 2).

    for every chunk of examples, in their order                                         lines 3-4
      explore:  u = argmax_y s_i(y);  UB += mass_i g_i;  cache u, make a step           lines 5-10
      while (UB - LB) / mass seen > tol:  optimise the cache, as far as credit allows   lines 11-12
      drop outputs without multipliers from the cache                                   line 13

g_i = s_i(u) - sum_y a_i(y) s_i(y) / mass_i is the block's part of UB - LB, the gap of the cached
problem. LB = D(a) bounds the optimum of the whole problem. UB is a bound only after an exact pass.

The cache holds examples with their outputs. To optimise the cache is to solve the problem of its
examples from their current multipliers, by rounds of ``solvers.Proximal``. These rounds call the
oracle again for cached examples. The paper solves the cache to tol after every example, which costs
a multiple of the data. Here every explored example gives credit for `revisits` visits to the cache.
The rest is done at the end of the pass.

A pass is a sequence of windows. A window is the set of examples in memory, some of which are new.
If all examples are in memory anyway, in arrays, a window is a range of blocks and the cache holds
outputs alone (``StreamState``). If they stay on a disk or come from an iterable, the problem opens
the state: see ``parts.state``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from maxmargin.data.arrays import FLAG, among
from maxmargin.problem import Formulation, Problem, Status, Support, gap_between
from maxmargin.solvers.base import (
    AT_LEAST_1,
    NOT_NEGATIVE,
    SHARE,
    SOME_OR_NONE,
    Snapshot,
    Solver,
    StepReport,
    option,
)
from maxmargin.solvers.dual_state import PRECISIONS
from maxmargin.solvers.proximal import STRICT, Proximal, ProximalState
from maxmargin.solvers.summed_cache import SummedCache, kept_risk

# Chunks per pass over arrays; for other data, new examples take this part of the budget.
CHUNKS = 16
FORGET = 0.75  # pruning goes down to this part of the budget, so that it is rare
LITTLE = 0.1  # fraction of the goal: blocks with a smaller g_i are skipped
STALLED = 0.99  # with a full cache, a gap above this fraction of the last pass's gap is no progress
FEWEST = 100  # fewest examples of a chunk, unless it is given


@dataclass(frozen=True)
class Streaming(Solver):
    """Algorithm 2: explore the next examples, or optimise the cache, as the running gap says.

    Parameters
    ----------
    cache_bytes : int
        Budget of the cache. It counts outputs and multipliers and, for data on a disk or from an
        iterable, the examples with all that is stored for them. Vectors as long as w are not
        counted.
    passes : int or None
        Number of passes over the data; None: until the gap is proven to be at most tol.
    chunk : int or None
        Examples that are explored before the running gap is checked. None: a sixteenth of the
        examples, or of the examples that the budget holds.
    revisits : float
        Credit of an explored example: the visits to cached blocks that it allows.
    rounds : int
        Most rounds of optimisation after a chunk, and at the end of a pass. With 0 there are none:
        plain online ascent.
    share : float
        Optimisation ends when the gap of the cache is at most this fraction of tol.
    verify : bool
        Make an exact pass at the end, for a certificate; if False, the gap is the running estimate.
    precision : "auto", "single" or "double"
        Precision of w while it is updated; multipliers and certificates are always double.
    scratch : path or None
        Folder of the unnamed files for data that do not fit the cache; None: the folder of
        temporary files.
    keeps : "auto", "outputs" or "examples"
        Contents of the cache for data in shards. "outputs": the outputs and multipliers of all
        examples; features are read from the files at every visit. "examples": as many whole
        examples as fit, so that a pass reads the files once. "auto": "outputs" if they fit and
        passes is None.
    """

    name: ClassVar[str] = "streaming"
    in_parts: ClassVar[bool] = True
    formulations: ClassVar[tuple[Formulation, ...]] = (
        *Solver.formulations,
        *SummedCache.formulations,
    )
    pairwise_optimum: ClassVar[bool] = False
    cache_bytes: int = option(64 * 2**20, AT_LEAST_1)
    passes: int | None = option(1, SOME_OR_NONE)
    chunk: int | None = option(None, SOME_OR_NONE)
    revisits: float = option(5, NOT_NEGATIVE)
    rounds: int = option(100, NOT_NEGATIVE)
    share: float = option(0.5, SHARE)
    verify: bool = option(True, FLAG)
    precision: str = option("auto", among(*PRECISIONS))
    scratch: Any = None
    keeps: str = option("auto", among("auto", "outputs", "examples"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.passes is None and not self.verify:
            raise ValueError(
                "Streaming: passes=None needs verify=True, because it trains until a certificate "
                "proves tol"
            )

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> StreamState:
        cache: Any = SummedCache() if problem.summed else self.of_maximum
        if problem.open_stream is not None:
            return problem.open_stream(self, cache, tol, rng, warm)
        # Tables of inner products may need more than the budget.
        lean = problem.examples.table_bytes() > self.cache_bytes
        inner = cache.open(problem, self.share * tol, rng, warm, lean)
        if inner.dual.core.bytes_kept > self.cache_bytes:
            raise ValueError(
                f"Streaming: cache_bytes = {self.cache_bytes} is too small: the multipliers of "
                f"the warm start take {inner.dual.core.bytes_kept} bytes; raise cache_bytes, or "
                "set warm_start=False"
            )
        inner.most_bytes = self.cache_bytes
        inner.dual.violations[:] = 0.0
        found = np.bincount([] if warm is None else warm.blocks)  # number of outputs of each block
        window = Window(problem, cache, inner, problem.active, np.flatnonzero(found > 1))
        return StreamState(self.share * tol, inner.k, window, cache)

    @cached_property
    def of_maximum(self) -> MaximumCache:
        """The solver of the examples in memory, for hinge="max"."""
        return MaximumCache(precision=self.precision)

    def step(self, problem: Problem, state: StreamState) -> StepReport:
        """Explore all examples once; further steps are rounds over the cache until the pass ends."""
        calls = state.oracle_calls
        if state.rounds_left is None:
            state.rounds_left, state.refused_before = self.rounds, state.refused
            state.cache.begin_pass()
            gap = self._explore_all(state)
        else:
            gap = self._settle(state)
        settled = gap <= state.goal or state.rounds_left == 0
        estimate = state.gap_of_all(gap, settled)
        ended = self._end(problem, state, estimate) if settled else None
        return StepReport(state.oracle_calls - calls, estimate, *state.progress(), ended=ended)

    def _explore_all(self, state: StreamState) -> float:
        """Make a pass over the examples; leave the last window open and return its gap."""
        for window in state.windows(self.chunk):
            gap = self.explore(window)
            state.credit += self.revisits * len(window.new)
            if not window.last:
                self._optimise(state, window, gap)
        return gap

    def _settle(self, state: StreamState) -> float:
        """Make one more round over the cache, with the proximal term."""
        window = state.reopened()
        # The proximal term pays only over many rounds; in a pass over new examples it would lower D(a).
        window.inner.k = state.k
        gap = self._round(window)
        state.k, state.rounds_left = window.inner.k, state.rounds_left - 1  # type: ignore[operator]
        return gap

    def explore(self, window: Window) -> float:
        """Call the oracle for the new blocks in order, make their steps, and cache the outputs.

        Return the gap of the window as the visits saw it, in loss units.
        """
        inner, refused = window.inner, window.inner.refused
        little = LITTLE * inner.dual.tol
        gap = window.cache.explore(window.problem, inner, window.new, little)
        self._evict(inner, inner.refused - refused)
        return gap

    def _optimise(self, state: StreamState, window: Window, gap: float) -> None:
        """Make rounds over cached blocks while the gap is large and credit is left."""
        inner, goal = window.inner, state.goal / self.share
        inner.k = 0.0
        for _ in range(self.rounds):
            due = int((inner.rest[window.cached] == 0).sum())
            if gap <= goal or due > state.credit:
                break
            goal = state.goal
            state.credit -= due
            gap = self._round(window)

    def _round(self, window: Window) -> float:
        """Make one round; return the gap."""
        refused = window.inner.refused
        gap = window.cache.round(window.problem, window.inner, window.cached)
        self._evict(window.inner, window.inner.refused - refused)
        return gap

    def _evict(self, inner: ProximalState, refused: int) -> None:
        """Drop outputs without multipliers if the budget is nearly used up."""
        kept = inner.dual.core.bytes_kept
        if kept > FORGET * inner.most_bytes and (refused > 0 or kept > 0.9 * inner.most_bytes):
            inner.dual.core.prune(int(FORGET * inner.most_bytes))

    def _end(self, problem: Problem, state: StreamState, estimate: float) -> Status | None:
        """End a pass; return the reason if no further pass should follow, else None."""
        state.passes, state.rounds_left = state.passes + 1, None
        refused = state.refused - state.refused_before
        stalled = refused > 0 and estimate > STALLED * state.estimate
        state.estimate = estimate
        if stalled and state.is_full():
            return Status.CACHE_FULL
        if state.cache.settled(problem, estimate, state.goal / self.share):
            return Status.REDUCED
        return Status.PASSES_MADE if state.passes == self.passes else None

    def snapshot(self, problem: Problem, state: StreamState) -> Snapshot:
        return Snapshot(*state.solution(), {"passes": np.array([state.passes])})

    def resume(
        self, problem: Problem, tol: float, rng: np.random.Generator, at: Snapshot
    ) -> StreamState:
        state, made = self.start(problem, tol, rng, at.support), int(at.array("passes", 1)[0])
        state.passes = made if self.passes is None else min(made, self.passes - 1)
        return state

    def retarget(self, problem: Problem, state: StreamState, factor: float) -> None:
        state.goal *= factor
        if state.window is not None:
            state.window.inner.satisfied_below *= factor

    def learn(self, problem: Problem, state: StreamState, slacks: np.ndarray) -> None:
        if state.cache.looks_further(problem):
            return
        state.goal *= 0.5
        if state.window is not None:
            inner = state.window.inner
            inner.dual.refresh()
            inner.rest[:] = 0
            inner.satisfied_below *= 0.5

    def reduced_gap(self, problem: Problem, state: StreamState) -> float | None:
        if problem.exact or not self.verify:
            return None
        w, support = state.solution()
        risk = sum(kept_risk(part, own, w) for part, own in problem.walk(support))
        primal = problem.regularizer.value(w) + risk
        return gap_between(primal, problem.dual_objective(support), problem.total)


@dataclass(frozen=True)
class MaximumCache(Proximal):
    """The solver of the examples in memory, for hinge="max"; it stores nothing about a pass."""

    # Rounds may be about different windows, so there is no earlier gap to compare with.
    lagging: ClassVar[float] = STRICT

    def begin_pass(self) -> None:
        """Begin a pass over all examples."""

    def settled(self, problem: Problem, estimate: float, tol: float) -> bool:
        """Return whether training is done, whatever an exact pass finds."""
        return False

    def looks_further(self, problem: Problem) -> bool:
        """Return whether the next passes find more outputs, after an exact pass that did not end training."""
        return False


@dataclass
class Window:
    """Examples in memory: their problem, its dual state, the new blocks, and all cached blocks."""

    problem: Problem
    cache: Any  # the solver of the examples in memory
    inner: Any
    new: np.ndarray
    cached: np.ndarray
    last: bool = True  # the last window of the pass


@dataclass
class StreamState:
    """The open window and the running gap of a stream. For arrays there is one window, which stays open."""

    goal: float  # target gap of the cache
    k: Any = None  # weight of the proximal term, once it is known
    window: Any = None
    cache: Any = None  # the solver of the examples in memory
    credit: float = 0.0  # visits to cached blocks that are still allowed
    passes: int = 0
    rounds_left: int | None = None  # rounds until the pass ends; None while examples are explored
    estimate: float = np.inf  # estimated gap after the last pass
    refused_before: int = 0  # number of outputs that had not fitted when the pass began
    # Totals of the closed windows: oracle calls and outputs that did not fit; D(a) and planes of
    # the last one.
    closed_calls: int = 0
    closed_refused: int = 0
    closed_at: tuple[float, int] = (0.0, 0)

    @property
    def oracle_calls(self) -> int:
        """Number of oracle calls so far."""
        return self.closed_calls + (self.window.inner.dual.oracle_calls if self.window else 0)

    @property
    def refused(self) -> int:
        """Number of outputs that did not fit so far."""
        return self.closed_refused + (self.window.inner.refused if self.window else 0)

    @property
    def dual(self) -> Any:
        """The dual state of the open window."""
        return self.window.inner.dual

    def progress(self) -> tuple[float, int]:
        """Return D(a), from the running w, and the number of outputs in memory."""
        if self.window is None:
            return self.closed_at
        return self.window.inner.dual.dual(), self.window.inner.dual.core.n_planes

    def windows(self, size: int | None) -> Iterator[Window]:
        """Yield the windows of a pass, with at most `size` new examples each."""
        window, core = self.window, self.window.inner.dual.core
        active = window.problem.active
        size = size or max(FEWEST, -(-len(active) // CHUNKS))
        if window.inner.k > 0 and core.proximity > 0:  # the term of the last pass
            core.recenter(0.0, 0.0)
        for first in range(0, len(active), size):
            window.new = active[first : first + size]
            window.cached = np.union1d(window.cached, window.new)
            window.last = first + size >= len(active)
            yield window

    def reopened(self) -> Window:
        """Return the open window, for one more round."""
        return self.window

    def gap_of_all(self, gap: float, settled: bool) -> float:
        """Return the best estimate of the gap of all examples; `gap` is the gap of the window."""
        return gap

    def is_full(self) -> bool:
        """Return whether training ends because outputs did not fit; other states make room instead."""
        return True

    def solution(self) -> tuple[np.ndarray, Support]:
        """Return w and the multipliers."""
        return self.window.inner.dual.solution()
