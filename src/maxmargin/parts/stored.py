"""Examples that stay in their files while outputs and multipliers of all of them are in memory.

An output is a few bytes, the features of an example are many. Where all outputs fit the budget, a pass is one
over arrays, whose features the core reads in the mapped files: nothing is copied, frozen or restored, and it
takes the steps that a solver in memory takes. It goes from one stretch of the files to the next, in random
order within a stretch, so that a page is read once per pass. The order of the stretches is drawn anew for
each pass: in an order that stays the same more than three times the passes are needed (docs/data.md).

When outputs no longer fit, all multipliers go to a file, and examples come and go as in ``parts.sequential``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from maxmargin.parts.past import TWICE
from maxmargin.parts.sequential import PartState, StreamedProblem
from maxmargin.problem import Problem, Support
from maxmargin.solvers.streaming import Streaming, StreamState, Window

STRETCH = 0.125  # of the budget: the features of the examples of a stretch
ROOM = 0.6  # of the budget, at most, for what all examples take without their features and outputs


class StoredProblem(StreamedProblem):
    """A model on examples in files; ``whole`` is the problem of all of them, while it is bound."""

    whole: Problem | None = None

    def walk(self, support: Support) -> Iterator[tuple[Problem, Support]]:
        return super().walk(support) if self.whole is None else self.whole.walk(support)

    def bind_all(self) -> Problem:
        """All examples, their features in the files."""
        source, settings = self.source, self.settings
        examples = self.model.bind(source.X, source.Y)
        self.whole = whole = Problem(
            examples, self.C, source.weights, settings.formulation, self.n_jobs, self.regularizer
        )
        self.exact, self.bounded, self.files = whole.exact, whole.bounded, whole.files
        return whole

    def release(self) -> None:
        """From now on they come in parts."""
        self.whole = self.files = None

    def open_stream(self, solver: Streaming, *args: Any) -> StreamState:
        needed = int(self.source.bound_bytes() / ROOM)
        if solver.keeps == "outputs" and needed > solver.cache_bytes:
            raise ValueError(
                f'Streaming: keeps="outputs" needs at least {needed} cache_bytes for these data, got '
                f"{solver.cache_bytes}"
            )
        repeated = solver.keeps == "auto" and solver.passes is None
        if needed <= solver.cache_bytes and (repeated or solver.keeps == "outputs"):
            return StoredState(self, solver, *args)
        return PartState(self, solver, *args)


class StoredState(PartState):
    """While ``problem.whole`` is bound, a state over it; after that one of examples that come and go."""

    def __init__(self, problem: Any, solver: Streaming, tol: float, rng: Any, warm: Any):
        super().__init__(problem, solver, tol, rng, None)
        source, budget = problem.source, solver.cache_bytes
        whole = problem.bind_all()
        inner = self.proximal.open(whole, self.goal, rng, warm, lean=True)
        self.k, inner.most_bytes = inner.k, (budget - source.bound_bytes()) // TWICE
        share = STRETCH * budget / max(1.0, source.row_bytes * int(source.X.firsts[-1]))
        inner.stretch = max(1, int(share * source.n))
        inner.dual.violations[:] = 0.0
        found = np.bincount([] if warm is None else warm.blocks)
        self.window = Window(whole, inner, whole.active, np.flatnonzero(found > 1))
        if inner.dual.core.bytes_kept > inner.most_bytes:
            self._leave(warm)

    @property
    def bound(self) -> bool:
        """Whether outputs of all examples are in memory."""
        return self.problem.whole is not None

    def _leave(self, support: Support) -> None:
        """All multipliers go to the file."""
        inner = self.window.inner
        self.closed_calls += inner.dual.oracle_calls
        self.closed_refused += inner.refused
        self.window = None
        self.problem.release()
        self.restore(support)
        self.closed_at = self.past.dual, len(support)

    def is_full(self) -> bool:
        if not self.bound:
            return super().is_full()
        self._leave(StreamState.solution(self)[1])
        return False

    def windows(self, size: int | None) -> Iterator[Window]:
        return StreamState.windows(self, size) if self.bound else super().windows(size)

    def close(self) -> None:
        if not self.bound:
            super().close()

    def gap_of_all(self, gap: float, settled: bool) -> float:
        return gap if self.bound else super().gap_of_all(gap, settled)

    def solution(self) -> tuple[np.ndarray, Support]:
        if not self.bound:
            return super().solution()
        self.problem.dual_found = self.window.inner.dual.dual()
        return StreamState.solution(self)
