"""Greedy direction method of multipliers (Yen et al., 2016), for chains with many labels.

The method solves the dual over the marginals q of the factors of each example. A unigram is a
factor of one position, a bigram a factor of two neighbours.

    min_q 1/2 |w(q)|^2 - sum_j <delta_j, q_j>     subject to  M_jf q_f = q_j                     (10)

It is a multiclass problem for each factor, except for the constraints. They tie the two marginals
of a bigram f to the marginals of its positions j. An augmented Lagrangian contains them:

    L(q, lambda) = (10) + rho/2 sum_jf |M_jf q_f - q_j + lambda_jf|^2                             (12)

    repeat (Algorithm 1):
        1. for every factor: put its best label at the gradient of L into its active set, then move
           its marginals along a direction inside the active set by the exact step    (15), (16), (17)
        2. lambda_jf += eta (M_jf q_f - q_j)                                                      (13)

The paper's Algorithm 2 moves all factors at once; its block form is in an appendix that we do not
have. Step 1 applies its rule to one factor after the other, so w and the messages are always up to
date. The direction is a Frank-Wolfe step, an away step or pairwise. Pairwise moves from the worst
to the best label, which combines both.

With `sweeps`, the searches in an example are followed by steps among its active labels, back and
forth. Each sweep follows a step of the example's own multipliers, so messages cross the whole
example at a small part of the cost of a search. If C |psi|^2 is many times the loss, steps of
examples that share features undo each other. Then rounds ascend the dual of P(w) + k/2 |w - z|^2,
whose centre z moves with momentum, as in ``solvers.proximal``.

No step looks at a whole example. The best label of a bigram is found among ordered weights, the
best label of a position by its K scores, or in one of `partitions` parts of them, chosen at random.

The marginals agree only in the limit. For a certificate they are made to agree
(``cpp/solvers/path_decomposition.hpp``) and split into labellings with multipliers: a feasible
point of the ordinary dual. The weights w belong to the marginals before this repair, and an exact
pass finds their primal. Each bound holds on its own. The gap of the factors, each at its own visit,
is several times the gap of the problem. The estimate is a fraction of it, which the last exact pass
has determined.
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
DIRECTIONS = ("pairwise", "away", "frank-wolfe")  # in the order of the core's numbers
# Factor on C |psi|^2 over the loss, for the first k. A smaller one takes more passes.
PROXIMITY = 0.3
# A smaller k is not used: writing all weights once a pass would cost more than it saves.
WORTHWHILE = 0.2
MOMENTUM, DECAY = 0.4, 1.3
BEHIND = 0.5  # k falls if the proximal term makes more than this share of the rest of the gap
# The assumed ratio of the gap to the gap of the factors, until an exact pass measures it; and its
# least value.
TRUST, LEAST_TRUST = 0.25, 0.05


@dataclass(frozen=True, kw_only=True)
class OnChains:
    """The options of this form of ``Gdmm``; ``start`` opens its state."""

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
        """Return whether the form takes this problem, whose examples have its kind of data."""
        return True

    def start(self, problem: Problem, tol: float, rng: np.random.Generator) -> ChainState:
        """Open a state with all mass on the true outputs."""
        if getattr(problem.regularizer, "full", False):
            raise ValueError(
                "solver 'gdmm' does not support a covariance matrix in prior on chains, because a "
                "step of one factor would change every transition and the order in which its "
                "search visits them; give a vector of scales, or use another solver"
            )
        return ChainState(problem, rng, self)


@dataclass(frozen=True, kw_only=True)
class ChainsAsPrinted(OnChains):
    """Algorithm 2 as printed, over all factors at once: ``cpp/solvers/chain_frank_wolfe.hpp``."""

    examples: ClassVar[str] = "chains, as printed"
    continues_from: ClassVar[tuple[str, ...]] = ()  # multipliers do not determine its bases
    rho: float = 1.0
    inner: ClassVar[int] = 1  # type: ignore[misc]
    sweeps: ClassVar[int] = 0  # type: ignore[misc]
    proximity: ClassVar[float] = 0.0  # type: ignore[misc]
    direction: ClassVar[str] = "away"  # type: ignore[misc]

    def start(self, problem: Problem, tol: float, rng: np.random.Generator) -> ChainState:
        prior = problem.regularizer
        if isinstance(prior, Prior) and not prior.uniform:
            raise ValueError("Gdmm: printed=True needs a prior with one scale, and no nonnegative")
        state = super().start(problem, tol, rng)
        state.bases, state.trust = core.ChainFrankWolfe(state.core), 1.0
        return state


@dataclass
class ChainState(UnderPrior):
    """Marginals, messages and w in the core, and the best feasible dual so far."""

    problem: Problem
    rng: np.random.Generator
    options: OnChains
    bases: Any = None  # the state of ``ChainsAsPrinted``, or None

    def __post_init__(self) -> None:
        problem = self.problem
        self.read_prior(problem)
        self.core: Any = core.ChainGdmm(problem.examples.core, self.unit * problem.mass)
        self.set_prior()
        # D with all mass on the true outputs.
        self.dual: float = -problem.regularizer.conjugate(np.zeros(problem.dimension))
        self.rho: float = self.options.rho * len(problem.active) / (self.unit * problem.total)
        # D of the last solution, and R(w) there.
        self.latest = self.dual
        self.value = np.inf
        self.k = self.first_k()
        self.seen = np.inf  # gap of the factors
        self.trust = TRUST

    def first_k(self) -> float:
        """Return the first k of the proximal term; it grows with C |psi|^2 over the loss."""
        if self.options.proximity == 0:
            return 0.0
        k = self.options.proximity * PROXIMITY * self.core.stiffness()
        return min(k, STIFFEST) if k >= WORTHWHILE else 0.0

    def step(self, problem: Problem) -> StepReport:
        """Make a pass over the factors, and a step of the multipliers."""
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
        """Return the proximal term's part of the gap; lower k if it is large compared to `gap`."""
        lag = self.core.lag() if self.k > 0 else 0.0
        if lag > BEHIND * gap:
            self.k /= DECAY
        return lag

    def compare(self, problem: Problem, slacks: np.ndarray) -> None:
        """Update the ratio of the gap to the gap of the factors, after an exact pass."""
        primal = self.value + problem.mass @ slacks
        part = (primal - self.latest) / (problem.total * self.seen)
        if self.bases is None and np.isfinite(part):
            self.trust = float(np.clip(part, LEAST_TRUST, 1.0))

    def refresh(self) -> None:
        """Recompute w without accumulated rounding."""
        self.core.rebuild()

    def solution(self, problem: Problem) -> tuple[np.ndarray, Support]:
        """Return the current w, and labellings with multipliers that are near the marginals."""
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
