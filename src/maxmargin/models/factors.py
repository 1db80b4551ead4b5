"""Factors: examples as factor graphs in plain arrays, for the core's argmax and for factorwise solvers.

    <w, Psi(x, y)> = sum over nodes v   <w_bank[column(y_v)], x_v>
                   + sum over edges e   <w_bank[column(y_a, y_b)], x_e>
    Delta(y, y')   = sum over nodes v   weight_v cost[y_v, y'_v]

A bank is a table of weights (columns, features), which the factors of one template share. A type of nodes is
a domain of labels: it gives the column of the bank for each label, and the costs of mistakes. A type of edges
gives the column for each pair of labels. Column -1 means that the factor is zero there. Column -2 forbids the
pair; factors over several nodes use it (``models.cliques``). ``coef_`` holds all banks one after another,
each ravelled column by column.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin._core import core
from maxmargin.data.memory import FeatureRows
from maxmargin.io.quoting import short
from maxmargin.losses import cost_of
from maxmargin.models.beliefs import Beliefs
from maxmargin.models.constraints import Graph, of_each
from maxmargin.models.examples import CompiledExamples
from maxmargin.models.extent import (
    Extent,
    listed_outputs,
    row_lengths,
    row_terms,
    sums_between,
)
from maxmargin.models.marginals import Marginals
from maxmargin.models.milp import solve_milp
from maxmargin.models.registry import FACTORS, SUMS

# Largest number of labels in a set for which roof duality bounds a slack. With more labels it takes
# too long, and prices of pairs give the bound.
PRICED_LABELS = 256
# limit on message passing for an upper bound of the linear relaxation; fewer leave it loose
RELAXED_SWEEPS = 200
METHODS = ("auto", "tree", "cut", "lp", "milp")
ROOF = len(METHODS)  # the method for the linear relaxation alone


@dataclass(frozen=True)
class Bank:
    """Weights of one template: ``columns`` vectors over the features of ``rows``, or ``columns`` numbers."""

    rows: FeatureRows | None
    columns: int
    bias: float | None = None

    @property
    def width(self) -> int:
        """The number of weights in each column."""
        return 1 if self.rows is None else self.rows.n_features + (self.bias is not None)

    @cached_property
    def matrix(self) -> Any:
        """The features of all rows."""
        return None if self.rows is None else self.rows.stacked()

    def row(self, r: int) -> np.ndarray:
        """Return the features of a row as a dense vector; the constant 1 without features."""
        if self.matrix is None:
            return np.ones(1)
        x = self.matrix[r]
        x = x.toarray().ravel() if sp.issparse(x) else x
        return np.append(x, [] if self.bias is None else self.bias)


@dataclass(frozen=True)
class NodeType:
    """A domain: the column of each label (K,), and the cost of mistakes, (K,) or (K, K)."""

    bank: int
    columns: np.ndarray
    cost: np.ndarray


@dataclass(frozen=True)
class EdgeType:
    """A template of edges from nodes of type ``first`` to ``second``: the column of each pair (K, K')."""

    first: int
    second: int
    bank: int
    columns: np.ndarray


@dataclass(frozen=True)
class Shape:
    """A graph without its features: types of nodes (N,), edges (E, 2), types of edges (E,)."""

    node_types: np.ndarray
    edges: np.ndarray
    edge_types: np.ndarray


@dataclass(frozen=True)
class Factors:
    """Examples as factor graphs.

    Example i has the graph ``shapes[shape[i]]``. In ``node_rows``, ``truth``, ``node_weight`` and
    ``edge_rows``, the nodes and edges of all examples follow one another, example by example.
    """

    banks: list[Bank]
    node_types: list[NodeType]
    edge_types: list[EdgeType]
    shapes: list[Shape]
    shape: np.ndarray  # (n,) int32
    node_rows: np.ndarray  # row of each node in the features of its bank, int64
    truth: np.ndarray  # code of the true label of each node, int32
    node_weight: np.ndarray  # factor on the loss of each node
    # Empty if edges have no features.
    edge_rows: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def node_offsets(self) -> np.ndarray:
        """Offsets: the nodes of example i are node_offsets[i] .. node_offsets[i + 1]."""
        sizes = np.array([len(s.node_types) for s in self.shapes], dtype=np.int64)
        return np.concatenate([[0], np.cumsum(sizes[self.shape])])

    @property
    def edge_offsets(self) -> np.ndarray:
        """Offsets: the edges of example i are edge_offsets[i] .. edge_offsets[i + 1]."""
        sizes = np.array([len(s.edge_types) for s in self.shapes], dtype=np.int64)
        return np.concatenate([[0], np.cumsum(sizes[self.shape])])

    @property
    def dimension(self) -> int:
        """The length of w."""
        return sum(bank.columns * bank.width for bank in self.banks)

    def counts(self, i: int) -> np.ndarray:
        """Return the number of labels of each node of example i."""
        sizes = np.array([len(t.columns) for t in self.node_types])
        return sizes[self.shapes[self.shape[i]].node_types]

    def node_lengths(self) -> np.ndarray:
        """Return an upper bound on the length of the features of each node."""
        types = np.concatenate([self.shapes[s].node_types for s in self.shape])
        return self._lengths(np.array([t.bank for t in self.node_types])[types], self.node_rows)

    def edge_lengths(self) -> np.ndarray:
        """Return an upper bound on the length of the features of each edge."""
        types = np.concatenate([self.shapes[s].edge_types for s in self.shape]).astype(np.int64)
        banks = np.array([t.bank for t in self.edge_types], dtype=np.int64)[types]
        return self._lengths(banks, self.edge_rows if len(self.edge_rows) else np.zeros_like(banks))

    def _lengths(self, banks: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the bounds for parts with these banks, and these rows in their banks."""
        found = np.ones(len(banks))
        for k in np.unique(banks):
            bank_rows = self.banks[k].rows
            if bank_rows is not None:
                own = banks == k
                found[own] = row_lengths(bank_rows)[rows[own]]
        return found

    def compiled(self) -> Any:
        """Copy the examples into the core."""
        data = core.FactorGraphData()
        for bank in self.banks:
            data.add_bank(None if bank.rows is None else bank.rows.core.rows, bank.columns)
        for node in self.node_types:
            data.add_node_type(node.bank, codes(node.columns), node.cost.ravel())
        for edge in self.edge_types:
            data.add_edge_type(edge.first, edge.second, edge.bank, codes(edge.columns))
        for shape in self.shapes:
            edges = np.ascontiguousarray(shape.edges, dtype=np.int32).reshape(-1, 2)
            data.add_shape(codes(shape.node_types), edges, codes(shape.edge_types))
        data.set_examples(
            codes(self.shape), self.node_rows, codes(self.truth), self.node_weight, self.edge_rows
        )
        return data

    def joint_feature(self, i: int, y: np.ndarray) -> np.ndarray:
        """Return Psi(x_i, y) for codes of labels, in the order of ``coef_``."""
        parts = [np.zeros((bank.columns, bank.width)) for bank in self.banks]
        shape, first = self.shapes[self.shape[i]], int(self.node_offsets[i])
        for v, t in enumerate(shape.node_types):
            node = self.node_types[t]
            if (column := node.columns[y[v]]) >= 0:
                parts[node.bank][column] += self.banks[node.bank].row(
                    int(self.node_rows[first + v])
                )
        first = int(self.edge_offsets[i])
        for e, ((a, b), t) in enumerate(zip(shape.edges, shape.edge_types, strict=True)):
            edge = self.edge_types[t]
            if (column := edge.columns[y[a], y[b]]) >= 0:
                row = int(self.edge_rows[first + e]) if len(self.edge_rows) else 0
                parts[edge.bank][column] += self.banks[edge.bank].row(row)
        return np.concatenate([part.ravel() for part in parts])

    def loss(self, i: int, y: np.ndarray) -> float:
        """Return Delta_i(y) for codes of labels."""
        shape, first = self.shapes[self.shape[i]], int(self.node_offsets[i])
        own = slice(first, first + len(shape.node_types))
        nodes = zip(shape.node_types, self.truth[own], y, self.node_weight[own], strict=True)
        return float(sum(v * cost_of(self.node_types[t].cost, a, b) for t, a, b, v in nodes))


def codes(values: Any) -> np.ndarray:
    """Return values as a flat int32 array for the core."""
    return np.ascontiguousarray(values, dtype=np.int32).ravel()


class GraphExamples(CompiledExamples):
    """Factor graphs in the core."""

    powers: tuple[str, ...] = (FACTORS, SUMS)
    brackets_sums = True

    def __init__(self, factors: Factors, inference: str, iterations: int):
        self.factors = factors
        self.iterations: int = int(iterations)
        self._relaxation: Any = None  # the core's copy for the linear relaxation
        self.offsets: np.ndarray = factors.node_offsets
        data = factors.compiled()
        self._check_inference(inference, data)
        solver = solve_milp if inference == "milp" else None
        data.set_argmax(METHODS.index(inference), int(iterations), solver)
        self.take(data)

    def _check_inference(self, inference: str, data: Any) -> None:
        """Raise ValueError if the method cannot solve some graph; the message names the example."""
        fits = np.ones(len(self.factors.shapes), dtype=bool)
        if inference == "tree":
            fits, lack = data.forests().astype(bool), "has cycles"
        elif inference == "cut":
            two = np.array([len(t.columns) == 2 for t in self.factors.node_types])
            fits = np.array([two[s.node_types].all() for s in self.factors.shapes])
            lack = "has nodes of more than two labels"
        if not fits.all():
            i = int(np.argmin(fits[self.factors.shape]))
            raise ValueError(f"inference={short(inference)}: the graph of X[{i}] {lack}")

    def output_sizes(self, blocks: np.ndarray) -> np.ndarray:
        return np.diff(self.offsets)[blocks]

    def extent(self) -> Extent:
        factors, edges = self.factors, self.factors.edge_offsets
        lengths = sums_between(factors.node_lengths(), self.offsets)
        lengths += sums_between(factors.edge_lengths(), edges)
        parts = int((np.diff(self.offsets) + np.diff(edges)).max(initial=0))
        terms = max(1 if b.rows is None else row_terms(b.rows) for b in factors.banks) + 3 * parts
        # message passing adds terms in each sweep
        if not (self.summed or self.core.forests().all()):
            terms *= 1 + max(self.iterations, RELAXED_SWEEPS)
        labels = max(len(kind.columns) for kind in factors.node_types)
        return Extent(
            lengths,
            terms,
            parts,
            int(self.offsets[-1] + edges[-1]),
            labels * labels,
            True,
            listed_outputs(labels, np.diff(self.offsets)),
        )

    @property
    def relaxed(self) -> bool:
        """Whether the linear relaxation of some example may exceed the example's maximum."""
        return not bool(self.core.forests().all())

    def combine(
        self, blocks: np.ndarray, multipliers: np.ndarray, outputs: Any, n_jobs: int = 1
    ) -> tuple[float, np.ndarray]:
        if not isinstance(outputs, Marginals):
            return super().combine(blocks, multipliers, outputs, n_jobs)
        factors = np.bincount(blocks, multipliers, minlength=self.n)
        return core.marginal_sum(self.core, factors, *outputs.arrays)

    def relaxed_slacks(
        self, w: np.ndarray, n_jobs: int, prices: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the slacks of the linear relaxation as far as found, and upper bounds on them."""
        if not self.relaxed:
            return self.slacks(w, n_jobs)
        if prices is not None and len(self.factors.shapes[0].node_types) > PRICED_LABELS:
            proven = core.label_ceilings(self.core, w, *prices)
            return proven, proven
        if self._relaxation is None:
            data = self.factors.compiled()
            # Roof duality is exact; message passing only gives a bound above the relaxation's optimum.
            binary = all(len(kind.columns) == 2 for kind in self.factors.node_types)
            method = ROOF if binary else METHODS.index("lp")
            data.set_argmax(method, max(self.iterations, RELAXED_SWEEPS), None)
            self._relaxation = data.exact("margin")
        return self._relaxation.slack_bounds(w, n_jobs, 0.0)

    def output(self, i: int, codes: np.ndarray) -> Any:
        """Return the output of example i from the codes of its nodes."""
        raise NotImplementedError

    def decode(self, codes: np.ndarray) -> Any:
        bounds = pairwise(self.offsets.tolist())
        return [self.output(i, codes[a:b]) for i, (a, b) in enumerate(bounds)]

    def check_forests(self, what: str) -> None:
        """Raise ValueError for graphs with cycles, on which sums and maxima over outputs are not exact."""
        forests = self.core.forests().astype(bool)[self.factors.shape]
        if not forests.all():
            raise ValueError(
                f"{what} needs graphs without cycles, but the graph of "
                f"X[{int(np.argmin(forests))}] has cycles"
            )

    def margins(self, w: Any, n_jobs: int = 1) -> list[np.ndarray]:
        self.check_forests("predict_margins")
        return self.of_labels(self.answers.margins(self.packed(w), n_jobs))

    def of_labels(self, found: np.ndarray) -> list[np.ndarray]:
        """Split values of all nodes by example, and keep only nodes that have a label in the output."""
        starts = self.offsets[:-1].tolist()
        return [found[a : a + len(self.node_types(i))] for i, a in enumerate(starts)]

    def true_codes(self) -> np.ndarray:
        return np.concatenate(self.of_labels(super().true_codes()))

    def beliefs(self, w: Any, temperature: float, n_jobs: int = 1) -> Beliefs:
        self.check_forests("predict_marginals")
        values = self.answers.beliefs(self.packed(w), temperature, n_jobs)
        kinds, places = [], []  # nodes of larger factors have no label of the user
        for i in range(self.n):
            own, counts = self.node_types(i), self.factors.counts(i)
            kinds.append(own)
            places.append(np.arange(counts.sum()) < counts[: len(own)].sum())
        offsets = np.concatenate([[0], np.cumsum([len(own) for own in kinds])])
        values = values[np.concatenate(places)]
        return Beliefs(values, self.label_classes(), np.concatenate(kinds), offsets, temperature)

    def node_types(self, i: int) -> np.ndarray:
        """Return the types of the nodes of example i that have a label in the output."""
        return self.factors.shapes[self.factors.shape[i]].node_types

    def label_classes(self) -> list[np.ndarray]:
        """Return the labels of each type of nodes."""
        raise NotImplementedError

    def graph(self, i: int) -> Graph:
        """Return example i as constraints see it."""
        raise NotImplementedError

    def constrained(self, w: np.ndarray, constraints: Any) -> Any:
        """Return the best outputs that satisfy the constraints."""
        outputs = []
        for i, own in enumerate(of_each(constraints, self.n)):
            graph = self.graph(i)
            rows = [row for constraint in own for row in constraint.rows(graph)]
            try:
                counts, unary, links, tables = self.core.problem(w, i, False)
                labels, _ = solve_milp(counts, unary, links, tables, rows)
            except ValueError as error:
                raise ValueError(f"X[{i}]: {error}") from None
            outputs.append(self.output(i, labels))
        return outputs
