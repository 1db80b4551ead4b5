"""The interface of a solver: ``start`` makes a state, ``step`` is a pass, ``solution`` reads it.

The options of a solver are frozen; only the state changes. A solver never stops, prints or reads a
clock: the training loop does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from maxmargin.data.arrays import Rule, whole
from maxmargin.models.registry import names_with
from maxmargin.problem import Formulation, Problem, Status, Support
from maxmargin.problem.plane import PLANES
from maxmargin.problem.regularizer import NONNEGATIVE, PRIOR


@dataclass(frozen=True)
class StepReport:
    """The result of a step.

    ``estimate`` is the gap in loss units, as the solver saw it while w moved. ``slacks`` is given
    if the step was an exact pass at its final w: it has the slack of every block, and the pass need
    not be repeated. ``ended`` is given if the solver makes no further step; it says why.
    """

    oracle_calls: int
    estimate: float
    dual: float
    planes: int
    slacks: np.ndarray | None = None
    ended: Status | None = None


@dataclass(frozen=True)
class Snapshot:
    """The data that a solver needs to resume: weights, a dual point, and arrays of its own by name."""

    w: np.ndarray
    support: Support
    own: dict[str, np.ndarray] = field(default_factory=dict)

    def array(self, name: str, *shape: int) -> np.ndarray:
        """Return an array of the solver by name; raise ValueError unless it has this shape and is finite."""
        found = self.own.get(name)
        if found is None or found.shape != shape or not np.isfinite(found).all():
            raise ValueError(f"a snapshot must have {name} of shape {shape}")
        return found


@dataclass(frozen=True)
class Solver(ABC):
    """Base class of all solvers. A solver declares its properties here; callers rely on nothing else."""

    name: ClassVar[str] = ""
    formulations: ClassVar[tuple[Formulation, ...]] = (
        Formulation("max", "margin"),
        Formulation("max", "slack"),
    )
    # The regularisers besides 1/2 |w|^2 that the solver supports. A method that needs w to be
    # linear in the multipliers cannot clip it.
    honours: ClassVar[tuple[str, ...]] = (PRIOR, NONNEGATIVE)
    # Capabilities that the examples must have: ``models.registry``.
    needs: ClassVar[tuple[str, ...]] = ()
    # The kinds of dual points that the solver can start from; if empty, there is no warm start.
    continues_from: ClassVar[tuple[str, ...]] = (PLANES,)
    in_parts: ClassVar[bool] = False  # whether it reads the data one part at a time
    # Whether infinite scales of a prior work, by proximal points (``free``).
    takes_free: ClassVar[bool] = True
    # Whether it reaches any tolerance in practice, and not only in the limit.
    pairwise_optimum: ClassVar[bool] = True
    # Fields of the state that scale with the tolerance.
    thresholds: ClassVar[tuple[str, ...]] = ("tol",)
    verify = True  # whether training ends with an exact pass, for a proven certificate
    advice: ClassVar[str] = ""  # solver-specific advice if a budget ended training

    def __post_init__(self) -> None:
        for own in fields(self):
            if "rule" in own.metadata:
                name = f"{type(self).__name__}: {own.name}"
                own.metadata["rule"].check(name, getattr(self, own.name))

    @classmethod
    def suits(cls, problem: Problem) -> bool:
        """Return whether "auto" should choose it, given that it can solve this problem."""
        return False

    def honoured(self) -> tuple[str, ...]:
        """Return the regularisers besides 1/2 |w|^2 that this solver supports with its options."""
        return self.honours

    def continues(self, problem: Problem) -> tuple[str, ...]:
        """Return the kinds of dual points of this problem that the solver can start from."""
        return self.continues_from

    def beyond(self, formulation: Formulation, asks_for: tuple[str, ...]) -> str:
        """Return a message that says why it cannot solve this formulation with these regularisers, or ""."""
        if formulation not in self.formulations:
            return f"solver {self.name!r} does not support {formulation}"
        missing = [name for name in asks_for if name not in self.honoured()]
        if not missing:
            return ""
        return f"solver {self.name!r}, {self!r}, does not support {' and '.join(missing)}"

    def check(self, problem: Problem, warm: Support | None = None) -> None:
        """Raise ValueError if the solver cannot take this problem or this warm start."""
        beyond = self.beyond(problem.formulation, problem.regularizer.asks_for)
        if beyond:
            raise ValueError(beyond)
        for power in self.needs:
            if power not in problem.examples.powers:
                able = f"use one of {names_with(power)}, without a kernel or illegal transitions"
                raise ValueError(f"solver {self.name!r} needs a model with {power}; {able}")
        if warm is not None and warm.kind not in self.continues(problem):
            able = " or ".join(self.continues(problem)) or "zero weights"
            raise ValueError(
                f"warm_start: the last fit kept {warm.kind}, but solver {self.name!r} can only "
                f"start from {able}; set warm_start=False"
            )

    @abstractmethod
    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> Any:
        """Return a state at w = 0, or at the multipliers of `warm`."""

    @abstractmethod
    def step(self, problem: Problem, state: Any) -> StepReport:
        """Make about one pass."""

    def solution(self, problem: Problem, state: Any) -> tuple[np.ndarray, Support]:
        """Return w and the multipliers, in double precision."""
        return state.solution()

    def learn(self, problem: Problem, state: Any, slacks: np.ndarray) -> None:
        """Receive the slacks of an exact pass after which training goes on."""
        state.refresh()

    def resumes(self, problem: Problem) -> bool:
        """Return whether the solver can resume from a snapshot of this problem."""
        return bool(self.continues(problem))

    def snapshot(self, problem: Problem, state: Any) -> Snapshot:
        """Return the data that ``resume`` needs."""
        return Snapshot(*self.solution(problem, state))

    def resume(self, problem: Problem, tol: float, rng: np.random.Generator, at: Snapshot) -> Any:
        """Return a state that continues from a snapshot."""
        return self.start(problem, tol, rng, at.support)

    def retarget(self, problem: Problem, state: Any, factor: float) -> None:
        """Multiply the tolerance of the state by a factor, because the objective is known better now."""
        for name in self.thresholds:
            setattr(state, name, factor * getattr(state, name))

    def reduced_gap(self, problem: Problem, state: Any) -> float | None:
        """Return the gap of the problem reduced to the cached outputs, or None if it is the whole problem."""
        return None


def slow(name: str) -> str:
    """Return the advice of a solver with a slow rate of convergence."""
    return f"solver {name!r} converges slowly; use solver='auto', which is faster, or raise tol"


AT_LEAST_1 = Rule("at least 1", lambda x: x >= 1)
NOT_NEGATIVE = Rule("0 or more", lambda x: x >= 0)
ABOVE_0 = Rule("above 0", lambda x: x > 0)
ABOVE_1 = Rule("above 1", lambda x: x > 1)
SOME_OR_NONE = whole(none=True)
BELOW_1 = Rule("in [0, 1)", lambda x: 0 <= x < 1)
INSIDE = Rule("in (0, 1)", lambda x: 0 < x < 1)
SHARE = Rule("in (0, 1]", lambda x: 0 < x <= 1)


def option(default: Any, rule: Rule) -> Any:
    """Define an option of a solver by its default and the rule for other values."""
    return field(default=default, metadata={"rule": rule})
