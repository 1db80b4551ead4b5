"""Beliefs: the value of each label of each node, over all outputs with that label (cpp/models/beliefs.hpp).

    B(v, k) = c log sum_{y: y_v = k} exp(<w, Psi(x, y)> / c)        at a temperature c
    p(y_v = k) = exp(B(v, k) / c) / sum_l exp(B(v, l) / c)

The nodes of all examples are stored one after another, and so are the labels of each node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Beliefs:
    """Values at a temperature, the labels of each kind of node, and the first node of each example."""

    values: np.ndarray
    classes: Sequence[np.ndarray]  # for each kind of node
    kinds: np.ndarray  # for each node
    nodes: np.ndarray
    temperature: float

    @property
    def labels(self) -> np.ndarray:
        """The number of labels of each node."""
        return np.array([len(own) for own in self.classes])[self.kinds]

    @property
    def first(self) -> np.ndarray:
        """The position of the first label of each node."""
        return np.cumsum(self.labels) - self.labels

    def partitions(self) -> np.ndarray:
        """Return c log sum_y exp(score / c) of each node's tree, which may be the whole example."""
        if len(self.labels) == 0:
            return np.empty(0)
        tops = np.maximum.reduceat(self.values, self.first)
        below = (self.values - np.repeat(tops, self.labels)) / self.temperature
        return tops + self.temperature * np.log(np.add.reduceat(np.exp(below), self.first))

    def log_marginals(self) -> np.ndarray:
        """Return log p of all labels of all nodes."""
        return (self.values - np.repeat(self.partitions(), self.labels)) / self.temperature

    def best_of_each(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the probability of each node's best label, and whether that label has the given code."""
        logs, own = self.log_marginals(), self.first + codes
        if len(codes) == 0:
            return np.empty(0), np.empty(0, dtype=bool)
        tops = np.maximum.reduceat(logs, self.first)
        return np.exp(tops), logs[own] == tops

    def least_risk(self, costs: Sequence[np.ndarray]) -> np.ndarray:
        """Return, for each node, the code of the label with the least expected cost.

        ``costs`` has an entry for each kind of node. It is a matrix [true, other], or a vector with the cost
        of missing each true label l. With a vector the expected cost of k is sum_l p(l) cost(l) - p(k)
        cost(k).
        """
        p, first = np.exp(self.log_marginals()), self.first
        codes = np.zeros(len(self.kinds), dtype=np.int64)
        for kind, cost in enumerate(costs):
            nodes = np.flatnonzero(self.kinds == kind)
            own = p[first[nodes][:, None] + np.arange(len(self.classes[kind]))]
            codes[nodes] = (own @ cost if cost.ndim == 2 else -own * cost).argmin(axis=1)
        return codes

    def squared_error(self, codes: np.ndarray) -> float:
        """Return sum_k (p(k) - [k is the code])^2, averaged over all nodes (the Brier score)."""
        left = np.exp(self.log_marginals())
        left[self.first + codes] -= 1
        return float(left @ left / len(codes))

    def split(self, values: np.ndarray) -> list[Any]:
        """Split the values of labels by example: arrays (nodes, labels), or lists if nodes differ."""
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
        """Return the kept labels of each node, by example."""
        return [
            [self.classes[kind][mask] for kind, mask in zip(self.kinds[a:b], masks, strict=True)]
            for (a, b), masks in zip(pairwise(self.nodes.tolist()), self.split(kept), strict=True)
        ]


def even_beliefs(
    rows: np.ndarray, classes: np.ndarray, nodes: np.ndarray, temperature: float
) -> Beliefs:
    """Return the beliefs of nodes that have the same labels, one row for each node."""
    kinds = np.zeros(len(rows), dtype=np.int64)
    return Beliefs(rows.ravel(), [classes], kinds, nodes, temperature)


def margins_of(values: np.ndarray) -> np.ndarray:
    """Return the largest minus the second largest value of each row."""
    if values.shape[1] < 2:
        return np.full(len(values), np.inf)
    top = np.partition(values, -2, axis=1)[:, -2:]
    return top[:, 1] - top[:, 0]
