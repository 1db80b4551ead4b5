"""GDMM on sets of labels: Algorithm 3 of Yen et al. with the joint oracle for pairs of labels.

    each pass:  for each example
                  the pairs of labels that gain most by leaving the truth together      lines 1, 2
                  the labels that gain most by leaving it alone
                  for each active label and pair: an exact step on
                      D - sum la (alpha - u) + rho/2 (alpha - u)^2                      (12), line 3
                  la += eta rho (alpha - u)                                            Algorithm 1, line 2

u is the mass of a label that has left the truth, and alpha is its copy in an active pair. A pair
whose labels leave one at a time is not a factor of its own. Its weight is a part of the labels'
scores, and it needs neither memory nor multipliers. ``cpp/solvers/gdmm_labels.hpp`` has the
formulas, and ``joint_oracle.hpp`` the search among ordered weights. A visit computes the scores of
all labels once and writes the weights once. With ``partitions``, a visit scores one random part of
the labels, and the labels that have left; audits score all labels.

Nodes are consistent at all times. The mass that both labels of a pair have moved together is
trimmed to the masses of the labels. The trimmed point is feasible, so its D is a bound. The weights
w belong to the masses before trimming. Over many examples, trimming adds up in the weights of pairs
and would make w much worse. Each bound holds on its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from maxmargin._core import core
from maxmargin.problem import Problem, Support
from maxmargin.problem.regularizer import Prior
from maxmargin.solvers.gdmm_graph import GraphState, OnGraphs

ONE_IN = 16  # GROW and AUDIT are raised to at least one in this many labels
GROW = 8  # number of labels, and of pairs, that may become active in a visit
AUDIT = 4  # passes between audits of an example, which check many pairs
MOST_TABLE_LABELS = 4096  # with more labels, tables of all pairs take too much memory


def many(examples: Any) -> int:
    """Return a sixteenth (one in ONE_IN) of the labels of a set."""
    return len(examples.factors.shapes[0].node_types) // ONE_IN


@dataclass
class LabelState(GraphState):
    """The masses that have left the truth, and w, in the core."""

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
        """Return the current w, and the feasible point."""
        support = replace(self.trimmed(problem), prices=self.core.prices())
        return self.core.weights(), support


@dataclass(frozen=True, kw_only=True)
class OnLabelSets(OnGraphs):
    """The options of this form of ``Gdmm``; ``start`` opens its state."""

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
        """Return whether the examples are sets of not too many labels, with one scale and no bounds."""
        prior, examples = problem.regularizer, cast(Any, problem.examples)
        if isinstance(prior, Prior) and not prior.uniform:
            return False
        few = len(examples.factors.shapes[0].node_types) <= MOST_TABLE_LABELS
        return few and core.are_label_sets(examples.core)

    def growth(self, examples: Any) -> int:
        return max(GROW, many(examples))
