"""A model under a kernel, bound to data.

w is given by its coefficients A over the centres, w = sum_c A_c phi(x_c). Its values on n rows are
U = k(rows, centres) A. They determine <w, Psi(x_i, y)>: it is the score of the base model on the unit rows
e_1 .. e_n with weights U. So the base model on unit rows also gives predictions, slacks and sums of planes;
the coefficients of a sum of planes over the training rows are sums over unit rows. Only solvers need more,
namely kernel rows in the core.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin._core import core
from maxmargin.data.memory import FeatureRows, matrix_rows
from maxmargin.models.beliefs import Beliefs
from maxmargin.models.examples import Examples
from maxmargin.models.extent import Extent
from maxmargin.models.kernel_function import KernelFunction, indefinite, spans

# Multiplications that cost as much as one call of a kernel function; sets the length of blocks of
# kernel rows.
CALL = 300_000
# A negative |w|^2 within this share of the sum of its terms is rounding; below it the kernel is indefinite.
SQUARE_ROUNDING = 1e-11
NOT_FITTED_ON = (
    "X differs from the training data, but with an exact kernel w and the dual exist only on the "
    "training rows; give the training data to certify, or use mm.objective, score or loss for "
    "other data"
)


class GramRows:
    """The kernel matrix of the training rows, complete in memory or in a cache of rows."""

    whole: np.ndarray | None = None

    def __init__(self, kernel: KernelFunction, rows: Any, cache_bytes: int):
        self.kernel = kernel
        self.rows = rows
        n = rows.shape[0]
        diagonal = kernel.diagonal(rows)
        self.top: float = float(diagonal.max())
        if 8 * n * n <= cache_bytes:
            self.whole = np.empty((n, n))
            for a, b in spans(n, 256):
                self.whole[a:b] = kernel(rows[a:b], rows)
            self.core: Any = core.kernel_rows(self.whole, diagonal)
            return
        if cache_bytes < 8 * n:
            raise ValueError(
                f"cache_bytes must hold at least one row of the kernel matrix ({8 * n} bytes for "
                f"{n} rows), got {cache_bytes}"
            )
        # Rows are read in random order, so most of a long block is never used. A block is only as long as
        # the overhead of a call justifies.
        wanted = -(-CALL // (n * max(1, rows.shape[1])))
        block = max(1, min(wanted, cache_bytes // (16 * n), n))
        known = kernel.squares(rows)
        self.core = core.kernel_cache(
            diagonal,
            block,
            cache_bytes // (8 * n * block),
            lambda a, b: kernel(rows[a:b], rows, known),
        )

    def products(self, coefficients: np.ndarray) -> np.ndarray:
        """Return coefficients K."""
        if self.whole is not None:
            return coefficients @ self.whole
        used = np.flatnonzero(coefficients.any(axis=0))
        part = np.ascontiguousarray(coefficients[:, used])
        return self.kernel.products(self.rows, self.rows[used], part)


class KernelExamples(Examples):
    """Rows under a kernel; the dual exists only on the training rows."""

    kernelised = True

    def __init__(self, model: Any, rows: Any, offsets: np.ndarray, Y: Any, node_weight: Any):
        self.model = model
        self.rows: Any = rows
        n = rows.shape[0]
        outer = model.over(n)
        units = matrix_rows(sp.identity(n, format="csr"), offsets)
        self.plain: Any = outer.bind_rows(units, Y, node_weight)
        self.n: int = self.plain.n
        self.dimension: int = model.size_joint_feature
        self.enumerates: bool = self.plain.enumerates
        self.gram: GramRows | None = None
        self.primal_alone: str = NOT_FITTED_ON
        if Y is not None and same_rows(rows, model.centres_):
            self.rows = model.centres_  # drop the second copy of the rows
            self.gram = GramRows(model.kernel_, self.rows, model.cache_bytes)
            self.primal_alone = ""
            inner = FeatureRows(self.gram.core, offsets, n, [self.gram.whole])
            self.bound: Any = outer.bind_rows(inner, Y, node_weight)
            self.core: Any = self.bound.core
        self._last: tuple[np.ndarray, np.ndarray] | None = None
        self.rebind()

    def rebind(self) -> None:
        self.plain = plain = self.plain.under(self.formulation)
        self.argmax_exact: bool = plain.argmax_exact
        self.exact: bool = plain.exact
        self.bounded: bool = plain.bounded

    def values(self, w: np.ndarray) -> np.ndarray:
        """Return the values of w on these rows: U, class by class, then the weights without a kernel."""
        if self._last is not None and np.array_equal(self._last[0], w):
            return self._last[1]
        if self.gram is None:
            centres, coefficients, shift, rest = self.model.expand(w)
            U = self.model.kernel_.products(self.rows, centres, coefficients) + shift[:, None]
        else:
            coefficients, rest = self.model.split(w)
            U = self.gram.products(coefficients)
            self._check_square(coefficients, U)
        values = np.concatenate([U.ravel(), rest])
        self._last = w.copy(), values
        return values

    def _check_square(self, coefficients: np.ndarray, U: np.ndarray) -> None:
        assert self.gram is not None
        square = float(np.vdot(coefficients, U))
        # |K| <= top, so the absolute values of all terms sum to at most this number.
        with np.errstate(over="ignore"):  # an infinite bound refuses nothing
            terms = self.gram.top * float((np.abs(coefficients).sum(axis=1) ** 2).sum())
        if square < -SQUARE_ROUNDING * terms:
            raise indefinite(self.model.kernel_, f"|w|^2 = {square:.3g}")

    def extent(self) -> Extent:
        inner = self.plain.extent()
        return replace(inner, terms=inner.terms + self.rows.shape[0])

    def magnitude(self, w: np.ndarray) -> tuple[float, float, int]:
        """Do as ``problem.rounding.magnitude`` does, for coefficients over the rows instead of weights."""
        # A unit row reads one value, which is itself a sum over rows of the kernel matrix.
        assert self.gram is not None
        coefficients, rest = self.model.split(w)
        sums = np.abs(coefficients).sum(axis=1)
        most = self.gram.top * float(sums.max(initial=0.0))
        squares = self.gram.top * float(sums @ sums) + float(rest @ rest)
        return max(most, float(np.abs(rest).max(initial=0.0))), squares, 2 * len(w)

    def metric(self, v: np.ndarray) -> np.ndarray:
        if self.gram is not None:
            return self.values(v)
        coefficients, rest = self.model.split(v)
        centres, kernel = self.model.centres_, self.model.kernel_
        return np.concatenate([kernel.products(centres, centres, coefficients).ravel(), rest])

    def slacks(
        self, w: np.ndarray, n_jobs: int = 1, leeway: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        return self.plain.slacks(self.values(w), n_jobs, leeway)

    def worst(self, w: np.ndarray, n_jobs: int = 1) -> tuple[np.ndarray, Any]:
        return self.plain.worst(self.values(w), n_jobs)

    def combine(
        self, blocks: np.ndarray, multipliers: np.ndarray, outputs: Any, n_jobs: int = 1
    ) -> tuple[float, np.ndarray]:
        return self.plain.combine(blocks, multipliers, outputs, n_jobs)

    def cache(self, capacity: int) -> Any:
        return self.plain.cache(capacity)

    def worst_kept(self, cache: Any, w: np.ndarray, n_jobs: int = 1) -> tuple[np.ndarray, Any]:
        return cache.best(self.values(w), n_jobs)

    def output_sizes(self, blocks: np.ndarray) -> np.ndarray:
        return self.plain.output_sizes(blocks)

    def knows(self, outputs: np.ndarray, blocks: np.ndarray) -> bool:
        """Whether cached outputs contain only labels of this model."""
        return self.plain.knows(outputs, blocks)

    def around(self, fixed: Any) -> KernelExamples:
        self.plain.around(fixed)
        return self

    def decide(self, w: Any, n_jobs: int = 1) -> np.ndarray:
        return self.plain.decide(self.values(w), n_jobs)

    def margins(self, w: Any, n_jobs: int = 1) -> Any:
        return self.plain.margins(self.values(w), n_jobs)

    def beliefs(self, w: Any, temperature: float, n_jobs: int = 1) -> Beliefs:
        return self.plain.beliefs(self.values(w), temperature, n_jobs)

    def true_codes(self) -> np.ndarray:
        return self.plain.true_codes()

    def predict(self, w: np.ndarray, n_jobs: int = 1) -> Any:
        return self.plain.predict(self.values(w), n_jobs)


def same_rows(a: Any, b: Any) -> bool:
    """Whether two sets of rows are equal."""
    if a.shape != b.shape or sp.issparse(a) != sp.issparse(b):
        return False
    return (a != b).nnz == 0 if sp.issparse(a) else np.array_equal(a, b)
