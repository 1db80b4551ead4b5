"""Cutting planes, line by line as in two papers.

They are Algorithms 1 and 3 of Joachims, Finley and Yu, and Algorithm 1 of Balamurugan, Shevade and
Babu. The dense solver solves every quadratic program; line numbers refer to the papers. A list ends
early if an oracle may choose between two outputs (`TIE`), because from there on two runs may
differ.

One slip of the second paper is corrected: its S_i (lines 3 and 15) must be empty at the start of
every round. Else outputs that no longer violate stay in the constraint.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .dense_qp import Optimum, solve
from .enumerate import Block

TIE = 1e-5  # outputs whose scores differ by less than this share of the largest loss count as tied


def choice(problem: Any, i: int, w: np.ndarray) -> bool:
    """Return whether two outputs tie for the worst."""
    block = problem.blocks[i]
    scores = np.sort(block.offsets + block.vectors @ w)
    return scores[-1] - scores[-2] <= TIE * block.offsets.max()


def n_slack(problem: Any, eps: float, passes: int = 100) -> list[float]:
    """The dual after each pass of lines 4 to 10; the last pass adds no plane."""
    kept = [[c] for c in problem.correct]  # the true output: xi >= 0
    point, duals = program(problem, kept), []
    for _ in range(passes):
        changed = False
        for i in range(len(kept)):
            worst = problem.oracle(i, point.w)
            own = max(score(problem, i, y, point.w) for y in kept[i])  # xi_i
            if score(problem, i, worst, point.w) > own + eps:  # line 6
                if choice(problem, i, point.w):
                    return duals
                kept[i].append(worst)
                point, changed = program(problem, kept), True
        duals.append(point.dual)
        if not changed:
            break
    return duals


def program(problem: Any, kept: list[list]) -> Optimum:
    """Solve line 8, the program over the working sets."""
    return optimum_of([rows(problem.blocks[i], own) for i, own in enumerate(kept)], problem.budgets)


def optimum_of(blocks: list[Block], budgets: np.ndarray) -> Optimum:
    """The optimum of a program; if it has only true outputs, the optimum is w = 0."""
    if not any(block.offsets.any() for block in blocks):
        nothing = np.zeros(blocks[0].vectors.shape[1])
        return Optimum(nothing, 0.0, 0.0, [])
    return solve(blocks, 1.0, budgets)


def rows(block: Block, numbers: list) -> Block:
    """Select some planes of a block."""
    return Block(
        [block.outputs[j] for j in numbers], block.offsets[numbers], block.vectors[numbers]
    )


def score(problem: Any, i: int, output: Any, w: np.ndarray) -> float:
    """Delta_i(y) + <w, psi_i(y)>."""
    offset, psi = problem.plane(i, output)
    return offset + float(w @ psi)


def one_slack(problem: Any, eps: float, rounds: int = 1000) -> list[float]:
    """The dual of each round of lines 3 to 9, until the new constraint violates by at most eps."""

    def worst(w: np.ndarray) -> list[list]:
        return [[problem.oracle(i, w)] for i in range(len(problem.budgets))]

    return cuts(problem, worst, eps, rounds)


def summed(problem: Any, eps: float, rounds: int = 1000) -> list[float]:
    """The duals for the summed error; a constraint contains all violators among the outputs found so far."""
    found: list[set] = [set() for _ in problem.budgets]

    def violators(w: np.ndarray) -> list[list]:
        for i, own in enumerate(found):
            own.add(problem.oracle(i, w))  # lines 9 to 12
        return [
            [y for y in sorted(own) if score(problem, i, y, w) > 0] for i, own in enumerate(found)
        ]

    return cuts(problem, violators, eps, rounds)


def cuts(problem: Any, chosen: Any, eps: float, rounds: int) -> list[float]:
    """The dual of each round; every round adds one constraint, made of the outputs `chosen` at w."""
    total = float(np.sum(problem.budgets))
    offsets, vectors = [0.0], [np.zeros(problem.dimension)]  # xi >= 0
    duals = []
    for _ in range(rounds):
        one = Block(list(range(len(offsets))), np.array(offsets), np.array(vectors))
        point = optimum_of([one], np.ones(1))
        duals.append(point.dual)
        if any(choice(problem, i, point.w) for i in range(len(problem.budgets))):
            break
        slack = float(np.max(one.offsets + one.vectors @ point.w))
        offset, vector = 0.0, np.zeros(problem.dimension)
        for i, outputs in enumerate(chosen(point.w)):
            for y in outputs:
                loss, psi = problem.plane(i, y)
                offset += problem.budgets[i] * loss
                vector += problem.budgets[i] * psi
        if offset + float(vector @ point.w) <= slack + eps * total:  # line 9
            break
        offsets.append(offset)
        vectors.append(vector)
    return duals
