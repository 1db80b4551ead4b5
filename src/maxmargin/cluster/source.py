"""The parts of a cluster's data, and the facts that the model learns from all of them.

A part is a ``ShardPart`` or a ``ParquetPart``, which every worker reads by its path, or (X, Y, sample_weight)
in memory. The first reader of a part in files records a checksum of its content. A later reader, on this or
another worker, must find the same content: the bounds of a part hold for these examples only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.data import file_parquet, manifest
from maxmargin.data.arrays import check_lengths, plain_sequence, whole
from maxmargin.data.attributes import Described
from maxmargin.data.digest import digest_of
from maxmargin.data.file_parquet import Columns
from maxmargin.data.labels import is_plain_array
from maxmargin.data.mapped import Mapped, MappedRows
from maxmargin.data.sharded import open_shards
from maxmargin.estimators.base import Given
from maxmargin.models.outline import outline

LABEL_LAST = Columns()  # the label is in the last column


@dataclass(frozen=True)
class ShardPart:
    """A run of shards in a folder that every worker can read."""

    folder: str
    shards: range
    checksum: str = ""

    def __str__(self) -> str:
        first, last = self.shards[0], self.shards[-1]
        some = f"shard {first}" if first == last else f"shards {first} to {last}"
        return f"{self.folder}, {some}"

    def digest(self) -> str:
        """A checksum over the file checksums in the manifest, independent of the folder's location."""
        known = manifest.read_manifest(Path(self.folder))
        some = known.shards[self.shards.start : self.shards.stop]
        files = [[name, own.sha256] for shard in some for name, own in sorted(shard.files.items())]
        return digest_of([known.labels, known.attributes, known.features, files])

    def read(self, svm: Any) -> tuple[Any, Any, Any]:
        """Return X and Y as mapped arrays, and no weights; each file is compared with its checksum."""
        opened = open_shards(self.folder, shards=self.shards)
        if opened.Y is None:
            raise ValueError(
                f"{self.folder} has no labels, but training needs them; write the shards with Y"
            )
        return opened.X, opened.Y, None


@dataclass(frozen=True)
class ParquetPart:
    """A run of row groups of Parquet files that every worker can read."""

    groups: tuple[file_parquet.RowGroup, ...]
    columns: Columns
    checksum: str = ""

    def __str__(self) -> str:
        files = list(dict.fromkeys(path for path, _ in self.groups))
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        return f"{files[0]}{more}, {len(self.groups)} row groups"

    def digest(self) -> str:
        """A checksum of the row groups and of the columns of weights and sequences."""
        content = file_parquet.checksum_of(self.groups)
        others = [self.columns.weight, self.columns.sequence]
        return digest_of([content, others]) if any(others) else content

    def read(self, svm: Any) -> tuple[Any, Any, Any]:
        """Return X, Y and weights.

        X holds encoded features, by the names that the model knows or, for a new model, by all names in the
        rows. For a model that takes no attributes, X holds dicts.
        """
        model = getattr(svm, "model_", getattr(svm, "model", None))
        if model is not None and not isinstance(model, Described):
            return file_parquet.plain_rows(self.groups, self.columns)
        return file_parquet.encoded(self.groups, self.columns, getattr(model, "encoder_", None))


FilePart = ShardPart | ParquetPart


def part_in_words(data: Any) -> str:
    """Describe a part for a message."""
    return str(data) if isinstance(data, FilePart) else "in memory"


def is_path(source: Any) -> bool:
    """Whether a source is the name of a file or a folder."""
    return isinstance(source, str | os.PathLike)


def paths_in(source: Any) -> list[Any]:
    """The paths in a source: the source itself, or items of the list."""
    some = source if isinstance(source, list | tuple) else [source]
    return [path for path in some if is_path(path)]


def parts_of(
    source: Any, n_parts: int | None, n_workers: int, columns: Columns = LABEL_LAST
) -> list[Any]:
    """Divide a source into parts: a path, a list of paths, or a list of (X, Y) parts."""
    if n_parts is not None:
        whole().check("n_parts", n_parts)
    if is_path(source):
        return path_parts(source, n_parts, n_workers, columns)
    if not isinstance(source, Sequence) or not len(source):
        raise ValueError(
            "source must be a folder of shards, a Parquet file, a folder of Parquet files, a list "
            f"of these paths, or a list of parts (X, Y), got {source!r}"
        )
    if all(map(is_path, source)):
        if n_parts not in (None, len(source)):
            raise ValueError(
                f"n_parts must be None or {len(source)}, because each path of the list is one part"
            )
        return [path_parts(path, 1, 1, columns)[0] for path in source]
    check_no_columns(columns, "source")
    parts = [memory_part(part, k) for k, part in enumerate(source)]
    if n_parts is None or n_parts == len(parts):
        return parts
    if n_parts > len(parts):
        raise ValueError(f"n_parts is {n_parts}, but source has only {len(parts)} parts")
    groups = np.array_split(np.arange(len(parts)), n_parts)
    return [joined_parts([parts[k] for k in group]) for group in groups]


