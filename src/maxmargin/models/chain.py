"""Chain: a label for each position of a sequence.

    <w, Psi(x, y)> = sum_t <w_{y_t}, x_t> + sum_{t > 0} A[y_{t-1}, y_t]  (+ start[y_0] + end[y_T])
    Delta(y, y')   = sum_t weight_t * cost[y_t, y'_t]

``coef_`` starts with unary weights (K, d) ravelled (d + 1 with a bias; chain_nodes.py). Transitions (K, K)
follow, ravelled as [previous, next], then start (K,) and end (K,) if the model has them. The weights of
chain_edges.py come last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from maxmargin._core import core
from maxmargin.data.arrays import (
    FLAG,
    Checks,
    among,
    check_lengths,
    check_start,
    count_of,
    floats,
)
from maxmargin.data.attributes import Described, encoder_of, saved_attributes
from maxmargin.data.labels import LabelSet, check_classes
from maxmargin.data.mapped import CodedSequences, Mapped, encoder_in
from maxmargin.data.memory import FeatureRows, feature_rows, width_of_table
from maxmargin.io.fields import (
    MOST_FEATURES,
    FieldError,
    bias_of,
    costs_of,
    count,
    flag,
)
from maxmargin.io.quoting import short
from maxmargin.losses import Hamming, cost_of, saved_costs, sequence_costs
from maxmargin.models.chain_edges import ChainEdges, EdgedSequences, edge_features, split_edges
from maxmargin.models.chain_examples import ChainExamples, EdgeChainExamples
from maxmargin.models.chain_nodes import FEATURES, ChainNodes, saved_label_pairs
from maxmargin.models.checks import no_cost
from maxmargin.models.inside import ChainInside
from maxmargin.models.protocol import Model, as_weights
from maxmargin.models.registry import FACTORS, LABELS, POTENTIALS, ROWS, SUMS, UNKNOWN_LABELS
from maxmargin.models.transitions import read_transitions, rules_from_state

# Limit on labels: the core stores a labelling in at most two bytes per position.
MOST_LABELS = 65_535
# Above this many labels the argmax visits only nonzero transitions; below it, visiting all K^2 is as fast.
MANY_LABELS = 256


class Chain(Described, Model):
    """Linear chain.

    Parameters
    ----------
    loss : "hamming", "mean-hamming", losses.Hamming(...), or costs as for losses.Hamming
        The number of mistakes, or that number divided by the length of the sequence.
    bias : float or None
        Append a constant feature of this value to every position.
    start, end : bool
        Weights for the first and for the last label of a sequence.
    classes : sequence or None
        All labels, if the data may lack some.
    edges : bool
        Score neighbouring labels by features of their edge. Each example is then a pair (nodes, edges): the
        features of its T positions, and of the T - 1 edges between them, as arrays, sparse matrices or
        attributes.
    order : 1 or 2
        2 adds a weight for every three labels in a row.
    transitions : None, "iob2", "iobes", "bilou", models.Transitions(...), or a dict of its fields
        Pairs of labels, first labels and last labels that no output may have, in training or prediction.
    features : "all" or "observed"
        Weights for all pairs of a feature and a label, or only for pairs that occur in the training data.
        "observed" makes the model small, and fast if there are many labels. Transitions have all weights.
    """

    n_features_: int
    edges_: Any

    hamming_: Hamming
    cost_: np.ndarray
    size_joint_feature: int

    powers: ClassVar[tuple[str, ...]] = (
        LABELS,
        ROWS,
        FACTORS,
        SUMS,
        POTENTIALS,
        UNKNOWN_LABELS,
    )
    checks: ClassVar[Checks] = Model.checks | {
        "start": FLAG,
        "end": FLAG,
        "edges": FLAG,
        "order": among(1, 2),
        "features": among(*FEATURES),
    }
    packs = "sequences"
    views: ClassVar[Any] = ChainInside
    tables = True
    task = "tagging"
    flat: ClassVar[bool] = False
    sequences: ClassVar[bool] = True

    def __init__(
        self,
        loss: Any = "hamming",
        bias: float | None = None,
        start: bool = False,
        end: bool = False,
        classes: Any = None,
        edges: bool = False,
        order: int = 1,
        transitions: Any = None,
        features: str = "all",
    ):
        self.task_loss = loss
        self.bias = bias
        self.start = start
        self.end = end
        self.classes = classes
        self.edges = edges
        self.order = order
        self.transitions = transitions
        self.features = features

    def initialize(self, X: Sequence[Any], Y: Sequence[Any]) -> None:
        """Learn the classes, and the features or the attribute names."""
        check_start(X, Y, self)
        check_sequences("Y", Y)
        self.labels_: LabelSet = LabelSet.learn(Y, self.classes, nested=True)
        self.classes_: np.ndarray = self.labels_.classes
        if len(self.classes_) > MOST_LABELS:
            raise ValueError(f"Chain takes at most {MOST_LABELS} labels, got {len(self.classes_)}")
        given = self.transitions
        self.rules_: Any = None if given is None else read_transitions(given, self.labels_)
        self.set_loss()
        self.edges_ = None
        edges = None
        if self.edges:
            X, edges = split_edges(X)
            edges = edge_features(edges, None)
        check_sequences("X", X)
        X = self.learn_attributes(X)
        if isinstance(X, Mapped):
            self.n_features_ = X.n_features
        else:
            says = "two dimensions (positions, features)"
            self.n_features_ = width_of_table(X[0], "X[0]", says)
        if self.edges or self.order == 2:
            self.edges_ = ChainEdges(bool(self.edges), self.order == 2)
            self.edges_.learn(edges, len(self.classes_))
        self._measure(self._observed(X, Y) if self.features == "observed" else None)

    def _observed(self, X: Sequence[Any], Y: Sequence[Any]) -> Any:
        """Return the pairs (feature, label) that occur in these data."""
        rows = self.read(X)
        codes = self.encode(Y, np.diff(rows.offsets))
        return core.Pairs.observed(rows.core.rows, codes, len(self.classes_))

    @property
    def needs_all(self) -> str:
        """The reason why ``features="observed"`` needs all examples: a chunk shows only some of the pairs."""
        if self.features == "all":
            return ""
        return "the pairs of all examples determine the weights"

    def set_loss(self) -> None:
        """Set the costs of mistakes from the parameter ``loss``."""
        self.hamming_, self.cost_ = sequence_costs(self.task_loss, self.classes_)

    def bind(self, X: Sequence[Any], Y: Any = None, node_weight: Any = None) -> ChainExamples:
        """Bind the model to these data; without Y for prediction only."""
        check_lengths(X, Y)
        if self.edges_ is None:
            return self.bind_rows(self.read(X), Y, node_weight)
        X, edges = split_edges(X) if self.edges else (X, None)
        rows = self.read(X)
        between = self.edges_.read(edges, np.diff(rows.offsets))
        chain = self._data(rows, Y, node_weight)
        data = self.edges_.data(chain, between)
        return EdgeChainExamples(rows, self.labels_, chain, self.rules_, data, between)

    def convert(self, X: Any, n_jobs: int = 1) -> Any:
        edges = None
        if self.edges is not False:
            FLAG.check("edges", self.edges)
            X, edges = split_edges(X) if self.edges else (X, None)
        X = self._positions(X, n_jobs)
        if edges is None:
            return X
        return EdgedSequences(X, edge_features(edges, getattr(self, "edges_", None), n_jobs))

    def keep_names(self, X: Any) -> None:
        super().keep_names(X)
        if self.edges_ is not None and isinstance(X, EdgedSequences):
            self.edges_.encoder = encoder_in(X.edges)

    def _positions(self, X: Any, n_jobs: int = 1) -> Any:
        """Return the features of the positions of sequences."""
        check_sequences("X", X)
        return self._features_of(X, n_jobs=n_jobs)

    def read(self, X: Sequence[Any]) -> FeatureRows:
        return feature_rows(self._positions(X), self.n_features_, self.bias)

    def bind_rows(self, rows: FeatureRows, Y: Any = None, node_weight: Any = None) -> ChainExamples:
        if self.edges_ is not None:
            raise ValueError("a kernel works on features of positions; set edges=False and order=1")
        return ChainExamples(rows, self.labels_, self._data(rows, Y, node_weight), self.rules_)

    def _data(self, rows: FeatureRows, Y: Any, node_weight: Any) -> Any:
        lengths, K = np.diff(rows.offsets), len(self.classes_)
        if Y is not None:
            rows.check_filled("is an empty sequence")
        codes = np.zeros(int(rows.offsets[-1]), np.int32) if Y is None else self.encode(Y, lengths)
        weighted = self.hamming_.mean or node_weight is not None
        if Y is not None and self.rules_ is not None:
            self.rules_.check_truth(codes, rows.offsets)
        return core.ChainData(
            rows.core.rows,
            K,
            bool(self.start),
            bool(self.end),
            # The core does not get sequences without positions, because they have no labels.
            np.unique(rows.offsets),
            codes,
            # An empty array means weights of one; storing them would take twice the memory of the labels.
            weights_of_nodes(node_weight, lengths, self.hamming_.mean) if weighted else np.empty(0),
            self.cost_.ravel(),
            K > MANY_LABELS,
            np.empty(0, np.int64) if self.rules_ is None else self.rules_.keys,
            self.nodes_.pairs,
        )

    def encode(self, Y: Sequence[Any], lengths: np.ndarray) -> np.ndarray:
        """Return the codes of all labels; raise ValueError for wrong lengths or unknown labels."""
        found = label_counts(Y)
        if (found != lengths).any():
            i = int(np.argmax(found != lengths))
            raise ValueError(f"X[{i}] has {lengths[i]} positions, but Y[{i}] has {found[i]} labels")
        codes = self.labels_.encode_sequences(Y)
        if (codes < 0).any():
            position = int(np.argmin(codes))
            i = int(np.searchsorted(np.cumsum(lengths), position, side="right"))
            t = position - int(lengths[:i].sum())
            raise ValueError(
                f"Y[{i}][{t}] = {short(Y[i][t])} is not among the classes of the model"
            )
        return codes

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Return Psi(x, y), in the order of ``coef_``."""
        nodes, between = split_edges([x]) if self.edges else ([x], None)
        x = self._features_of(nodes)[0]
        x = x.toarray() if sp.issparse(x) else np.asarray(x, dtype=np.float64)
        if self.bias is not None:
            x = np.hstack([x, np.full((len(x), 1), self.bias)])
        codes = self.encode([y], np.array([len(x)]))
        K = len(self.classes_)
        unary, pairs = np.zeros((K, x.shape[1])), np.zeros((K, K))
        np.add.at(unary, codes, x)
        np.add.at(pairs, (codes[:-1], codes[1:]), 1.0)
        ends = [np.eye(K)[codes[0]]] * bool(self.start) + [np.eye(K)[codes[-1]]] * bool(self.end)
        parts = [self.nodes_.select(unary), pairs.ravel(), *ends]
        if self.edges_ is not None:
            parts += self.edges_.joint_feature(between and between[0], codes, K)
        return np.concatenate(parts)

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return Delta(y, y_hat); a true label that the model does not know counts as a mistake."""
        lengths = np.array([len(y)])
        if len(y_hat) != len(y):
            raise ValueError(
                f"loss: the outputs must have equal lengths, got {len(y)} and {len(y_hat)} labels"
            )
        true, other = self.labels_.encode_sequences([y]), self.encode([y_hat], lengths)
        if (true < 0).any() and self.hamming_.costs is not None:
            raise no_cost(y[int(np.argmin(true))])
        costs = np.where(true < 0, 1.0, cost_of(self.cost_, true, other))
        return float(weights_of_nodes(None, lengths, self.hamming_.mean) @ costs)

    def inference_k_best(self, x: Any, w: np.ndarray, k: int) -> list[tuple[np.ndarray, float]]:
        """Return the k best labellings with their scores, best first."""
        return self.bind([x]).best_k(as_weights(w), 0, k)

    def unpack(self, w: np.ndarray) -> dict[str, Any]:
        """Return parts of w: unary (K, d), transitions (K, K), bias, start and end (K,), edges, triples."""
        K, (unary, rest) = len(self.classes_), np.split(np.asarray(w), [self.nodes_.size])
        parts = self.nodes_.unpack(unary, self.bias)
        parts["transitions"], rest = rest[: K * K].reshape(K, K), rest[K * K :]
        if self.start:
            parts["start"], rest = rest[:K], rest[K:]
        if self.end:
            parts["end"], rest = rest[:K], rest[K:]
        return parts if self.edges_ is None else {**parts, **self.edges_.unpack(rest, K)}

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        state = {
            "bias": self.bias,
            "start": bool(self.start),
            "end": bool(self.end),
            "mean": self.hamming_.mean,
            "n_features": self.n_features_,
            **saved_attributes(self.encoder_),
        }
        if self.edges_ is not None:
            state |= self.edges_.state()
        rules, arrays = ({}, {}) if self.rules_ is None else self.rules_.state()
        arrays = {"cost": self.cost_, **arrays, **self.nodes_.arrays()}
        return {**state, **self.labels_.state(), **rules}, arrays

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Chain:
        labels = LabelSet.from_state(state)
        check_classes(labels.classes)
        if len(labels) > MOST_LABELS:
            raise FieldError(f"a chain has at most {MOST_LABELS} labels, got {len(labels)}")
        loss = Hamming(saved_costs(costs_of(arrays, "cost", len(labels))), flag(state, "mean"))
        edges = ChainEdges.from_state(state, len(labels))
        model = cls(loss, bias_of(state), flag(state, "start"), flag(state, "end"))
        model.edges_ = edges
        if edges is not None:
            model.edges, model.order = edges.featured, 1 + edges.triples
        model.labels_, model.classes_, model.cost_ = labels, labels.classes, arrays["cost"]
        model.hamming_ = loss
        model.rules_ = rules_from_state(state, arrays, labels)
        model.transitions = None if model.rules_ is None else model.rules_.given()
        model.n_features_ = count(state, "n_features", 0, MOST_FEATURES)
        model.encoder_ = encoder_of(state, model.n_features_, sequences=True)
        pairs = saved_label_pairs(arrays, len(labels))
        model.features = FEATURES[pairs is not None]
        model._measure(pairs)
        return model

    def _measure(self, pairs: Any = None) -> None:
        K, d = len(self.classes_), self.n_features_ + (self.bias is not None)
        self.nodes_: ChainNodes = ChainNodes(K, d, pairs)
        self.size_joint_feature = self.nodes_.size + K * (K + bool(self.start) + bool(self.end))
        if self.edges_ is not None:
            self.size_joint_feature += self.edges_.size(K)


def check_sequences(name: str, items: Sequence[Any]) -> None:
    """Raise ValueError for an item that is not a sequence of positions; a string counts as one."""
    if isinstance(items, Mapped | CodedSequences):
        return
    known = {list, tuple, sp.csr_matrix, sp.csr_array}  # the checks below take long
    kinds = set(map(type, items))
    if kinds <= known or (kinds == {np.ndarray} and all(map(attrgetter("ndim"), items))):
        return
    for i, item in enumerate(items):
        if type(item) in known or (type(item) is np.ndarray and item.ndim):
            continue
        if isinstance(item, Mapping | Set):
            raise ValueError(
                f"{name}[{i}] is a {type(item).__name__}, not a sequence of positions; {name} "
                f"must be a list of sequences (for a single one, give [{name}])"
            )
        if not hasattr(item, "__len__") or getattr(item, "shape", None) == ():
            raise ValueError(f"{name}[{i}] must be a sequence of positions, got {short(item)}")


def check_node_weight(node_weight: Sequence[Any], lengths: np.ndarray) -> list[np.ndarray]:
    """Check node weights: one finite, non-negative number for each position of each example."""
    found = count_of(node_weight, "node_weight")
    if found != len(lengths):
        raise ValueError(f"node_weight has {found} examples, expected {len(lengths)}")
    checked = [floats(v, f"node_weight[{i}]") for i, v in enumerate(node_weight)]
    for i, (v, length) in enumerate(zip(checked, lengths, strict=True)):
        if v.shape != (length,):
            raise ValueError(f"node_weight[{i}] has shape {v.shape}, expected ({length},)")
        if not np.isfinite(v).all() or (v < 0).any():
            raise ValueError(f"node_weight[{i}] must be finite and not negative, got {v}")
    return checked


def weights_of_nodes(node_weight: Any, lengths: np.ndarray, mean: bool) -> np.ndarray:
    """Return the weight of each position of all examples, divided by the length if ``mean`` is set."""
    weight = np.ones(int(lengths.sum()))
    if node_weight is not None:
        weight = np.concatenate(check_node_weight(node_weight, lengths))
    return weight / np.repeat(lengths, lengths) if mean else weight


def label_counts(Y: Sequence[Any]) -> np.ndarray:
    """Return the number of labels in each sequence."""
    if isinstance(Y, CodedSequences):
        return np.diff(Y.offsets)
    return np.fromiter(map(len, Y), np.int64, len(Y))
