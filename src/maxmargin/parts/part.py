"""One part: examples in memory above the plane of those that are gone, what is kept of it, ``partial_fit``.

Multipliers a of examples that are no longer in memory give sum a psi and sum a Delta. While they stay as they
are, these are one plane below the risk of those examples, whatever w is:

    sum_gone mass_i xi_i(w) >= b - <q, w>,      b = sum_gone a Delta,   q = - sum_gone a psi

    P'(w) = 1/2 |w|^2 + b - <q, w> + sum_here mass_i xi_i(w)  <=  P(w) of all examples
    D(a)  = b + sum_here a Delta - 1/2 |q - sum_here a psi|^2  <=  min P of all examples

When the examples in memory were optimised, each is one of

    kept      example and multipliers stay in memory, and are optimised further
    dropped   it did not fit, and its multipliers are all on its true output: it gives nothing to b and q
    frozen    it did not fit, but has other multipliers: they join the plane

The next examples are optimised together with the kept ones, above the plane of the frozen ones. A call of
``partial_fit`` is a stream of one part: nothing is met again, so what is frozen stays so, and its multipliers
are forgotten. The dual bound holds for all examples seen so far, with weight C each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.data.labels import LabelSet
from maxmargin.data.scratch import PlaneFile
from maxmargin.models.examples import Examples
from maxmargin.models.python import bind_model
from maxmargin.parts.source import (
    Layout,
    Part,
    bytes_of,
    check_streams,
    keep,
    layout_of,
    stacked_examples,
)
from maxmargin.problem import Certificate, Formulation, Problem, Support
from maxmargin.problem.plane import FrozenPlane
from maxmargin.solvers import Solver, Streaming
from maxmargin.solvers.dual_state import DualState, open_state
from maxmargin.train import Result, train

KEPT = 0.7  # of the budget, at most, for what is kept: the rest is for new examples and new outputs
TWICE = 2  # planes are in memory twice while they are copied


@dataclass(frozen=True)
class Past:
    """What is left of all examples seen; replaced as a whole, so that an interrupt leaves no half of it."""

    C: float
    layout: Layout
    parts: list[Part]  # the kept examples
    plane: FrozenPlane  # of those that are gone
    w: np.ndarray
    dual: float
    support: Support  # of the kept ones, as they are numbered here
    sizes: np.ndarray  # labels of the output of each of its planes
    index: np.ndarray  # numbers of the kept ones in the stream
    gaps: np.ndarray  # their g_i as last seen
    n_seen: int = 0
    n_frozen: int = 0
    mass: float = 0.0  # of all examples seen
    # Examples that were met, those of all that were frozen, and where: for the file of planes.
    records: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    @property
    def n_gone(self) -> int:
        """Examples that are dropped or frozen."""
        return self.n_seen - len(self.index)

    def whole_support(self) -> Support:
        """The multipliers of all examples seen; those of frozen ones are lost, as if on the true output."""
        return replace(self.support, blocks=self.index[self.support.blocks])


def empty_past(C: float, layout: Layout, dimension: int) -> Past:
    """Before the first example."""
    w, none = np.zeros(dimension), np.empty(0, np.int64)
    support = Support(none, np.empty(0), [], partial=True)
    return Past(C, layout, [], FrozenPlane(0.0, w, 0.0), w, 0.0, support, none, none, np.empty(0))


def bind(model: Any, parts: list[Part], C: float, settings: Settings, frozen: Any) -> Problem:
    """The problem of the examples in memory; above the plane of those that are gone, where it is given."""
    try:
        examples = bind_model(model, *stacked_examples(parts), None, settings.executor)
    except ValueError as error:
        raise ValueError(f"{error} (counted from the first of the examples in memory)") from None
    weights = np.concatenate([part.weights for part in parts])
    return Problem(examples, C, weights, settings.formulation, settings.n_jobs, frozen=frozen)


def moved(plane: FrozenPlane, problem: Problem, support: Support, sign: float) -> FrozenPlane:
    """The plane with some multipliers of a problem added (sign = 1), or without them (sign = -1)."""
    if not len(support.blocks):
        return plane
    b, v = problem.examples.combine(support.blocks, support.multipliers, support.outputs)
    return replace(plane, offset=plane.offset + sign * b, vector=plane.vector - sign * v)


def sort_out(
    dual: DualState, gaps: np.ndarray, sizes: np.ndarray, most_bytes: float
) -> tuple[np.ndarray, ...]:
    """Keep as many of the examples as fit, the most useful first; returns kept, frozen and gone ones.

    Useful are those whose multipliers are on several outputs: they are on the margin and will move. Then
    those with all of their mass on a wrong one, then the others; among these those with the larger share
    of the gap, and the newer.
    """
    bytes_each, spread, on_others = dual.core.usage()
    number = np.arange(len(gaps))
    order = np.lexsort((number, gaps, on_others, spread > 1))[::-1]
    fits = np.cumsum((sizes + TWICE * bytes_each)[order]) <= most_bytes
    kept, gone = np.sort(order[fits]), np.sort(order[~fits])
    return kept, gone[on_others[gone] > 0], gone


def remember(
    past: Past, parts: list[Part], dual: DualState, budget: float, file: PlaneFile | None = None
) -> tuple[Past, np.ndarray, float]:
    """What is left when the parts in memory were optimised: the kept ones of before, then new ones.

    Returns the later past, which blocks it keeps, and sum mass_i g_i of the others. These are in the parts
    still: ``keep`` leaves them out, when the past before is not needed. Frozen planes go to the file.
    """
    problem: Any = dual.problem
    w = q = dual.weights()
    if dual.core.proximity > 0:  # it ends here: for the next examples w is the weighted sum alone
        dual.core.recenter(0.0, 0.0)
        q = dual.weights()
    gaps = dual.known_violations()
    kept, frozen, gone = sort_out(dual, gaps, bytes_of(parts), KEPT * budget)
    stays, goes = support_of(dual, kept), support_of(dual, frozen)
    index = np.concatenate([part.index for part in parts])
    mass, output_sizes = problem.mass, problem.examples.output_sizes
    plane, records = moved(problem.frozen, problem, goes, 1.0), None
    if file is not None:
        places = file.write(renumbered(goes, frozen), len(frozen), output_sizes(goes.blocks))
        records = index[len(past.index) :], index[frozen], places
    later = replace(
        past,
        parts=parts,
        plane=replace(plane, mass=plane.mass + float(mass[gone].sum())),
        w=w,
        dual=problem.frozen.offset + dual.core.offset() - problem.regularizer.conjugate(q),
        support=renumbered(stays, kept),
        sizes=output_sizes(stays.blocks),
        index=index[kept],
        gaps=gaps[kept],
        n_frozen=past.n_frozen + len(frozen),
        records=records,
    )
    return later, kept, float(mass[gone] @ gaps[gone])


def support_of(dual: DualState, blocks: np.ndarray) -> Support:
    """The multipliers of some blocks."""
    found, multipliers, outputs = dual.core.support_of(blocks)
    return Support(found, multipliers, dual.readable(outputs), partial=True)


def renumbered(support: Support, blocks: np.ndarray) -> Support:
    """The multipliers of these blocks, numbered as they are listed here."""
    return replace(support, blocks=np.searchsorted(blocks, support.blocks))


# partial_fit


@dataclass(frozen=True)
class Settings:
    """How a stream is optimised."""

    solver: Streaming
    formulation: Formulation
    n_jobs: int
    options: dict[str, Any]  # of ``train``
    executor: Any = None  # for a model written in Python


def streaming_of(solver: Any) -> Streaming:
    """The solver of a stream."""
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
        raise ValueError(f"partial_fit: C was {past.C} for the chunks before; fit starts over")
    if classes is not None:
        given, known = LabelSet(classes).classes, svm.model_.classes_
        if not np.array_equal(given, known):
            raise ValueError("partial_fit: classes must be those of the first call, or None")
    return svm.model_


def optimise_chunk(
    past: Past | None, C: float, model: Any, chunk: tuple[Any, Any, np.ndarray], settings: Settings
) -> tuple[Past, Result, Examples]:
    """Optimise a chunk together with what is kept of those before it."""
    X, Y, weights = chunk
    # Refuses what the model cannot take, with the number of the example in the chunk.
    own = bind_model(model, X, Y)
    check_streams(model, own)
    past, each = past or empty_past(C, layout_of(model, X), own.dimension), np.arange(own.n)
    new = Part(past.layout, *past.layout.copy(X, Y, each), past.n_seen + each, weights)
    parts = [*past.parts, new]
    problem = bind(model, parts, past.C, settings, past.plane)
    warm = past.support if len(past.index) else None
    result = train(problem, settings.solver, warm=warm, **settings.options)
    rng = np.random.default_rng(0)  # no pass is made
    dual = open_state(problem, 1.0, rng, warm=result.support, lean=True)
    dual.violations[:] = 0.0
    later, kept, _ = remember(past, parts, dual, settings.solver.cache_bytes)
    keep(parts, kept)
    reported = replace(result, certificate=as_reported(result.certificate, past))
    return replace(later, n_seen=past.n_seen + own.n), reported, problem.examples


def as_reported(certificate: Certificate, past: Past) -> Certificate:
    """The certificate of a chunk: with examples gone, its primal does not bound the objective of all."""
    if past.n_gone == 0:
        return certificate
    status = (
        f"{certificate.status} for the examples in memory; {past.n_gone} seen before are gone, "
        f"{past.n_frozen} of them frozen"
    )
    return replace(certificate, exact=False, converged=False, status=status)
