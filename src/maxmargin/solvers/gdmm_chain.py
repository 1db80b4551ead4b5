"""Greedy direction method of multipliers (Yen et al., 2016), for chains with many labels.

The dual over the marginals q of the factors of each example (unigrams: a position; bigrams: neighbours),

    min_q 1/2 |w(q)|^2 - sum_j <delta_j, q_j>     subject to  M_jf q_f = q_j                     (10)

is a multiclass problem for each factor, except for the constraints, which tie the two marginals of a bigram
f to those of its positions j. They go into an augmented Lagrangian,

    L(q, lambda) = (10) + rho/2 sum_jf |M_jf q_f - q_j + lambda_jf|^2                             (12)

    repeat (Algorithm 1):
        1. for every factor: put its best label at the gradient of L into its active set, then move its
           marginals along a direction inside the active set by the exact step            (15), (16), (17)
        2. lambda_jf += eta (M_jf q_f - q_j)                                                      (13)

The paper's Algorithm 2 moves all factors at once; its block form is in an appendix that we do not have.
Step 1 is its rule for one factor after the other, so that w and the messages are always those of now; the
direction is that of Frank-Wolfe, of its away steps, or pairwise, from the worst to the best label, which
is both at once. With `sweeps` the searches in an example are followed by steps among its active labels,
back and forth, each sweep after a step of the example's own multipliers: messages travel over the whole
example at a small part of what a search costs. Where C |psi|^2 is many times the loss, steps of examples that
share features undo each other: then rounds ascend the dual of P(w) + k/2 |w - z|^2, whose centre z moves with
momentum, as in ``solvers.proximal``. No step looks at a whole example: the best label of a bigram is found
among ordered weights, that of a position by its K scores, or in one of `partitions` parts of them, chosen
at random.

The marginals agree only in the limit. For a certificate they are made to agree
(``cpp/solvers/path_decomposition.hpp``) and split into labellings with multipliers: a feasible point of
the ordinary dual. w is that of the marginals as they are, and its primal is found by an exact pass: each
bound holds on its own. The gap of the factors, each at its own visit, is several times that of the problem:
the estimate is a part of it, as much as the last exact pass has found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxmargin._core import core
from maxmargin.problem import Problem, Support
from maxmargin.problem.plane import PLANES
from maxmargin.problem.regularizer import Prior
from maxmargin.solvers.base import StepReport
from maxmargin.solvers.dual_state import UnderPrior, known_outputs
from maxmargin.solvers.proximal import STIFFEST

SEARCHES = ("ordered", "exhaustive")
DIRECTIONS = ("pairwise", "away", "frank-wolfe")  # numbered as in the core
# Of C |psi|^2 over the loss: the first k. On OCR letters (lambda 0.01) a tenth of it takes 1.5 times as many
# passes.
PROXIMITY = 0.3
WORTHWHILE = 0.2  # k below this is not used: all weights would be written once a pass for nothing
MOMENTUM, DECAY = 0.4, 1.3
BEHIND = 0.5  # of the other terms of the estimate: where the proximal term has more, k falls
# The gap over the gap of the factors, before an exact pass has told; and at least.
TRUST, LEAST_TRUST = 0.25, 0.05


@dataclass(frozen=True, kw_only=True)
class OnChains:
    """The options of this form of ``Gdmm``, and its start."""

    examples: ClassVar[str] = "chains"
    data: ClassVar[Any] = core.ChainData
    continues_from: ClassVar[tuple[str, ...]] = (PLANES,)
    rho: float = 0.5
    eta: float = 1.0
    sweeps: int
    proximity: float
    inner: int
    partitions: int
    search: str
    direction: str

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Whether it takes this problem, whose examples are of its kind of data."""
        return True

    def start(self, problem: Problem, tol: float, rng: np.random.Generator) -> ChainState:
        """All mass on the true outputs."""
        if getattr(problem.regularizer, "full", False):
            raise ValueError(
                "solver 'gdmm' on chains takes no covariance matrix: a step of one factor would change "
                "every transition, whose order its search lives on; give a vector of scales, or use "
                "another solver"
            )
        return ChainState(problem, rng, self)


