"""DualState: planes kept, multipliers, w, and the law that ties them; the Python side of the core's.

A state belongs to one problem. ``visit`` is one pass over the blocks of an order: the same call for the
compiled models and for models written in Python, whose oracle is asked here.

The core has the metric of a prior and its bounds in it (``cpp/solvers/metric.hpp``). A prior of one scale s
and a mean m is only a shift and another C: the core then works on

    s^2 P(w) = 1/2 |w - m|^2 + sum_i s^2 mass_i xi_i(w)

with multipliers s^2 a, and the objectives that it reports are divided by ``unit`` = s^2.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from maxmargin._core import core
from maxmargin.problem import Problem, Support
from maxmargin.problem.regularizer import Prior, SquaredNorm
from maxmargin.solvers.asked_state import AskedState
from maxmargin.solvers.base import Snapshot, StepReport

RULES = {"wss2": 0, "mvp": 1, "frank-wolfe": 2}
PAIR_RULES = ("wss2", "mvp")  # rules that choose a pair
PRECISIONS = ("auto", "single", "double")
PROBED = 200  # blocks that are looked at before training
COPIES_BYTES = 2**30  # for the copies of w that threads work on
PROBED_ONE_IN = 50  # blocks of a model in Python, whose oracle may be slow
SINGLE_ENOUGH = 1e-5  # single precision reaches a tolerance of this share of the mean loss
SINGLE_LEAST = 0.1  # if that is at least this: violations of 1e-6 and less are taken for rounding


@dataclass(frozen=True)
class Visit:
    """What one pass did."""

    violations: np.ndarray  # g_i of each visited block, in the order of the visits
    slacks: np.ndarray  # xi_i of each, where asked for
    oracle_calls: int
    updates: int
    violation: float  # sum of mass_i g_i
    gain: float
    refused: int = 0  # outputs for which no bytes were left


class UnderPrior:
    """Of a state: what it has of the problem's prior, the rest of which is in the core."""

    unit: float = 1.0
    mean: np.ndarray | None = None
    prior: Prior | None = None
    problem: Problem
    core: Any
    full: bool = False  # whether the metric is that of a covariance matrix

    def read_prior(self, problem: Problem) -> None:
        """Unit, mean, and the prior where it is more than these; ``set_prior`` passes them to the core."""
        self.unit, self.mean = shift_of(problem)
        prior = problem.regularizer
        self.prior = prior if isinstance(prior, Prior) and not prior.uniform else None

    def set_prior(self) -> None:
        """The core works under the prior from now on."""
        if self.prior is not None:
            self.take_prior(self.prior)
        elif self.mean is not None:
            self.core.set_origin(self.mean)

    def take_prior(self, prior: Prior) -> None:
        """Work in the metric of this prior and within its bounds, from now on."""
        self.prior, self.mean, self.full = prior, prior.mean, prior.full
        none, scale = np.empty(0), np.asarray(prior.scale)
        lower = none if prior.bound is None else np.where(prior.bound, 0.0, -np.inf)
        if prior.full:
            matrix = np.ascontiguousarray(scale @ scale.T)
            self.core.set_metric(none, lower, matrix.ravel())
        else:
            ones = scale.ndim == 0 and scale == 1.0
            diagonal = np.broadcast_to(scale**2, (self.problem.dimension,))
            self.core.set_metric(none if ones else np.ascontiguousarray(diagonal), lower, none)
        if prior.mean is not None:
            self.core.set_origin(prior.mean)


