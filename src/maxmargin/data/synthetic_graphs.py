"""Graphs and sets of labels made from nothing.

A snake is a walk on a grid that does not cross itself. Its cells are coloured by where the next one is;
the label of a cell is its place in the snake, 0 off it. Colours alone distinguish a cell of the snake from
the ground, but only the neighbours distinguish the places.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["grid_edges", "random_label_sets", "random_snakes"]

STEPS = ((0, 1), (1, 0), (0, -1), (-1, 0))


def grid_edges(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Edges of a grid, to the right and down, and features that distinguish the two; nodes row by row."""
    nodes = np.arange(height * width).reshape(height, width)
    right = np.stack([nodes[:, :-1].ravel(), nodes[:, 1:].ravel()], axis=1)
    down = np.stack([nodes[:-1].ravel(), nodes[1:].ravel()], axis=1)
    directions = np.repeat(np.eye(2), [len(right), len(down)], axis=0)
    return np.concatenate([right, down]), directions


def random_walk(
    generator: np.random.Generator, height: int, width: int, length: int
) -> list[tuple[int, int]]:
    """Cells of a walk that does not cross itself; tried again until it fits."""
    while True:
        cells = [(int(generator.integers(height)), int(generator.integers(width)))]
        while len(cells) < length:
            i, j = cells[-1]
            free = [
                (i + a, j + b)
                for a, b in STEPS
                if 0 <= i + a < height and 0 <= j + b < width and (i + a, j + b) not in cells
            ]
            if not free:
                break
            cells.append(free[int(generator.integers(len(free)))])
        if len(cells) == length:
            return cells


def random_snakes(
    n: int,
    height: int = 5,
    width: int = 6,
    length: int = 6,
    noise: float = 0.0,
    random_state: Any = None,
) -> tuple[list[tuple[np.ndarray, np.ndarray, np.ndarray]], list[np.ndarray]]:
    """Images with one snake each: X as (nodes, edges, edge features), Y the places in the snake.

    The features of a node are the colours of its cell and of the four around it, one-hot; ``noise`` is the
    share of cells whose colour is replaced by a random one.
    """
    # Walks that are longer may not exist, or are hardly ever found.
    most = max(1, height * width // 2)
    if not 1 <= length <= most:
        raise ValueError(f"length must be from 1 to half of the cells, {most}, got {length}")
    generator = np.random.default_rng(random_state)
    edges, directions = grid_edges(height, width)
    X, Y = [], []
    for _ in range(n):
        cells = random_walk(generator, height, width, length)
        colour = np.zeros((height + 2, width + 2), dtype=int)  # a border of ground
        label = np.zeros((height, width), dtype=int)
        for place, (i, j) in enumerate(cells):
            label[i, j] = place + 1
            ahead = cells[min(place + 1, length - 1)]
            step = (ahead[0] - i, ahead[1] - j)
            colour[i + 1, j + 1] = 1 + STEPS.index(step) if place + 1 < length else 5
        inner = colour[1:-1, 1:-1]
        drawn = generator.uniform(size=inner.shape) < noise
        inner[drawn] = generator.integers(6, size=int(drawn.sum()))
        views = [colour[1 + a : height + 1 + a, 1 + b : width + 1 + b] for a, b in ((0, 0), *STEPS)]
        nodes = np.concatenate([np.eye(6)[view.ravel()] for view in views], axis=1)
        X.append((nodes, edges, directions))
        Y.append(label.ravel())
    return X, Y


def random_label_sets(
    n: int, n_labels: int = 6, n_features: int = 8, random_state: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows with labels that come in pairs: each odd label mostly follows the even one before it."""
    generator = np.random.default_rng(random_state)
    maps = np.random.default_rng(0).normal(size=(n_features, n_labels))
    X = generator.normal(size=(n, n_features))
    Y = (X @ maps + generator.normal(size=(n, n_labels)) > 1.0).astype(int)
    follows = generator.uniform(size=Y[:, 1::2].shape) < 0.9
    Y[:, 1::2] = np.where(follows, Y[:, : 2 * (n_labels // 2) : 2], Y[:, 1::2])
    return X, Y
