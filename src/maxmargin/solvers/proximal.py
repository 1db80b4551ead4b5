"""Accelerated proximal dual ascent: the default.

A round ascends the dual of P(w) + k/2 |w - z|^2 by one oracle pass. Passes over the cached outputs
follow, until their gap is `inner` of the gap that the oracle pass saw. Then the centre moves with
momentum, z = w + beta (w - w_previous). The proximal term makes a weakly regularised problem well
conditioned. The gap of the problem itself stays known,

    P(w) - D(a) = sum_i mass_i g_i + k^2 / 2 |w - z|^2.

k starts at C mean|psi|^2 / mean(Delta), taken over the outputs that the oracle returns at w = 0. It
is divided by `decay` whenever the second term is more than `LAGGING` times the first (`STRICT`
times if the gap has grown). It is halved if the gap has not fallen for `STALLED_ROUNDS` rounds.
Blocks with g_i <= care * tol are satisfied: they leave the cached passes of the round and skip the
next `skip` oracle passes. Each time they are found satisfied again, they skip `skip` passes more,
up to `LONGEST_REST`.

If all constraints are explicit (two classes, K classes, regression, explicit groups), the same
rounds run in compiled code, ``cpp/solvers/dual_coordinate.hpp``. A visit
then scores all outputs of its block and solves the block. The first k is a tenth of the value above
if there are no more blocks than weights, if there are no classes, or if a small gap is needed. It
is 0 if it would be very small. A
step on small data makes several rounds. With a `rule` or `keep` other than the default, outputs are
searched for instead.
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

LARGE = 100_000_000  # with more weights, the two extra copies of w take too much memory
STIFFEST = 1000.0  # largest k: a round shrinks the error only by the factor k / (1 + k)
MOST_ROUNDS = 100  # most rounds over cached outputs alone
REVISIT = 4  # rounds over cached outputs from one that visits all blocks to the next
LONGEST_REST = 4  # most oracle passes that a satisfied block misses, unless `skip` is larger
STALLED_ROUNDS = 10  # k is halved if the estimate does not fall by a tenth in this many rounds
# Factor on the first k if a visit solves its block exactly and blocks share little (no more blocks
# than weights, as in text), for regression and groups, and if fits end with climbs of the face.
# Without it text takes longer; for all problems, dense data would take longer.
UNSHARED = 0.1
# The weight k falls if the second term of the gap exceeds the first by this factor. Some data are
# faster with a smaller factor, some with a larger one.
LAGGING = 1.5
# The same factor if the gap has grown to `GROWN` times its least value. A centre that is too far
# away makes steps overshoot, and without this they may run in a circle.
STRICT, GROWN = 0.5, 2.0
# Factor on the first k of a warm start for another C: a larger one saves no oracle passes.
WARM = 0.1
LIGHT = 0.05  # a smaller k is not used: it saves no visits, and its two copies of w cost time
LARGEST_SEED = 2**63 - 1
# Largest squares of weights and features whose products single precision can hold.
SINGLE_MOST = 1e30


@dataclass(frozen=True)
class Proximal(Solver):
    """Accelerated proximal dual ascent.

    Parameters
    ----------
    cached_passes : int
        Most passes over the cached outputs after each oracle pass.
    inner : float
        These passes end when their gap is this fraction of the gap that the oracle pass saw.
    momentum : float
        The factor beta; training can fail to converge at 0.7 and above.
    proximity : float
        Factor on the first k; 0 turns the proximal term off.
    decay : float
        k is divided by this when the centre is too far from w.
    care : float
        A block is satisfied once its part of the gap is below this fraction of tol.
    skip : int
        Number of oracle passes that a satisfied block misses at first.
    keep : int
        Drop an output without a multiplier after this many oracle visits; 0 never drops one.
    rule : "wss2" or "mvp"
    precision : "auto", "single" or "double"
        Precision of w while it is updated. "auto": single if tol allows it.
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
        """Return a state at w = 0 or at the multipliers of `warm`, with this k if it is known."""
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
        """Return a state for explicit constraints."""
        scale = explicit.scale or 0.0
        single = scale >= SINGLE_LEAST and tol >= SINGLE_ENOUGH * scale
        single = single if self.precision == "auto" else self.precision == "single"
        active = problem.active
        if len(active) > PROBED:  # a permutation of all blocks would take longer than the visits
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
            k *= 1.0 if problem.feasible(warm) else WARM  # the reason is in `_resume`
        state.core.set_proximity(k)
        state.aim, state.loss, state.probed = tol, loss, len(blocks)
        return state

    def _large(self, problem: Problem, unit: float, square: float, loss: float) -> bool:
        """Return whether squares may be too large for single precision.

        D >= 0 gives |w|^2 <= 2 C sum v Delta; scores are sums of products of w with features.
        """
        return max(square, unit * problem.total * loss) > SINGLE_MOST

    def first_k(self, C: float, dimension: int, unit: float, square: float, loss: float) -> float:
        """Return the first k from mean |psi|^2 and mean Delta; 0 if w is too large for two copies."""
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
        """Return a state, with this k and in this precision if they are known."""
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
                # The distance to the centre would need the inverse of a covariance matrix, so there
                # is no proximal term.
                first = self.first_k(problem.C, problem.dimension, dual.unit, square, loss)
                k = 0.0 if dual.full else first
        rest = np.zeros(problem.n_blocks, dtype=np.int64)
        state = ProximalState(dual, self.care * tol, k, rest, np.zeros_like(rest))
        if warm is not None:
            self._resume(problem, state, warm)
        return state

    def _resume(self, problem: Problem, state: ProximalState, warm: Support) -> None:
        """Start from these multipliers.

        For another C, the outputs with multipliers are solved first, before the oracle is called. k
        is far smaller than at w = 0, because the centre is nearer to the solution.
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
        """Make one oracle pass over these blocks in their order; return the estimate of the gap."""
        state.visit(blocks, tolerance=tolerance)
        return self._gap(problem, state)[2]

    def round(self, problem: Problem, state: ProximalState, blocks: np.ndarray) -> float:
        """Make one oracle pass over the blocks that are due, then passes over the cached outputs."""
        dual = state.dual
        if state.k > 0:  # not at the end: the certificate needs w as the round left it
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
        """Make passes over the cached outputs until their gap is `inner` of `seen`."""
        for _ in range(self.cached_passes):
            todo, left = self._visit(problem, state, todo, oracle=False)
            if left <= self.inner * seen:
                break

    def settle(
        self, problem: Problem, state: ProximalState, enough: float, last_visit: float
    ) -> None:
        """Make rounds over the cached outputs alone until their gap is at most `enough`.

        k falls from a high value, and faster if the centre is far behind. Every `REVISIT` rounds,
        and before the end, all blocks are visited; other rounds only visit blocks that were not
        satisfied since. Satisfied blocks do not move, so only the others count at the end.
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
        """Make a pass in a random order; return the unsatisfied blocks and the sum of mass_i g_i."""
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
        """Return the two terms of the gap as last seen, and their sum in loss units."""
        ascent, lag = state.dual.gap_terms()
        return ascent, lag, (ascent + lag) / problem.total

    def _balance(self, problem: Problem, state: ProximalState) -> float:
        """Lower k if the centre is too far from w; return the estimate of the gap, in loss units."""
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
        state.satisfied_below *= 0.5  # the parts of skipped blocks add up to more than expected


