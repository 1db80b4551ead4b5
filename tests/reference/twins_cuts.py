"""Cutting planes as printed: Algorithms 1 and 3 of Joachims, Finley and Yu, and Algorithm 1 of Balamurugan,
Shevade and Babu. Every quadratic program goes to the dense solver; line numbers are the papers'.

Lists end early where an oracle has the choice between two outputs (`TIE`): from there on ways may part.

One slip of the second paper is mended: its S_i (lines 3 and 15) is empty at the start of every round, as else
outputs that violate no longer stay in the constraint.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .dense_qp import Optimum, solve
from .enumerate import Block

TIE = 1e-5  # of the largest loss: outputs that are as close as this may change places


def choice(problem: Any, i: int, w: np.ndarray) -> bool:
    """Whether an output is about as bad as the worst."""
    block = problem.blocks[i]
    scores = np.sort(block.offsets + block.vectors @ w)
    return scores[-1] - scores[-2] <= TIE * block.offsets.max()


def n_slack(problem: Any, eps: float, passes: int = 100) -> list[float]:
    """Dual after each pass of lines 4 to 10; the list ends with the pass that adds nothing."""
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
    """Line 8, over the working sets."""
    return optimum_of([rows(problem.blocks[i], own) for i, own in enumerate(kept)], problem.budgets)


def optimum_of(blocks: list[Block], budgets: np.ndarray) -> Optimum:
    """Of a program; that of true outputs alone is at w = 0."""
    if not any(block.offsets.any() for block in blocks):
        nothing = np.zeros(blocks[0].vectors.shape[1])
        return Optimum(nothing, 0.0, 0.0, [])
    return solve(blocks, 1.0, budgets)


def rows(block: Block, numbers: list) -> Block:
    """Some planes of a block."""
    return Block(
        [block.outputs[j] for j in numbers], block.offsets[numbers], block.vectors[numbers]
    )


def score(problem: Any, i: int, output: Any, w: np.ndarray) -> float:
    """Delta_i(y) + <w, psi_i(y)>."""
    offset, psi = problem.plane(i, output)
    return offset + float(w @ psi)


def one_slack(problem: Any, eps: float, rounds: int = 1000) -> list[float]:
    """Dual of the working set in each round of lines 3 to 9; ends when the new constraint violates by eps."""

    def worst(w: np.ndarray) -> list[list]:
        return [[problem.oracle(i, w)] for i in range(len(problem.budgets))]

    return cuts(problem, worst, eps, rounds)


def summed(problem: Any, eps: float, rounds: int = 1000) -> list[float]:
    """The same for the summed error: a constraint has all violators among the outputs found so far."""
    found: list[set] = [set() for _ in problem.budgets]

    def violators(w: np.ndarray) -> list[list]:
        for i, own in enumerate(found):
            own.add(problem.oracle(i, w))  # lines 9 to 12
        return [
            [y for y in sorted(own) if score(problem, i, y, w) > 0] for i, own in enumerate(found)
        ]

    return cuts(problem, violators, eps, rounds)


def cuts(problem: Any, chosen: Any, eps: float, rounds: int) -> list[float]:
    """Constraints over the whole set, one for each round, of the outputs that `chosen` gives at w."""
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
