"""faces68 as a replacement for LANDMARK: eight landmarks, a tree of parts, local binary patterns.

The paper's loss is the mean deviation in percent of the size of the face; `Tree` counts cells of
its grid.
One cell is `unit` percent, so the paper's lambda and epsilon are lambda * unit and epsilon / unit
here.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import uniform_filter

from benchmarks.datasets import Dataset
from benchmarks.landmarks.__main__ import STEP, Faces, faces, made_up

# Eight of the 68 landmarks: tip and base of the nose, corners of the eyes, corners of the mouth.
LANDMARKS = (30, 33, 36, 39, 42, 45, 48, 54)
CELL = 8  # side in pixels of the window that a histogram sums over
ROUND = ((-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1))


def uniform_codes() -> np.ndarray:
    """Return the bin of each of the 256 patterns.

    58 patterns with at most two changes around the circle have their own bins; the rest share one.
    """
    bits = (np.arange(256)[:, None] >> np.arange(8)) & 1
    uniform = (bits != np.roll(bits, 1, axis=1)).sum(axis=1) <= 2
    return np.where(uniform, np.cumsum(uniform) - 1, uniform.sum())


def pattern_map(image: np.ndarray, step: int = STEP) -> np.ndarray:
    """Return an array (rows, columns, 59): histograms of local binary patterns, of norm one.

    There is one histogram around each `step`-th pixel.
    """
    height, width = image.shape
    wide = np.pad(image, 1, mode="edge")
    around = [wide[1 + a : 1 + a + height, 1 + b : 1 + b + width] for a, b in ROUND]
    pattern = sum((pixel >= image).astype(int) << bit for bit, pixel in enumerate(around))
    codes = uniform_codes()
    votes = np.eye(codes.max() + 1)[codes[pattern]]
    pooled = uniform_filter(votes, size=(CELL, CELL, 1), mode="constant")[::step, ::step]
    return (pooled / np.linalg.norm(pooled, axis=2, keepdims=True)).astype(np.float32)


def load(train: int = 500, test: int = 400, small: bool = False) -> Dataset:
    """Load the set; no person is in both the training set and the test set."""
    if small:
        parts, size = (made_up(20, 0), made_up(20, 1)), 12.0
    else:
        parts = faces(train, test)
        size = float(np.ptp(parts[0][1][:, :, 0], axis=1).mean())  # mean height of the faces
        parts = tuple((images, points[:, LANDMARKS]) for images, points in parts)
    (X_train, Y_train), (X_test, Y_test) = (as_examples(part) for part in parts)
    return Dataset("faces68", "tree", X_train, Y_train, X_test, Y_test, unit=100 * STEP / size)


def as_examples(data: Faces) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the maps, and the cells of the landmarks."""
    images, points = data
    return [pattern_map(x) for x in images], list(np.floor(points / STEP).astype(int))
