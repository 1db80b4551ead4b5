r"""True outputs with unknown labels, over all enumerated outputs.

    F(w) = 1/2 |w|^2 + sum_i c_i (log sum_y exp(s_i(y)) - log sum_{y agrees with y_i} exp(<w, Psi(x_i, y)>))
    grad F = w + sum_i c_i (E_p Psi - E_b Psi)      p over all outputs, b over the outputs that agree

s_i(y) = <w, Psi(x_i, y)>, and for "softmax-margin" plus the loss over the known labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp, softmax

from .cases import Case, fresh
from .enumerate import Block


def hide(case, seed, share=0.5):
    """Return Y with some labels hidden; the first occurrence of each class stays."""
    g, seen, hidden = fresh(seed, 700), set(), []
    for y in case.Y:
        labels = [None if g.random() < share else label for label in y]
        for t, label in enumerate(y):
            if label not in seen:
                labels[t] = label
                seen.add(label)
        hidden.append(labels)
    return hidden


def agrees(y, known):
    """Return whether an output has the known labels."""
    return all(k is None or k == a for a, k in zip(y, known, strict=True))


def partial_loss(truth, known, y, node_weight=None):
    """The loss over the known labels."""
    filled = [a if k is None else k for a, k in zip(y, known, strict=True)]
    weight = np.array([float(k is not None) for k in known])
    weight = weight if node_weight is None else weight * node_weight
    return truth.loss(filled, y, weight) if hasattr(truth, "mean") else truth.loss(filled, y)


def known_blocks(case: Case, Y: list, node_weight: Any = None) -> list[tuple[Block, np.ndarray]]:
    """Return for each example all outputs with Psi and known loss, and a mask of outputs that agree."""
    found = []
    for i, (x, known) in enumerate(zip(case.truth.examples(case.X), Y, strict=True)):
        outputs = case.truth.outputs(x)
        vectors = np.array([case.truth.joint_feature(x, y) for y in outputs])
        own = None if node_weight is None else node_weight[i]
        offsets = np.array([partial_loss(case.truth, known, y, own) for y in outputs])
        right = np.array([agrees(y, known) for y in outputs])
        found.append((Block(outputs, offsets, vectors), right))
    return found


def sums(blocks: list, w: np.ndarray, formulation: str = "log") -> tuple[np.ndarray, np.ndarray]:
    """The log sums over all outputs, and over the outputs that agree."""
    losses = 0.0 if formulation == "log" else 1.0
    every = [logsumexp(b.vectors @ w + losses * b.offsets) for b, _ in blocks]
    return np.array(every), np.array([logsumexp(b.vectors[right] @ w) for b, right in blocks])


def completed_mean(blocks: list, budgets: np.ndarray, w: np.ndarray) -> np.ndarray:
    """sum_i c_i E_b Psi."""
    return sum(
        c * softmax(b.vectors[right] @ w) @ b.vectors[right]
        for c, (b, right) in zip(budgets, blocks, strict=True)
    )


def objective(blocks: list, budgets: np.ndarray, w: np.ndarray, formulation: str = "log") -> float:
    """F(w), by definition."""
    every, known = sums(blocks, w, formulation)
    return float(0.5 * w @ w + budgets @ (every - known))


def gradient(
    blocks: list, budgets: np.ndarray, w: np.ndarray, formulation: str = "log", at: Any = None
) -> np.ndarray:
    """grad F, or with `at` the gradient of the convex problem whose completions are fixed at `at`."""
    losses = 0.0 if formulation == "log" else 1.0
    mean = sum(
        c * softmax(b.vectors @ w + losses * b.offsets) @ b.vectors
        for c, (b, _) in zip(budgets, blocks, strict=True)
    )
    return w + mean - completed_mean(blocks, budgets, w if at is None else at)


def convex(
    blocks: list, budgets: np.ndarray, w: np.ndarray, at: np.ndarray, formulation: str = "log"
) -> float:
    """P(w; at): the sums over outputs that agree are replaced by their tangent at `at`."""
    every, _ = sums(blocks, w, formulation)
    _, known = sums(blocks, at, formulation)
    slope = completed_mean(blocks, budgets, at)
    return float(0.5 * w @ w + budgets @ (every - known) - slope @ (w - at))


def turning_chains(n=50, new=100, share=0.25):
    """Noisy chains that cycle through 0, 1, 2, with a share of their labels; and new ones with all
    labels."""
    g = np.random.default_rng(0)
    steps = np.array([[0.7, 0.3, 0.0], [0.0, 0.7, 0.3], [0.3, 0.0, 0.7]])

    def draw(n):
        X, Y = [], []
        for _ in range(n):
            y = [0]
            while len(y) < 15:
                y.append(int(g.choice(3, p=steps[y[-1]])))
            X.append(np.eye(3)[y] + g.normal(scale=0.9, size=(15, 3)))
            Y.append(y)
        return X, Y

    (X, Y), (X_test, Y_test) = draw(n), draw(new)
    hidden = [[label if g.random() < share else None for label in y] for y in Y]
    return X, hidden, X_test, Y_test
