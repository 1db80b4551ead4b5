"""Open a sharded data set: files are mapped, not read, and every model accepts X and Y.

No array as long as the data is in memory. Features and codes stay in the files, which the core reads in
place, and the offsets of sequences go to an unnamed file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data.manifest import (
    MANIFEST_NAME,
    TREES,
    Manifest,
    Shard,
    coded,
    columns_encoder,
    file_name,
    read_manifest,
)
from maxmargin.data.mapped import (
    CodedLabels,
    CodedSequences,
    MappedParts,
    MappedRows,
    MappedSequences,
    ShardError,
    csr_of,
    map_file,
)
from maxmargin.data.scratch import spilled
from maxmargin.data.tree_shards import open_trees
from maxmargin.io.files import hold_mapped

HASHED = 2**22  # bytes read and hashed at a time


class ShardedDataset:
    """The examples of a folder of shards, mapped from their files.

    Attributes
    ----------
    X : ``MappedRows`` (a matrix), ``MappedSequences`` (a list of matrices) or ``MappedSentences``
    Y : labels, an array or a list of arrays, or ``MappedTrees``; None if no labels were written
    manifest : counts, types, label set and checksums
    """

    first: int
    X: Any
    Y: Any

    def __init__(self, folder: Any, verify: bool = True, shards: range | None = None):
        self.folder: Path = Path(folder)
        self.manifest: Manifest = read_manifest(self.folder)
        self.first = 0  # the number of the first shard
        if shards is not None:
            self._choose(shards)
        for k, shard in enumerate(self.manifest.shards):
            self._check_files(k, shard, verify)
        if self.manifest.kind == TREES:
            self.X, self.Y = open_trees(self)
        else:
            self._open_arrays()
        hold_mapped(self.X, self.folder / MANIFEST_NAME)

    def _open_arrays(self) -> None:
        """Map features and codes."""
        opened = enumerate(self.manifest.shards)
        parts = MappedParts(self._features(k, shard) for k, shard in opened)
        codes, encoder = self._codes(), columns_encoder(self.manifest)
        if self.manifest.kind == "rows":
            self.X = MappedRows(parts, self.manifest.features, encoder)
            self.Y = codes and CodedLabels(coded(self.manifest.labels), codes)  # type: ignore[arg-type]
        else:
            # Offsets may not fit in memory, so they go to an unnamed file.
            offsets = spilled(self._starts(), np.int64)
            self.X = MappedSequences(parts, self.manifest.features, offsets, encoder)
            self.Y = codes and CodedSequences(coded(self.manifest.labels), codes, offsets)  # type: ignore

    def _choose(self, shards: range) -> None:
        """Restrict the data set to these shards."""
        known = range(len(self.manifest.shards))
        if not len(shards) or shards.step != 1 or shards[0] not in known or shards[-1] not in known:
            raise ShardError(f"{self.folder} has the shards {known}, not {shards}")
        some = self.manifest.shards[shards.start : shards.stop]
        self.first, self.manifest = shards.start, replace(self.manifest, shards=some)

    def __len__(self) -> int:
        return self.manifest.examples

    def __repr__(self) -> str:
        m = self.manifest
        return (
            f"ShardedDataset({str(self.folder)!r}: {m.examples} examples, {m.rows} rows, {m.features} "
            f"features, {m.layout} {m.dtype}, {len(m.shards)} shards)"
        )

    @property
    def classes(self) -> np.ndarray | None:
        """The labels, in the order of their codes."""
        return None if self.manifest.labels is None else coded(self.manifest.labels)

    @property
    def n_bytes(self) -> int:
        """The size of all files in bytes."""
        return sum(file.bytes for shard in self.manifest.shards for file in shard.files.values())

    def path(self, shard: int, part: str) -> Path:
        """The path of a file of a shard."""
        return self.folder / file_name(self.first + shard, part, self.manifest.generation)

    def _check_files(self, k: int, shard: Shard, verify: bool) -> None:
        for part, entry in shard.files.items():
            path = self.path(k, part)
            if path.is_symlink() or not path.is_file():
                raise ShardError(f"{path} is missing")
            size = path.stat().st_size
            if size != entry.bytes:
                raise ShardError(f"{path} has {size} bytes, the manifest says {entry.bytes}")
            if verify and checksum(path) != entry.sha256:
                raise ShardError(
                    f"{path}: its content has changed: the checksum differs from the manifest"
                )

    def _map(self, k: int, part: str, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        return map_file(self.path(k, part), dtype, shape)

    def _features(self, k: int, shard: Shard) -> Any:
        m = self.manifest
        if m.layout == "dense":
            return self._map(k, "data", m.dtype, (shard.rows, m.features))
        data = self._map(k, "data", m.dtype, (shard.entries,))
        indices = self._map(k, "indices", "<i4", (shard.entries,))
        indptr = self._map(k, "indptr", "<i4", (shard.rows + 1,))
        if indptr[0] != 0 or indptr[-1] != shard.entries or (indptr[1:] < indptr[:-1]).any():
            raise ShardError(f"{self.path(k, 'indptr')}: the row pointers do not match the entries")
        return csr_of(data, indices, indptr, (shard.rows, m.features))

    def _codes(self) -> MappedParts | None:
        if self.manifest.labels is None:
            return None
        most, parts = len(self.manifest.labels["classes"]), []
        for k, shard in enumerate(self.manifest.shards):
            part = self._map(k, "codes", "<i4", (shard.rows,))
            if part.min() < 0 or part.max() >= most:
                raise ShardError(f"{self.path(k, 'codes')} holds a code outside the {most} labels")
            parts.append(part)
        return MappedParts(parts)

    def offsets(self, k: int, shard: Shard, part: str, last: int, what: str) -> np.ndarray:
        """Map the offsets of the examples of a shard, with its end; refuse offsets that do not fit."""
        own = self._map(k, part, "<i8", (shard.examples + 1,))
        if own[0] != 0 or own[-1] != last or (own[1:] <= own[:-1]).any():
            raise ShardError(f"{self.path(k, part)}: the offsets do not match the {what}")
        return own

    def _starts(self) -> Iterator[np.ndarray]:
        """Yield the offsets of the sequences in the rows of all shards."""
        total = 0
        yield np.zeros(1, np.int64)
        for k, shard in enumerate(self.manifest.shards):
            yield self.offsets(k, shard, "offsets", shard.rows, "rows")[1:] + total
            total += shard.rows


def checksum(path: Path) -> str:
    """Return the SHA-256 checksum of a file."""
    total = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(HASHED):
            total.update(block)
    return total.hexdigest()


def open_shards(folder: Any, verify: bool = True, shards: range | None = None) -> ShardedDataset:
    """Open a folder that ``write_shards`` wrote; ``.X`` and ``.Y`` go into ``fit`` and ``predict``.

    Parameters
    ----------
    folder : path
    verify : bool
        Compare every file with its checksum, which reads every file once. Sizes, offsets and codes are
        always checked.
    shards : range or None
        The consecutive numbers of the shards to open; None opens all shards.
    """
    return ShardedDataset(folder, verify, shards)
