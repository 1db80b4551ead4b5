"""Hard constraints on the labels of a prediction, for models over graphs.

    svm.predict(X, constraints=[AtMost(2, "person"), Forbidden("sky", "road")])

A constraint refers to nodes by number (for ``MultiLabel`` by label), and to labels as the model knows
them. An integer program finds the best output that satisfies all constraints, exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.data.arrays import is_whole
from maxmargin.io.quoting import short
from maxmargin.models.milp import Linear


class Graph(ABC):
    """The view of an example that constraints use."""

    n_nodes: int
    edges: np.ndarray  # (E, 2), in the order given

    @abstractmethod
    def code(self, node: int, label: Hashable) -> int | None:
        """Return the code of a label at a node; None if the node cannot have the label."""

    def node(self, name: Any) -> int:
        """Return the number of a node; raise ValueError if there is no such node."""
        if not is_whole(name, 0) or name >= self.n_nodes:
            raise ValueError(
                f"constraints: there is no node {short(name)}; the example has {self.n_nodes} nodes"
            )
        return int(name)

    def known(self, node: int, label: Hashable) -> int:
        """Return the code of a label at a node; raise ValueError if the node cannot have it."""
        found = self.code(node, label)
        if found is None:
            raise ValueError(f"constraints: node {node} has no label {short(label)}")
        return found

    def holders(self, label: Hashable, nodes: Any) -> list[tuple[int, int]]:
        """Return the nodes (all or some) that may take a label, with its code at each."""
        if nodes is not None:
            return [(v, self.known(v, label)) for v in dict.fromkeys(map(self.node, nodes))]
        pairs = [(v, self.code(v, label)) for v in range(self.n_nodes)]
        found = [(v, k) for v, k in pairs if k is not None]
        if not found:
            raise ValueError(f"constraints: no node has a label {short(label)}")
        return found


class Constraint(ABC):
    """A condition that a predicted output must satisfy."""

    @abstractmethod
    def rows(self, graph: Graph) -> list[Linear]:
        """Return the constraint as bounds on sums of label indicators."""


@dataclass(frozen=True)
class Fixed(Constraint):
    """Fixed labels of some nodes: a mapping from node to label."""

    labels: Mapping[Any, Hashable]

    def rows(self, graph: Graph) -> list[Linear]:
        named = [(graph.node(name), label) for name, label in self.labels.items()]
        return [Linear([(v, graph.known(v, k))], 1.0, 1.0) for v, k in named]


@dataclass(frozen=True)
class Forbidden(Constraint):
    """No edge from ``first`` to ``second``: labels of its two ends, in the order of the edge.

    ``pairs`` are the pairs of nodes that the constraint applies to; they need no edge. None: every edge.
    """

    first: Hashable
    second: Hashable
    pairs: Sequence[tuple[Any, Any]] | None = None

    def rows(self, graph: Graph) -> list[Linear]:
        given = graph.edges.tolist() if self.pairs is None else self.pairs
        found = []
        for a, b in given:
            a, b = graph.node(a), graph.node(b)
            p, q = graph.code(a, self.first), graph.code(b, self.second)
            if p is not None and q is not None:
                found.append(Linear([(a, p), (b, q)], 0.0, 1.0))
        if not found:
            for label in (self.first, self.second):
                graph.holders(label, None)  # raises ValueError for unknown labels
        return found


@dataclass(frozen=True)
class AtMost(Constraint):
    """At most k nodes, of all or of some, take a label."""

    k: int
    label: Hashable
    nodes: Sequence[Any] | None = None

    def rows(self, graph: Graph) -> list[Linear]:
        return [Linear(graph.holders(self.label, self.nodes), 0.0, float(self.k))]


@dataclass(frozen=True)
class AtLeast(Constraint):
    """At least k nodes, of all or of some, take a label."""

    k: int
    label: Hashable
    nodes: Sequence[Any] | None = None

    def rows(self, graph: Graph) -> list[Linear]:
        terms = graph.holders(self.label, self.nodes)
        return [Linear(terms, float(self.k), float(max(len(terms), self.k)))]


def of_each(constraints: Any, n: int) -> list[list[Constraint]]:
    """Return the constraints of every example, given one list for all or a list for each."""
    if isinstance(constraints, Constraint):
        constraints = [constraints]
    given = list(constraints)
    if all(isinstance(c, Constraint) for c in given):
        return [given] * n
    if len(given) != n:
        raise ValueError(
            f"constraints must be a list of constraints, or one list for each of {n} examples, "
            f"got {len(given)} items"
        )
    for i, own in enumerate(given):
        wrong = [c for c in own if not isinstance(c, Constraint)]
        if wrong:
            raise ValueError(f"constraints[{i}] holds {short(wrong[0])}, which is not a constraint")
    return [list(own) for own in given]