def check_no_columns(columns: Columns, source: Any) -> None:
    """Raise an error if column names are given for a source without columns."""
    for name in (own.name for own in fields(columns) if getattr(columns, own.name)):
        raise ValueError(
            f"{name} names a column of Parquet files, but {source} is not Parquet; leave {name} out"
        )


def path_parts(source: Any, n_parts: int | None, n_workers: int, columns: Columns) -> list[Any]:
    """Divide the data at a path into runs: one for each worker unless n_parts is given."""
    path = Path(source).resolve()
    files = file_parquet.files_of(path)
    if path.is_file() or (files and not (path / manifest.MANIFEST_NAME).exists()):
        groups = [group for file in files for group in file_parquet.groups_of(str(file))]
        if not groups:
            raise ValueError(f"{source} has no rows")
        known = f"{source} has {len(groups)} row groups; write it again with smaller row groups"
        runs = dealt(len(groups), n_parts, n_workers, known)
        return [ParquetPart(tuple(groups[own.start : own.stop]), columns) for own in runs]
    check_no_columns(columns, source)
    n = len(manifest.read_manifest(path).shards)
    known = f"{source} has {n} shards; write it again with a smaller shard_bytes"
    return [ShardPart(str(path), own) for own in dealt(n, n_parts, n_workers, known)]


def dealt(n: int, n_parts: int | None, n_workers: int, known: str) -> list[range]:
    """Divide n pieces into runs of about equal length."""
    if n_parts is not None and n_parts > n:
        raise ValueError(f"n_parts is {n_parts}, but {known}")
    wanted = min(n, max(1, n_workers)) if n_parts is None else n_parts
    bounds = np.linspace(0, n, wanted + 1).astype(int).tolist()
    return [range(*ends) for ends in pairwise(bounds)]


def memory_part(part: Any, k: int) -> tuple[Any, Any, Any]:
    """Check examples in memory; return X, Y and weights."""
    if not isinstance(part, tuple | list) or len(part) not in (2, 3):
        raise ValueError(
            f"source[{k}] must be a folder, (X, Y) or (X, Y, sample_weight), got {type(part).__name__}"
        )
    X, Y, weights = (*part, None)[:3]
    if Y is None:
        raise ValueError(f"source[{k}]: Y must be given, with the true output of every example")
    check_lengths(X, Y)
    return X, Y, weights


def read_part(svm: Any, data: Any) -> tuple[Any, Any, Any]:
    """Read X, Y and weights of a part; raise an error if files have changed since the first reading."""
    if not isinstance(data, FilePart):
        return data
    if data.checksum and data.digest() != data.checksum:
        raise ValueError(
            f"{data}: the data changed after training began, or this worker sees other files"
        )
    return data.read(svm)


# Facts for the model from all parts


@dataclass(frozen=True)
class FirstLook:
    """The contribution of a part to the model: a few representative examples, and counts of labels."""

    part: Any  # the part with its checksum
    X: Any
    Y: Any
    labels: np.ndarray | None
    counts: np.ndarray | None


def first_look(svm: Any, data: Any) -> FirstLook:
    """Look at a part; if the model has no outline, return the examples themselves."""
    if isinstance(data, FilePart):
        data = replace(data, checksum=data.digest())
    X, Y, weights = read_part(svm, data)
    given = svm._read(Given(X, Y, weights))
    labels = counts = None
    if getattr(svm, "class_weight", None) is not None:
        labels, counts = np.unique(np.asarray(given.Y), return_counts=True)
    found = outline(given.model, given.X, given.Y)
    return FirstLook(data, *((X, Y) if found is None else found), labels, counts)


def joined_parts(parts: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Join several parts into one."""
    X, Y, weights = zip(*parts, strict=True)
    given = [np.ones(len(y)) if v is None else v for y, v in zip(Y, weights, strict=True)]
    return (
        stacked_parts(X),
        stacked_parts(Y),
        np.concatenate(given) if any(v is not None for v in weights) else None,
    )


def stacked_parts(parts: Sequence[Any]) -> Any:
    """Concatenate inputs, or outputs: arrays and matrices keep their type, anything else becomes a list."""
    parts = [in_memory(part) for part in parts]
    if any(map(sp.issparse, parts)):
        return sp.vstack([sp.csr_matrix(part) for part in parts], format="csr")
    even = len({np.shape(part)[1:] for part in parts if is_plain_array(part)}) == 1
    if even and all(map(is_plain_array, parts)) and len({part.dtype.kind for part in parts}) == 1:
        return np.concatenate(parts)
    return list(
        chain.from_iterable(p.tolist() if is_plain_array(p) and p.ndim == 1 else p for p in parts)
    )


def in_memory(part: Any) -> Any:
    """Convert mapped data to arrays or lists."""
    if isinstance(part, MappedRows):
        return part.tocsr() if part.sparse else np.asarray(part)
    if isinstance(part, Mapped) or hasattr(part, "codes"):
        return list(part)
    return plain_sequence(part)
