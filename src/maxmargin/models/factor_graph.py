"""FactorGraph: a label for each node of a graph; nodes and edges have scores.

    <w, Psi(x, y)> = sum_v <w_{y_v}, x_v> + sum_{e = (a, b)} <A_{y_a, y_b}, x_e> + sum_f B_{y_f}
                     (x_e = 1 without features; f: factors over several nodes)
    Delta(y, y')   = sum_v weight_v cost[y_v, y'_v]

Nodes may have several types, each with its own labels, features and weights. Edges then have weights for
each pair of types.

``coef_`` starts with the unary weights of each type of nodes, in the order of ``types_``: (K, d) ravelled
(d + 1 with a bias). The pairwise weights follow, for each pair of types that edges join, in the order of
``pairs_``: (P, d_e) ravelled, or (P,) without features of edges. The parameter ``pairwise`` determines P:

    "full"       K K'          a weight for each pair of labels [first end, second end]
    "symmetric"  K (K + 1) / 2 the same for both directions, [k, k'] with k <= k', row by row
    "diagonal"   K             a weight for each label, used if both ends have it
    "potts"      1             one weight, used if both ends have the same label

The weights of factors over several nodes come last, in the order of ``cliques_`` (``models.cliques``).
``models.graph_input`` describes the form of an example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from maxmargin.data.arrays import check_lengths, check_start
from maxmargin.data.attributes import Described, check_encoder, encoder_of, saved_attributes
from maxmargin.data.labels import LabelSet, check_classes, placed
from maxmargin.io.fields import MOST_FEATURES, bias_of, costs_of, count, field_of, flag
from maxmargin.io.quoting import short
from maxmargin.losses import Hamming, cost_of, mistake_costs, saved_costs, sequence_loss
from maxmargin.models.chain import MOST_LABELS
from maxmargin.models.checks import no_cost
from maxmargin.models.cliques import clique_state, learn_cliques, saved_cliques
from maxmargin.models.constraints import Graph
from maxmargin.models.factors import Factors, GraphExamples
from maxmargin.models.graph_factors import (
    PAIRWISE_KINDS,
    FactorBuilder,
    by_type,
    columns_of,
    where_nodes,
)
from maxmargin.models.graph_input import (
    Graphs,
    Item,
    check_output,
    is_forest,
    read_items,
    type_names,
    width_of,
    with_features,
)
from maxmargin.models.graph_model import (
    GraphModel,
    saved_method,
    saved_type_pairs,
    saved_types,
    saved_widths,
)


@dataclass(eq=False, repr=False)
class LabelledGraph(Graph):
    """An example of a FactorGraph as constraints see it."""

    labels: list[LabelSet]
    types: np.ndarray
    edges: np.ndarray

    def __post_init__(self) -> None:
        self.n_nodes: int = len(self.types)

    def code(self, node: int, label: Any) -> int | None:
        found = int(self.labels[self.types[node]].encode([label])[0])
        return None if found < 0 else found


class FactorGraphExamples(GraphExamples):
    """Graphs with nodes of one or several types."""

    def __init__(self, model: FactorGraph, factors: Factors, items: list[Item]):
        self.model: FactorGraph = model
        self.items: list[Item] = items
        super().__init__(factors, model.inference_method, model.iterations)

    def output(self, i: int, codes: np.ndarray) -> np.ndarray:
        """Return the labels of the nodes of example i; they determine the states of larger factors."""
        sets = self.model.label_sets_
        codes = codes[: self.items[i].n_nodes]
        if len(sets) == 1:
            return sets[0].decode(codes)
        types = self.node_types(i)
        labels = np.empty(len(codes), dtype=object)
        for t, own in enumerate(sets):
            labels[types == t] = own.decode(codes[types == t]).astype(object)
        return labels

    def decode_nodes(self, codes: np.ndarray) -> list[np.ndarray]:
        ends = np.cumsum([item.n_nodes for item in self.items])
        return [self.output(i, own) for i, own in enumerate(np.split(codes, ends[:-1]))]

    def node_types(self, i: int) -> np.ndarray:
        """Return the types of the nodes of example i, without the nodes that stand for larger factors."""
        shape = self.factors.shapes[self.factors.shape[i]]
        return shape.node_types[: self.items[i].n_nodes]

    def label_classes(self) -> list[np.ndarray]:
        return [labels.classes for labels in self.model.label_sets_]

    def graph(self, i: int) -> LabelledGraph:
        return LabelledGraph(self.model.label_sets_, self.node_types(i), self.items[i].edges)


class FactorGraph(Described, GraphModel):
    """Factor graph over nodes, edges, and factors over several nodes.

    Parameters
    ----------
    pairwise : "full", "symmetric", "diagonal", "potts", or a mapping from pairs of types to these
        Which pairs of labels share a weight.
    loss : "hamming", "mean-hamming", losses.Hamming(...), or costs as for losses.Hamming
        With several types of nodes, costs are a mapping from types to costs.
    bias : float or None
        Append a constant feature of this value to every node.
    inference : "auto", "tree", "cut", "lp" or "milp"
        The method of the argmax; "auto" chooses for each graph.
    iterations : int
        Limit on the iterations of message passing if "lp" is used.
    classes : sequence or None
        All labels, if the data may lack some; with several types a mapping from types to labels.
    cliques : "full", "diagonal", "potts", or a mapping from names of factors to these
        Which labellings of a factor over several nodes share a weight.
    """

    n_edge_features_: int | None
    task = "tagging"
    flat: ClassVar[bool] = False
    sequences: ClassVar[bool] = True

    def __init__(
        self,
        pairwise: Any = "full",
        loss: Any = "hamming",
        bias: float | None = None,
        inference: str = "auto",
        iterations: int = 100,
        classes: Any = None,
        cliques: Any = "full",
    ):
        self.pairwise = pairwise
        self.task_loss = loss
        self.bias = bias
        self.inference_method = inference
        self.iterations = iterations
        self.classes = classes
        self.cliques = cliques

    def convert(self, X: Any, n_jobs: int = 1) -> Any:
        if isinstance(X, Graphs):
            check_encoder(X, getattr(self, "encoder_", None))
        return with_features(X, partial(self._features_of, n_jobs=n_jobs))

    def initialize(self, X: Sequence[Any], Y: Sequence[Any]) -> None:
        """Learn types, labels, numbers of features, and the pairs of types that edges join."""
        check_start(X, Y, self)
        self.__dict__.pop("encoder_", None)
        X = self.convert(X)
        self.keep_names(X)
        items = read_items(X)
        self.types_: LabelSet = type_names(items)
        types = [item.type_codes(self.types_, f"X[{i}]") for i, item in enumerate(items)]
        self._learn_labels(items, types, Y)
        self.n_features_: list[int] = [
            width_of(matrices, where_nodes(self.types_, t))
            for t, matrices in enumerate(by_type(self.types_, items, types))
        ]
        with_features = [item.edge_features is not None for item in items]
        self.n_edge_features_ = None
        if any(with_features):
            edge_features = [item.edge_features for item in items]
            self.n_edge_features_ = width_of(edge_features, "X[{}][2]")
        joined = {
            tuple(sorted(pair))
            for item, t in zip(items, types, strict=True)
            for pair in np.unique(t[item.edges], axis=0).tolist()
        }
        self.forests_: bool = all(is_forest(x.n_nodes, x.edges, x.cliques) for x in items)
        names = self.types_.classes.tolist()
        self.cliques_: Any = learn_cliques(items, types, self.label_sets_, self.cliques, names)
        self.pairs_: list[Any] = [(0, 0)] if len(self.types_) == 1 else sorted(joined)
        self.set_loss()
        self.kinds_: list[str] = [self._kind(pair) for pair in self.pairs_]
        self._measure()

    def _learn_labels(self, items: list[Item], types: list[np.ndarray], Y: Sequence[Any]) -> None:
        """Learn one set of labels for each type of nodes."""
        given = self.classes
        if given is not None and len(self.types_) == 1 and not isinstance(given, Mapping):
            given = {self.types_.classes[0]: given}
        if given is not None and not isinstance(given, Mapping):
            raise ValueError(
                "classes must map each type of nodes to its labels, because there are several types"
            )
        seen: list[dict[Any, Any]] = [{} for _ in range(len(self.types_))]
        for i, (item, own) in enumerate(zip(items, types, strict=True)):
            check_output(Y[i], item.n_nodes, i)
            labels = Y[i].tolist() if isinstance(Y[i], np.ndarray) else Y[i]
            for t, label in zip(own.tolist(), labels, strict=True):
                seen[t][label] = None
        self.label_sets_: list[Any] = []
        for t, name in enumerate(self.types_.classes.tolist()):
            if given is not None and name not in given:
                raise ValueError(f"classes: no labels are given for nodes of type {short(name)}")
            with placed(Y, nested=True):
                labelled = list(seen[t]) if given is None else given[name]
                found = LabelSet(labelled, "Y" if given is None else "classes")
            self.label_sets_.append(found)
        for own_set in self.label_sets_:
            check_classes(own_set.classes)
            if len(own_set) > MOST_LABELS:
                raise ValueError(
                    f"FactorGraph takes at most {MOST_LABELS} labels, got {len(own_set)}"
                )

    def set_loss(self) -> None:
        """Set the costs of mistakes for each type of nodes from the parameter ``loss``."""
        self.hamming_: Hamming = sequence_loss(self.task_loss)
        costs, names = self.hamming_.costs, self.types_.classes.tolist()
        if len(names) == 1:
            costs = {names[0]: costs}
        elif costs is not None and (not isinstance(costs, Mapping) or set(costs) != set(names)):
            raise ValueError(
                f"loss: with several types of nodes, costs must map each of {names} to costs"
            )
        self.costs_: list[np.ndarray] = [
            mistake_costs(None if costs is None else costs[name], own.classes)
            for name, own in zip(names, self.label_sets_, strict=True)
        ]

    def _kind(self, pair: tuple[int, int]) -> str:
        """Return the kind of the weights of edges between two types."""
        names = tuple(self.types_.classes.tolist()[t] for t in pair)
        kind = self.pairwise
        if isinstance(kind, Mapping):
            kind = kind.get(names, kind.get(names[::-1]))
        if not isinstance(kind, str) or kind not in PAIRWISE_KINDS:
            raise ValueError(
                f"pairwise must be one of {list(PAIRWISE_KINDS)}, got {short(kind)} for edges {names}"
            )
        first, second = (self.label_sets_[t].classes.tolist() for t in pair)
        if kind != "full" and first != second:
            raise ValueError(
                f"pairwise={short(kind)} needs nodes with equal labels, but those of the types "
                f"{names} differ; use 'full'"
            )
        return kind

    def _measure(self) -> None:
        """Set the attributes that follow from types, labels and widths."""
        sizes = [len(own) for own in self.label_sets_]
        self.tables_: list[np.ndarray] = [
            columns_of(kind, sizes[a], sizes[b])
            for kind, (a, b) in zip(self.kinds_, self.pairs_, strict=True)
        ]
        single = len(self.types_) == 1
        names = self.types_.classes.tolist()
        sets = [own.classes for own in self.label_sets_]
        self.classes_: Any = sets[0] if single else dict(zip(names, sets, strict=True))
        bias = self.bias is not None
        unary = sum(K * (d + bias) for K, d in zip(sizes, self.n_features_, strict=True))
        width = self.n_edge_features_ or 1
        pairwise = width * sum(int(t.max()) + 1 for t in self.tables_)
        self.size_joint_feature: int = (
            unary + pairwise + sum(own.n_weights for own in self.cliques_)
        )

    def bind(self, X: Sequence[Any], Y: Any = None, node_weight: Any = None) -> FactorGraphExamples:
        """Bind the model to these data; without Y for prediction only."""
        check_lengths(X, Y)
        items = read_items(self.convert(X))
        return FactorGraphExamples(self, FactorBuilder(self, items).build(Y, node_weight), items)

    def factors(self, X: Sequence[Any], Y: Any = None, node_weight: Any = None) -> Factors:
        check_lengths(X, Y)
        return FactorBuilder(self, read_items(self.convert(X))).build(Y, node_weight)

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Return Psi(x, y), in the order of ``coef_``."""
        factors = self.factors([x], [y])
        return factors.joint_feature(0, factors.truth)

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return Delta(y, y_hat); a true label that the model does not know counts as a mistake."""
        if len(y_hat) != len(y):
            raise ValueError(
                f"loss: the outputs must have equal lengths, got {len(y)} and {len(y_hat)} labels"
            )
        total = sum(self._cost(a, b) for a, b in zip(y, y_hat, strict=True))
        return float(total / len(y) if self.hamming_.mean else total)

    def _cost(self, true: Any, other: Any) -> float:
        """Return the cost of one mistake; the labels alone must determine it, without the type."""
        if self.hamming_.costs is None:
            return float(true != other)
        pairs = [(own.code.get(true), own.code.get(other)) for own in self.label_sets_]
        known = [t for t, pair in enumerate(pairs) if None not in pair]
        costs = {float(cost_of(self.costs_[t], *pairs[t])) for t in known}
        if not costs:
            raise no_cost(true)
        if len(costs) > 1:
            raise ValueError(
                f"loss: the labels {short(true)} and {short(other)} belong to several types of "
                "nodes with different costs; give each type its own labels"
            )
        return costs.pop()

    def unpack(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """Return the named parts of w: unary (K, d), bias (K,), pairwise (K, K') or (P,).

        With features of edges, pairwise weights have a last axis of length d_e. With several types of nodes
        the names contain the types: "unary[a]", "pairwise[a, b]". Factors over several nodes have the names
        "cliques[name]", with the shape (K_1, ..., K_m) or (P,).
        """
        parts, place, w = {}, 0, np.asarray(w)
        names, single = self.types_.classes.tolist(), len(self.types_) == 1
        for t, own in enumerate(self.label_sets_):
            d, width = self.n_features_[t], self.n_features_[t] + (self.bias is not None)
            table = w[place : place + len(own) * width].reshape(len(own), width)
            suffix = "" if single else f"[{names[t]}]"
            parts[f"unary{suffix}"] = table[:, :d]
            if self.bias is not None:
                parts[f"bias{suffix}"] = table[:, -1] * self.bias
            place += table.size
        for (a, b), kind, columns in zip(self.pairs_, self.kinds_, self.tables_, strict=True):
            shape = list(columns.shape) if kind == "full" else [int(columns.max()) + 1]
            shape += [] if self.n_edge_features_ is None else [self.n_edge_features_]
            size = int(np.prod(shape))
            suffix = "" if single else f"[{names[a]}, {names[b]}]"
            parts[f"pairwise{suffix}"] = w[place : place + size].reshape(shape)
            place += size
        for own_clique in self.cliques_:
            shape = list(own_clique.sizes) if own_clique.kind == "full" else [own_clique.n_weights]
            size = own_clique.n_weights
            parts[f"cliques[{own_clique.name}]"] = w[place : place + size].reshape(shape)
            place += size
        return parts

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        state = {
            "pairwise": [
                [*pair, kind] for pair, kind in zip(self.pairs_, self.kinds_, strict=True)
            ],
            "bias": self.bias,
            "inference": self.inference_method,
            "iterations": int(self.iterations),
            "mean": self.hamming_.mean,
            "n_features": self.n_features_,
            "n_edge_features": self.n_edge_features_,
            "types": self.types_.state(),
            "labels": [own.state() for own in self.label_sets_],
            **saved_attributes(self.encoder_),
            **clique_state(self.cliques_),
        }
        return state, {f"cost{t}": cost for t, cost in enumerate(self.costs_)}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> FactorGraph:
        types, sets = saved_types(state, MOST_LABELS)
        names, pairs = types.classes.tolist(), saved_type_pairs(state, len(types))
        tables = [costs_of(arrays, f"cost{t}", len(own)) for t, own in enumerate(sets)]
        plain = all(saved_costs(cost) is None for cost in tables)
        given: Any = None if plain else dict(zip(names, tables, strict=True))
        kinds: Any = {(names[a], names[b]): kind for a, b, kind in pairs}
        if len(names) == 1:
            kinds, given = pairs[0][2], None if plain else tables[0]
        loss, cliques = Hamming(given, flag(state, "mean")), saved_cliques(state, sets)
        model = cls(kinds, loss, bias_of(state), *saved_method(state))
        if cliques:
            model.cliques = {own.name: own.kind for own in cliques}
        model.types_, model.label_sets_, model.cliques_ = types, sets, cliques
        model.pairs_ = [(a, b) for a, b, _ in pairs]
        widths = saved_widths(state, len(types))
        model.n_features_, model.n_edge_features_ = widths, None
        model.encoder_ = encoder_of(state, widths[0], sequences=True)
        if field_of(state, "n_edge_features") is not None:
            model.n_edge_features_ = count(state, "n_edge_features", 1, MOST_FEATURES)
        model.set_loss()
        model.kinds_ = [model._kind(pair) for pair in model.pairs_]
        model._measure()
        return model
