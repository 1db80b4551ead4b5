r"""The dual of the structural SVM over all enumerated outputs, solved by an interior-point method.

    primal   P(w) = 1/2 |w|^2 + sum_i c_i max_y [ Delta_i(y) + <w, psi_i(y)> ],   c_i = C v_i
    dual     D(a) = sum a_i(y) Delta_i(y) - 1/2 |sum a_i(y) psi_i(y)|^2
             a >= 0,  sum_y a_i(y) = c_i,   w = -sum a psi

Stationarity reads z_i(y) = xi_i - s_i(y) with s_i(y) = Delta_i(y) + <w, psi_i(y)> and z >= 0.
Newton steps (Mehrotra's predictor and corrector) drive the complementarity a z = mu to zero.
With d = a / z, each step solves one system in the dimension of w. Its matrix,

    I + sum_i [ second moment of psi_i under the weights d_i, about its own mean ],

is at least the identity, so the accuracy does not suffer near the optimum. The method shares
nothing with dual coordinate ascent, which makes it an independent check. The answer is proved
before it is returned: the multipliers are made feasible exactly, and primal and dual are recomputed
from their definitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .enumerate import Block
from .memo import remembered


@dataclass(frozen=True)
class Optimum:
    """A proven solution: `dual <= optimum <= primal`, and the relative gap is below the requested one."""

    w: np.ndarray
    primal: float
    dual: float
    multipliers: list[np.ndarray]

    @property
    def value(self) -> float:
        """The middle of the bracket."""
        return 0.5 * (self.primal + self.dual)


def primal_objective(blocks: Sequence[Block], budgets: np.ndarray, w: np.ndarray) -> float:
    """P(w), by definition."""
    slacks = [np.max(block.offsets + block.vectors @ w) for block in blocks]
    return float(0.5 * w @ w + np.dot(budgets, slacks))


def dual_objective(blocks: Sequence[Block], multipliers: Sequence[np.ndarray]) -> float:
    """D(a), by definition."""
    w = weights_of(blocks, multipliers)
    linear = sum(float(a @ block.offsets) for a, block in zip(multipliers, blocks, strict=True))
    return linear - 0.5 * float(w @ w)


def weights_of(blocks: Sequence[Block], multipliers: Sequence[np.ndarray]) -> np.ndarray:
    """w = -sum a psi."""
    return -sum(a @ block.vectors for a, block in zip(multipliers, blocks, strict=True))


class _InteriorPoint:
    """Flat arrays over all (example, output) pairs; `owner` gives the example of each pair."""

    def __init__(self, blocks: Sequence[Block], budgets: np.ndarray) -> None:
        sizes = [len(block.offsets) for block in blocks]
        self.owner = np.repeat(np.arange(len(blocks)), sizes)
        self.psi = np.concatenate([block.vectors for block in blocks])
        self.delta = np.concatenate([block.offsets for block in blocks])
        self.budgets = budgets
        self.a = (budgets / sizes)[self.owner]
        self.w = -self.psi.T @ self.a
        s = self.delta + self.psi @ self.w
        width = np.ptp(s) + 1.0
        self.xi = np.full(len(blocks), s.max() + width)
        self.z = self.xi[self.owner] - s

    def per_block(self, values: np.ndarray) -> np.ndarray:
        """Sums over the outputs of each example."""
        shape = (len(self.budgets), *values.shape[1:])
        sums = np.zeros(shape)
        np.add.at(sums, self.owner, values)
        return sums

    def factor(self) -> None:
        """Form the matrix of the module's docstring for the current a and z."""
        self.d = self.a / self.z
        self.mass = self.per_block(self.d)
        self.mean = self.per_block(self.d[:, None] * self.psi) / self.mass[:, None]
        centred = self.psi - self.mean[self.owner]
        self.centred = centred
        self.matrix = np.eye(len(self.w)) + centred.T @ (self.d[:, None] * centred)

    def direction(self, target: np.ndarray) -> tuple[np.ndarray, ...]:
        """Newton step towards a z = target: (da, dw, dxi, dz)."""
        s = self.delta + self.psi @ self.w
        stationarity = s + self.z - self.xi[self.owner]
        feasibility = self.budgets - self.per_block(self.a)
        drift = self.psi.T @ self.a + self.w
        rhs = stationarity + (target - self.a * self.z) / self.a
        # Unknown dw; eliminating da and dxi leaves one system in the dimension of w.
        shift = (self.per_block(self.d * rhs) - feasibility) / self.mass
        push = self.centred.T @ (self.d * rhs) + self.mean.T @ feasibility
        dw = np.linalg.solve(self.matrix, -(push + drift))
        along = self.psi @ dw
        dxi = shift + self.mean @ dw
        da = self.d * (rhs + along - dxi[self.owner])
        dz = (target - self.a * self.z - self.z * da) / self.a
        return da, dw, dxi, dz

    def step_length(self, da: np.ndarray, dz: np.ndarray) -> float:
        """The longest step in (0, 1] that keeps a and z positive."""
        length = 1.0
        for value, change in ((self.a, da), (self.z, dz)):
            falling = change < 0
            if falling.any():
                length = min(length, float(np.min(-value[falling] / change[falling])))
        return length

    def iterate(self) -> float:
        """Make one predictor-corrector step and return the mean complementarity before it."""
        mu = float(np.mean(self.a * self.z))
        self.factor()
        da, _, _, dz = self.direction(np.zeros_like(self.a))
        length = self.step_length(da, dz)
        predicted = float(np.mean((self.a + length * da) * (self.z + length * dz)))
        centring = (predicted / mu) ** 3 * mu
        da, dw, dxi, dz = self.direction(centring - da * dz)
        length = min(1.0, 0.99 * self.step_length(da, dz))
        self.a = self.a + length * da
        self.w = self.w + length * dw
        self.xi = self.xi + length * dxi
        self.z = self.z + length * dz
        return mu

    def polished(self) -> np.ndarray:
        """The exact multipliers if the current active set is the final one.

        Outputs with a > z, each relative to its scale, must have scores equal to the slack. The
        smallest correction that achieves this solves one linear system, to rounding.
        """
        support = self.a / self.budgets[self.owner] > self.z / (np.ptp(self.delta) + 1e-300)
        owner, psi, a = self.owner[support], self.psi[support], self.a[support]
        member = (owner[:, None] == np.arange(len(self.budgets))).astype(float)
        s = self.delta[support] - psi @ (psi.T @ a)
        residual = np.concatenate([s - self.xi[owner], self.budgets - member.T @ a])
        corner = np.zeros((member.shape[1], member.shape[1]))
        matrix = np.block([[psi @ psi.T, member], [member.T, corner]])
        correction = np.linalg.lstsq(matrix, residual, rcond=1e-13)[0]
        flat = np.zeros_like(self.a)
        flat[support] = a + correction[: len(a)]
        return flat


