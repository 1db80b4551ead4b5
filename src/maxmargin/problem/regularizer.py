"""Regulariser: R(w), its conjugate R*, and the map from q = - sum a psi to w.

    squared norm   R(w) = 1/2 |w|^2                       R*(q) = 1/2 |q|^2
                   w = q
    prior          R(w) = 1/2 (w - m)' Sigma^-1 (w - m)   R*(q) = <m, q> + 1/2 q' Sigma q
                   w = m + Sigma q
    non-negative   the same with a diagonal Sigma; R is infinite if a bound weight is negative
                   w_j = max(0, m_j + Sigma_jj q_j)       R*(q) = <q, w> - R(w)
    free           Sigma_jj infinite: R does not depend on w_j, and R*(q) is infinite unless q_j = 0

Sections 6 and 5 of the manuscript on dual coordinate solvers treat the last two cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from maxmargin.data.arrays import array_of, floats
from maxmargin.models.examples import Examples

PRIOR, NONNEGATIVE = "prior", "nonnegative"  # the regularisers that a solver may declare to support
# Most weights with an infinite scale: their solver makes a square matrix over them.
MOST_FREE = 2000


def dot(a: np.ndarray, b: np.ndarray) -> float:
    """Return <a, b> without BLAS, whose threads cost more here than they save."""
    return float(np.einsum("i,i->", a, b))


@dataclass(eq=False)
class SquaredNorm:
    """R(w) = 1/2 |w|^2. It is its own conjugate, and w = q.

    |w|^2 = <w, metric(w)>. The examples give the metric: Euclidean, or the metric of a kernel.
    """

    metric: Callable[[np.ndarray], np.ndarray]
    asks_for: tuple[str, ...] = ()  # parameters that were set and that a solver must support
    mean: np.ndarray | None = None
    free: np.ndarray | None = None  # a mask of the weights that R does not depend on

    def centred(self, w: np.ndarray) -> np.ndarray:
        """Return w - mean."""
        return w if self.mean is None else w - self.mean

    def image(self, q: np.ndarray) -> np.ndarray:
        """Return Sigma q in the form that inner products with planes need.

        R*(q) = <mean, q> + 1/2 <q, image(q)>.
        """
        return self.metric(q)

    def law(self, q: np.ndarray) -> np.ndarray:
        """Return the w that belongs to q: argmax_w <w, q> - R(w)."""
        return q

    def value(self, w: np.ndarray) -> float:
        """Return R(w)."""
        return 0.5 * dot(w, self.metric(w))

    def conjugate(self, q: np.ndarray) -> float:
        """Return R*(q) = max_w <w, q> - R(w)."""
        return 0.5 * dot(q, self.metric(q))

    def conjugate_of_sum(self, vector: np.ndarray) -> float:
        """Return R*(-v) of a sum v of planes. Here it equals R*(v), which saves a copy as long as w."""
        return self.conjugate(vector)

    def maximise(self, q: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the results of ``law`` and of ``conjugate``."""
        return self.law(q), self.conjugate(q)


