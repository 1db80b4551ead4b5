"""All outputs of an example, one by one: the slow reference for models.

Nothing here is clever. The score of an output is the inner product of w with its joint feature
vector, and every argmax is a loop over all outputs. The layout of the vectors is the documented
order of `coef_`:

    binary      (d [+1 with bias],)
    multiclass  (K, d [+1 with bias]) ravelled, class-major
    chain       unary (K, d [+1]) ravelled, transitions (K, K) ravelled as [previous, next],
                then start (K,) and end (K,) if the model has them
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
from scipy import sparse

from .memo import remembered

Label = Hashable


def dense_rows(X: Any) -> np.ndarray:
    """A float64 copy of a dense or sparse matrix."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def with_bias(x: np.ndarray, bias: float | None) -> np.ndarray:
    """`x` with the constant `bias` appended to its last axis (unchanged for None)."""
    if bias is None:
        return x
    constant = np.full((*x.shape[:-1], 1), float(bias))
    return np.concatenate([x, constant], axis=-1)


def zero_one(n_classes: int) -> np.ndarray:
    """The cost matrix of the zero-one loss."""
    return 1.0 - np.eye(n_classes)


class MulticlassTruth:
    """The outputs of an example are the labels; costs[true, predicted] is the loss."""

    def __init__(
        self,
        classes: Sequence[Label],
        n_features: int,
        costs: np.ndarray | None = None,
        bias: float | None = None,
    ) -> None:
        self.classes = list(classes)
        self.n_features = n_features
        self.costs = zero_one(len(self.classes)) if costs is None else np.asarray(costs)
        self.bias = bias
        self.size_joint_feature = len(self.classes) * (n_features + (bias is not None))

    def examples(self, X: Any) -> list[np.ndarray]:
        """One dense row per example."""
        return list(dense_rows(X))

    def outputs(self, x: np.ndarray) -> list[Label]:
        """Every label."""
        return list(self.classes)

    def joint_feature(self, x: np.ndarray, y: Label) -> np.ndarray:
        """x in the rows of class y, zero elsewhere."""
        features = with_bias(np.asarray(x, dtype=np.float64), self.bias)
        table = np.zeros((len(self.classes), len(features)))
        table[self.classes.index(y)] = features
        return table.ravel()

    def loss(self, y: Label, y_hat: Label, node_weight: Any = None) -> float:
        """costs[y, y_hat]."""
        return float(self.costs[self.classes.index(y), self.classes.index(y_hat)])


class BinaryTruth(MulticlassTruth):
    """Two labels; the features are half of x with the sign of the label."""

    def __init__(
        self,
        classes: Sequence[Label],
        n_features: int,
        costs: np.ndarray | None = None,
        bias: float | None = None,
    ) -> None:
        super().__init__(classes, n_features, costs, bias)
        self.size_joint_feature = n_features + (bias is not None)

    def joint_feature(self, x: np.ndarray, y: Label) -> np.ndarray:
        """y x / 2, y being -1 or +1."""
        features = with_bias(np.asarray(x, dtype=np.float64), self.bias)
        return (-0.5, 0.5)[self.classes.index(y)] * features


class ChainTruth:
    """The outputs are all label sequences as long as x; the loss is a sum over positions."""

    def __init__(
        self,
        classes: Sequence[Label],
        n_features: int,
        costs: np.ndarray | None = None,
        mean: bool = False,
        bias: float | None = None,
        start: bool = False,
        end: bool = False,
        illegal: Sequence[tuple[Any, Any]] = (),
        observed: np.ndarray | None = None,
    ) -> None:
        self.illegal = set(illegal)  # pairs of labels; None stands for the start and the end
        self.classes = list(classes)
        self.n_features = n_features
        # (d, K), with the bias: True for pairs that have a weight; None means all
        self.observed = observed
        self.costs = zero_one(len(self.classes)) if costs is None else np.asarray(costs)
        self.mean, self.bias, self.start, self.end = mean, bias, start, end
        K = len(self.classes)
        nodes = K * (n_features + (bias is not None)) if observed is None else int(observed.sum())
        self.size_joint_feature = nodes + K * K + K * (start + end)

    def examples(self, X: Any) -> list[np.ndarray]:
        """One dense (T, d) array per example."""
        return [dense_rows(x) for x in X]

    def outputs(self, x: np.ndarray) -> list[tuple[Label, ...]]:
        """Every legal sequence of labels of the length of x, out of K^T."""
        return [y for y in product(self.classes, repeat=len(x)) if self.legal(y)]

    def legal(self, y: Sequence[Label]) -> bool:
        """Return whether all pairs of neighbours, the start and the end are legal."""
        return self.illegal.isdisjoint(pairwise([None, *y, None]))

    def joint_feature(self, x: np.ndarray, y: Sequence[Label]) -> np.ndarray:
        """Sums of features per label, counts of transitions, the first and the last label."""
        features = with_bias(np.asarray(x, dtype=np.float64), self.bias)
        codes = [self.classes.index(label) for label in y]
        K = len(self.classes)
        unary, transitions = np.zeros((K, features.shape[1])), np.zeros((K, K))
        first, last = np.zeros(K), np.zeros(K)
        for position, code in enumerate(codes):
            unary[code] += features[position]
        for previous, following in pairwise(codes):
            transitions[previous, following] += 1.0
        first[codes[0]] = 1.0
        last[codes[-1]] = 1.0
        nodes = unary.ravel() if self.observed is None else unary.T[self.observed]
        parts = [nodes, transitions.ravel()]
        parts += [first] if self.start else []
        parts += [last] if self.end else []
        return np.concatenate(parts)

    def loss(self, y: Sequence[Label], y_hat: Sequence[Label], node_weight: Any = None) -> float:
        """Sum (or mean) over positions of node_weight[t] * costs[y[t], y_hat[t]]."""
        weights = np.ones(len(y)) if node_weight is None else np.asarray(node_weight)
        index = self.classes.index
        total = sum(
            weight * self.costs[index(true), index(predicted)]
            for weight, true, predicted in zip(weights, y, y_hat, strict=True)
        )
        return float(total / len(y) if self.mean else total)


