"""The dual coordinate descent of Balamurugan, Shevade and Babu for the summed error (their Algorithm 2).

Line numbers are the paper's. The twin leaves out alpha_i(y_i) = C at the start. It adds nothing to
w or to the dual, because psi_i(y_i) = 0 and Delta_i(y_i) = 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .box_qp import summed_primal


def sdcd(
    problem: Any, passes: int, searches: int = 10, sweeps: int = 5, change: float = 0.0
) -> tuple[list, list]:
    """Return the dual after each search with its sweeps, and alpha; stop after `passes` searches at most."""
    n, w = len(problem.budgets), np.zeros(problem.dimension)
    kept: list[dict[Any, float]] = [{} for _ in range(n)]
    duals: list[float] = []
    iteration, searching = 0, True  # the paper's iter and GetMaxY
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
    """Run lines 8 to 25; return the largest alphachange of a block."""
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


def in_parts(problem: Any, parts: list[list[int]], visits: int = 2, sweeps: int = 1000) -> Any:
    """Make the same coordinate steps one part at a time; the other parts enter as one plane (b, q).

    A part subtracts its multipliers from the plane when it comes, and adds them again when it goes.
    Returns D(a) after every visit of a part, and P(w) after every sweep over all parts, both by
    definition.
    """
    blocks, budgets = problem.blocks, problem.budgets
    alpha = [np.zeros(len(block.offsets)) for block in blocks]
    b, q = 0.0, np.zeros(blocks[0].vectors.shape[1])
    duals: list[float] = []
    primals: list[float] = []
    for _ in range(sweeps):
        for part in parts:
            own_b = sum(alpha[i] @ blocks[i].offsets for i in part)
            own_q = -sum(alpha[i] @ blocks[i].vectors for i in part)
            rest_b, rest_q = b - own_b, q - own_q
            for _ in range(visits):
                for i in part:
                    own_q = box_steps(blocks[i], budgets[i], alpha[i], rest_q, own_q)
            b = rest_b + sum(alpha[i] @ blocks[i].offsets for i in part)
            q = rest_q - sum(alpha[i] @ blocks[i].vectors for i in part)
            duals.append(b - 0.5 * q @ q)
        primals.append(summed_primal(blocks, budgets, q))
        if primals[-1] - duals[-1] <= 1e-9 * primals[-1]:
            break
    return duals, primals, q


def box_steps(block: Any, top: float, a: np.ndarray, rest: np.ndarray, own: np.ndarray) -> Any:
    """Make the steps (IV.6) and (IV.7) for each output of one block; w is the sum of `rest` and `own`."""
    for y in range(len(a)):
        psi = block.vectors[y]
        if not psi.any():
            continue
        step = np.clip(a[y] + (block.offsets[y] + (rest + own) @ psi) / (psi @ psi), 0, top) - a[y]
        a[y] += step
        own = own - step * psi
    return own
