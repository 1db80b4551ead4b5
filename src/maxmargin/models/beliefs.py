"""Beliefs: what each label of each node is worth, over all outputs with it (cpp/models/beliefs.hpp).

    B(v, k) = c log sum_{y: y_v = k} exp(<w, Psi(x, y)> / c)        at a temperature c
    p(y_v = k) = exp(B(v, k) / c) / sum_l exp(B(v, l) / c)

The nodes of all examples follow one another, and so do the labels of each node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Beliefs:
    """Values at a temperature; the labels of each kind of nodes; where the nodes of each example begin."""

    values: np.ndarray
    classes: Sequence[np.ndarray]  # of each kind
    kinds: np.ndarray  # of each node
    nodes: np.ndarray
    temperature: float

    @property
    def labels(self) -> np.ndarray:
        """How many labels each node has."""
        return np.array([len(own) for own in self.classes])[self.kinds]

    @property
    def first(self) -> np.ndarray:
        """Where the labels of each node begin."""
        return np.cumsum(self.labels) - self.labels

    def partitions(self) -> np.ndarray:
        """c log sum_y exp(score / c) of each node's tree: where all nodes are linked, of the example."""
        if len(self.labels) == 0:
            return np.empty(0)
        tops = np.maximum.reduceat(self.values, self.first)
        below = (self.values - np.repeat(tops, self.labels)) / self.temperature
        return tops + self.temperature * np.log(np.add.reduceat(np.exp(below), self.first))

    def log_marginals(self) -> np.ndarray:
        """log p of all labels of all nodes."""
        return (self.values - np.repeat(self.partitions(), self.labels)) / self.temperature

    def best_of_each(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The probability of the best label of each node, and whether it is the label of a code."""
        logs, own = self.log_marginals(), self.first + codes
        if len(codes) == 0:
            return np.empty(0), np.empty(0, dtype=bool)
        tops = np.maximum.reduceat(logs, self.first)
        return np.exp(tops), logs[own] == tops

    def least_risk(self, costs: Sequence[np.ndarray]) -> np.ndarray:
        """For each node the code of the label whose expected cost is least; ``costs`` of each kind.

        Costs are a matrix [true, other], or one for each true label l, of whose sum the right label saves
        its own: sum_l p(l) cost(l) - p(k) cost(k).
        """
        p, first = np.exp(self.log_marginals()), self.first
        codes = np.zeros(len(self.kinds), dtype=np.int64)
        for kind, cost in enumerate(costs):
            nodes = np.flatnonzero(self.kinds == kind)
            own = p[first[nodes][:, None] + np.arange(len(self.classes[kind]))]
            codes[nodes] = (own @ cost if cost.ndim == 2 else -own * cost).argmin(axis=1)
        return codes

    def squared_error(self, codes: np.ndarray) -> float:
        """sum_k (p(k) - [k is the code])^2 of a node, the mean over all nodes (the score of Brier)."""
        left = np.exp(self.log_marginals())
        left[self.first + codes] -= 1
        return float(left @ left / len(codes))

    def split(self, values: np.ndarray) -> list[Any]:
        """What there is of each label, by examples: (nodes, labels), or a list where nodes differ."""
        labels = self.labels
        ends = np.concatenate([[0], np.cumsum(labels)])
        found: list[Any] = []
        for a, b in pairwise(self.nodes.tolist()):
            own = values[ends[a] : ends[b]]
            if (labels[a:b] == labels[a : a + 1]).all():
                width = labels[a] if b > a else len(self.classes[0])
                found.append(own.reshape(b - a, width))
            else:
                found.append(np.split(own, (ends[a:b] - ends[a])[1:]))
        return found

    def chosen(self, kept: np.ndarray) -> list[list[np.ndarray]]:
        """The labels of each node that are kept, by examples."""
        return [
            [self.classes[kind][mask] for kind, mask in zip(self.kinds[a:b], masks, strict=True)]
            for (a, b), masks in zip(pairwise(self.nodes.tolist()), self.split(kept), strict=True)
        ]


def even_beliefs(
    rows: np.ndarray, classes: np.ndarray, nodes: np.ndarray, temperature: float
) -> Beliefs:
    """Those of nodes that have the same labels, a row for each."""
    kinds = np.zeros(len(rows), dtype=np.int64)
    return Beliefs(rows.ravel(), [classes], kinds, nodes, temperature)


def margins_of(values: np.ndarray) -> np.ndarray:
    """The best of each row less the second."""
    if values.shape[1] < 2:
        return np.full(len(values), np.inf)
    top = np.partition(values, -2, axis=1)[:, -2:]
    return top[:, 1] - top[:, 0]
