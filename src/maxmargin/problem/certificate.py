"""Certificate: how far from the optimum a solution can be, computed by a stranger to the solver.

    dual <= P* <= primal,     gap = (primal - dual) / (C sum_i v_i)     in units of the task loss

Primal by one exact pass at w, dual from the multipliers alone (``Problem.certify``); no running sum of a
solver is used. Both are moved apart by what rounding may have done to them (``problem.rounding``), so that
they hold for exact arithmetic.

Which gap is small enough (``Tolerance``): a number in units of the loss, or "auto", a part of the objective.

    number     (P(w) - D(a)) / (C sum_i v_i) <= tol
    "auto"     P(w) - D(a) <= RELATIVE P(w)    and    P(w) - D(a) <= PROGRESS (P(0) - D(a))

A number means the same for every C; but where losses are counts it may be far below what a test score can
show, and where C is large and the data nearly separable P* / (C sum v) itself is below it. What test scores
lose at a hundredth is measured by ``benchmarks.tolerance``.

Where C is small P* is hardly below P(0), and a hundredth of it may be more than all that can be learnt: the
second condition says that nine tenths of what may lie below P(0) are done. P(0) is known for some examples
before training; it is computed where P(w) turns out to be near it.

Where C is so large that P* / (C sum v) is a thousandth of the loss at w = 0 or less, a hundredth of it may
take hundreds of passes that change no prediction; where C is so small that P(0) - P* is a ten-thousandth of
P(0), nothing is learnt. A gap of LEAST_OF_LOSS is enough then. Without that only LEAST_WISHED limits what
is wished for: training tries to reach it for some time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from maxmargin.problem.bounds import Bounds
from maxmargin.problem.plane import (
    DISTRIBUTIONS,
    CompactVector,
    Support,
    compact,
    with_zeros,
)
from maxmargin.problem.problem import Problem

AUTO = "auto"
RELATIVE = 0.01
PROGRESS = 0.1
ZERO_NEEDED_ABOVE = 0.5  # of P(0): above it P(0) must be known
# Of the loss: enough where P* or P(0) - P* is small; single precision gets there.
LEAST_OF_LOSS = 1e-5
LEAST_WISHED = 1e-8  # of the loss: not even wished for


@dataclass(frozen=True)
class Certificate:
    """Bounds on the optimum, whether they are proven, and what they cost.

    ``exact`` is False where the model's argmax may miss the best output and no ceiling is known, or no
    exact pass was made: the primal is then an estimate and the gap is not proven; with hinge="sum" it is
    infinite. ``status`` is a sentence on why training ended. ``relaxed``: the bounds are those of the linear
    relaxation of the argmax, whose optimum is at least that of the problem itself; ``primal`` is an upper
    bound on both. ``reduced_gap`` is the gap of the problem whose outputs are those that were kept, where
    hinge="sum" and not all outputs can be tried; else None. Where numbers overflowed nothing is bounded:
    ``primal`` or ``dual`` is infinite, and so is the gap. ``gap`` and ``tol`` are in units of the loss;
    ``tol="auto"`` is here the number that it came to. ``rounding`` is the part of ``primal`` - ``dual`` that
    is there because sums are rounded: what was computed is closer together by so much.
    """

    primal: float
    dual: float
    gap: float
    tol: float = float("nan")
    converged: bool = False
    exact: bool = True
    passes: float = 0.0
    oracle_calls: int = 0
    support: int = 0
    seconds: float = 0.0
    status: str = "certified"
    relaxed: bool = False
    reduced_gap: float | None = None
    rounding: float = 0.0

    def __post_init__(self) -> None:
        if self.converged and not bounded_by(self.primal, self.dual, self.gap):
            raise ValueError(
                f"a certificate with primal {self.primal}, dual {self.dual} and gap {self.gap} cannot be "
                "converged: these must be finite"
            )

    @property
    def rounding_gap(self) -> float:
        """The part of ``gap`` that is there because sums are rounded."""
        width = self.primal - self.dual
        return self.gap * min(1.0, self.rounding / width) if 0 < width < math.inf else 0.0

    @property
    def relative_gap(self) -> float:
        """(primal - dual) / primal, a share of the objective; infinite where that is not known."""
        if not bounded_by(self.primal, self.dual) or self.primal <= 0:
            return 0.0 if self.gap == 0 else math.inf
        return max(0.0, self.primal - self.dual) / self.primal

    def __str__(self) -> str:
        proof = "proven" if self.exact else "not proven"
        if self.relaxed:
            proof += " for the linear relaxation"
        return (
            f"{self.status}: dual {self.dual:.6g} <= optimum <= primal {self.primal:.6g}, "
            f"gap {self.gap:.3g} ({100 * self.relative_gap:.2g} % of the primal, {proof}; "
            f"tol {self.tol:.3g}), {self.passes:.1f} passes, "
            f"{self.oracle_calls} oracle calls, {self.support} support planes, {self.seconds:.2f} s"
        )


def bounded_by(*values: float) -> bool:
    """Whether these numbers say anything: all of them are finite."""
    return all(map(math.isfinite, values))


def all_finite(values: np.ndarray) -> bool:
    """Whether no number is infinite or NaN, in one pass and without a copy."""
    return math.isfinite(float(values.max(initial=0.0) - values.min(initial=0.0)))


def gap_between(primal: float, dual: float, total: float) -> float:
    """(primal - dual) / (C sum v); infinite where one of them is not finite.

    Rounding alone can make it negative, by parts in 1e16: then zero.
    """
    return loss_units(primal - dual, total)


def loss_units(difference: float, total: float) -> float:
    """A difference of bounds over C sum v; infinite where that is not known."""
    if not (math.isfinite(difference) and 0 < total < math.inf):
        return math.inf
    return max(0.0, difference) / total


class Status(str, Enum):
    """Why training ended."""

    SOLVED = "solved"
    PASS_LIMIT = "pass limit"
    TIME_LIMIT = "time limit"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped by a callback"
    INEXACT = "inexact oracle"
    PASSES_MADE = "passes made"
    CACHE_FULL = "cache full"
    REDUCED = "reduced problem solved"
    UNCHANGED = "multipliers unchanged"
    NUMERICAL = "numerical trouble"
    ROUNDING = "rounding"

    def advice(self, certificate: Certificate, solver: str = "") -> str:
        """What to do about a gap above tol; ``solver`` is what its solver advises, if anything."""
        if not certificate.exact and self not in WHATEVER_PROVEN:
            return (
                "the model's argmax is not exact, or no exact pass was made: the gap is not proven"
            )
        # Of weights without a regulariser only the proximal problems are reduced.
        unknown = self is Status.REDUCED and certificate.reduced_gap is None
        if self in ADVICE and not unknown:
            return ADVICE[self].format(c=certificate)
        return solver or GENERAL


GENERAL = "raise max_passes or max_seconds, raise tol, lower C, or scale the features"
ADVICE = {
    Status.REDUCED: (
        "the problem reduced to the {c.support} outputs with multipliers is solved (its gap: "
        "{c.reduced_gap:.3g}); what all other outputs add to the sum is not known well enough"
    ),
    Status.UNCHANGED: (
        "no multipliers moved by more than SDCD's `change` in the last search: lower it, or set it to 0 to "
        "train until the gap is small"
    ),
    Status.NUMERICAL: (
        "numbers have overflowed, so that the last finite weights are returned: scale the features to about "
        "1, or lower C, the weights of examples and nodes, or the costs"
    ),
    Status.ROUNDING: (
        "the gap that was computed is below {c.rounding_gap:.3g}, which rounding alone may have changed: "
        "scale the features to about 1, or raise tol"
    ),
    Status.INEXACT: (
        "the argmax finds no worse output but cannot exclude one: the gap is a proven bound; raise tol, "
        "or give the model an exact argmax (slack_rescaled_inference for slack rescaling)"
    ),
    Status.PASSES_MADE: "solvers.Streaming(passes=None) makes passes until tol is reached",
    Status.CACHE_FULL: "the multipliers alone fill the cache: raise cache_bytes, or lower C",
}
# What they advise needs no proven gap.
WHATEVER_PROVEN = (Status.REDUCED, Status.UNCHANGED, Status.NUMERICAL, Status.ROUNDING)


@dataclass(frozen=True)
class Tolerance:
    """What is asked of the gap; the rest matters for "auto" alone."""

    asked: float | str
    total: float  # C sum v
    loss: float = math.nan  # mean at w = 0, of some examples
    zero: float = math.inf  # P(0), where it was computed

    def at(self, primal: float, dual: float, least: float = LEAST_OF_LOSS) -> float:
        """The gap to be reached, in units of the loss, as far as the optimum is known.

        ``least``: the part of the loss that is enough, however small P* is.
        """
        if not isinstance(self.asked, str):
            return self.asked
        share = RELATIVE * min(primal / self.total, self.loss)
        progress = PROGRESS * (self.zero - dual) / self.total
        found = max(min(share, progress), least * self.loss)
        return found if 0 < found < math.inf else least  # no loss, or one that overflowed

    def needs_zero(self, primal: float, mean: Any) -> bool:
        """Whether P(0), or P at the mean of a prior, must be computed: a primal may be near to it."""
        unknown = self.asked == AUTO and self.zero == math.inf and math.isfinite(primal)
        return unknown and (mean is not None or primal > ZERO_NEEDED_ABOVE * self.loss * self.total)


@dataclass
class Best:
    """The best point that exact passes have found: weights and multipliers, each for its own bound.

    ``primal`` and ``dual`` are as computed. Rounding may add ``above`` to the first and take ``below`` from
    the second, which gives ``highest`` and ``lowest``. ``gap`` is the gap between these two, and is proven.
    ``computed_gap`` is what training sees, and ``seen_gap`` is the computed gap as far as a searching argmax
    found the primal. ``tol`` is the gap to be proven. Training ends at ``goal``, which is tol, or less if it
    goes on to ``polish``. All are in units of the loss. Best never takes weights or multipliers that are not
    finite.
    """

    problem: Problem
    tolerance: Tolerance
    polish: float = math.inf
    primal: float = math.inf
    seen: float = math.inf
    dual: float = -math.inf
    above: float = 0.0
    below: float = 0.0
    highest: float = math.inf  # primal + above
    lowest: float = -math.inf  # dual - below
    kept: CompactVector | None = None  # the weights
    ceilings: np.ndarray | None = None  # of the slacks at w
    support: Support | None = None
    gap: float = math.inf
    computed_gap: float = math.inf
    seen_gap: float = math.inf
    last_gap: float = math.inf  # between the two bounds of the last exact pass
    tol: float = math.nan
    goal: float = math.nan
    wants_zero: bool = False  # P(0) must be known: a primal may be near to it

    @property
    def w(self) -> Any:
        """The weights as an array, or None: each call makes one if they are sparse."""
        return None if self.kept is None else with_zeros(self.kept)

    def go_on(self) -> None:
        """Keep the weights in the fewer bytes, and no plane, while training goes on."""
        self.problem.forget_plane()
        if isinstance(self.kept, np.ndarray):
            self.kept = compact(self.kept)

    def aim_at(self, primal: float, dual: float) -> tuple[float, float]:
        """The gap to be proven with these bounds, and the one at which training ends."""
        asked = self.tolerance.asked
        if not isinstance(asked, str):
            return asked, min(asked, self.polish)
        wish = min(self.tolerance.at(primal, dual, LEAST_WISHED), self.polish)
        return self.tolerance.at(primal, dual), wish

    def expect(self, dual: float, estimate: float) -> tuple[float, float]:
        """The same as far as a step saw the objective, with its dual and its estimate of the gap."""
        if self.problem.total != self.tolerance.total or math.isnan(self.tol):
            self._measure()
        dual = max(dual, self.dual)
        seen = dual + estimate * self.problem.total if dual > -math.inf else math.inf
        return self.aim_at(min(seen, self.primal), dual)

    def take(self, w: np.ndarray, support: Support, bounds: Bounds) -> None:
        """Keep what an exact pass has bounded better, of weights and multipliers that are finite."""
        self.seen = min(self.seen, bounds.seen)
        self.last_gap = gap_between(bounds.primal, bounds.dual, self.problem.total)
        # While nothing bounds the primal (hinge="sum" has such points) the last w is as good as any.
        better = bounds.primal + bounds.above < self.highest or math.isinf(self.highest)
        if better and all_finite(w):
            self.primal, self.above = bounds.primal, bounds.above
            self.kept, self.ceilings = w, bounds.ceilings
        if bounds.dual - bounds.below > self.lowest and all_finite(support.multipliers):
            self.dual, self.below, self.support = bounds.dual, bounds.below, support
        mean = self.problem.regularizer.mean
        self.wants_zero = self.tolerance.needs_zero(self.primal, mean)
        self._measure()

    def fall_back(self) -> Status | None:
        """Take the point that training begins at; returns the status if no finite weights are known.

        That point is always finite. It is w = 0 or the mean of a prior, with all mass on the true outputs.
        """
        lost, problem = self.kept is None, self.problem
        w = np.array(problem.regularizer.law(np.zeros(problem.dimension)))
        support = Support(np.arange(problem.n_blocks), problem.mass, w, kind=DISTRIBUTIONS)
        if not problem.formulation.soft:
            nothing: Any = [] if problem.checked else np.empty(0, np.int32)
            support = Support(np.empty(0, np.int64), np.empty(0), nothing, partial=True)
        self.take(w, support, problem.certify(w, support))
        return Status.NUMERICAL if lost else None

    def know_zero(self, value: float) -> None:
        """P(0), or P at the mean of a prior."""
        self.tolerance, self.wants_zero = replace(self.tolerance, zero=value), False
        self._measure()

    def return_instead(self, w: np.ndarray, bounds: Bounds) -> None:
        """These weights are wanted, with a primal of their own."""
        self.kept, self.primal, self.above = w, bounds.primal, bounds.above
        self.ceilings = bounds.ceilings
        self._measure()

    def guess(self, w: np.ndarray, support: Support, dual: float, primal: float) -> None:
        """A point of which no exact pass was made; it is not taken if it is not finite."""
        if not (all_finite(w) and all_finite(support.multipliers)):
            return
        self.kept, self.support, self.dual, self.primal = w, support, dual, primal
        self.above = self.below = 0.0
        self._measure()

    def _measure(self) -> None:
        total = self.problem.total  # that of a stream is known when it was read
        if total != self.tolerance.total:
            self.tolerance = replace(self.tolerance, total=total)
        self.highest, self.lowest = self.primal + self.above, self.dual - self.below
        self.gap = gap_between(self.highest, self.lowest, total)
        self.computed_gap = gap_between(self.primal, self.dual, total)
        self.seen_gap = gap_between(self.seen, self.dual, total)
        self.tol, self.goal = self.aim_at(self.primal, self.dual)

    def conclude(
        self, status: Status, exact: bool, advice: str, **spent: Any
    ) -> tuple[Certificate, str]:
        """What is known of the optimum and what it has cost; and what to do where that is not enough.

        ``advice`` is that of the solver, if it has any.
        """
        assert self.support is not None
        found = Certificate(
            primal=self.highest,
            dual=self.lowest,
            gap=self.gap,
            rounding=self.above + self.below,
            tol=self.tol,
            converged=self.gap <= self.tol and exact,
            exact=exact,
            support=len(self.support.blocks),
            status=status.value,
            relaxed=self.support.relaxed,
            **spent,
        )
        return found, "" if found.converged else status.advice(found, advice)
