"""Kernel functions on rows of features, and low-rank factors of their matrices.

    k(x, x') = <phi(x), phi(x')>        for rows x, x'; any symmetric positive semidefinite function

The rank-k approximation (Joachims, Finley and Yu, 2009, Section 3.3) takes k basis rows b and the Cholesky
factor L of K[b, b]. It has k features, phi(x) = L^-1 k(b, x). Their inner products equal the kernel
projected on the basis. The greedy choice is the pivoted Cholesky factorisation. It takes as next basis row
the row that the basis explains worst, with the largest residual k(x, x) - |phi(x)|^2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular
from sklearn.metrics.pairwise import pairwise_kernels

from maxmargin.data.arrays import is_number
from maxmargin.io.quoting import short

# the reason why an exact kernel cannot read the data in chunks
SPANS = "w is a sum over all examples under an exact kernel"
KERNELS = ("linear", "poly", "rbf", "laplacian", "sigmoid", "cosine")
# size of a block of the kernel matrix that is computed and used at once; larger blocks take more memory
BLOCK_BYTES = 1 << 24
# rows whose kernel matrix is checked before training; the time of the check grows with the cube
CHECKED = 200
NEGATIVE = 1e-8  # a negative eigenvalue within this share of the largest one counts as rounding
DROP = 1e-10  # a residual below this share of the largest k(x, x) is rounding and adds no direction


@dataclass(frozen=True)
class KernelFunction:
    """k on two sets of rows; ``constant`` is added to k, which is equivalent to a constant feature."""

    kernel: str | Callable[[Any, Any], Any]
    gamma: float | None = None
    degree: float = 3
    coef0: float = 1.0
    constant: float = 0.0

    @property
    def name(self) -> str:
        """The name of the kernel in messages."""
        return repr(self.kernel) if isinstance(self.kernel, str) else "given as a function"

    def __call__(self, A: Any, B: Any, squares_of_B: np.ndarray | None = None) -> np.ndarray:
        """Return k(a, b) for every row a of A and b of B, checked; pass |b|^2 if it is known."""
        if callable(self.kernel):
            values = np.asarray(self.kernel(A, B))
            if values.shape != (A.shape[0], B.shape[0]) or values.dtype.kind not in "fiub":
                raise ValueError(
                    f"the kernel {self.name} must return real numbers of shape "
                    f"{(A.shape[0], B.shape[0])}, with a row for each row of its first argument; "
                    f"got shape {values.shape}, dtype {values.dtype}"
                )
        else:
            # infinite values raise an error below
            with np.errstate(over="ignore", invalid="ignore"):
                values = self._named(A, B, squares_of_B)
        values = np.ascontiguousarray(values, dtype=np.float64)
        if not np.isfinite(values).all():
            raise ValueError(
                f"the kernel {self.name} returned NaN or infinity; scale X, or change gamma, "
                "degree or coef0"
            )
        return values + self.constant if self.constant else values

    def _named(self, A: Any, B: Any, squares_of_B: np.ndarray | None) -> np.ndarray:
        """Compute a named kernel; most skip scikit-learn's checks, which every call would repeat."""
        if self.kernel in ("laplacian", "cosine"):
            return pairwise_kernels(A, B, metric=self.kernel, filter_params=True, gamma=self.gamma)
        products = A @ B.T
        values = products.toarray() if sp.issparse(products) else products
        if self.kernel == "linear":
            return values
        values *= self.gamma
        if self.kernel == "rbf":  # exp(-gamma (|a|^2 + |b|^2 - 2 <a, b>))
            values *= 2.0
            values -= self.gamma * squares(A)[:, None]
            values -= self.gamma * (squares(B) if squares_of_B is None else squares_of_B)
            return np.exp(np.minimum(values, 0.0, out=values), out=values)
        values += self.coef0
        return values**self.degree if self.kernel == "poly" else np.tanh(values, out=values)

    def squares(self, rows: Any) -> np.ndarray | None:
        """Return |x|^2 of every row if this kernel uses it, to save time in many calls with few rows."""
        return squares(rows) if isinstance(self.kernel, str) and self.kernel == "rbf" else None

    def diagonal(self, rows: Any) -> np.ndarray:
        """Return k(x, x) of every row; the kernel may have a method ``diag``, as in Gaussian processes."""
        if hasattr(self.kernel, "diag"):
            diagonal = np.asarray(self.kernel.diag(rows), dtype=np.float64) + self.constant
        else:
            parts = [np.diagonal(self(rows[a:b], rows[a:b])) for a, b in spans(rows.shape[0], 64)]
            diagonal = np.concatenate(parts)
        if (diagonal < 0).any():
            i = int(np.argmin(diagonal))
            raise indefinite(self, f"k(x, x) = {diagonal[i]:.3g} for row {i}")
        return diagonal

    def products(self, rows: Any, centres: Any, coefficients: np.ndarray) -> np.ndarray:
        """Return coefficients k(centres, rows), without the whole kernel matrix in memory."""
        found = np.zeros((len(coefficients), rows.shape[0]))
        if centres.shape[0]:
            for a, b in spans(rows.shape[0], BLOCK_BYTES // (8 * centres.shape[0])):
                found[:, a:b] = coefficients @ self(centres, rows[a:b])
        return found


def squares(rows: Any) -> np.ndarray:
    """Return |x|^2 of every row."""
    if sp.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", rows, rows)


def spans(n: int, size: int) -> Iterator[tuple[int, int]]:
    """Split [0, n) into intervals of at most `size`."""
    size = max(1, size)
    return ((a, min(a + size, n)) for a in range(0, n, size))


def indefinite(kernel: KernelFunction, what: str) -> ValueError:
    """Return the error for a kernel that is not an inner product."""
    return ValueError(
        f"the kernel {kernel.name} is not positive semidefinite on these data ({what}): the "
        "problem would not be convex. Use 'rbf', 'laplacian', 'linear' or 'poly' with coef0 >= 0, "
        "or other parameters. Centre features that are far from zero, because rounding hides "
        "their differences"
    )


def resolve_gamma(gamma: Any, rows: Any) -> float:
    """Return gamma as a number: 1 / d for None, 1 / (d var(X)) for "scale"."""
    d = max(1, rows.shape[1])
    if gamma is None:
        return 1.0 / d
    if isinstance(gamma, str) and gamma == "scale":
        dense = rows.data if sp.issparse(rows) else rows
        size = rows.shape[0] * d
        with np.errstate(over="ignore", invalid="ignore"):  # infinite values raise an error below
            # the mean over all entries, including the zeros that a sparse matrix does not store
            mean = dense.sum() / size
            variance = float((((dense - mean) ** 2).sum() + (size - dense.size) * mean**2) / size)
        found = 1.0 / (d * variance) if variance > 0 else 1.0
        if not (np.isfinite(variance) and np.isfinite(found)):
            raise ValueError(
                f"gamma='scale': the variance of X is {variance:.3g}; scale the features, or give a number"
            )
        return found
    if not is_number(gamma) or gamma <= 0:
        raise ValueError(f"gamma must be None, 'scale' or a positive number, got {short(gamma)}")
    return float(gamma)


def check_kernel(kernel: KernelFunction, rows: Any) -> None:
    """Raise ValueError if the kernel's matrix over some rows is not a matrix of inner products."""
    n = rows.shape[0]
    some = np.sort(np.random.default_rng(0).permutation(n)[:CHECKED])
    block = kernel(rows[some], rows[some])
    gap = float(np.abs(block - block.T).max())
    if gap > NEGATIVE * float(np.abs(block).max()):
        raise ValueError(
            f"the kernel {kernel.name} is not symmetric: k(x, x') and k(x', x) differ by {gap:.3g}"
        )
    values = np.linalg.eigvalsh((block + block.T) / 2)
    if values[0] < -NEGATIVE * np.abs(values).max():
        raise indefinite(
            kernel, f"its matrix over {len(some)} rows has the eigenvalue {values[0]:.3g}"
        )


@dataclass(frozen=True)
class Basis:
    """Basis rows, the Cholesky factor of their kernel matrix, and the share of the trace left out."""

    rows: Any
    factor: np.ndarray
    residual: float

    def features(self, kernel: KernelFunction, rows: Any) -> np.ndarray:
        """Return phi(x) = L^-1 k(b, x), one row for each x."""
        phi = np.empty((rows.shape[0], len(self.factor)))
        for a, b in spans(rows.shape[0], BLOCK_BYTES // (8 * len(self.factor))):
            values = kernel(self.rows, rows[a:b])
            phi[a:b] = solve_triangular(self.factor, values, lower=True, overwrite_b=True).T
        return phi

    def fold(self, weights: np.ndarray) -> np.ndarray:
        """Return coefficients a over the basis rows: <w, phi(x)> = a k(b, x), with a = L^-T w."""
        return solve_triangular(self.factor, weights.T, lower=True, trans="T").T


def pivoted_cholesky(
    kernel: KernelFunction, rows: Any, rank: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Choose rows greedily; return the pivots, the factor over all rows, and the residuals of k(x, x)."""
    residual = kernel.diagonal(rows)
    top, known = float(residual.max()), kernel.squares(rows)
    factor, pivots = np.zeros((rows.shape[0], rank)), np.empty(0, dtype=np.int64)
    for j in range(rank):
        p = int(np.argmax(residual))
        if residual[p] <= DROP * top:
            break
        column = kernel(rows[p : p + 1], rows, known)[0] - factor[:, :j] @ factor[p, :j]
        factor[:, j] = column / np.sqrt(residual[p])
        residual = residual - factor[:, j] ** 2
        pivots = np.append(pivots, p)
        residual[pivots] = 0.0
        if residual.min() < -NEGATIVE * top:
            raise indefinite(kernel, f"its Cholesky factor has the pivot {residual.min():.3g}")
    return pivots, factor[:, : len(pivots)], np.maximum(residual, 0.0)


def choose_basis(
    kernel: KernelFunction, rows: Any, rank: int, choice: str, rng: np.random.RandomState
) -> Basis:
    """Choose `rank` basis rows, at random or greedily; fewer if they explain all other rows."""
    pool = rows if choice == "greedy" else rows[np.sort(rng.permutation(rows.shape[0])[:rank])]
    pivots, factor, left = pivoted_cholesky(kernel, pool, rank)
    if len(pivots) == 0:
        raise ValueError(
            f"the kernel {kernel.name} is zero on these data, so there is no basis; scale X, or "
            "choose another kernel"
        )
    basis = Basis(pool[pivots], np.tril(factor[pivots]), 0.0)
    total = kernel.diagonal(rows)
    if choice != "greedy":
        left = total - (basis.features(kernel, rows) ** 2).sum(axis=1)
    return Basis(basis.rows, basis.factor, max(0.0, float(left.sum() / total.sum())))
