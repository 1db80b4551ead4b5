"""Bounds on rounding in an exact pass: how wrong the computed P(w) and D(a) may be.

If k numbers are added in double precision, in any order, the error is at most

    g(k) sum |terms|,     g(k) = k u / (1 - k u),  u = 2^-53

``models.extent`` gives bounds on the terms: the terms of a score sum to at most |w| L_i in absolute
value. A slack is a difference of two scores plus a loss. The loss is at most the slack plus such a
difference. With n blocks and scores of k terms,

    error of P  <=  g(k) 4 |w| sum_i mass_i L_i + g(k + n) sum_i mass_i xi_i + g(d) R(w)
    error of D  <=  |gradient of R*| e + 1/2 e^2 + g(N) sum a |Delta| + g(d) R*
                    e = g(N + k) 2 sum_i mass_i L_i,   N: number of planes in the sum

Under the log loss the planes are made of probabilities. Errors in the scores give other
probabilities, and the bound for these is just as valid. Only sums of exponentials make the
probabilities themselves wrong, by a factor close to 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.formulation import Formulation
from maxmargin.models.examples import Examples
from maxmargin.models.extent import EXPONENTIAL, MORE
from maxmargin.problem.plane import PLANES, Support

UNIT = 2.0**-53
SPARE = 16  # operations added to the count of any sum, as a margin
SUBNORMAL_UNIT = 2.0**-1074  # largest loss of a product that underflows
FIRST_ORDER = 0.01  # with a larger relative error, probabilities may not even sum to one
# The core never adds up potentials of at most this size in logarithms
# (cpp/models/forward_backward.hpp).
CLOSE_ENOUGH = 30.0


def growth(count: float) -> float:
    """Return g(count), the largest relative error of a sum of count numbers; infinite if it is not small."""
    small = (count + SPARE) * UNIT
    return small / (1.0 - small) if small < 0.1 else math.inf


def times(size: float, by: float) -> float:
    """Return size times by; zero times infinity is zero."""
    return size * by if size > 0 else 0.0


def product(a: np.ndarray, b: np.ndarray) -> float:
    """Return <a, b> without BLAS and its threads."""
    return float(np.einsum("i,i->", a, b))


def magnitude(w: np.ndarray) -> tuple[float, float, int]:
    """Bound |w_p| of any part (``models.extent``), and the terms of <w, metric(w)>.

    The terms are given as the sum of their absolute values and their number.
    """
    square = product(w, w)
    if not 1e-280 < square < 1e280:  # the square may have overflowed or underflowed
        largest = max(float(w.max(initial=0.0)), -float(w.min(initial=0.0)))
        size = largest * math.sqrt(len(w))
        return size, size * size, len(w)
    return MORE * math.sqrt(square), MORE * square, len(w)


@dataclass(frozen=True)
class Sizes:
    """The numbers in the bounds, for all examples of a problem or for some of them.

    ``total``: sum_i mass_i. ``reach``: sum_i mass_i L_i. ``longest``: the largest L_i. ``offsets``:
    the sum of mass_i times the largest absolute offset, if offsets can be negative. ``exponents``:
    an error count for the sums of exponentials of one example. ``Extent`` describes the other
    fields.
    """

    total: float = 0.0
    reach: float = 0.0
    longest: float = 0.0
    offsets: float = 0.0
    terms: int = 0
    parts: int = 0
    all_parts: int = 0
    exponents: int = 0
    logarithms: bool = False

    def __add__(self, other: Sizes) -> Sizes:
        return Sizes(
            self.total + other.total,
            self.reach + other.reach,
            max(self.longest, other.longest),
            self.offsets + other.offsets,
            max(self.terms, other.terms),
            max(self.parts, other.parts),
            self.all_parts + other.all_parts,
            max(self.exponents, other.exponents),
            self.logarithms or other.logarithms,
        )


def sizes_of(examples: Examples, mass: np.ndarray) -> Sizes:
    """Return the sizes that bound rounding errors; `mass` has the weight of each example."""
    extent = examples.extent()
    lengths = extent.lengths
    if examples.formulation.rescaling == "slack" and not examples.checked:
        lengths = lengths * (1.0 + largest_losses(examples))
    if examples.formulation.hinge == "sum":
        lengths = lengths * np.maximum(extent.outputs, 1)
    used = mass > 0
    mass, lengths = mass[used], lengths[used]
    offsets = 0.0 if extent.offsets is None else product(mass, extent.offsets[used])
    return Sizes(
        float(mass.sum()),
        product(mass, lengths),
        float(lengths.max(initial=0.0)),
        offsets,
        extent.terms,
        extent.parts,
        extent.all_parts or len(used),
        2 * extent.parts * (extent.choices + EXPONENTIAL),
        extent.logarithms,
    )


def largest_losses(examples: Examples) -> np.ndarray:
    """Return max_y Delta_i(y) of every example, which is its slack at w = 0."""
    single = examples.under(Formulation("max", examples.formulation.rescaling))
    return single.slacks(np.zeros(examples.dimension))[1]


@dataclass(frozen=True)
class Tilted:
    """Errors of a computed plane b + <w, v> of distributions over outputs.

    The distributions belong to weights u, which ``at`` holds. ``offset`` is the error of b + <u, v>.
    ``vector`` is the error of v; its effect grows with the distance of w from u. If the
    distributions belong to potentials, ``at`` is None and u is zero.
    """

    offset: float = 0.0
    vector: float = 0.0
    at: np.ndarray | None = None

    def error(self, w: np.ndarray, measure: Any) -> float:
        """Return the error of the value of the plane at w."""
        return self.offset + times(measure(w if self.at is None else w - self.at), self.vector)


def tilted_errors(sizes: Sizes, at: np.ndarray, measure: Any) -> Tilted:
    """Return the errors for the distributions at weights, or at potentials in single precision.

    Errors in scores give other distributions, which are equally valid. Sums of exponentials are
    wrong by a factor close to 1. Scores that are far apart need sums in logarithms; then the factor
    is as far from 1 as the rounding of scores.
    """
    potentials = at.dtype == np.float32
    if potentials:
        part = max(float(at.max(initial=0.0)), -float(at.min(initial=0.0)))
        one = 2 * sizes.parts * part
        weighted = one * sizes.total
    else:
        scale = measure(at)
        part = one = scale * sizes.longest
        weighted = scale * sizes.reach
    factor = growth(sizes.exponents)
    if sizes.logarithms or not part <= CLOSE_ENOUGH:
        factor += growth(sizes.terms) * (6 * one + sizes.exponents)
    moved = 2 * factor if factor <= FIRST_ORDER else math.inf
    offset = growth(sizes.terms + sizes.exponents) * 8 * weighted + factor * sizes.total
    offset += growth(0 if potentials else len(at)) * 2 * weighted
    vector = 2 * sizes.reach * (moved + growth(sizes.all_parts + sizes.terms))
    if potentials:
        return Tilted(offset + moved * weighted, vector)
    return Tilted(offset, vector, at)


@dataclass
class Rounding:
    """The rounding bounds for one pass at w: ``add`` every part of the data, then call ``errors``."""

    regularizer: Any
    frozen: Any
    w: np.ndarray
    examples: Any = None  # the examples of one part; all parts have the same metric
    soft: bool = False
    sizes: Sizes = Sizes()
    blocks: int = 0
    planes: int = 0  # most numbers added to one component of the sum of planes
    excess: float = 0.0  # largest relative excess of a block's multipliers over its mass
    mixture: Tilted | None = None  # errors of the sum of planes of a soft formulation
    tangents: Tilted | None = None  # errors of the tangents of ``models.soft_truth``

    def add(self, part: Any, support: Support) -> None:
        """Count the examples of a part, and its multipliers."""
        examples = part.examples
        # Sizes of Python planes cover only those made so far.
        if part.sizes is None or part.checked:
            part.sizes = sizes_of(examples, part.mass)
        sizes = part.sizes
        self.examples, self.soft = examples, part.formulation.soft
        self.sizes += sizes
        self.blocks += part.n_blocks
        self.planes += additions(support, sizes)
        self.excess = max(self.excess, excess_of(part, support))
        if self.soft:
            self.mixture = tilted_errors(sizes, support.outputs, self._size)
        if examples.soft_truth is not None:
            self.tangents = tilted_errors(sizes, examples.soft_truth.at, self._size)

    def errors(self, primal: float, offset: float, vector: np.ndarray) -> tuple[float, float]:
        """Bound the error of the computed P(w), and the excess of the computed D(a) over P*."""
        return self._of_primal(primal), self._of_dual(offset, vector, primal)

    def _size(self, w: np.ndarray) -> float:
        """Return an upper bound on |w_p| of any part."""
        return self._terms(w)[0]

    def _terms(self, w: np.ndarray) -> tuple[float, float, int]:
        """Return ``magnitude`` of w, in the metric of the kernel if there is one."""
        return self.examples.magnitude(w) if self.examples.kernelised else magnitude(w)

    def _of_primal(self, primal: float) -> float:
        sizes, w, frozen = self.sizes, self.w, self.frozen
        size, square = self._measured(w)
        error = growth(sizes.terms) * 8 * times(size, sizes.reach) + square
        error += growth(sizes.terms + self.blocks) * abs(primal)
        if self.soft:
            error += (growth(sizes.exponents) + growth(sizes.terms) * sizes.exponents) * sizes.total
        if frozen is not None:
            lost = 2 * size * self._size(frozen.vector) + abs(frozen.offset)
            error += growth(len(w)) * lost
        if self.tangents is not None:
            error += self.tangents.error(w, self._size)
        return error + self._underflow(size)

    def _of_dual(self, offset: float, vector: np.ndarray, primal: float) -> float:
        sizes, regularizer, frozen = self.sizes, self.regularizer, self.frozen
        count, error, moved = growth(self.planes + sizes.terms), 0.0, 0.0
        if frozen is not None:
            offset, vector = offset + frozen.offset, vector - frozen.vector
            moved += growth(1) * self._size(frozen.vector)
            error += growth(1) * abs(frozen.offset)
        plain = not regularizer.asks_for and self.mixture is None and self.tangents is None
        w = vector if plain else -vector  # sizes do not depend on the sign
        if (
            regularizer.asks_for
        ):  # R*(q) = <q, w> - R(w) at the w of q = -v, which a prior moves by its mean
            w = regularizer.law(w)
            mean = regularizer.mean
            both = self._size(w) + (0.0 if mean is None else self._size(np.asarray(mean)))
            error += growth(len(w)) * self._size(vector) * both
        error += count * (abs(offset) + 2 * sizes.offsets)
        if self.mixture is None:
            moved += count * 2 * sizes.reach
        for tilted in (self.mixture, self.tangents):
            error += 0.0 if tilted is None else tilted.error(w, self._size)
        size, square = self._measured(w)
        error += times(size, moved) + square
        moved += sum(each.vector for each in (self.mixture, self.tangents) if each is not None)
        moved *= self._largest_scale()
        # P* >= D(a) - sum_i (excess of a over mass_i) xi_i(w*), and all slacks together cost at
        # most P*.
        error += 0.5 * moved * moved + times(self.excess, max(primal, 0.0))
        return error + self._underflow(size)

    def _underflow(self, size: float) -> float:
        """Return the most that products with tiny weights can lose by underflow."""
        return SUBNORMAL_UNIT * (1 + self.sizes.terms * self.sizes.total) if size > 0 else 0.0

    def _largest_scale(self) -> float:
        """Return an upper bound on the singular values of a prior's scale; free weights do not count."""
        scale = np.asarray(getattr(self.regularizer, "scale", 1.0))
        if scale.ndim < 2:
            return float(scale[np.isfinite(scale)].max(initial=0.0))
        return float(np.sqrt(np.einsum("ij,ij->", scale, scale)))

    def _measured(self, w: np.ndarray) -> tuple[float, float]:
        """Return the size of w, and the error of R(w), or of R* at the q that belongs to w."""
        scale, mean = np.asarray(getattr(self.regularizer, "scale", 1.0)), self.regularizer.mean
        size, terms, count = self._terms(w)
        if scale.ndim == 2:  # R needs the solution of a triangular system
            value = abs(self.regularizer.value(w))
            return size, growth(3 * len(w)) * float(np.linalg.cond(scale)) * 2 * value
        if scale.ndim == 1 or mean is not None:
            r = (w if mean is None else w - mean) / scale
            return size, growth(count) * self._terms(r)[1]
        return size, growth(count) * (terms / float(scale) / float(scale))


def additions(support: Support, sizes: Sizes) -> int:
    """Return the most numbers that the sum of planes adds to one component."""
    outputs, planes = support.outputs, len(support.blocks)
    if support.kind != PLANES:
        return sizes.all_parts
    if isinstance(outputs, np.ndarray) and outputs.dtype.kind == "i":
        return max(planes, len(outputs))
    return planes * sizes.parts


def excess_of(part: Any, support: Support) -> float:
    """Return the largest relative excess of a block's multipliers over its mass."""
    if part.summed:
        return 0.0
    sums = np.bincount(support.blocks, support.multipliers, minlength=part.n_blocks)
    over = np.divide(sums, part.mass, out=np.zeros(len(sums)), where=part.mass > 0)
    return max(0.0, float(over.max(initial=0.0)) - 1.0) + growth(len(support.blocks))
