r"""The log loss over all enumerated outputs: sums, distributions, objectives, and the optimum by SciPy.

    s_i(y) = <w, psi_i(y)>, plus Delta_i(y) for "softmax-margin";    p_i(y) = exp(s_i(y)) / Z_i
    primal   P(w) = 1/2 |w|^2 + sum_i c_i log Z_i,    gradient w + sum_i c_i E_p psi_i
    dual     D(a) = sum_i c_i (H(a_i) + E_a Delta_i) - 1/2 |sum_i c_i E_a psi_i|^2

psi_i(y) = Psi(x_i, y) - Psi(x_i, y_i), so that s_i(y_i) = 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, xlogy

from .enumerate import Block


def scores(block: Block, w: np.ndarray, formulation: str = "log") -> np.ndarray:
    """s_i(y) of every output."""
    found = block.vectors @ w
    return found if formulation == "log" else found + block.offsets


def log_sums(blocks: Sequence[Block], w: np.ndarray, formulation: str = "log") -> np.ndarray:
    """log Z_i."""
    return np.array([logsumexp(scores(block, w, formulation)) for block in blocks])


def distributions(
    blocks: Sequence[Block], w: np.ndarray, formulation: str = "log"
) -> list[np.ndarray]:
    """p_i(y)."""
    found = [scores(block, w, formulation) for block in blocks]
    return [np.exp(s - logsumexp(s)) for s in found]


def entropies(p: Sequence[np.ndarray]) -> np.ndarray:
    """H(p_i)."""
    return np.array([-xlogy(own, own).sum() for own in p])


def primal(
    blocks: Sequence[Block], budgets: np.ndarray, w: np.ndarray, formulation: str = "log"
) -> float:
    """P(w), by definition."""
    return float(0.5 * w @ w + budgets @ log_sums(blocks, w, formulation))


def risk_gradient(
    blocks: Sequence[Block], budgets: np.ndarray, w: np.ndarray, formulation: str = "log"
) -> np.ndarray:
    """sum_i c_i E_p psi_i."""
    p = distributions(blocks, w, formulation)
    return sum(c * (own @ b.vectors) for c, own, b in zip(budgets, p, blocks, strict=True))


def dual(
    blocks: Sequence[Block], budgets: np.ndarray, a: Sequence[np.ndarray], formulation: str = "log"
) -> float:
    """D(a), by definition."""
    rows = list(zip(budgets, a, blocks, strict=True))
    q = sum(c * (own @ block.vectors) for c, own, block in rows)
    offset = float(budgets @ entropies(a))
    if formulation != "log":
        offset += sum(c * float(own @ block.offsets) for c, own, block in rows)
    return offset - 0.5 * float(q @ q)


def hessian(
    blocks: Sequence[Block], budgets: np.ndarray, w: np.ndarray, formulation: str = "log"
) -> np.ndarray:
    """I + sum_i c_i Cov_p psi_i."""
    found = np.eye(len(w))
    for c, p, block in zip(budgets, distributions(blocks, w, formulation), blocks, strict=True):
        centred = block.vectors - p @ block.vectors
        found += c * centred.T @ (p[:, None] * centred)
    return found


def optimum(
    blocks: Sequence[Block], budgets: np.ndarray, formulation: str = "log"
) -> tuple[np.ndarray, float]:
    """The optimal w and P, by Newton's method in a trust region; the gradient proves them.

    P - P* <= 1/2 |grad P|^2, since P is at least as curved as 1/2 |w|^2.
    """
    start = np.zeros(blocks[0].vectors.shape[1])
    found = minimize(
        lambda w: primal(blocks, budgets, w, formulation),
        start,
        jac=lambda w: w + risk_gradient(blocks, budgets, w, formulation),
        hess=lambda w: hessian(blocks, budgets, w, formulation),
        method="trust-exact",
        options={"gtol": 1e-10, "maxiter": 500},
    ).x
    for _ in range(3):  # full Newton steps, which converge quadratically from here
        gradient = found + risk_gradient(blocks, budgets, found, formulation)
        found = found - np.linalg.solve(hessian(blocks, budgets, found, formulation), gradient)
    gradient = found + risk_gradient(blocks, budgets, found, formulation)
    value = primal(blocks, budgets, found, formulation)
    assert 0.5 * gradient @ gradient <= 1e-9 * max(1.0, value)
    return found, value
