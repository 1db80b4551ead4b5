"""Views of a fitted model: weights by name, and the terms of a score.

    <w, Psi(x, y)> = sum over nodes of y, over the terms of a node, of value * weight

A term is a feature of the node, its bias, or a tie to other nodes. A tie is the transition from the previous
position, or a pair with another label that is on. A tie belongs to its later node. Only ``unpack`` of the
model knows the layout of w.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.data.table import Table
from maxmargin.io.quoting import short
from maxmargin.models.chain_edges import split_edges

START_NAME, END_NAME, BIAS_NAME = "(start)", "(end)", "(bias)"


@dataclass
class Node:
    """The terms of one node: features by number, other terms by name; each with its value and weight."""

    name: Any
    label: Any
    columns: np.ndarray
    values: np.ndarray
    weights: np.ndarray
    others: list[tuple[str, float, float]] = field(default_factory=list)

    @property
    def score(self) -> float:
        """The contribution of the node to the score."""
        return float(self.values @ self.weights) + sum(v * w for _, v, w in self.others)

    def table(self, names: np.ndarray) -> Table:
        """Return a table of the terms, the largest contributions first."""
        found = [*(names[j] for j in self.columns), *(name for name, _, _ in self.others)]
        values = np.concatenate([self.values, [v for _, v, _ in self.others]])
        weights = np.concatenate([self.weights, [w for _, _, w in self.others]])
        terms = values * weights
        order = np.argsort(-np.abs(terms), kind="stable")
        columns = {"value": values, "weight": weights, "contribution": terms}
        return Table(
            {name: cells[order] for name, cells in columns.items()},
            [found[j] for j in order],
            title=f"{self.name}: {self.label}, score {self.score:.3f}",
        )


def nonzero_features(table: Any, t: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers and values of the nonzero features of a row."""
    if sp.issparse(table):
        own = slice(*table.indptr[t : t + 2])
        return table.indices[own], table.data[own].astype(np.float64)
    row = np.asarray(table[t], dtype=np.float64)
    columns = np.flatnonzero(row)
    return columns, row[columns]


