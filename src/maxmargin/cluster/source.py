"""Where the parts of a cluster's data come from, and what the model learns from all of them.

A part is a ``ShardPart``, which every worker opens by its path, or (X, Y, sample_weight) in memory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.data.arrays import check_lengths, check_whole
from maxmargin.data.labels import plain
from maxmargin.data.manifest import read_manifest
from maxmargin.data.mapped import Mapped, MappedRows
from maxmargin.data.sharded import open_shards
from maxmargin.estimators.base import Given
from maxmargin.models.outline import outline


@dataclass(frozen=True)
class ShardPart:
    """Some shards of a folder that every worker can read."""

    folder: str
    shards: range

    def __str__(self) -> str:
        first, last = self.shards[0], self.shards[-1]
        some = f"shard {first}" if first == last else f"shards {first} to {last}"
        return f"{self.folder}, {some}"


def describe(data: Any) -> str:
    """A part in words."""
    return str(data) if isinstance(data, ShardPart) else "in memory"


def is_path(source: Any) -> bool:
    """Whether it names a folder."""
    return isinstance(source, str | os.PathLike)


def parts_of(source: Any, n_parts: int | None, n_workers: int) -> list[Any]:
    """The parts of a source: a folder of shards, a list of such folders, or of (X, Y) parts."""
    if n_parts is not None:
        check_whole("n_parts", n_parts)
    if is_path(source):
        return folder_parts(source, n_parts, n_workers)
    if not isinstance(source, Sequence) or not len(source):
        raise ValueError(
            "source must be a folder of shards, a list of such folders, or a list of parts (X, Y), got "
            f"{source!r}"
        )
    if all(map(is_path, source)):
        if n_parts not in (None, len(source)):
            raise ValueError(
                f"n_parts must be None or {len(source)}: each folder of the list is a part"
            )
        return [folder_parts(folder, 1, 1)[0] for folder in source]
    parts = [memory_part(part, k) for k, part in enumerate(source)]
    if n_parts is None or n_parts == len(parts):
        return parts
    if n_parts > len(parts):
        raise ValueError(f"n_parts is {n_parts}, but source has {len(parts)} parts only")
    groups = np.array_split(np.arange(len(parts)), n_parts)
    return [joined([parts[k] for k in group]) for group in groups]


def folder_parts(folder: Any, n_parts: int | None, n_workers: int) -> list[ShardPart]:
    """The shards of a folder, dealt out in runs: one for each worker unless n_parts is given."""
    path = Path(folder).resolve()
    n = len(read_manifest(path).shards)
    if n_parts is not None and n_parts > n:
        raise ValueError(
            f"n_parts is {n_parts}, but {folder} has {n} shards; write it with a smaller shard_bytes"
        )
    wanted = min(n, max(1, n_workers)) if n_parts is None else n_parts
    bounds = np.linspace(0, n, wanted + 1).astype(int).tolist()
    return [ShardPart(str(path), range(*ends)) for ends in pairwise(bounds)]


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


def read_part(data: Any) -> tuple[Any, Any, Any]:
    """X, Y and weights of a part; shards are mapped, and compared with their checksums."""
    if not isinstance(data, ShardPart):
        return data
    opened = open_shards(data.folder, shards=data.shards)
    if opened.Y is None:
        raise ValueError(f"{data.folder} has no labels: training needs Y")
    return opened.X, opened.Y, None


# What the model learns from all parts


@dataclass(frozen=True)
class Survey:
    """What a part has to say before there is a model: few examples that stand for it, counts of labels."""

    X: Any
    Y: Any
    labels: np.ndarray | None
    counts: np.ndarray | None


def survey(svm: Any, data: Any) -> Survey:
    """Look at a part; the examples themselves where the model has no outline of them."""
    X, Y, weights = read_part(data)
    given = svm._read(Given(X, Y, weights))
    labels = counts = None
    if getattr(svm, "class_weight", None) is not None:
        labels, counts = np.unique(np.asarray(given.Y), return_counts=True)
    found = outline(given.model, given.X, given.Y)
    return Survey(*((X, Y) if found is None else found), labels, counts)


def joined(parts: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Several parts as one."""
    X, Y, weights = zip(*parts, strict=True)
    given = [np.ones(len(y)) if v is None else v for y, v in zip(Y, weights, strict=True)]
    return (
        stacked(X),
        stacked(Y),
        np.concatenate(given) if any(v is not None for v in weights) else None,
    )


def stacked(parts: Sequence[Any]) -> Any:
    """Inputs, or outputs, one after the other: arrays and matrices as such, anything else in a list."""
    parts = [in_memory(part) for part in parts]
    if any(map(sp.issparse, parts)):
        return sp.vstack([sp.csr_matrix(part) for part in parts], format="csr")
    even = len({np.shape(part)[1:] for part in parts if plain(part)}) == 1
    if even and all(map(plain, parts)) and len({part.dtype.kind for part in parts}) == 1:
        return np.concatenate(parts)
    return list(chain.from_iterable(p.tolist() if plain(p) and p.ndim == 1 else p for p in parts))


def in_memory(part: Any) -> Any:
    """Mapped data as arrays and lists."""
    if isinstance(part, MappedRows):
        return part.tocsr() if part.sparse else np.asarray(part)
    if isinstance(part, Mapped) or hasattr(part, "codes"):
        return list(part)
    return part.to_numpy() if hasattr(part, "iloc") else part
