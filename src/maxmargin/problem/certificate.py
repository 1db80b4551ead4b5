"""Certificate: a bound on the distance of a solution from the optimum, independent of the solver.

    dual <= P* <= primal,     gap = (primal - dual) / (C sum_i v_i)     in units of the task loss

One exact pass at w gives the primal, and the multipliers alone give the dual (``Problem.certify``).
The running sums of a solver play no role. Both bounds are moved apart by the largest possible
rounding error (``problem.rounding``), so that they hold in exact arithmetic.

``Tolerance`` decides which gap is small enough. It is a number in units of the loss, or "auto", a
share of the objective.

    number     (P(w) - D(a)) / (C sum_i v_i) <= tol
    "auto"     P(w) - D(a) <= RELATIVE P(w)    and    P(w) - D(a) <= PROGRESS (P(0) - D(a))

A number means the same for every C. But if losses are counts, it may be far too small to matter for
a test score. If C is large and the data are nearly separable, P* / (C sum v) itself is below it.
``benchmarks.tolerance`` measures what test scores lose at a gap of a hundredth.

If C is small, P* is hardly below P(0), and a hundredth of it may be more than training can gain at
all. The second condition asks that nine tenths of the possible gain below P(0) are reached. P(0) is
known for some examples before training. It is computed if P(w) turns out to be near it.

If C is so large that P* / (C sum v) is at most a thousandth of the loss at w = 0, a hundredth of it
may take hundreds of passes that change no prediction. If C is so small that P(0) - P* is a
ten-thousandth of P(0), the model learns nothing. In both cases a gap of LEAST_OF_LOSS is enough.
Training still tries for some time to reach the gap without this floor; only LEAST_WISHED limits
that goal.
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
ZERO_NEEDED_ABOVE = 0.5  # if the primal is above this share of P(0), P(0) must be computed
# A gap of this fraction of the loss is enough if P* or P(0) - P* is small. Single precision reaches
# it.
LEAST_OF_LOSS = 1e-5
LEAST_WISHED = 1e-8  # fraction of the loss below which training never tries to go


@dataclass(frozen=True)
class Certificate:
    """Bounds on the optimum, whether they are proven, and what they cost.

    ``exact`` is False if the model's argmax may miss the best output and no ceiling is known, or if
    no exact pass was made. Then the primal is an estimate and the gap is not proven; with
    hinge="sum" the primal is infinite. ``status`` is a sentence on why training ended.

    ``relaxed`` means that the bounds belong to the linear relaxation of the argmax. Its optimum is
    at least the optimum of the problem itself, so ``primal`` is an upper bound on both.
    ``reduced_gap`` is the gap of the problem with the cached outputs alone. It is given if
    hinge="sum" and not all outputs can be tried, and is None otherwise.

    If numbers overflowed, there is no bound: ``primal`` or ``dual`` is infinite, and so is the gap.
    ``gap`` and ``tol`` are in units of the loss; for ``tol="auto"``, ``tol`` is the number that
    resulted. ``rounding`` is the part of ``primal`` - ``dual`` that allows for the rounding of
    sums: the computed bounds are closer together by this amount.
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
                f"a certificate with primal {self.primal}, dual {self.dual} and gap {self.gap} "
                "cannot be converged; these numbers must be finite"
            )

    @property
    def rounding_gap(self) -> float:
        """The part of ``gap`` that allows for the rounding of sums."""
        width = self.primal - self.dual
        return self.gap * min(1.0, self.rounding / width) if 0 < width < math.inf else 0.0

    @property
    def relative_gap(self) -> float:
        """(primal - dual) / primal, as a share of the objective; infinite if it is unknown."""
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
    """Return whether all of these numbers are finite, so that they are bounds."""
    return all(map(math.isfinite, values))


def all_finite(values: np.ndarray) -> bool:
    """Return whether all values are finite, in one pass and without a copy."""
    return math.isfinite(float(values.max(initial=0.0) - values.min(initial=0.0)))


