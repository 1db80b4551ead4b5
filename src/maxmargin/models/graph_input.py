"""The form of an example of a factor graph, and functions that read it.

An item of X is a tuple (nodes, edges), with up to three more parts (edge_features, types, cliques):

    nodes           array or sparse matrix (N, d), row v the features of node v; or a mapping from a type of
                    nodes to a matrix whose rows are the nodes of that type, in the order of their numbers
    edges           whole numbers (E, 2): the nodes that each edge joins
    edge_features   array or sparse matrix (E, d_e), or None
    types           the type of each node (N,), any hashable values, or None: all nodes are of one type
    cliques         factors over several nodes: whole numbers (F, m), the nodes of each; a mapping from names
                    to these, if there are several kinds; or None
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from maxmargin.data.arrays import array_of, count_of, unmasked
from maxmargin.data.attributes import Place
from maxmargin.data.labels import LabelSet, as_array, is_plain_array
from maxmargin.data.mapped import Counted, encoder_in, some_of
from maxmargin.io.quoting import short
from maxmargin.models.cliques import read_cliques

ONE_TYPE = "node"  # the default name of a type


@dataclass(frozen=True)
class Item:
    """One example, split into its parts; ``types`` as the user gave them, None for a single type."""

    nodes: Any
    edges: np.ndarray
    edge_features: Any
    types: Any
    n_nodes: int
    cliques: dict[Hashable, np.ndarray] = field(default_factory=dict)

    def type_codes(self, types: LabelSet, where: str) -> np.ndarray:
        """Return the number of each node's type."""
        if self.types is None:
            if len(types) != 1 or types.classes[0] != ONE_TYPE:
                raise ValueError(
                    f"{where} has no types of nodes, but the model was trained with types"
                )
            return np.zeros(self.n_nodes, dtype=np.int32)
        found = types.encode(self.types, f"{where}[3]")
        if (found < 0).any():
            v = int(np.argmin(found))
            raise ValueError(
                f"{where}[3][{v}] = {short(self.types[v])} is not among the types of the model"
            )
        return found

    def matrix(self, name: Hashable, mask: np.ndarray) -> Any:
        """Return the features of the nodes of one type; None without such nodes."""
        if not isinstance(self.nodes, Mapping):
            if not sp.issparse(self.nodes) and not isinstance(self.nodes, np.ndarray):
                nodes = np.asarray(self.nodes)
            else:
                nodes = self.nodes
            return nodes if mask.all() else nodes[mask] if mask.any() else None
        return self.nodes.get(name)


@dataclass(eq=False, repr=False)
class Graphs(Counted, Sequence[Any]):
    """Examples whose node attributes were converted to features; ``encoder`` has the attribute names."""

    items: list[Any]
    encoder: Any

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, int | np.integer):
            return self.items[key]
        return Graphs(some_of(self.items, key), self.encoder)


def with_features(X: Any, convert: Callable[[list[Any], Place], Any]) -> Any:
    """Convert attributes of nodes to features with ``convert``; return other examples unchanged."""
    if isinstance(X, Graphs) or not all(isinstance(x, tuple | list) and len(x) for x in X):
        return X
    owner, tables = [], []
    for i, x in enumerate(X):
        own = list(x[0].values()) if isinstance(x[0], Mapping) else [x[0]]
        owner += [i] * len(own)
        tables += own
    found = convert(tables, lambda k, v: f"X[{owner[k]}][0], node {v}")
    encoder = encoder_in(found)
    if encoder is None:
        return X
    rows, items = iter(found), []
    for x in X:
        named = isinstance(x[0], Mapping)
        nodes = {name: next(rows) for name in x[0]} if named else next(rows)
        items.append((nodes, *x[1:]))
    return Graphs(items, encoder)


def read_item(x: Any, i: int) -> Item:
    """Read one example, and check it as far as possible without the model."""
    if not isinstance(x, tuple | list) or not 2 <= len(x) <= 5:
        raise ValueError(
            f"X[{i}] must be a tuple (nodes, edges), (nodes, edges, edge_features), (nodes, edges, "
            f"edge_features, types) or (nodes, edges, edge_features, types, cliques), got {type(x).__name__}"
        )
    nodes, edges, edge_features, types, cliques = [*x, None, None, None][:5]
    if isinstance(nodes, Mapping) and types is None:
        raise ValueError(
            f"X[{i}] has nodes by type, so its fourth part must give the type of each node"
        )
    if types is not None:
        types = types if is_plain_array(types) else as_array(list(types))
    n = len(types) if types is not None else count_of(nodes, f"X[{i}][0]")
    if n == 0:
        raise ValueError(f"X[{i}] has no nodes")
    factors = read_cliques(cliques, n, i)
    item = Item(nodes, read_edges(edges, n, i), edge_features, types, n, factors)
    check_counts(item, i)
    return item


