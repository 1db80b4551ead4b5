"""Streaming: online dual coordinate ascent with a cache that the gap drives (Ramanan, Algorithm 2).

    for every chunk of examples, in their order                                      lines 3-4
      explore:  u = argmax_y s_i(y);  UB += mass_i g_i;  keep u in the cache, make a step   lines 5-10
      if (UB - LB) / mass seen > tol:  sweep the cache, within what it may cost     lines 11-12
      outputs without a multiplier leave the cache where its budget asks for it     line 13

g_i = s_i(u) - sum_y a_i(y) s_i(y) / mass_i is the block's share of UB - LB, the gap of the problem of all
that was seen. LB = D(a) bounds the optimum of the whole problem; UB does not, until an exact pass has been
made. The multipliers are the dual point and stay: only outputs without one can be forgotten. Where they
alone fill the budget, new outputs are not kept, and their blocks stay as they are.

The paper solves the cache to tol after every example, which costs a multiple of the data. Here an explored
example pays for `revisits` visits to the cache; a sweep is made when the gap asks for it and it is paid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.problem import Problem, Support
from maxmargin.solvers.base import Solver, StepReport, option
from maxmargin.solvers.dual_state import PRECISIONS, DualState, Visit, open_state

FORGET = 0.75  # pruning goes down to this part of the budget, so that it is rare
LITTLE = 0.1  # a block with less than this part of the wanted gap has nothing to gain
SPREAD = 1000  # blocks of a sweep in one run
STALLED = 0.99  # of the estimate of the pass before: no progress with a full cache


@dataclass(frozen=True)
class Streaming(Solver):
    """Algorithm 2: explore the next examples, or optimise the cache, as the running gap says.

    Parameters
    ----------
    cache_bytes : int
        Budget of the kept outputs and multipliers; never exceeded.
    passes : int or None
        Passes over the data; None: until the gap is proven to be at most tol.
    chunk : int
        Examples explored before the running gap is looked at.
    rounds : int
        At most so many oracle calls for an example while its chunk is at hand, as long as they find much.
    revisits : int
        Visits to cached blocks that an explored example pays for.
    sweeps : int
        At most so many sweeps of the cache at the end of a pass.
    share : float
        Sweeps of the cache end when its gap is at most this part of tol.
    verify : bool
        One exact pass at the end, for a certificate; without, the gap is the running estimate.
    precision : "double" or "single"
        Of w while it is updated; multipliers and certificates are always double.
    """

    name: ClassVar[str] = "streaming"
    pairwise_optimum: ClassVar[bool] = False
    cache_bytes: int = 64 * 2**20
    passes: int | None = 1
    chunk: int = 100
    rounds: int = 3
    revisits: int = 10
    sweeps: int = 30
    share: float = 0.5
    verify: bool = True
    precision: str = "double"

    def __post_init__(self) -> None:
        for name in ("cache_bytes", "chunk", "rounds", "revisits", "sweeps"):
            option("Streaming", name, getattr(self, name), test=lambda x: x >= 1, says="at least 1")
        if self.passes is not None:
            whole = isinstance(self.passes, int | np.integer) and not isinstance(self.passes, bool)
            if not whole or self.passes < 1:
                raise ValueError(
                    f"Streaming: passes must be None or a whole number of at least 1, got {self.passes!r}"
                )
        option("Streaming", "share", self.share, test=lambda x: 0 < x <= 1, says="in (0, 1]")
        option("Streaming", "verify", self.verify, (True, False))
        option("Streaming", "precision", self.precision, PRECISIONS[1:])
        if self.passes is None and not self.verify:
            raise ValueError("Streaming: passes=None ends with a certificate: it needs verify=True")

    @property
    def verifies(self) -> bool:
        return self.verify

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> StreamState:
        single = self.precision == "single"
        dual = open_state(problem, tol, rng, single, warm, lean=True)
        if dual.core.held > self.cache_bytes:
            raise ValueError(
                f"Streaming: cache_bytes = {self.cache_bytes}, but the multipliers of the warm start "
                f"take {dual.core.held} bytes"
            )
        state = StreamState(dual, self.share * tol, np.zeros(problem.n_blocks))
        if warm is not None:
            state.cached |= np.bincount(warm.blocks, minlength=problem.n_blocks) > 1
            state.n_cached, state.seen = int(state.cached.sum()), problem.total
            state.known[:] = True
        return state

    def step(self, problem: Problem, state: StreamState) -> StepReport:
        calls = refused = 0
        violation = 0.0
        for blocks in chunks(problem.active, self.chunk):
            for _ in range(self.rounds):
                visit = self.explore(problem, state, blocks)
                calls += visit.oracle_calls
                refused += visit.refused
                if visit.violation <= state.goal * problem.mass[blocks].sum():
                    break
            violation += visit.violation
            state.credit += self.revisits * len(blocks)
            if state.gap > state.goal / self.share and state.credit >= state.n_cached:
                state.credit -= self.optimise(problem, state, 1)
        self.optimise(problem, state, self.sweeps)
        self.make_room(state, refused)
        state.dual.passes += 1
        estimate = violation / problem.total if self.verify else state.gap
        ended = self.end(state, estimate, refused)
        planes, value = state.dual.n_planes, state.dual.dual()
        return StepReport(calls, estimate, value, planes, ended=ended)

    def explore(self, problem: Problem, state: StreamState, blocks: np.ndarray) -> Visit:
        """Ask the oracle for some blocks, make their steps, and keep what it found."""
        visit = state.dual.visit(
            blocks,
            tolerance=LITTLE * state.goal,
            threads=problem.n_jobs,
            room=max(0, self.cache_bytes - state.dual.core.held),
        )
        state.explored(problem, blocks, visit.violations)
        self.make_room(state, visit.refused)
        return visit

    def end(self, state: StreamState, estimate: float, refused: int) -> str:
        """Why no further pass should be made, or nothing."""
        stalled = refused > 0 and estimate > STALLED * state.dual.estimate
        state.dual.estimate = estimate
        if stalled:
            return "cache full"
        return "passes made" if state.dual.passes == self.passes else ""

    def optimise(self, problem: Problem, state: StreamState, sweeps: int) -> int:
        """Sweep the cache until its gap is small enough; returns the visits that it took."""
        cached = np.flatnonzero(state.cached)
        todo, visits = cached, 0
        state.settled = False
        for _ in range(sweeps):
            whole = len(todo) == len(cached)
            order = shuffled(todo, SPREAD, state.dual.rng)
            visit = state.dual.visit(
                order, oracle=False, tolerance=LITTLE * state.goal, threads=problem.n_jobs
            )
            state.note(problem, order, visit.violations)
            visits += len(order)
            done = state.gap <= state.goal or visit.updates == 0
            if done and whole:
                break
            # Blocks that had little to gain are passed over, until the others have no more.
            todo = cached if done else order[visit.violations > LITTLE * state.goal]
        return visits

    def make_room(self, state: StreamState, refused: int) -> None:
        """Forget outputs without a multiplier, unless that was tried and nothing has moved since."""
        scarce = refused > 0 or state.dual.core.held > 0.9 * self.cache_bytes
        if scarce and not state.settled:
            state.dual.core.prune(int(FORGET * self.cache_bytes))
            state.settled = True

    def solution(self, problem: Problem, state: StreamState) -> tuple[np.ndarray, Support]:
        return state.dual.weights(), state.dual.support()

    def learn(self, problem: Problem, state: StreamState, slacks: np.ndarray) -> None:
        state.dual.refresh()
        state.goal *= 0.5  # a smaller gap of the cache was needed


@dataclass
class StreamState:
    """The dual state, and the running gap of what was seen."""

    dual: DualState
    goal: float  # the gap of the cache to be reached
    shares: np.ndarray  # g_i as last seen
    open: float = 0.0  # sum of mass_i g_i
    seen: float = 0.0  # sum of mass_i of the blocks seen so far
    credit: float = 0.0  # visits to cached blocks that are paid for
    n_cached: int = 0
    settled: bool = False  # pruned, and no multiplier moved since

    def __post_init__(self) -> None:
        self.cached = np.zeros(len(self.shares), dtype=bool)  # keep more than the true output
        self.known = np.zeros(len(self.shares), dtype=bool)  # were explored once

    @property
    def gap(self) -> float:
        """UB - LB of what was seen, in units of the task loss."""
        return self.open / self.seen if self.seen else 0.0

    def explored(self, problem: Problem, blocks: np.ndarray, violations: np.ndarray) -> None:
        """Take over what the oracle found for some blocks."""
        self.note(problem, blocks, violations)
        new = (violations > LITTLE * self.goal) & ~self.cached[blocks]
        self.cached[blocks[new]] = True
        self.n_cached += int(new.sum())
        self.seen += float(problem.mass[blocks[~self.known[blocks]]].sum())
        self.known[blocks] = True

    def note(self, problem: Problem, blocks: np.ndarray, violations: np.ndarray) -> None:
        """Take over the shares of the gap that a pass over some blocks saw."""
        mass = problem.mass[blocks]
        self.open += float(mass @ (violations - self.shares[blocks]))
        self.shares[blocks] = violations


def chunks(blocks: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Blocks in their order, so many at a time."""
    return (blocks[first : first + size] for first in range(0, len(blocks), size))


def shuffled(blocks: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Blocks in a random order whose neighbours lie near each other, so that mapped rows are read in runs."""
    parts = list(chunks(blocks, size))
    if not parts:
        return blocks
    return np.concatenate([rng.permutation(parts[k]) for k in rng.permutation(len(parts))])
