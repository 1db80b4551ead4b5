"""Hidden types of the parts of a tree, and unknown places, in the form that ``Latent`` needs for a ``Tree``.

    <w, Psi(x, z)> = sum_p <w_{p, t_p}, x[y_p]> + sum_e ( <v_{e, t_child}, (r, r^2, c, c^2)>
                                                         + b_e[t_parent, t_child] )
    Delta(y, y')   = sum_{p known} |y_p - y'_p| / P

A complete output z is (P, 3): row, column and type of every part. A true one has a fourth column, which is
1 if the place is known. Types have no loss. A true place may be NaN, which means that it is hidden, like
the types. The completion is the best of all outputs that have the known places.

``coef_`` has three blocks. The first holds the weights of the types of all parts (S, d) ravelled, part by
part. The second holds the springs (edges by types of their child, 4) ravelled. The third holds b_e (types
of the parent, types of the child) ravelled, for each edge with several types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.data.arrays import check_lengths
from maxmargin.models.protocol import as_weights
from maxmargin.models.states import Completer, cluster
from maxmargin.models.tree import Tree, TreeExamples, read_maps, read_places


class TypedExamples(TreeExamples):
    """Maps in the core, with types of the parts."""

    def decode(self, codes: np.ndarray) -> list[np.ndarray]:
        """Return row, column and type of the parts of every example."""
        types, places = np.divmod(codes.reshape(self.n, self.parts).astype(np.int64), self.places)
        columns = self.columns[:, None]
        table = [places // columns, places % columns, types]
        return list(np.stack(table, axis=2))


class StrictExamples(TypedExamples):
    """Maps with a loss that counts wrong places, so that an output without loss is a completion."""

    strict = True


class TypedTree(Tree):
    """A fitted tree whose parts have types."""

    def __init__(self, base: Tree, counts: list[int]):
        self.__dict__.update(base.__dict__)
        self._type(counts)

    def bind(
        self, X: Sequence[Any], Y: Any = None, node_weight: Any = None, strict: bool = False
    ) -> TypedExamples:
        """Bind the model to these data; without Y for prediction only."""
        if node_weight is not None:
            raise ValueError(
                "node_weight must be None, because all parts of a Tree count the same; use "
                "sample_weight"
            )
        check_lengths(X, Y)
        maps, truth, known = read_maps(X, self.n_features_), np.empty(0, np.int32), None
        if Y is not None:
            rows = np.array([x.shape[:2] for x in maps], dtype=np.int64)[:, None]
            z = np.stack([np.asarray(y, dtype=np.int64) for y in Y])
            codes = (z[:, :, 2] * rows[:, :, 0] + z[:, :, 0]) * rows[:, :, 1] + z[:, :, 1]
            truth = np.ascontiguousarray(codes.ravel(), dtype=np.int32)
            known = z[:, :, 3].ravel() if z.shape[2] > 3 else None
        return (StrictExamples if strict else TypedExamples)(self, maps, truth, known)

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Return Psi(x, z), in the order of ``coef_``."""
        z, (map_of,) = np.asarray(y, dtype=np.int64), read_maps([x], self.n_features_)
        places, types = z[:, :2], z[:, 2]
        parts = np.zeros((self.first_[-1], self.n_features_))
        parts[self.first_[:-1] + types] = map_of[places[:, 0], places[:, 1]]
        above, below = types[self.edges_].T if len(self.edges_) else np.zeros((2, 0), int)
        springs = np.zeros((self.spring_first_[-1], 4))
        springs[self.spring_first_[:-1] + below] = self.stretches(places)
        pairs, many = np.zeros(self.pair_first_[-1]), np.diff(self.pair_first_) > 0
        widths = self.types_[self.edges_[:, 1]]
        pairs[(self.pair_first_[:-1] + above * widths + below)[many]] = 1.0
        return np.concatenate([parts.ravel(), springs.ravel(), pairs])


@dataclass(eq=False)
class PartTypes:
    """Types of the parts of a fitted tree."""

    base: Tree
    counts: list[int]

    def __post_init__(self) -> None:
        self.owner: np.ndarray = np.repeat(np.arange(len(self.counts)), self.counts)
        self.labels: np.ndarray = self.owner
        self.inner: TypedTree = TypedTree(self.base, self.counts)

    @staticmethod
    def prepare(base: Tree, X: Any, Y: Any) -> None:
        """Learn the tree and its springs from the known places."""
        check_lengths(X, Y)
        maps = read_maps(X)
        base.learn(np.stack(read_places(Y, maps, unknown=True)), maps[0].shape[2])

    @staticmethod
    def names(base: Tree) -> np.ndarray:
        """Return the numbers of the parts."""
        return np.arange(base.n_parts_)

    def begin(self, X: Any, Y: Any, start: str, seed: int) -> list[np.ndarray]:
        """Return first outputs: cluster each part by the relative positions of its neighbours.

        Unknown places are set where springs are at rest.
        """
        at_rest = np.zeros(self.inner.size_joint_feature)
        self.inner.unpack(at_rest)["springs"][:, [1, 3]] = -1.0
        found = np.stack(self.completer(X, Y)(at_rest))
        places = np.where(found[:, :, 3:] > 0, found[:, :, :2], np.nan)
        for p, count in enumerate(self.counts):
            ends = self.base.edges_[(self.base.edges_ == p).any(axis=1)]
            others = ends.sum(axis=1) - p
            if count == 1 or len(others) == 0:
                continue
            rows = (places[:, others] - places[:, [p]]).reshape(len(places), -1)
            rows = np.where(np.isnan(rows), np.nanmean(rows, axis=0), rows)
            found[:, p, 2] = cluster(rows, count, start, seed + p)
        return list(found)

    def completer(self, X: Any, Y: Any, n_jobs: int = 1) -> Completer:
        """Return a function of w that finds the best types, and the best places for unknown places."""
        maps = read_maps(X, self.base.n_features_)
        places = np.stack(read_places(Y, maps, self.base.n_parts_, unknown=True))
        known = ~np.isnan(places[:, :, :1])
        given = np.concatenate([np.where(known, places, 0), 0 * known, known], axis=2)
        examples = self.inner.bind(X, list(given), strict=True)

        def complete(w: np.ndarray) -> list[np.ndarray]:
            found = np.stack(examples.decode(examples.answers.complete(as_weights(w), n_jobs)))
            return list(np.concatenate([found, known], axis=2))

        return complete

    def observed(self, outputs: Any) -> list[np.ndarray]:
        """Return the places."""
        return [np.asarray(z)[:, :2] for z in outputs]

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return Delta, the sum of the distances of the known parts divided by the number of parts."""
        y, y_hat = np.asarray(y, dtype=np.float64), np.asarray(y_hat, dtype=np.float64)
        return self.base.loss(np.where(np.isnan(y), y_hat, y), y_hat)

    def agreement(self, y: Any, y_hat: Any) -> tuple[float, float]:
        """Return how many of the known parts are in their true cell, and how many parts are known."""
        known = ~np.isnan(np.asarray(y, dtype=np.float64)).any(axis=1)
        return self.base.agreement(np.asarray(y)[known], np.asarray(y_hat)[known])
