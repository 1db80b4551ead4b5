"""GDMM: greedy direction method of multipliers over factors (Yen et al. 2016, Algorithm 1).

    repeat:  one pass of exact steps, factor by factor, on the augmented Lagrangian
             multipliers += eta * (disagreement of the marginals of neighbouring factors)

There are three forms. Chains have factors with many labels; ordered weights help to find the best
one (``solvers.gdmm_chain``). Graphs have many factors, of which few are active
(``solvers.gdmm_graph``). Sets of labels have a weight for every pair of labels; a joint oracle
finds the pairs that should be active (``solvers.gdmm_labels``).

With a prior, the dual has R* in place of 1/2 |w|^2, and R* also defines w: a step is exact in the
metric of the prior. The form for sets of labels has no scales for single weights; with such scales,
or with bounds, the form for graphs replaces it. Chains refuse a covariance matrix: a step of one
factor would change every transition, and the search for the best pair depends on their order.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from maxmargin.data.arrays import FLAG, among, is_whole
from maxmargin.models.registry import FACTORS
from maxmargin.problem import Formulation, Problem, Support
from maxmargin.problem.plane import MARGINALS, PLANES
from maxmargin.solvers.base import NOT_NEGATIVE, Rule, Solver, StepReport, option
from maxmargin.solvers.gdmm_chain import (
    DIRECTIONS,
    SEARCHES,
    ChainsAsPrinted,
    ChainState,
    OnChains,
)
from maxmargin.solvers.gdmm_graph import DENSE, GraphsAsPrinted, OnGraphs
from maxmargin.solvers.gdmm_labels import OnLabelSets

Form = OnChains | OnGraphs | ChainsAsPrinted | GraphsAsPrinted
# The first form that fits is used.
FORMS: tuple[type[Form], ...] = (OnChains, OnLabelSets, OnGraphs)
PRINTED: tuple[type[Form], ...] = (ChainsAsPrinted, GraphsAsPrinted)
LARGEST_COUNT = 2**31 - 1  # largest count that the core can hold
# "auto" solves the linear relaxation for sets with more labels and many pairs
MANY_SET_LABELS = 100


def is_count(value: Any) -> bool:
    """Return whether a value is a whole number of at least 1 that the core can hold."""
    return is_whole(value, 1) and value <= LARGEST_COUNT


COUNT = Rule(f"a whole number from 1 to {LARGEST_COUNT}", is_count)


@dataclass(frozen=True)
class Gdmm(Solver):
    """Greedy direction method of multipliers.

    Parameters
    ----------
    rho : float or None
        Weight of the disagreement of factors, relative to the loss of a node (on chains: 1) divided
        by C v_i, so that messages have the size of a loss. None: 3 on graphs, else 0.5; with
        ``printed``, 1 on chains.
    eta : float or None
        Step of the multipliers, in [0, 1]. With 0 the constraints are soft, as in Soft-BCFW, and
        the solution is not the optimum. None: 1 on chains and sets of labels, 0.3 on graphs.
    inner : int
        Most steps in a visit to a factor; on sets of labels, most rounds over the factors of a set.
    partitions : int
        Chains and sets of labels: labels are split into this many parts, and one part is searched
        at a time.
    search : "ordered" or "exhaustive"
        Chains and sets of labels: find the best pair of labels by ordered weights, or by trying all
        pairs.
    direction : "pairwise", "away" or "frank-wolfe"
        Chains: how the marginals of a factor move. "pairwise": from the worst to the best active
        label. "away": towards the best or away from the worst, whichever is steeper. "frank-wolfe":
        towards the best.
    sweeps : int
        Chains: most sweeps over the active labels of an example after its searches; 0: none, as in
        the paper.
    proximity : float
        Chains: factor on the first weight k of the proximal term; 0 turns the term off.
    grow : int or None
        Graphs: most nodes of an example that may leave their true label in one pass. None: one if
        nodes have many links, else all. Sets of labels: most labels, and most pairs, that may leave
        the truth in one pass. None: the larger of 8 and a sixteenth of the labels.
    printed : bool
        Run the paper's algorithms without changes, for comparison. On chains: Algorithm 2,
        away-step Frank-Wolfe over all factors at once, until a step that is not a drop step. On
        graphs and sets of labels: Algorithm 3, block-greedy coordinate descent with steps bounded
        by Q_max.
    """

    name: ClassVar[str] = "gdmm"
    formulations: ClassVar[tuple[Formulation, ...]] = (Formulation("max", "margin"),)
    takes_free: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = (FACTORS,)
    continues_from: ClassVar[tuple[str, ...]] = (PLANES, MARGINALS)
    pairwise_optimum: ClassVar[bool] = False
    advice: ClassVar[str] = (
        "raise max_passes, max_seconds or tol; on chains, use solver='auto', which reaches the "
        "same optimum in a small part of the time"
    )
    rho: float | None = option(
        None, Rule("a positive number or None", lambda x: x is None or 0 < x < np.inf)
    )
    eta: float | None = option(None, Rule("in [0, 1] or None", lambda x: x is None or 0 <= x <= 1))
    inner: int = option(4, COUNT)
    partitions: int = option(1, COUNT)
    search: str = option("ordered", among(*SEARCHES))
    direction: str = option("pairwise", among(*DIRECTIONS))
    sweeps: int = option(4, Rule("a whole number of at least 0", lambda x: x == 0 or is_count(x)))
    proximity: float = option(1.0, NOT_NEGATIVE)
    grow: int | None = option(
        None, Rule(f"{COUNT.says}, or None", lambda x: x is None or is_count(x))
    )
    printed: bool = option(False, FLAG)

    @classmethod
    def suits(cls, problem: Problem) -> bool:
        """Return True for sets of many labels with many pairs: their argmax is neither cheap nor exact."""
        examples: Any = problem.examples
        if not isinstance(examples.core, OnLabelSets.data) or not OnLabelSets.fits(problem):
            return False
        shape = examples.factors.shapes[0]
        labels, pairs = len(shape.node_types), len(shape.edges)
        return labels > MANY_SET_LABELS and pairs > DENSE * labels

    def form(self, problem: Problem) -> Form:
        """Return the form for these examples, with its options; raise ValueError for other options."""
        forms = PRINTED if self.printed else FORMS
        own_kind = (form for form in forms if isinstance(problem.examples.core, form.data))
        kind = next(form for form in own_kind if form.fits(problem))
        own = [field.name for field in fields(kind)] + ["printed"]
        changed = [f.name for f in fields(self) if getattr(self, f.name) != f.default]
        others = [name for name in changed if name not in own]
        if others:
            raise ValueError(
                f"Gdmm: {' and '.join(others)} cannot be set for {kind.examples}; the options for "
                f"these are {', '.join(own)}"
            )
        given = {name: getattr(self, name) for name in own if name != "printed"}
        return kind(**{name: value for name, value in given.items() if value is not None})

    def continues(self, problem: Problem) -> tuple[str, ...]:
        return self.form(problem).continues_from

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> Any:
        state = self.form(problem).start(problem, tol, rng)
        if warm is not None:
            state.restore(warm)
        return state

    def retarget(self, problem: Problem, state: Any, factor: float) -> None:
        if hasattr(state, "tolerance"):  # the state for chains has no tolerance
            state.tolerance *= factor

    def step(self, problem: Problem, state: Any) -> StepReport:
        return state.step(problem)

    def solution(self, problem: Problem, state: Any) -> tuple[np.ndarray, Support]:
        return state.solution(problem)

    def learn(self, problem: Problem, state: Any, slacks: np.ndarray) -> None:
        super().learn(problem, state, slacks)
        if isinstance(state, ChainState):
            state.compare(problem, slacks)