class EdgeChainTruth(ChainTruth):
    """A chain with edge features (examples are pairs (nodes, edges)) or of second order, or both.

    The weights of a chain come first, then edges (K, K, m) ravelled, then triples (K, K, K)
    ravelled.
    """

    def __init__(
        self, classes: Sequence[Label], n_features: int, n_edges: int, triples: bool, **options: Any
    ) -> None:
        super().__init__(classes, n_features, **options)
        self.n_edges, self.triples = n_edges, triples
        K = len(self.classes)
        self.size_joint_feature += K * K * n_edges + K**3 * triples

    def examples(self, X: Any) -> list[Any]:
        """Dense arrays of nodes, and of edges if there are edge features."""
        if not self.n_edges:
            return super().examples(X)
        return [tuple(dense_rows(part) for part in x) for x in X]

    def outputs(self, x: Any) -> list[tuple[Label, ...]]:
        """Every sequence of labels of the length of x."""
        return super().outputs(x[0] if self.n_edges else x)

    def joint_feature(self, x: Any, y: Sequence[Label]) -> np.ndarray:
        """The features of the chain, sums of edge features for each pair of labels, counts of triples."""
        nodes, edges = x if self.n_edges else (x, None)
        K, codes = len(self.classes), [self.classes.index(label) for label in y]
        pairs, triples = np.zeros((K, K, self.n_edges)), np.zeros((K, K, K))
        for t in range(1, len(codes)):
            if edges is not None:
                pairs[codes[t - 1], codes[t]] += edges[t - 1]
            if t > 1:
                triples[codes[t - 2], codes[t - 1], codes[t]] += 1.0
        parts = [super().joint_feature(nodes, y), pairs.ravel()]
        return np.concatenate(parts + [triples.ravel()] * self.triples)


@dataclass(frozen=True)
class Block:
    """Every plane of one example: row j of `vectors` is psi(y_j), and `offsets[j]` is its loss."""

    outputs: list[Any]
    offsets: np.ndarray
    vectors: np.ndarray


def enumerate_block(truth: Any, x: Any, y: Any, node_weight: Any = None) -> Block:
    """All planes of one example, for any model with outputs, joint_feature and loss."""
    outputs = truth.outputs(x)
    extra = {} if node_weight is None else {"node_weight": node_weight}
    correct = truth.joint_feature(x, y)
    vectors = np.array([truth.joint_feature(x, output) - correct for output in outputs])
    offsets = np.array([truth.loss(y, output, **extra) for output in outputs])
    return Block(outputs, offsets, vectors)


@remembered
def enumerate_blocks(truth: Any, X: Any, Y: Any, node_weight: Any = None) -> list[Block]:
    """All planes of all examples."""
    weights = [None] * len(Y) if node_weight is None else node_weight
    return [
        enumerate_block(truth, x, y, weight)
        for x, y, weight in zip(truth.examples(X), Y, weights, strict=True)
    ]


def scores(truth: Any, x: Any, w: np.ndarray) -> np.ndarray:
    """<w, Psi(x, y)> of every output, in the order of `outputs`."""
    return np.array([truth.joint_feature(x, output) @ w for output in truth.outputs(x)])


def augmented_scores(truth: Any, x: Any, y: Any, w: np.ndarray) -> np.ndarray:
    """<w, Psi(x, y_hat)> + loss(y, y_hat) of every output y_hat."""
    losses = np.array([truth.loss(y, output) for output in truth.outputs(x)])
    return scores(truth, x, w) + losses


def argmax(truth: Any, x: Any, w: np.ndarray) -> Any:
    """The best output by enumeration; the first one if several tie."""
    return truth.outputs(x)[int(np.argmax(scores(truth, x, w)))]


def loss_augmented_argmax(truth: Any, x: Any, y: Any, w: np.ndarray) -> Any:
    """The most violating output by enumeration; the first one if several tie."""
    return truth.outputs(x)[int(np.argmax(augmented_scores(truth, x, y, w)))]


def k_best(truth: Any, x: Any, w: np.ndarray, k: int) -> list[tuple[Any, float]]:
    """The k best outputs with their scores, best first; fewer if there are fewer outputs."""
    values = scores(truth, x, w)
    order = np.argsort(-values, kind="stable")[:k]
    outputs = truth.outputs(x)
    return [(outputs[j], float(values[j])) for j in order]
