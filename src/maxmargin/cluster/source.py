"""Where the parts of a cluster's data come from, and what the model learns from all of them.

A part is a ``ShardPart`` or a ``ParquetPart``, which every worker reads by its path, or (X, Y, sample_weight)
in memory. What a part of files held at its first reading is known by a checksum: whoever reads it later, on
this worker or another, must find the same, for the bounds of a part are bounds of these examples and of no
others.
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

LABEL_LAST = Columns()  # the label is the last one


@dataclass(frozen=True)
class ShardPart:
    """Some shards of a folder that every worker can read."""

    folder: str
    shards: range
    checksum: str = ""

    def __str__(self) -> str:
        first, last = self.shards[0], self.shards[-1]
        some = f"shard {first}" if first == last else f"shards {first} to {last}"
        return f"{self.folder}, {some}"

    def digest(self) -> str:
        """Of the checksums that the manifest has of its files, wherever they are."""
        known = manifest.read_manifest(Path(self.folder))
        some = known.shards[self.shards.start : self.shards.stop]
        files = [[name, own.sha256] for shard in some for name, own in sorted(shard.files.items())]
        return digest_of([known.labels, known.attributes, known.features, files])

    def read(self, svm: Any) -> tuple[Any, Any, Any]:
        """X and Y, mapped; each file is compared with its checksum. Shards have no weights."""
        opened = open_shards(self.folder, shards=self.shards)
        if opened.Y is None:
            raise ValueError(f"{self.folder} has no labels: training needs Y")
        return opened.X, opened.Y, None


@dataclass(frozen=True)
class ParquetPart:
    """Some row groups of Parquet files that every worker can read."""

    groups: tuple[file_parquet.RowGroup, ...]
    columns: Columns
    checksum: str = ""

    def __str__(self) -> str:
        files = list(dict.fromkeys(path for path, _ in self.groups))
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        return f"{files[0]}{more}, {len(self.groups)} row groups"

    def digest(self) -> str:
        """Of what is in the row groups, and of what is made of it."""
        content = file_parquet.checksum_of(self.groups)
        others = [self.columns.weight, self.columns.sequence]
        return digest_of([content, others]) if any(others) else content

    def read(self, svm: Any) -> tuple[Any, Any, Any]:
        """X, Y and weights: features, by the names that a model knows or else by all; dicts for others."""
        model = getattr(svm, "model_", getattr(svm, "model", None))
        if model is not None and not isinstance(model, Described):
            return file_parquet.plain_rows(self.groups, self.columns)
        return file_parquet.encoded(self.groups, self.columns, getattr(model, "encoder_", None))


FilePart = ShardPart | ParquetPart


def part_in_words(data: Any) -> str:
    """A part in words."""
    return str(data) if isinstance(data, FilePart) else "in memory"


def is_path(source: Any) -> bool:
    """Whether it names a file or a folder."""
    return isinstance(source, str | os.PathLike)


def paths_in(source: Any) -> list[Any]:
    """The paths that a source is or holds."""
    some = source if isinstance(source, list | tuple) else [source]
    return [path for path in some if is_path(path)]


def parts_of(
    source: Any, n_parts: int | None, n_workers: int, columns: Columns = LABEL_LAST
) -> list[Any]:
    """The parts of a source: files that have a path, a list of such paths, or of (X, Y) parts."""
    if n_parts is not None:
        whole().check("n_parts", n_parts)
    if is_path(source):
        return path_parts(source, n_parts, n_workers, columns)
    if not isinstance(source, Sequence) or not len(source):
        raise ValueError(
            "source must be a folder of shards, a Parquet file or a folder of such, a list of these paths, "
            f"or a list of parts (X, Y), got {source!r}"
        )
    if all(map(is_path, source)):
        if n_parts not in (None, len(source)):
            raise ValueError(
                f"n_parts must be None or {len(source)}: each path of the list is a part"
            )
        return [path_parts(path, 1, 1, columns)[0] for path in source]
    check_no_columns(columns, "source")
    parts = [memory_part(part, k) for k, part in enumerate(source)]
    if n_parts is None or n_parts == len(parts):
        return parts
    if n_parts > len(parts):
        raise ValueError(f"n_parts is {n_parts}, but source has {len(parts)} parts only")
    groups = np.array_split(np.arange(len(parts)), n_parts)
    return [joined_parts([parts[k] for k in group]) for group in groups]


def check_no_columns(columns: Columns, source: Any) -> None:
    """Refuse names of columns where there are none."""
    for name in (own.name for own in fields(columns) if getattr(columns, own.name)):
        raise ValueError(f"{name} is the name of a column of Parquet files, and {source} has none")


def path_parts(source: Any, n_parts: int | None, n_workers: int, columns: Columns) -> list[Any]:
    """What is at a path, dealt out in runs: one for each worker unless n_parts is given."""
    path = Path(source).resolve()
    files = file_parquet.files_of(path)
    if path.is_file() or (files and not (path / manifest.MANIFEST_NAME).exists()):
        groups = [group for file in files for group in file_parquet.groups_of(str(file))]
        if not groups:
            raise ValueError(f"{source}: there are no rows")
        known = f"{source} has {len(groups)} row groups; write it with smaller ones"
        runs = dealt(len(groups), n_parts, n_workers, known)
        return [ParquetPart(tuple(groups[own.start : own.stop]), columns) for own in runs]
    check_no_columns(columns, source)
    n = len(manifest.read_manifest(path).shards)
    known = f"{source} has {n} shards; write it with a smaller shard_bytes"
    return [ShardPart(str(path), own) for own in dealt(n, n_parts, n_workers, known)]


def dealt(n: int, n_parts: int | None, n_workers: int, known: str) -> list[range]:
    """n pieces in runs."""
    if n_parts is not None and n_parts > n:
        raise ValueError(f"n_parts is {n_parts}, but {known}")
    wanted = min(n, max(1, n_workers)) if n_parts is None else n_parts
    bounds = np.linspace(0, n, wanted + 1).astype(int).tolist()
    return [range(*ends) for ends in pairwise(bounds)]


def memory_part(part: Any, k: int) -> tuple[Any, Any, Any]:
    """X, Y and weights of examples in memory."""
    if not isinstance(part, tuple | list) or len(part) not in (2, 3):
        raise ValueError(
            f"source[{k}] must be a folder, (X, Y) or (X, Y, sample_weight), got {type(part).__name__}"
        )
    X, Y, weights = (*part, None)[:3]
    if Y is None:
        raise ValueError(f"source[{k}]: Y must be given, the true output of every example")
    check_lengths(X, Y)
    return X, Y, weights


def read_part(svm: Any, data: Any) -> tuple[Any, Any, Any]:
    """X, Y and weights of a part, as the model of an estimator takes them."""
    if not isinstance(data, FilePart):
        return data
    if data.checksum and data.digest() != data.checksum:
        raise ValueError(f"{data}: the data have changed since training began, or are others here")
    return data.read(svm)


# What the model learns from all parts


@dataclass(frozen=True)
class FirstLook:
    """What a part has to say before there is a model: few examples that stand for it, counts of labels."""

    part: Any  # with its checksum
    X: Any
    Y: Any
    labels: np.ndarray | None
    counts: np.ndarray | None


def first_look(svm: Any, data: Any) -> FirstLook:
    """Look at a part; the examples themselves where the model has no outline of them."""
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
    """Several parts as one."""
    X, Y, weights = zip(*parts, strict=True)
    given = [np.ones(len(y)) if v is None else v for y, v in zip(Y, weights, strict=True)]
    return (
        stacked_parts(X),
        stacked_parts(Y),
        np.concatenate(given) if any(v is not None for v in weights) else None,
    )


def stacked_parts(parts: Sequence[Any]) -> Any:
    """Inputs, or outputs, one after the other: arrays and matrices as such, anything else in a list."""
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
    """Mapped data as arrays and lists."""
    if isinstance(part, MappedRows):
        return part.tocsr() if part.sparse else np.asarray(part)
    if isinstance(part, Mapped) or hasattr(part, "codes"):
        return list(part)
    return plain_sequence(part)