def gap_between(primal: float, dual: float, total: float) -> float:
    """Return (primal - dual) / (C sum v); infinite if either is not finite.

    Rounding alone can make the difference negative, by parts in 1e16. Then the gap is zero.
    """
    return loss_units(primal - dual, total)


def loss_units(difference: float, total: float) -> float:
    """Return a difference of bounds divided by C sum v; infinite if it is unknown, zero if negative."""
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
        """Return what to do about a gap above tol; ``solver`` is the solver's own advice, if any."""
        if not certificate.exact and self not in WHATEVER_PROVEN:
            return (
                "the gap is not proven, because the model's argmax is not exact or no exact pass "
                "was made"
            )
        # With weights without a regulariser only the proximal subproblems are reduced, so this gap
        # is unknown.
        unknown = self is Status.REDUCED and certificate.reduced_gap is None
        if self in ADVICE and not unknown:
            return ADVICE[self].format(c=certificate)
        return solver or GENERAL


GENERAL = "raise max_passes or max_seconds, raise tol, lower C, or scale the features"
ADVICE = {
    Status.REDUCED: (
        "the solver has solved the problem reduced to the {c.support} outputs with multipliers "
        "(its gap: {c.reduced_gap:.3g}), but its bound on all other outputs is too loose for a "
        "smaller gap"
    ),
    Status.UNCHANGED: (
        "no multiplier moved by more than SDCD's `change` in the last search; lower `change`, or "
        "set it to 0 to train until the gap is small"
    ),
    Status.NUMERICAL: (
        "numbers have overflowed, so the last finite weights are returned; scale the features to "
        "about 1, or lower C, the weights of examples and nodes, or the costs"
    ),
    Status.ROUNDING: (
        "rounding errors may change the gap by {c.rounding_gap:.3g}, so a smaller gap cannot be "
        "proven; scale the features to about 1, or raise tol"
    ),
    Status.INEXACT: (
        "the model's inexact argmax finds no output that would improve the fit, but one may "
        "exist; the gap is still a proven bound; raise tol, or give the model an exact argmax "
        "(slack_rescaled_inference for slack rescaling)"
    ),
    Status.PASSES_MADE: "use solvers.Streaming(passes=None), which makes passes until tol is reached",
    Status.CACHE_FULL: "the multipliers alone fill the cache; raise cache_bytes, or lower C",
}
# The advice for these holds even if the gap is not proven.
WHATEVER_PROVEN = (Status.REDUCED, Status.UNCHANGED, Status.NUMERICAL, Status.ROUNDING)


@dataclass(frozen=True)
class Tolerance:
    """The gap that training must reach; only ``asked`` and ``total`` matter unless it is "auto"."""

    asked: float | str
    total: float  # C sum v
    loss: float = math.nan  # mean loss of some examples at w = 0
    zero: float = math.inf  # P(0), if it was computed

    def at(self, primal: float, dual: float, least: float = LEAST_OF_LOSS) -> float:
        """Return the gap to reach, in units of the loss, given these bounds on the optimum.

        ``least`` is the fraction of the loss that is enough, however small P* is.
        """
        if not isinstance(self.asked, str):
            return self.asked
        share = RELATIVE * min(primal / self.total, self.loss)
        progress = PROGRESS * (self.zero - dual) / self.total
        found = max(min(share, progress), least * self.loss)
        return found if 0 < found < math.inf else least  # the loss is zero, unknown or overflowed

    def needs_zero(self, primal: float, mean: Any) -> bool:
        """Return whether P(0), or P at the mean of a prior, must be computed: the primal may be near it."""
        unknown = self.asked == AUTO and self.zero == math.inf and math.isfinite(primal)
        return unknown and (mean is not None or primal > ZERO_NEEDED_ABOVE * self.loss * self.total)


