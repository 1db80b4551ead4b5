"""What one exact pass has found of the optimum."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Bounds:
    """What one exact pass found; ``seen`` is the primal at the slacks found, below or at ``primal``.

    ``primal``, ``dual`` and ``seen`` are as computed: the first may be too small by ``above``, the second too
    large by ``below``, by rounding.

    ``slacks``, and ``ceilings``, what these cannot exceed: of the first part, which is all where the examples
    are in memory. A value that overflowed bounds nothing: NaN becomes an infinite bound. ``overflowed``: w or
    the multipliers, or what they give, is not finite in double precision.
    """

    primal: float
    dual: float
    slacks: np.ndarray
    seen: float
    ceilings: np.ndarray
    above: float = 0.0
    below: float = 0.0
    overflowed: bool = field(init=False)

    def __post_init__(self) -> None:
        for name, nothing in (("primal", math.inf), ("dual", -math.inf), ("seen", math.inf)):
            value = getattr(self, name)
            known = not math.isnan(value) and value != -nothing
            object.__setattr__(self, name, value if known else nothing)
        for name in ("above", "below"):
            if math.isnan(getattr(self, name)):
                object.__setattr__(self, name, math.inf)
        finite = math.isfinite(self.seen) and math.isfinite(self.dual)
        object.__setattr__(self, "overflowed", not finite)
