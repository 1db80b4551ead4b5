"""What is left of examples that come and go: some in memory, the others as one plane.

While the multipliers of examples that are no longer in memory stay as they are, they give one plane below the
risk of those examples, whatever w is:

    sum_gone mass_i xi_i(w) >= b - <q, w>,      b = sum_gone a Delta,   q = - sum_gone a psi

    P'(w) = 1/2 |w|^2 + b - <q, w> + sum_here mass_i xi_i(w)  <=  P(w) of all examples
    D(a)  = b + sum_here a Delta - 1/2 |q - sum_here a psi|^2  <=  min P of all examples

When the examples in memory were optimised, each is one of

    kept      example and multipliers stay in memory, and are optimised further
    dropped   it did not fit, and its multipliers are all on its true output: it gives nothing to b and q
    frozen    it did not fit, but has other multipliers: they join the plane

The next examples are optimised together with the kept ones, above the plane of the frozen ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.data.scratch import PlaneFile
from maxmargin.parts.layout import Layout, Part
from maxmargin.problem import Formulation, Problem, Support
from maxmargin.problem.plane import FrozenPlane
from maxmargin.problem.regularizer import SquaredNorm
from maxmargin.solvers.box_state import BoxState
from maxmargin.solvers.dual_state import DualState

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
    formulation: Formulation | None = None  # of the planes of those that are gone
    # Examples that were met, those of all that were frozen, and where: for the file of planes.
    records: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    @property
    def n_gone(self) -> int:
        """Examples that are dropped or frozen."""
        return self.n_seen - len(self.index)

    def whole_support(self) -> Support:
        """The multipliers of all examples seen; those of frozen ones are lost, as if on the true output."""
        return replace(self.support, blocks=self.index[self.support.blocks])


def empty_past(C: float, layout: Layout, dimension: int, regularizer: SquaredNorm) -> Past:
    """Before the first example."""
    q, none = np.zeros(dimension), np.empty(0, np.int64)
    support = Support(none, np.empty(0), [], partial=True)
    plane, w, dual = FrozenPlane(0.0, q, 0.0), regularizer.law(q), -regularizer.conjugate(q)
    return Past(C, layout, [], plane, w, dual, support, none, none, np.empty(0))


def moved(plane: FrozenPlane, problem: Problem, support: Support, sign: float) -> FrozenPlane:
    """The plane with some multipliers of a problem added (sign = 1), or without them (sign = -1)."""
    if not len(support.blocks):
        return plane
    b, v = problem.examples.combine(support.blocks, support.multipliers, support.outputs)
    return replace(plane, offset=plane.offset + sign * b, vector=plane.vector - sign * v)


def sort_out(
    dual: DualState | BoxState, gaps: np.ndarray, sizes: np.ndarray, most_bytes: float
) -> tuple[np.ndarray, ...]:
    """Keep as many of the examples as fit, the most useful first; returns kept, frozen and gone ones.

    Useful are those whose multipliers are on several outputs: they are on the margin and will move. Then
    those with all of their mass on a wrong one, then the others; among these those with the larger share
    of the gap, and the newer.
    """
    bytes_each, spread, on_others = dual.usage()
    number = np.arange(len(gaps))
    order = np.lexsort((number, gaps, on_others, spread > 1))[::-1]
    fits = np.cumsum((sizes + TWICE * bytes_each)[order]) <= most_bytes
    kept, gone = np.sort(order[fits]), np.sort(order[~fits])
    return kept, gone[on_others[gone] > 0], gone


def remember(
    past: Past,
    parts: list[Part],
    dual: DualState | BoxState,
    budget: float,
    file: PlaneFile | None = None,
) -> tuple[Past, np.ndarray, float]:
    """What is left when the parts in memory were optimised: the kept ones of before, then new ones.

    Returns the later past, which blocks it keeps, and sum mass_i g_i of the others. These are in the parts
    still: ``keep`` leaves them out, when the past before is not needed. Frozen planes go to the file.
    """
    problem: Any = dual.problem
    w = dual.weights()
    gaps = dual.known_violations()
    sizes = np.concatenate([part.bytes_each for part in parts])
    kept, frozen, gone = sort_out(dual, gaps, sizes, KEPT * budget)
    stays, goes = dual.support(kept), dual.support(frozen)
    index = np.concatenate([part.index for part in parts])
    mass, output_sizes = problem.mass, problem.examples.output_sizes
    plane, records = moved(problem.frozen, problem, goes, 1.0), None
    whole = moved(plane, problem, stays, 1.0)
    if file is not None:
        places = file.write(renumbered(goes, frozen), len(frozen), output_sizes(goes.blocks))
        records = index[len(past.index) :], index[frozen], places
    later = replace(
        past,
        parts=parts,
        plane=replace(plane, mass=plane.mass + float(mass[gone].sum())),
        w=w,
        dual=whole.offset - problem.regularizer.conjugate(whole.vector),
        support=renumbered(stays, kept),
        sizes=output_sizes(stays.blocks),
        index=index[kept],
        gaps=gaps[kept],
        n_frozen=past.n_frozen + len(frozen),
        records=records,
    )
    return later, kept, float(mass[gone] @ gaps[gone])


def renumbered(support: Support, blocks: np.ndarray) -> Support:
    """The multipliers of these blocks, numbered as they are listed here."""
    return replace(support, blocks=np.searchsorted(blocks, support.blocks))


def joined(first: Support, second: Support) -> Support:
    """All multipliers of two."""
    if not len(first.blocks) or not len(second.blocks):
        return second if len(second.blocks) else first
    a, b = first.outputs, second.outputs
    return Support(
        np.concatenate([first.blocks, second.blocks]),
        np.concatenate([first.multipliers, second.multipliers]),
        a + b if isinstance(a, list) else np.concatenate([a, b]),
        partial=True,
    )
