"""Mapped files as arrays, looked at before each use.

The system ends a process (SIGBUS) that reads a page of a map past the end of its file. A file has its size
when it is mapped; whether somebody made it shorter since is asked (one ``fstat`` each) whenever a part is
handed out: before each pass of training over mapped rows, each chunk of a stream and each read from Python.
A file that is cut while a pass runs over it cannot be noticed in time, nor can a disk that fails. A file
that is replaced or removed does no harm: its map shows the old one.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp


class ShardError(ValueError):
    """A folder of shards that is damaged, incomplete or not such a folder, or that cannot be written."""


def map_file(path: Path, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A file as a read-only array; an empty one cannot be mapped."""
    if 0 in shape:
        return np.empty(shape, dtype=dtype)
    try:
        return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=shape))
    except ValueError as error:
        raise ShardError(f"{path} is shorter than its manifest says: {error}") from None


def mapped_file(array: Any) -> np.memmap | None:
    """The map that an array shows a part of, or None."""
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array


def check_file(array: np.ndarray) -> None:
    """Refuse an array whose file has become shorter."""
    found: Any = mapped_file(array)
    while found is not None and not isinstance(found.base, mmap.mmap):
        found = found.base
    if found is None:
        return
    size = found.base.size()
    if size < found.offset + found.nbytes:
        raise ShardError(
            f"{found.filename} has {size} bytes, but had {found.offset + found.nbytes} when it was opened: "
            "it was cut while in use; write the data set again and open it again"
        )


class MappedParts(Sequence):
    """Arrays or CSR matrices in mapped files; a part is looked at whenever it is handed out."""

    def __init__(self, parts: Iterable[Any]):
        self.plain = list(parts)  # not looked at: for shapes and types
        self._fresh = set(range(len(self.plain)))  # whose column numbers were not yet looked at

    def __len__(self) -> int:
        return len(self.plain)

    def __getitem__(self, k: Any) -> Any:
        part = self.plain[k]
        arrays = (part.data, part.indices, part.indptr) if sp.issparse(part) else (part,)
        for array in arrays:
            check_file(array)
        if k in self._fresh:
            self._check_columns(part)
            self._fresh.discard(k)
        return part

    def check(self) -> None:
        """Look at all parts."""
        for _ in self:
            pass

    def _check_columns(self, part: Any) -> None:
        """SciPy reads and writes wherever column numbers point to."""
        if not sp.issparse(part) or not part.nnz:
            return
        if part.indices.min() < 0 or part.indices.max() >= part.shape[1]:
            found = mapped_file(part.indices)
            name = "X" if found is None else found.filename
            raise ShardError(f"{name}: column indices lie outside the {part.shape[1]} columns")
