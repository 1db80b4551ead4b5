"""The primal over all enumerated outputs with any Gaussian prior and bounds, by sequential programming.

    min_{w, xi}  1/2 (w - m)' Sigma^-1 (w - m) + sum_i c_i xi_i
    such that    xi_i >= Delta_i(y) + <w, psi_i(y)>,   w_j >= 0 for the bound j

SciPy's SLSQP solves it in the variables (w, xi). It shares no line and no idea with dual ascent.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from .memo import remembered


@remembered
def solve_primal(blocks, budgets, mean, covariance, bound=None):
    """Return the optimal value and w; raise if the answer is not stationary to rounding."""
    d, n = len(mean), len(blocks)
    precision = inverse(covariance)
    budgets = np.asarray(budgets, dtype=float)
    rows = [np.hstack([-b.vectors, np.tile(np.eye(n)[i], (len(b.offsets), 1))])
            for i, b in enumerate(blocks)]  # fmt: skip
    A, b = np.vstack(rows), np.concatenate([block.offsets for block in blocks])
    unit = max(1.0, budgets.max())

    def value(z):
        r = z[:d] - mean
        return (0.5 * r @ precision @ r + budgets @ z[d:]) / unit

    def slope(z):
        return np.concatenate([precision @ (z[:d] - mean), budgets]) / unit

    start = np.zeros(d) if bound is None else np.where(bound, np.maximum(mean, 0), mean)
    slacks = [np.max(block.offsets + block.vectors @ start) for block in blocks]
    limits = [(0, None) if bound is not None and bound[j] else (None, None) for j in range(d)]
    found = minimize(
        value,
        np.concatenate([start, slacks]),
        jac=slope,
        method="SLSQP",
        bounds=limits + [(None, None)] * n,
        constraints={"type": "ineq", "fun": lambda z: A @ z - b, "jac": lambda z: A},
        options={"maxiter": 2000, "ftol": 1e-15},
    )
    w = found.x[:d] if bound is None else np.where(bound, np.maximum(found.x[:d], 0), found.x[:d])
    return primal_value(blocks, budgets, w, mean, covariance), w


def inverse(covariance):
    """Sigma^-1; a diagonal Sigma may have infinite entries, and their weights are not regularised."""
    if np.isinf(covariance).any():
        return np.diag(1 / np.diag(covariance))
    return np.linalg.inv(covariance)


def primal_value(blocks, budgets, w, mean, covariance):
    """R(w) + sum_i c_i xi_i(w), by definition."""
    slacks = [np.max(block.offsets + block.vectors @ w) for block in blocks]
    r = w - mean
    return float(0.5 * r @ inverse(covariance) @ r + np.dot(budgets, slacks))
