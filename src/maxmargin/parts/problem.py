"""The problem of a data set whose examples are never all in memory.

    P(w) = R(w) + sum over parts of sum_i mass_i xi_i(w)
    D(a) = (sum over parts of b) - R*(sum over parts of q),   b = sum a Delta,   q = - sum a psi

An example without a multiplier in the support has all of its mass on the true output. ``parts.state``
describes what a solver keeps of the examples between parts.
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

# Largest share of the budget for the fixed bytes of all examples (without features and outputs).
# A larger share leaves too little room for outputs; a smaller one makes examples come and go too early.
MOST_BOUND = 0.6
# Vectors as long as w that only ``PartState`` holds: the plane of the examples that are gone, its w, the
# plane of a window, and the core's copy of it. ``StoredState`` may use their bytes for outputs.
PART_VECTORS = 4
NO_FREE_WEIGHTS = (
    "a stream needs a regulariser on every weight (no infinite scale in prior, no "
    "penalized_intercept=False), because the dual bound of a free weight needs sum a psi = 0 over "
    "all examples at once; give a large scale, or all examples to fit"
)


@dataclass(frozen=True)
class Settings:
    """How a stream is optimised."""

    solver: Streaming
    formulation: Formulation
    n_jobs: int
    options: dict[str, Any]  # keyword arguments of ``train``
    asked: tuple[Any, Any] | None  # prior and nonnegative, if either is given
    executor: Any = None  # for a model written in Python


def regularizer_of(settings: Settings, space: Any) -> SquaredNorm:
    """The regulariser of a stream, over the weights of these examples or of this problem."""
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
    """The problem of the examples in memory, plus the plane of the gone examples if one is given."""
    try:
        examples = bind_model(model, *stacked_examples(parts), None, settings.executor)
    except ValueError as error:
        raise ValueError(
            f"{error} (example numbers count from the first example in memory)"
        ) from None
    weights = np.concatenate([part.weights for part in parts])
    own = weights if (weights != 1.0).any() else None
    return Problem(examples, C, own, settings.formulation, settings.n_jobs, regularizer, frozen)


def check_streams(model: Any) -> None:
    """Refuse models that need all examples at once."""
    reason = getattr(model, "needs_all", "")
    if reason:
        name = repr(model).removesuffix("()")
        raise ValueError(
            f"{name} cannot train on chunks, because {reason}; give all examples to fit at once"
        )


class StreamedProblem(Problem):
    """The problem of a model and a source of examples."""

    model: Any
    source: Any
    settings: Settings
    whole: Problem | None = None  # the problem of all examples, while it is bound
    # The Euclidean metric of the weights, which ``SquaredNorm`` reads.
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
        # Whether all parts bound so far were exact, and bounded.
        self.exact: bool = True
        self.bounded: bool = True
        self.dual_found: float = -np.inf  # D(a) of the solver's last solution
        self._count()

    def _count(self) -> None:
        """Update the number of examples and their mass; an iterable counts the examples read so far."""
        self.n_blocks: int = self.source.n
        self.total: float = self.C * self.source.weight

    def read(self, known: np.ndarray) -> Iterator[Part]:
        """Yield the examples that are not known, in parts of about 1/CHUNKS of the budget."""
        for part in self.source.parts(known, self.settings.solver.cache_bytes / CHUNKS):
            self._count()
            yield part
        self._count()

    def bind(self, parts: list[Part], frozen: FrozenPlane | None = None) -> Problem:
        """The problem of some parts, plus the plane of the other examples if one is given."""
        problem = bind(self.model, parts, self.C, self.settings, frozen, self.regularizer)
        self.exact, self.bounded = self.exact & problem.exact, self.bounded & problem.bounded
        return problem

    def walk(self, support: Support) -> Iterator[tuple[Problem, Support]]:
        """Yield the problem of each part and the multipliers of its examples."""
        if self.whole is not None:
            return self.whole.walk(support)
        return ((problem, own) for _, problem, own in self.numbered_parts(support))

    def numbered_parts(self, support: Support) -> Iterator[tuple[np.ndarray, Problem, Support]]:
        """Yield, for each part, the numbers of its examples, its problem and its multipliers."""
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
        """Return the multipliers in the order of their examples.

        The block numbers may lie in a mapped file, so the check reads them in runs.
        """
        blocks = support.blocks
        runs = (blocks[first : first + RUN + 1] for first in range(0, len(blocks), RUN))
        if all(bool((np.diff(run) >= 0).all()) for run in runs):
            return support
        return support.chosen(np.argsort(blocks, kind="stable"), self.source.lengths(blocks))

    def try_oracle(self) -> int:
        return 0  # no examples are in memory

    def check_ceilings(self, w: np.ndarray, ceilings: np.ndarray) -> None:
        """Check these ceilings, which belong to the first part, on that part alone."""
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
        """D(a) as the solver found it, since the source may no longer be readable."""
        return self.dual_found

    def first_part(self) -> Problem | None:
        """The problem of the first examples; None if all of them have weight 0."""
        part = self.source.some(self.settings.solver.cache_bytes / CHUNKS)
        return None if part is None else self.bind([part])

    def open_stream(self, solver: Streaming, *args: Any) -> StreamState:
        """Open the state before the first pass, as ``Streaming.start`` does."""
        if solver.keeps == "outputs":
            raise ValueError(
                'Streaming: keeps="outputs" needs data in shards; write them with write_shards, '
                'or use keeps="auto"'
            )
        return PartState(self, solver, *args)


class StoredProblem(StreamedProblem):
    """The problem of a model and of examples in files."""

    def first_part(self) -> Problem | None:
        part = next(self.read(NO_EXAMPLES), None)
        return None if part is None else self.bind([part])

    def bind_all(self) -> Problem:
        """Bind all examples as one problem; the features stay in the files."""
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
        """Drop the problem of all examples: from now on they come in parts."""
        self.whole = self.files = None

    @property
    def spared(self) -> int:
        """Bytes that ``StoredState`` saves against ``PartState``, by fewer vectors as long as w."""
        return PART_VECTORS * 8 * self.dimension

    def open_stream(self, solver: Streaming, *args: Any) -> StreamState:
        if solver.keeps == "outputs" and self.summed:
            raise ValueError(
                'Streaming: keeps="outputs" needs hinge="max"; for hinge="sum", use '
                'solver="sdcd", which keeps all outputs in memory and reads the features in the '
                "shards"
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
    """Return the problem of data that ``streams`` accepts, and initialize the model."""
    if Y is None:
        check_streams(model)
    source: Any
    solver, settings = settings.solver, replace(settings, executor=executor)
    if Y is not None:
        source = Stored(model, X, Y, sample_weight)
    elif sample_weight is not None:
        raise ValueError("sample_weight must be None for chunks; give chunks (X, Y, sample_weight)")
    elif isinstance(X, Iterator) and (solver.verify or solver.passes != 1):
        raise ValueError(
            "X is an iterator, which can be read once, but an exact pass or a second pass reads "
            "it again; give an iterable that can be read again, or set "
            "solver=solvers.Streaming(passes=1, verify=False)"
        )
    else:
        source = Chunks(model, X, executor, settings.n_jobs)
    kind = StreamedProblem if Y is None else StoredProblem
    return kind(model, source, C, settings)
