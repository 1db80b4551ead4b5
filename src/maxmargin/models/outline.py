"""Outlines: a few examples from which a model learns the same as from a whole part of the data.

``initialize`` reads labels, numbers of features and names of attributes. If the data lie in several places,
each place makes an outline: a few examples that contain all of these. The model is then initialised on all
outlines, one after the other, as if on all data. A model of the user may have a method
``outline(X, Y)``; otherwise ``initialize`` must see all examples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.data.labels import LabelSet, flatten
from maxmargin.data.mapped import encoder_in
from maxmargin.data.memory import shape_of, width_of_table
from maxmargin.models.chain import Chain
from maxmargin.models.chain_edges import split_edges
from maxmargin.models.flat import FlatModel
from maxmargin.models.multilabel import MultiLabel, is_matrix, members
from maxmargin.models.ranking import Ranking


def outline(model: Any, X: Any, Y: Any) -> tuple[Any, Any] | None:
    """Return an outline of these converted examples; None if the model has no outline."""
    if isinstance(model, FlatModel) and not model.joint:
        labels = LabelSet(Y).classes
        return rows_like(X, len(labels)), labels
    if isinstance(model, Chain):
        # any example may add a pair of a feature and a label that occur together
        if model.features == "observed":
            return None
        return outline_of_sequences(model, X, Y)
    if isinstance(model, MultiLabel):
        if is_matrix(Y):
            return rows_like(X, 1), np.zeros((1, Y.shape[1]), dtype=np.int64)
        labels = LabelSet(
            [label for i, y in enumerate(Y) for label in members(y, f"Y[{i}]")]
        ).classes
        return rows_like(X, 1), [labels.tolist()]
    if isinstance(model, Ranking):
        return [X[0]], [Y[0]]
    own = getattr(model, "outline", None)
    return None if own is None else own(X, Y)


def outline_of_sequences(model: Chain, X: Any, Y: Any) -> tuple[Any, Any]:
    """Return one sequence with every label and at least one edge."""
    labels = LabelSet(flatten(Y)).classes
    labels = np.concatenate([labels, labels[:1]])
    nodes, edges = split_edges(X) if model.edges else (X, None)
    x = sequence_like(nodes, len(labels), "X")
    if edges is not None:
        x = (x, sequence_like(edges, len(labels) - 1, "X[{}][1]"))
    return [x], [labels]


def sequence_like(X: Any, n: int, name: str) -> Any:
    """Return a sequence of n rows that has the features of all of X."""
    if hasattr(X, "n_features"):
        return rows_like(X, n)
    filled = next((x for x in X if shape_of(x, name)[0]), X[0])
    return rows_like(filled, n)


def rows_like(X: Any, n: int) -> Any:
    """Return n rows with the columns of X, or with the names of its attributes; they hold no numbers."""
    encoder = encoder_in(X)
    if encoder is not None and encoder.n_features is None:
        names: list[dict[Any, Any]] = [dict.fromkeys(encoder.get_feature_names_out().tolist(), 1.0)]
        return names + [{} for _ in range(n - 1)]
    if hasattr(X, "n_features"):
        return sp.csr_matrix((n, X.n_features))
    return sp.csr_matrix((n, width_of_table(X, "X", "2 dimensions (examples, features)")))
