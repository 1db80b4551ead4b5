"""Accelerated proximal dual ascent: the default.

A round ascends the dual of   P(w) + k/2 |w - z|^2   by one oracle pass, then passes over the kept outputs
until the gap they see is `inner` of what the oracle saw. Then the centre moves with momentum,
z = w + beta (w - w_previous). The proximal term makes a weakly regularised problem well conditioned; the
gap of the problem itself stays known,

    P(w) - D(a) = sum_i mass_i g_i + k^2 / 2 |w - z|^2.

k starts at C mean|psi|^2 / mean(Delta) over the outputs that the oracle gives at w = 0. It is divided by
`decay` whenever the second term is more than `LAGGING` times the first (`STRICT` times, where the gap has
grown), and halved when the gap has not fallen for `STALLED_ROUNDS` rounds. Satisfied blocks, those with g_i
<= care * tol, leave the cached passes of the round and are skipped in the next `skip` oracle passes, and in
`skip` more each time that they are found satisfied again, up to `LONGEST_REST`.

Where all constraints are written down (two classes, K classes, regression, explicit groups) the same
rounds are compiled as a whole, ``cpp/solvers/dual_coordinate.hpp``: a visit scores all outputs of its
block and solves the block, k starts at a tenth where blocks are no more than weights or have no classes, and
where a small gap is asked for (at 0 where that is next to nothing), and a step on small data makes several
rounds. Another `rule` or `keep` than the default goes the way of outputs that are searched for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from maxmargin._core import core
from maxmargin.data.arrays import among
from maxmargin.models.examples import ExplicitConstraints
from maxmargin.problem import Problem, Support
from maxmargin.solvers.base import (
    ABOVE_1,
    BELOW_1,
    NOT_NEGATIVE,
    SHARE,
    Snapshot,
    Solver,
    StepReport,
    option,
)
from maxmargin.solvers.coordinate_state import (
    PRECISE,
    CoordinateState,
    explicit_constraints,
)
from maxmargin.solvers.dual_state import (
    PAIR_RULES,
    PRECISIONS,
    PROBED,
    SINGLE_ENOUGH,
    SINGLE_LEAST,
    SearchState,
    Visit,
    open_state,
)

LARGE = 100_000_000  # weights from which the two extra copies of w are not affordable
STIFFEST = 1000.0  # k at most: a round shrinks what is left by no more than k / (1 + k)
MOST_ROUNDS = 100  # over kept outputs alone
REVISIT = 4  # rounds of kept outputs after which all blocks are looked at again
LONGEST_REST = 4  # oracle passes that a satisfied block misses, unless `skip` is more
STALLED_ROUNDS = 10  # rounds without a fall of the estimate by a tenth
# Of k where a visit solves its block and blocks share little: no more of them than weights, as of words. With
# a tenth newsgroups of 20 classes take 0.8 of the time that they take with all of k, but covertype 1.1 to 1.7
# times, of two classes and of seven, and USPS with C = 0.01 1.3 times. Regression, groups, and where climbs
# of the face end a fit: a tenth.
UNSHARED = 0.1
# The second term beside the first, above which k falls. With 0.5 OCR letters take 1.12 times as long (lambda
# 0.001; 1.2 times at 0.0002), with 2 CoNLL-2000 1.04 times; between them it takes as long with all three.
LAGGING = 1.5
# The same where the gap has grown to `GROWN` times its least: a centre that is too far makes steps overshoot,
# in a circle if nothing stops them.
STRICT, GROWN = 0.5, 2.0
WARM = 0.02  # factor on the first k of a warm start for another C: with more a path saves no oracle passes
LIGHT = 0.05  # k below this is not used: it would save no visits, and its two copies of w take time
LARGEST_SEED = 2**63 - 1
SINGLE_MOST = 1e30  # squares of weights and of features whose products it can hold


@dataclass(frozen=True)
class Proximal(Solver):
    """Accelerated proximal dual ascent.

    Parameters
    ----------
    cached_passes : int
        At most this many passes over the kept outputs after each oracle pass.
    inner : float
        They end when the gap they see is this part of what the oracle pass saw.
    momentum : float
        beta; 0.7 and more can fail to converge.
    proximity : float
        Factor on the first k; 0 turns the proximal term off.
    decay : float
        k is divided by this when the centre is too far from w.
    care : float
        A block is satisfied once its share of the gap is this part of tol.
    skip : int
        Oracle passes that a satisfied block may miss at first.
    keep : int
        Oracle visits that an output without a multiplier is kept.
    rule : "wss2" or "mvp"
    precision : "auto", "single" or "double"
        Of w while it is updated. "auto": single where tol allows it.
    """

    name: ClassVar[str] = "proximal"
    lagging: ClassVar[float] = LAGGING
    cached_passes: int = option(30, NOT_NEGATIVE)
    inner: float = option(0.4, BELOW_1)
    momentum: float = option(0.4, BELOW_1)
    proximity: float = option(1.0, NOT_NEGATIVE)
    decay: float = option(1.3, ABOVE_1)
    care: float = option(0.3, SHARE)
    skip: int = option(1, NOT_NEGATIVE)
    keep: int = option(10, NOT_NEGATIVE)
    rule: str = option("wss2", among(*PAIR_RULES))
    precision: str = option("auto", among(*PRECISIONS))

    def start(
        self,
        problem: Problem,
        tol: float,
        rng: np.random.Generator,
        warm: Support | None = None,
        k: float | None = None,
    ) -> ProximalState | CoordinateState:
        """A state at w = 0 or at the multipliers of `warm`; with this k, where it is known already."""
        usual = self.rule == Proximal.rule and self.keep == Proximal.keep
        explicit = explicit_constraints(problem) if usual else None
        if explicit is None:
            return self.open(problem, tol, rng, warm, k=k)
        return self._open_rounds(problem, explicit, tol, rng, warm, k)

    def _open_rounds(
        self,
        problem: Problem,
        explicit: ExplicitConstraints,
        tol: float,
        rng: np.random.Generator,
        warm: Support | None,
        k: float | None,
    ) -> CoordinateState:
        """A state for constraints that are all written down."""
        scale = explicit.scale or 0.0
        single = scale >= SINGLE_LEAST and tol >= SINGLE_ENOUGH * scale
        single = single if self.precision == "auto" else self.precision == "single"
        active = problem.active
        if len(active) > PROBED:  # a permutation of all takes longer than the visits
            blocks = active[rng.integers(len(active), size=PROBED)]
        else:
            blocks = rng.permutation(active)
        state = CoordinateState(problem, explicit, self.care * tol, rng, single)
        square, loss = state.core.probe(blocks)
        if single and self.precision == "auto" and self._large(problem, state.unit, square, loss):
            state = CoordinateState(problem, explicit, self.care * tol, rng, False)
        if k is None:
            unshared = explicit.scale is None or problem.n_blocks <= problem.dimension
            precise = tol < PRECISE * loss
            k = self.first_k(problem.C, problem.dimension, state.unit, square, loss)
            k *= UNSHARED if unshared or precise else 1.0
            k = k if k >= LIGHT else 0.0
        if warm is not None:
            state.restore(warm)
            k *= 1.0 if problem.feasible(warm) else WARM  # as in `_resume`
        state.core.set_proximity(k)
        state.aim, state.loss, state.probed = tol, loss, len(blocks)
        return state

    def _large(self, problem: Problem, unit: float, square: float, loss: float) -> bool:
        """Whether squares may be too large for single precision.

        |w|^2 <= 2 C sum v Delta, from D >= 0; scores are sums of its products with features.
        """
        return max(square, unit * problem.total * loss) > SINGLE_MOST

    def first_k(self, C: float, dimension: int, unit: float, square: float, loss: float) -> float:
        """By mean |psi|^2 and mean Delta; 0 where w is too large for two copies more."""
        if dimension >= LARGE or not loss > 0:
            return 0.0
        return min(STIFFEST, self.proximity * unit * C * square / loss)

    def open(
        self,
        problem: Problem,
        tol: float,
        rng: np.random.Generator,
        warm: Support | None = None,
        lean: bool = False,
        k: float | None = None,
        precision: str = "",
    ) -> ProximalState:
        """A state; with this k and in this precision, where they are known already."""
        precision = precision or self.precision
        dual = open_state(problem, tol, rng, precision != "double", lean=lean)
        if k is None or precision == "auto":
            square, loss = dual.probe(rng.permutation(problem.active)[:PROBED])
            large = self._large(problem, dual.unit, square, loss)
            small = loss < SINGLE_LEAST
            if precision == "auto" and (tol < SINGLE_ENOUGH * loss or large or small):
                probed = dual.oracle_calls
                dual = open_state(problem, tol, rng, single=False, lean=lean)
                dual.oracle_calls = probed
            if k is None:
                # The distance to the centre needs the inverse of a covariance matrix: without the term then.
                first = self.first_k(problem.C, problem.dimension, dual.unit, square, loss)
                k = 0.0 if dual.full else first
        rest = np.zeros(problem.n_blocks, dtype=np.int64)
        state = ProximalState(dual, self.care * tol, k, rest, np.zeros_like(rest))
        if warm is not None:
            self._resume(problem, state, warm)
        return state

    def _resume(self, problem: Problem, state: ProximalState, warm: Support) -> None:
        """Start from these multipliers.

        For another C the outputs that they are on come first, before the oracle is asked; and k is far below
        what it is at w = 0: the centre is nearer to the solution.
        """
        state.dual.restore(warm)
        if problem.feasible(warm):
            return
        state.k *= WARM
        if state.k > 0:
            state.dual.core.recenter(0.0, state.k)
        todo, seen = self._visit(problem, state, problem.active, oracle=False)
        self._cached(problem, state, todo, seen)

    def step(self, problem: Problem, state: ProximalState | CoordinateState) -> StepReport:
        if isinstance(state, CoordinateState):
            options = (self.cached_passes, self.skip, self.inner, self.momentum, self.decay)
            return state.rounds(*options)
        estimate = self.round(problem, state, problem.active)
        dual = state.dual
        calls, state.reported = dual.oracle_calls - state.reported, dual.oracle_calls
        return dual.report(calls, estimate)

    def explore(
        self, problem: Problem, state: ProximalState, blocks: np.ndarray, tolerance: float
    ) -> float:
        """One oracle pass over these blocks in their order; returns the estimate of the gap."""
        state.visit(blocks, tolerance=tolerance)
        return self._gap(problem, state)[2]

    def round(self, problem: Problem, state: ProximalState, blocks: np.ndarray) -> float:
        """One oracle pass over those of the blocks that are due, and passes over the outputs kept."""
        dual = state.dual
        if state.k > 0:  # here, not at the end: w is certified where the round left it
            dual.core.recenter(self.momentum, state.k)
        due = blocks[state.rest[blocks] == 0]
        todo, seen = self._visit(problem, state, due, oracle=True)
        state.rest[blocks] -= state.rest[blocks] > 0
        state.satisfied[due] += 1
        state.satisfied[due[dual.violations[due] > state.satisfied_below]] = 0
        longest = max(self.skip, LONGEST_REST)
        state.rest[due] = np.minimum(self.skip * state.satisfied[due], longest)
        self._cached(problem, state, todo, seen)
        return self._balance(problem, state)

    def _cached(
        self, problem: Problem, state: ProximalState, todo: np.ndarray, seen: float
    ) -> None:
        """Passes over the outputs kept, until the gap that they see is `inner` of what was seen before."""
        for _ in range(self.cached_passes):
            todo, left = self._visit(problem, state, todo, oracle=False)
            if left <= self.inner * seen:
                break

    def settle(
        self, problem: Problem, state: ProximalState, enough: float, last_visit: float
    ) -> None:
        """Rounds over the kept outputs alone, until what is left of their gap is at most `enough`.

        k falls from a high value, fast where the centre is far behind. Every `REVISIT` rounds, and before
        the end, all blocks are visited; else those that were not satisfied since. Satisfied blocks are left
        alone, so that only the others count at the end.
        """
        own, active, below = state.dual.core, problem.active, state.satisfied_below
        near = np.ones(problem.n_blocks, dtype=bool)
        momentum, rounds, done = 0.0, 0, False
        while own.steps < last_visit and rounds < MOST_ROUNDS:
            own.recenter(momentum, state.k)
            whole = done or rounds % REVISIT == 0
            order = state.dual.rng.permutation(active[near[active] | whole])
            visit = state.visit(order, rule=self.rule, oracle=False, tolerance=below)
            unsatisfied = visit.violations > below
            todo = order[unsatisfied]
            near &= not whole
            near[todo] = True
            self._cached(problem, state, todo, visit.violation)
            lag = state.dual.lag()
            if lag > 0.5 * visit.violation:
                state.k /= 2 if lag > 2 * visit.violation else self.decay
            done = problem.mass[todo] @ visit.violations[unsatisfied] + lag <= enough
            if done and whole:
                break
            momentum, rounds = self.momentum, rounds + 1
        own.recenter(0.0, 0.0)

    def _visit(
        self, problem: Problem, state: ProximalState, blocks: np.ndarray, oracle: bool
    ) -> tuple[np.ndarray, float]:
        """One pass in a fresh order; the blocks that are not satisfied, and the sum of mass_i g_i."""
        order = state.shuffled(blocks)
        visit = state.visit(
            order,
            rule=self.rule,
            oracle=oracle,
            tolerance=state.satisfied_below,
            keep=self.keep,
        )
        return order[visit.violations > state.satisfied_below], visit.violation

    def _gap(self, problem: Problem, state: ProximalState) -> tuple[float, float, float]:
        """The two terms of the gap as last seen, and their sum in loss units."""
        ascent, lag = state.dual.gap_terms()
        return ascent, lag, (ascent + lag) / problem.total

    def _balance(self, problem: Problem, state: ProximalState) -> float:
        """Lower k where the centre is too far from w; returns the estimate of the gap, in loss units."""
        ascent, lag, estimate = self._gap(problem, state)
        if state.k > 0:
            state.balance(estimate, ascent, lag, self.decay, lagging=self.lagging)
        return estimate

    def snapshot(self, problem: Problem, state: ProximalState | CoordinateState) -> Snapshot:
        k = state.core.proximity if isinstance(state, CoordinateState) else state.k
        return Snapshot(*self.solution(problem, state), {"k": np.array([k])})

    def resume(
        self, problem: Problem, tol: float, rng: np.random.Generator, at: Snapshot
    ) -> ProximalState | CoordinateState:
        return self.start(problem, tol, rng, at.support, k=float(at.array("k", 1)[0]))

    def retarget(
        self, problem: Problem, state: ProximalState | CoordinateState, factor: float
    ) -> None:
        state.satisfied_below *= factor
        if isinstance(state, CoordinateState):
            state.aim *= factor

    def learn(
        self, problem: Problem, state: ProximalState | CoordinateState, slacks: np.ndarray
    ) -> None:
        state.reopen()
        state.satisfied_below *= 0.5  # what was skipped adds up to more than expected


class ProximalTerm:
    """Of a state: the weight k of its proximal term, by what the rounds see."""

    k: float
    least: float  # of the gaps that were seen
    stalled: int  # rounds since it fell

    def balance(
        self,
        gap: float,
        ascent: float,
        lag: float,
        decay: float,
        else_by: float = 0.5,
        lagging: float = STRICT,
    ) -> None:
        """Lower k where the centre is too far from w: `lag` beside `ascent`, which are the gap.

        It is where `lag` is above `lagging` times `ascent`. Where nothing falls k is multiplied by `else_by`.
        """
        self.stalled += 1
        lagging = lagging if gap <= GROWN * self.least else min(lagging, STRICT)
        if gap < 0.9 * self.least:
            self.least, self.stalled = gap, 0
        if lag > lagging * ascent:
            self.k /= decay
        elif self.stalled >= STALLED_ROUNDS:
            self.k, self.stalled = else_by * self.k, 0


@dataclass
class ProximalState(SearchState, ProximalTerm):
    """The dual state, when a block is satisfied, and k."""

    k: float
    rest: np.ndarray = field(repr=False)  # oracle passes that each block may still miss
    satisfied: np.ndarray = field(repr=False)  # oracle visits in a row that found it so
    least: float = np.inf
    stalled: int = 0
    reported: int = 0  # oracle calls that steps have reported
    most_bytes: int = -1  # of the kept outputs; -1: any
    refused: int = 0  # outputs for which no bytes were left
    stretch: int = (
        0  # blocks that a pass finishes before it goes on to others; 0: all in one random order
    )

    def reopen(self) -> None:
        """See all blocks again, with the rounding removed from w."""
        super().reopen()
        self.rest[:] = 0

    def shuffled(self, blocks: np.ndarray) -> np.ndarray:
        """A fresh order of some blocks."""
        rng = self.dual.rng
        if self.stretch == 0:
            return core.shuffled(blocks, rng.integers(LARGEST_SEED))  # a fifth of NumPy's time
        turns = rng.permutation(len(self.rest) // self.stretch + 1)  # always the same would be slow
        return blocks[np.lexsort((rng.random(len(blocks)), turns[blocks // self.stretch]))]

    def visit(self, order: np.ndarray, **options: Any) -> Visit:
        """One pass of the dual state, within the bytes that outputs may still take."""
        most = self.most_bytes
        budget = -1 if most < 0 else max(0, most - self.dual.core.bytes_kept)
        visit = self.dual.visit(order, byte_budget=budget, **options)
        self.refused += visit.refused
        return visit