class Inside:
    """A fitted model and its weights, for models with one label per row."""

    features = "weights"  # the part of w that has a row of features for each label

    def __init__(self, model: Any, w: np.ndarray):
        self.model: Any = model
        self.w: np.ndarray = np.ascontiguousarray(w)
        self.parts: Any = model.unpack(w)

    @cached_property
    def feature_names(self) -> np.ndarray:
        """The names of the features: the attribute names, or x0, x1, ..."""
        encoder = getattr(self.model, "encoder_", None)
        if encoder is not None:
            return encoder.get_feature_names_out()
        return np.array([f"x{j}" for j in range(self.model.n_features_)], dtype=object)

    def code(self, label: Any) -> int:
        """Return the code of a label; raise ValueError for a label that the model does not know."""
        known = self.model.labels_.encode([label])[0]
        if known < 0:
            raise ValueError(
                f"label must be one of {self.model.classes_[:10].tolist()}, got {short(label)}"
            )
        return int(known)

    @cached_property
    def _table(self) -> Any:
        """The weights of features, one row per label; a CSR matrix if only some pairs have weights."""
        table = self.parts[self.features]
        return table.tocsr().sorted_indices() if sp.issparse(table) else table

    def _weights(self, code: int, columns: np.ndarray) -> np.ndarray:
        """Return the weights of some features for a label."""
        table = self._table
        if not sp.issparse(table):
            return np.asarray(table[code, columns])
        own = slice(*table.indptr[code : code + 2])
        known, weights = table.indices[own], np.append(table.data[own], 0.0)
        place = np.searchsorted(known, columns)
        there = np.append(known, -1)[place] == columns
        return np.where(there, weights[place], 0.0)

    def weights(self, label: Any) -> np.ndarray:
        """Return the weight of every feature for a label."""
        return self._weights(self.code(label), np.arange(self.model.n_features_))

    def ties(self) -> Table:
        """Return the weights between labels."""
        raise ValueError(
            f"model {type(self.model).__name__} has no transitions, because an output is one label"
        )

    def node(self, name: Any, code: int, table: Any, t: int) -> Node:
        """Return the terms of the features of row t, and of the bias, for a label."""
        columns, values = nonzero_features(table, t)
        label = self.model.classes_.tolist()[code]
        found = Node(name, label, columns, values, self._weights(code, columns))
        if "bias" in self.parts:
            found.others.append((BIAS_NAME, 1.0, float(np.ravel(self.parts["bias"])[code])))
        return found

    def single(self, x: Any) -> Any:
        """Return X with a single example."""
        return self.model.one_row(x)

    def best(self, x: Any) -> Any:
        """Return the predicted output."""
        return self.model.bind(self.single(x)).predict(self.w)[0]

    def knows(self, y: Any) -> bool:
        """Whether all labels of an output are among the classes."""
        return self.model.labels_.encode([y])[0] >= 0

    def nodes(self, x: Any, y: Any) -> list[Node]:
        """Return the terms of every node of an output."""
        return [self.node("label", self.code(y), sp.csr_matrix(self.single(x)), 0)]

    def score(self, x: Any, y: Any) -> float:
        """Return <w, Psi(x, y)>."""
        return sum(node.score for node in self.nodes(x, y))

    def margin(self, x: Any, y: Any, y_hat: Any) -> float:
        """Return <w, Psi(x, y_hat)> - <w, Psi(x, y)>; infinite if y has an unknown label."""
        return self.score(x, y_hat) - self.score(x, y) if self.knows(y) else np.inf

    def mistakes(self, y: Any, y_hat: Any) -> Iterator[str]:
        """Yield a description of each mistake in a prediction."""
        if y != y_hat:
            yield f"{y_hat} for {y}"


class BinaryInside(Inside):
    """View of a model of two labels; a label's score is its margin, as in decision_function."""

    def __init__(self, model: Any, w: np.ndarray):
        super().__init__(model, w)
        self.parts: dict[Any, np.ndarray] = {
            name: np.array([-part, part]) for name, part in self.parts.items()
        }

    def margin(self, x: Any, y: Any, y_hat: Any) -> float:
        return self.score(x, y_hat) if self.knows(y) else np.inf


