"""Task losses of the built-in models, by name or as objects.

``ZeroOne``     Delta(y, y') = [y != y']
``Costs``       Delta(y, y') = cost[y, y'], a matrix over ``classes_``
``Hamming``     Delta(y, y') = sum_t weight_t * cost[y_t, y'_t], over the positions of a sequence;
                ``mean=True`` divides by the length
``Entity``      as ``Hamming``, with cost ``miss`` if "O" is predicted for an entity's tag, else 1

Losses of a whole sample with two classes, for ``models.Binary``. There are P positives and N
negatives, n = P + N. A prediction has a hits (positives that it finds) and b false alarms:

``ErrorRate``     (P - a + b) / n
``F1``            1 - (1 + beta^2) a / (a + b + beta^2 P)
``PrecisionAt``   1 - a / k  and  ``RecallAt``  1 - a / P,  over predictions of exactly k positives
``ROCArea``       the share of (positive, negative) pairs in the wrong order

Losses of a whole sample with sets of labels, for ``models.MultiLabel`` without pairs:

``MicroF1``       F1 of all pairs of an example and a label together
``MacroF1``       the mean over labels of their F1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from maxmargin.data.arrays import FINITE, floats, is_number, is_whole

__all__ = [
    "F1",
    "Costs",
    "Entity",
    "ErrorRate",
    "Hamming",
    "MacroF1",
    "MicroF1",
    "PrecisionAt",
    "ROCArea",
    "RecallAt",
    "ZeroOne",
]


def mistake_costs(costs: Any, classes: np.ndarray) -> np.ndarray:
    """Convert a user's costs to a cost per true label (K,) or a matrix (K, K) [true, predicted].

    None, a dict and a vector have one cost per true label: K numbers, where a matrix would have
    K^2. A dict gives cost 1 to labels that it does not contain. Costs may also be a function of the
    labels.
    """
    n = len(classes)
    if callable(costs):
        try:
            costs = costs(classes)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"loss: the function of costs failed on the labels: {error}"
            ) from error
    if isinstance(costs, Mapping):
        known = classes.tolist()
        unknown = [label for label in costs if label not in known]
        if unknown:
            raise ValueError(
                f"loss: costs are given for {unknown[:5]}, which are not among the labels "
                f"{known[:10]}; name labels that the data may miss in classes= of the model"
            )
        costs = [costs.get(label, 1.0) for label in known]
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
    """Convert the costs of a user to a matrix (K, K) in any case; use it for few labels only."""
    cost, codes = mistake_costs(costs, classes), np.arange(len(classes))
    return cost_of(cost, codes[:, None], codes[None, :])


def cost_of(cost: np.ndarray, true: Any, other: Any) -> np.ndarray:
    """Return the costs of pairs of label codes (numbers or arrays), given the costs of ``mistake_costs``."""
    return np.where(true == other, 0.0, cost[true]) if cost.ndim == 1 else cost[true, other]


def saved_costs(cost: np.ndarray) -> np.ndarray | None:
    """Check the costs of a file, (K,) or (K, K); return None if every mistake costs 1."""
    if (cost < 0).any() or (cost.ndim == 2 and np.diagonal(cost).any()):
        raise ValueError("the costs must not be negative, and the cost of the true label must be 0")
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
    costs : None, dict, array of shape (K,) or (K, K), or a function from the labels to one of these
        None: 1 for every mistake. A dict or a vector: a cost per true label, 1 for labels that a
        dict does not contain. A matrix: a cost for each pair [true, predicted].
    mean : bool
        Divide by the length of the sequence.
    """

    costs: Any = None
    mean: bool = False


@dataclass(frozen=True)
class Entity:
    """Wrong positions of a tag sequence; a missed entity costs more than other mistakes.

    Entities are rare. A model that only counts mistakes therefore learns to predict "O" in doubt:
    it is precise, but its recall is low. A larger ``miss`` raises the recall and lowers the
    precision; use validation data to choose it.
    Parameters
    ----------
    miss : float
        Cost of predicting "O" for a tag of an entity; another wrong tag costs 1.
    alarm : float
        Cost of predicting a tag of an entity if the true tag is "O".
    outside : str
        The tag of positions outside all entities.
    mean : bool
        Divide by the length of the sequence.
    """

    miss: float = 2.0
    alarm: float = 1.0
    outside: str = "O"
    mean: bool = False

    def __post_init__(self) -> None:
        FINITE.check("Entity: miss", self.miss)
        FINITE.check("Entity: alarm", self.alarm)

    def costs(self, classes: np.ndarray) -> np.ndarray:
        """Return the matrix [true, predicted] over these labels."""
        outside = np.array([label == self.outside for label in classes.tolist()], dtype=bool)
        if not outside.any():
            raise ValueError(
                f"loss: Entity uses the label {self.outside!r} outside of entities, which is not "
                f"among the labels {classes[:10].tolist()}; set outside="
            )
        cost = 1.0 - np.eye(len(classes))
        cost[~outside, outside], cost[outside, ~outside] = self.miss, self.alarm
        return cost


class SampleLoss:
    """A loss of the predictions for a whole sample: it is not a sum over examples."""


