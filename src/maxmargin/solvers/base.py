"""What a solver is: ``start`` makes a state, ``step`` is about one pass, ``solution`` reads it.

Options are frozen; all that changes is in the state. A solver never stops, prints or reads a clock:
the training loop does.
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
    """What a step did.

    ``estimate`` is the gap as the solver saw it while w moved, in loss units. ``slacks`` are those of
    every block where the step was one exact pass at the w it ended with, which need not be repeated.
    ``ended`` says that the solver makes no further step, and why.
    """

    oracle_calls: int
    estimate: float
    dual: float
    planes: int
    slacks: np.ndarray | None = None
    ended: Status | None = None


@dataclass(frozen=True)
class Snapshot:
    """What a solver needs to go on later: weights, a dual point, and what else it wants, by name."""

    w: np.ndarray
    support: Support
    own: dict[str, np.ndarray] = field(default_factory=dict)

    def array(self, name: str, *shape: int) -> np.ndarray:
        """What the solver named so; refuses another shape."""
        found = self.own.get(name)
        if found is None or found.shape != shape or not np.isfinite(found).all():
            raise ValueError(f"a snapshot must have {name} of shape {shape}")
        return found


@dataclass(frozen=True)
class Solver(ABC):
    """Base of all solvers: what one declares about itself is all that others know of it."""

    name: ClassVar[str] = ""
    formulations: ClassVar[tuple[Formulation, ...]] = (
        Formulation("max", "margin"),
        Formulation("max", "slack"),
    )
    # Regularisers besides 1/2 |w|^2: a method that needs w to be linear in the multipliers cannot clip it.
    honours: ClassVar[tuple[str, ...]] = (PRIOR, NONNEGATIVE)
    needs: ClassVar[tuple[str, ...]] = ()  # powers that the examples must have: ``models.registry``
    # Kinds of dual points that it can start from; without any there is no warm start.
    continues_from: ClassVar[tuple[str, ...]] = (PLANES,)
    in_parts: ClassVar[bool] = False  # reads the data a part at a time
    takes_free: ClassVar[bool] = True  # infinite scales of a prior, by proximal points (``free``)
    # Reaches any tolerance in practice, not only in the limit.
    pairwise_optimum: ClassVar[bool] = True
    thresholds: ClassVar[tuple[str, ...]] = ("tol",)  # of its states, which follow the tolerance
    verify = True  # training ends with an exact pass, for a proven certificate
    advice: ClassVar[str] = ""  # to a user whose training ended at a budget, in place of the usual

    def __post_init__(self) -> None:
        for own in fields(self):
            if "rule" in own.metadata:
                name = f"{type(self).__name__}: {own.name}"
                own.metadata["rule"].check(name, getattr(self, own.name))

    @classmethod
    def suits(cls, problem: Problem) -> bool:
        """Whether "auto" should take it, among the solvers that can solve this problem."""
        return False

    def honoured(self) -> tuple[str, ...]:
        """Regularisers besides 1/2 |w|^2 that this solver honours with its options."""
        return self.honours

    def continues(self, problem: Problem) -> tuple[str, ...]:
        """Kinds of dual points of this problem that it can start from."""
        return self.continues_from

    def beyond(self, formulation: Formulation, asks_for: tuple[str, ...]) -> str:
        """What of a formulation with these regularisers it does not solve, in words; or nothing."""
        if formulation not in self.formulations:
            return f"solver {self.name!r} does not solve {formulation}"
        missing = [name for name in asks_for if name not in self.honoured()]
        if not missing:
            return ""
        return f"solver {self.name!r}, {self!r}, does not honour {' and '.join(missing)}"

    def check(self, problem: Problem, warm: Support | None = None) -> None:
        """Refuse a problem, or a warm start, that it declares not to take."""
        beyond = self.beyond(problem.formulation, problem.regularizer.asks_for)
        if beyond:
            raise ValueError(beyond)
        for power in self.needs:
            if power not in problem.examples.powers:
                able = f"one of {names_with(power)}, without a kernel or illegal transitions"
                raise ValueError(f"solver {self.name!r} needs a model of {power}: {able}")
        if warm is not None and warm.kind not in self.continues(problem):
            able = " or ".join(self.continues(problem)) or "nothing: it has no warm start"
            raise ValueError(
                f"warm_start: the last fit kept {warm.kind}, but solver {self.name!r} continues from {able}; "
                "set warm_start=False"
            )

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
        return state.solution()

    def learn(self, problem: Problem, state: Any, slacks: np.ndarray) -> None:
        """Receive what an exact pass found that did not end training."""
        state.refresh()

    def resumes(self, problem: Problem) -> bool:
        """Whether it can go on from a snapshot of this problem."""
        return bool(self.continues(problem))

    def snapshot(self, problem: Problem, state: Any) -> Snapshot:
        """What ``resume`` needs."""
        return Snapshot(*self.solution(problem, state))

    def resume(self, problem: Problem, tol: float, rng: np.random.Generator, at: Snapshot) -> Any:
        """A state that goes on from a snapshot."""
        return self.start(problem, tol, rng, at.support)

    def retarget(self, problem: Problem, state: Any, factor: float) -> None:
        """The tolerance is this many times what it was: the objective is known better now."""
        for name in self.thresholds:
            setattr(state, name, factor * getattr(state, name))

    def reduced_gap(self, problem: Problem, state: Any) -> float | None:
        """The gap of the problem reduced to the kept outputs, where that is another one; else None."""
        return None


def slow(name: str) -> str:
    """The advice of a solver that goes only as far as its rate allows."""
    return f"solver {name!r} converges slowly; solver='auto' is faster, or raise tol"


AT_LEAST_1 = Rule("at least 1", lambda x: x >= 1)
NOT_NEGATIVE = Rule("0 or more", lambda x: x >= 0)
ABOVE_0 = Rule("above 0", lambda x: x > 0)
ABOVE_1 = Rule("above 1", lambda x: x > 1)
SOME_OR_NONE = whole(none=True)
BELOW_1 = Rule("in [0, 1)", lambda x: 0 <= x < 1)
INSIDE = Rule("in (0, 1)", lambda x: 0 < x < 1)
SHARE = Rule("in (0, 1]", lambda x: 0 < x <= 1)


def option(default: Any, rule: Rule) -> Any:
    """An option of a solver: its default, and the rule for other values."""
    return field(default=default, metadata={"rule": rule})