class ChainInside(Inside):
    """View of a chain."""

    features = "unary"

    def single(self, x: Any) -> Any:
        return [x]

    def knows(self, y: Any) -> bool:
        return bool((self.model.labels_.encode_sequences([y]) >= 0).all())

    def ties(self) -> Table:
        """Return the weights of transitions [previous, next], with start and end; -inf if forbidden."""
        labels, rules = self.model.classes_.tolist(), self.model.rules_
        K = len(labels)
        table = np.zeros((K + 2, K + 1))  # the last row is for pairs of the end and a last label
        table[:K, :K] = self.parts["transitions"]
        table[K, :K], table[:K, K] = self.parts.get("start", 0.0), self.parts.get("end", 0.0)
        keys = np.empty(0, np.int64) if rules is None else rules.keys
        table[keys // K, keys % K] = -np.inf
        table[:K, K] += table[K + 1, :K]
        starts, ends = "start" in self.parts, "end" in self.parts
        rows = [*labels, *[START_NAME] * bool(starts or np.isinf(table[K]).any())]
        columns = [*labels, *[END_NAME] * bool(ends or np.isinf(table[:K, K]).any())]
        table[K, K] = np.nan
        cells = {name: table[: len(rows), j] for j, name in enumerate(columns)}
        return Table(cells, rows, "previous \\ next")

    def nodes(self, x: Any, y: Any) -> list[Node]:
        tables, between = self.model.convert([x]), None
        if self.model.edges:
            tables, between = split_edges(tables)
        table = tables[0].tocsr() if sp.issparse(tables[0]) else np.asarray(tables[0])
        codes = self.model.encode([y], np.array([table.shape[0]])).tolist()
        found = [self.node(f"position {t}", k, table, t) for t, k in enumerate(codes)]
        for name, at in (("start", 0), ("end", -1)):
            if name in self.parts and found:
                weight = float(self.parts[name][codes[at]])
                found[at].others.append((f"({name})", 1.0, weight))
        self._tie(found, codes, between)
        return found

    def _tie(self, found: list[Node], codes: list[int], between: Any) -> None:
        """Add the terms that tie a position to earlier positions."""
        edges = between and between[0]
        names = None if edges is None else edge_names(self.model.edges_)
        for t in range(1, len(found)):
            before = found[t - 1].label
            pair = f"{before} -> {found[t].label}"
            weight = float(self.parts["transitions"][codes[t - 1], codes[t]])
            found[t].others.append((pair, 1.0, weight))
            if names is not None:
                weights = self.parts["edges"][codes[t - 1], codes[t]]
                for j, value in zip(*nonzero_features(edges, t - 1), strict=True):
                    found[t].others.append((f"{pair}, {names[j]}", value, float(weights[j])))
            if "triples" in self.parts and t > 1:
                weight = float(self.parts["triples"][codes[t - 2], codes[t - 1], codes[t]])
                found[t].others.append((f"{found[t - 2].label} -> {pair}", 1.0, weight))

    def mistakes(self, y: Any, y_hat: Any) -> Iterator[str]:
        for t, (true, found) in enumerate(zip(y, y_hat, strict=True)):
            if true != found:
                yield f"{t}: {found} for {true}"


def edge_names(edges: Any) -> Any:
    """Return the names of the features of edges."""
    if edges.encoder is not None:
        return edges.encoder.get_feature_names_out()
    return [f"edge{j}" for j in range(edges.n_features)]


class LabelsInside(Inside):
    """View of a model of label sets: the nodes of an output are the labels that are on."""

    def ties(self) -> Table:
        """Return the weights of pairs of labels that are both on; NaN for a pair without a weight."""
        labels, pairs = self.model.classes_.tolist(), self.model.pair_codes_
        table = np.full((len(labels), len(labels)), np.nan)
        table[pairs[:, 0], pairs[:, 1]] = table[pairs[:, 1], pairs[:, 0]] = self.parts["pairs"]
        return Table({name: table[j] for j, name in enumerate(labels)}, labels)

    def nodes(self, x: Any, y: Any) -> list[Node]:
        table = sp.csr_matrix(self.single(x))
        on = self._on(y)
        labels = self.model.classes_.tolist()
        found = {k: self.node("label", k, table, 0) for k in on}
        for (a, b), weight in zip(
            self.model.pair_codes_.tolist(), self.parts["pairs"], strict=True
        ):
            if a in found and b in found:
                found[b].others.append((f"with {labels[a]}", 1.0, float(weight)))
        return list(found.values())

    def knows(self, y: Any) -> bool:
        return not self.model.sets_ or all(label in self.model.labels_.code for label in y)

    def _on(self, y: Any) -> list[int]:
        """Return the codes of the labels that are on."""
        Y = [y] if self.model.sets_ else np.asarray(y).reshape(1, -1)
        return np.flatnonzero(self.model.encode(Y)[0]).tolist()

    def mistakes(self, y: Any, y_hat: Any) -> Iterator[str]:
        if self.model.sets_:
            true, found = set(y), set(y_hat)
        else:
            labels = np.array(self.model.classes_.tolist(), dtype=object)
            true, found = (set(labels[np.asarray(row) == 1]) for row in (y, y_hat))
        yield from (f"{label} missing" for label in sorted(true - found, key=str))
        yield from (f"{label} too many" for label in sorted(found - true, key=str))
