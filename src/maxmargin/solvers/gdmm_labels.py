"""GDMM on sets of labels: Algorithm 3 of Yen et al. with the joint oracle for pairs of labels.

    each pass:  for each example
                  the pairs of labels that gain most by leaving the truth together      lines 1, 2
                  the labels that gain most by leaving it alone
                  for each active label and pair: an exact step on
                      D - sum la (alpha - u) + rho/2 (alpha - u)^2                      (12), line 3
                  la += eta rho (alpha - u)                                            Algorithm 1, line 2

u is the mass of a label that has left the truth, alpha the copy of it that an active pair has. A pair whose labels
leave one at a time is no factor of its own: its weight is a part of the labels' scores, and it needs neither
memory nor multipliers (``cpp/solvers/gdmm_labels.hpp`` has the formulas, ``joint_oracle.hpp`` the search among
ordered weights). The scores of all labels are computed once in a visit, and weights are written once.

Nodes are consistent at all times; the share of a pair that has left together is trimmed to what its labels allow.
That point is feasible, so its D is a bound, and w is taken from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin._core import core
from maxmargin.problem import Problem, Support
from maxmargin.solvers.base import StepReport
from maxmargin.solvers.gdmm_graph import LITTLE, loss_units, mended, restore

RHO, ETA = 1.0, 1.0
GROW = 8  # labels that may leave the truth of an example in one pass
AUDIT = 8  # every so many passes pairs are examined for larger sets of labels that gain together
MOST_LABELS = 4096  # above, tables of all pairs take too much memory


@dataclass
class LabelState:
    """What has left the truth, and w, in the core."""

    core: Any
    rng: np.random.Generator
    tolerance: float
    passes: int = 0

    def step(self, problem: Problem) -> StepReport:
        """One pass."""
        order = self.rng.permutation(problem.active)
        self.passes += 1
        audit = self.passes % AUDIT == 0
        calls, _, violation, inconsistent = self.core.visit(order, self.tolerance, audit)
        estimate = (violation + inconsistent) / problem.total
        planes = self.core.active_nodes + self.core.active_links
        return StepReport(calls, estimate, self.core.dual(), planes)

    def solution(self, problem: Problem) -> tuple[np.ndarray, Support]:
        """The feasible point, and its w."""
        return mended(problem, self.core)[1:]

    def refresh(self) -> None:
        """Remove the rounding of w."""
        self.core.refresh()


def are_labels(examples: Any) -> bool:
    """Whether the examples are sets of labels, not too many."""
    few = len(examples.factors.shapes[0].node_types) <= MOST_LABELS
    return few and core.are_label_sets(examples.core)


def start_labels(
    problem: Problem, tol: float, rng: np.random.Generator, options: Any, warm: Support | None
) -> LabelState:
    """All labels as they are in the truth, or at the marginals of the last fit."""
    examples: Any = problem.examples
    mass = problem.mass
    rho = RHO if options.rho is None else options.rho
    eta = ETA if options.eta is None else options.eta
    scale = rho * loss_units(examples)
    penalty = np.divide(scale, mass, out=np.ones_like(mass), where=(mass > 0) & (scale > 0))
    grow = GROW if options.grow is None else int(options.grow)
    made = core.LabelGdmm(examples.core, mass, penalty, eta, int(options.inner), grow)
    if warm is not None:
        restore(problem, made, warm)
    return LabelState(made, rng, LITTLE * tol)
