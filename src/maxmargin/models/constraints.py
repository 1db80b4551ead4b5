"""Hard constraints on the labels of a prediction, for models over graphs.

    svm.predict(X, constraints=[AtMost(2, "person"), Forbidden("sky", "road")])

A constraint names nodes (by number; by label for ``MultiLabel``) and labels as the model knows them.
The best output that keeps all of them is found exactly, by an integer program.
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
    """What a constraint sees of an example."""

    n_nodes: int
    edges: np.ndarray  # (E, 2), as they were given

    @abstractmethod
    def code(self, node: int, label: Hashable) -> int | None:
        """The code of a label of a node; None where the node does not have it."""

    def node(self, name: Any) -> int:
        """The number of a node; refuses what is not one."""
        if not is_whole(name, 0) or name >= self.n_nodes:
            raise ValueError(f"constraints: there is no node {short(name)} among {self.n_nodes}")
        return int(name)

    def known(self, node: int, label: Hashable) -> int:
        """The code of a label that the node must have."""
        found = self.code(node, label)
        if found is None:
            raise ValueError(f"constraints: node {node} has no label {short(label)}")
        return found

    def holders(self, label: Hashable, nodes: Any) -> list[tuple[int, int]]:
        """Nodes, all or some, that may take a label, with its code there."""
        if nodes is not None:
            return [(v, self.known(v, label)) for v in dict.fromkeys(map(self.node, nodes))]
        pairs = [(v, self.code(v, label)) for v in range(self.n_nodes)]
        found = [(v, k) for v, k in pairs if k is not None]
        if not found:
            raise ValueError(f"constraints: no node has a label {short(label)}")
        return found


class Constraint(ABC):
    """Something that a predicted output must keep."""

    @abstractmethod
    def rows(self, graph: Graph) -> list[Linear]:
        """The constraint as bounds on sums of indicators of labels."""


@dataclass(frozen=True)
class Fixed(Constraint):
    """Labels of some nodes: a mapping from node to label."""

    labels: Mapping[Any, Hashable]

    def rows(self, graph: Graph) -> list[Linear]:
        named = [(graph.node(name), label) for name, label in self.labels.items()]
        return [Linear([(v, graph.known(v, k))], 1.0, 1.0) for v, k in named]


@dataclass(frozen=True)
class Forbidden(Constraint):
    """No edge from ``first`` to ``second``: labels of its two ends, in the order of the edge.

    ``pairs``: the pairs of nodes meant, which need no edge between them; None: every edge.
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
                graph.holders(label, None)  # refuses unknown ones
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
    """Constraints of every example: the same list for all, or a list for each."""
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
