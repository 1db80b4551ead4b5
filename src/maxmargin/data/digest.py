"""Checksums of any data, the same in every process, so that a later run can recognise its data.

Arrays are compared by dtype, shape and numbers. Containers are compared by their items in order, sets in any
order, and other objects by the content of their pickle. Object identity does not matter.
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
BYTES_AT_ONCE = 2**22  # bytes copied and hashed at a time, for arrays that are not contiguous


def digest_of(value: Any, name: str = "it") -> str:
    """Return the checksum of a value; refuse a value that a later run cannot compare."""
    total = hashlib.sha256()
    try:
        feed(total, value)
    except RecursionError:
        raise TypeError(f"{name} contains itself, so it has no checksum") from None
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
    """Return the parts that a pickle of an object would hold, with its iterators turned into lists."""
    parts = value.__reduce_ex__(2)
    if isinstance(parts, str):
        return [parts]
    return [list(part) if k > 2 and part is not None else part for k, part in enumerate(parts)]


def feed_items(total: Any, items: Any) -> None:
    """Add the items of a list to a checksum; plain values are added in one step."""
    total.update(f"list {len(items)}".encode())
    if all(type(item) in KNOWN_BY_VALUE for item in items):
        total.update(repr(list(items)).encode())
        return
    for item in items:
        feed(total, item)


def feed_array(total: Any, array: np.ndarray) -> None:
    """Add an array, which may be a mapped file, to a checksum."""
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