class TableLoss(SampleLoss):
    """A loss that depends only on the numbers of hits and false alarms.

    Ensures: ``delta`` is concave in the number of false alarms; the oracle relies on this.
    """

    def delta(self, hits: np.ndarray, alarms: np.ndarray, positives: int, n: int) -> np.ndarray:
        """Return the loss for every pair of hits and false alarms."""
        raise NotImplementedError

    def predicted(self, n: int) -> int | None:
        """Return the number of positives that a prediction must have; None: any number."""
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
        FINITE.check("F1: beta", self.beta)

    def delta(self, hits: np.ndarray, alarms: np.ndarray, positives: int, n: int) -> np.ndarray:
        square = float(self.beta) ** 2
        # The numerator adds misses and alarms, because a difference of nearly equal numbers would
        # lose digits.
        return (square * (positives - hits) + alarms) / (hits + alarms + square * positives)


@dataclass(frozen=True)
class TopLoss(TableLoss):
    """A loss of the k best-ranked examples: k is a count (int) or a share of the sample (float in (0, 1])."""

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


@dataclass(frozen=True)
class LabelF1(SampleLoss):
    """A loss of F1 over sets of labels."""

    beta: float = 1.0

    def __post_init__(self) -> None:
        FINITE.check(f"{type(self).__name__}: beta", self.beta)


class MicroF1(LabelF1):
    """1 - F_beta of all pairs of an example and a label, counted together."""


class MacroF1(LabelF1):
    """1 - the mean of F_beta over the labels."""


SAMPLE_LOSSES: dict[str, type[SampleLoss]] = {
    kind.__name__: kind
    for kind in (ErrorRate, F1, PrecisionAt, RecallAt, ROCArea, MicroF1, MacroF1)
}


def sample_loss_state(loss: SampleLoss) -> dict[str, Any]:
    """Return a loss as plain values, for a model file."""
    return {"kind": type(loss).__name__, **asdict(loss)}  # type: ignore[call-overload]


def saved_sample_loss(state: dict[str, Any]) -> SampleLoss:
    """Return the loss that ``sample_loss_state`` wrote."""
    options = {name: value for name, value in state.items() if name != "kind"}
    if not all(is_number(value) and abs(value) < 2**53 for value in options.values()):
        raise ValueError(f"the options of the loss must be numbers, got {options}")
    return SAMPLE_LOSSES[state["kind"]](**options)


def binary_loss(loss: Any) -> ZeroOne | Costs | SampleLoss:
    """Return the loss of a model with two classes, given the user's parameter."""
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
    single = isinstance(loss, SampleLoss) and not isinstance(loss, LabelF1)
    return loss if single else flat_loss(loss)


def label_loss(loss: Any) -> Hamming | LabelF1:
    """Return the loss of a model with sets of labels, given the user's parameter."""
    named = {"micro-f1": MicroF1(), "macro-f1": MacroF1()}
    if isinstance(loss, LabelF1):
        return loss
    if isinstance(loss, str) and loss in named:
        return named[loss]
    if isinstance(loss, Entity | str) and loss not in ("hamming", "mean-hamming"):
        raise ValueError(
            f"loss must be 'hamming', 'mean-hamming', {', '.join(map(repr, named))}, losses.Hamming(...) or "
            f"costs of 0 and 1, got {loss!r}"
        )
    return sequence_loss(loss)


def flat_loss(loss: Any) -> ZeroOne | Costs:
    """Return the loss of a flat model, given the user's parameter."""
    if isinstance(loss, ZeroOne | Costs):
        return loss
    if isinstance(loss, LabelF1) or (isinstance(loss, str) and loss in ("micro-f1", "macro-f1")):
        raise ValueError(
            f"loss: {loss!r} needs models.MultiLabel. With one label per example, micro-F1 is the "
            "share of correct labels: use 'zero-one'. Macro-F1 has no known exact oracle: weigh "
            "the classes (class_weight, sample_weight or costs), or use losses.F1 with "
            "models.Binary"
        )
    if isinstance(loss, SampleLoss):
        raise ValueError(f"loss: {loss!r} needs two classes and models.Binary")
    if isinstance(loss, str):
        if loss == "zero-one":
            return ZeroOne()
        raise ValueError(f"loss must be 'zero-one' or a cost matrix, got {loss!r}")
    return Costs(loss)


def sequence_costs(loss: Any, classes: np.ndarray) -> tuple[Hamming, np.ndarray]:
    """Return the loss of a sequence model, and its costs for these classes."""
    made = sequence_loss(loss)
    return made, mistake_costs(made.costs, classes)


SEQUENCE_LOSSES = {
    "hamming": Hamming(),
    "mean-hamming": Hamming(mean=True),
    "entity": Hamming(Entity().costs),
}


def sequence_loss(loss: Any) -> Hamming:
    """Return the loss of a sequence model, given the user's parameter."""
    if isinstance(loss, Hamming):
        return loss
    if isinstance(loss, Entity):
        return Hamming(loss.costs, loss.mean)
    if isinstance(loss, SampleLoss):
        raise ValueError(
            f"loss: {loss!r} is a loss of the whole sample, which needs models.Binary or MultiLabel"
        )
    if isinstance(loss, str):
        if loss not in SEQUENCE_LOSSES:
            raise ValueError(
                f"loss must be one of {sorted(SEQUENCE_LOSSES)} or losses.Hamming(...), got {loss!r}"
            )
        return SEQUENCE_LOSSES[loss]
    return Hamming(costs=loss)
