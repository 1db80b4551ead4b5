"""Arrays in files that have no name: as long as the data, yet no memory of the process.

A file is opened in a folder for temporary files, unlinked at once, and mapped. Its pages belong to the
system, which writes them back and takes them when it needs room; the space is free again when the last
array that shows them is gone. Its space is reserved before it is mapped: a full disk is an OSError, and does
not end the process later. A disk that copies on write (btrfs, ZFS) may be full all the same when pages are
written back; that cannot be found out here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from typing import Any

import numpy as np

from maxmargin.io.files import reserve

LEAST = 4096  # entries of a file, so that it can be mapped


class ScratchArray:
    """A one-dimensional array in an unnamed file, which grows at its end."""

    def __init__(self, dtype: Any, folder: Any = None):
        self.dtype, self.folder = np.dtype(dtype), folder
        self.file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed with this object
        self.size = self.bytes = 0
        self._map(LEAST)

    def __del__(self) -> None:
        if hasattr(self, "file"):
            self.file.close()  # maps of it stay valid

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
        self.mapped = np.memmap(self.file, dtype=self.dtype, mode="r+", shape=(capacity,))

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


def ranges(firsts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """firsts[0], firsts[0] + 1, ... counts[0] of them, then those of firsts[1], and so on."""
    counts = np.asarray(counts, dtype=np.int64)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(
        np.asarray(firsts, dtype=np.int64) - (ends - counts), counts
    )


class PlaneFile:
    """Planes of examples on a disk: a record of an example is its multipliers and outputs.

    Outputs are bytes here. ``place`` says where the record of an example stands; records are only ever
    added, so that the old ones hold until ``place`` is changed, in one assignment.
    """

    PLANE = np.dtype([("multiplier", "f8"), ("first", "i8"), ("length", "i8")])
    PLACE = np.dtype([("first", "i8"), ("count", "i8")])

    def __init__(self, folder: Any = None):
        self.folder = folder
        self.planes = ScratchArray(self.PLANE, folder)
        self.bytes = ScratchArray(np.uint8, folder)
        self.place = ScratchArray(self.PLACE, folder)

    def write(self, counts: np.ndarray, multipliers: np.ndarray, blobs: Blobs) -> np.ndarray:
        """Records of some examples, with so many planes each; returns their places, not yet taken."""
        start = self.bytes.append(blobs.data)
        rows = np.empty(len(multipliers), dtype=self.PLANE)
        rows["multiplier"] = multipliers
        rows["first"] = start + np.cumsum(blobs.lengths) - blobs.lengths
        rows["length"] = blobs.lengths
        places = np.empty(len(counts), dtype=self.PLACE)
        places["first"] = self.planes.append(rows) + np.cumsum(counts) - counts
        places["count"] = counts
        return places

    def take(self, examples: np.ndarray, places: np.ndarray) -> None:
        """From now on these are the records of these examples."""
        if len(examples):
            self.place.resize(int(examples.max()) + 1)
            self.place.mapped[examples] = places

    def clear(self, examples: np.ndarray) -> None:
        """These examples have no records any more."""
        self.take(examples, np.zeros(len(examples), dtype=self.PLACE))

    def counts(self, examples: np.ndarray) -> np.ndarray:
        """How many planes each example has here."""
        counts = np.zeros(len(examples), dtype=np.int64)
        known = examples < self.place.size
        counts[known] = self.place.mapped["count"][examples[known]]
        return counts

    def read(self, examples: np.ndarray) -> tuple[np.ndarray, np.ndarray, Blobs]:
        """Planes of each example, and of all of them the multipliers and the outputs."""
        counts = self.counts(examples)
        firsts = np.zeros(len(examples), dtype=np.int64)
        firsts[counts > 0] = self.place.mapped["first"][examples[counts > 0]]
        rows = self.planes.mapped[ranges(firsts, counts)]
        data = self.bytes.mapped[ranges(rows["first"], rows["length"])]
        return counts, np.asarray(rows["multiplier"]), Blobs(np.asarray(data), rows["length"])

    def compacted(self, step: int = 65_536) -> PlaneFile:
        """The same records in fresh files, without those that are no longer in use."""
        other = PlaneFile(self.folder)
        for first in range(0, self.place.size, step):
            some = np.arange(first, min(first + step, self.place.size))
            counts, multipliers, blobs = self.read(some)
            other.take(some, other.write(counts, multipliers, blobs))
        return other

    @property
    def wasteful(self) -> bool:
        """Whether most of the planes here are no longer in use."""
        return self.planes.size > 2 * LEAST + 2 * int(self.place.mapped["count"].sum())


class Blobs:
    """Outputs as bytes, one after the other."""

    def __init__(self, data: np.ndarray, lengths: np.ndarray):
        self.data, self.lengths = data, np.asarray(lengths, dtype=np.int64)
