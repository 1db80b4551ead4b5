"""Stochastic gradient for the log loss, with steps 1 / t: the well-known baseline.

    w_t = (1 - 1/t) w_{t-1} + (n / t) mass_i (Psi(y_i) - E_p Psi)

Every pass visits the blocks in a new random order. t starts at t_0 = n `delay` C |x|^2, so that no
step is longer than the curvature of the loss allows. A pass over the data follows each pass of
steps: the value and the gradient there are a certificate, as for ``LBFGS``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from maxmargin._core import core
from maxmargin.models.registry import POTENTIALS
from maxmargin.problem import Formulation, Problem, Support
from maxmargin.problem.regularizer import dot
from maxmargin.solvers.base import ABOVE_0, Snapshot, Solver, StepReport, option, slow
from maxmargin.solvers.exponentiated import STIFFNESS, stiffness
from maxmargin.solvers.lbfgs import SOFT_FORMULATIONS, posteriors, weights_at


@dataclass(frozen=True)
class SGD(Solver):
    """Stochastic gradient.

    Parameters
    ----------
    delay : float
        Sets the length of the first step: 1 / (n delay C |x|^2).
    """

    name: ClassVar[str] = "sgd"
    formulations: ClassVar[tuple[Formulation, ...]] = SOFT_FORMULATIONS
    honours: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[tuple[str, ...]] = (POTENTIALS,)
    continues_from: ClassVar[tuple[str, ...]] = ()
    pairwise_optimum: ClassVar[bool] = False
    advice: ClassVar[str] = slow("sgd")
    delay: float = option(0.25, ABOVE_0)

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> Steps:
        n = len(problem.active)
        first = 1.0 + n * self.delay * stiffness(problem) / STIFFNESS
        data, augmented = problem.examples.core, problem.formulation.augmented
        linear = None if problem.frozen is None else problem.frozen.vector
        made = core.soft_gradient(data, problem.mass, augmented, first, float(n), linear)
        return Steps(made, tol, rng)

    def step(self, problem: Problem, state: Steps) -> StepReport:
        state.core.visit(state.rng.permutation(problem.active))
        w = state.core.weights()
        risk, gradient = problem.tilt(w)
        gradient += w
        gap = 0.5 * dot(gradient, gradient)
        dual = problem.regularizer.value(w) + risk - gap
        return StepReport(2 * problem.n_blocks, gap / problem.total, dual, problem.n_blocks)

    def solution(self, problem: Problem, state: Steps) -> tuple[np.ndarray, Support]:
        w = state.core.weights()
        return w, posteriors(problem, w)

    def resumes(self, problem: Problem) -> bool:
        return True

    def snapshot(self, problem: Problem, state: Steps) -> Snapshot:
        """Return the last w and its t."""
        return Snapshot(*self.solution(problem, state), {"time": np.array([state.core.time])})

    def resume(self, problem: Problem, tol: float, rng: np.random.Generator, at: Snapshot) -> Steps:
        state = self.start(problem, tol, rng)
        state.core.go_on(float(at.array("time", 1)[0]), weights_at(problem, at.support))
        return state

    def learn(self, problem: Problem, state: Steps, slacks: np.ndarray) -> None:
        """Do nothing: w is a plain sum."""


@dataclass
class Steps:
    """The sum of the steps in the core, and the random generator that orders them."""

    core: Any = field(repr=False)
    tol: float
    rng: np.random.Generator = field(repr=False)
