"""L-BFGS for the log loss: the usual method to train random fields, here with a certificate.

It works on v, where w = m + L v and R(w) = 1/2 |v|^2 for a prior with mean m and covariance L L':

    F(v) = 1/2 |v|^2 + sum_i mass_i xi_i(w),      grad F = v + L' g,     g = sum_i mass_i (E_p Psi - Psi(y_i))

The distributions p at w are a dual point, so the gradient at any w certifies it:

    P(w) - D(p) = R(w) + R*(-g) + <w, g> = 1/2 |grad F|^2

The direction comes from the last `memory` pairs of changes of v and of the gradient. The step
length meets the strong Wolfe conditions (Nocedal and Wright, Algorithms 7.4 and 3.5; SciPy
implements the latter).
"""

from __future__ import annotations

import warnings
from collections import deque
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import line_search

from maxmargin.formulation import SOFT
from maxmargin.models.registry import SUMS
from maxmargin.problem import Formulation, Problem, Status, Support
from maxmargin.problem.plane import DISTRIBUTIONS
from maxmargin.problem.regularizer import PRIOR, dot
from maxmargin.solvers.base import AT_LEAST_1, Solver, StepReport, option

SOFT_FORMULATIONS = tuple(Formulation(name) for name in SOFT)
DECREASE, CURVATURE = 1e-4, 0.9  # constants of the Wolfe conditions
HALVINGS = 40  # most halvings of a step if the line search fails


@dataclass(frozen=True)
class LBFGS(Solver):
    """L-BFGS.

    Parameters
    ----------
    memory : int
        Number of pairs of changes that are stored.
    """

    name: ClassVar[str] = "lbfgs"
    formulations: ClassVar[tuple[Formulation, ...]] = SOFT_FORMULATIONS
    honours: ClassVar[tuple[str, ...]] = (PRIOR,)
    needs: ClassVar[tuple[str, ...]] = (SUMS,)
    continues_from: ClassVar[tuple[str, ...]] = (DISTRIBUTIONS,)
    memory: int = option(10, AT_LEAST_1)

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> Descent:
        state = Descent(problem, tol, deque(maxlen=self.memory))
        if warm is not None:
            state.v = state.coordinates(weights_at(problem, warm))
        return state

    def step(self, problem: Problem, state: Descent) -> StepReport:
        before = state.evaluations
        moved = state.descend() if state.known else state.evaluate(state.v) is not None
        calls = (state.evaluations - before) * problem.n_blocks
        ended = None if moved else Status.NUMERICAL
        estimate = 0.5 * dot(state.gradient, state.gradient) / problem.total
        dual = state.value - 0.5 * dot(state.gradient, state.gradient)
        return StepReport(calls, estimate, dual, problem.n_blocks, ended=ended)

    def solution(self, problem: Problem, state: Descent) -> tuple[np.ndarray, Support]:
        w = state.weights(state.v)
        return w, posteriors(problem, w)

    def learn(self, problem: Problem, state: Descent, slacks: np.ndarray) -> None:
        """Do nothing: value and gradient are exact."""


def posteriors(problem: Problem, w: np.ndarray) -> Support:
    """Return the distributions of all examples at these weights, as a dual point."""
    everything = np.arange(problem.n_blocks)
    return Support(everything, problem.mass, w, kind=DISTRIBUTIONS)


def weights_at(problem: Problem, point: Support) -> np.ndarray:
    """Return the w of a stored point.

    The point holds w itself, or distributions with the masses that they had; then w follows from q.
    """
    if len(point.multipliers) != problem.n_blocks:
        raise ValueError(
            f"warm_start: the last fit had {len(point.multipliers)} examples, this one has "
            f"{problem.n_blocks}; set warm_start=False, or fit the same examples"
        )
    if point.outputs.dtype == np.float64:
        return point.outputs
    masses = point.multipliers
    _, vector = problem.examples.combine(point.blocks, masses, point.outputs, problem.n_jobs)
    if problem.frozen is not None:
        vector = vector - masses.sum() / problem.mass.sum() * problem.frozen.vector
    return problem.regularizer.law(-vector)


