"""Fit estimators on data in parts: ``fit`` on a source of examples, ``partial_fit`` on one more chunk.

A call of ``partial_fit`` is a stream of one part. No example is seen again, so frozen examples stay frozen
and their multipliers are forgotten. The dual bound holds for all examples seen so far, with weight C each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from maxmargin.data.labels import LabelSet
from maxmargin.data.mapped import Mapped
from maxmargin.models.examples import Examples
from maxmargin.models.python import bind_model, portable
from maxmargin.models.registry import ROWS
from maxmargin.parts.problem import Settings, bind, regularizer_of
from maxmargin.parts.source import Part, keep_only, layout_of
from maxmargin.parts.state import Past, empty_past, remember
from maxmargin.problem import Certificate, Problem, Support
from maxmargin.result import Result
from maxmargin.solvers import SDCD, SOLVERS, Solver, Streaming
from maxmargin.solvers.box_state import open_box
from maxmargin.solvers.dual_state import open_state
from maxmargin.train import train


def streaming_of(solver: Any) -> Streaming:
    """The streaming solver that partial_fit uses; refuses other solvers."""
    if isinstance(solver, str) and solver == "auto":
        return Streaming(passes=None)
    if not reads_parts(solver):
        raise ValueError(
            'partial_fit needs solver="auto", "streaming" or an instance of solvers.Streaming, '
            f"got {solver!r}"
        )
    return Streaming() if isinstance(solver, str) else solver


def reads_parts(solver: Any) -> bool:
    """Whether a solver, given as an object or by its name, reads the data a part at a time."""
    kind = SOLVERS.get(solver) if isinstance(solver, str) else solver
    return isinstance(solver, str | Solver) and getattr(kind, "in_parts", False)


def streams(solver: Any, model: Any, X: Any, Y: Any, node_weight: Any) -> bool:
    """Whether fit reads these data a part at a time: an iterable of chunks, or mapped files."""
    chunks = Y is None and hasattr(X, "__iter__") and not hasattr(X, "shape")
    streaming = reads_parts(solver)
    if chunks and not streaming:
        raise ValueError(
            "Y is missing, so X must be an iterable of chunks (X, Y); chunks need "
            f'solver="streaming", got {solver!r}'
        )
    if chunks and node_weight is not None:
        raise ValueError("node_weight must be None if X is an iterable of chunks")
    mapped = isinstance(X, Mapped) and ROWS in getattr(model, "powers", ()) and not model.joint
    return chunks or (streaming and mapped and node_weight is None)


# partial_fit


def first_model(model: Any, X: Any, Y: Any, classes: Any) -> Any:
    """The model of a stream, initialized with the first chunk."""
    if classes is not None:
        if "classes" not in getattr(model, "get_params", dict)():
            raise ValueError(f"classes: model {type(model).__name__} has no parameter classes")
        model.set_params(classes=classes)
    model.initialize(X, Y)
    return model


def next_model(past: Past, svm: Any, classes: Any) -> Any:
    """The model of the earlier chunks; refuses a changed C, formulation or set of classes."""
    if past.C != svm.C:
        raise ValueError(
            f"partial_fit: C was {past.C} for the earlier chunks and has changed; call fit to "
            "start over"
        )
    if past.formulation != svm._formulation():
        raise ValueError(
            f"partial_fit: the formulation was {past.formulation} for the earlier chunks, now it "
            f"is {svm._formulation()}; call fit to start over"
        )
    if classes is not None:
        given, known = LabelSet(classes).classes, svm.model_.classes_
        if not np.array_equal(given, known):
            raise ValueError("partial_fit: classes must be None or the same as in the first call")
    return svm.model_


def optimise_chunk(
    past: Past | None, C: float, model: Any, chunk: tuple[Any, Any, np.ndarray], settings: Settings
) -> tuple[Past, Result, Examples]:
    """Optimise a chunk together with the examples kept from earlier chunks."""
    X, Y, weights = chunk
    # Bind the chunk alone first, so that an error has the number of the example in the chunk.
    Y = portable(model, Y)
    own = bind_model(model, X, Y)
    each, regularizer = np.arange(own.n), regularizer_of(settings, own)
    past = past or empty_past(C, layout_of(model, X), own.dimension, regularizer)
    new = Part(past.layout, *past.layout.copy(X, Y, each), past.n_seen + each, weights)
    parts = [*past.parts, new]
    problem = bind(model, parts, past.C, settings, past.plane, regularizer)
    warm = past.support if len(past.index) else None
    solver = SDCD() if problem.summed else settings.solver
    result = train(problem, solver, warm=warm, **settings.options)
    dual = reopened(problem, result.support)
    later, kept, _ = remember(past, parts, dual, settings.solver.cache_bytes)
    keep_only(parts, kept)
    reported = replace(result, certificate=as_reported(result.certificate, past))
    later = replace(later, n_seen=past.n_seen + own.n, formulation=settings.formulation)
    return later, reported, problem.examples


def reopened(problem: Problem, support: Support) -> Any:
    """Open a dual state at these multipliers without making a pass."""
    rng = np.random.default_rng(0)
    if problem.summed:
        return open_box(problem, 1.0, rng, support)
    dual = open_state(problem, 1.0, rng, warm=support, lean=True)
    dual.violations[:] = 0.0
    return dual


def as_reported(certificate: Certificate, past: Past) -> Certificate:
    """The certificate to report: once examples are gone, the primal does not cover all examples."""
    if past.n_gone == 0:
        return certificate
    status = (
        f"{certificate.status} for the examples in memory; {past.n_gone} earlier examples have "
        f"left memory, {past.n_frozen} of them frozen"
    )
    return replace(certificate, exact=False, converged=False, status=status)
