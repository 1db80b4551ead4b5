"""Arrays and planes in files that have no name: as long as the data, yet no memory of the process.

A file is opened in a folder for temporary files, unlinked at once, and mapped. Its pages belong to the
system, which writes them back and takes them when it needs room; the space is free again when the last
array that shows them is gone. Its space is reserved before it is mapped: a full disk is an OSError, and does
not end the process later. A disk that copies on write (btrfs, ZFS) may be full all the same when pages are
written back; that cannot be found out here.
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

LEAST_ENTRIES = 4096  # entries of a file, so that it can be mapped
ZEROS = bytes(2**20)
RUN = 4096  # examples that are read together


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
        """Map a longer file: of `wanted` entries where the disk has room for them, else of `least`."""
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
            f"a scratch file of {needed} bytes does not fit the disk ({error.strerror}): give another "
            "folder, solvers.Streaming(scratch=...) or TMPDIR, or a larger cache_bytes, which leaves "
            "less to the disk",
            folder,
        )

    def resize(self, size: int) -> None:
        """Make it longer; new entries are zero."""
        if size > len(self.mapped):
            self._map(size, 2 * len(self.mapped))
        self.size = max(self.size, size)

    def append(self, values: np.ndarray) -> int:
        """Add entries; returns where the first of them stands."""
        first = self.size
        self.resize(first + len(values))
        self.mapped[first : self.size] = values
        return first

    def array(self) -> np.ndarray:
        """The entries, where they are."""
        return np.asarray(self.mapped)[: self.size]


def spilled(parts: Iterable[np.ndarray], dtype: Any) -> np.ndarray:
    """Arrays one after the other, in an unnamed file."""
    whole = ScratchArray(dtype)
    for part in parts:
        whole.append(part)
    return whole.array()


def reserve(handle: int, first: int, last: int) -> None:
    """Give a file the bytes first..last on its disk; OSError where it has no space.

    Without this a file that is mapped may have no blocks for its pages, and a full disk ends the process
    (SIGBUS) at the first write into them.
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
    """Planes of examples on a disk: the record of an example is its multipliers and outputs, as bytes.

    ``place`` says where the record of an example is; records are only ever added, so that the old ones
    hold until ``take`` changes their places, in one assignment.
    """

    PLANE = np.dtype([("multiplier", "f8"), ("first", "i8"), ("length", "i8")])
    PLACE = np.dtype([("first", "i8"), ("count", "i8")])

    def __init__(self, folder: Any = None, dtype: Any = None):
        self.folder = folder
        self.dtype: Any = (
            dtype  # of labels, once some were written; None: outputs are Python objects
        )
        self.planes: ScratchArray = ScratchArray(self.PLANE, folder)
        self.bytes: ScratchArray = ScratchArray(np.uint8, folder)
        self.place: ScratchArray = ScratchArray(self.PLACE, folder)

    def write(self, support: Any, n: int, sizes: np.ndarray) -> np.ndarray:
        """Records of n examples, from their planes in order; returns their places, not yet taken.

        Outputs are labels one after the other, ``sizes`` of them for each plane; or a list of objects.
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
        """From now on these are the records of these examples; None: they have none."""
        if len(examples):
            self.place.resize(int(examples.max()) + 1)
            self.place.mapped[examples] = np.zeros(1, self.PLACE) if places is None else places

    def counts(self, examples: np.ndarray) -> np.ndarray:
        """How many planes each example has here."""
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
        """Planes of some examples, which are numbered from zero: example, multiplier and output."""
        counts, multipliers, data, lengths = self._records(examples)
        blocks = np.repeat(np.arange(len(counts)), counts)
        if self.dtype is not None:
            return blocks, multipliers, data.view(self.dtype)
        starts = (np.cumsum(lengths) - lengths).tolist()
        return blocks, multipliers, [pickle.loads(data[first:]) for first in starts]

    def read_all(
        self, n: int, others: np.ndarray, support: Any, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, Any]:
        """Planes of the examples up to n, also of others, whose planes are given and which have none here.

        They are as long as the data may be: in unnamed files.
        """
        self.take(others, self.write(support, len(others), sizes))  # for as long as all are read
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
        """The same records in fresh files, without those that are no longer in use."""
        other = PlaneFile(self.folder, self.dtype)
        for first in range(0, self.place.size, RUN):
            some = np.arange(first, min(first + RUN, self.place.size))
            other.take(some, other._append(*self._records(some)))
        return other

    @property
    def wasteful(self) -> bool:
        """Whether most of the planes here are no longer in use."""
        return self.planes.size > 2 * LEAST_ENTRIES + 2 * int(self.place.mapped["count"].sum())
