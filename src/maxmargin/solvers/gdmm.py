"""GDMM: greedy direction method of multipliers over factors (Yen et al. 2016, Algorithm 1).

    repeat:  one pass of exact steps, factor by factor, on the augmented Lagrangian
             multipliers += eta * (what the marginals of neighbouring factors disagree by)

Chains have factors with many labels, whose best one is found among ordered weights (``solvers.gdmm_chain``);
graphs have many factors, few of which are active (``solvers.gdmm_graph``), and sets of labels a weight for
every two of them, among which a joint oracle finds those that should be (``solvers.gdmm_labels``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxmargin.models.chain import ChainExamples
from maxmargin.models.factors import GraphExamples
from maxmargin.problem import Formulation, Problem, Support
from maxmargin.solvers.base import Solver, StepReport, option
from maxmargin.solvers.gdmm_chain import DIRECTIONS, start_chain
from maxmargin.solvers.gdmm_graph import start_graph
from maxmargin.solvers.gdmm_labels import are_labels, start_labels

SEARCHES = ("ordered", "exhaustive")
MOST = 2**31 - 1


def is_count(value: Any) -> bool:
    """Whether a value is a whole number of at least 1 that the core can hold."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return bool(whole and 1 <= value <= MOST)


@dataclass(frozen=True)
class Gdmm(Solver):
    """Greedy direction method of multipliers.

    Parameters
    ----------
    rho : float or None
        Weight of the disagreement of factors, over the loss of a node (on chains: 1) divided by C v_i:
        messages are of the size of a loss. None: 1 on chains, 3 on graphs, 0.5 on sets of labels.
    eta : float or None
        Step of the multipliers, in [0, 1]; 0: none, the soft constraints of Soft-BCFW, whose solution is not
        the optimum. None: 1 on chains and sets of labels, 0.3 on graphs.
    inner : int
        At most so many steps in a visit to a factor; on sets of labels, rounds over the factors of a set.
    partitions : int
        Chains: the labels of a position are searched in one of so many parts at a time.
    search : "ordered" or "exhaustive"
        Chains: the best pair of labels by ordered weights, or by a look at all of them.
    direction : "pairwise", "away" or "frank-wolfe"
        Chains: how the marginals of a factor move: from the worst to the best active label; towards the best
        or away from the worst, whichever is steeper; towards the best.
    grow : int or None
        Graphs: nodes of an example that may leave their true label in one pass; None: one where nodes have
        many links, else all. Sets of labels: labels that may, and as many pairs; None: the larger of 8 and
        a sixteenth of the labels.
    """

    name: ClassVar[str] = "gdmm"
    formulations: ClassVar[tuple[Formulation, ...]] = (Formulation("max", "margin"),)
    honours: ClassVar[tuple[str, ...]] = ()
    models: ClassVar[tuple[str, ...]] = ("Chain", "FactorGraph", "MultiLabel")
    pairwise_optimum: ClassVar[bool] = False
    rho: float | None = None
    eta: float | None = None
    inner: int = 4
    partitions: int = 1
    search: str = "ordered"
    direction: str = "pairwise"
    grow: int | None = None

    def __post_init__(self) -> None:
        option("Gdmm", "search", self.search, SEARCHES)
        option("Gdmm", "direction", self.direction, DIRECTIONS)
        if self.rho is not None:
            option("Gdmm", "rho", self.rho, test=lambda x: 0 < x < np.inf, says="a positive number")
        if self.eta is not None:
            option("Gdmm", "eta", self.eta, test=lambda x: 0 <= x <= 1, says="in [0, 1]")
        for name in ("inner", "partitions", "grow"):
            value = getattr(self, name)
            if not (name == "grow" and value is None):
                option("Gdmm", name, value, test=is_count, says=f"a whole number from 1 to {MOST}")

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> Any:
        examples: Any = problem.examples
        if isinstance(examples, GraphExamples):
            own = (self.partitions, self.search, self.direction)
            if own != (1, "ordered", "pairwise"):
                raise ValueError("Gdmm: partitions, search and direction are for models.Chain")
            begin = start_labels if are_labels(examples) else start_graph
            return begin(problem, tol, rng, self, warm)
        if not isinstance(examples, ChainExamples):
            raise ValueError(
                "solver 'gdmm' needs a model of nodes and edges: models.Chain without a kernel, "
                "models.FactorGraph or models.MultiLabel"
            )
        if self.grow is not None:
            raise ValueError("Gdmm: grow is for models.FactorGraph and models.MultiLabel")
        return start_chain(problem, rng, self, warm)

    def step(self, problem: Problem, state: Any) -> StepReport:
        return state.step(problem)

    def solution(self, problem: Problem, state: Any) -> tuple[np.ndarray, Support]:
        return state.solution(problem)