class Prior(SquaredNorm):
    """A Gaussian prior with a mean; some of its weights may be constrained to be non-negative.

    ``mean`` is a vector, or None for zero. ``scale`` is a number, a vector, or the lower factor L
    of a covariance L L'. ``bound`` is a mask of the non-negative weights, or None.
    """

    mean: np.ndarray | None
    scale: float | np.ndarray
    bound: np.ndarray | None
    asks_for: tuple[str, ...]

    def __init__(
        self,
        mean: np.ndarray | None = None,
        scale: float | np.ndarray = 1.0,
        bound: np.ndarray | None = None,
        metric: Callable[[np.ndarray], np.ndarray] = np.asarray,
        asks_for: tuple[str, ...] = (PRIOR,),
    ):
        super().__init__(metric)
        self.mean, self.scale, self.bound, self.asks_for = mean, scale, bound, asks_for
        loose = np.isinf(scale)
        self.free: np.ndarray | None = loose if np.ndim(scale) == 1 and loose.any() else None

    @property
    def full(self) -> bool:
        """Return whether the covariance is a full matrix."""
        return np.ndim(self.scale) == 2

    @property
    def uniform(self) -> bool:
        """Return whether there is one scale and no bound: then the prior is a shift of w and another C."""
        return np.ndim(self.scale) == 0 and self.bound is None

    def image(self, q: np.ndarray) -> np.ndarray:
        L = np.asarray(self.scale)
        return L @ (L.T @ q) if self.full else L**2 * self.metric(q)

    def value(self, w: np.ndarray) -> float:
        if self.bound is not None and (w[self.bound] < 0).any():
            return np.inf
        r = self.centred(w)
        if np.ndim(self.scale) == 0:
            return 0.5 * float(r @ self.metric(r)) / float(self.scale) ** 2
        if not self.full:
            return 0.5 * float((r / self.scale) @ (r / self.scale))
        # ``Bounds`` finds values that overflowed.
        u = solve_triangular(self.scale, r, lower=True, check_finite=False)
        return 0.5 * float(u @ u)

    def conjugate_of_sum(self, vector: np.ndarray) -> float:
        return self.conjugate(-vector)

    def conjugate(self, q: np.ndarray) -> float:
        if self.free is not None and q[self.free].any():
            return np.inf
        if self.bound is not None:
            w = self.law(q)
            return float(q @ w) - self.value(w)
        linear = 0.0 if self.mean is None else float(self.mean @ q)
        if np.ndim(self.scale) == 0:
            return linear + 0.5 * float(self.scale) ** 2 * float(q @ self.metric(q))
        if self.free is not None:
            scale = np.where(self.free, 0.0, self.scale)
            return linear + 0.5 * float((scale * q) @ (scale * q))
        u = np.asarray(self.scale).T @ q if self.full else self.scale * q
        return linear + 0.5 * float(u @ u)

    def law(self, q: np.ndarray) -> np.ndarray:
        L = np.asarray(self.scale if self.free is None else np.where(self.free, 0.0, self.scale))
        w = L @ (L.T @ q) if self.full else L**2 * q
        w = w if self.mean is None else self.mean + w
        return w if self.bound is None else np.where(self.bound, np.maximum(w, 0.0), w)


def tilted(regularizer: SquaredNorm, q: np.ndarray) -> tuple[Prior, float]:
    """Write R(w) - <q, w> as a prior R' with another mean, minus a constant; return both.

    With R' = R of the mean m + Sigma q:   R(w) - <q, w> = R'(w) - (<m, q> + 1/2 <q, Sigma q>)
    """
    scale: Any = 1.0
    bound = None
    if isinstance(regularizer, Prior):
        scale, bound = regularizer.scale, regularizer.bound
    image, m = regularizer.image(q), regularizer.mean
    more = 0.5 * float(q @ image) + (0.0 if m is None else float(m @ q))
    mean = image if m is None else m + image
    return Prior(mean, scale, bound, regularizer.metric, regularizer.asks_for), more


def make_regularizer(prior: Any, nonnegative: Any, examples: Examples) -> SquaredNorm:
    """Make the regulariser for the parameters ``prior`` and ``nonnegative``."""
    if prior is None and nonnegative is None:
        return SquaredNorm(examples.metric)
    given = ((PRIOR, prior), (NONNEGATIVE, nonnegative))
    asks_for = tuple(name for name, value in given if value is not None)
    d = examples.dimension
    mean, scale = (None, 1.0) if prior is None else check_prior(prior, d)
    bound = None if nonnegative is None else check_bound(nonnegative, d)
    made = Prior(mean, scale, bound, examples.metric, asks_for)
    if bound is not None and made.full:
        raise ValueError(
            "nonnegative cannot be combined with a covariance matrix in prior; give a scale that "
            "is one number or a vector"
        )
    if bound is not None and made.free is not None and (bound & made.free).any():
        raise ValueError(
            f"nonnegative: the weight {np.flatnonzero(bound & made.free)[0]} has an infinite "
            "scale in prior; give it a finite scale, or leave it out of nonnegative"
        )
    if examples.kernelised and not (made.uniform and mean is None):
        raise ValueError(
            "a model with an exact kernel only takes a prior with mean 0 and one scale, and no "
            "nonnegative, because its weights are functions; use Kernel(rank=k), which has plain "
            "weights"
        )
    return made


