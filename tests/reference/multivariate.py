"""Losses of a whole sample by brute force: every labelling, or every order of all pairs.

Nothing here is clever. Labels are 0 and 1. A labelling Y' has Psi = 1/(2n) sum_i y'_i x_i. An order
of the P N pairs of a positive i and a negative j has Psi = 1/(2PN) sum_ij o_ij (x_i - x_j), with
o_ij = +1 or -1.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from .enumerate import Block


def delta(name: str, y: np.ndarray, other: np.ndarray, beta: float = 1.0, k: int = 0) -> float:
    """The loss of a labelling, from precision and recall."""
    hits = float(np.sum((y == 1) & (other == 1)))
    if name == "error-rate":
        return float(np.mean(y != other))
    recall = hits / np.sum(y)
    precision = hits / max(1, np.sum(other))
    if name == "precision":
        return 1 - hits / k
    if name == "recall":
        return 1 - recall
    if hits == 0:
        return 1.0
    return float(1 - (1 + beta**2) * precision * recall / (beta**2 * precision + recall))


def labellings(y: np.ndarray, k: int | None) -> list[np.ndarray]:
    """The true labelling first, then all others; with k, only labellings with k positives."""
    every = [np.array(other) for other in product((0, 1), repeat=len(y))]
    wanted = [other for other in every if k is None or other.sum() == k]
    return [np.asarray(y), *(other for other in wanted if (other != y).any())]


def labelling_block(name: str, X: np.ndarray, y: np.ndarray, **options: Any) -> Block:
    """Every plane of the sample; the true labelling comes first."""
    outputs = labellings(y, options.get("k"))
    offsets = [0.0, *(delta(name, y, other, **options) for other in outputs[1:])]
    vectors = [(other - y) @ X / len(y) for other in outputs]
    return Block([tuple(o.tolist()) for o in outputs], np.array(offsets), np.array(vectors))


def pairs_of(X: np.ndarray, n_labels: int) -> np.ndarray:
    """A row for each pair (example, label), example by example: x_i in the columns of the label."""
    return np.array([np.kron(own, x) for x in X for own in np.eye(n_labels)])


def label_block(name: str, X: np.ndarray, Y: np.ndarray, beta: float = 1.0) -> Block:
    """Every plane of a sample with rows of 0 and 1 as outputs, for "micro" or "macro" F1."""
    block = labelling_block("f1", pairs_of(X, Y.shape[1]), Y.ravel(), beta=beta)
    if name == "micro":
        return block
    tables = [np.reshape(other, Y.shape) for other in block.outputs]
    means = [
        np.mean([delta("f1", y, p, beta) for y, p in zip(Y.T, table.T, strict=True)])
        for table in tables
    ]
    return Block(block.outputs, np.array(means), block.vectors)


def order_block(X: np.ndarray, y: np.ndarray) -> Block:
    """Every plane of the sample; an output is a set of swapped pairs."""
    pairs = [(i, j) for i in np.flatnonzero(y == 1) for j in np.flatnonzero(y == 0)]
    differences = np.array([X[j] - X[i] for i, j in pairs])
    outputs = list(product((0, 1), repeat=len(pairs)))
    swapped = np.array(outputs, dtype=float)
    return Block(outputs, swapped.mean(axis=1), swapped @ differences / len(pairs))


def rescaled(block: Block, rescaling: str) -> Block:
    """The planes (Delta, psi), or (Delta, Delta psi) for slack rescaling."""
    if rescaling == "margin":
        return block
    return Block(block.outputs, block.offsets, block.offsets[:, None] * block.vectors)
