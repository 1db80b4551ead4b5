"""Exponentiated dual ascent for the log loss, block by block, with proximal acceleration: the default.

    D(a) = sum_i mass_i H(a_i) - R*(q),     q = sum_i mass_i (Psi(y_i) - E_{a_i} Psi),    w by the law of q

Every block keeps a distribution a_i over its outputs as potentials of its parts. A visit moves the
potentials towards the scores at w and keeps the move if the dual rises
(cpp/solvers/soft_ascent.hpp). A pass costs one sum over all outputs for each block. The outer loop
is the same as in ``Proximal``. A pass ascends the dual of P(w) + k/2 |w - z|^2. Then the centre
moves with momentum, z = w + beta (w - w_previous). The gap has two terms:

    P(w) - D(a) = sum_i mass_i KL(a_i || p_w) + k^2 / 2 |w - z|^2.

k is divided by `decay` whenever the second term is more than half of the first. If the gap stalls,
k is halved. If the second term is then far below the first, k is raised instead, because blocks
that undo each other's moves need a stronger proximal term.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from maxmargin._core import core
from maxmargin.data.arrays import among
from maxmargin.models.registry import POTENTIALS
from maxmargin.problem import Formulation, Problem, Support
from maxmargin.problem.plane import DISTRIBUTIONS
from maxmargin.problem.regularizer import PRIOR
from maxmargin.solvers.base import (
    ABOVE_1,
    BELOW_1,
    NOT_NEGATIVE,
    SHARE,
    Snapshot,
    Solver,
    StepReport,
    option,
)
from maxmargin.solvers.box_state import tilted_by_plane
from maxmargin.solvers.dual_state import PRECISIONS, shift_of
from maxmargin.solvers.lbfgs import SOFT_FORMULATIONS, weights_at
from maxmargin.solvers.proximal import STIFFEST, ProximalTerm

# The first potential of the true labels; it is raised by log(k / MODERATE) if the first k is large.
# If it is smaller, the first w is too large to recover from.
TRUE_POTENTIAL, MODERATE = 10.0, 10.0
# Factor on C |x|^2 that gives the first k.
STIFFNESS = 0.1
# Number of rows per weight above which the first k grows, with the square root of the ratio.
AMPLE = 10.0
# "auto" chooses L-BFGS if the first k is above this. A larger limit risks slow training on noisy
# labels with few weights.
STIFF = 1000.0
# If the gap stalls and the proximal part of the gap is below ADRIFT times the rest, the proximal
# term is too weak, and k is multiplied by STIFFER.
ADRIFT, STIFFER = 0.05, 4.0
# Factor on the first k of a warm start for another C. If it is larger, a path takes more passes; if
# smaller, blocks undo each other's moves.
NEARER = 0.3
SINGLE_NATS = 1e-4  # smallest gap, in nats, that single precision reaches
# "auto" uses this solver if potentials and marginals take this many bytes. Above the maximum they
# may not fit in memory; below the minimum L-BFGS is fast.
LEAST_BYTES, MOST_BYTES = 2**17, 2**32


@dataclass(frozen=True)
class Exponentiated(Solver):
    """Exponentiated dual ascent with proximal acceleration.

    Parameters
    ----------
    momentum : float
        The factor beta; training can fail to converge at 0.7 and above.
    proximity : float
        Factor on the first k; 0 turns the proximal term off.
    decay : float
        k is divided by this when the centre is too far from w.
    care : float
        A block is satisfied once its part of the gap is below this fraction of tol.
    skip : int
        Number of passes that a satisfied block may miss.
    precision : "auto", "single" or "double"
        Precision of potentials, and of w while it is updated. "auto": single if tol allows it.
    """

    name: ClassVar[str] = "exponentiated"
    formulations: ClassVar[tuple[Formulation, ...]] = SOFT_FORMULATIONS
    honours: ClassVar[tuple[str, ...]] = (PRIOR,)
    needs: ClassVar[tuple[str, ...]] = (POTENTIALS,)
    continues_from: ClassVar[tuple[str, ...]] = (DISTRIBUTIONS,)
    thresholds: ClassVar[tuple[str, ...]] = ("satisfied_below",)
    momentum: float = option(0.4, BELOW_1)
    proximity: float = option(1.0, NOT_NEGATIVE)
    decay: float = option(1.3, ABOVE_1)
    care: float = option(0.3, SHARE)
    skip: int = option(1, NOT_NEGATIVE)
    precision: str = option("auto", among(*PRECISIONS))

    @classmethod
    def suits(cls, problem: Problem) -> bool:
        examples: Any = problem.examples
        kept = 8 * examples.answers.potentials  # bytes: with their marginals, in single precision
        fits = one_scale(problem) and LEAST_BYTES <= kept <= MOST_BYTES
        return fits and stiffness(problem) <= STIFF

    def check(self, problem: Problem, warm: Support | None = None) -> None:
        super().check(problem, warm)
        if not one_scale(problem):
            raise ValueError(
                f"solver {self.name!r} needs a prior with one scale; use solver='lbfgs', which "
                "takes any"
            )

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> SoftState:
        single = tol >= SINGLE_NATS if self.precision == "auto" else self.precision == "single"
        # The sums over unknown labels and over their targets nearly cancel, and single precision
        # would lose the rest.
        single = single and (problem.frozen is None or not problem.frozen.vector.any())
        state = SoftState(problem, self.care * tol, rng, single)
        rows = problem.examples.rows.core.n_rows / problem.dimension  # type: ignore[attr-defined]
        ample = max(1.0, float(np.sqrt(rows / AMPLE)))
        state.k = min(STIFFEST, self.proximity * stiffness(problem) * ample)
        if warm is not None:
            state.restore(warm)
        state.refresh()
        return state

    def step(self, problem: Problem, state: SoftState) -> StepReport:
        if state.k > 0:
            state.core.recenter(self.momentum, state.k)
        ascent = state.visit(problem.active[state.rest[problem.active] == 0], self.skip)
        lag = 0.5 * state.core.proximity**2 * state.core.squared_distance() / state.unit
        estimate = (ascent + lag) / problem.total
        adrift = lag < ADRIFT * ascent  # blocks undo each other's moves: a larger k helps
        state.balance(estimate, ascent, lag, self.decay, STIFFER if adrift else 0.5)
        state.k = min(STIFFEST, state.k)
        return StepReport(state.calls(), estimate, state.dual(), problem.n_blocks)

    def learn(self, problem: Problem, state: SoftState, slacks: np.ndarray) -> None:
        state.refresh()
        state.rest[:] = 0
        state.satisfied_below *= 0.5  # the parts of skipped blocks add up to more than expected

    def snapshot(self, problem: Problem, state: SoftState) -> Snapshot:
        return Snapshot(*self.solution(problem, state), {"k": np.array([state.k])})

    def resume(
        self, problem: Problem, tol: float, rng: np.random.Generator, at: Snapshot
    ) -> SoftState:
        state = self.start(problem, tol, rng, at.support)
        state.k = float(at.array("k", 1)[0])
        return state


def one_scale(problem: Problem) -> bool:
    """Return whether the regulariser is only a shift of w and another C."""
    return not problem.regularizer.asks_for or problem.regularizer.uniform  # type: ignore[attr-defined]


def stiffness(problem: Problem) -> float:
    """Return STIFFNESS C sum_t |x_t|^2, the mean over the examples, in the scale of the prior."""
    rows, (unit, _) = problem.examples.rows.core, shift_of(problem)  # type: ignore[attr-defined]
    size = float(np.mean(rows.norms())) * rows.n_rows / problem.n_blocks
    return STIFFNESS * unit * problem.total / problem.n_blocks * size


@dataclass
class SoftState(ProximalTerm):
    """The distributions and w in the core, and the weight k of the proximal term."""

    problem: Problem
    satisfied_below: float  # threshold for a block's part of the gap
    rng: np.random.Generator = field(repr=False)
    single: bool
    k: float = 0.0
    least: float = np.inf
    stalled: int = 0
    reported: int = 0
    core: Any = field(init=False, repr=False)
    unit: float = field(init=False)
    mean: np.ndarray | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        problem = tilted_by_plane(self.problem)
        self.fixed: float = 0.0 if problem.frozen is None else problem.frozen.offset
        self.unit, self.mean = shift_of(problem)
        height = TRUE_POTENTIAL + max(0.0, np.log(max(stiffness(problem), 1.0) / MODERATE))
        self.core = core.soft_ascent(
            problem.examples.core,
            self.unit * problem.mass,
            problem.formulation.augmented,
            float(height),
            self.single,
            problem.n_jobs,
        )
        if self.mean is not None:
            self.core.set_origin(self.mean)
        self.visited: int = 0
        self.shares: np.ndarray = np.zeros(problem.n_blocks)
        # Number of passes that each block may still miss.
        self.rest: np.ndarray = np.zeros(problem.n_blocks, dtype=np.int64)

    def visit(self, due: np.ndarray, skip: int) -> float:
        """Make a pass over some blocks in a random order; return sum_i mass_i KL(a_i || p_w) as last seen."""
        order = self.rng.permutation(due)
        shares, _, _, visited = self.core.visit(order)
        self.visited += visited
        self.shares[order] = shares
        self.rest -= self.rest > 0
        self.rest[order] = np.where(shares <= self.satisfied_below, skip, 0)
        return float(np.einsum("i,i->", self.problem.mass, self.shares))

    def calls(self) -> int:
        """Return the number of sums over all outputs since the last call."""
        new, self.reported = self.visited - self.reported, self.visited
        return new

    def dual(self) -> float:
        """Return D, with q taken from the running w."""
        return self.core.dual() / self.unit + self.fixed

    def refresh(self) -> None:
        """Recompute w from the distributions, without accumulated rounding."""
        self.core.rebuild()

    def restore(self, point: Support) -> None:
        """Start from these distributions.

        If the masses differ, the centre is the w of the old masses. q is linear in the masses, so
        this keeps its direction. Moving the distributions towards the truth instead would change
        it: the terms of common features, which cancel in q, would no longer cancel.
        """
        problem, potentials = self.problem, point.outputs
        if potentials.dtype != np.float32:  # the point is given by weights
            answers, augmented = problem.examples.answers, float(problem.formulation.augmented)  # type: ignore[attr-defined]
            potentials = answers.list_potentials(potentials, problem.n_jobs, augmented)
        self.core.read(potentials)
        if self.k > 0 and not np.array_equal(point.multipliers, problem.mass):
            grown = float(problem.mass.sum() / point.multipliers.sum())
            self.k = min(STIFFEST, max(NEARER * self.k, grown))
            self.core.set_center(weights_at(problem, point), self.k)

    def solution(self) -> tuple[np.ndarray, Support]:
        """Return the current w and the distributions."""
        everything = np.arange(self.problem.n_blocks)
        point = Support(everything, self.problem.mass, self.core.write(), kind=DISTRIBUTIONS)
        return self.core.weights(), point
