"""Learning from a stream: what ``partial_fit`` keeps of the chunks that it has seen, and ``fit`` on a source.

Both keep examples, drop them or freeze them as ``solvers.window`` says. Between two calls of ``partial_fit``
nothing can be met again: what is frozen stays so, and its multipliers are forgotten. The dual bound holds for
the objective over all examples seen so far, with weight C each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.data.labels import LabelSet
from maxmargin.data.mapped import Mapped
from maxmargin.data.source import Chunks, Stored, is_stream
from maxmargin.data.store import Store, kind_of
from maxmargin.models.chain import Chain
from maxmargin.models.examples import Examples
from maxmargin.models.flat import FlatModel
from maxmargin.models.python import bind_model
from maxmargin.problem import Certificate, Formulation, PastProblem, Support
from maxmargin.problem.problem import check_weights
from maxmargin.problem.streamed import StreamedProblem
from maxmargin.solvers import Solver, Streaming
from maxmargin.solvers.dual_state import open_state
from maxmargin.solvers.stream_state import CHUNKS
from maxmargin.solvers.window import KEPT, Memory, empty_memory, forgotten, remember
from maxmargin.train import Result, train


@dataclass(frozen=True)
class Settings:
    """How a chunk is optimised."""

    solver: Streaming
    formulation: Formulation
    n_jobs: int
    options: dict[str, Any]  # of ``train``


@dataclass(frozen=True)
class Past:
    """What is left of the chunks so far: kept examples, and what is known of all."""

    C: float
    store: Store
    memory: Memory


def streaming_of(solver: Any) -> Streaming:
    """The solver of a chunk."""
    if isinstance(solver, Streaming):
        return solver
    if isinstance(solver, Solver) or solver not in ("auto", "streaming"):
        raise ValueError(
            'partial_fit needs solver="auto", "streaming" or an instance of solvers.Streaming, '
            f"got {solver!r}"
        )
    return Streaming(passes=None) if solver == "auto" else Streaming()


def first_model(model: Any, X: Any, Y: Any, classes: Any) -> Any:
    """The model of a stream, made ready by its first chunk."""
    if classes is not None:
        if "classes" not in getattr(model, "get_params", dict)():
            raise ValueError(f"classes: model {type(model).__name__} does not take them")
        model.set_params(classes=classes)
    model.initialize(X, Y)
    return model


def next_model(past: Past, svm: Any, classes: Any) -> Any:
    """The model of the chunks before; refuses what must stay as it was."""
    if past.C != svm.C:
        raise ValueError(f"partial_fit: C was {past.C} for the chunks before; fit begins anew")
    if classes is not None:
        given, known = LabelSet(classes).classes, svm.model_.classes_
        if not np.array_equal(given, known):
            raise ValueError("partial_fit: classes must be those of the first call, or None")
    return svm.model_


def check_model_of_stream(model: Any, examples: Examples) -> None:
    """Refuse models whose examples cannot be told apart."""
    if examples.kernelised:
        raise ValueError("a stream: a kernel needs all examples at hand; use fit with arrays")
    if getattr(model, "joint", False):
        raise ValueError("a stream: a loss of the whole sample has one slack; use fit with arrays")


def layout_of(model: Any) -> bool | None:
    """Whether a compiled model reads rows (True) or sequences of rows (False); None: objects of any kind."""
    if not isinstance(model, FlatModel | Chain) or getattr(model, "vocabulary_", None) is not None:
        return None
    return isinstance(model, FlatModel)


def advance(
    past: Past | None, C: float, model: Any, chunk: tuple[Any, Any, np.ndarray], settings: Settings
) -> tuple[Past, Result, Examples]:
    """Optimise a chunk together with what is kept of those before it."""
    X, Y, weights = chunk
    own = bind_model(
        model, X, Y
    )  # refuses what the model cannot take, with the number of the example
    check_model_of_stream(model, own)
    if past is None:
        past = Past(C, Store(kind_of(X, layout_of(model))), empty_memory(own.dimension))
    memory = past.memory
    # A copy of the list alone: an interrupt must leave the parts of the past as they are.
    store = replace(past.store, parts=list(past.store.parts))
    store.parts.append(store.copy_of(X, Y, np.arange(own.n)))
    v = np.concatenate([memory.weights, weights])
    rest = (bind_model(model, *store.joined()), past.C, v, settings.formulation, settings.n_jobs)
    problem = PastProblem(memory.past, *rest)
    warm = memory.support if len(memory.index) else None
    result = train(problem, settings.solver, warm=warm, **settings.options)
    told = replace(result, certificate=as_told(result.certificate, memory))
    return taken_over(past, store, problem, result, settings), told, problem.examples


def taken_over(
    past: Past, store: Store, problem: PastProblem, result: Result, settings: Settings
) -> Past:
    """What to keep after a chunk was optimised."""
    memory = past.memory
    n_seen = memory.n_seen + problem.n_blocks - len(memory.index)
    index = np.concatenate([memory.index, np.arange(memory.n_seen, n_seen)])
    rng = np.random.default_rng(0)  # no pass is made
    dual = open_state(problem, 1.0, rng, warm=result.support, lean=True)
    dual.violations[:] = 0.0
    most = KEPT * settings.solver.cache_bytes
    later, sorting, _ = remember(memory, dual, index, store.bytes_each(), most)
    forgotten(store, sorting.kept)
    return Past(past.C, store, replace(later, n_seen=n_seen, w=result.w))


def as_told(certificate: Certificate, memory: Memory) -> Certificate:
    """The certificate of a chunk: with examples gone, its primal is no bound on the objective of all."""
    if memory.n_gone == 0:
        return certificate
    status = (
        f"{certificate.status} for the examples at hand; {memory.n_gone} seen before are gone, "
        f"{memory.n_frozen} of them frozen"
    )
    return replace(certificate, exact=False, converged=False, status=status)


def support_of(memory: Memory) -> Support:
    """The multipliers of all examples seen; those of frozen ones are lost, and stand on the true output."""
    return replace(memory.support, blocks=memory.index[memory.support.blocks])


# fit on a source


def check_streams(model: Any) -> None:
    """Refuse models whose examples cannot be cut up into chunks."""
    if not getattr(model, "streams", True):
        raise ValueError(f"{type(model).__name__} takes no chunks: give fit all examples at once")


def streams(solver: Any, model: Any, X: Any, Y: Any, node_weight: Any) -> bool:
    """Whether fit reads these data a part at a time."""
    chunks = is_stream(X, Y)
    streaming = solver == "streaming" or isinstance(solver, Streaming)
    if chunks and not streaming:
        raise ValueError(
            "without Y, X is taken for an iterable of chunks (X, Y): that needs "
            f'solver="streaming", got {solver!r}'
        )
    if chunks and node_weight is not None:
        raise ValueError("node_weight: chunks have none")
    if chunks:
        check_streams(model)
    mapped = isinstance(X, Mapped) and isinstance(model, FlatModel | Chain) and not model.joint
    return chunks or (streaming and mapped and node_weight is None)


def streamed_problem(
    model: Any, X: Any, Y: Any, sample_weight: Any, settings: Settings, C: float, executor: Any
) -> StreamedProblem:
    """The problem of data that are read a part at a time; the model is made ready."""

    def bind(X: Any, Y: Any) -> Examples:
        return bind_model(model, X, Y, None, executor)

    def check(X: Any, Y: Any) -> None:
        check_model_of_stream(model, bind(X, Y))

    source: Any
    if is_stream(X, Y):
        if sample_weight is not None:
            raise ValueError("sample_weight: give chunks (X, Y, sample_weight)")
        source = Chunks(X, None, check)
        model.initialize(*source.peek()[:2])
        source.flat = layout_of(model)
        if not source.repeatable and (settings.solver.verify or settings.solver.passes != 1):
            raise ValueError(
                "X is an iterator, which gives its chunks once: an exact pass or a second one needs an "
                "iterable that can be read again; else solver=solvers.Streaming(passes=1, verify=False)"
            )
    else:
        model.initialize(X, Y)
        weights = None if sample_weight is None else check_weights(sample_weight, len(Y))
        source = Stored(X, Y, weights, layout_of(model))
    return StreamedProblem(
        bind,
        source,
        C,
        int(model.size_joint_feature),
        settings.formulation,
        settings.n_jobs,
        settings.solver.cache_bytes / CHUNKS,
    )
