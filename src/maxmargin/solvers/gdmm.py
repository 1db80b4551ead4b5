"""GDMM: greedy direction method of multipliers over factors (Yen et al. 2016, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.problem import Formulation, Problem, Support
from maxmargin.solvers.base import Solver, StepReport, option
from maxmargin.solvers.gdmm_graph import GraphState, start_graph, step_graph


@dataclass(frozen=True)
class Gdmm(Solver):
    """Block steps on the factors of a graph, tied by multipliers.

    Parameters
    ----------
    rho : float or None
        Weight of the penalty on factors that disagree, in units of the loss of a node over C v_i; None: 3.
    eta : float or None
        Step of the multipliers, as a part of the disagreement; 0: none, the soft constraints of Soft-BCFW,
        whose solution is not the optimum; None: 0.3.
    inner : int
        At most so many steps in a visit to a factor.
    grow : int or None
        Nodes of an example that may leave their true label in one pass; None: one where nodes have many
        links, else all.
    """

    name: ClassVar[str] = "gdmm"
    formulations: ClassVar[tuple[Formulation, ...]] = (Formulation("max", "margin"),)
    honours: ClassVar[tuple[str, ...]] = ()
    rho: float | None = None
    eta: float | None = None
    inner: int = 4
    grow: int | None = None

    def __post_init__(self) -> None:
        if self.rho is not None:
            option(
                "Gdmm", "rho", self.rho, test=lambda x: 0 < x < np.inf, says="positive and finite"
            )
        if self.eta is not None:
            option("Gdmm", "eta", self.eta, test=lambda x: 0 <= x <= 1, says="in [0, 1]")
        option(
            "Gdmm", "inner", self.inner, test=lambda x: x == int(x) >= 1, says="a whole number >= 1"
        )
        whole = isinstance(self.grow, int | np.integer) and not isinstance(self.grow, bool)
        if self.grow is not None and (not whole or self.grow < 1):
            raise ValueError(
                f"Gdmm: grow must be None or a whole number of at least 1, got {self.grow!r}"
            )

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> GraphState:
        if not hasattr(problem.examples, "relaxed"):
            raise ValueError(
                "solver 'gdmm' needs a model of nodes and edges: models.FactorGraph or models.MultiLabel"
            )
        return start_graph(problem, tol, rng, self, warm)

    def step(self, problem: Problem, state: GraphState) -> StepReport:
        return step_graph(problem, state)

    def solution(self, problem: Problem, state: GraphState) -> tuple[np.ndarray, Support]:
        support = state.support(problem)
        _, vector = problem.examples.combine(support.blocks, support.multipliers, support.outputs)
        return -vector, support
