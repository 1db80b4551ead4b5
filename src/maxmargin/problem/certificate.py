"""Certificate: how far from the optimum a solution can be, computed by a stranger to the solver.

    dual <= P* <= primal,     gap = (primal - dual) / (C sum_i v_i)     in units of the task loss

Primal by one exact pass at w, dual from the multipliers alone (``Problem.certify``); no running sum of a
solver is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


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
    ``tol="auto"`` is here the number that it came to.
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

    def __post_init__(self) -> None:
        if self.converged and not bounded_by(self.primal, self.dual, self.gap):
            raise ValueError(
                f"a certificate with primal {self.primal}, dual {self.dual} and gap {self.gap} cannot be "
                "converged: these must be finite"
            )

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


def gap_between(primal: float, dual: float, total: float) -> float:
    """(primal - dual) / (C sum v); infinite where one of them is not finite.

    Rounding alone can make it negative, by parts in 1e16: then zero.
    """
    return loss_units(primal - dual, total)


def loss_units(difference: float, total: float) -> float:
    """A difference of bounds over C sum v; infinite where that is not known."""
    if not (bounded_by(difference, total) and total > 0):
        return math.inf
    return max(0.0, difference) / total
