"""Task losses of the built-in models, by name or as objects.

``ZeroOne``     Delta(y, y') = [y != y']
``Costs``       Delta(y, y') = cost[y, y'], a matrix over ``classes_``
``Hamming``     Delta(y, y') = sum_t weight_t * cost[y_t, y'_t], over the positions of a sequence;
                ``mean=True`` divides by the length
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


def cost_matrix(costs: Any, classes: np.ndarray) -> np.ndarray:
    """K x K matrix [true, predicted] from None, a vector or dict of costs a true label, or a matrix."""
    n = len(classes)
    if isinstance(costs, Mapping):
        missing = [label for label in classes if label not in costs]
        if missing:
            raise ValueError(f"loss: no cost is given for the labels {missing[:5]}")
        costs = [costs[label] for label in classes]
    matrix = np.ones((n, n)) if costs is None else np.asarray(costs, dtype=np.float64)
    if matrix.ndim == 1:
        matrix = np.repeat(matrix[:, None], n, axis=1) if len(matrix) == n else matrix
    if matrix.shape != (n, n):
        raise ValueError(
            f"loss: costs must have shape ({n},) or ({n}, {n}), for the {n} labels in classes_; "
            f"got {np.shape(costs)}"
        )
    if np.ndim(costs) < 2:
        matrix = matrix.copy()
        np.fill_diagonal(matrix, 0.0)
    wrong = matrix[~(matrix >= 0) | np.isinf(matrix)]
    if len(wrong):
        raise ValueError(f"loss: costs must be finite and not negative, got {wrong[0]}")
    diagonal = np.diagonal(matrix)
    if diagonal.any():
        raise ValueError(
            f"loss: the cost of the true label (the diagonal) must be 0, got {diagonal[diagonal != 0][0]}"
        )
    return np.ascontiguousarray(matrix)


def saved_costs(cost: np.ndarray, n: int) -> np.ndarray | None:
    """Costs read from a file, None where every mistake costs 1; refuses what is no cost matrix."""
    fine = cost.dtype == np.float64 and cost.shape == (n, n) and np.isfinite(cost).all()
    if not fine or (cost < 0).any() or np.diagonal(cost).any():
        raise ValueError("its costs are not those of a model")
    return None if np.array_equal(cost, 1.0 - np.eye(n)) else cost


@dataclass(frozen=True)
class ZeroOne:
    """One for a wrong label, zero for the right one."""


@dataclass(frozen=True, eq=False)
class Costs:
    """A cost for each pair [true, predicted] over ``classes_``; the diagonal is zero."""

    costs: Any


@dataclass(frozen=True, eq=False)
class Hamming:
    """Wrong positions of a sequence, counted (or averaged), each with a cost.

    Parameters
    ----------
    costs : None, dict, array of shape (K,) or (K, K)
        1 for every mistake; or a cost a true label; or a cost [true, predicted].
    mean : bool
        Divide by the length of the sequence.
    """

    costs: Any = None
    mean: bool = False


def flat_loss(loss: Any) -> ZeroOne | Costs:
    """The loss of a flat model from what the user gave."""
    if isinstance(loss, ZeroOne | Costs):
        return loss
    if isinstance(loss, str):
        if loss == "zero-one":
            return ZeroOne()
        raise ValueError(f"loss must be 'zero-one' or a cost matrix, got {loss!r}")
    return Costs(loss)


def sequence_loss(loss: Any) -> Hamming:
    """The loss of a sequence model from what the user gave."""
    if isinstance(loss, Hamming):
        return loss
    named = {"hamming": Hamming(), "mean-hamming": Hamming(mean=True)}
    if isinstance(loss, str):
        if loss not in named:
            raise ValueError(
                f"loss must be one of {sorted(named)} or losses.Hamming(...), got {loss!r}"
            )
        return named[loss]
    return Hamming(costs=loss)
