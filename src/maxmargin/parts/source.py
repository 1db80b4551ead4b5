"""Where parts come from: examples that stay where they are, or chunks of an iterable.

A source hands out its examples once per pass, in their order, about a given number of bytes at a time, each
time as a ``Part``: a copy in memory, packed closely. Examples in memory already need not be read again, nor
those without a weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.data.arrays import floats
from maxmargin.data.scratch import RUN
from maxmargin.models.protocol import Model
from maxmargin.models.python import bind_model, converted, portable
from maxmargin.parts.layout import EXAMPLE_BYTES, ROW_BYTES, Part, layout_of, stacked_examples
from maxmargin.problem import Formulation, Problem
from maxmargin.problem.problem import check_weights
from maxmargin.problem.regularizer import SquaredNorm
from maxmargin.solvers import Streaming

NOTHING = np.empty(0, np.int64)
NO_FREE_WEIGHTS = (
    "a stream: weights without a regulariser (an infinite scale of prior, penalized_intercept=False) have "
    "a dual bound only where sum a psi = 0 over all examples at once; give a large scale, or all examples "
    "to fit"
)


@dataclass(frozen=True)
class Settings:
    """How a stream is optimised."""

    solver: Streaming
    formulation: Formulation
    n_jobs: int
    options: dict[str, Any]  # of ``train``
    regularizer: Callable[[Any], SquaredNorm]  # for weights of this dimension
    executor: Any = None  # for a model written in Python


def regularizer_of(settings: Settings, space: Any) -> SquaredNorm:
    """That of a stream, over the weights of these examples or of this problem."""
    found = settings.regularizer(space)
    if found.free is not None:
        raise ValueError(NO_FREE_WEIGHTS)
    return found


def bind(
    model: Any,
    parts: list[Part],
    C: float,
    settings: Settings,
    frozen: Any,
    regularizer: Any = None,
) -> Problem:
    """The problem of the examples in memory; above the plane of those that are gone, where it is given."""
    try:
        examples = bind_model(model, *stacked_examples(parts), None, settings.executor)
    except ValueError as error:
        raise ValueError(f"{error} (counted from the first of the examples in memory)") from None
    weights = np.concatenate([part.weights for part in parts])
    return Problem(examples, C, weights, settings.formulation, settings.n_jobs, regularizer, frozen)


class Read:
    """Chunks of an iterable after a function, read again as often as it can be."""

    def __init__(self, chunks: Iterable[Any], function: Callable[[Any], Any]):
        self.chunks, self.function = chunks, function

    def __iter__(self) -> Iterator[Any]:
        return map(self.function, self.chunks)


def each(chunks: Iterable[Any], function: Callable[[Any], Any]) -> Iterable[Any]:
    """Chunks after a function; those of an iterator once, as they come."""
    return map(function, chunks) if isinstance(chunks, Iterator) else Read(chunks, function)


class Stored:
    """Examples in mapped files, which are read by number; the model is made ready."""

    repeatable = True

    def __init__(self, model: Any, X: Any, Y: Any, sample_weight: Any = None):
        model.initialize(X, Y)
        self.X, self.Y, self.layout = X, Y, layout_of(model, X)
        self.n = len(Y)
        self.weights = None if sample_weight is None else check_weights(sample_weight, self.n)
        self.weight = float(self.n if self.weights is None else self.weights.sum())
        features = X.nnz * (4.0 + X.dtype.itemsize) / max(1, int(X.firsts[-1]))
        self.row_bytes = features if X.sparse else float(X.n_features * X.dtype.itemsize)

    def bound_bytes(self) -> int:
        """What all examples take in memory while their features stay in their files."""
        return ROW_BYTES * int(self.X.firsts[-1]) + EXAMPLE_BYTES * self.n

    def lengths(self, which: np.ndarray) -> np.ndarray:
        """Rows of some examples, and labels of an output of each."""
        if self.layout.kind == "rows":
            return np.ones(len(which), np.int64)
        return self.X.offsets[which + 1] - self.X.offsets[which]

    def some(self, most: float) -> Part | None:
        """The first examples with weight."""
        return next(self.parts(np.empty(0, np.int64), most), None)

    def parts(self, known: np.ndarray, most: float) -> Iterator[Part]:
        """The examples except the known ones, about `most` bytes at a time."""
        waiting = NOTHING
        for first in range(0, self.n, RUN):
            waiting = np.concatenate([waiting, self._fresh(first, known)])
            last = first + RUN >= self.n
            while len(waiting):
                count = self._count(waiting, most)
                if count == len(waiting) and not last:
                    break  # more may fit
                yield self._part(waiting[:count])
                waiting = waiting[count:]

    def _fresh(self, first: int, known: np.ndarray) -> np.ndarray:
        index = np.arange(first, min(first + RUN, self.n))
        fresh = ~np.isin(index, known, assume_unique=True)
        if self.weights is not None:
            fresh &= self.weights[index] > 0
        return index[fresh]

    def _count(self, index: np.ndarray, most: float) -> int:
        """How many of these examples take that many bytes, on average; at least one."""
        lengths = self.lengths(index)
        each = self.layout.bytes_of(lengths, lengths * (ROW_BYTES + self.row_bytes))
        return max(1, int(np.searchsorted(np.cumsum(each), most, side="right")))

    def _part(self, index: np.ndarray) -> Part:
        weights = np.ones(len(index)) if self.weights is None else self.weights[index]
        return Part(self.layout, *self.layout.copy(self.X, self.Y, index), index, weights)


class Chunks:
    """Chunks (X, Y) or (X, Y, weights) of an iterable; the first of them makes the model ready."""

    def __init__(self, model: Any, chunks: Iterable[Any], executor: Any = None):
        self.model, self.iterable, self.executor = model, chunks, executor
        self.repeatable = not isinstance(chunks, Iterator)
        self.running, self.passes = iter(chunks), 0
        try:
            self.first = checked(next(self.running), 0)
        except StopIteration:
            raise ValueError("X: the iterable of chunks is empty") from None
        X, Y, weights = self.first
        X = converted(model, X)
        model.initialize(X, Y)
        weights = weighed(model, Y, weights)
        self.n, self.weight = len(Y), float(weights.sum())
        self.first = X, portable(model, Y), weights
        self.layout = layout_of(model, X)

    def some(self, most: float) -> Part | None:
        """Examples of the first chunk; None where none of them has weight."""
        X, Y, weights = self.first
        index = np.flatnonzero(weights > 0)[: max(1, int(most / EXAMPLE_BYTES))]
        if not len(index):
            return None
        return Part(self.layout, *self.layout.copy(X, Y, index), index, weights[index])

    def _all(self) -> Iterator[tuple[Any, Any, np.ndarray]]:
        """The chunks of a pass."""
        fresh, self.passes = self.passes == 0, self.passes + 1
        if fresh:
            yield self.first
        running = self.running if fresh else iter(self.iterable)
        for number, chunk in enumerate(running, int(fresh)):
            X, Y, weights = checked(chunk, number)
            weights = weighed(self.model, Y, weights)
            yield converted(self.model, X), portable(self.model, Y), weights

    def parts(self, known: np.ndarray, most: float) -> Iterator[Part]:
        """The examples except the known ones, about `most` bytes at a time."""
        counted, first, weight = self.passes == 0, 0, 0.0
        for X, Y, weights in self._all():
            weight += float(weights.sum())
            if counted:
                self.n, self.weight = first + len(Y), weight
                bind_model(self.model, X, Y, None, self.executor)  # refuses what it cannot take
            index = np.arange(first, first + len(Y))
            first += len(Y)
            fresh = np.flatnonzero((weights > 0) & ~np.isin(index, known))
            while len(fresh):
                some = fresh[: max(1, int(most / EXAMPLE_BYTES))]
                copy = self.layout.copy(X, Y, some)
                part = Part(self.layout, *copy, index[some], weights[some])
                ends = np.cumsum(part.bytes_each)
                count = max(1, int(np.searchsorted(ends, most, side="right")))
                yield part if count >= len(part) else part.select(np.arange(count))
                fresh = fresh[count:]
        if first != self.n:
            raise ValueError(
                f"X gave {self.n} examples in its first pass and {first} in a later one"
            )


def weighed(model: Any, Y: Any, weights: np.ndarray) -> np.ndarray:
    """The weights of examples, as far as the model learns from them."""
    return model.example_weights(Y, weights) if isinstance(model, Model) else weights


def checked(chunk: Any, number: int) -> tuple[Any, Any, np.ndarray]:
    """A chunk with weights; refuses what is not one."""
    if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
        raise ValueError(
            f"chunk {number} of X must be a tuple (X, Y) or (X, Y, sample_weight), got {type(chunk).__name__}"
        )
    X, Y = (part.to_numpy() if hasattr(part, "iloc") else part for part in chunk[:2])
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if n == 0 or n != len(Y):
        raise ValueError(f"chunk {number} of X has {n} examples and {len(Y)} outputs")
    name = f"chunk {number} of X: sample_weight"
    weights = np.ones(n) if len(chunk) == 2 else floats(chunk[2], name)
    if weights.shape != (n,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(f"{name} must be {n} numbers that are not negative")
    return X, Y, weights


def check_streams(model: Any) -> None:
    """Refuse models that need all examples at once."""
    reason = getattr(model, "needs_all", "")
    if reason:
        name = repr(model).removesuffix("()")
        raise ValueError(f"{name} takes no chunks: {reason}; give fit all of them at once")
