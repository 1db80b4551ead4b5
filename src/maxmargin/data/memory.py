"""Features in memory: the core reads the caller's arrays and sparse matrices without a copy if it can.

It can read C-contiguous float32 or float64 arrays, and CSR matrices of these types with sorted 32-bit
indices. Anything else is converted once. Dense float32 or 0/1 input with many zeros also gets an index list.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin._core import core
from maxmargin.data.arrays import array_of, check_columns, reals
from maxmargin.data.mapped import Mapped
from maxmargin.runtime.reading import THREADS_TO_READ

INDEX = np.dtype(np.int32)
SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
DENSE_READERS: dict[Any, Any] = {SINGLE: core.dense32, DOUBLE: core.dense64}
CSR = (sp.csr_matrix, sp.csr_array)
SPARSE_READERS: dict[Any, Any] = {SINGLE: core.sparse32, DOUBLE: core.sparse64}


@dataclass
class FeatureRows:
    """Rows of features for all examples, ready for the core."""

    core: Any  # core.Features
    offsets: np.ndarray  # rows of example i: offsets[i] .. offsets[i + 1]
    n_features: int
    keep: Sequence[Any]  # the arrays that the core reads

    def check_filled(self, lack: str) -> None:
        """Refuse an example without rows; ``lack`` is the end of the message."""
        lengths = np.diff(self.offsets)
        if (lengths == 0).any():
            raise ValueError(f"X[{int(np.argmin(lengths))}] {lack}")

    def stacked(self) -> Any:
        """Copy all rows to one float64 array or CSR matrix."""
        if sp.issparse(self.keep[0]):
            return sp.vstack(self.keep, format="csr").astype(np.float64)
        return np.concatenate(self.keep).astype(np.float64)


def matrix_rows(matrix: Any, offsets: np.ndarray, bias: float | None = None) -> FeatureRows:
    """Return the rows of one float64 array or CSR matrix, divided among examples by the offsets."""
    read = sparse_rows if sp.issparse(matrix) else dense_rows
    rows = read([matrix], None, 0.0 if bias is None else float(bias), "X")
    return FeatureRows(rows.core, offsets, rows.n_features, rows.keep)


def check_count(found: int, expected: int | None, where: str) -> None:
    """Refuse a wrong number of features, naming the example."""
    if expected is not None and found != expected:
        raise ValueError(f"{where} has {found} features, expected {expected}")


def feature_rows(
    items: Sequence[Any],
    n_features: int | None = None,
    bias: float | None = None,
    names: str = "X[{}]",
) -> FeatureRows:
    """Return the features of several examples.

    The items are (rows, features) arrays or sparse matrices, or ``Mapped`` rows in parts. Refuses NaN,
    infinity and numbers above 1e150.
    """
    constant = 0.0 if bias is None else float(bias)
    if isinstance(items, Mapped):
        rows = mapped_rows(items, n_features, constant, names)
    elif len(items) == 0:
        raise ValueError("X is empty; at least one example is needed")
    else:
        read = sparse_rows if sp.issparse(items[0]) else dense_rows
        rows = read(items, n_features, constant, names)
    if rows.core.bad_row >= 0:
        example = int(np.searchsorted(rows.offsets, rows.core.bad_row, side="right")) - 1
        place = f"{names.format(example)}, row {rows.core.bad_row - int(rows.offsets[example])},"
        raise ValueError(f"{place} contains NaN, infinity or a number above 1e150")
    return rows


def rows_of_table(X: Any, n_features: int, bias: float | None) -> FeatureRows:
    """Return the features of examples that are the rows of one table, which may be in parts."""
    return feature_rows(X if isinstance(X, Mapped) else [X], n_features, bias, names="X")  # type: ignore


def mapped_rows(X: Any, n_features: int | None, bias: float, names: str) -> FeatureRows:
    """Return rows in parts, which the core reads in place."""
    check_count(X.n_features, n_features, names.format(0))
    parts = list(X.parts)
    if not X.sparse:
        built = read_dense(parts, X.n_features, bias, on_disk=True)
        return FeatureRows(built, X.offsets, X.n_features, X.parts)
    built = read_sparse(parts, X.n_features, bias)
    if not (built.in_range and built.sorted):
        fault = "are not sorted" if built.in_range else "lie outside its shape"
        raise ValueError(f"X: column indices of a mapped sparse matrix {fault}")
    return FeatureRows(built, X.offsets, X.n_features, X.parts)


def offsets_of(lengths: Any) -> np.ndarray:
    """The offsets of the rows of each example, from the numbers of rows."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def float_type(dtype: np.dtype) -> type:
    """The float type of the core for values of this dtype: float32 if it holds all of them, else float64."""
    if dtype == np.float32 or dtype.kind == "b" or (dtype.kind in "iu" and dtype.itemsize <= 2):
        return np.float32
    return np.float64


