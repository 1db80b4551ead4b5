"""Text files into shards, in one pass and in little memory: svmlight rows, CoNLL-like columns."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

from maxmargin.data.shard_writer import SHARD_BYTES, ShardWriter

CHUNK_BYTES = 8 * 2**20  # of text parsed at a time
Describe = Callable[[Sequence[Sequence[str]]], Sequence[Sequence[str]]]


def svmlight_to_shards(
    path: Any,
    folder: Any,
    zero_based: bool = False,
    n_features: int | None = None,
    dtype: Any = np.float32,
    shard_bytes: int = SHARD_BYTES,
    overwrite: bool = False,
) -> Path:
    """Rows ``label index:value ...`` (svmlight, LIBSVM) into CSR shards.

    Columns begin at 1, or at 0 with ``zero_based``. ``n_features`` fixes the width, for a test file.
    Labels become whole numbers where all of a chunk are.
    """
    source = Path(path)
    with ShardWriter(folder, "rows", shard_bytes, overwrite, dtype, grow=True) as writer:
        for first, text in text_chunks(source):
            try:
                X, y = load_svmlight_file(
                    BytesIO(text), n_features=n_features, dtype=dtype, zero_based=zero_based
                )
            except ValueError as error:
                raise ValueError(f"{source}, line {first} or one after it: {error}") from None
            if X.shape[0] and X.indices.size and X.indices.min() < 0:
                raise ValueError(
                    f"{source}, line {first} or one after it: column 0, but columns begin at 1; "
                    "zero_based=True takes it"
                )
            writer.add(X, whole(y))
    return Path(folder)


def whole(y: np.ndarray) -> np.ndarray:
    """Whole numbers as such."""
    return y.astype(np.int64) if np.isfinite(y).all() and (y == np.floor(y)).all() else y


def text_chunks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Whole lines of a file, several megabytes at a time, with the number of the first of them."""
    number, lines, size = 1, [], 0
    with open(path, "rb") as file:
        for line in file:
            lines.append(line)
            size += len(line)
            if size >= CHUNK_BYTES:
                yield number, b"".join(lines)
                number, lines, size = number + len(lines), [], 0
    if lines:
        yield number, b"".join(lines)


def window_attributes(tokens: Sequence[Sequence[str]]) -> list[list[str]]:
    """For every token the columns of the one before, of itself and of the one after it, and a bias."""
    described = []
    for t in range(len(tokens)):
        names = ["bias"]
        for offset in (-1, 0, 1):
            if 0 <= t + offset < len(tokens):
                names += [f"{j}[{offset}]={v}" for j, v in enumerate(tokens[t + offset])]
            else:
                names.append(f"end[{offset}]")
        described.append(names)
    return described


class Columns:
    """Attribute names to columns: by a vocabulary that grows, by one that is fixed, or hashed."""

    def __init__(self, state: dict[str, Any] | None = None, hash_bits: int | None = None):
        self.hash_bits = hash_bits if state is None else state.get("hash_bits")
        self.fixed = state is not None
        self.index: dict[str, int] = {}
        if state is not None and "names" in state:
            self.index = {name: j for j, name in enumerate(state["names"])}

    def state(self) -> dict[str, Any]:
        """For the manifest."""
        if self.hash_bits is not None:
            return {"hash_bits": self.hash_bits}
        return {"names": list(self.index)}

    def column(self, name: str) -> int | None:
        """The column of a name; None for one that a fixed vocabulary does not know."""
        if self.hash_bits is not None:
            return zlib.crc32(name.encode("utf-8")) & ((1 << self.hash_bits) - 1)
        return self.index.get(name) if self.fixed else self.index.setdefault(name, len(self.index))

    def matrix(self, described: Sequence[Sequence[str]]) -> sp.csr_matrix:
        """Zero-one features of the tokens of a sequence."""
        rows = [sorted({self.column(name) for name in names} - {None}) for names in described]  # type: ignore
        indptr = np.cumsum([0, *map(len, rows)]).astype(np.int32)
        indices = np.array([j for row in rows for j in row], dtype=np.int32)
        width = len(self.index) if self.hash_bits is None else 1 << self.hash_bits
        data = np.ones(len(indices), np.float32)
        return sp.csr_matrix((data, indices, indptr), shape=(len(rows), max(1, width)))


def columns_to_shards(
    path: Any,
    folder: Any,
    tag: int = -1,
    describe: Describe = window_attributes,
    hash_bits: int | None = None,
    like: Any = None,
    shard_bytes: int = SHARD_BYTES,
    overwrite: bool = False,
) -> Path:
    """Tokens a line, columns apart by blanks, an empty line after each sequence (CoNLL) into chain shards.

    Parameters
    ----------
    tag : int, the column that is the label
    describe : from the other columns of all tokens of a sequence to the attribute names of each token
    hash_bits : int or None
        2^hash_bits columns by a hash of the names; None: a vocabulary, kept in the manifest.
    like : ShardedDataset or None
        Use its columns, for a test file; names that it does not know are left out.
    """
    if like is not None and (hash_bits is not None or like.manifest.attributes is None):
        raise ValueError("like must be a data set made from columns, without hash_bits beside it")
    if hash_bits is not None and not 1 <= hash_bits <= 30:
        raise ValueError(f"hash_bits must be None or from 1 to 30, got {hash_bits!r}")
    columns = Columns(None if like is None else like.manifest.attributes, hash_bits)
    with ShardWriter(folder, "sequences", shard_bytes, overwrite, np.float32, grow=True) as writer:
        for tokens in column_sequences(Path(path)):
            labels = [token[tag] for token in tokens]
            rest = [[v for j, v in enumerate(t) if j != tag % len(t)] for t in tokens]
            writer.add(columns.matrix(describe(rest)), labels)
        writer.attributes = columns.state()
        if like is not None:
            writer.features = max(writer.features, like.manifest.features)
    return Path(folder)


def column_sequences(path: Path) -> Iterator[list[list[str]]]:
    """The tokens of each sequence, split into columns."""
    tokens: list[list[str]] = []
    width = None
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            fields = line.split()
            if not fields:
                if tokens:
                    yield tokens
                tokens = []
                continue
            width = width or len(fields)
            if len(fields) != width or width < 2:
                raise ValueError(
                    f"{path}, line {number}: expected {max(2, width)} columns, got {len(fields)}"
                )
            tokens.append(fields)
    if tokens:
        yield tokens
