"""Scores of a chain besides nodes and transitions: features of edges, and three labels in a row.

    sum_{t > 0} <B[y_{t-1}, y_t], e_t>  +  sum_{t > 1} D[y_{t-2}, y_{t-1}, y_t]

These weights come last in ``coef_``: B (K, K, m) ravelled if edges have m features, then D (K, K, K)
ravelled if the chain is of second order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin._core import core
from maxmargin.data.attributes import (
    encoder_of,
    known_attributes,
    learnt_attributes,
    saved_attributes,
)
from maxmargin.data.mapped import Counted, MappedSequences, encoder_in, some_of
from maxmargin.data.memory import FeatureRows, feature_rows, width_of_table
from maxmargin.io.fields import MOST_FEATURES, FieldError, count, flag

# Limit on labels with features of edges or order=2, whose tables grow with K^2 or K^3. The core
# checks the same limit (cpp/bindings/edge_chain.cpp).
MOST_EDGE_LABELS = 256
# Limit on labels for listing the k best of such a chain: its table has K^4 numbers.
MOST_LABELS_OF_K_BEST = 48


EDGE = "X[{}][1], edge {}".format


def count_rows(e: Any) -> int:
    """Return the number of edges that have features."""
    return e.shape[0] if hasattr(e, "shape") else len(e)


@dataclass(eq=False, repr=False)
class EdgedSequences(Counted, Sequence[Any]):
    """Inputs of nodes and of edges, with attributes already converted to features."""

    nodes: Any
    edges: Any

    def __post_init__(self) -> None:
        self.encoder: Any = encoder_in(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, int | np.integer):
            return self.nodes[key], self.edges[key]
        return EdgedSequences(some_of(self.nodes, key), some_of(self.edges, key))


def split_edges(X: Any) -> tuple[Any, Any]:
    """Split the inputs of examples into inputs of nodes and inputs of edges."""
    if isinstance(X, EdgedSequences):
        return X.nodes, X.edges
    for i, x in enumerate(X):
        if not isinstance(x, tuple | list) or len(x) != 2:
            raise ValueError(
                f"X[{i}] must be a pair (nodes, edges) of features of the T positions and of the "
                "T - 1 edges between them, because the chain has edges=True"
            )
    return [x[0] for x in X], [x[1] for x in X]


def edge_features(edges: Any, known: ChainEdges | None, n_jobs: int = 1) -> Any:
    """Convert attributes of edges to features, with the names of a fitted chain or with their own."""
    if known is None:
        return learnt_attributes(edges, True, EDGE, n_jobs)
    return known_attributes(edges, known.encoder, True, EDGE, n_jobs)


@dataclass(eq=False, repr=False)
class ChainEdges:
    """The edges of a fitted chain.

    Parameters
    ----------
    featured : bool
        Whether edges have features.
    triples : bool
        Whether three labels in a row have a weight.
    """

    featured: bool
    triples: bool
    n_features: int = 0
    encoder: Any = None  # encoder of the attributes

    def check_labels(self, n_labels: int) -> None:
        """Raise ValueError for more labels than edges can have weights for."""
        if n_labels > MOST_EDGE_LABELS:
            raise ValueError(
                f"features of edges and order=2 take at most {MOST_EDGE_LABELS} labels, got {n_labels}"
            )

    def learn(self, edges: Sequence[Any] | None, n_labels: int) -> None:
        """Learn the features or the attribute names of edges."""
        self.check_labels(n_labels)
        if edges is None:
            return
        self.encoder = encoder_in(edges)
        if self.encoder is not None:
            self.n_features = self.encoder.n_features_
            return
        first = next((i for i, e in enumerate(edges) if count_rows(e)), 0)
        says = "two dimensions (edges, features)"
        self.n_features = width_of_table(edges[first], f"X[{first}][1]", says)

    def read(self, edges: Sequence[Any] | None, lengths: np.ndarray) -> FeatureRows | None:
        """Return the rows of all edges; check that each example has one edge fewer than positions."""
        if edges is None:
            return None
        edges = edge_features(edges, self)
        given = (
            np.diff(edges.offsets) if isinstance(edges, MappedSequences) else map(count_rows, edges)
        )
        for i, (found, length) in enumerate(zip(given, lengths, strict=True)):
            if found != max(length - 1, 0):
                raise ValueError(
                    f"X[{i}] has {length} positions, so {max(length - 1, 0)} edges, but features "
                    f"for {found} edges"
                )
        if not isinstance(edges, MappedSequences) and not any(map(sp.issparse, edges)):
            # a single position may have [] for its edges
            edges = [e if count_rows(e) else np.zeros((0, self.n_features)) for e in edges]
        return feature_rows(edges, self.n_features, None, "X[{}][1]")

    def data(self, chain: Any, rows: FeatureRows | None) -> Any:
        """Return the data set of the chain with its edges, in the core."""
        return core.EdgeChainData(chain, None if rows is None else rows.core.rows, self.triples)

    def size(self, K: int) -> int:
        """Return the number of weights."""
        return K * K * self.n_features + K**3 * self.triples

    def joint_feature(self, edges: Any, codes: np.ndarray, K: int) -> list[np.ndarray]:
        """Return sums of edge features for each pair of labels, and counts of triples."""
        parts = []
        if self.featured:
            edges = edge_features([edges], self)[0]
            rows = edges.toarray() if sp.issparse(edges) else np.asarray(edges, dtype=np.float64)
            pairs = np.zeros((K, K, self.n_features))
            np.add.at(pairs, (codes[:-1], codes[1:]), rows.reshape(len(codes) - 1, self.n_features))
            parts.append(pairs.ravel())
        if self.triples:
            triples = np.zeros((K, K, K))
            np.add.at(triples, (codes[:-2], codes[1:-1], codes[2:]), 1.0)
            parts.append(triples.ravel())
        return parts

    def unpack(self, w: np.ndarray, K: int) -> dict[str, np.ndarray]:
        """Return the named parts of the weights: edges (K, K, m), triples (K, K, K)."""
        pairs, triples = np.split(w, [K * K * self.n_features])
        parts = {"edges": pairs.reshape(K, K, self.n_features)} if self.featured else {}
        return {**parts, "triples": triples.reshape(K, K, K)} if self.triples else parts

    def state(self) -> dict[str, Any]:
        return {
            "edges": self.featured,
            "triples": self.triples,
            "n_edge_features": self.n_features,
            **saved_attributes(self.encoder, "edge_attributes"),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], n_labels: int) -> ChainEdges | None:
        """Read the edges from a model file; None if edges have neither features nor triples."""
        if "edges" not in state:
            return None
        made = cls(flag(state, "edges"), flag(state, "triples"))
        if n_labels > MOST_EDGE_LABELS:
            raise FieldError(
                f"edges of a chain take at most {MOST_EDGE_LABELS} labels, got {n_labels}"
            )
        made.n_features = count(state, "n_edge_features", 0, MOST_FEATURES)
        if made.n_features and not made.featured:
            raise FieldError("the model has features of edges, but edges is false")
        made.encoder = encoder_of(state, made.n_features, True, "edge_attributes")
        return made if made.featured or made.triples else None
