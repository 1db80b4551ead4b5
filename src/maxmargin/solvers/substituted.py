"""Solvers on a problem with a prior.

Dual states have the metric of the prior and its bounds in them (``cpp/solvers/metric.hpp``): their solvers
work in w. For solvers that keep sums of planes, and for priors that are a shift and another C, there is the
plain problem in u, and the answers are told in w.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.problem import Problem, Support
from maxmargin.problem.regularizer import Prior
from maxmargin.problem.substitution import Standard, shifts, standard
from maxmargin.solvers.base import Solver, StepReport
from maxmargin.solvers.free import FreeSolver
from maxmargin.solvers.subgradient import Subgradient


@dataclass
class SubstitutedState:
    """The plain problem, and the solver's state on it."""

    standard: Standard
    inner: Any

    def take_mean(self, prior: Prior) -> bool:
        """Go on with another mean; False where the scales are others, so that nothing kept is of use."""
        examples: Any = self.standard.problem.examples
        if not np.array_equal(examples.L, prior.scale):
            return False
        assert prior.mean is not None
        self.inner.move((prior.mean - examples.mean) / examples.L)
        examples.mean = prior.mean
        return True


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
        return SubstitutedState(plain, self.solver.start(plain.problem, tol, rng, warm))

    def step(self, problem: Problem, state: SubstitutedState) -> StepReport:
        report = self.solver.step(state.standard.problem, state.inner)
        return replace(report, dual=report.dual / state.standard.unit)

    def solution(self, problem: Problem, state: SubstitutedState) -> tuple[np.ndarray, Support]:
        u, support = self.solver.solution(state.standard.problem, state.inner)
        return state.standard.weights(u), state.standard.support(support)

    def reduced_gap(self, problem: Problem, state: SubstitutedState) -> float | None:
        return self.solver.reduced_gap(state.standard.problem, state.inner)

    def learn(self, problem: Problem, state: SubstitutedState, slacks: np.ndarray) -> None:
        self.solver.learn(state.standard.problem, state.inner, slacks)


def fitted_to(problem: Problem, solver: Solver) -> Solver:
    """The solver for this problem: itself, or with the substitution that the prior asks for."""
    missing = [name for name in problem.regularizer.needs if name not in solver.honoured()]
    if missing:
        raise ValueError(f"solver {solver.name!r} does not honour {' and '.join(missing)}")
    prior = problem.regularizer
    if not isinstance(prior, Prior):
        return solver
    if prior.free is not None:
        if isinstance(solver, Subgradient):
            raise ValueError("solver 'subgradient' does not take infinite scales of a prior")
        return FreeSolver(solver if solver.keeps_states else SubstitutedSolver(solver))
    return solver if solver.keeps_states and not shifts(problem) else SubstitutedSolver(solver)