@dataclass
class Descent:
    """The point v, its value and gradient, and the pairs of the last steps."""

    problem: Problem
    tol: float
    pairs: deque[Any]
    v: np.ndarray = field(init=False)
    value: float = np.inf
    gradient: np.ndarray = field(init=False)
    evaluations: int = 0
    last: Any = None  # the last point that was evaluated, its value and its gradient

    def __post_init__(self) -> None:
        self.v = np.zeros(self.problem.dimension)
        self.gradient = np.full(1, np.inf)

    @property
    def known(self) -> bool:
        """Whether value and gradient are known at v."""
        return np.isfinite(self.value)

    @property
    def scale(self) -> Any:
        """L: a number, a vector, or a matrix."""
        return getattr(self.problem.regularizer, "scale", 1.0)

    def weights(self, v: np.ndarray) -> np.ndarray:
        """Return w = m + L v."""
        mean = self.problem.regularizer.mean
        w = self.scale @ v if np.ndim(self.scale) == 2 else self.scale * v
        return w if mean is None else mean + w

    def coordinates(self, w: np.ndarray) -> np.ndarray:
        """Return the v that gives w."""
        r = self.problem.regularizer.centred(w)
        return np.linalg.solve(self.scale, r) if np.ndim(self.scale) == 2 else r / self.scale

    def at(self, v: np.ndarray) -> tuple[float, np.ndarray]:
        """Return F and its gradient; calls at the same v cost one pass together."""
        if self.last is None or not np.array_equal(self.last[0], v):
            self.evaluations += 1
            problem = self.problem
            w = np.ascontiguousarray(self.weights(v))
            risk, g = problem.tilt(w)
            own = self.scale.T @ g if np.ndim(self.scale) == 2 else self.scale * g
            self.last = v, 0.5 * dot(v, v) + risk, v + own
        return self.last[1], self.last[2]

    def evaluate(self, v: np.ndarray) -> Descent:
        """Move to v, and compute value and gradient there."""
        self.v, (self.value, self.gradient) = v, self.at(v)
        return self

    def direction(self) -> np.ndarray:
        """Return - H grad F, by the two loops over the pairs."""
        d, factors = self.gradient.copy(), []
        for s, y, rho in reversed(self.pairs):
            factors.append(rho * dot(s, d))
            d -= factors[-1] * y
        if self.pairs:
            s, y, rho = self.pairs[-1]
            d /= rho * dot(y, y)
        for (s, y, rho), a in zip(self.pairs, reversed(factors), strict=True):
            d += (a - rho * dot(y, d)) * s
        return -d

    def descend(self) -> bool:
        """Make one step; return False if rounding hides any decrease."""
        v, gradient, d = self.v, self.gradient, self.direction()
        steepest = not self.pairs
        if steepest:
            d = d / max(1.0, np.sqrt(dot(gradient, gradient)))
        length = self.searched(d) or self.halved(d)
        if length is None:
            self.pairs.clear()  # the next step follows the gradient
            return not steepest
        self.evaluate(v + length * d)
        s, y = self.v - v, self.gradient - gradient
        if dot(s, y) > 0:
            self.pairs.append((s, y, 1.0 / dot(s, y)))
        return True

    def searched(self, d: np.ndarray) -> float | None:
        """Return a step length along d that meets both Wolfe conditions, or None."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the caller handles a failed search
            return line_search(
                lambda u: self.at(u)[0],
                lambda u: self.at(u)[1],
                self.v,
                d,
                self.gradient,
                self.value,
                c1=DECREASE,
                c2=CURVATURE,
                maxiter=20,
            )[0]

    def halved(self, d: np.ndarray) -> float | None:
        """Return the first of 1, 1/2, 1/4, ... that lowers F enough, or None."""
        slope = dot(self.gradient, d)
        for length in 0.5 ** np.arange(HALVINGS):
            if self.at(self.v + length * d)[0] < self.value + DECREASE * length * slope:
                return float(length)
        return None
