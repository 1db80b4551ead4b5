"""Exponentiated dual ascent for the log loss, block by block, with proximal acceleration: the default.

    D(a) = sum_i mass_i H(a_i) - R*(q),     q = sum_i mass_i (Psi(y_i) - E_{a_i} Psi),    w by the law of q

Every block keeps a distribution a_i over its outputs by the potentials of its parts. A visit moves these
towards the scores at w and keeps the move if the dual rises (cpp/solvers/soft_ascent.hpp); one pass over
the blocks costs one sum over all outputs each. Around it the loop of ``Proximal``: a pass ascends the dual of
P(w) + k/2 |w - z|^2, then the centre moves with momentum, z = w + beta (w - w_previous), and

    P(w) - D(a) = sum_i mass_i KL(a_i || p_w) + k^2 / 2 |w - z|^2.

k falls by `decay` whenever the second term is more than half of the first. Where nothing falls it is halved,
or raised if the second term is far below the first: blocks that undo what others do need a stiffer centre.
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

# Of the first potentials of the true labels, and more by log k for a large first k: with less, the first w is
# too large to recover from.
TRUE_POTENTIAL, MODERATE = 10.0, 10.0
# Times C |x|^2, the first k: measured on OCR letters, CoNLL-2000, USPS and newsgroups.
STIFFNESS = 0.1
# Rows for each weight above which the first k is larger, with their square root: measured on covertype.
AMPLE = 10.0
# A first k above which L-BFGS may be faster. On the bed of benchmarks/crf/rule.py it is 2 to 20 times slower,
# also above this; with noisy labels and few weights (made data) it was 4 times faster at 2000, even at 340.
STIFF = 1000.0
# Where nothing falls: a part of what is left in the blocks below which the proximal term is too weak, and the
# factor on k then.
ADRIFT, STIFFER = 0.05, 4.0
# Factor on the first k of a warm start for another C: with more a path takes more passes, with less blocks
# undo what others do.
NEARER = 0.3
SINGLE_NATS = 1e-4  # nats: a gap that single precision reaches
# Of the potentials and their marginals: more may not fit, and less is solved by L-BFGS in no time.
LEAST_BYTES, MOST_BYTES = 2**17, 2**32


@dataclass(frozen=True)
class Exponentiated(Solver):
    """Exponentiated dual ascent with proximal acceleration.

    Parameters
    ----------
    momentum : float
        beta; 0.7 and more can fail to converge.
    proximity : float
        Factor on the first k; 0 turns the proximal term off.
    decay : float
        k is divided by this when the centre is too far from w.
    care : float
        A block is satisfied once its share of the gap is this part of tol.
    skip : int
        Passes that a satisfied block may miss.
    precision : "auto", "single" or "double"
        Of potentials and of w while it is updated. "auto": single where tol allows it.
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
                f"solver {self.name!r} takes a prior of one scale only; solver='lbfgs' takes any"
            )

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> SoftState:
        single = tol >= SINGLE_NATS if self.precision == "auto" else self.precision == "single"
        # Sums over unknown labels and what they are to be cancel, and single precision with them.
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
        adrift = lag < ADRIFT * ascent  # blocks that undo what others do need a stiffer centre
        state.balance(estimate, ascent, lag, self.decay, STIFFER if adrift else 0.5)
        state.k = min(STIFFEST, state.k)
        return StepReport(state.calls(), estimate, state.dual(), problem.n_blocks)

    def learn(self, problem: Problem, state: SoftState, slacks: np.ndarray) -> None:
        state.refresh()
        state.rest[:] = 0
        state.satisfied_below *= 0.5  # what was skipped adds up to more than expected

    def snapshot(self, problem: Problem, state: SoftState) -> Snapshot:
        return Snapshot(*self.solution(problem, state), {"k": np.array([state.k])})

    def resume(
        self, problem: Problem, tol: float, rng: np.random.Generator, at: Snapshot
    ) -> SoftState:
        state = self.start(problem, tol, rng, at.support)
        state.k = float(at.array("k", 1)[0])
        return state


def one_scale(problem: Problem) -> bool:
    """Whether the regulariser is a shift of w and another C."""
    return not problem.regularizer.asks_for or problem.regularizer.uniform  # type: ignore[attr-defined]


def stiffness(problem: Problem) -> float:
    """STIFFNESS C sum_t |x_t|^2 in the scale of the prior, the mean over the examples."""
    rows, (unit, _) = problem.examples.rows.core, shift_of(problem)  # type: ignore[attr-defined]
    size = float(np.mean(rows.norms())) * rows.n_rows / problem.n_blocks
    return STIFFNESS * unit * problem.total / problem.n_blocks * size


@dataclass
class SoftState(ProximalTerm):
    """Distributions, w, and k."""

    problem: Problem
    satisfied_below: float  # the share of a block
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
        # Passes that a block may still miss.
        self.rest: np.ndarray = np.zeros(problem.n_blocks, dtype=np.int64)

    def visit(self, due: np.ndarray, skip: int) -> float:
        """One pass over some blocks in a fresh order; sum_i mass_i KL(a_i || p_w) as it was last seen."""
        order = self.rng.permutation(due)
        shares, _, _, visited = self.core.visit(order)
        self.visited += visited
        self.shares[order] = shares
        self.rest -= self.rest > 0
        self.rest[order] = np.where(shares <= self.satisfied_below, skip, 0)
        return float(np.einsum("i,i->", self.problem.mass, self.shares))

    def calls(self) -> int:
        """Sums over all outputs since the last call."""
        new, self.reported = self.visited - self.reported, self.visited
        return new

    def dual(self) -> float:
        """D, with q read off the running w."""
        return self.core.dual() / self.unit + self.fixed

    def refresh(self) -> None:
        """w from the distributions, without the rounding that updates have gathered."""
        self.core.rebuild()

    def restore(self, point: Support) -> None:
        """Start from these distributions; for other masses the centre is the w that they had.

        q is linear in the masses, so that it keeps its direction. Distributions that are moved towards the
        truth change it: the terms of common features, which cancel in q, would no longer do so.
        """
        problem, potentials = self.problem, point.outputs
        if potentials.dtype != np.float32:  # these are weights
            answers, augmented = problem.examples.answers, float(problem.formulation.augmented)  # type: ignore[attr-defined]
            potentials = answers.list_potentials(potentials, problem.n_jobs, augmented)
        self.core.read(potentials)
        if self.k > 0 and not np.array_equal(point.multipliers, problem.mass):
            grown = float(problem.mass.sum() / point.multipliers.sum())
            self.k = min(STIFFEST, max(NEARER * self.k, grown))
            self.core.set_center(weights_at(problem, point), self.k)

    def solution(self) -> tuple[np.ndarray, Support]:
        """w as it is, and the distributions."""
        everything = np.arange(self.problem.n_blocks)
        point = Support(everything, self.problem.mass, self.core.write(), kind=DISTRIBUTIONS)
        return self.core.weights(), point
