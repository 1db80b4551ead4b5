"""Conversion of the examples of a fitted ``FactorGraph`` to ``Factors``: banks, domains, shapes, rows.

Factors over several nodes are nodes too (``models.cliques``). They come after the nodes of their example,
name by name, and so do their edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.data.labels import LabelSet
from maxmargin.data.memory import feature_rows
from maxmargin.io.quoting import short
from maxmargin.models.chain import weights_of_nodes
from maxmargin.models.cliques import NEVER_TOGETHER, Cliques
from maxmargin.models.factors import Bank, EdgeType, Factors, NodeType, Shape
from maxmargin.models.graph_input import Item, check_output, without_gaps


def where_nodes(types: LabelSet, t: int) -> str:
    """Return the position of the features of nodes of a type, for messages."""
    name = f"[{types.classes[t]!r}]".replace("{", "{{").replace("}", "}}")
    return "X[{}][0]" + ("" if len(types) == 1 else name)


def by_type(types: LabelSet, items: list[Item], own: list[np.ndarray]) -> list[list[Any]]:
    """Return, for each type of nodes, the features in all examples."""
    pairs = list(zip(items, own, strict=True))
    names = types.classes.tolist()
    return [[x.matrix(name, codes == t) for x, codes in pairs] for t, name in enumerate(names)]


PAIRWISE_KINDS = ("full", "symmetric", "diagonal", "potts")


def columns_of(kind: str, K: int, other: int) -> np.ndarray:
    """Return the weight that each pair of labels uses, (K, K'); -1 for none."""
    if kind == "full":
        return np.arange(K * other, dtype=np.int32).reshape(K, other)
    table = np.full((K, K), -1, dtype=np.int32)
    if kind == "symmetric":
        rows, columns = np.triu_indices(K)
        table[rows, columns] = table[columns, rows] = np.arange(len(rows))
    else:
        np.fill_diagonal(table, np.arange(K) if kind == "diagonal" else 0)
    return table


@dataclass
class FactorBuilder:
    """Builds the factors of some examples; ``model`` is a fitted FactorGraph."""

    model: Any
    items: list[Item]

    def __post_init__(self) -> None:
        self.types: list[np.ndarray] = [
            x.type_codes(self.model.types_, f"X[{i}]") for i, x in enumerate(self.items)
        ]
        self.known: dict[Any, Any] = {own.name: own for own in self.model.cliques_}
        for i, item in enumerate(self.items):
            self._check_cliques(item, i)

    def build(self, Y: Any, node_weight: Any) -> Factors:
        """Build the factors, with true labels and node weights if they are given."""
        model = self.model
        banks, node_types = self._nodes()
        edge_rows = self._edges(banks)
        edge_types = [
            EdgeType(a, b, len(node_types) + k, table)
            for k, ((a, b), table) in enumerate(zip(model.pairs_, model.tables_, strict=True))
        ]
        shapes, shape = self._shapes()
        lengths = np.array([item.n_nodes for item in self.items])
        weight = weights_of_nodes(node_weight, lengths, model.hamming_.mean)
        rows = self._rows([bank.rows for bank in banks[: len(node_types)]])
        truth = np.zeros(int(lengths.sum()), np.int32) if Y is None else self._encode(Y)
        if model.cliques_:
            for own in model.cliques_:
                banks.append(Bank(None, own.n_weights))
                cost = np.zeros(own.n_states)
                node_types.append(NodeType(len(banks) - 1, own.columns, cost))
                edge_types += self._member_edges(own, len(node_types) - 1, len(banks) - 1)
            rows, weight, truth = self._with_cliques(rows, weight, truth)
            edge_rows = self._padded(edge_rows)
        return Factors(banks, node_types, edge_types, shapes, shape, rows, truth, weight, edge_rows)

    def _check_cliques(self, item: Item, i: int) -> None:
        """Raise ValueError for factors that did not occur in training."""
        for name, members in item.cliques.items():
            if name not in self.known:
                raise ValueError(
                    f"X[{i}][4] has factors {short(name)}, but the training data had none with "
                    "this name"
                )
            expected = self.known[name].types
            kinds = self.types[i][members]
            if members.shape[1] != len(expected) or (kinds != expected).any():
                raise ValueError(
                    f"X[{i}][4]: factors {short(name)} must have {len(expected)} members, of the types "
                    f"{[self.model.types_.classes.tolist()[t] for t in expected]}"
                )

    @staticmethod
    def _member_edges(own: Cliques, node_type: int, bank: int) -> list[EdgeType]:
        """Return the edges that allow each state only its labels of each member."""
        tables = [np.where(own.allowed(j), -1, NEVER_TOGETHER) for j in range(len(own.types))]
        return [EdgeType(node_type, t, bank, x) for t, x in zip(own.types, tables, strict=True)]

    def _with_cliques(self, *parts: np.ndarray) -> tuple[np.ndarray, ...]:
        """Insert rows, weights and states of larger factors after the nodes of each example."""
        rows, weight, truth = ([] for _ in range(3))
        first = 0
        for item in self.items:
            own = slice(first, first + item.n_nodes)
            labels = parts[2][own]
            states = [
                self.known[name].states(labels[item.cliques[name]])
                for name in self.known
                if name in item.cliques
            ]
            n = sum(map(len, states))
            rows += [parts[0][own], np.zeros(n, np.int64)]
            weight += [parts[1][own], np.zeros(n)]
            truth += [labels, *states]
            first += item.n_nodes
        return tuple(np.concatenate(part) for part in (rows, weight, truth))

    def _padded(self, edge_rows: np.ndarray) -> np.ndarray:
        """Insert a zero into the rows of edges for each edge of a larger factor, which has no features."""
        if not len(edge_rows):
            return edge_rows
        found, first = [], 0
        for item in self.items:
            extra = sum(members.size for members in item.cliques.values())
            found += [edge_rows[first : first + len(item.edges)], np.zeros(extra, np.int64)]
            first += len(item.edges)
        return np.concatenate(found)

    def _nodes(self) -> tuple[list[Bank], list[NodeType]]:
        """Return the weights and domains of the types of nodes."""
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
        """Return the row of each node among the nodes of its type."""
        found = []
        for i, own in enumerate(self.types):
            place = np.empty(len(own), dtype=np.int64)
            for t, features in enumerate(rows):
                mask = own == t
                place[mask] = features.offsets[i] + np.arange(int(mask.sum()))
            found.append(place)
        return np.concatenate(found)

    def _edges(self, banks: list[Bank]) -> np.ndarray:
        """Append the banks of edges to ``banks``; return the row of each edge in its features."""
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
        return np.arange(0 if rows is None else int(rows.offsets[-1]), dtype=np.int64)

    def _shapes(self) -> tuple[list[Shape], np.ndarray]:
        """Return the distinct graphs, and the graph of each example."""
        known: dict[tuple[Any, ...], int] = {}
        shapes: list[Shape] = []
        which = np.empty(len(self.items), dtype=np.int32)
        for i, (item, own) in enumerate(zip(self.items, self.types, strict=True)):
            cliques = [
                (name, members.shape, members.tobytes()) for name, members in item.cliques.items()
            ]
            key = (own.tobytes(), item.edges.tobytes(), *sorted(cliques, key=repr))
            if key not in known:
                known[key] = len(shapes)
                shapes.append(self._shape(item, own, i))
            which[i] = known[key]
        return shapes, which

    def _shape(self, item: Item, own: np.ndarray, i: int) -> Shape:
        """Return the graph of an example; a template of edges has the lower type of nodes first."""
        number = {pair: k for k, pair in enumerate(self.model.pairs_)}
        ends = own[item.edges]
        turned = ends[:, 0] > ends[:, 1]
        edges = np.where(turned[:, None], item.edges[:, ::-1], item.edges)
        kinds = [number.get((min(pair), max(pair)), -1) for pair in ends.tolist()]
        if -1 in kinds:
            e = kinds.index(-1)
            a, b = (self.model.types_.classes.tolist()[t] for t in ends[e])
            raise ValueError(
                f"X[{i}][1][{e}] joins nodes of the types {short(a)} and {short(b)}, but no edge "
                "of the training data did"
            )
        if item.cliques:
            own, edges, kinds = self._join(item, own, edges, kinds)
        return Shape(own, edges, np.array(kinds, dtype=np.int32))

    def _join(
        self, item: Item, own: np.ndarray, edges: np.ndarray, kinds: list[int]
    ) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """Add larger factors as nodes, and an edge from each of them to each member."""
        node_type, edge_type = len(self.model.types_), len(self.model.pairs_)
        parts = [edges]
        for name, clique in self.known.items():
            members = item.cliques.get(name, np.empty((0, len(clique.types)), np.int32))
            F, m = members.shape
            first = len(own)
            own = np.concatenate([own, np.full(F, node_type, own.dtype)])
            parts.append(np.stack([np.repeat(first + np.arange(F), m), members.ravel()], axis=1))
            kinds = kinds + [edge_type + j for _ in range(F) for j in range(m)]
            node_type, edge_type = node_type + 1, edge_type + m
        return own, np.concatenate(parts).astype(np.int32), kinds

    def _encode(self, Y: Sequence[Any]) -> np.ndarray:
        """Return the codes of the labels; raise ValueError for wrong lengths, or labels that a type lacks."""
        sets = [own.code for own in self.model.label_sets_]
        found: list[int] = []
        for i, own in enumerate(self.types):
            check_output(Y[i], len(own), i)
            labels = Y[i].tolist() if isinstance(Y[i], np.ndarray) else list(Y[i])
            codes = [sets[t].get(y, -1) for t, y in zip(own.tolist(), labels, strict=True)]
            if -1 in codes:
                v = codes.index(-1)
                raise ValueError(
                    f"Y[{i}][{v}] = {short(labels[v])} is not among the classes of the model"
                )
            found += codes
        return np.array(found, dtype=np.int32)
