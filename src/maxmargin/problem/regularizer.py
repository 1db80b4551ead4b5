"""Regulariser: what is added to the risk, its conjugate, and the law from q = - sum a psi to w."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class SquaredNorm:
    """R(w) = 1/2 |w|^2, its own conjugate; w = q.

    |w|^2 = <w, metric(w)>, where the metric is that of the examples: Euclidean, or of a kernel.
    """

    def __init__(self, metric: Callable[[np.ndarray], np.ndarray]):
        self.metric = metric

    def value(self, w: np.ndarray) -> float:
        """R(w)."""
        return 0.5 * float(w @ self.metric(w))

    def conjugate(self, q: np.ndarray) -> float:
        """R*(q) = max_w <w, q> - R(w)."""
        return 0.5 * float(q @ self.metric(q))
