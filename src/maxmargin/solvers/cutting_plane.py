"""1-slack cutting planes (Joachims, Finley and Yu, 2009, Algorithms 3 and 4): one slack for the whole set.

A cut is one plane for the whole risk, the sum of the worst planes of all blocks at w. The dual over
the cuts is a small quadratic program over the simplex,

    max_beta <b, beta> - 1/2 |sum_c beta_c g_c|^2,   beta >= 0, sum beta = 1,   w = - sum_c beta_c g_c

    repeat: cut at w; gap = P(best w) - D(beta); add the cut and its Hessian row; solve from beta

A cut may also consist of cached outputs, which the oracle returned earlier. The oracle is not
called while such cuts are violated enough.

With hinge="sum" (Balamurugan, Shevade and Babu, Section III), the slack of a block is a maximum
over sets of outputs, and the set of all violators attains it. The method is the same, with sets of
cached violators as outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from maxmargin.data.arrays import FLAG, among
from maxmargin.formulation import EVERY_FORMULATION
from maxmargin.problem import Formulation, Problem, Status, Support, gap_between, loss_units
from maxmargin.problem.plane import Cut
from maxmargin.problem.regularizer import PRIOR
from maxmargin.solvers.base import (
    AT_LEAST_1,
    INSIDE,
    NOT_NEGATIVE,
    Rule,
    Snapshot,
    Solver,
    StepReport,
    option,
)
from maxmargin.solvers.box_state import MOST_VIOLATORS
from maxmargin.solvers.cut_state import (
    CutState,
    PrimalPoint,
    SetCuts,
    open_set_cuts,
    parted,
    unslim,
)
from maxmargin.solvers.dual_state import open_state, unpriored

# Share of the last gap that a cut from the cache must still show. With a smaller one the oracle is
# called too late.
CACHED_PART = 0.3
CACHED_ROUNDS = 100  # most cuts from the cache between two oracle passes
# Least and largest weight of the proximal term, and the factors that lower and raise it.
WEIGHTS = (1e-3, 3.0)
LOOSER, TIGHTER = 0.7, 1.5


@dataclass(frozen=True)
class OneSlack(Solver):
    """1-slack cutting planes.

    Parameters
    ----------
    keep : int
        Rounds after which a cut without a multiplier is dropped.
    accuracy : float
        The inner program is solved up to this fraction of the last gap.
    cache : int or None
        Number of recent outputs of each example that are tried before the oracle; 0 means none.
        None means 10, or 0 if the oracle enumerates the outputs, which is as cheap as the
        cache. If
        the oracle is a search that can miss an output, at least 10 are always cached. With
        hinge="sum" all violators found are cached; 0 then means that the oracle is called in every
        round.
    inner : "qp" or "line-search"
        Solve the program over all cuts, or take the best point between the last solution and the
        new cut.
    proximal : bool
        Stay near the best w by a term k/2 |w - z|^2, whose weight k adapts to the progress of the
        rounds.
    violators : int
        With hinge="sum": largest number of cached outputs per example to which the violators listed
        by an exact pass are added; 0 adds none.
    """

    name: ClassVar[str] = "one-slack"
    formulations: ClassVar[tuple[Formulation, ...]] = EVERY_FORMULATION
    honours: ClassVar[tuple[str, ...]] = (PRIOR,)
    keep: int = option(50, AT_LEAST_1)
    accuracy: float = option(0.1, INSIDE)
    cache: int | None = option(None, Rule("at least 0 or None", lambda x: x is None or x >= 0))
    inner: str = option("qp", among("qp", "line-search"))
    proximal: bool = option(False, FLAG)
    violators: int = option(MOST_VIOLATORS, NOT_NEGATIVE)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.proximal and self.inner != "qp":
            raise ValueError("OneSlack: proximal=True needs inner='qp', got 'line-search'")

    @classmethod
    def suits(cls, problem: Problem) -> bool:
        """Return True for one block: sweeps over blocks are then useless, and every oracle call is a cut."""
        return problem.n_blocks == 1 and not problem.summed

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> CutState:
        if problem.summed:
            state: CutState = open_set_cuts(problem, tol, rng, self.cache != 0)
        else:
            state = self._outputs(problem, tol, rng)
        if warm is not None:
            at, point = state.earlier(problem, warm)
            offset, vector = problem.examples.combine(at.blocks, at.multipliers, at.outputs)
            # New mass goes to the cut of the true outputs, which leaves w unchanged.
            given = problem.total if problem.summed else float(warm.multipliers.sum())
            old = min(1.0, given / problem.total)
            state.add(problem, offset, vector, point, beta=np.array([1.0 - old, old]))
            state.w = problem.regularizer.law(-old * vector)
        if self.proximal:
            state.recenter(problem, state.w, 1.0)
        return state

    def snapshot(self, problem: Problem, state: CutState) -> Snapshot:
        """Return the cuts with multipliers as dual points; for sets of violators, only their mixture."""
        if isinstance(state, SetCuts):
            return super().snapshot(problem, state)
        used = state.beta > 0
        points = [p for p, own in zip(state.cuts.points, used, strict=True) if own]
        sizes = np.array([[len(p), len(p.outputs)] for p in points])
        return Snapshot(state.best_w, state.support(), {"beta": state.beta[used], "sizes": sizes})

    def resume(
        self, problem: Problem, tol: float, rng: np.random.Generator, at: Snapshot
    ) -> CutState:
        if problem.summed:
            return super().resume(problem, tol, rng, at)
        state, beta = self._outputs(problem, tol, rng), at.own["beta"]
        sizes = at.array("sizes", len(beta), 2)
        for share, point in zip(beta, parted(at.support, sizes), strict=True):
            offset, vector = problem.examples.combine(
                point.blocks, point.multipliers / share, unslim(point.outputs), problem.n_jobs
            )
            state.add(problem, offset, vector, point.times(1 / share))
        state.cuts = replace(state.cuts, beta=np.append(0.0, beta / beta.sum()))
        state.w = at.w
        if self.proximal:
            state.recenter(problem, state.w, 1.0)
        return state

    def _outputs(self, problem: Problem, tol: float, rng: np.random.Generator) -> CutState:
        """Open a state with one cut, of the true outputs."""
        nothing = np.zeros(problem.dimension)
        state = CutState(tol, problem.regularizer.law(nothing), np.arange(problem.n_blocks))
        size = self.cache_size(problem)
        if size > 0:
            state.cache = problem.examples.cache(size)
        truth = open_state(unpriored(problem), tol, rng).support()
        state.add(problem, 0.0, nothing, truth, beta=np.ones(1))
        return state

    def cache_size(self, problem: Problem) -> int:
        """Return how many outputs per block are cached; a searching argmax needs some."""
        if not problem.exact:
            return max(10, self.cache or 0)
        if self.cache is not None:
            return self.cache
        return 0 if problem.examples.enumerates else 10

    def step(self, problem: Problem, state: CutState) -> StepReport:
        if state.settled:
            gap = loss_units(state.gap, problem.total)
            return StepReport(0, gap, state.dual(), len(state.beta), ended=Status.REDUCED)
        self.use_cache(problem, state)
        cut = state.ask(problem)
        self.note(problem, state, cut)
        if state.gap > state.tol * problem.total:
            self.improve(problem, state, cut)
        assert state.best is not None
        estimate = loss_units(state.gap, problem.total)
        slacks = state.best.slacks
        return StepReport(problem.n_blocks, estimate, state.dual(), len(state.beta), slacks)

    def use_cache(self, problem: Problem, state: CutState) -> None:
        """Add cuts from the cache while they are violated enough."""
        for _ in range(CACHED_ROUNDS if state.cache is not None and state.rounds > 0 else 0):
            cut = state.ask_cache(problem)
            seen = problem.regularizer.value(state.w) + cut.risk - state.dual()
            if seen <= max(state.tol * problem.total, CACHED_PART * state.gap):
                return
            if not self.improve(problem, state, cut):
                return  # the program is hard, and oracle cuts are better

    def note(self, problem: Problem, state: CutState, cut: Cut) -> None:
        """Update the objective at w, the best w and the gap."""
        primal = problem.regularizer.value(state.w) + cut.risk
        last = state.best
        if last is None or primal < last.primal or not state.lasting:
            state.best = PrimalPoint(primal, state.w, cut.slacks)
        assert state.best is not None
        state.gap = state.best.primal - state.dual()
        if self.proximal and last is not None:
            # Compare the progress that the cuts predicted with the real one, and adapt the proximal
            # term.
            promised = (
                last.primal - problem.regularizer.value(state.w) - state.risk(problem, state.w)
            )
            share = (last.primal - primal) / max(promised, 1e-300)
            factor = LOOSER if share > 0.3 else 1.0 if share > -1.0 else TIGHTER
            k = min(max(factor * state.proximity, WEIGHTS[0]), WEIGHTS[1])
            state.recenter(problem, state.best.w, k)

    def improve(self, problem: Problem, state: CutState, cut: Cut) -> bool:
        """Add a cut, then update beta and w; return whether the inner program was solved."""
        state.add(problem, cut.offset, cut.vector, state.point(problem, cut))
        state.rounds += 1
        if self.inner == "line-search":
            state.search_line(problem)
            state.gather(problem)
            return True
        solved = state.solve(problem, self.accuracy * min(state.gap, problem.total))
        state.forget(self.keep)
        return solved

    def solution(self, problem: Problem, state: CutState) -> tuple[np.ndarray, Support]:
        return state.best_w, state.merged(problem)

    def learn(self, problem: Problem, state: CutState, slacks: np.ndarray) -> None:
        """Cache the outputs of all cuts if a searching argmax missed some of them; add violators of sets."""
        if isinstance(state, SetCuts):
            return state.widen(problem, self.violators)
        if problem.exact:
            return
        used = [p for b, p in zip(state.beta, state.cuts.points, strict=True) if b > 0]
        # A cut lists one output of every block in order; a warm start or a merged point does not.
        whole = [p for p in used if np.array_equal(p.blocks, state.everything)]
        size = max(self.cache_size(problem), 2 * len(whole))
        cache = problem.examples.cache(size)
        for point in whole:
            cache.add(unslim(point.outputs))
        state.cache = cache

    def reduced_gap(self, problem: Problem, state: CutState) -> float | None:
        if not isinstance(state, SetCuts) or state.box.complete:
            return None
        return gap_between(state.reduced_primal(problem), state.dual(), problem.total)
