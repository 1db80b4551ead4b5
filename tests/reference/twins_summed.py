"""Algorithm 2 of Balamurugan, Shevade and Babu as printed: dual coordinate descent for the summed error.

Line numbers are the paper's. alpha_i(y_i) = C at the start is left out: psi_i(y_i) = 0 and Delta_i(y_i) = 0,
so that it adds nothing to w or to the dual.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def sdcd(
    problem: Any, passes: int, searches: int = 10, sweeps: int = 5, change: float = 0.0
) -> tuple[list, list]:
    """(dual after each search with its sweeps, alpha), for this many searches or until the printed end."""
    n, w = len(problem.budgets), np.zeros(problem.dimension)
    kept: list[dict[Any, float]] = [{} for _ in range(n)]
    duals: list[float] = []
    iteration, searching = 0, True  # iter, GetMaxY
    while True:
        if searching and len(duals) == passes:
            return duals, kept
        moved = one_pass(problem, kept, w, searching)
        if searching:
            duals.append(dual_of(problem, kept))
            if moved <= change > 0:  # lines 27 and 28: ChangedInOuterLoop == 0
                return duals, kept
            searching = iteration < searches  # lines 30 to 32
        else:
            duals[-1] = dual_of(problem, kept)
            searching = (iteration - searches) % sweeps == 0  # lines 35 to 37
        iteration += 1


def one_pass(problem: Any, kept: list, w: np.ndarray, search: bool) -> float:
    """Lines 8 to 25; the largest alphachange of a block."""
    largest = 0.0
    for i, budget in enumerate(problem.budgets):
        if budget == 0:
            continue
        if search:  # lines 9 to 14
            worst = problem.oracle(i, w)
            offset, psi = problem.plane(i, worst)
            if worst not in kept[i] and offset + w @ psi > 1e-12:
                kept[i][worst] = 0.0
        change = 0.0
        for y, alpha in kept[i].items():  # lines 16 to 21
            offset, psi = problem.plane(i, y)
            gradient, square = -(offset + w @ psi), psi @ psi
            step = alpha - gradient / square if square > 0 else np.inf * -gradient
            new = min(max(step, 0.0), budget)  # (IV.6)
            w -= (new - alpha) * psi  # (IV.7)
            kept[i][y] = new
            change += (new - alpha) ** 2
        largest = max(largest, change)
    return largest


def dual_of(problem: Any, kept: list) -> float:
    """D(alpha)."""
    total, offset = np.zeros(problem.dimension), 0.0
    for i, own in enumerate(kept):
        for y, alpha in own.items():
            loss, psi = problem.plane(i, y)
            total += alpha * psi
            offset += alpha * loss
    return offset - 0.5 * float(total @ total)
