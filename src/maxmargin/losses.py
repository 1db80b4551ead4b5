"""Task losses of the built-in models, by name or as objects.

``ZeroOne``     Delta(y, y') = [y != y']
``Costs``       Delta(y, y') = cost[y, y'], a matrix over ``classes_``
``Hamming``     Delta(y, y') = sum_t weight_t * cost[y_t, y'_t], over the positions of a sequence;
                ``mean=True`` divides by the length

Losses of a whole sample with two classes, for ``models.Binary``. P positives and N negatives, n = P + N;
a prediction has a hits (positives found) and b false alarms:

``ErrorRate``     (P - a + b) / n
``F1``            1 - (1 + beta^2) a / (a + b + beta^2 P)
``PrecisionAt``   1 - a / k  and  ``RecallAt``  1 - a / P,  over predictions of exactly k positives
``ROCArea``       the share of (positive, negative) pairs in the wrong order
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from maxmargin.data.arrays import check_positive, floats, is_number, is_whole


def mistake_costs(costs: Any, classes: np.ndarray) -> np.ndarray:
    """A cost per true label (K,), or a matrix (K, K) [true, predicted], from what the user gave.

    None, a dict and a vector have one cost per true label: K numbers, where a matrix would have K^2.
    """
    n = len(classes)
    if isinstance(costs, Mapping):
        missing = [label for label in classes if label not in costs]
        if missing:
            raise ValueError(f"loss: no cost is given for the labels {missing[:5]}")
        costs = [costs[label] for label in classes]
    cost = np.ones(n) if costs is None else floats(costs, "loss: costs")
    if cost.shape not in ((n,), (n, n)):
        raise ValueError(
            f"loss: costs must have shape ({n},) or ({n}, {n}), for the {n} labels in classes_; "
            f"got {np.shape(costs)}"
        )
    wrong = cost[~(cost >= 0) | np.isinf(cost)]
    if len(wrong):
        raise ValueError(f"loss: costs must be finite and not negative, got {wrong[0]}")
    diagonal = np.diagonal(cost) if cost.ndim == 2 else np.zeros(0)
    if diagonal.any():
        raise ValueError(
            f"loss: the cost of the true label (the diagonal) must be 0, got {diagonal[diagonal != 0][0]}"
        )
    return np.ascontiguousarray(cost)


def cost_matrix(costs: Any, classes: np.ndarray) -> np.ndarray:
    """The same as a matrix (K, K) in any case: for few labels."""
    cost, codes = mistake_costs(costs, classes), np.arange(len(classes))
    return cost_of(cost, codes[:, None], codes[None, :])


def cost_of(cost: np.ndarray, true: Any, other: Any) -> np.ndarray:
    """Costs of pairs of label codes (numbers or arrays), from what ``mistake_costs`` made."""
    return np.where(true == other, 0.0, cost[true]) if cost.ndim == 1 else cost[true, other]


def saved_costs(cost: np.ndarray) -> np.ndarray | None:
    """Costs from a file, (K,) or (K, K); None where every mistake costs 1; refuses what cannot be costs."""
    if (cost < 0).any() or (cost.ndim == 2 and np.diagonal(cost).any()):
        raise ValueError("the costs must not be negative, and that of the true label must be 0")
    unit = 1.0 if cost.ndim == 1 else 1.0 - np.eye(len(cost))
    return None if np.array_equal(cost, np.broadcast_to(unit, cost.shape)) else cost


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
        1 for every mistake; or a cost per true label; or a cost [true, predicted].
    mean : bool
        Divide by the length of the sequence.
    """

    costs: Any = None
    mean: bool = False


class SampleLoss:
    """A loss of the predictions of a whole sample: it is not a sum over examples."""


class TableLoss(SampleLoss):
    """A loss that depends on the numbers of hits and of false alarms only.

    Ensures: ``delta`` is concave in the number of false alarms, which the oracle relies on.
    """

    def delta(self, hits: np.ndarray, alarms: np.ndarray, positives: int, n: int) -> np.ndarray:
        """The loss of every pair of hits and false alarms."""
        raise NotImplementedError

    def predicted(self, n: int) -> int | None:
        """How many positives a prediction must have; None: any number."""
        return None


@dataclass(frozen=True)
class ErrorRate(TableLoss):
    """Share of wrong labels."""

    def delta(self, hits: np.ndarray, alarms: np.ndarray, positives: int, n: int) -> np.ndarray:
        return (positives - hits + alarms) / n


