"""The problem of examples that are never in memory all at once.

    P(w) = R(w) + sum over parts of sum_i mass_i xi_i(w)
    D(a) = (sum over parts of b) - R*(sum over parts of q),   b = sum a Delta,   q = - sum a psi

Examples that no multiplier of the support names have all of their mass on the true output. What a solver
keeps of them on its way, ``parts.state`` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.data.scratch import RUN
from maxmargin.models.protocol import Model
from maxmargin.models.python import bind_model
from maxmargin.parts.source import (
    NO_EXAMPLES,
    Chunks,
    Part,
    Stored,
    stacked_examples,
    warn_of_parts,
)
from maxmargin.parts.state import PartState, StoredState
from maxmargin.problem import Formulation, Problem, Support, make_regularizer
from maxmargin.problem.plane import FrozenPlane
from maxmargin.problem.regularizer import SquaredNorm
from maxmargin.solvers import Streaming
from maxmargin.solvers.box_state import LABEL_BYTES, PLANE_BYTES
from maxmargin.solvers.streaming import CHUNKS, StreamState

# Of the budget, at most, for what all examples take without their features and outputs.
MOST_BOUND = 0.6
# Vectors as long as w that only a state of parts holds: the plane of the examples that are gone, its w, the
# plane of a window, and the core's copy of it. Outputs of all examples may take their place.
PART_VECTORS = 4
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
    asked: tuple[Any, Any] | None  # of the regulariser: prior and nonnegative, where one is given
    executor: Any = None  # for a model written in Python


def regularizer_of(settings: Settings, space: Any) -> SquaredNorm:
    """That of a stream, over the weights of these examples or of this problem."""
    if settings.asked is None:
        return SquaredNorm(space.metric)
    found = make_regularizer(*settings.asked, space)
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
    own = weights if (weights != 1.0).any() else None
    return Problem(examples, C, own, settings.formulation, settings.n_jobs, regularizer, frozen)


def check_streams(model: Any) -> None:
    """Refuse models that need all examples at once."""
    reason = getattr(model, "needs_all", "")
    if reason:
        name = repr(model).removesuffix("()")
        raise ValueError(f"{name} takes no chunks: {reason}; give fit all of them at once")


class StreamedProblem(Problem):
    """A model on a source of examples."""

    model: Any
    source: Any
    settings: Settings
    whole: Problem | None = None  # of all examples, while it is bound
    # Of its weights, as of those of examples in memory.
    metric: Any = staticmethod(np.asarray)
    kernelised = False

    def __init__(self, model: Any, source: Any, C: float, settings: Settings):
        self.model, self.source, self.settings = model, source, settings
        self.C: float = float(C)
        self.dimension: int = int(model.size_joint_feature)
        self.regularizer: SquaredNorm = regularizer_of(settings, self)
        self.formulation: Formulation = settings.formulation
        self.n_jobs: int = settings.n_jobs
        self.summed: bool = settings.formulation.hinge == "sum"
        if self.summed and getattr(model, "flat", False):
            source.layout.listed = (PLANE_BYTES + LABEL_BYTES) * len(model.classes_)
        self.examples: Any = None  # not in memory
        self.frozen: Any = None
        self.files: Any = None
        self.checked: bool = not isinstance(model, Model)
        # Of the parts that were bound so far.
        self.exact: bool = True
        self.bounded: bool = True
        self.dual_found: float = -np.inf  # by the solver, for its last solution
        self._count()

    def _count(self) -> None:
        """How many examples there are, and their mass; of an iterable, of those that were read."""
        self.n_blocks: int = self.source.n
        self.total: float = self.C * self.source.weight

    def read(self, known: np.ndarray) -> Iterator[Part]:
        """The examples except the known ones, a part of the budget at a time."""
        for part in self.source.parts(known, self.settings.solver.cache_bytes / CHUNKS):
            self._count()
            yield part
        self._count()

    def bind(self, parts: list[Part], frozen: FrozenPlane | None = None) -> Problem:
        """The problem of some parts; above the plane of the others, where that is given."""
        problem = bind(self.model, parts, self.C, self.settings, frozen, self.regularizer)
        self.exact, self.bounded = self.exact & problem.exact, self.bounded & problem.bounded
        return problem

    def walk(self, support: Support) -> Iterator[tuple[Problem, Support]]:
        """All examples in parts, and the multipliers of each."""
        if self.whole is not None:
            return self.whole.walk(support)
        return ((problem, own) for _, problem, own in self.numbered_parts(support))

    def numbered_parts(self, support: Support) -> Iterator[tuple[np.ndarray, Problem, Support]]:
        """The same, with the numbers of the examples."""
        support, first = self._in_order(support), 0
        for part in self.read(NO_EXAMPLES):
            problem, index = self.bind([part]), part.index
            a, b = np.searchsorted(support.blocks, [index[0], index[-1] + 1])
            own = np.searchsorted(index, support.blocks[a:b]).astype(np.int64)
            outputs = support.outputs
            if isinstance(outputs, list):
                outputs = outputs[a:b]
            else:
                last = first + int(problem.examples.output_sizes(own).sum())
                outputs, first = np.array(outputs[first:last]), last
            multipliers = np.array(support.multipliers[a:b])
            yield index, problem, Support(own, multipliers, outputs, partial=True)

    def _in_order(self, support: Support) -> Support:
        """The multipliers in the order of their examples; they may be in a file, and are read in runs."""
        blocks = support.blocks
        runs = (blocks[first : first + RUN + 1] for first in range(0, len(blocks), RUN))
        if all(bool((np.diff(run) >= 0).all()) for run in runs):
            return support
        return support.chosen(np.argsort(blocks, kind="stable"), self.source.lengths(blocks))

    def try_oracle(self) -> int:
        return 0  # no examples are in memory

    def check_ceilings(self, w: np.ndarray, ceilings: np.ndarray) -> None:
        """Checks the first part alone, to which these ceilings belong."""
        self.bind([next(self.read(NO_EXAMPLES))]).check_ceilings(w, ceilings)

    def objective(
        self, w: np.ndarray, slacks: np.ndarray | None = None, start: float | None = None
    ) -> float:
        """P(w) by definition, part by part."""
        value = self.regularizer.value(np.asarray(w)) if start is None else start
        for part in self.read(NO_EXAMPLES):
            value = self.bind([part]).objective(w, None, value)
        return value

    def dual_objective(self, support: Support) -> float:
        """D(a) as the solver found it: the source may be gone by now."""
        return self.dual_found

    def first_part(self) -> Problem | None:
        """The problem of the first examples; None where they have no weight."""
        part = self.source.some(self.settings.solver.cache_bytes / CHUNKS)
        return None if part is None else self.bind([part])

    def open_stream(self, solver: Streaming, *args: Any) -> StreamState:
        """The state before the first pass: see ``Streaming.start``."""
        if solver.keeps == "outputs":
            raise ValueError('Streaming: keeps="outputs" is for data in shards, read in place')
        return PartState(self, solver, *args)


class StoredProblem(StreamedProblem):
    """A model on examples in files."""

    def first_part(self) -> Problem | None:
        part = next(self.read(NO_EXAMPLES), None)
        return None if part is None else self.bind([part])

    def bind_all(self) -> Problem:
        """All examples, their features in the files."""
        source, settings = self.source, self.settings
        examples = self.model.bind(source.X, source.Y)
        self.whole = whole = Problem(
            examples, self.C, source.weights, settings.formulation, self.n_jobs, self.regularizer
        )
        self.exact: bool = whole.exact
        self.bounded: bool = whole.bounded
        self.files: Any = whole.files
        return whole

    def forget_plane(self) -> None:
        if self.whole is not None:
            self.whole._plane = None

    def release(self) -> None:
        """From now on they come in parts."""
        self.whole = self.files = None

    @property
    def spared(self) -> int:
        """Bytes that a state of outputs takes less than one of parts, for vectors as long as w."""
        return PART_VECTORS * 8 * self.dimension

    def open_stream(self, solver: Streaming, *args: Any) -> StreamState:
        if solver.keeps == "outputs" and self.summed:
            raise ValueError(
                'Streaming: keeps="outputs" is for hinge="max"; with hinge="sum" solver="sdcd" keeps '
                "all outputs in memory, and reads the features in the shards"
            )
        needed = max(1, int(self.source.bound_bytes / MOST_BOUND) - self.spared)
        if solver.keeps == "outputs" and needed > solver.cache_bytes:
            raise ValueError(
                f'Streaming: keeps="outputs" needs at least {needed} cache_bytes for these data, got '
                f"{solver.cache_bytes}"
            )
        repeated = solver.keeps == "auto" and solver.passes is None and not self.summed
        if needed <= solver.cache_bytes and (repeated or solver.keeps == "outputs"):
            return StoredState(self, solver, *args)
        if repeated:
            warn_of_parts(solver.cache_bytes, needed)
        return PartState(self, solver, *args)


def streamed_problem(
    model: Any, X: Any, Y: Any, sample_weight: Any, settings: Settings, C: float, executor: Any
) -> StreamedProblem:
    """The problem of data that ``streams``; the model is made ready."""
    if Y is None:
        check_streams(model)
    source: Any
    solver, settings = settings.solver, replace(settings, executor=executor)
    if Y is not None:
        source = Stored(model, X, Y, sample_weight)
    elif sample_weight is not None:
        raise ValueError("sample_weight: give chunks (X, Y, sample_weight)")
    elif isinstance(X, Iterator) and (solver.verify or solver.passes != 1):
        raise ValueError(
            "X is an iterator, which gives its chunks once: an exact pass or a second one needs an iterable "
            "that can be read again; else solver=solvers.Streaming(passes=1, verify=False)"
        )
    else:
        source = Chunks(model, X, executor, settings.n_jobs)
    kind = StreamedProblem if Y is None else StoredProblem
    return kind(model, source, C, settings)
