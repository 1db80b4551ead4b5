"""The budgets of a run: passes, seconds, and the time reserved for its last exact pass.

``tolerance_of`` computes the target gap, which may cost oracle calls as well.
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

# The fraction of the time limit reserved for the last exact pass until a step or a pass was timed.
UNSEEN_SHARE = 0.5


@dataclass
class Budget:
    """Passes and seconds of a run, used and allowed."""

    problem: Problem
    max_passes: float
    max_seconds: float
    started: float = field(default_factory=lambda: clock())
    oracle_calls: int = 0
    polish_until: float = math.inf
    earlier_seconds: float = 0.0  # seconds of the run that this one resumes
    proves: bool = True  # whether training ends with an exact pass
    exact_seconds: float = 0.0  # duration of the longest exact pass
    step_seconds: float = 0.0  # duration of the longest step

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
        """Seconds reserved for the last exact pass."""
        if not self.proves or self.max_seconds == math.inf:
            return 0.0
        unseen = UNSEEN_SHARE * (self.max_seconds - self.earlier_seconds)
        return self.exact_seconds or self.step_seconds or unseen

    @property
    def rest(self) -> float:
        """Seconds until the limit; infinite if there is none."""
        return self.max_seconds - self.seconds

    @property
    def seconds_left(self) -> float:
        """The time limit of the next step."""
        return self.rest - self.reserve

    @contextmanager
    def timed(self, kind: str) -> Iterator[None]:
        """Measure the time of an exact pass ("exact") or a step ("step")."""
        began = self.seconds
        yield
        name = f"{kind}_seconds"
        setattr(self, name, max(getattr(self, name), self.seconds - began))

    def at_zero(self) -> float:
        """Return P(0), or P at the mean of a prior; it costs an exact pass unless it is known already."""
        if self.problem.zero_known():
            return self.problem.at_zero()
        self.oracle_calls += self.problem.n_blocks
        with self.timed("exact"):
            return self.problem.at_zero()

    def spent(self) -> Status | None:
        """Return the status if a budget is used up, else None."""
        if self.passes >= min(self.max_passes, self.polish_until):
            return Status.PASS_LIMIT
        if self.seconds_left <= 0:
            return Status.TIME_LIMIT
        return None


def tolerance_of(
    problem: Problem, tol: float | str, random_state: Any, budget: Budget
) -> Tolerance:
    """Compute the target gap.

    "auto" needs the mean loss at w = 0 of some examples. A stream uses examples of its first part;
    if they have no weight, the loss counts as 1. A soft formulation needs P(0); a path has already
    computed it for another C.
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
