"""Where a stream comes from: examples that stay where they are, or chunks of an iterable.

A source hands out examples once a pass, in their order, so many bytes at a time, as copies in memory. Those
that are named need not be read again, nor those without a weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.data.arrays import floats
from maxmargin.data.mapped import Mapped
from maxmargin.data.store import (
    BYTES_A_ROW,
    BYTES_AN_EXAMPLE,
    Part,
    Store,
    bytes_of,
    kind_of,
    lengths_of,
    table_bytes,
)

RUN = 4096  # examples whose places are looked at together


@dataclass(frozen=True)
class Chunk:
    """Examples at hand: their numbers in the stream, what they are, and their weights."""

    index: np.ndarray
    part: Part
    weights: np.ndarray


class Stored:
    """Examples that can be asked for by number: mapped shards, arrays, lists."""

    repeatable = True

    def __init__(self, X: Any, Y: Any, weights: np.ndarray | None, flat: bool | None):
        self.X, self.Y, self.weights = X, Y, weights
        self.n = len(Y)
        self.flat = flat

    def store(self) -> Store:
        """An empty store for examples like these."""
        return Store(kind_of(self.X, self.flat))

    def output_sizes(self, blocks: np.ndarray) -> np.ndarray:
        """Entries of an output of each of these examples: one for each row of it."""
        flat = self.store().kind != "sequences"
        return np.ones(len(blocks), np.int64) if flat else lengths_of(self.X, blocks)

    @property
    def weight(self) -> float:
        """Sum of the weights."""
        return float(self.n) if self.weights is None else float(self.weights.sum())

    def chunks(self, store: Store, known: np.ndarray, most: float) -> Iterator[Chunk]:
        """The examples but the known ones, about `most` bytes at a time."""
        waiting = np.empty(0, np.int64)
        for first in range(0, self.n, RUN):
            waiting = np.concatenate([waiting, self._fresh(first, known)])
            last = first + RUN >= self.n
            while len(waiting):
                count = self._count(waiting, store, most)
                if count == len(waiting) and not last:
                    break  # there may be room for more
                yield self._chunk(waiting[:count], store)
                waiting = waiting[count:]

    def _fresh(self, first: int, known: np.ndarray) -> np.ndarray:
        index = np.arange(first, min(first + RUN, self.n))
        fresh = (
            ~np.isin(index, known, assume_unique=True) if len(known) else np.ones(len(index), bool)
        )
        if self.weights is not None:
            fresh &= self.weights[index] > 0
        return index[fresh]

    def _count(self, index: np.ndarray, store: Store, most: float) -> int:
        """How many of these examples take that many bytes; at least one."""
        rows = lengths_of(self.X, index) if store.kind == "sequences" else np.ones(len(index))
        each = BYTES_AN_EXAMPLE + rows * (BYTES_A_ROW + bytes_a_row(self.X))
        if store.kind == "sequences":
            each = each + table_bytes(rows)
        return max(1, int(np.searchsorted(np.cumsum(each), most, side="right")))

    def _chunk(self, index: np.ndarray, store: Store) -> Chunk:
        weights = np.ones(len(index)) if self.weights is None else self.weights[index]
        return Chunk(index, store.copy_of(self.X, self.Y, index), weights)


def bytes_a_row(X: Any) -> float:
    """Bytes of a row of features, on average."""
    if not isinstance(X, Mapped):
        return 100.0
    rows = max(1, int(X.firsts[-1]))
    if not X.sparse:
        return float(X.n_features * X.dtype.itemsize)
    return X.nnz * (4.0 + X.dtype.itemsize) / rows


class Chunks:
    """Chunks (X, Y) or (X, Y, weights) of an iterable; ``check`` refuses what the model cannot take."""

    def __init__(self, chunks: Iterable[Any], flat: bool | None, check: Callable | None = None):
        self.iterable, self.flat, self.check = chunks, flat, check
        self.repeatable = not isinstance(chunks, Iterator)
        self.n, self.weight, self.passes = 0, 0.0, 0
        self.first: Any = None  # the first chunk, where it was looked at before

    def peek(self) -> tuple[Any, Any, np.ndarray]:
        """The first chunk, which is not lost for it."""
        self.running = iter(self.iterable)
        try:
            self.first = checked(next(self.running), 0)
        except StopIteration:
            raise ValueError("X: the iterable of chunks is empty") from None
        self.n, self.weight = len(self.first[1]), float(self.first[2].sum())
        return self.first

    def store(self) -> Store:
        """An empty store for examples like those of the first chunk."""
        return Store(kind_of(self.first[0], self.flat))

    def _all(self) -> Iterator[tuple[Any, Any, np.ndarray]]:
        """The chunks of a pass."""
        if self.passes and not self.repeatable:
            raise ValueError(
                "X is an iterator, which gives its chunks once: give an iterable that can be read again, or "
                "solver=solvers.Streaming(passes=1, verify=False)"
            )
        fresh, self.passes = self.passes == 0, self.passes + 1
        if fresh:
            yield self.first
        running = self.running if fresh else iter(self.iterable)
        for number, chunk in enumerate(running, int(fresh)):
            yield checked(chunk, number)

    def chunks(self, store: Store, known: np.ndarray, most: float) -> Iterator[Chunk]:
        """The examples but the known ones, about `most` bytes at a time."""
        counted, first, weight = self.passes == 0, 0, 0.0
        for X, Y, weights in self._all():
            weight += float(weights.sum())
            if counted:
                self.n, self.weight = first + len(Y), weight
                if self.check is not None:
                    self.check(X, Y)
            index = np.arange(first, first + len(Y))
            first += len(Y)
            fresh = np.flatnonzero((weights > 0) & ~np.isin(index, known))
            yield from self._pieces(X, Y, weights, index, fresh, store, most)
        if first != self.n:
            raise ValueError(
                f"X gave {self.n} examples in its first pass and {first} in a later one"
            )

    def _pieces(self, X, Y, weights, index, fresh, store, most) -> Iterator[Chunk]:
        while len(fresh):
            try_ = store.copy_of(X, Y, fresh[: max(1, int(most / BYTES_AN_EXAMPLE))])
            count = max(1, int(np.searchsorted(np.cumsum(bytes_of(try_)), most, side="right")))
            some = fresh[:count]
            part = try_ if count >= len(try_) else store.selected(try_, np.arange(count))
            yield Chunk(index[some], part, weights[some])
            fresh = fresh[count:]


def checked(chunk: Any, number: int) -> tuple[Any, Any, np.ndarray]:
    """A chunk with weights; refuses what is none."""
    if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
        raise ValueError(
            f"chunk {number} of X must be a tuple (X, Y) or (X, Y, sample_weight), got {type(chunk).__name__}"
        )
    X, Y = (part.to_numpy() if hasattr(part, "iloc") else part for part in chunk[:2])
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if n == 0 or n != len(Y):
        raise ValueError(f"chunk {number} of X has {n} examples and {len(Y)} outputs")
    weights = (
        np.ones(n) if len(chunk) == 2 else floats(chunk[2], f"chunk {number} of X: sample_weight")
    )
    if weights.shape != (n,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(
            f"chunk {number} of X: sample_weight must be {n} numbers that are not negative"
        )
    return X, Y, weights


def is_stream(X: Any, Y: Any) -> bool:
    """Whether X is an iterable of chunks: no outputs beside it, and no examples itself."""
    return Y is None and hasattr(X, "__iter__") and not hasattr(X, "shape")
