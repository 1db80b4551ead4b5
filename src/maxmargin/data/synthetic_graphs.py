"""Synthetic graphs and sets of labels.

A snake is a walk on a grid that does not cross itself. The colour of its cell is the direction of the next
cell. The label of a cell is its position in the snake, or 0 outside it. The colour of a cell tells whether it
belongs to the snake, but only the neighbours tell its position.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["grid_edges", "random_label_sets", "random_snakes"]

STEPS = ((0, 1), (1, 0), (0, -1), (-1, 0))


def grid_edges(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges of a grid, to the right and down, and one-hot features of their directions.

    Nodes are numbered row by row.
    """
    nodes = np.arange(height * width).reshape(height, width)
    right = np.stack([nodes[:, :-1].ravel(), nodes[:, 1:].ravel()], axis=1)
    down = np.stack([nodes[:-1].ravel(), nodes[1:].ravel()], axis=1)
    directions = np.repeat(np.eye(2), [len(right), len(down)], axis=0)
    return np.concatenate([right, down]), directions


def random_walk(
    generator: np.random.Generator, height: int, width: int, length: int
) -> list[tuple[int, int]]:
    """Draw the cells of a walk that does not cross itself; try again until it has the full length."""
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
    """Draw images with one snake each: X as (nodes, edges, edge features), Y as positions in the snake.

    The features of a node are the one-hot colours of its cell and of the four cells around it. ``noise`` is
    the share of cells whose colour is replaced by a random one.
    """
    # Longer walks may not exist, or take too long to find.
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
    """Draw rows with sets of labels; each odd label mostly equals the even label before it."""
    generator = np.random.default_rng(random_state)
    maps = np.random.default_rng(0).normal(size=(n_features, n_labels))
    X = generator.normal(size=(n, n_features))
    Y = (X @ maps + generator.normal(size=(n, n_labels)) > 1.0).astype(int)
    follows = generator.uniform(size=Y[:, 1::2].shape) < 0.9
    Y[:, 1::2] = np.where(follows, Y[:, : 2 * (n_labels // 2) : 2], Y[:, 1::2])
    return X, Y