class ProximalTerm:
    """Base of states with a proximal term: adapts its weight k to the progress of the rounds."""

    k: float
    least: float  # the smallest gap so far
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
        """Lower k if the centre is too far from w; `ascent` and `lag` are the two terms of the gap.

        The centre is too far if `lag` exceeds `lagging` times `ascent`. If the gap stalls, k is
        multiplied by `else_by`.
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
    """The dual state, the threshold for satisfied blocks, and k."""

    k: float
    rest: np.ndarray = field(repr=False)  # oracle passes that each block may still miss
    # Number of oracle visits in a row that found each block satisfied.
    satisfied: np.ndarray = field(repr=False)
    least: float = np.inf
    stalled: int = 0
    reported: int = 0  # oracle calls that were reported by earlier steps
    most_bytes: int = -1  # byte limit for cached outputs; -1: none
    refused: int = 0  # outputs dropped because the limit was reached
    stretch: int = (
        0  # if positive: a pass finishes this many neighbouring blocks before it goes on to others
    )

    def reopen(self) -> None:
        """Visit all blocks again, and recompute w without accumulated rounding."""
        super().reopen()
        self.rest[:] = 0

    def shuffled(self, blocks: np.ndarray) -> np.ndarray:
        """Return these blocks in a random order."""
        rng = self.dual.rng
        if self.stretch == 0:
            # Much faster than a permutation by NumPy.
            return core.shuffled(blocks, rng.integers(LARGEST_SEED))
        # An order that is always the same would converge slowly.
        turns = rng.permutation(len(self.rest) // self.stretch + 1)
        return blocks[np.lexsort((rng.random(len(blocks)), turns[blocks // self.stretch]))]

    def visit(self, order: np.ndarray, **options: Any) -> Visit:
        """Make one pass of the dual state, within the byte limit for cached outputs."""
        most = self.most_bytes
        budget = -1 if most < 0 else max(0, most - self.dual.core.bytes_kept)
        visit = self.dual.visit(order, byte_budget=budget, **options)
        self.refused += visit.refused
        return visit
