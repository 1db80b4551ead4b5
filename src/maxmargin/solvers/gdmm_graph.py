"""GDMM on factor graphs: nodes and links are blocks, tied by multipliers (Yen et al., Algorithms 1 and 3).

    maximise  D(p, q) = sum Delta p - 1/2 |w|^2   over marginals p of nodes, q of links, with M q = p
    each pass:  for each example                                                     Algorithm 3
                  the nodes with the most to gain become active                      lines 1, 2
                  for each active node and link: a step of
                      D - rho/2 sum |M q - p + z|^2                                  (12), line 3
                  z += eta (M q - p)                                                 Algorithm 1, line 2

On forests the marginals are those of labellings, and the optimum is that of the structural SVM. On graphs
with cycles it is that of the linear relaxation (5), an upper bound; the certificate says so.

The iterates are consistent in the limit only. A certificate takes the nodes as they are and repairs the
links: what rows and columns have too much is scaled down, what they lack is filled up. That point is
feasible, so its D is a bound, and w is taken from it.
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

DENSE = 4  # links per node, from which a graph is dense: then one node becomes active at a visit
# Part of tol: nodes of an example with less than this to gain, together, stay as they are.
LITTLE_GAIN = 0.1


@dataclass
class GraphState(UnderPrior):
    """Marginals in the core."""

    problem: Problem
    core: Any
    rng: np.random.Generator
    tolerance: float
    options: OnGraphs
    repaired: tuple[float, np.ndarray, Support] | None = None  # after the last pass

    def __post_init__(self) -> None:
        self.read_prior(self.problem)
        self.set_prior()

    def step(self, problem: Problem) -> StepReport:
        """One pass."""
        order = self.rng.permutation(problem.active)
        self.repaired = None
        report = self.core.visit(order, self.tolerance, *self.visit_options())
        calls, _, violation, inconsistent = report
        estimate = (violation + inconsistent) / (self.unit * problem.total)
        planes = self.core.active_nodes + self.core.active_links
        return StepReport(calls, estimate, self.dual(problem), planes)

    def visit_options(self) -> tuple[Any, ...]:
        """What the visits of the core take besides."""
        return ()

    def dual(self, problem: Problem) -> float:
        """D of a consistent point near the marginals."""
        return self.repair(problem)[0]

    def solution(self, problem: Problem) -> tuple[np.ndarray, Support]:
        """The repaired marginals, and their w."""
        return self.repair(problem)[1:]

    def repair(self, problem: Problem) -> tuple[float, np.ndarray, Support]:
        """D, w and the multipliers of a consistent point, one plane per block: made once after a pass."""
        if self.repaired is None:
            support = self.trimmed(problem)
            offset, vector = problem.examples.combine(
                support.blocks, support.multipliers, support.outputs
            )
            dual = offset - problem.regularizer.conjugate(-vector)
            self.repaired = dual, problem.regularizer.law(-vector), support
        return self.repaired

    def trimmed(self, problem: Problem) -> Support:
        """The multipliers of a consistent point, one plane per block."""
        relaxed = problem.examples.relaxed  # type: ignore[attr-defined]
        mass, outputs = problem.mass[problem.active], Marginals(*self.core.repaired())
        return Support(problem.active, mass, outputs, kind=MARGINALS, relaxed=relaxed)

    def refresh(self) -> None:
        """Remove the rounding of w."""
        self.core.refresh()

    def restore(self, support: Support) -> None:
        """Start from the marginals of the last fit."""
        point = support.rescaled(self.problem.mass)
        self.problem.dual_objective(point)  # refuses marginals of other graphs
        self.core.restore(*point.outputs.arrays)


@dataclass(frozen=True, kw_only=True)
class OnGraphs:
    """The options of this form of ``Gdmm``, and its start."""

    examples: ClassVar[str] = "graphs"
    data: ClassVar[Any] = core.FactorGraphData
    continues_from: ClassVar[tuple[str, ...]] = (MARGINALS,)
    kind: ClassVar[Any] = core.FactorGraphGdmm
    state: ClassVar[type[GraphState]] = GraphState
    weightless: ClassVar[float] = 0.0  # rho of an example without mass or loss
    # With these every small graph that was tried converged; a step of 1 did not where many links meet.
    rho: float = 3.0
    eta: float = 0.3
    inner: int
    grow: int | None = None

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Whether it takes this problem, whose examples are of its kind of data."""
        return True

    def growth(self, examples: Any) -> int:
        """How many nodes may become active at a visit: one where every node has many links."""
        shapes = examples.factors.shapes
        dense = any(len(s.edges) > DENSE * len(s.node_types) for s in shapes)
        return 1 if dense else max(len(s.node_types) for s in shapes)

    def start(self, problem: Problem, tol: float, rng: np.random.Generator) -> GraphState:
        """All nodes at their true labels."""
        examples: Any = problem.examples
        mass = shift_of(problem)[0] * problem.mass
        scale, penalty = self.rho * node_losses(examples), np.full_like(mass, self.weightless)
        np.divide(scale, mass, out=penalty, where=(mass > 0) & (scale > 0))
        grow = int(self.grow or self.growth(examples))
        made = self.kind(examples.core, mass, penalty, self.eta, int(self.inner), grow)
        # What stays as it is may add up over the nodes of an example.
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
            raise ValueError("Gdmm: printed=True is for graphs of nodes and edges, without cliques")
        return super().start(problem, tol, rng)


def node_losses(examples: Any) -> np.ndarray:
    """The loss of a node that is wrong, on average over the nodes of each example."""
    factors = examples.factors
    largest = np.array([float(t.cost.max()) for t in factors.node_types])
    types = np.concatenate([factors.shapes[s].node_types for s in factors.shape])
    first = factors.node_offsets[:-1]
    # Factors are nodes without loss.
    counted = np.add.reduceat((largest > 0).astype(float)[types], first)
    return np.add.reduceat(factors.node_weight * largest[types], first) / np.maximum(counted, 1)
