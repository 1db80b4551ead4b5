"""What a chain scores besides its nodes and transitions: features of edges, and three labels in a row.

    sum_{t > 0} <B[y_{t-1}, y_t], e_t>  +  sum_{t > 1} D[y_{t-2}, y_{t-1}, y_t]

In ``coef_`` after all else: B (K, K, m) ravelled where edges have m features, D (K, K, K) ravelled where the
chain is of second order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin._core import core
from maxmargin.data.attributes import Vocabulary, are_attributes
from maxmargin.data.memory import FeatureRows, feature_rows, shape_of
from maxmargin.io.fields import MOST_FEATURES, FieldError, count, field_of, flag, texts

MOST_LABELS = 256  # of an edge's table, and of a kept labelling in the core
MOST_LISTED = 48  # labels of a chain of second order whose k best are listed: K^4 numbers


def count_rows(e: Any) -> int:
    """Number of edges that features are given for."""
    return e.shape[0] if hasattr(e, "shape") else len(e)


class ChainEdges:
    """The edges of a fitted chain.

    Parameters
    ----------
    featured : bool
        Whether edges have features.
    triples : bool
        Whether three labels in a row have a weight.
    """

    def __init__(self, featured: bool, triples: bool):
        self.featured, self.triples = bool(featured), bool(triples)
        self.n_features = 0
        self.vocabulary: Vocabulary | None = None

    def split(self, X: Sequence) -> tuple[Sequence, Sequence | None]:
        """What is given for nodes and for edges, each a list over examples."""
        if not self.featured:
            return X, None
        for i, x in enumerate(X):
            if not isinstance(x, tuple | list) or len(x) != 2:
                raise ValueError(
                    f"X[{i}] must be a pair (nodes, edges), since the chain has edges=True: features of the "
                    f"T positions and of the T - 1 edges between them"
                )
        return [x[0] for x in X], [x[1] for x in X]

    def learn(self, edges: Sequence | None, n_labels: int) -> None:
        """Learn the features or the attribute names of edges."""
        if n_labels > MOST_LABELS:
            raise ValueError(
                f"features of edges and order=2 take at most {MOST_LABELS} labels, got {n_labels}"
            )
        if edges is None:
            return
        if are_attributes(edges):
            self.vocabulary = Vocabulary()
            self.vocabulary.transform(edges, grow=True)
            self.n_features = len(self.vocabulary)
            return
        first = next((i for i, e in enumerate(edges) if count_rows(e)), 0)
        shape = shape_of(edges[first], f"X[{first}][1]")
        if len(shape) != 2:
            raise ValueError(
                f"X[{first}][1] must have two dimensions (edges, features), got shape {shape}"
            )
        self.n_features = int(shape[1])

    def read(self, edges: Sequence | None, lengths: np.ndarray) -> FeatureRows | None:
        """The rows of all edges, as many as there are neighbours."""
        if edges is None:
            return None
        for i, (e, length) in enumerate(zip(edges, lengths, strict=True)):
            if count_rows(e) != max(length - 1, 0):
                raise ValueError(
                    f"X[{i}] has {length} positions, so {max(length - 1, 0)} edges, but features of "
                    f"{count_rows(e)}"
                )
        if self.vocabulary is not None:
            edges = self.vocabulary.transform(edges)
        elif not any(map(sp.issparse, edges)):  # a single position may have [] for its edges
            edges = [e if count_rows(e) else np.zeros((0, self.n_features)) for e in edges]
        return feature_rows(edges, self.n_features, None, "X[{}][1]")

    def data(self, chain: Any, rows: FeatureRows | None) -> Any:
        """The chain in the core with its edges."""
        return core.EdgeChainData(chain, None if rows is None else rows.core.rows, self.triples)

    def size(self, K: int) -> int:
        """Number of weights."""
        return K * K * self.n_features + K**3 * self.triples

    def joint_feature(self, edges: Any, codes: np.ndarray, K: int) -> list[np.ndarray]:
        """Sums of edge features per pair of labels, counts of triples."""
        parts = []
        if self.featured:
            if self.vocabulary is not None:
                edges = self.vocabulary.transform([edges])[0]
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
        """Named parts of their weights: edges (K, K, m), triples (K, K, K)."""
        pairs, triples = np.split(w, [K * K * self.n_features])
        parts = {"edges": pairs.reshape(K, K, self.n_features)} if self.featured else {}
        return {**parts, "triples": triples.reshape(K, K, K)} if self.triples else parts

    def state(self) -> dict[str, Any]:
        names = None if self.vocabulary is None else list(self.vocabulary.index)
        if not all(isinstance(name, str) for name in names or ()):
            raise ValueError(
                "save: attribute names of edges must be strings to be written to a file"
            )
        return {
            "edges": self.featured,
            "triples": self.triples,
            "n_edge_features": self.n_features,
            "edge_attributes": names,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], n_labels: int) -> ChainEdges | None:
        """Read what a model file says; None: edges have neither."""
        if "edges" not in state:
            return None
        made = cls(flag(state, "edges"), flag(state, "triples"))
        if n_labels > MOST_LABELS:
            raise FieldError(f"edges of a chain take at most {MOST_LABELS} labels, got {n_labels}")
        made.n_features = count(state, "n_edge_features", 0, MOST_FEATURES)
        if made.n_features and not made.featured:
            raise FieldError("features of edges, but edges without features")
        if field_of(state, "edge_attributes") is not None:
            names = texts(state, "edge_attributes")
            if len(names) != made.n_features:
                raise FieldError(
                    f"{len(names)} attributes of edges, but {made.n_features} features"
                )
            made.vocabulary = Vocabulary()
            made.vocabulary.index = {name: j for j, name in enumerate(names)}
        return made if made.featured or made.triples else None
