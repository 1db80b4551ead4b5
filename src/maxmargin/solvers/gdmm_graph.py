"""GDMM on factor graphs: nodes and links are blocks, tied by multipliers (Yen et al., Algorithms 1 and 3).

    maximise  D(p, q) = sum Delta p - 1/2 |w|^2   over marginals p of nodes, q of links, with M q = p
    each pass:  for each example                                                     Algorithm 3
                  the nodes that gain most become active                             lines 1, 2
                  for each active node and link: a step of
                      D - rho/2 sum |M q - p + z|^2                                  (12), line 3
                  z += eta (M q - p)                                                 Algorithm 1, line 2

On forests the marginals are marginals of labellings, and the optimum is the optimum of the
structural SVM. On graphs with cycles it is the optimum of the linear relaxation (5), an upper
bound. The certificate says which one it is.

The iterates are consistent in the limit only. A certificate keeps the marginals of the nodes and
repairs the links: excess mass in rows and columns is scaled down, and missing mass is added. The
repaired point is feasible, so its D is a bound, and w is computed from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxmargin._core import core
from maxmargin.models.cliques import NEVER_TOGETHER
from maxmargin.models.marginals import Marginals
from maxmargin.problem import Problem, Support
from maxmargin.problem.plane import MARGINALS
from maxmargin.solvers.base import StepReport
from maxmargin.solvers.dual_state import UnderPrior, shift_of

DENSE = 4  # a graph with more links per node is dense: one node becomes active at a visit
# Fraction of tol: if all nodes of an example together gain less, they do not move.
LITTLE_GAIN = 0.1


@dataclass
class GraphState(UnderPrior):
    """Marginals in the core, and the repaired point of the last pass."""

    problem: Problem
    core: Any
    rng: np.random.Generator
    tolerance: float
    options: OnGraphs
    # D, w and multipliers after the last pass
    repaired: tuple[float, np.ndarray, Support] | None = None

    def __post_init__(self) -> None:
        self.read_prior(self.problem)
        self.set_prior()

    def step(self, problem: Problem) -> StepReport:
        """Make one pass."""
        order = self.rng.permutation(problem.active)
        self.repaired = None
        report = self.core.visit(order, self.tolerance, *self.visit_options())
        calls, _, violation, inconsistent = report
        estimate = (violation + inconsistent) / (self.unit * problem.total)
        planes = self.core.active_nodes + self.core.active_links
        return StepReport(calls, estimate, self.dual(problem), planes)

    def visit_options(self) -> tuple[Any, ...]:
        """Return the further arguments for the visits of the core."""
        return ()

    def dual(self, problem: Problem) -> float:
        """Return D of a consistent point near the marginals."""
        return self.repair(problem)[0]

    def solution(self, problem: Problem) -> tuple[np.ndarray, Support]:
        """Return the w of the repaired marginals, and these marginals."""
        return self.repair(problem)[1:]

    def repair(self, problem: Problem) -> tuple[float, np.ndarray, Support]:
        """Return D, w and the multipliers of a consistent point, computed once after a pass."""
        if self.repaired is None:
            support = self.trimmed(problem)
            offset, vector = problem.examples.combine(
                support.blocks, support.multipliers, support.outputs
            )
            dual = offset - problem.regularizer.conjugate(-vector)
            self.repaired = dual, problem.regularizer.law(-vector), support
        return self.repaired

    def trimmed(self, problem: Problem) -> Support:
        """Return the multipliers of a consistent point, with one plane per block."""
        relaxed = problem.examples.relaxed  # type: ignore[attr-defined]
        mass, outputs = problem.mass[problem.active], Marginals(*self.core.repaired())
        return Support(problem.active, mass, outputs, kind=MARGINALS, relaxed=relaxed)

    def refresh(self) -> None:
        """Recompute w without accumulated rounding."""
        self.core.refresh()

    def restore(self, support: Support) -> None:
        """Start from the marginals of the last fit."""
        point = support.rescaled(self.problem.mass)
        self.problem.dual_objective(point)  # raises ValueError for marginals of other graphs
        self.core.restore(*point.outputs.arrays)


@dataclass(frozen=True, kw_only=True)
class OnGraphs:
    """The options of this form of ``Gdmm``; ``start`` opens its state."""

    examples: ClassVar[str] = "graphs"
    data: ClassVar[Any] = core.FactorGraphData
    continues_from: ClassVar[tuple[str, ...]] = (MARGINALS,)
    kind: ClassVar[Any] = core.FactorGraphGdmm
    state: ClassVar[type[GraphState]] = GraphState
    weightless: ClassVar[float] = 0.0  # rho of an example without mass or loss
    # All small graphs that were tried converge with these values. A step of 1 fails if many links
    # meet at a node.
    rho: float = 3.0
    eta: float = 0.3
    inner: int
    grow: int | None = None

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Return whether the form takes this problem, whose examples have its kind of data."""
        return True

    def growth(self, examples: Any) -> int:
        """Return how many nodes may become active at a visit: one in dense graphs, else all."""
        shapes = examples.factors.shapes
        dense = any(len(s.edges) > DENSE * len(s.node_types) for s in shapes)
        return 1 if dense else max(len(s.node_types) for s in shapes)

    def start(self, problem: Problem, tol: float, rng: np.random.Generator) -> GraphState:
        """Open a state with all nodes at their true labels."""
        examples: Any = problem.examples
        mass = shift_of(problem)[0] * problem.mass
        scale, penalty = self.rho * node_losses(examples), np.full_like(mass, self.weightless)
        np.divide(scale, mass, out=penalty, where=(mass > 0) & (scale > 0))
        grow = int(self.grow or self.growth(examples))
        made = self.kind(examples.core, mass, penalty, self.eta, int(self.inner), grow)
        # Small gains that are skipped can add up over the nodes of an example.
        most = max(len(shape.node_types) for shape in examples.factors.shapes)
        return self.state(problem, made, rng, LITTLE_GAIN * tol / most, self)


@dataclass(frozen=True, kw_only=True)
class GraphsAsPrinted(OnGraphs):
    """Algorithm 3 as printed: ``cpp/solvers/gdmm_bounded.hpp``."""

    examples: ClassVar[str] = "graphs, as printed"
    kind: ClassVar[Any] = core.BoundedGdmm
    inner: ClassVar[int] = 1  # type: ignore[misc]
    grow: ClassVar[int] = 1  # type: ignore[misc]

    def start(self, problem: Problem, tol: float, rng: np.random.Generator) -> GraphState:
        examples: Any = problem.examples
        if any((kind.columns == NEVER_TOGETHER).any() for kind in examples.factors.edge_types):
            raise ValueError("Gdmm: printed=True needs graphs of nodes and edges, without cliques")
        return super().start(problem, tol, rng)


def node_losses(examples: Any) -> np.ndarray:
    """Return the loss of a wrong node, averaged over the nodes of each example."""
    factors = examples.factors
    largest = np.array([float(t.cost.max()) for t in factors.node_types])
    types = np.concatenate([factors.shapes[s].node_types for s in factors.shape])
    first = factors.node_offsets[:-1]
    # Factors are stored as nodes without loss, which do not count.
    counted = np.add.reduceat((largest > 0).astype(float)[types], first)
    return np.add.reduceat(factors.node_weight * largest[types], first) / np.maximum(counted, 1)
