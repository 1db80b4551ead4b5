"""A problem with a prior as the plain problem that solvers know.

    w = m + L u,   Sigma = L L':     R(w) = 1/2 |u|^2
    plane (b, p) of w   ->   plane (b + <m, p>, L' p) of u;     w_j >= 0  ->  u_j >= - m_j / L_jj

An offset may be negative now; the true output keeps offset 0 and vector 0. Where L = s I, the compiled
models keep their own planes: u = w - m, the objective is multiplied by s^2, and so are C and the
multipliers. Otherwise planes travel as vectors, made one by one.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from maxmargin.models.base import Examples
from maxmargin.models.planes import PlaneExamples, Vector
from maxmargin.problem.plane import Support
from maxmargin.problem.problem import Problem
from maxmargin.problem.regularizer import Prior, SquaredNorm


class Shifted(Examples):
    """Examples of a compiled model, seen from an origin: u = w - m."""

    def __init__(self, base: Examples, origin: np.ndarray):
        self.base, self.origin = base, origin
        self.n, self.dimension, self.core = base.n, base.dimension, base.core
        self.exact, self.enumerates = base.exact, base.enumerates
        self.sums_exact, self.sums_bounded = base.sums_exact, base.sums_bounded
        named: Any = base
        self.state_name, self.knows = named.state_name, named.knows
        self.box_name = named.box_name

    def is_exact(self, rescaling: str) -> bool:
        return self.base.is_exact(rescaling)

    def is_bounded(self, rescaling: str) -> bool:
        return self.base.is_bounded(rescaling)

    def slacks(self, w: np.ndarray, n_jobs: int, rescaling: str = "margin") -> np.ndarray:
        return self.base.slacks(w + self.origin, n_jobs, rescaling)

    def slack_bounds(
        self, w: np.ndarray, n_jobs: int, rescaling: str = "margin"
    ) -> tuple[np.ndarray, np.ndarray]:
        return self.base.slack_bounds(w + self.origin, n_jobs, rescaling)

    def sums(
        self, w: np.ndarray, n_jobs: int, rescaling: str = "margin"
    ) -> tuple[np.ndarray, np.ndarray]:
        return self.base.sums(w + self.origin, n_jobs, rescaling)

    def worst_outputs(
        self, w: np.ndarray, n_jobs: int, rescaling: str = "margin"
    ) -> tuple[np.ndarray, Any]:
        return self.base.worst_outputs(w + self.origin, n_jobs, rescaling)

    def combine(self, blocks, multipliers, outputs, rescaling="margin", n_jobs=1):
        offset, vector = self.base.combine(blocks, multipliers, outputs, rescaling, n_jobs)
        return offset + float(self.origin @ vector), vector

    def cache(self, capacity: int, rescaling: str = "margin") -> ShiftedCache:
        return ShiftedCache(self.base.cache(capacity, rescaling), self.origin)

    def predict(self, w: np.ndarray, n_jobs: int) -> Any:
        return self.base.predict(w + self.origin, n_jobs)


class ShiftedCache:
    """The last outputs of each example, asked at w = m + u."""

    def __init__(self, base: Any, origin: np.ndarray):
        self.base, self.origin, self.add = base, origin, base.add

    def best(self, w: np.ndarray, n_jobs: int) -> tuple[np.ndarray, Any]:
        """The slack that the kept outputs show, and the output, of each example."""
        return self.base.best(w + self.origin, n_jobs)


class Substituted(PlaneExamples):
    """Examples whose planes are those of u, with w = m + L u."""

    def __init__(self, base: PlaneExamples, prior: Prior):
        self.base, self.prior = base, prior
        self.n, self.dimension = base.n, base.dimension
        self.exact, self.enumerates, self.batched = base.exact, base.enumerates, base.batched
        self.sums_exact, self.sums_bounded = base.sums_exact, base.sums_bounded
        self.executor, self.model = (getattr(base, name, None) for name in ("executor", "model"))
        self.mean = np.zeros(base.dimension) if prior.mean is None else prior.mean
        self.lower: np.ndarray | None = None
        if prior.bound is not None:
            self.lower = np.where(prior.bound, -self.mean / prior.scale, -np.inf)

    def weights(self, u: np.ndarray) -> np.ndarray:
        """w = m + L u; what lies on a bound is not put below it by rounding."""
        L, bound = self.prior.scale, self.prior.bound
        w = self.mean + (L @ u if self.prior.full else L * u)
        return w if bound is None else np.where(bound, np.maximum(w, 0.0), w)

    def forth(self, plane: tuple[float, Vector]) -> tuple[float, Vector]:
        """The plane of u for a plane of w."""
        offset, (index, value) = plane
        if len(index) == 0:
            return plane
        offset, L = offset + float(self.mean[index] @ value), np.asarray(self.prior.scale)
        if not self.prior.full:
            return offset, (index, value * (L if L.ndim == 0 else L[index]))
        return offset, (np.arange(self.dimension, dtype=np.int32), L[index].T @ value)

    def back(self, plane: tuple[float, Vector]) -> tuple[float, Vector]:
        """The plane of w for a plane of u."""
        offset, (index, value) = plane
        if len(index) == 0:
            return plane
        L = np.asarray(self.prior.scale)
        if self.prior.full:
            dense = np.zeros(self.dimension)
            dense[index] = value
            index = np.arange(self.dimension, dtype=np.int32)
            value = solve_triangular(L.T, dense, lower=False)
        else:
            value = value / (L if L.ndim == 0 else L[index])
        return offset - float(self.mean[index] @ value), (index, value)

    def is_exact(self, rescaling: str) -> bool:
        return self.base.is_exact(rescaling)

    def is_bounded(self, rescaling: str) -> bool:
        return self.base.is_bounded(rescaling)

    def sums(
        self, w: np.ndarray, n_jobs: int, rescaling: str = "margin"
    ) -> tuple[np.ndarray, np.ndarray]:
        return self.base.sums(self.weights(w), n_jobs, rescaling)

    def every_plane(self, i: int, rescaling: str = "margin") -> list[tuple[float, Vector]]:
        return [self.forth(plane) for plane in self.base.every_plane(i, rescaling)]

    def planes(self, w: np.ndarray, n_jobs: int, rescaling: str) -> list[tuple[float, Vector]]:
        found = self.base.planes(self.weights(w), n_jobs, rescaling)
        return [self.forth(plane) for plane in found]

    def oracle(self, blocks, w, rescaling="margin"):
        found = self.base.oracle(blocks, self.weights(w), rescaling)
        return [self.forth(plane) for plane in found]

    def slack_bounds(
        self, w: np.ndarray, n_jobs: int, rescaling: str = "margin"
    ) -> tuple[np.ndarray, np.ndarray]:
        return self.base.slack_bounds(self.weights(w), n_jobs, rescaling)

    def predict(self, w: np.ndarray, n_jobs: int) -> Any:
        return self.base.predict(self.weights(w), n_jobs)


class Bounded(SquaredNorm):
    """R(u) = 1/2 |u|^2 for u >= lower, infinite elsewhere; u = max(lower, q)."""

    def __init__(self, lower: np.ndarray):
        super().__init__(np.asarray)
        self.lower = lower

    def value(self, w: np.ndarray) -> float:
        return super().value(w) if (w >= self.lower).all() else np.inf

    def conjugate(self, q: np.ndarray) -> float:
        u = np.maximum(self.lower, q)
        return float(q @ u) - 0.5 * float(u @ u)


@dataclass(frozen=True)
class Standard:
    """The plain problem in u, and the way back; its objective is ``unit`` times that in w."""

    problem: Problem
    unit: float

    def weights(self, u: np.ndarray) -> np.ndarray:
        """w of u."""
        examples = self.problem.examples
        if isinstance(examples, Substituted):
            return examples.weights(u)
        return u + examples.origin if isinstance(examples, Shifted) else u

    def support(self, point: Support) -> Support:
        """The dual point of the problem in w."""
        examples, outputs = self.problem.examples, point.outputs
        if isinstance(examples, Substituted):
            outputs = [examples.back(plane) for plane in outputs]
        return Support(point.blocks, point.multipliers / self.unit, outputs)

    def warm(self, point: Support | None) -> Support | None:
        """A dual point of the problem in w, for the one in u."""
        examples = self.problem.examples
        if point is None or not isinstance(examples, Substituted):
            return point
        return Support(point.blocks, point.multipliers, [examples.forth(p) for p in point.outputs])


def standard(problem: Problem) -> Standard:
    """The plain problem for a problem with a prior or with non-negative weights."""
    prior, base = problem.regularizer, problem.examples
    assert isinstance(prior, Prior)
    inner, unit = copy.copy(problem), 1.0
    inner.regularizer = SquaredNorm(base.metric)
    if isinstance(base, PlaneExamples) and not (prior.uniform and prior.mean is None):
        inner.examples = substituted = Substituted(base, prior)
        if substituted.lower is not None:
            inner.regularizer = Bounded(substituted.lower)
        return Standard(inner, unit)
    unit = float(prior.scale) ** 2
    if prior.mean is not None:
        inner.examples = Shifted(base, prior.mean)
    inner.C, inner.mass, inner.total = unit * problem.C, unit * problem.mass, unit * problem.total
    if not np.isfinite(inner.total) or not inner.total > 0:
        raise ValueError(f"prior: C times scale^2 must be finite and positive, got {inner.C}")
    return Standard(inner, unit)
