"""The budgets of a run: passes, seconds, and the time that its last exact pass will take.

``tolerance_of`` finds the gap to be reached, which costs oracle calls as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter as clock
from typing import Any

import numpy as np

from maxmargin.problem import Problem, Status, Tolerance
from maxmargin.problem.certificate import AUTO
from maxmargin.solvers.dual_state import mean_loss

# The share of the time limit that is left for the last exact pass before anything was timed.
UNSEEN_SHARE = 0.5


@dataclass
class Budget:
    """Passes and seconds of a run."""

    problem: Problem
    max_passes: float
    max_seconds: float
    started: float = field(default_factory=lambda: clock())
    oracle_calls: int = 0
    polish_until: float = math.inf
    earlier_seconds: float = 0.0  # of the run that this one goes on from
    proves: bool = True  # training ends with an exact pass
    exact_seconds: float = 0.0  # of the longest exact pass
    step_seconds: float = 0.0  # of the longest step

    @property
    def seconds(self) -> float:
        return self.earlier_seconds + clock() - self.started

    @property
    def passes(self) -> float:
        return self.oracle_calls / self.problem.n_blocks

    def so_far(self) -> dict[str, Any]:
        """Return the counters, by the names of the history and of the certificate."""
        return {
            "seconds": self.seconds,
            "passes": self.passes,
            "oracle_calls": self.oracle_calls,
        }

    @property
    def reserve(self) -> float:
        """Seconds to be left for the last exact pass."""
        if not self.proves or self.max_seconds == math.inf:
            return 0.0
        unseen = UNSEEN_SHARE * (self.max_seconds - self.earlier_seconds)
        return self.exact_seconds or self.step_seconds or unseen

    @property
    def rest(self) -> float:
        """Seconds until the limit; infinity without one."""
        return self.max_seconds - self.seconds

    @property
    def seconds_left(self) -> float:
        """The time limit of the next step."""
        return self.rest - self.reserve

    @contextmanager
    def timed(self, kind: str) -> Iterator[None]:
        """Note how long an exact pass ("exact") or a step ("step") takes."""
        began = self.seconds
        yield
        name = f"{kind}_seconds"
        setattr(self, name, max(getattr(self, name), self.seconds - began))

    def at_zero(self) -> float:
        """P(0), or P at the mean of a prior: an exact pass, unless it is known already."""
        if self.problem.zero_known():
            return self.problem.at_zero()
        self.oracle_calls += self.problem.n_blocks
        with self.timed("exact"):
            return self.problem.at_zero()

    def spent(self) -> Status | None:
        """Whether a budget has ended."""
        if self.passes >= min(self.max_passes, self.polish_until):
            return Status.PASS_LIMIT
        if self.seconds_left <= 0:
            return Status.TIME_LIMIT
        return None


def tolerance_of(
    problem: Problem, tol: float | str, random_state: Any, budget: Budget
) -> Tolerance:
    """Find the gap to be reached.

    "auto" needs the mean loss at w = 0 of some examples: of a stream, those of its first part; where
    these have no weight, 1. A soft formulation needs P(0), which a path has computed for another C.
    """
    loss = math.nan
    if tol == AUTO and problem.formulation.soft:
        zero = budget.at_zero()
        return Tolerance(tol, problem.total, zero / problem.total, zero)
    if tol == AUTO:
        part = problem if problem.open_stream is None else problem.first_part()
        rng = np.random.default_rng(random_state)
        loss, calls = (1.0, 0) if part is None else mean_loss(part, rng)
        budget.oracle_calls += calls
    return Tolerance(tol, problem.total, loss)
