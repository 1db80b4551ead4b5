"""Algorithm 2 of Ramanan's manuscript, slow and plain: a cache of examples that the gap controls.

Symbols are as in `twins`. The manuscript's UB - LB over the cache is sum_{i in A} c_i G_i, with
each G_i as last seen. A block outside of A has all of its budget on the true output, or is frozen.
A frozen block keeps its multipliers unchanged until the example comes again; they still count in
D(alpha).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .twins import State, active_blocks, choose_wss2, pair_step, violator


@dataclass
class Stream:
    """The state of all blocks, the cache A with the gaps last seen, and D after every example."""

    state: State
    gaps: dict[int, float] = field(default_factory=dict)
    seen: float = 0.0
    dual: list[float] = field(default_factory=list)

    @property
    def gap(self) -> float:
        """(UB - LB) divided by the mass seen."""
        budgets = self.state.problem.budgets
        return sum(budgets[i] * g for i, g in self.gaps.items()) / self.seen if self.seen else 0.0


def streaming(problem: Any, tol: float, capacity: float = math.inf, passes: int = 1) -> Stream:
    """Make passes over the examples in order; the cache holds at most `capacity` of them."""
    stream = Stream(State(problem))
    for number in range(passes):
        for i in active_blocks(problem):  # lines 3-4
            if number == 0:
                stream.seen += problem.budgets[i]
            visit(stream, i)  # lines 5-10
            if stream.gap > tol:  # line 11
                optimise(stream, tol)  # line 12
            prune(stream, capacity)  # line 13
            stream.dual.append(stream.state.dual())
    return stream


def visit(stream: Stream, i: int) -> None:
    """Ask the oracle for block i, note its gap, make a step; block i enters the cache."""
    u, gap = violator(stream.state, i)
    stream.gaps[i] = gap
    if gap > 0:
        pair_step(stream.state, i, u, choose_wss2)


def optimise(stream: Stream, tol: float, sweeps: int = 200) -> None:
    """Solve the problem of the cache from its current multipliers; all others stay fixed."""
    for _ in range(sweeps):
        for i in list(stream.gaps):
            visit(stream, i)
        if stream.gap <= tol:
            return


def prune(stream: Stream, capacity: float) -> None:
    """Remove the least useful blocks: those on the true output, then on one other output; small gaps
    first."""
    state = stream.state

    def use(i: int) -> tuple[int, float]:
        held = {y for y, a in state.alpha[i].items() if a > 0}
        moved = held != {state.problem.correct[i]}
        return (2 if len(held) > 1 else int(moved)), stream.gaps[i]

    while len(stream.gaps) > capacity:
        del stream.gaps[min(stream.gaps, key=use)]
    for i in stream.gaps:  # drop outputs without a multiplier
        state.alpha[i] = {y: a for y, a in state.alpha[i].items() if a > 0}


def bounds(stream: Stream) -> tuple[float, float, np.ndarray]:
    """D(alpha), P(w) and w, from scratch."""
    w = stream.state.direct()
    return stream.state.dual(), stream.state.primal(w), w
