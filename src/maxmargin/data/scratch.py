"""Arrays and planes in unnamed files, for arrays as long as the data that would not fit in memory.

A file is opened in a folder for temporary files, unlinked at once, and mapped. The system writes its pages
back and reuses their memory when it needs room. The disk space is free again when the last array that maps
it is gone. The space is reserved before the file is mapped, so that a full disk raises an OSError and does
not end the process later. A disk that copies on write (btrfs, ZFS) may still run full when pages are written
back; this module cannot detect that.
"""

from __future__ import annotations

import errno
import os
import pickle
import tempfile
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from maxmargin.data.mapped import ranges

LEAST_ENTRIES = 4096  # entries of a new file; an empty file cannot be mapped
ZEROS = bytes(2**20)
RUN = 4096  # examples read at a time; more take more memory, fewer more calls


class ScratchArray:
    """A one-dimensional array in an unnamed file, which grows at its end."""

    bytes: int = 0
    size: int = 0

    def __init__(self, dtype: Any, folder: Any = None):
        self.dtype: Any = np.dtype(dtype)
        self.folder: Any = folder
        self.file: Any = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed with this object
        weakref.finalize(self, self.file.close)  # maps of it stay valid
        self._map(LEAST_ENTRIES)

    def _map(self, least: int, wanted: int = 0) -> None:
        """Lengthen and map the file: to `wanted` entries if the disk has room, else to `least`."""
        for capacity in (max(least, wanted), least):
            needed = capacity * self.dtype.itemsize
            try:
                reserve(self.file.fileno(), self.bytes, needed)
                break
            except OSError as error:
                self.file.truncate(self.bytes)
                if capacity == least:
                    raise self._no_room(needed, error) from error
        self.bytes = needed
        self.mapped: Any = np.memmap(self.file, dtype=self.dtype, mode="r+", shape=(capacity,))

    def _no_room(self, needed: int, error: OSError) -> OSError:
        folder = tempfile.gettempdir() if self.folder is None else str(self.folder)
        return OSError(
            error.errno,
            f"a scratch file of {needed} bytes does not fit on the disk ({error.strerror}); "
            "choose another folder by solvers.Streaming(scratch=...) or TMPDIR, or raise "
            "cache_bytes, so that less goes to the disk",
            folder,
        )

    def resize(self, size: int) -> None:
        """Lengthen the array to `size` entries; new entries are zero."""
        if size > len(self.mapped):
            self._map(size, 2 * len(self.mapped))
        self.size = max(self.size, size)

    def append(self, values: np.ndarray) -> int:
        """Append entries; return the position of the first one."""
        first = self.size
        self.resize(first + len(values))
        self.mapped[first : self.size] = values
        return first

    def array(self) -> np.ndarray:
        """The entries, as a view of the mapped file."""
        return np.asarray(self.mapped)[: self.size]


def spilled(parts: Iterable[np.ndarray], dtype: Any) -> np.ndarray:
    """Concatenate arrays into one array in an unnamed file."""
    whole = ScratchArray(dtype)
    for part in parts:
        whole.append(part)
    return whole.array()


def reserve(handle: int, first: int, last: int) -> None:
    """Reserve the bytes first..last of a file on its disk; raise OSError if the disk is full.

    Without this, a mapped file may have no blocks for its pages. If the disk is then full, the first write
    into such a page ends the process (SIGBUS).
    """
    try:
        if not hasattr(os, "posix_fallocate"):
            raise OSError(errno.EOPNOTSUPP, "no posix_fallocate")
        os.posix_fallocate(handle, first, last - first)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise
        os.lseek(handle, first, os.SEEK_SET)
        while first < last:
            first += os.write(handle, ZEROS[: last - first])


