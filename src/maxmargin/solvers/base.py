"""What a solver is: ``start`` makes a state, ``step`` is about one pass, ``solution`` reads it.

Options are frozen; all that changes is in the state. A solver never stops, prints or reads a clock:
the training loop does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxmargin.problem import Formulation, Problem, Support
from maxmargin.problem.regularizer import NONNEGATIVE, PRIOR


@dataclass(frozen=True)
class StepReport:
    """What a step did.

    ``estimate`` is the gap as the solver saw it while w moved, in loss units. ``slacks`` are those of
    every block where the step was one exact pass at the w it ended with, and so need not be made again.
    ``ended`` says that the solver makes no further step, and why: a value of ``result.Status``.
    """

    oracle_calls: int
    estimate: float
    dual: float
    planes: int
    slacks: np.ndarray | None = None
    ended: str = ""


@dataclass(frozen=True)
class Solver(ABC):
    """Base of all solvers."""

    name: ClassVar[str] = ""
    formulations: ClassVar[tuple[Formulation, ...]] = (
        Formulation("max", "margin"),
        Formulation("max", "slack"),
    )
    # Regularisers besides 1/2 |w|^2: a method that needs w to be linear in the multipliers cannot clip it.
    honours: ClassVar[tuple[str, ...]] = (PRIOR, NONNEGATIVE)
    models: ClassVar[tuple[str, ...]] = ()  # the only ones it takes; empty: every model
    pairwise_optimum: ClassVar[bool] = (
        True  # reaches any tolerance in practice, not only in the limit
    )

    @property
    def verifies(self) -> bool:
        """Whether training ends with an exact pass, for a proven certificate."""
        return True

    def honoured(self) -> tuple[str, ...]:
        """Regularisers besides 1/2 |w|^2 that this solver honours with its options."""
        return self.honours

    @abstractmethod
    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> Any:
        """A state at w = 0, or at the multipliers of `warm`."""

    @abstractmethod
    def step(self, problem: Problem, state: Any) -> StepReport:
        """About one pass."""

    def solution(self, problem: Problem, state: Any) -> tuple[np.ndarray, Support]:
        """w and the multipliers, in double precision."""
        return state.weights(), state.support()

    def learn(self, problem: Problem, state: Any, slacks: np.ndarray) -> None:
        """Hear what an exact pass found that did not end training."""
        state.refresh()

    def reduced_gap(self, problem: Problem, state: Any) -> float | None:
        """The gap of the problem reduced to the kept outputs, where that is another one; else None."""
        return None


def option(
    owner: str,
    name: str,
    value: Any,
    allowed: tuple | None = None,
    test: Callable | None = None,
    says: str = "",
) -> None:
    """Refuse an option value: parameter, owner, allowed, got."""
    if allowed is not None and value not in allowed:
        raise ValueError(f"{owner}: {name} must be one of {list(allowed)}, got {value!r}")
    if test is not None and (isinstance(value, str) or value is None or not test(value)):
        raise ValueError(f"{owner}: {name} must be {says}, got {value!r}")