@dataclass(frozen=True)
class F1(TableLoss):
    """1 - F_beta, F_beta = (1 + beta^2) precision recall / (beta^2 precision + recall)."""

    beta: float = 1.0

    def __post_init__(self) -> None:
        check_positive("F1: beta", self.beta, finite=True)

    def delta(self, hits: np.ndarray, alarms: np.ndarray, positives: int, n: int) -> np.ndarray:
        square = float(self.beta) ** 2
        # The numerator has misses and alarms, not a difference of nearly equal numbers.
        return (square * (positives - hits) + alarms) / (hits + alarms + square * positives)


@dataclass(frozen=True)
class TopLoss(TableLoss):
    """A loss of the k best-ranked examples: k a count (int), or a share of the sample (float in (0, 1])."""

    k: int | float

    def __post_init__(self) -> None:
        share = isinstance(self.k, float | np.floating) and 0 < self.k <= 1
        if not (is_whole(self.k, 1) or share):
            raise ValueError(
                f"{type(self).__name__}: k must be a count (a whole number of at least 1) or a share of the "
                f"sample (a float in (0, 1]), got {self.k!r}"
            )

    def predicted(self, n: int) -> int:
        k = max(1, round(self.k * n)) if isinstance(self.k, float | np.floating) else int(self.k)
        if k > n:
            raise ValueError(f"{type(self).__name__}: k is {k}, but the sample has {n} examples")
        return k


@dataclass(frozen=True)
class PrecisionAt(TopLoss):
    """1 - precision of the k best-ranked examples."""

    def delta(self, hits: np.ndarray, alarms: np.ndarray, positives: int, n: int) -> np.ndarray:
        return alarms / (hits + alarms)


@dataclass(frozen=True)
class RecallAt(TopLoss):
    """1 - recall of the k best-ranked examples."""

    def delta(self, hits: np.ndarray, alarms: np.ndarray, positives: int, n: int) -> np.ndarray:
        return (positives - hits) / positives


@dataclass(frozen=True)
class ROCArea(SampleLoss):
    """1 - area under the ROC curve: the share of (positive, negative) pairs in the wrong order."""


SAMPLE_LOSSES: dict[str, type[SampleLoss]] = {
    kind.__name__: kind for kind in (ErrorRate, F1, PrecisionAt, RecallAt, ROCArea)
}


def sample_loss_state(loss: SampleLoss) -> dict[str, Any]:
    """A loss as plain values, for a model file."""
    return {"kind": type(loss).__name__, **asdict(loss)}  # type: ignore[call-overload]


def saved_sample_loss(state: dict[str, Any]) -> SampleLoss:
    """The loss that ``sample_loss_state`` wrote."""
    options = {name: value for name, value in state.items() if name != "kind"}
    if not all(is_number(value) and abs(value) < 2**53 for value in options.values()):
        raise ValueError(f"the options of the loss must be numbers, got {options}")
    return SAMPLE_LOSSES[state["kind"]](**options)


def binary_loss(loss: Any) -> ZeroOne | Costs | SampleLoss:
    """The loss of a model with two classes from what the user gave."""
    named: dict[str, ZeroOne | SampleLoss] = {
        "zero-one": ZeroOne(),
        "error-rate": ErrorRate(),
        "f1": F1(),
        "roc-area": ROCArea(),
    }
    if isinstance(loss, str):
        if loss not in named:
            raise ValueError(
                f"loss must be one of {list(named)}, losses.PrecisionAt(k), losses.RecallAt(k) or costs, "
                f"got {loss!r}"
            )
        return named[loss]
    return loss if isinstance(loss, SampleLoss) else flat_loss(loss)


def flat_loss(loss: Any) -> ZeroOne | Costs:
    """The loss of a flat model from what the user gave."""
    if isinstance(loss, ZeroOne | Costs):
        return loss
    if isinstance(loss, SampleLoss):
        raise ValueError(f"loss: {loss!r} is for two classes, and for models.Binary only")
    if isinstance(loss, str):
        if loss == "zero-one":
            return ZeroOne()
        raise ValueError(f"loss must be 'zero-one' or a cost matrix, got {loss!r}")
    return Costs(loss)


def sequence_costs(loss: Any, classes: np.ndarray) -> tuple[Hamming, np.ndarray]:
    """The loss of a sequence model, and its costs of these classes."""
    made = sequence_loss(loss)
    return made, mistake_costs(made.costs, classes)


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