@dataclass(eq=False, repr=False)
class KeptState(UnderPrior):
    """Of a state that keeps outputs in the core: what does not depend on how multipliers are tied."""

    problem: Problem
    tol: float
    rng: np.random.Generator
    passes: int = field(default=0, init=False)
    estimate: float = field(default=np.inf, init=False)  # of the gap, after the last whole pass
    # Of D(a): what the plane of examples that are gone gives.
    fixed: float = field(default=0.0, init=False)
    # The planes with positive multipliers; or those of some blocks.
    support: ClassVar[Callable[..., Support]]

    def read_prior(self, problem: Problem) -> None:
        super().read_prior(problem)
        if problem.frozen is not None:
            self.fixed = problem.frozen.offset

    def report(self, calls: int, estimate: float, **more: Any) -> StepReport:
        """What a step did that left the state as it is now."""
        return StepReport(calls, estimate, self.dual(), self.n_planes, **more)

    def readable(self, kept: np.ndarray) -> Any:
        """Kept outputs as the model knows them."""
        return kept

    def _offered(self, point: Support) -> np.ndarray:
        """The outputs of a dual point as the core keeps them."""
        return known_outputs(self.problem, point, self.core.support()[2].dtype)

    def refresh(self) -> None:
        """Remove the rounding that updates of w have gathered."""
        self.core.refresh()

    def dual(self) -> float:
        """D(a) by the running w."""
        return self.core.dual() / self.unit + self.fixed

    @property
    def n_planes(self) -> int:
        """How many outputs are kept."""
        return self.core.n_planes

    def solution(self) -> tuple[np.ndarray, Support]:
        """w and the multipliers."""
        return self.weights(), self.support()

    def weights(self) -> np.ndarray:
        """w by the law, in double precision."""
        return self.core.weights()


