"""Bounds on the optimum from one exact pass."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Bounds:
    """Bounds from one exact pass.

    ``primal``, ``dual`` and ``seen`` are as computed. ``seen`` is the primal at the slacks that
    were found; it is at most ``primal``, which uses ceilings. Through rounding, ``primal`` may be
    too small by ``above``, and ``dual`` too large by ``below``.

    ``slacks`` and their upper bounds ``ceilings`` cover the first part of the data; data in memory
    are one part. A value that overflowed bounds nothing: NaN becomes an infinite bound.
    ``overflowed`` is True if ``seen`` or ``dual`` is not finite in double precision.
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
