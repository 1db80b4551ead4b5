r"""The dual of the summed error over all enumerated outputs, solved by an interior-point method.

    primal   P(w) = 1/2 |w|^2 + sum_i c_i sum_y max(0, s_i(y)),   s_i(y) = Delta_i(y) + <w, psi_i(y)>
    dual     D(a) = sum a_i(y) Delta_i(y) - 1/2 |sum a_i(y) psi_i(y)|^2,   0 <= a_i(y) <= c_i

Stationarity reads s = u - z, with z >= 0 for a >= 0 and u >= 0 for b = c - a >= 0. Newton steps
(Mehrotra) drive a z = mu and b u = mu to zero. With d = z / a + u / b, a step solves one system in
the dimension of w, I + Psi' diag(1 / d) Psi. The answer is proved before it is returned.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .dense_qp import Optimum, dual_objective, weights_of
from .enumerate import Block
from .memo import remembered


def summed_primal(blocks: Sequence[Block], budgets: np.ndarray, w: np.ndarray) -> float:
    """P(w), by definition."""
    sums = [np.maximum(block.offsets + block.vectors @ w, 0.0).sum() for block in blocks]
    return float(0.5 * w @ w + np.dot(budgets, sums))


class _InteriorPoint:
    """Flat arrays over all (example, output) pairs whose plane is not zero."""

    def __init__(self, psi: np.ndarray, delta: np.ndarray, top: np.ndarray) -> None:
        self.psi, self.delta, self.top = psi, delta, top
        self.a = 0.5 * top
        self.w = -psi.T @ self.a
        s = delta + psi @ self.w
        width = 1.0 + np.abs(s).max()
        self.z, self.u = np.full_like(s, width), width + s
        self.u = np.where(self.u > 0, self.u, width)

    def direction(self, target_a: np.ndarray, target_b: np.ndarray) -> tuple[np.ndarray, ...]:
        """Newton step towards a z = target_a, b u = target_b."""
        a, b = self.a, self.top - self.a
        d = self.z / a + self.u / b
        s = self.delta + self.psi @ self.w
        rhs = s + target_a / a - target_b / b
        scaled = self.psi / d[:, None]
        matrix = np.eye(self.psi.shape[1]) + self.psi.T @ scaled
        da = rhs / d - scaled @ np.linalg.solve(matrix, self.psi.T @ (rhs / d))
        dz = target_a / a - self.z - self.z * da / a
        du = target_b / b - self.u + self.u * da / b
        return da, dz, du

    def length(self, da: np.ndarray, dz: np.ndarray, du: np.ndarray) -> float:
        """The longest step in (0, 1] that keeps all variables positive."""
        longest = 1.0
        pairs = ((self.a, da), (self.top - self.a, -da), (self.z, dz), (self.u, du))
        for value, change in pairs:
            falling = change < 0
            if falling.any():
                longest = min(longest, float(np.min(-value[falling] / change[falling])))
        return longest

    def iterate(self) -> float:
        """Make one predictor-corrector step and return the mean complementarity before it."""
        b = self.top - self.a
        mu = float(np.mean(np.concatenate([self.a * self.z, b * self.u])))
        zero = np.zeros_like(self.a)
        da, dz, du = self.direction(zero, zero)
        t = self.length(da, dz, du)
        ahead = [(self.a + t * da) * (self.z + t * dz), (b - t * da) * (self.u + t * du)]
        centre = (float(np.mean(np.concatenate(ahead))) / mu) ** 3 * mu
        da, dz, du = self.direction(centre - da * dz, centre + da * du)
        t = min(1.0, 0.99 * self.length(da, dz, du))
        self.a, self.z, self.u = self.a + t * da, self.z + t * dz, self.u + t * du
        self.w = -self.psi.T @ self.a
        return mu

    def polished(self) -> np.ndarray:
        """The exact multipliers if the current active set is the final one."""
        b = self.top - self.a
        low, high = self.a * self.u.max() < self.z * self.top, b * self.z.max() < self.u * self.top
        free = ~(low | high)
        a = np.where(high, self.top, 0.0)
        psi = self.psi[free]
        residual = self.delta[free] - psi @ (self.psi.T @ (a + np.where(free, self.a, 0.0)))
        correction = np.linalg.lstsq(psi @ psi.T, residual, rcond=1e-13)[0]
        a[free] = np.clip(self.a[free] + correction, 0.0, self.top[free])
        return a


@remembered
def solve_summed(
    blocks: Sequence[Block],
    C: float = 1.0,
    sample_weight: Sequence[float] | None = None,
    relative_gap: float = 1e-9,
) -> Optimum:
    """Return the optimum of the summed error, after checking its relative gap."""
    weights = np.ones(len(blocks)) if sample_weight is None else np.asarray(sample_weight, float)
    budgets = C * weights
    owner = np.repeat(np.arange(len(blocks)), [len(block.offsets) for block in blocks])
    psi = np.concatenate([block.vectors for block in blocks])
    delta = np.concatenate([block.offsets for block in blocks])
    used = (budgets[owner] > 0) & (psi.any(axis=1) | (delta != 0))
    point = _InteriorPoint(psi[used], delta[used], budgets[owner[used]])
    ends, best = np.cumsum([len(block.offsets) for block in blocks])[:-1], None
    for _ in range(100):
        try:
            mu = point.iterate()
        except np.linalg.LinAlgError:  # no further progress in this precision
            break
        late = best is not None and mu * len(owner) < 1e-4 * best.primal
        for candidate in (point.a, point.polished()) if late else (point.a,):
            flat = np.zeros(len(owner))
            flat[used] = np.clip(candidate, 0.0, point.top)
            a = np.split(flat, ends)
            w = weights_of(blocks, a)
            found = Optimum(w, summed_primal(blocks, budgets, w), dual_objective(blocks, a), a)
            if best is None or found.primal - found.dual < best.primal - best.dual:
                best = found
        if best.primal - best.dual <= 0.01 * relative_gap * best.primal:
            break
    gap = best.primal - best.dual
    if not -1e-12 * best.primal <= gap <= relative_gap * best.primal:
        raise RuntimeError(f"reference QP stopped at relative gap {gap / best.primal:.1e}")
    return best