def common_type(items: Sequence[Any]) -> type | None:
    """The float type that fits examples of several dtypes; None if all have one dtype."""
    kinds = {getattr(x, "dtype", None) for x in items}
    if len(kinds) == 1:
        return None
    single = all(isinstance(kind, np.dtype) and float_type(kind) is np.float32 for kind in kinds)
    return np.float32 if single else np.float64


def shape_of(X: Any, name: str) -> tuple[int, ...]:
    """The shape of a table of features, which may be lists."""
    return X.shape if hasattr(X, "shape") else array_of(X, name).shape


def width_of_table(X: Any, name: str, says: str) -> int:
    """Return the number of columns of a table of features; refuse other shapes.

    ``says`` describes the expected shape in the error.
    """
    shape = shape_of(X, name)
    if len(shape) != 2:
        raise ValueError(f"{name} must have {says}, got shape {shape}")
    return int(shape[1])


def check_table(shape: tuple[int, ...], where: str) -> None:
    """Refuse an example that does not have two dimensions."""
    if len(shape) != 2:
        raise ValueError(f"{where} must have two dimensions (rows, features), got shape {shape}")


def as_dense(x: Any, dtype: type | None, where: str) -> np.ndarray:
    """Return one example as a two-dimensional float array that the core can read."""
    if sp.issparse(x):
        raise ValueError(f"{where} is sparse, but the first example is dense; use one kind for all")
    array = reals(x, where)
    check_table(array.shape, where)
    return laid_out(array, dtype or float_type(array.dtype))


def is_laid_out(flags: Any) -> bool:
    """Whether the core can read an array in place: C-contiguous and aligned."""
    return bool(flags.c_contiguous and flags.aligned)


def laid_out(array: Any, dtype: Any) -> np.ndarray:
    """Return the array itself if the core can read it as this dtype; else a copy."""
    return np.require(array, dtype, ["C", "ALIGNED"])


def read_dense(arrays: list[Any], width: int, bias: float, on_disk: bool = False) -> Any:
    """Return the core's rows of dense arrays, which all have the dtype of the first."""
    return DENSE_READERS[arrays[0].dtype](arrays, width, bias, on_disk, THREADS_TO_READ.get())


def read_sparse(matrices: list[Any], width: int, bias: float) -> Any:
    """Return the core's rows of CSR matrices, which all have the dtype of the first."""
    values, columns = [m.data for m in matrices], [m.indices for m in matrices]
    starts = [m.indptr for m in matrices]
    return SPARSE_READERS[matrices[0].dtype](
        values, columns, starts, width, bias, THREADS_TO_READ.get()
    )


def dense_rows(
    items: Sequence[Any], n_features: int | None, bias: float, names: str
) -> FeatureRows:
    """Return the rows of dense arrays; the core reads them in place if it can read all of them."""
    arrays, first = list(items), items[0]
    plain = (
        set(map(type, arrays)) == {np.ndarray} and first.dtype in DENSE_READERS and first.ndim == 2
    )
    if plain and n_features in (None, first.shape[1]):
        with suppress(TypeError, ValueError):  # an array differs from the first: converted below
            return of_arrays(arrays, bias)
    first = as_dense(first, common_type(items), names.format(0))
    check_count(first.shape[1], n_features, names.format(0))
    arrays[0] = first
    for i in range(1, len(arrays)):
        arrays[i] = as_dense(arrays[i], first.dtype.type, names.format(i))
        check_count(arrays[i].shape[1], first.shape[1], names.format(i))
    return of_arrays(arrays, bias)