class PlaneFile:
    """Planes of examples on a disk: the record of an example holds its multipliers and outputs, as bytes.

    ``place`` gives the position of each example's record. Records are only added, never changed, so the old
    ones stay valid until ``take`` changes the places in one assignment.
    """

    PLANE = np.dtype([("multiplier", "f8"), ("first", "i8"), ("length", "i8")])
    PLACE = np.dtype([("first", "i8"), ("count", "i8")])

    def __init__(self, folder: Any = None, dtype: Any = None):
        self.folder = folder
        self.dtype: Any = (
            dtype  # dtype of the labels, set by the first write; None: outputs are Python objects
        )
        self.planes: ScratchArray = ScratchArray(self.PLANE, folder)
        self.bytes: ScratchArray = ScratchArray(np.uint8, folder)
        self.place: ScratchArray = ScratchArray(self.PLACE, folder)

    def write(self, support: Any, n: int, sizes: np.ndarray) -> np.ndarray:
        """Write records of n examples from their planes, in order; return the places for ``take``.

        Outputs are one array of labels, ``sizes[k]`` of them for plane k, or a list of objects.
        """
        outputs, counts = support.outputs, np.bincount(support.blocks, minlength=n)
        if isinstance(outputs, list):
            texts = [pickle.dumps(output) for output in outputs]
            lengths = np.array([len(text) for text in texts], dtype=np.int64)
            data = np.frombuffer(b"".join(texts), np.uint8)
        else:
            self.dtype = outputs.dtype if self.dtype is None else self.dtype
            lengths = sizes * self.dtype.itemsize
            data = np.ascontiguousarray(outputs, dtype=self.dtype).view(np.uint8)
        return self._append(counts, support.multipliers, data, lengths)

    def _append(self, counts: Any, multipliers: Any, data: Any, lengths: Any) -> np.ndarray:
        start = self.bytes.append(data)
        rows = np.empty(len(multipliers), dtype=self.PLANE)
        rows["multiplier"] = multipliers
        rows["first"] = start + np.cumsum(lengths) - lengths
        rows["length"] = lengths
        places = np.empty(len(counts), dtype=self.PLACE)
        places["first"] = self.planes.append(rows) + np.cumsum(counts) - counts
        places["count"] = counts
        return places

    def take(self, examples: np.ndarray, places: np.ndarray | None = None) -> None:
        """Make these the places of the examples' records; None removes the records."""
        if len(examples):
            self.place.resize(int(examples.max()) + 1)
            self.place.mapped[examples] = np.zeros(1, self.PLACE) if places is None else places

    def counts(self, examples: np.ndarray) -> np.ndarray:
        """The number of planes of each example in this file."""
        counts = np.zeros(len(examples), dtype=np.int64)
        known = examples < self.place.size
        counts[known] = self.place.mapped["count"][examples[known]]
        return counts

    def _records(self, examples: np.ndarray) -> tuple[Any, Any, Any, Any]:
        counts = self.counts(examples)
        firsts = np.zeros(len(examples), dtype=np.int64)
        firsts[counts > 0] = self.place.mapped["first"][examples[counts > 0]]
        rows = self.planes.mapped[ranges(firsts, counts)]
        data = self.bytes.mapped[ranges(rows["first"], rows["length"])]
        return counts, np.asarray(rows["multiplier"]), np.asarray(data), rows["length"]

    def read(self, examples: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
        """Read the planes of some examples, numbered from zero: example, multiplier and output."""
        counts, multipliers, data, lengths = self._records(examples)
        blocks = np.repeat(np.arange(len(counts)), counts)
        if self.dtype is not None:
            return blocks, multipliers, data.view(self.dtype)
        starts = (np.cumsum(lengths) - lengths).tolist()
        return blocks, multipliers, [pickle.loads(data[first:]) for first in starts]

    def read_all(
        self, n: int, others: np.ndarray, support: Any, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, Any]:
        """Read the planes of the first n examples, merged with the given planes of `others`.

        The examples `others` have no planes in this file. The arrays may be as long as the data, so they
        are in unnamed files.
        """
        self.take(others, self.write(support, len(others), sizes))  # removed again below
        blocks, multipliers = (ScratchArray(kind, self.folder) for kind in (np.int64, np.float64))
        outputs: Any = [] if self.dtype is None else ScratchArray(self.dtype, self.folder)
        for first in range(0, n, RUN):
            own, values, found = self.read(np.arange(first, min(first + RUN, n)))
            blocks.append(own + first)
            multipliers.append(values)
            outputs.extend(found) if self.dtype is None else outputs.append(found)
        self.take(others)
        outputs = outputs if self.dtype is None else outputs.array()
        return blocks.array(), multipliers.array(), outputs

    def compacted(self) -> PlaneFile:
        """Copy the records that are in use to fresh files."""
        other = PlaneFile(self.folder, self.dtype)
        for first in range(0, self.place.size, RUN):
            some = np.arange(first, min(first + RUN, self.place.size))
            other.take(some, other._append(*self._records(some)))
        return other

    @property
    def wasteful(self) -> bool:
        """Whether most of the planes here are no longer in use."""
        return self.planes.size > 2 * LEAST_ENTRIES + 2 * int(self.place.mapped["count"].sum())
