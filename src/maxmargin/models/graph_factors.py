"""From the examples of a fitted ``FactorGraph`` to ``Factors``: banks, domains, shapes, rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.data.labels import LabelSet
from maxmargin.data.memory import FeatureRows, feature_rows
from maxmargin.models.chain import check_node_weight
from maxmargin.models.factors import Bank, EdgeType, Factors, NodeType, Shape
from maxmargin.models.graph_input import Item, check_output, without_gaps


def where_nodes(types: LabelSet, t: int) -> str:
    """The place of the features of nodes of a type, for messages."""
    name = f"[{types.classes[t]!r}]".replace("{", "{{").replace("}", "}}")
    return "X[{}][0]" + ("" if len(types) == 1 else name)


def by_type(types: LabelSet, items: list[Item], own: list[np.ndarray]) -> list[list[Any]]:
    """For each type of nodes the features in all examples."""
    pairs = list(zip(items, own, strict=True))
    names = types.classes.tolist()
    return [[x.matrix(name, codes == t) for x, codes in pairs] for t, name in enumerate(names)]


class FactorBuilder:
    """Factors of some examples; ``model`` is a fitted FactorGraph."""

    def __init__(self, model: Any, items: list[Item]):
        self.model, self.items = model, items
        self.types = [x.type_codes(model.types_, f"X[{i}]") for i, x in enumerate(items)]

    def build(self, Y: Any, node_weight: Any) -> Factors:
        """The factors, with true labels and weights where they are given."""
        model = self.model
        banks, node_types = self._nodes()
        edge_rows = self._edges(banks)
        edge_types = [
            EdgeType(a, b, len(node_types) + k, table)
            for k, ((a, b), table) in enumerate(zip(model.pairs_, model.tables_, strict=True))
        ]
        shapes, shape = self._shapes()
        lengths = np.array([item.n_nodes for item in self.items])
        weight = np.ones(int(lengths.sum()))
        if node_weight is not None:
            weight = np.concatenate(check_node_weight(node_weight, lengths))
        if model.hamming_.mean:
            weight = weight / np.repeat(lengths, lengths)
        rows = self._rows([bank.rows for bank in banks[: len(node_types)]])
        truth = np.zeros(int(lengths.sum()), np.int32) if Y is None else self._encode(Y)
        return Factors(banks, node_types, edge_types, shapes, shape, rows, truth, weight, edge_rows)

    def _nodes(self) -> tuple[list[Bank], list[NodeType]]:
        """Weights and domains of the types of nodes."""
        model = self.model
        banks, node_types = [], []
        for t, matrices in enumerate(by_type(model.types_, self.items, self.types)):
            d, K = model.n_features_[t], len(model.label_sets_[t])
            where = where_nodes(model.types_, t)
            rows = feature_rows(without_gaps(matrices, d), d, model.bias, where)
            banks.append(Bank(rows, K, model.bias))
            node_types.append(NodeType(t, np.arange(K, dtype=np.int32), model.costs_[t]))
        return banks, node_types

    def _rows(self, rows: list[Any]) -> np.ndarray:
        """The row of each node among those of its type."""
        found = []
        for i, own in enumerate(self.types):
            place = np.empty(len(own), dtype=np.int64)
            for t, features in enumerate(rows):
                mask = own == t
                place[mask] = features.offsets[i] + np.arange(int(mask.sum()))
            found.append(place)
        return np.concatenate(found)

    def _edges(self, banks: list[Bank]) -> np.ndarray:
        """Adds the weights of edges; the row of each edge in its features."""
        width, rows = self.model.n_edge_features_, None
        for i, item in enumerate(self.items):
            known, given = width is not None, item.edge_features is not None
            if given != known and len(item.edges):
                raise ValueError(
                    f"X[{i}] has {'' if given else 'no '}features of edges, "
                    f"but the model was trained with{'' if known else 'out'} them"
                )
        if width is not None:
            matrices = [x.edge_features if len(x.edges) else None for x in self.items]
            rows = feature_rows(without_gaps(matrices, width), width, None, "X[{}][2]")
        banks += [Bank(rows, int(table.max()) + 1) for table in self.model.tables_]
        return np.arange(row_count(rows), dtype=np.int64)

    def _shapes(self) -> tuple[list[Shape], np.ndarray]:
        """The different graphs, and which one each example has."""
        known: dict[tuple, int] = {}
        shapes: list[Shape] = []
        which = np.empty(len(self.items), dtype=np.int32)
        for i, (item, own) in enumerate(zip(self.items, self.types, strict=True)):
            key = (own.tobytes(), item.edges.tobytes())
            if key not in known:
                known[key] = len(shapes)
                shapes.append(self._shape(item, own, i))
            which[i] = known[key]
        return shapes, which

    def _shape(self, item: Item, own: np.ndarray, i: int) -> Shape:
        """A graph; a template of edges has the lower type of nodes first."""
        number = {pair: k for k, pair in enumerate(self.model.pairs_)}
        ends = own[item.edges]
        turned = ends[:, 0] > ends[:, 1]
        edges = np.where(turned[:, None], item.edges[:, ::-1], item.edges)
        kinds = [number.get((min(pair), max(pair)), -1) for pair in ends.tolist()]
        if -1 in kinds:
            e = kinds.index(-1)
            a, b = (self.model.types_.classes[t] for t in ends[e])
            raise ValueError(
                f"X[{i}][1][{e}] joins nodes of the types {a!r} and {b!r}, which no edge did in training"
            )
        return Shape(own, edges, np.array(kinds, dtype=np.int32))

    def _encode(self, Y: Sequence) -> np.ndarray:
        """Codes of the labels; refuses wrong lengths, and labels that the type does not have."""
        sets = [own.code for own in self.model.label_sets_]
        found: list[int] = []
        for i, own in enumerate(self.types):
            check_output(Y[i], len(own), i)
            labels = Y[i].tolist() if isinstance(Y[i], np.ndarray) else list(Y[i])
            codes = [sets[t].get(y, -1) for t, y in zip(own.tolist(), labels, strict=True)]
            if -1 in codes:
                v = codes.index(-1)
                raise ValueError(
                    f"Y[{i}][{v}] = {labels[v]!r} is not among the classes of the model"
                )
            found += codes
        return np.array(found, dtype=np.int32)


def row_count(rows: FeatureRows | None) -> int:
    """How many rows there are."""
    return 0 if rows is None else int(rows.offsets[-1])