@dataclass(eq=False, repr=False)
class DualState(KeptState):
    """Multipliers and w of a compiled model.

    ``lean`` does without tables that are as long as the data; what is kept takes ``core.bytes_kept`` bytes.
    """

    single: bool = False
    lean: bool = False
    oracle_calls: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        problem = self.problem
        # Slack rescaling multiplies by losses: double precision only.
        # So does a distant mean: the scores of w alone may be far above the losses.
        self.read_prior(problem)
        plain = problem.rescaling == "margin" and not problem.examples.kernelised
        self.single = self.single and plain and self.mean is None
        self.core: Any = self._open(problem, self.unit * problem.mass)
        self.set_prior()
        copy_bytes = max(1, problem.dimension) * (4 if self.single else 8)
        # Each thread beyond the first has a copy of w, and repeats all updates: more threads
        # than cores only cost time.
        self.most_threads: int = min(core.usable_cores(), 1 + COPIES_BYTES // copy_bytes)
        # g_i of each block, as its last oracle visit saw it
        self.violations: np.ndarray = np.full(problem.n_blocks, np.inf)

    def _open(self, problem: Problem, mass: np.ndarray) -> Any:
        return problem.examples.core.ascent(problem.rescaling, self.single, mass, self.lean)

    def visit(
        self,
        order: np.ndarray,
        rule: str = "wss2",
        oracle: bool = True,
        update: bool = True,
        slacks: bool = False,
        line_search: bool = True,
        tolerance: float = 0.0,
        keep: int = 0,
        threads: int | None = None,  # None: those of the problem
        byte_budget: int = -1,
    ) -> Visit:
        """One pass over the blocks of `order`; what it finds may take `byte_budget` bytes (-1: any)."""
        threads = min(threads or self.problem.n_jobs, self.most_threads)
        threads = 1 if self.problem.examples.kernelised else threads
        report = self.core.visit(
            order,
            RULES[rule],
            oracle,
            update,
            slacks,
            line_search,
            tolerance,
            keep,
            threads,
            byte_budget,
        )
        violations, xi, calls, updates, violation, gain, refused = report
        if oracle:
            self.violations[order] = violations
        self.oracle_calls += calls
        seen, gained = violation / self.unit, gain / self.unit
        return Visit(violations, xi, calls, updates, seen, gained, refused)

    def subgradient(self, order: np.ndarray) -> float:
        """One pass of stochastic subgradient; returns the risk as it was seen."""
        calls, risk = self.core.subgradient(order, float(len(self.problem.active)))
        self.oracle_calls += calls
        return risk / self.unit

    def probe(self, blocks: np.ndarray) -> tuple[float, float]:
        """mean |psi|^2 and mean Delta of the loss-augmented outputs of some blocks."""
        self.oracle_calls += len(blocks)
        return self.core.probe(blocks)

    def known_violations(self) -> np.ndarray:
        """g_i of every block as last seen; zero for blocks without mass, which are never visited."""
        return np.where(self.problem.mass > 0, np.maximum(self.violations, 0.0), 0.0)

    def weights(self) -> np.ndarray:
        return self.core.weights(True)

    def sums(self) -> np.ndarray:
        """S of the subgradient method, as its steps have left it."""
        S = self.core.weights(False)
        if self.mean is None:
            return S
        return S - self.core.steps / len(self.problem.active) * self.mean

    def gap_terms(self) -> tuple[float, float]:
        """sum_i mass_i g_i as last seen, and R(w) + R*(q) - <q, w>, the part that the proximal term makes."""
        return float(self.problem.mass @ self.known_violations()), self.lag()

    def lag(self) -> float:
        """R(w) + R*(q) - <q, w>: by how much the proximal term keeps w from the law."""
        if self.core.proximity == 0:
            return 0.0
        if self.prior is not None:
            return self.core.lag()
        return 0.5 * self.core.proximity**2 * self.core.squared_distance() / self.unit

    def support(self, blocks: np.ndarray | None = None) -> Support:
        kept = self.core.support() if blocks is None else self.core.support_of(blocks)
        found, multipliers, outputs = kept
        partial = blocks is not None
        return Support(found, multipliers / self.unit, self.readable(outputs), partial)

    def restore(self, support: Support) -> None:
        """Start from these multipliers, with their w where no mass is smaller than before."""
        point = support.carried(self.problem.mass, self.support(), self.unit)
        self.core.restore(point.blocks, point.multipliers, self._offered(point))

    def snapshot(self, w: np.ndarray, averaging: bool) -> Snapshot:
        """The multipliers, the number of steps so far, and what an average of iterates needs."""
        average = {"weighted": self.core.weighted()} if averaging else {}
        return Snapshot(w, self.support(), {"steps": np.array([self.core.steps]), **average})

    def go_on(self, at: Snapshot, averaging: bool, counts: bool = False) -> None:
        """Take over the number of steps and the average; multipliers too, where they count visits."""
        steps, point, n = float(at.array("steps", 1)[0]), at.support, self.problem.n_blocks
        scale, sums = 1.0, np.empty(0)
        if counts and steps > 0:
            scaled = self.unit * point.multipliers
            self.core.restore(point.blocks, scaled, self._offered(point))
            scale = steps / len(self.problem.active)
            sums = np.bincount(point.blocks, scaled, n).astype(np.float64)
        weighted = at.array("weighted", self.problem.dimension) if averaging else np.empty(0)
        self.core.go_on(steps, scale, sums, weighted)

    def usage(self) -> tuple[np.ndarray, ...]:
        """Of each block g_i, bytes of planes, how many have a multiplier, and those of wrong outputs."""
        return self.known_violations(), *self.core.usage()


class ExplicitState(AskedState, DualState):
    """Multipliers and w of a model written in Python."""

    def _open(self, problem: Problem, mass: np.ndarray) -> Any:
        self.batch: int = self.batch_size()
        return core.ExplicitAscent(problem.n_blocks, problem.dimension, mass, self.lean)

    def batches(self, order: np.ndarray, size: int) -> Iterator[np.ndarray]:
        """Parts of an order in which no block appears twice: an offer is for one visit."""
        for start in range(0, len(order), size):
            blocks = order[start : start + size]
            while len(blocks) > 1:
                first = np.sort(np.unique(blocks, return_index=True)[1])
                yield blocks[first]
                blocks = np.delete(blocks, first)
            if len(blocks):
                yield blocks

    def visit(self, order: np.ndarray, oracle: bool = True, **options: Any) -> Visit:  # type: ignore[override]
        options["threads"] = 1
        if not oracle:
            return super().visit(order, oracle=False, **options)
        budget = options.get("byte_budget", -1)
        limit = self.core.bytes_kept + budget if budget >= 0 else None
        parts = []
        moves = options.get("update", True)  # else w stays, and all can be asked at once
        for blocks in self.batches(order, self.batch if moves else max(1, len(order))):
            self.ask(blocks, self.running())
            if limit is not None:
                options["byte_budget"] = max(0, limit - self.core.bytes_kept)
            parts.append(super().visit(blocks, oracle=True, **options))
        arrays, numbers = ("violations", "slacks"), [own.name for own in fields(Visit)[2:]]
        merged: list[Any] = [
            np.concatenate([np.empty(0), *(getattr(p, name) for p in parts)]) for name in arrays
        ]
        return Visit(*merged, *(sum(getattr(part, name) for part in parts) for name in numbers))

    def subgradient(self, order: np.ndarray) -> float:
        risk, active = 0.0, float(len(self.problem.active))
        for blocks in self.batches(order, self.batch):
            steps = self.core.steps
            self.ask(blocks, self.running() * (active / steps) if steps else self.running())
            risk += super().subgradient(blocks)
        return risk

    def probe(self, blocks: np.ndarray) -> tuple[float, float]:
        self.ask(blocks, self.running())
        return super().probe(blocks)


@dataclass
class SearchState:
    """The dual state of a problem whose outputs are searched for, and when a block is satisfied."""

    dual: DualState
    satisfied_below: float

    def solution(self) -> tuple[np.ndarray, Support]:
        """w by the law, and the planes with positive multipliers."""
        return self.dual.solution()

    def reopen(self) -> None:
        """Remove the rounding that updates of w have gathered."""
        self.dual.refresh()


def known_outputs(problem: Problem, point: Support, dtype: Any = np.int32) -> np.ndarray:
    """The outputs of an earlier fit as the core takes them; refuses those of other labels."""
    examples: Any = problem.examples
    if not examples.knows(point.outputs, point.blocks):
        raise ValueError("warm_start: the last fit had other labels; set warm_start=False")
    return np.ascontiguousarray(point.outputs, dtype=dtype)


def shift_of(problem: Problem) -> tuple[float, np.ndarray | None]:
    """s^2 of a prior of one scale (else 1), and the mean of any prior."""
    prior = problem.regularizer
    if not isinstance(prior, Prior):
        return 1.0, None
    unit = float(prior.scale) ** 2 if prior.uniform else 1.0
    with np.errstate(over="ignore"):
        if not 0 < unit * problem.total < np.inf:
            raise ValueError(
                f"prior: C times scale^2 must be finite and positive, got {unit * problem.C}"
            )
    return unit, prior.mean


def open_state(
    problem: Problem,
    tol: float,
    rng: np.random.Generator,
    single: bool = False,
    warm: Support | None = None,
    lean: bool = False,
) -> DualState:
    """A state for the problem's model."""
    kind = ExplicitState if problem.examples.core is None else DualState
    state = kind(problem, tol, rng, single, lean)
    if problem.frozen is not None and problem.frozen.vector.any():
        state.core.freeze(state.unit * problem.frozen.vector)
    if warm is not None:
        state.restore(warm)
    return state


def unpriored(problem: Problem) -> Problem:
    """The same blocks under 1/2 |w|^2, for what concerns multipliers alone."""
    if not isinstance(problem.regularizer, Prior):
        return problem
    plain = copy.copy(problem)
    plain.regularizer = SquaredNorm(problem.examples.metric)
    return plain


def mean_loss(problem: Problem, rng: np.random.Generator) -> tuple[float, int]:
    """The mean of max_y Delta_i(y) over some examples, and how often the oracle was asked."""
    n = len(problem.active)
    few = min(PROBED, n) if problem.examples.core is not None else -(-n // PROBED_ONE_IN)
    blocks = rng.permutation(problem.active)[: min(PROBED, few)]
    loss = open_state(unpriored(problem), 1.0, rng, single=True, lean=True).probe(blocks)[1]
    return float(loss), len(blocks)