@dataclass
class Best:
    """The best weights and the best multipliers of all exact passes, each chosen by its own bound.

    ``primal`` and ``dual`` are as computed. Rounding may add ``above`` to the first and take
    ``below`` from the second; this gives ``highest`` and ``lowest``. ``gap`` is the gap between
    these two, and is proven. Training looks at ``computed_gap``. ``seen_gap`` is the gap to
    ``seen``, the primal at the outputs that a searching argmax found.

    ``tol`` is the gap to be proven. Training ends at ``goal``: tol, or a smaller value if training
    goes on to ``polish``. All gaps are in units of the loss. Weights or multipliers that are not
    finite are never stored.
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
    ceilings: np.ndarray | None = None  # upper bounds on the slacks at w
    support: Support | None = None
    gap: float = math.inf
    computed_gap: float = math.inf
    seen_gap: float = math.inf
    last_gap: float = math.inf  # gap of the last exact pass alone
    tol: float = math.nan
    goal: float = math.nan
    wants_zero: bool = False  # P(0) must be computed: the primal may be near it

    @property
    def w(self) -> Any:
        """The weights as an array, or None. Sparse weights are converted at each access."""
        return None if self.kept is None else with_zeros(self.kept)

    def go_on(self) -> None:
        """Save memory before training goes on: compact the weights and drop the cached plane."""
        self.problem.forget_plane()
        if isinstance(self.kept, np.ndarray):
            self.kept = compact(self.kept)

    def aim_at(self, primal: float, dual: float) -> tuple[float, float]:
        """Return the gap to be proven with these bounds, and the gap at which training ends."""
        asked = self.tolerance.asked
        if not isinstance(asked, str):
            return asked, min(asked, self.polish)
        wish = min(self.tolerance.at(primal, dual, LEAST_WISHED), self.polish)
        return self.tolerance.at(primal, dual), wish

    def expect(self, dual: float, estimate: float) -> tuple[float, float]:
        """Return the same two gaps for the dual and the estimated gap of a step."""
        if self.problem.total != self.tolerance.total or math.isnan(self.tol):
            self._measure()
        dual = max(dual, self.dual)
        seen = dual + estimate * self.problem.total if dual > -math.inf else math.inf
        return self.aim_at(min(seen, self.primal), dual)

    def take(self, w: np.ndarray, support: Support, bounds: Bounds) -> None:
        """Record the bounds of an exact pass; take weights or multipliers that are better and finite."""
        self.seen = min(self.seen, bounds.seen)
        self.last_gap = gap_between(bounds.primal, bounds.dual, self.problem.total)
        # While the primal is infinite (some points with hinge="sum"), take the last w.
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
        """Take the starting point of training; return the status if no finite weights are known.

        The starting point is always finite: w = 0 or the mean of a prior, and all mass on the true
        outputs.
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
        """Record P(0), or P at the mean of a prior."""
        self.tolerance, self.wants_zero = replace(self.tolerance, zero=value), False
        self._measure()

    def return_instead(self, w: np.ndarray, bounds: Bounds) -> None:
        """Return these weights to the user instead of the best ones, with their own primal."""
        self.kept, self.primal, self.above = w, bounds.primal, bounds.above
        self.ceilings = bounds.ceilings
        self._measure()

    def guess(self, w: np.ndarray, support: Support, dual: float, primal: float) -> None:
        """Record a point without an exact pass, unless it is not finite."""
        if not (all_finite(w) and all_finite(support.multipliers)):
            return
        self.kept, self.support, self.dual, self.primal = w, support, dual, primal
        self.above = self.below = 0.0
        self._measure()

    def _measure(self) -> None:
        total = self.problem.total  # the total of a stream is known only after its first pass
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
        """Return the certificate, and advice if training has not converged.

        ``spent`` holds the costs, by field of the certificate. ``advice`` is the solver's own
        advice, if any.
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
