"""Regulariser: what is added to the risk, its conjugate, and the law from q = - sum a psi to w."""

from __future__ import annotations

import numpy as np


class SquaredNorm:
    """R(w) = 1/2 |w|^2, its own conjugate; w = q."""

    def value(self, w: np.ndarray) -> float:
        """R(w)."""
        return 0.5 * float(w @ w)

    def conjugate(self, q: np.ndarray) -> float:
        """R*(q) = max_w <w, q> - R(w)."""
        return 0.5 * float(q @ q)