def read_edges(edges: Any, n: int, i: int) -> np.ndarray:
    """Return edges as an (E, 2) array of node numbers."""
    array = array_of(edges, f"X[{i}][1]")
    if array.size == 0:
        return np.empty((0, 2), dtype=np.int32)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ValueError(
            f"X[{i}][1] must hold edges, whole numbers of shape (E, 2), got {array.dtype} {array.shape}"
        )
    wrong = ((array < 0) | (array >= n)).any(axis=1)
    if wrong.any():
        e = int(np.argmax(wrong))
        raise ValueError(f"X[{i}][1][{e}] = {array[e].tolist()} is outside the {n} nodes")
    loops = array[:, 0] == array[:, 1]
    if loops.any():
        e = int(np.argmax(loops))
        raise ValueError(f"X[{i}][1][{e}] joins node {array[e, 0]} to itself")
    return np.ascontiguousarray(array, dtype=np.int32)


def check_counts(item: Item, i: int) -> None:
    """Raise ValueError unless each node, and each edge with features, has one row of features."""
    if isinstance(item.nodes, Mapping):
        names = item.types.tolist()
        for name, matrix in item.nodes.items():
            expected = sum(t == name for t in names)
            found = count_of(matrix, f"X[{i}][0][{name!r}]")
            if found != expected:
                raise ValueError(
                    f"X[{i}][0][{short(name)}] has {found} rows, but {expected} nodes have that "
                    "type"
                )
        missing = [t for t in dict.fromkeys(names) if t not in item.nodes]
        if missing:
            raise ValueError(f"X[{i}][0] has no features for nodes of type {short(missing[0])}")
    elif (found := count_of(item.nodes, f"X[{i}][0]")) != item.n_nodes:
        raise ValueError(f"X[{i}][0] has {found} rows, but X[{i}][3] names {item.n_nodes} nodes")
    if item.edge_features is None:
        return
    found = count_of(item.edge_features, f"X[{i}][2]")
    if found != len(item.edges):
        raise ValueError(f"X[{i}][2] has {found} rows, but X[{i}][1] has {len(item.edges)} edges")


def read_items(X: Sequence[Any]) -> list[Item]:
    """Read all examples."""
    return [read_item(X[i], i) for i in range(len(X))]


def type_names(items: list[Item]) -> LabelSet:
    """Return the types of nodes that occur."""
    typed = [item.types is not None for item in items]
    if not any(typed):
        return LabelSet([ONE_TYPE])
    if not all(typed):
        raise ValueError(
            f"X[{int(np.argmin(typed))}] has no types of nodes, but other examples have types"
        )
    return LabelSet([t for item in items for t in item.types.tolist()])


def width_of(matrices: list[Any], where: str) -> int:
    """Return the number of features of the first matrix that is not None."""
    for i, matrix in enumerate(matrices):
        if matrix is None:
            continue
        shape = matrix.shape if hasattr(matrix, "shape") else np.shape(matrix)
        if len(shape) != 2:
            raise ValueError(
                f"{where.format(i)} must have two dimensions (rows, features), got {shape}"
            )
        return int(shape[1])
    raise ValueError(f"no example has {where.format('...')}; at least one is needed")


def without_gaps(matrices: list[Any], width: int) -> list[Any]:
    """Replace None by empty matrices of the same kind."""
    kind = next((m for m in matrices if m is not None), None)
    dtype = getattr(kind, "dtype", np.float64)
    if sp.issparse(kind):
        return [sp.csr_matrix((0, width), dtype=dtype) if m is None else m for m in matrices]
    return [np.zeros((0, width), dtype=dtype) if m is None else m for m in matrices]


def is_forest(n: int, edges: np.ndarray, cliques: Mapping[Hashable, np.ndarray]) -> bool:
    """Whether a graph has no cycle.

    Parallel edges count once, and a factor over several nodes counts as a node.
    """
    parts = [edges]
    for members in cliques.values():
        F, m = members.shape
        parts.append(np.stack([np.repeat(n + np.arange(F), m), members.ravel()], axis=1))
        n += F
    links = np.unique(np.sort(np.concatenate(parts), axis=1), axis=0)
    graph = sp.coo_matrix((np.ones(len(links)), (links[:, 0], links[:, 1])), shape=(n, n))
    return len(links) == n - connected_components(graph, directed=False, return_labels=False)


def check_output(y: Any, n: int, i: int) -> None:
    """Raise ValueError unless an output has exactly one label for each node."""
    unmasked(y, f"Y[{i}]")
    if isinstance(y, str) or not hasattr(y, "__len__") or getattr(y, "shape", None) == ():
        raise ValueError(f"Y[{i}] must hold a label for each node, got {short(y)}")
    if len(y) != n:
        raise ValueError(f"X[{i}] has {n} nodes, but Y[{i}] has {len(y)} labels")
