"""Greedy direction method of multipliers (Yen et al., 2016), for chains with many labels.

The dual over the marginals q of the factors of each example (unigrams: a position; bigrams: neighbours),

    min_q 1/2 |w(q)|^2 - sum_j <delta_j, q_j>     subject to  M_jf q_f = q_j                     (10)

is a multiclass problem for each factor, but for the constraints, which tie the two marginals of a bigram
f to those of its positions j. They go into an augmented Lagrangian,

    L(q, lambda) = (10) + rho/2 sum_jf |M_jf q_f - q_j + lambda_jf|^2                             (12)

    repeat (Algorithm 1):
        1. for every factor: put its best label at the gradient of L into its active set, then move
           mass from the worst to the best active label by the exact step                 (15), (16), (17)
        2. lambda_jf += eta (M_jf q_f - q_j)                                                      (13)

The paper's Algorithm 2 moves all factors at once; its block form is in an appendix that we do not have,
and step 1 is our own: pairwise steps, each exact, in one factor after the other, so that w and the
messages are always those of now. No step looks at a whole example: the best label of a bigram is found
among ordered weights, that of a position by its K scores, or in one of `partitions` parts of them, chosen
at random.

The marginals agree only in the limit. For a certificate they are made to agree
(``cpp/solvers/path_decomposition.hpp``) and split into labellings with multipliers: a feasible point of
the ordinary dual. w is that of the marginals as they are, and its primal is found by an exact pass: each
bound holds on its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxmargin._core import core
from maxmargin.problem import Formulation, Problem, Support
from maxmargin.problem.regularizer import dot
from maxmargin.solvers.base import Solver, StepReport, option

SEARCHES = ("ordered", "exhaustive")


@dataclass(frozen=True)
class Gdmm(Solver):
    """Greedy direction method of multipliers.

    Parameters
    ----------
    rho : float
        Weight of the disagreement of factors, in units of 1 / (C mean v): messages are of the size of a loss.
    eta : float
        Step of the multipliers, in (0, 1].
    inner : int
        At most so many steps in a visit to a factor.
    partitions : int
        The labels of a position are searched in one of so many parts at a time.
    search : "ordered" or "exhaustive"
        The best pair of labels by ordered weights, or by a look at all of them.
    """

    name: ClassVar[str] = "gdmm"
    formulations: ClassVar[tuple[Formulation, ...]] = (Formulation("max", "margin"),)
    honours: ClassVar[tuple[str, ...]] = ()
    models: ClassVar[tuple[str, ...]] = ("Chain",)
    pairwise_optimum: ClassVar[bool] = False
    rho: float = 1.0
    eta: float = 1.0
    inner: int = 4
    partitions: int = 1
    search: str = "ordered"

    def __post_init__(self) -> None:
        option("Gdmm", "search", self.search, SEARCHES)
        option("Gdmm", "rho", self.rho, test=lambda x: 0 < x < np.inf, says="a positive number")
        option("Gdmm", "eta", self.eta, test=lambda x: 0 < x <= 1, says="in (0, 1]")
        for name in ("inner", "partitions"):
            value = getattr(self, name)
            option("Gdmm", name, value, test=lambda x: x == int(x) >= 1, says="a whole number >= 1")

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> GdmmState:
        examples: Any = problem.examples
        if getattr(examples, "kind", None) != "Chain" or examples.kernelised:
            raise ValueError(
                "solver 'gdmm' is for models.Chain without a kernel; use 'auto' for this model"
            )
        state = GdmmState(problem, rng, core.ChainGdmm(examples.core, problem.mass))
        if warm is not None:
            state.restore(warm)
        return state

    def step(self, problem: Problem, state: GdmmState) -> StepReport:
        order = state.rng.permutation(problem.active)
        rho = self.rho * len(problem.active) / problem.total
        _, _, violation = state.core.greedy_pass(  # 1.
            order,
            rho,
            self.inner,
            self.partitions,
            self.search == "exhaustive",
            int(state.rng.integers(2**63)),
        )
        disagreement = rho * state.core.disagreement()
        state.core.update_multipliers(self.eta)  # 2.
        estimate = (violation + disagreement) / problem.total
        return StepReport(len(order), estimate, state.dual, state.core.active)

    def solution(self, problem: Problem, state: GdmmState) -> tuple[np.ndarray, Support]:
        return state.core.weights(), state.feasible()

    def learn(self, problem: Problem, state: GdmmState, slacks: np.ndarray) -> None:
        """Remove the rounding that the updates of w have gathered."""
        state.core.rebuild()


class GdmmState:
    """Marginals, messages and w in the core; the best feasible dual that was seen."""

    def __init__(self, problem: Problem, rng: np.random.Generator, state: Any):
        self.problem, self.rng, self.core = problem, rng, state
        self.dual = 0.0  # of all mass on the true outputs

    def feasible(self) -> Support:
        """Labellings with multipliers near the marginals."""
        support = Support(*self.core.support())
        offset, vector = self.problem.examples.combine(
            support.blocks, support.multipliers, support.outputs
        )
        self.dual = max(self.dual, offset - 0.5 * dot(vector, vector))
        return support

    def restore(self, support: Support) -> None:
        """Start from these multipliers."""
        point = support.rescaled(self.problem.mass)
        examples: Any = self.problem.examples
        if not examples.knows(point.outputs, point.blocks):
            raise ValueError("warm_start: the last fit had other labels; set warm_start=False")
        outputs = np.ascontiguousarray(point.outputs, dtype=np.int32)
        self.core.restore(point.blocks, point.multipliers, outputs)
