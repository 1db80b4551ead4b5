"""The weights of a model file: all of them, or where most are zero the others with their places.

    "w"                       all weights
    "w.index", "w.value"      places, in order, and the weights there; any other weight is zero

The header then has ``weights``, their number. What a small file unfolds to is bounded: at least one place in
``SPARSEST`` is listed, whether the weight there is zero or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maxmargin.io.fields import FieldError, count, table

SPARSEST = 1000
TYPES = ("float64", "float32")
ARRAYS = ("w", "w.index", "w.value")


def fold(w: np.ndarray, dtype: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the header and the arrays of a file say of weights, the shorter way."""
    with np.errstate(over="ignore"):
        plain = np.asarray(w).astype(dtype, copy=False)
    if np.isinf(plain).any():
        raise ValueError(f"save: a weight is too large for dtype={dtype!r}")
    index = np.union1d(np.flatnonzero(plain), np.arange(0, plain.size, SPARSEST))
    index = index.astype(np.int32 if plain.size < 2**31 else np.int64)
    if index.nbytes + len(index) * plain.itemsize < plain.nbytes:
        return {"weights": plain.size}, {"w.index": index, "w.value": plain[index]}
    return ({} if dtype == "float64" else {"weights": plain.size}), {"w": plain}


def unfold(header: Mapping[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a file with all weights as "w", in double precision."""
    if "weights" not in header:  # as they have always been
        return {**arrays, "w": table(arrays, "w", np.float64, -1)}
    size, rest = count(header, "weights"), {k: v for k, v in arrays.items() if k not in ARRAYS}
    if "w" in arrays:
        return {**rest, "w": table(arrays, "w", np.float32, size).astype(np.float64)}
    index, value = (stored_array(arrays, name) for name in ARRAYS[1:])
    if len(index) != len(value) or len(index) * SPARSEST < size:
        raise FieldError(f"{len(value)} values at {len(index)} places for {size} weights")
    if len(index) and (index[0] < 0 or index[-1] >= size or (np.diff(index) <= 0).any()):
        raise FieldError("the places of weights are not in order, or there are no such places")
    w = np.zeros(size)
    w[index] = value
    return {**rest, "w": w}


def stored_array(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """Places in 32 or 64 bits, or values in either precision."""
    known = (np.int32, np.int64) if name == "w.index" else (np.float64, np.float32)
    found = arrays.get(name)
    dtype = known[1] if found is not None and found.dtype == known[1] else known[0]
    return table(arrays, name, dtype, -1)
