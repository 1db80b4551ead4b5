"""Any solver on a problem with a prior: it works on the plain problem in u, its answers are told in w."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.problem import Problem, Support
from maxmargin.problem.regularizer import Prior
from maxmargin.problem.substitution import Standard, standard
from maxmargin.solvers.base import Solver, StepReport


@dataclass
class SubstitutedState:
    """The plain problem, and the solver's state on it."""

    standard: Standard
    inner: Any


@dataclass(frozen=True)
class SubstitutedSolver(Solver):
    """A solver with w = m + L u between it and the problem."""

    solver: Solver

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.solver.name

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> SubstitutedState:
        plain = standard(problem)
        return SubstitutedState(plain, self.solver.start(plain.problem, tol, rng, plain.warm(warm)))

    def step(self, problem: Problem, state: SubstitutedState) -> StepReport:
        report = self.solver.step(state.standard.problem, state.inner)
        return replace(report, dual=report.dual / state.standard.unit)

    def solution(self, problem: Problem, state: SubstitutedState) -> tuple[np.ndarray, Support]:
        u, support = self.solver.solution(state.standard.problem, state.inner)
        return state.standard.weights(u), state.standard.support(support)

    def ready(self, state: SubstitutedState) -> bool:
        return self.solver.ready(state.inner)

    def reduced_gap(self, problem: Problem, state: SubstitutedState) -> float:
        return self.solver.reduced_gap(state.standard.problem, state.inner)

    def learn(self, problem: Problem, state: SubstitutedState, slacks: np.ndarray) -> None:
        self.solver.learn(state.standard.problem, state.inner, slacks)


def fitted_to(problem: Problem, solver: Solver) -> Solver:
    """The solver for this problem: itself, or with the substitution that the prior asks for."""
    missing = [name for name in problem.regularizer.needs if name not in solver.honoured()]
    if missing:
        raise ValueError(f"solver {solver.name!r} does not honour {' and '.join(missing)}")
    return SubstitutedSolver(solver) if isinstance(problem.regularizer, Prior) else solver