@dataclass(frozen=True, kw_only=True)
class ChainsAsPrinted(OnChains):
    """Algorithm 2 as printed, over all factors at once: ``cpp/solvers/chain_frank_wolfe.hpp``."""

    examples: ClassVar[str] = "chains, as printed"
    continues_from: ClassVar[tuple[str, ...]] = ()  # its bases are not known from multipliers
    rho: float = 1.0
    inner: ClassVar[int] = 1  # type: ignore[misc]
    sweeps: ClassVar[int] = 0  # type: ignore[misc]
    proximity: ClassVar[float] = 0.0  # type: ignore[misc]
    direction: ClassVar[str] = "away"  # type: ignore[misc]

    def start(self, problem: Problem, tol: float, rng: np.random.Generator) -> ChainState:
        prior = problem.regularizer
        if isinstance(prior, Prior) and not prior.uniform:
            raise ValueError(
                "Gdmm: printed=True takes a prior of one scale only, and no nonnegative"
            )
        state = super().start(problem, tol, rng)
        state.bases, state.trust = core.ChainFrankWolfe(state.core), 1.0
        return state


@dataclass
class ChainState(UnderPrior):
    """Marginals, messages and w in the core; the best feasible dual that was seen."""

    problem: Problem
    rng: np.random.Generator
    options: OnChains
    bases: Any = None  # of steps over all factors at once

    def __post_init__(self) -> None:
        problem = self.problem
        self.read_prior(problem)
        self.core: Any = core.ChainGdmm(problem.examples.core, self.unit * problem.mass)
        self.set_prior()
        # of all mass on the true outputs
        self.dual: float = -problem.regularizer.conjugate(np.zeros(problem.dimension))
        self.rho: float = self.options.rho * len(problem.active) / (self.unit * problem.total)
        self.latest = self.dual  # of the last solution, and R(w) of it
        self.value = np.inf
        self.k = self.first_k()
        self.seen = np.inf  # the gap of the factors
        self.trust = TRUST

    def first_k(self) -> float:
        """Of the proximal term, as stiff as the problem is."""
        if self.options.proximity == 0:
            return 0.0
        k = self.options.proximity * PROXIMITY * self.core.stiffness()
        return min(k, STIFFEST) if k >= WORTHWHILE else 0.0

    def step(self, problem: Problem) -> StepReport:
        """One pass over the factors, and one step of the multipliers."""
        options = self.options
        order = self.rng.permutation(problem.active)
        exhaustive = options.search == "exhaustive"
        if self.k > 0:
            self.core.recenter(MOMENTUM, self.k)
        if self.bases is not None:
            gap = self.bases.greedy_pass(self.rho, options.partitions, exhaustive)[2]
        else:
            gap = self.core.greedy_pass(  # 1.
                order,
                self.rho,
                options.inner,
                options.partitions,
                exhaustive,
                DIRECTIONS.index(options.direction),
                int(self.rng.integers(2**63)),
                options.sweeps,
                options.eta,
            )[2]
        gap += self.rho * self.core.update_multipliers(options.eta)  # 2.
        self.seen = (gap + self.lag(gap)) / (self.unit * problem.total)
        return StepReport(len(order), self.trust * self.seen, self.dual, self.core.active)

    def lag(self, gap: float) -> float:
        """What the proximal term adds to this gap; where that is much, k falls."""
        lag = self.core.lag() if self.k > 0 else 0.0
        if lag > BEHIND * gap:
            self.k /= DECAY
        return lag

    def compare(self, problem: Problem, slacks: np.ndarray) -> None:
        """How much of the gap of the factors is the gap of the problem, by what an exact pass found."""
        primal = self.value + problem.mass @ slacks
        part = (primal - self.latest) / (problem.total * self.seen)
        if self.bases is None and np.isfinite(part):
            self.trust = float(np.clip(part, LEAST_TRUST, 1.0))

    def refresh(self) -> None:
        """Remove the rounding that the updates of w have gathered."""
        self.core.rebuild()

    def solution(self, problem: Problem) -> tuple[np.ndarray, Support]:
        """w as it is, and labellings with multipliers near the marginals."""
        support = Support(*self.core.support()).times(1 / self.unit)
        offset, vector = problem.examples.combine(
            support.blocks, support.multipliers, support.outputs
        )
        self.latest = offset - problem.regularizer.conjugate(-vector)
        self.dual = max(self.dual, self.latest)
        w = self.core.weights()
        self.value = problem.regularizer.value(w)
        return w, support

    def restore(self, support: Support) -> None:
        """Start from these multipliers."""
        point = support.rescaled(self.problem.mass).times(self.unit)
        self.core.restore(point.blocks, point.multipliers, known_outputs(self.problem, point))
