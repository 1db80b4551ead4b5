"""Bounds on the terms of scores, for ``problem.rounding``.

A score is a sum over the parts of an output, <w, Psi(x, y)> = sum_p <w_p, x_p>. Here w_p is a subset of the
weights, and x_p is a row of features or a single 1. So every output has

    sum of the absolute values of all terms  <=  |w| sum_p |x_p|  <=  |w| L_i

with L_i the ``lengths`` below. Rounding changes a sum of k terms by at most about k 2^-53 times this bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.data.memory import FeatureRows

MORE = 1.001  # factor on a computed length, which covers the rounding of single precision
# Squares of lengths between these bounds keep their digits in single precision.
LEAST_SQUARE, LARGEST_SQUARE = 1e-37, 1e38
# Limit on the violators of an example that a summed hinge lists one by one; with more it is bracketed.
MOST_SUMMED_VIOLATORS = 10_000
EXPONENTIAL = 64  # the error of an exponential is less than this many units of rounding


@dataclass(frozen=True)
class Extent:
    """Bounds on the terms of a score, for all outputs of an example.

    ``lengths``: L_i of each example.
    ``terms``: the largest number of terms that are added up in a score.
    ``parts``: the largest number of parts of an output.
    ``all_parts``: the total number of parts of one output of every example.
    ``choices``: the largest number of exponentials that a sum over outputs adds up at a part.
    ``logarithms``: whether such sums are always taken in logarithms.
    ``outputs``: for each example the largest number of violating outputs, for sums over them.
    ``offsets``: the largest absolute offset of each example, if offsets can be negative.
    """

    lengths: np.ndarray
    terms: int
    parts: int = 1
    all_parts: int = 0  # 0 means one for each example
    choices: int = 1
    logarithms: bool = False
    outputs: Any = 1
    offsets: np.ndarray | None = None


def row_lengths(rows: FeatureRows) -> np.ndarray:
    """Return an upper bound on |x_r| of each row, with the bias."""
    squares = rows.core.norms().astype(np.float64)
    largest = squares.max(initial=0.0)
    if LEAST_SQUARE < largest < LARGEST_SQUARE:
        return MORE * np.sqrt(np.maximum(squares, LEAST_SQUARE))
    return extreme_lengths(rows)


def extreme_lengths(rows: FeatureRows) -> np.ndarray:
    """Return the same bound for features whose squares overflow or vanish, from each row's largest number."""
    found = np.concatenate([largest_of_rows(part) for part in rows.keep])
    root = np.sqrt(row_terms(rows))
    bias = rows.core.width - rows.n_features
    if bias:
        last = np.zeros(rows.core.width)
        last[-1] = 1.0
        found = np.maximum(found, np.abs(rows.core.rows.scores(last, 1)))
    return MORE * root * found


def largest_of_rows(part: Any) -> np.ndarray:
    """Return the largest absolute value of each row of an array or a CSR matrix."""
    if not hasattr(part, "indptr"):
        return np.maximum(part.max(axis=1, initial=0.0), -part.min(axis=1, initial=0.0)).astype(
            np.float64
        )
    found = np.zeros(len(part.indptr) - 1)
    owner = np.repeat(np.arange(len(found)), np.diff(part.indptr))
    values = np.asarray(part.data)[part.indptr[0] : part.indptr[-1]]
    np.maximum.at(found, owner, np.abs(values.astype(np.float64)))
    return found


def row_terms(rows: FeatureRows) -> int:
    """Return the largest number of entries that a row stores, with the bias."""
    first = rows.keep[0]
    if not (sp.issparse(first) or hasattr(first, "indptr")):
        return int(rows.core.width)
    most = max(int(np.diff(part.indptr).max(initial=0)) for part in rows.keep)
    return most + int(rows.core.width - rows.n_features)


def sums_between(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the sum of the values of each segment; segments may be empty."""
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.bincount(owner, values, minlength=len(offsets) - 1)


def listed_outputs(labels: int, nodes: np.ndarray) -> np.ndarray:
    """Return, for each example, the largest number of violators that a sum lists."""
    return np.minimum(np.power(float(labels), np.minimum(nodes, 50)), MOST_SUMMED_VIOLATORS)


def extent_of_chains(
    rows: FeatureRows, labels: int, between: FeatureRows | None, pairs: bool
) -> Extent:
    """Return the extent of sequences.

    With pairs=True edges have features, or triples of labels have weights.
    """
    offsets = np.unique(rows.offsets)  # the core has no sequences without positions
    sizes = np.diff(offsets)
    longest = int(sizes.max(initial=0))
    lengths = sums_between(row_lengths(rows), offsets) + sizes + 1
    terms, choices = row_terms(rows) + 3 * longest, labels
    if pairs:
        lengths, choices = lengths + sizes, labels * labels
    if between is not None:
        lengths += sums_between(row_lengths(between), between.offsets)
        terms += row_terms(between)
    outputs = listed_outputs(labels, sizes)
    return Extent(lengths, terms, longest, int(offsets[-1]), choices, outputs=outputs)


def largest_between(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the largest value of each segment; 0 for an empty segment."""
    found, filled = np.zeros(len(offsets) - 1), np.diff(offsets) > 0
    if filled.any():
        found[filled] = np.maximum.reduceat(values, offsets[:-1][filled])
    return found
