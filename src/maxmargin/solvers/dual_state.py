"""DualState: cached planes, multipliers and w; the Python side of the core's state.

A state belongs to one problem. ``visit`` is one pass over the blocks of an order. The call is the
same for compiled models and for models written in Python, whose oracle is called in this file.

The core contains the metric of a prior and its bounds (``cpp/solvers/metric.hpp``). A prior with
one scale s and a mean m only needs a shift and another C. The core then works on

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
PAIR_RULES = ("wss2", "mvp")  # rules that choose a pair of outputs
PRECISIONS = ("auto", "single", "double")
PROBED = 200  # number of blocks that the oracle sees before training, to measure losses and planes
COPIES_BYTES = 2**30  # memory limit for the copies of w in threads
PROBED_ONE_IN = 50  # with a Python model, one block in 50 is probed, because its oracle may be slow
SINGLE_ENOUGH = 1e-5  # single precision reaches tolerances above this share of the mean loss
SINGLE_LEAST = 0.1  # if the loss is at least this: violations below 1e-6 count as rounding


@dataclass(frozen=True)
class Visit:
    """The result of one pass."""

    violations: np.ndarray  # g_i of each visited block, in the order of the visits
    slacks: np.ndarray  # xi_i of each, if asked for
    oracle_calls: int
    updates: int
    violation: float  # sum of mass_i g_i
    gain: float
    refused: int = 0  # outputs that were dropped because the byte budget was used up


class UnderPrior:
    """Base of states that work under the prior of a problem; the core has the rest of the prior."""

    unit: float = 1.0
    mean: np.ndarray | None = None
    prior: Prior | None = None
    problem: Problem
    core: Any
    full: bool = False  # whether the covariance is a full matrix

    def read_prior(self, problem: Problem) -> None:
        """Read the unit and the mean of the prior, and keep the prior if it is more than a shift.

        ``set_prior`` passes them to the core.
        """
        self.unit, self.mean = shift_of(problem)
        prior = problem.regularizer
        self.prior = prior if isinstance(prior, Prior) and not prior.uniform else None

    def set_prior(self) -> None:
        """Pass the prior to the core."""
        if self.prior is not None:
            self.take_prior(self.prior)
        elif self.mean is not None:
            self.core.set_origin(self.mean)

    def take_prior(self, prior: Prior) -> None:
        """Use the metric, bounds and mean of this prior from now on."""
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
    """Base of states that cache outputs in the core, whatever constraints tie the multipliers."""

    problem: Problem
    tol: float
    rng: np.random.Generator
    passes: int = field(default=0, init=False)
    estimate: float = field(default=np.inf, init=False)  # estimated gap after the last full pass
    # The offset of the frozen plane, which is a constant in D(a).
    fixed: float = field(default=0.0, init=False)
    # Return the planes with positive multipliers, of all blocks or of some.
    support: ClassVar[Callable[..., Support]]

    def read_prior(self, problem: Problem) -> None:
        super().read_prior(problem)
        if problem.frozen is not None:
            self.fixed = problem.frozen.offset

    def report(self, calls: int, estimate: float, **more: Any) -> StepReport:
        """Return the report of a step that has just ended."""
        return StepReport(calls, estimate, self.dual(), self.n_planes, **more)

    def readable(self, kept: np.ndarray) -> Any:
        """Return cached outputs in the form of the model."""
        return kept

    def _offered(self, point: Support) -> np.ndarray:
        """Return the outputs of a dual point in the form of the core."""
        return known_outputs(self.problem, point, self.core.support()[2].dtype)

    def refresh(self) -> None:
        """Recompute w without the rounding that updates have accumulated."""
        self.core.refresh()

    def dual(self) -> float:
        """Return D(a), computed from the running w."""
        return self.core.dual() / self.unit + self.fixed

    @property
    def n_planes(self) -> int:
        """The number of cached outputs."""
        return self.core.n_planes

    def solution(self) -> tuple[np.ndarray, Support]:
        """Return w and the multipliers."""
        return self.weights(), self.support()

    def weights(self) -> np.ndarray:
        """Return w, computed from the multipliers in double precision."""
        return self.core.weights()


@dataclass(eq=False, repr=False)
class DualState(KeptState):
    """Multipliers and w of a compiled model.

    ``lean`` saves the tables that are as long as the data. Cached planes take ``core.bytes_kept``
    bytes.
    """

    single: bool = False
    lean: bool = False
    oracle_calls: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        problem = self.problem
        # Slack rescaling multiplies by losses, so it needs double precision. So does a mean of the
        # prior: the scores of w alone may be far larger than the losses.
        self.read_prior(problem)
        plain = problem.rescaling == "margin" and not problem.examples.kernelised
        self.single = self.single and plain and self.mean is None
        self.core: Any = self._open(problem, self.unit * problem.mass)
        self.set_prior()
        copy_bytes = max(1, problem.dimension) * (4 if self.single else 8)
        # Each thread beyond the first has its own copy of w and repeats all updates. More threads
        # than cores only cost time.
        self.most_threads: int = min(core.usable_cores(), 1 + COPIES_BYTES // copy_bytes)
        # g_i of each block, as of its last oracle visit.
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
        threads: int | None = None,  # None means the number of the problem
        byte_budget: int = -1,
    ) -> Visit:
        """Make one pass over the blocks of `order`; `byte_budget` limits new planes (-1: no limit)."""
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
        """Make one pass of stochastic subgradient steps; return the risk as seen during the pass."""
        calls, risk = self.core.subgradient(order, float(len(self.problem.active)))
        self.oracle_calls += calls
        return risk / self.unit

    def probe(self, blocks: np.ndarray) -> tuple[float, float]:
        """Return the means of |psi|^2 and Delta over the loss-augmented outputs of some blocks."""
        self.oracle_calls += len(blocks)
        return self.core.probe(blocks)

    def known_violations(self) -> np.ndarray:
        """Return the last known g_i of every block; blocks without mass are never visited and have 0."""
        return np.where(self.problem.mass > 0, np.maximum(self.violations, 0.0), 0.0)

    def weights(self) -> np.ndarray:
        return self.core.weights(True)

    def sums(self) -> np.ndarray:
        """Return S, the sum of the steps of the subgradient method."""
        S = self.core.weights(False)
        if self.mean is None:
            return S
        return S - self.core.steps / len(self.problem.active) * self.mean

    def gap_terms(self) -> tuple[float, float]:
        """Return the sum of mass_i g_i as last seen, and the part of the gap that the proximal term adds."""
        return float(self.problem.mass @ self.known_violations()), self.lag()

    def lag(self) -> float:
        """Return R(w) + R*(q) - <q, w>: the gap that arises because the proximal term moves w away from q."""
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
        """Start from these multipliers; w is the same as before unless a block has lost mass."""
        point = support.carried(self.problem.mass, self.support(), self.unit)
        self.core.restore(point.blocks, point.multipliers, self._offered(point))

    def snapshot(self, w: np.ndarray, averaging: bool) -> Snapshot:
        """Return the multipliers, the number of steps so far, and the sums for an average of iterates."""
        average = {"weighted": self.core.weighted()} if averaging else {}
        return Snapshot(w, self.support(), {"steps": np.array([self.core.steps]), **average})

    def go_on(self, at: Snapshot, averaging: bool, counts: bool = False) -> None:
        """Restore the number of steps and the average; with `counts`, also multipliers that count visits."""
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
        """Return four numbers for each block.

        They are g_i, the bytes of its planes, the number of outputs with a multiplier, and the sum
        of the multipliers of wrong outputs.
        """
        return self.known_violations(), *self.core.usage()


class ExplicitState(AskedState, DualState):
    """Multipliers and w of a model written in Python."""

    def _open(self, problem: Problem, mass: np.ndarray) -> Any:
        self.batch: int = self.batch_size()
        return core.ExplicitAscent(problem.n_blocks, problem.dimension, mass, self.lean)

    def batches(self, order: np.ndarray, size: int) -> Iterator[np.ndarray]:
        """Yield parts of an order in which no block appears twice, because an offer serves one visit."""
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
        moves = options.get("update", True)  # if w stays fixed, all blocks can be searched at once
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
    """The dual state of a problem whose outputs are searched for, and the threshold for satisfied blocks."""

    dual: DualState
    satisfied_below: float

    def solution(self) -> tuple[np.ndarray, Support]:
        """Return w and the planes with positive multipliers."""
        return self.dual.solution()

    def reopen(self) -> None:
        """Recompute w without the rounding that updates have accumulated."""
        self.dual.refresh()


def known_outputs(problem: Problem, point: Support, dtype: Any = np.int32) -> np.ndarray:
    """Return the outputs of an earlier fit in the form of the core; raise ValueError if labels differ."""
    examples: Any = problem.examples
    if not examples.knows(point.outputs, point.blocks):
        raise ValueError(
            "warm_start: the labels differ from those of the last fit; set warm_start=False"
        )
    return np.ascontiguousarray(point.outputs, dtype=dtype)


def shift_of(problem: Problem) -> tuple[float, np.ndarray | None]:
    """Return s^2 for a prior with one scale s (1 for others), and the mean of the prior."""
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
    """Open a dual state for the problem's model."""
    kind = ExplicitState if problem.examples.core is None else DualState
    state = kind(problem, tol, rng, single, lean)
    if problem.frozen is not None and problem.frozen.vector.any():
        state.core.freeze(state.unit * problem.frozen.vector)
    if warm is not None:
        state.restore(warm)
    return state


def unpriored(problem: Problem) -> Problem:
    """Return the problem with the regulariser 1/2 |w|^2, for code that only needs multipliers."""
    if not isinstance(problem.regularizer, Prior):
        return problem
    plain = copy.copy(problem)
    plain.regularizer = SquaredNorm(problem.examples.metric)
    return plain


def mean_loss(problem: Problem, rng: np.random.Generator) -> tuple[float, int]:
    """Return the mean of max_y Delta_i(y) over some examples, and the number of oracle calls made."""
    n = len(problem.active)
    few = min(PROBED, n) if problem.examples.core is not None else -(-n // PROBED_ONE_IN)
    blocks = rng.permutation(problem.active)[: min(PROBED, few)]
    loss = open_state(unpriored(problem), 1.0, rng, single=True, lean=True).probe(blocks)[1]
    return float(loss), len(blocks)
