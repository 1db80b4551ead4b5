"""P(w) and D(a) of tiny problems in exact arithmetic: fractions, and for logarithms 120 digits.

A problem is a list of its outputs, for each example: (loss, psi), all of them fractions. The first one is
the true output. An output may have weight: `codes` says which labels it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

DIGITS = 120


def exactly(values: Any) -> list[Fraction]:
    """Floating point numbers as fractions."""
    return [Fraction(float(v)) for v in np.ravel(values)]


def inner(a: list[Fraction], b: list[Fraction]) -> Fraction:
    """<a, b>."""
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def decimal(value: Fraction) -> Decimal:
    """A fraction, to DIGITS digits."""
    return Decimal(value.numerator) / Decimal(value.denominator)


@dataclass
class Exact:
    """All outputs of all examples; `codes[i]` and `planes[i]` list the outputs of example i."""

    codes: list[list[tuple[int, ...]]]
    planes: list[list[tuple[Fraction, list[Fraction]]]]
    mass: list[Fraction]
    rescaling: str = "margin"

    def value(self, i: int, k: int, w: list[Fraction]) -> Fraction:
        """s_i(y) of the k-th output."""
        loss, psi = self.planes[i][k]
        score = inner(psi, w)
        return loss + score if self.rescaling == "margin" else loss * (1 + score)

    def slack(self, i: int, w: list[Fraction], hinge: str) -> Fraction:
        """xi_i(w)."""
        values = [self.value(i, k, w) for k in range(len(self.planes[i]))]
        if hinge == "max":
            return max(values)
        if hinge == "sum":
            return sum((max(v, Fraction(0)) for v in values), Fraction(0))
        if hinge == "log":
            values = [v - loss for v, (loss, _) in zip(values, self.planes[i], strict=True)]
        top = max(values)
        with localcontext() as context:
            context.prec, context.Emin, context.Emax = DIGITS, -(10**9), 10**9
            total = sum((decimal(v - top).exp() for v in values if v - top > -2000), Decimal(0))
            return top + Fraction(total.ln())

    def primal(self, w: np.ndarray, hinge: str) -> Fraction:
        """P(w) with R(w) = 1/2 |w|^2."""
        exact = exactly(w)
        risk = sum((m * self.slack(i, exact, hinge) for i, m in enumerate(self.mass)), Fraction(0))
        return inner(exact, exact) / 2 + risk

    def dual(self, multipliers: list[tuple[int, tuple[int, ...], float]]) -> Fraction:
        """D(a), of multipliers (example, output, a)."""
        offset, vector = Fraction(0), [Fraction(0)] * len(self.planes[0][0][1])
        for i, output, number in multipliers:
            a, (loss, psi) = Fraction(number), self.planes[i][self.codes[i].index(output)]
            a_psi = a if self.rescaling == "margin" else a * loss
            offset += a * loss
            vector = [v + a_psi * p for v, p in zip(vector, psi, strict=True)]
        return offset - inner(vector, vector) / 2


def exact_chains(X: list[np.ndarray], Y: list[np.ndarray], K: int, mass: list[Fraction]) -> Exact:
    """Chains under the Hamming loss; one position each: classes, whose transitions have no features."""
    codes, planes = [], []
    for x, y in zip(X, Y, strict=True):
        outputs = list(product(range(K), repeat=len(y)))
        rows = [exactly(row) for row in x]
        true = features(rows, tuple(y.tolist()), K)
        codes.append(outputs)
        planes.append(
            [
                (
                    Fraction(sum(a != b for a, b in zip(output, y.tolist(), strict=True))),
                    [a - b for a, b in zip(features(rows, output, K), true, strict=True)],
                )
                for output in outputs
            ]
        )
    return Exact(codes, planes, mass)


def features(rows: list[list[Fraction]], output: tuple[int, ...], K: int) -> list[Fraction]:
    """Psi(x, y): features by label, then transitions [previous, next]."""
    d = len(rows[0])
    psi = [Fraction(0)] * (K * d + K * K)
    for t, label in enumerate(output):
        for j in range(d):
            psi[label * d + j] += rows[t][j]
        if t:
            psi[K * d + output[t - 1] * K + label] += 1
    return psi


def without_transitions(problem: Exact, K: int) -> Exact:
    """The same classes for a model that has no transitions."""
    planes = [[(loss, psi[: -K * K]) for loss, psi in own] for own in problem.planes]
    return Exact(problem.codes, planes, problem.mass, problem.rescaling)
