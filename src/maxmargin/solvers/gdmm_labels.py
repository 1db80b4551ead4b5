"""GDMM on sets of labels: Algorithm 3 of Yen et al. with the joint oracle for pairs of labels.

    each pass:  for each example
                  the pairs of labels that gain most by leaving the truth together      lines 1, 2
                  the labels that gain most by leaving it alone
                  for each active label and pair: an exact step on
                      D - sum la (alpha - u) + rho/2 (alpha - u)^2                      (12), line 3
                  la += eta rho (alpha - u)                                            Algorithm 1, line 2

u is the mass of a label that has left the truth, alpha the copy of it that an active pair has. A pair whose
labels leave one at a time is not a factor of its own: its weight is a part of the labels' scores, and it
needs neither memory nor multipliers (formulas in ``cpp/solvers/gdmm_labels.hpp``, the search among ordered
weights in ``joint_oracle.hpp``). Scores of all labels are computed once in a visit, and weights are written
once. With ``partitions`` a visit scores the labels of one part of them, chosen at random, and those that have
left; audits score all.

Nodes are consistent at all times; the share of a pair that has left together is trimmed to what its labels
allow. That point is feasible, so its D is a bound. w is that of the shares as they are: the trimming adds up
over examples in the weights of pairs, and its w is much worse. Each bound holds on its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from maxmargin._core import core
from maxmargin.problem import Problem, Support
from maxmargin.problem.regularizer import Prior
from maxmargin.solvers.gdmm_graph import GraphState, OnGraphs

ONE_IN = 16  # the next two are at least one in this many labels
GROW = 8  # labels, and pairs, that may become active in a visit
AUDIT = 4  # passes between audits of an example, which look at many pairs
MOST_TABLE_LABELS = 4096  # above, tables of all pairs take too much memory


def many(examples: Any) -> int:
    """One in ONE_IN labels of a set."""
    return len(examples.factors.shapes[0].node_types) // ONE_IN


@dataclass
class LabelState(GraphState):
    """What has left the truth, and w, in the core."""

    options: OnLabelSets

    def __post_init__(self) -> None:
        super().__post_init__()
        self.period: int = max(AUDIT, many(self.problem.examples))

    def visit_options(self) -> tuple[Any, ...]:
        exhaustive, seed = self.options.search == "exhaustive", self.rng.integers(1, 2**31)
        return self.period, self.options.partitions, exhaustive, int(seed)

    def dual(self, problem: Problem) -> float:
        return self.core.dual() / self.unit

    def solution(self, problem: Problem) -> tuple[np.ndarray, Support]:
        """w as it is, and the feasible point."""
        support = replace(self.trimmed(problem), prices=self.core.prices())
        return self.core.weights(), support


@dataclass(frozen=True, kw_only=True)
class OnLabelSets(OnGraphs):
    """The options of this form of ``Gdmm``, and its start."""

    examples: ClassVar[str] = "sets of labels"
    kind: ClassVar[Any] = core.LabelGdmm
    state: ClassVar[type[GraphState]] = LabelState
    weightless: ClassVar[float] = 1.0
    rho: float = 0.5
    eta: float = 1.0
    partitions: int = 1
    search: str = "ordered"

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Whether the examples are sets of labels, not too many, under one scale and no bounds."""
        prior, examples = problem.regularizer, cast(Any, problem.examples)
        if isinstance(prior, Prior) and not prior.uniform:
            return False
        few = len(examples.factors.shapes[0].node_types) <= MOST_TABLE_LABELS
        return few and core.are_label_sets(examples.core)

    def growth(self, examples: Any) -> int:
        return max(GROW, many(examples))