def check_prior(prior: Any, d: int) -> tuple[np.ndarray | None, float | np.ndarray]:
    """Return the mean of ``prior`` (None for zero) and its scale, or the lower factor of its covariance."""
    if not isinstance(prior, tuple | list) or len(prior) != 2:
        raise ValueError(f"prior must be a pair (mean, scale), got {prior!r}")
    mean = floats(prior[0], "prior: the mean")
    if mean.shape not in ((), (d,)):
        raise ValueError(f"prior: the mean must be a number or have shape ({d},), got {mean.shape}")
    if not np.isfinite(mean).all():
        raise ValueError("prior: the mean must be finite")
    mean = np.full(d, float(mean)) if mean.ndim == 0 else mean
    return (mean if mean.any() else None), check_scale(floats(prior[1], "prior: the scale"), d)


def check_scale(scale: np.ndarray, d: int) -> float | np.ndarray:
    """Check a scale: a positive number, a vector of them, or a covariance.

    Return it, or the lower factor of the covariance.
    """
    if scale.shape not in ((), (d,), (d, d)):
        raise ValueError(
            f"prior: the scale must be a number, a vector of shape ({d},) or a covariance of shape "
            f"({d}, {d}), got {scale.shape}"
        )
    if np.isposinf(scale).any() and scale.ndim != 1:
        raise ValueError(
            "prior: an infinite scale, for weights without any regulariser, must be in a vector "
            f"of shape ({d},) with the scales of all weights"
        )
    if np.isnan(scale).any() or np.isneginf(scale).any():
        raise ValueError("prior: the scale must hold positive numbers, but it holds NaN or -inf")
    if np.isposinf(scale).sum() > MOST_FREE:
        raise ValueError(
            f"prior: at most {MOST_FREE} weights can have an infinite scale, got {np.isposinf(scale).sum()}"
        )
    if scale.ndim == 2:
        return factor(scale)
    if not (scale > 0).all():
        raise ValueError(f"prior: the scale must be positive, got {scale.min()}")
    with np.errstate(over="ignore", under="ignore"):
        squares = scale[np.isfinite(scale)] ** 2
        if not (np.isfinite(squares).all() and (squares > 0).all()):
            raise ValueError("prior: the square of the scale must be a finite positive number")
    return float(scale) if scale.ndim == 0 else scale


def factor(covariance: np.ndarray) -> np.ndarray:
    """Return L with L L' = covariance; raise ValueError unless it is symmetric positive definite."""
    if not np.allclose(covariance, covariance.T, rtol=1e-10, atol=0):
        raise ValueError("prior: the covariance matrix must be symmetric")
    try:
        return np.linalg.cholesky((covariance + covariance.T) / 2)
    except np.linalg.LinAlgError:
        raise ValueError("prior: the covariance matrix must be positive definite") from None


def check_bound(nonnegative: Any, d: int) -> np.ndarray | None:
    """Return a mask of the weights that ``nonnegative`` names, or None if it names no weight."""
    chosen = array_of(nonnegative, "nonnegative")
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "biu"):
        raise ValueError(
            f"nonnegative must be a vector of indices or a mask over coef_, got {nonnegative!r}"
        )
    mask = np.zeros(d, dtype=bool)
    if chosen.dtype.kind == "b":
        if chosen.shape != (d,):
            raise ValueError(
                f"nonnegative: a mask must have shape ({d},), like coef_, got {chosen.shape}"
            )
        mask = chosen.copy()
    elif chosen.size:
        if chosen.min() < 0 or chosen.max() >= d:
            wrong = chosen[(chosen < 0) | (chosen >= d)][0]
            raise ValueError(f"nonnegative: the index {wrong} is outside coef_, of length {d}")
        mask[chosen.astype(np.int64)] = True
    return mask if mask.any() else None
