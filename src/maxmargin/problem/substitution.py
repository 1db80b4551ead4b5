"""A problem with a prior as the plain problem in u, for solvers that keep sums of planes.

    w = m + L u,   Sigma = L L':     R(w) = 1/2 |u|^2
    plane (b, p) of w   ->   plane (b + <m, p>, L' p) of u

Where L = s I, L is left out: u = w - m, the objective is multiplied by s^2, and so are C and the
multipliers. Outputs are kept as they are; only their sums, and the w at which they are asked, change.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.models.examples import Examples
from maxmargin.problem.plane import Support
from maxmargin.problem.problem import Problem
from maxmargin.problem.regularizer import Prior, SquaredNorm


class Substituted(Examples):
    """Examples seen through w = m + L u; ``L`` is a vector, a lower factor, or None for the identity."""

    batched = False

    def __init__(self, base: Examples, mean: np.ndarray | None, L: np.ndarray | None = None):
        self.base, self.mean, self.L = base, mean, L
        self.n, self.dimension, self.core = base.n, base.dimension, base.core
        self.formulation, self.enumerates = base.formulation, base.enumerates
        # Where dual states see the shift, with L they only add multipliers up.
        self.origin = mean if L is None else None
        named: Any = base
        if self.core is not None:
            self.knows = named.knows

    def weights(self, u: np.ndarray) -> np.ndarray:
        """w = m + L u."""
        if self.L is not None:
            u = self.L @ u if self.L.ndim == 2 else self.L * u
        return u if self.mean is None else self.mean + u

    def vector(self, p: np.ndarray) -> np.ndarray:
        """L' p."""
        return p if self.L is None else self.L.T @ p if self.L.ndim == 2 else self.L * p

    @property
    def argmax_exact(self) -> bool:
        return self.base.argmax_exact

    @property
    def bounded(self) -> bool:
        return self.base.bounded

    def slacks(self, w: np.ndarray, n_jobs: int = 1) -> tuple[np.ndarray, np.ndarray]:
        return self.base.slacks(self.weights(w), n_jobs)

    def worst(self, w: np.ndarray, n_jobs: int = 1) -> tuple[np.ndarray, Any]:
        return self.base.worst(self.weights(w), n_jobs)

    def combine(
        self, blocks: np.ndarray, multipliers: np.ndarray, outputs: Any, n_jobs: int = 1
    ) -> tuple[float, np.ndarray]:
        offset, vector = self.base.combine(blocks, multipliers, outputs, n_jobs)
        shift = 0.0 if self.mean is None else float(self.mean @ vector)
        return offset + shift, self.vector(vector)

    def cache(self, capacity: int) -> SubstitutedCache:
        return SubstitutedCache(self.base.cache(capacity), self)

    def predict(self, w: np.ndarray, n_jobs: int = 1) -> Any:
        return self.base.predict(self.weights(w), n_jobs)


class SubstitutedCache:
    """The last outputs of each example, asked at w = m + L u."""

    def __init__(self, base: Any, examples: Substituted):
        self.base, self.examples, self.add = base, examples, base.add

    def best(self, w: np.ndarray, n_jobs: int) -> tuple[np.ndarray, Any]:
        """The slack that the kept outputs show, and the output, of each example."""
        return self.base.best(self.examples.weights(w), n_jobs)


@dataclass(frozen=True)
class Standard:
    """The plain problem in u, and the way back; its objective is ``unit`` times that in w."""

    problem: Problem
    unit: float

    def weights(self, u: np.ndarray) -> np.ndarray:
        """w of u."""
        examples = self.problem.examples
        return examples.weights(u) if isinstance(examples, Substituted) else u

    def support(self, point: Support) -> Support:
        """The dual point of the problem in w."""
        return Support(point.blocks, point.multipliers / self.unit, point.outputs)


def shifts(problem: Problem) -> bool:
    """Whether the prior is a shift and another C, which compiled planes and plain sums take as they are."""
    prior = problem.regularizer
    if not isinstance(prior, Prior) or not prior.uniform or problem.past is not None:
        return False
    return prior.mean is None or problem.examples.core is not None


def standard(problem: Problem) -> Standard:
    """The plain problem for a problem with a prior."""
    prior, base = problem.regularizer, problem.examples
    assert isinstance(prior, Prior) and prior.bound is None
    inner, unit = copy.copy(problem), 1.0
    inner.regularizer = SquaredNorm(base.metric)
    if not shifts(problem):
        scale = np.asarray(prior.scale)
        L = np.full(base.dimension, float(scale)) if scale.ndim == 0 else scale
        inner.examples = Substituted(base, prior.mean, L)
        return Standard(inner, unit)
    unit = float(prior.scale) ** 2
    if prior.mean is not None:
        inner.examples = Substituted(base, prior.mean)
    inner.C, inner.mass, inner.total = unit * problem.C, unit * problem.mass, unit * problem.total
    if not np.isfinite(inner.total) or not inner.total > 0:
        raise ValueError(f"prior: C times scale^2 must be finite and positive, got {inner.C}")
    return Standard(inner, unit)
