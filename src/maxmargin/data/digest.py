"""A checksum of any data, the same in every process: what a later run compares its own data with.

Arrays count by their type, shape and numbers, containers by what they hold in their order, sets in any; other
objects by what a pickle would hold of them. Which parts are one and the same object does not count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
import scipy.sparse as sp

KNOWN_BY_VALUE = (str, bytes, bool, int, float, complex, type(None))
KNOWN_BY_NAME = (type, FunctionType, BuiltinFunctionType)
BYTES_AT_ONCE = 2**22  # bytes hashed at a time, of arrays that are not in one piece


def digest_of(value: Any, name: str = "it") -> str:
    """The checksum of a value; refuses what cannot be compared in a later run."""
    total = hashlib.sha256()
    try:
        feed(total, value)
    except RecursionError:
        raise TypeError(f"{name} holds itself: it has no checksum") from None
    except TypeError as error:
        raise TypeError(f"{name} has no checksum: {error}") from None
    return total.hexdigest()[:32]


def feed(total: Any, value: Any) -> None:
    """Add a value to a checksum."""
    if isinstance(value, np.ndarray):
        feed_array(total, value)
    elif sp.issparse(value):
        total.update(f"sparse {value.shape}".encode())
        matrix = value.tocsr()
        for array in (matrix.data, matrix.indices, matrix.indptr):
            feed_array(total, array)
    elif type(value) in KNOWN_BY_VALUE or isinstance(value, np.generic):
        total.update(repr(value).encode())
    elif type(value) in (list, tuple):
        feed_items(total, value)
    elif isinstance(value, Mapping) and type(value) is dict:
        total.update(f"dict {len(value)}".encode())
        for item in value.items():
            feed(total, item)
    elif type(value) in (set, frozenset):
        feed_items(total, sorted(digest_of(item) for item in value))
    elif isinstance(value, KNOWN_BY_NAME):
        total.update(f"{value.__module__}.{value.__qualname__}".encode())
    else:
        feed_items(total, reduced(value))


def reduced(value: Any) -> list[Any]:
    """What a pickle would hold of an object; lists and dicts in it come as iterators."""
    parts = value.__reduce_ex__(2)
    if isinstance(parts, str):
        return [parts]
    return [list(part) if k > 2 and part is not None else part for k, part in enumerate(parts)]


def feed_items(total: Any, items: Any) -> None:
    """Add the items of a list; those of a flat one at once."""
    total.update(f"list {len(items)}".encode())
    if all(type(item) in KNOWN_BY_VALUE for item in items):
        total.update(repr(list(items)).encode())
        return
    for item in items:
        feed(total, item)


def feed_array(total: Any, array: np.ndarray) -> None:
    """Add the numbers of an array, which may be those of a mapped file."""
    total.update(f"array {array.dtype.str} {array.shape}".encode())
    if array.dtype.hasobject:
        feed_items(total, array.ravel().tolist())
        return
    if array.flags.c_contiguous:
        total.update(np.asarray(array).reshape(-1).view(np.uint8))
        return
    size = max(1, BYTES_AT_ONCE // max(1, array[:1].nbytes))
    for first in range(0, len(array), size):
        total.update(np.ascontiguousarray(array[first : first + size]).reshape(-1).view(np.uint8))
