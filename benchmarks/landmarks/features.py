"""Maps of gradient histograms: the features of a part around each cell of the grid."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import uniform_filter

ORIENTATIONS = 8
CELL = 4  # side in pixels of the window that a histogram sums over
AROUND = 3  # histograms in each direction that a feature vector includes


def gradient_map(image: np.ndarray, step: int = 2) -> np.ndarray:
    """Return an array (rows, columns, 72): 3 x 3 orientation histograms around each `step`-th pixel."""
    pixels = image.astype(np.float64) / 255
    dy, dx = np.gradient(pixels)
    size = np.hypot(dx, dy)
    turn = (np.arctan2(dy, dx) % np.pi) / np.pi * ORIENTATIONS
    low = np.floor(turn).astype(int) % ORIENTATIONS
    part = turn - np.floor(turn)
    votes = np.zeros((*pixels.shape, ORIENTATIONS))
    rows, columns = np.indices(pixels.shape)
    np.add.at(votes, (rows, columns, low), size * (1 - part))
    np.add.at(votes, (rows, columns, (low + 1) % ORIENTATIONS), size * part)
    pooled = uniform_filter(votes, size=(CELL, CELL, 1), mode="constant")
    margin = CELL * (AROUND // 2)
    wide = np.pad(pooled, ((margin, margin), (margin, margin), (0, 0)))
    height, width = pixels.shape
    seen = [
        wide[a : a + height : step, b : b + width : step]
        for a in range(0, CELL * AROUND, CELL)
        for b in range(0, CELL * AROUND, CELL)
    ]
    stacked = np.concatenate(seen, axis=2)
    norms = np.linalg.norm(stacked, axis=2, keepdims=True)
    return (stacked / (norms + 0.02)).astype(np.float32)
