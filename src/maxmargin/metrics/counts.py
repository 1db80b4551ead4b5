"""Precision, recall and F1 of predicted items, for each kind and over all kinds.

    precision = matched / predicted,   recall = matched / true,   F1 = 2 matched / (true + predicted)

A ratio is 0 if its denominator is 0. "micro" counts all kinds together; "macro" is the mean over the
kinds that occur in the truth or in the prediction. This module also pairs true outputs with predicted ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from maxmargin.data.arrays import among, count_of
from maxmargin.data.table import Table


def is_label(y: Any) -> bool:
    """Whether an output is a single label and not a sequence of labels; a string is a single label."""
    return (
        isinstance(y, str | bytes) or not hasattr(y, "__len__") or getattr(y, "shape", None) == ()
    )


def pairs(Y: Any, P: Any) -> Iterator[tuple[int, Any, Any]]:
    """Yield the number, the true output and the predicted output of each example."""
    n, found = count_of(Y, "Y"), count_of(P, "P")
    if n != found:
        raise ValueError(f"Y has {n} true outputs, but P has {found} predicted ones")
    yield from zip(range(n), Y, P, strict=True)


def sequence_pairs(Y: Any, P: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield pairs of label sequences of equal length; a single label counts as a sequence of length one."""
    for i, true, predicted in pairs(Y, P):
        y, p = output_labels(true, f"Y[{i}]"), output_labels(predicted, f"P[{i}]")
        if len(y) != len(p):
            raise ValueError(f"Y[{i}] has {len(y)} labels, but P[{i}] has {len(p)}")
        yield y, p


def output_labels(y: Any, name: str) -> list[Any]:
    """The labels of one output as a list of plain Python values."""
    if isinstance(y, set | frozenset | dict):
        raise ValueError(f"{name} is a {type(y).__name__}, not a sequence of labels")
    if is_label(y):
        return [y.item() if isinstance(y, np.generic | np.ndarray) else y]
    return y.tolist() if isinstance(y, np.ndarray) else list(y)


def flat(Y: Any, P: Any) -> tuple[list[Any], list[Any]]:
    """Concatenate the labels of all sequences, true and predicted, into two lists."""
    true: list[Any] = []
    predicted: list[Any] = []
    for y, p in sequence_pairs(Y, P):
        true += y
        predicted += p
    return true, predicted


class Counts:
    """Numbers of true, predicted and correctly predicted items of each kind."""

    def __init__(self) -> None:
        self.true: Counter[Any] = Counter()
        self.predicted: Counter[Any] = Counter()
        self.matched: Counter[Any] = Counter()

    def add(self, true: Counter[Any], predicted: Counter[Any]) -> None:
        """Count the items (kind, ...) of one example; an item that occurs twice counts twice."""
        for total, found in (
            (self.true, true),
            (self.predicted, predicted),
            (self.matched, true & predicted),
        ):
            for thing, times in found.items():
                total[thing[0]] += times

    def update(self, other: Counts) -> None:
        """Add the counts of another object."""
        self.true.update(other.true)
        self.predicted.update(other.predicted)
        self.matched.update(other.matched)

    def kinds(self) -> list[Any]:
        """The kinds that occur in the truth or in the prediction, sorted if they can be compared."""
        found = list({**self.true, **self.predicted})
        try:
            return sorted(found)
        except TypeError:  # labels of several types
            return found

    def scores(self, kinds: Iterable[Any]) -> np.ndarray:
        """Precision, recall and F1 of the given kinds, counted together."""
        kinds = list(kinds)
        matched, true, predicted = (
            sum(total[kind] for kind in kinds)
            for total in (self.matched, self.true, self.predicted)
        )
        pairs = ((matched, predicted), (matched, true), (2 * matched, true + predicted))
        return np.array([a / b if b else 0.0 for a, b in pairs])

    def average(self, average: str) -> np.ndarray:
        """Micro- or macro-averaged precision, recall and F1 over all kinds."""
        among("micro", "macro").check("average", average)
        kinds = self.kinds()
        if average == "micro" or not kinds:
            return self.scores(kinds)
        return np.mean([self.scores([kind]) for kind in kinds], axis=0)

    def report(self, corner: str) -> Table:
        """A table with one row for each kind, and the micro and macro averages in the last two rows."""
        kinds = self.kinds()
        scores = [self.scores([kind]) for kind in kinds]
        scores += [self.average("micro"), self.average("macro")]
        precision, recall, f1 = np.array(scores).T
        columns: dict[Any, Any] = {"precision": precision, "recall": recall, "f1": f1}
        for name in ("true", "predicted", "matched"):
            total = getattr(self, name)
            columns[name] = [*(total[kind] for kind in kinds), total.total(), total.total()]
        return Table(columns, [*kinds, "(micro)", "(macro)"], corner)