def _feasible(values: np.ndarray, budget: float) -> np.ndarray:
    """Non-negative multipliers that sum to the budget; tiny ones become zero."""
    values = np.where(values < 1e-14 * budget, 0.0, values)
    if values.sum() == 0.0:
        values = np.ones_like(values)
    return values * (budget / values.sum())


def _proven(blocks: Sequence[Block], budgets: np.ndarray, flat: np.ndarray) -> Optimum:
    """Primal and dual from the definition, at the feasible point made from `flat`."""
    ends = np.cumsum([len(block.offsets) for block in blocks])[:-1]
    pieces = np.split(flat, ends)
    multipliers = [_feasible(a, budget) for a, budget in zip(pieces, budgets, strict=True)]
    w = weights_of(blocks, multipliers)
    primal = primal_objective(blocks, budgets, w)
    return Optimum(w, primal, dual_objective(blocks, multipliers), multipliers)


@remembered
def solve(
    blocks: Sequence[Block],
    C: float = 1.0,
    sample_weight: Sequence[float] | None = None,
    relative_gap: float = 1e-10,
    max_iterations: int = 200,
) -> Optimum:
    """The optimum of P over all enumerated outputs, after checking its relative gap.

    Examples of weight zero get no multipliers. Raises RuntimeError if the gap of the answer,
    relative to its primal, is too wide.
    """
    weights = np.ones(len(blocks)) if sample_weight is None else np.asarray(sample_weight, float)
    kept = [i for i in range(len(blocks)) if weights[i] > 0]
    used, budgets = [blocks[i] for i in kept], C * weights[kept]
    scale = primal_objective(used, budgets, np.zeros(used[0].vectors.shape[1]))
    if scale == 0.0:
        raise ValueError("every loss is zero: there is nothing to learn")
    point = _InteriorPoint(used, budgets)
    best: Optimum | None = None
    for _ in range(max_iterations):
        try:
            mu = point.iterate()
        except np.linalg.LinAlgError:  # no further progress in this precision
            break
        candidates = [point.a, point.polished()] if mu < 1e-6 * scale else [point.a]
        found = [_proven(used, budgets, flat) for flat in candidates] + ([best] if best else [])
        best = min(found, key=lambda answer: answer.primal - answer.dual)
        if best.primal - best.dual <= 0.01 * relative_gap * best.primal:
            break
    return _scattered(best, blocks, kept, relative_gap)


def _scattered(
    best: Optimum, blocks: Sequence[Block], kept: list[int], relative_gap: float
) -> Optimum:
    """The answer over all blocks; raises RuntimeError if it is not proven."""
    gap = best.primal - best.dual
    if not -1e-12 * best.primal <= gap <= relative_gap * best.primal:
        raise RuntimeError(f"reference QP stopped at relative gap {gap / best.primal:.1e}")
    multipliers = [np.zeros(len(block.offsets)) for block in blocks]
    for i, a in zip(kept, best.multipliers, strict=True):
        multipliers[i] = a
    return Optimum(best.w, best.primal, best.dual, multipliers)
