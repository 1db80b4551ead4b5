"""Tree: a grid cell for each part of a tree of parts (pictorial structures, landmarks).

    <w, Psi(x, y)> = sum_p <w_p, x[y_p]> + sum_e <v_e, (r, r^2, c, c^2)>
    (r, c)         = (place of the child - place of its parent - anchor_e) / spread_e
    Delta(y, y')   = mean_p |y_p - y'_p|, in cells of the grid

anchor_e is the mean displacement in training, spread_e is three standard deviations of it, but at least three
cells.

x is a map of features, (rows, columns, d). ``coef_`` holds the weights of the parts (P, d) ravelled, then the
weights of the springs (P - 1, 4) ravelled, in the order of ``edges_``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

from maxmargin._core import core
from maxmargin.data.arrays import array_of, check_lengths
from maxmargin.io.fields import MOST_FEATURES, FieldError, count, flag, table
from maxmargin.io.quoting import short
from maxmargin.models.examples import CompiledExamples
from maxmargin.models.extent import Extent
from maxmargin.models.protocol import Model

# Standard deviations in a spread. With a smaller value the features of springs become larger than
# the features of parts, and training takes more passes.
LOOSE = 3.0


class TreeExamples(CompiledExamples):
    """Maps in the core."""

    strict = False  # whether the loss counts misplaced parts

    def __init__(
        self,
        model: Tree,
        maps: list[np.ndarray],
        truth: np.ndarray,
        known: np.ndarray | None = None,
    ):
        self.columns: np.ndarray = np.array([x.shape[1] for x in maps], dtype=np.int64)
        self.places: np.ndarray = np.array(
            [[x.shape[0] * x.shape[1]] for x in maps], dtype=np.int64
        )
        self.parts: int = model.n_parts_
        self.maps, self.springs = maps, (model.anchors_, model.spreads_)
        springs = np.ascontiguousarray(np.hstack([model.anchors_, model.spreads_]))
        known = np.empty(0, dtype=np.uint8) if known is None else known.astype(np.uint8)
        strict = self.strict
        self.take(core.TreeData(maps, model.types_, model.edges_, springs, truth, known, strict))

    def extent(self) -> Extent:
        largest = np.array([max(float(x.max()), -float(x.min())) for x in self.maps])
        d, (anchors, spreads) = self.maps[0].shape[2], self.springs
        sides = np.array([x.shape[:2] for x in self.maps], dtype=np.float64)
        # Springs are parabolas over places: their terms are squares of coordinates in units of spreads.
        reach = (sides[:, None] + np.abs(anchors)) / spreads
        stretches = (2 * reach + 2 * reach**2).sum(axis=(1, 2))
        lengths = self.parts * (np.sqrt(d) * largest + 1) + stretches
        return Extent(lengths, d + 16 * self.parts, self.parts, self.n * self.parts)

    def output_sizes(self, blocks: np.ndarray) -> np.ndarray:
        return np.full(len(blocks), self.parts, dtype=np.int64)

    def margins(self, w: Any, n_jobs: int = 1) -> list[np.ndarray]:
        found = self.answers.margins(self.packed(w), n_jobs)
        return list(found.reshape(self.n, self.parts))

    def decode(self, codes: np.ndarray) -> list[np.ndarray]:
        """Return the rows and columns of the parts of every example."""
        table = codes.reshape(self.n, self.parts).astype(np.int64)
        places = np.stack([table // self.columns[:, None], table % self.columns[:, None]], axis=2)
        return list(places)


class Tree(Model):
    """Parts with places, joined by springs along the edges of a tree.

    Parameters
    ----------
    edges : sequence of pairs of parts, or None
        The tree; the first part of its first edge is the root. None: the tree in which the displacements
        between joined parts vary the least over the training examples, with part 0 as its root.
    """

    n_parts_: int
    n_features_: int
    anchors_: np.ndarray
    spreads_: np.ndarray

    def __init__(self, edges: Any = None):
        self.edges = edges

    def initialize(self, X: Sequence[Any], Y: Sequence[Any]) -> None:
        """Learn the number of parts and of features, the tree, and the springs' lengths at rest."""
        check_lengths(X, Y)
        maps = read_maps(X)
        self.learn(np.stack(read_places(Y, maps)), maps[0].shape[2])

    def learn(self, places: np.ndarray, n_features: int) -> None:
        """Learn the tree and its springs from places (n, P, 2), with NaN for unknown places."""
        n_parts, places = places.shape[1], places.astype(np.float64)
        ends = spanning_tree(places) if self.edges is None else given_tree(self.edges, n_parts)
        between = places[:, ends[:, 1]] - places[:, ends[:, 0]]
        lost = np.flatnonzero(np.isnan(between).all(axis=(0, 2)))
        if len(lost):
            raise ValueError(
                f"Y has no example with places for both parts {ends[lost[0]].tolist()}; at least "
                "one is needed"
            )
        spreads = LOOSE * np.maximum(np.nanstd(between, axis=0), 1.0)
        self._take(ends, np.nanmean(between, axis=0), spreads, n_features)

    def _take(
        self, edges: np.ndarray, anchors: np.ndarray, spreads: np.ndarray, n_features: int
    ) -> None:
        """Set the fitted attributes."""
        self.n_parts_, self.n_features_ = len(edges) + 1, n_features
        self.edges_: np.ndarray = np.ascontiguousarray(edges, dtype=np.int32)
        self.anchors_, self.spreads_ = anchors, spreads
        self._type([1] * self.n_parts_)

    def _type(self, counts: list[int]) -> None:
        """Set the types of each part, and the offsets of states, springs and pairs of types."""
        self.types_: np.ndarray = np.array(counts, dtype=np.int32)
        self.first_: np.ndarray = np.cumsum([0, *counts])
        above, below = self.types_[self.edges_].T if len(self.edges_) else np.ones((2, 0), int)
        self.spring_first_: np.ndarray = np.cumsum([0, *below])
        several = np.where(above * below > 1, above * below, 0)
        self.pair_first_: np.ndarray = np.cumsum([0, *several])
        size = self.first_[-1] * self.n_features_ + 4 * self.spring_first_[-1]
        self.size_joint_feature: int = int(size + self.pair_first_[-1])

    def bind(self, X: Sequence[Any], Y: Any = None, node_weight: Any = None) -> TreeExamples:
        """Bind the model to these data; without Y for prediction only."""
        if node_weight is not None:
            raise ValueError(
                "node_weight must be None, because all parts of a Tree count the same; use "
                "sample_weight"
            )
        check_lengths(X, Y)
        maps = read_maps(X, self.n_features_)
        truth = np.empty(0, dtype=np.int32)
        if Y is not None:
            places = read_places(Y, maps, self.n_parts_)
            rows = [y[:, 0] * x.shape[1] + y[:, 1] for x, y in zip(maps, places, strict=True)]
            truth = np.concatenate(rows).astype(np.int32)
        return TreeExamples(self, maps, truth)

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Return Psi(x, y), in the order of ``coef_``."""
        maps = read_maps([x], self.n_features_)
        (places,) = read_places([y], maps, self.n_parts_)
        parts = maps[0][places[:, 0], places[:, 1]].astype(np.float64)
        return np.concatenate([parts.ravel(), self.stretches(places).ravel()])

    def stretches(self, places: np.ndarray) -> np.ndarray:
        """Return (r, r^2, c, c^2) of every spring."""
        between = places[self.edges_[:, 1]] - places[self.edges_[:, 0]]
        z = (between - self.anchors_) / self.spreads_
        return np.stack([z[:, 0], z[:, 0] ** 2, z[:, 1], z[:, 1] ** 2], axis=1)

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return Delta(y, y_hat), the mean distance of the parts."""
        left, right = (np.asarray(places, dtype=np.float64) for places in (y, y_hat))
        if left.shape != right.shape or left.ndim != 2:
            raise ValueError(f"places of shape {left.shape} and {right.shape} cannot be compared")
        return float(np.linalg.norm(left - right, axis=1).mean())

    def agreement(self, y: Any, y_hat: Any) -> tuple[float, float]:
        """Return the number of parts in their true cell, and the number of parts."""
        left, right = np.asarray(y), np.asarray(y_hat)
        if left.shape != right.shape:
            raise ValueError(f"places of shape {left.shape} and {right.shape} cannot be compared")
        same = (left == right).all(axis=1)
        return float(same.sum()), float(len(same))

    def unpack(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parts of w: ``parts`` (P, d), and ``springs`` (P - 1, 4) in the order of ``edges_``.

        If parts have types, ``parts`` has a row for each type, ``springs`` has a row for each type of a
        child, and there are ``pairs`` of types.
        """
        ends = [self.first_[-1] * self.n_features_]
        ends.append(ends[0] + 4 * self.spring_first_[-1])
        parts, springs, pairs = np.split(np.asarray(w), ends)
        found = {"parts": parts.reshape(-1, self.n_features_), "springs": springs.reshape(-1, 4)}
        return found | ({"pairs": pairs} if self.types_.max() > 1 else {})

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        state = {"n_features": int(self.n_features_), "given": self.edges is not None}
        return state, {"edges": self.edges_, "anchors": self.anchors_, "spreads": self.spreads_}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Tree:
        edges = table(arrays, "edges", np.int32, -1, 2)
        springs = [
            table(arrays, name, np.float64, len(edges), 2) for name in ("anchors", "spreads")
        ]
        if not (springs[1] > 0).all():
            raise FieldError("the spreads must be positive")
        if len(edges) and not np.array_equal(given_tree(edges, len(edges) + 1), edges):
            raise FieldError("the edges must be a tree in which each edge leads away from the root")
        model = cls(edges.tolist() if flag(state, "given") else None)
        model._take(edges, springs[0], springs[1], count(state, "n_features", 1, MOST_FEATURES))
        return model


def read_maps(X: Sequence[Any], n_features: int | None = None) -> list[np.ndarray]:
    """Return maps of features as row-major float32 or float64 arrays; raise ValueError for anything else."""
    maps: list[np.ndarray] = []
    for i, item in enumerate(X):
        x = array_of(item, f"X[{i}]")
        if x.ndim != 3 or 0 in x.shape:
            raise ValueError(f"X[{i}] must be (rows, columns, features), got shape {x.shape}")
        if x.dtype.kind not in "biuf":
            raise ValueError(f"X[{i}] must hold numbers, got {x.dtype}")
        if x.dtype not in (np.float32, np.float64):
            x = x.astype(np.float64)
        n_features = x.shape[2] if n_features is None else n_features
        if x.shape[2] != n_features:
            raise ValueError(f"X[{i}] has {x.shape[2]} features, expected {n_features}")
        if not np.isfinite(x).all():
            raise ValueError(f"X[{i}] holds NaN or infinity")
        maps.append(np.ascontiguousarray(x))
    return maps


def read_places(
    Y: Sequence[Any], maps: list[np.ndarray], n_parts: int | None = None, unknown: bool = False
) -> list[np.ndarray]:
    """Return rows and columns of the parts, (P, 2) whole numbers inside their maps.

    With ``unknown``, places may also be NaN.
    """
    places: list[np.ndarray] = []
    for i, (item, x) in enumerate(zip(Y, maps, strict=True)):
        y = array_of(item, f"Y[{i}]")
        if y.ndim != 2 or y.shape[1] != 2 or len(y) == 0 or y.dtype.kind not in "iuf":
            raise ValueError(f"Y[{i}] must be (parts, 2), rows and columns, got shape {y.shape}")
        n_parts = len(y) if n_parts is None else n_parts
        if len(y) != n_parts:
            raise ValueError(f"Y[{i}] has {len(y)} parts, expected {n_parts}")
        lost = np.isnan(y).all(axis=1) if unknown else np.zeros(len(y), dtype=bool)
        if not np.array_equal(y[~lost], np.floor(y[~lost])):
            raise ValueError(f"Y[{i}] must hold whole cells of the grid; round the places")
        outside = np.flatnonzero(~lost & ((y < 0) | (y >= x.shape[:2])).any(axis=1))
        if len(outside):
            p = int(outside[0])
            raise ValueError(
                f"Y[{i}][{p}] = {y[p].tolist()} is outside its map of {x.shape[0]} rows and "
                f"{x.shape[1]} columns"
            )
        places.append(y.astype(np.float64 if unknown else np.int64))
    return places


def spanning_tree(places: np.ndarray) -> np.ndarray:
    """Return the tree of the least total variance between its parts."""
    between = places[:, :, None] - places[:, None, :]
    # scipy reads a distance of zero as no edge, so add 1.
    variance = np.nanvar(between, axis=0).sum(axis=2) + 1.0
    n_parts = places.shape[1]
    links = minimum_spanning_tree(np.triu(variance, 1)).tocoo()
    return away_from_root(np.stack([links.row, links.col], axis=1), 0, n_parts)


def given_tree(edges: Any, n_parts: int) -> np.ndarray:
    """Return the tree that the user named, from its root downwards."""
    links = array_of(edges, "edges")
    links = np.empty((0, 2), np.int64) if links.size == 0 else links
    if links.ndim != 2 or links.shape[1] != 2 or links.dtype.kind not in "iu":
        raise ValueError(f"edges must be pairs of parts, got {short(edges)}")
    if links.size and (links.min() < 0 or links.max() >= n_parts):
        raise ValueError(f"edges: parts are 0 to {n_parts - 1}, got {links.tolist()}")
    if len(links) != n_parts - 1:
        raise ValueError(
            f"edges must be a tree of all parts, with {n_parts - 1} edges for {n_parts} parts, "
            f"got {len(links)}"
        )
    return away_from_root(links, int(links[0, 0]) if len(links) else 0, n_parts)


def away_from_root(links: np.ndarray, root: int, n_parts: int) -> np.ndarray:
    """Return edges as (parent, child), ordered so that each parent comes before its children."""
    neighbours: list[list[int]] = [[] for _ in range(n_parts)]
    for a, b in links.tolist():
        neighbours[a].append(b)
        neighbours[b].append(a)
    reached, edges, front = {root}, [], [root]
    for parent in front:  # ``front`` grows during the loop
        for child in neighbours[parent]:
            if child not in reached:
                reached.add(child)
                edges.append((parent, child))
                front.append(child)
    if len(reached) != n_parts:
        lost = sorted(set(range(n_parts)) - reached)
        raise ValueError(f"edges must be a tree of all parts, but no path leads to {lost}")
    return np.array(edges, dtype=np.int64).reshape(-1, 2)