def of_arrays(arrays: list[np.ndarray], bias: float) -> FeatureRows:
    """Return the rows of arrays with one dtype and width."""
    width = arrays[0].shape[1]
    built = read_dense(arrays, width, bias)
    return FeatureRows(built, offsets_of(list(map(len, arrays))), width, arrays)


def fits_core(x: Any, dtype: Any) -> bool:
    """Whether the core can read a CSR matrix in place."""
    data, indices = x.data, x.indices
    return (
        data.dtype == dtype
        and indices.dtype == INDEX
        and x.indptr.dtype == INDEX
        and is_laid_out(data.flags)
        and is_laid_out(indices.flags)
        and is_laid_out(x.indptr.flags)
    )


def as_csr(x: Any, dtype: type | None, where: str, canonical: bool = False) -> Any:
    """Return one example as a CSR matrix that the core can read; ``canonical`` sorts its indices."""
    if not sp.issparse(x):
        raise ValueError(f"{where} is dense, but the first example is sparse; use one kind for all")
    if x.dtype.kind not in "fbiu":
        raise ValueError(f"{where} must hold numbers, got a sparse matrix of dtype {x.dtype}")
    check_table(x.shape, where)
    x = x.tocsr()
    if canonical:
        x = x.copy()
        x.sum_duplicates()
    dtype = dtype or float_type(x.dtype)
    if fits_core(x, dtype):
        return x
    if x.indices.dtype != np.int32:  # a cast to 32 bits could hide a bad index
        check_columns(x, where)
    if x.nnz > np.iinfo(np.int32).max or x.shape[1] > np.iinfo(np.int32).max:
        raise ValueError(
            f"{where} is too large for 32-bit indices: {x.nnz} entries, {x.shape[1]} columns"
        )
    fitted = sp.csr_matrix(x.shape, dtype=dtype)
    fitted.data = laid_out(x.data, dtype)
    fitted.indices = laid_out(x.indices, np.int32)
    fitted.indptr = laid_out(x.indptr, np.int32)
    return fitted


def sparse_rows(
    items: Sequence[Any], n_features: int | None, bias: float, names: str
) -> FeatureRows:
    """Return the rows of sparse matrices; the core reads them in place if it can read all of them.

    The last attempt sorts the indices of each matrix.
    """
    matrices, first = list(items), items[0]
    plain = (
        set(map(type, matrices)) == {type(first)}
        and type(first) in CSR
        and first.dtype in SPARSE_READERS
    )
    widths = {shape[1:] for shape in map(attrgetter("shape"), matrices)} if plain else set()
    width = first.shape[1:] if n_features is None else (n_features,)
    if width and widths == {width}:
        with suppress(TypeError, ValueError):  # a matrix differs from the first: converted below
            found = of_matrices(matrices, bias)
            if found.core.sorted and found.core.in_range:
                return found
    for canonical in (False, True):
        first = as_csr(items[0], common_type(items), names.format(0), canonical)
        check_count(first.shape[1], n_features, names.format(0))
        matrices[0] = first
        for i in range(1, len(items)):
            matrices[i] = as_csr(items[i], first.dtype.type, names.format(i), canonical)
            check_count(matrices[i].shape[1], first.shape[1], names.format(i))
        found = of_matrices(matrices, bias)
        if found.core.sorted and found.core.in_range:
            break
    if not found.core.in_range:
        raise ValueError("X: a sparse matrix holds a column index outside its shape")
    return found


def of_matrices(matrices: list[Any], bias: float) -> FeatureRows:
    """Return the rows of CSR matrices with one dtype and width."""
    width = matrices[0].shape[1]
    built = read_sparse(matrices, width, bias)
    return FeatureRows(built, offsets_of([len(x.indptr) - 1 for x in matrices]), width, matrices)
