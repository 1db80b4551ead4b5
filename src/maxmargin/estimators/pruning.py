"""Pruning: set small weights to zero, and bound the change of scores.

    w' = w where |w| > tolerance, else 0        d = w - w'
    |<w, Psi(x, y)> - <w', Psi(x, y)>| = |<d, Psi(x, y)>| <= tolerance |Psi(x, y)|_1  and  <= |d| |Psi(x, y)|
    for one x, over all outputs:  max_y |<d, Psi(x, y)>| = max(max_y <d, Psi(x, y)>, max_y <-d, Psi(x, y)>)

The last line takes two argmaxes of the model itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.models.checks import lent


@dataclass(frozen=True, eq=False)
class Pruning:
    """The dropped weights: ``values`` at the positions ``index`` of ``coef_``, at most ``tolerance``."""

    tolerance: float
    size: int
    index: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, w: np.ndarray, tolerance: float) -> Pruning:
        """The weights of w that a tolerance drops."""
        index = np.flatnonzero((np.abs(w) <= tolerance) & (w != 0))
        return cls(float(tolerance), len(w), index, w[index])

    @property
    def dropped(self) -> int:
        """The number of dropped weights."""
        return len(self.index)

    @property
    def largest(self) -> float:
        """The largest dropped weight: a score changes by at most this times |Psi(x, y)|_1."""
        return float(np.abs(self.values).max(initial=0.0))

    @property
    def norm(self) -> float:
        """|d|: a score changes by at most this times |Psi(x, y)|."""
        return float(np.linalg.norm(self.values))

    def applied(self, w: np.ndarray) -> np.ndarray:
        """Return w without the dropped weights."""
        w = w.copy()
        w[self.index] = 0.0
        return w

    def change(self, model: Any, X: Iterable[Any]) -> np.ndarray:
        """The largest change of the score of any output, for each example."""
        d = np.zeros(self.size)
        d[self.index] = self.values
        with lent(d, "inference_k_best") as up, lent(-d, "inference_k_best") as down:
            return np.array(
                [max(model.inference_k_best(x, v, 1)[0][1] for v in (up, down)) for x in X]
            )
