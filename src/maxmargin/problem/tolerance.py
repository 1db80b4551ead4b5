"""Which gap is small enough: a number in units of the loss, or "auto", a part of the objective itself.

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
P(0), nothing is learnt. LEAST of the loss is enough then. Without that only ROUNDING limits what is
wished for: training tries to reach it for some time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from maxmargin.data.arrays import check_positive

AUTO = "auto"
RELATIVE = 0.01
PROGRESS = 0.1
NEAR = 0.5  # of P(0): above it P(0) must be known
LEAST = 1e-5  # of the loss: enough where P* or P(0) - P* is small; single precision gets there
ROUNDING = 1e-8  # of the loss: not even wished for


def check_tolerance(name: str, value: Any) -> None:
    """Refuse what is neither a positive number nor "auto"."""
    if isinstance(value, str):
        if value != AUTO:
            raise ValueError(f"{name} must be a positive number or {AUTO!r}, got {value!r}")
    else:
        check_positive(name, value)


@dataclass(frozen=True)
class Tolerance:
    """What is asked of the gap; the rest matters for "auto" alone."""

    asked: float | str
    total: float  # C sum v
    loss: float = math.nan  # mean at w = 0, of some examples
    zero: float = math.inf  # P(0), where it was computed

    def at(self, primal: float, dual: float, least: float = LEAST) -> float:
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
        return unknown and (mean is not None or primal > NEAR * self.loss * self.total)
