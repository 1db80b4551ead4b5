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

from maxmargin.data.mapped import csr_of
from maxmargin.data.shard_writer import SHARD_BYTES, ShardWriter
from maxmargin.data.text import byte_lines, numbered_lines, readable
from maxmargin.io.fields import MOST_FEATURES

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
    source, options = readable(path), (n_features, dtype, zero_based)
    with ShardWriter(folder, "rows", shard_bytes, overwrite, dtype, grow=True) as writer:
        for first, lines in line_chunks(source):
            try:
                X, y = svmlight_rows(lines, *options)
            except (ValueError, OverflowError) as error:
                number, reason = first_bad_line(lines, options, error)
                raise ValueError(f"{source}, line {first + number}: {reason}") from error
            writer.add(X, whole(y))
    return Path(folder)


def svmlight_rows(
    lines: Sequence[bytes], n_features: int | None, dtype: Any, zero_based: bool
) -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows and labels of some lines; refuses what shards cannot hold."""
    with np.errstate(over="ignore"):  # what overflows is refused
        X, y = load_svmlight_file(BytesIO(b"".join(lines)), dtype=dtype, zero_based=True)
    if X.nnz and not zero_based and X.indices.min() == 0:
        raise ValueError("column 0, but columns begin at 1; zero_based=True takes it")
    width = int(X.indices.max()) + zero_based if X.nnz else 1
    most = MOST_FEATURES if n_features is None else n_features
    if width > most:
        named = "2^31 - 1" if n_features is None else f"n_features = {n_features}"
        raise ValueError(f"there are {width} columns, but at most {named} can be")
    if not np.isfinite(X.data).all() or not np.isfinite(y).all():
        raise ValueError(f"a value or a label is NaN, infinite, or too large for {np.dtype(dtype)}")
    shape = (X.shape[0], n_features or width)
    return csr_of(X.data, X.indices - (not zero_based), X.indptr, shape), y


def first_bad_line(
    lines: Sequence[bytes], options: tuple, error: ValueError | OverflowError
) -> tuple[int, str]:
    """Place of the first line that cannot be read, by halving, and what is wrong with it."""
    first, last = 0, len(lines)  # lines before `first` can be read, one of first..last cannot
    while last - first > 1:
        middle = (first + last) // 2
        try:
            svmlight_rows(lines[first:middle], *options)
            first = middle
        except (ValueError, OverflowError) as found:
            last, error = middle, found
    reason = str(error)
    if isinstance(error, OverflowError):
        reason = "a column number is too large: at most 2^31 - 1 can be"
    return first, f"{reason}; got {lines[first][:60].decode('utf-8', 'replace').strip()!r}"


def whole(y: np.ndarray) -> np.ndarray:
    """Whole numbers as such, where a float has them exactly."""
    return y.astype(np.int64) if (np.abs(y) < 2**53).all() and (y == np.floor(y)).all() else y


def line_chunks(path: Path) -> Iterator[tuple[int, list[bytes]]]:
    """Whole lines of a file, several megabytes at a time, with the number of the first of them."""
    number, lines, size = 1, [], 0
    for line in byte_lines(path):
        lines.append(line)
        size += len(line)
        if size >= CHUNK_BYTES:
            yield number, lines
            number, lines, size = number + len(lines), [], 0
    if lines:
        yield number, lines


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
    """Tokens, one per line in columns, an empty line after each sequence (CoNLL), into chain shards.

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
    source = readable(path)
    columns = Columns(None if like is None else like.manifest.attributes, hash_bits)
    with ShardWriter(folder, "sequences", shard_bytes, overwrite, np.float32, grow=True) as writer:
        for tokens in column_sequences(source):
            if not -len(tokens[0]) <= tag < len(tokens[0]):
                raise ValueError(f"tag = {tag}, but {source} has {len(tokens[0])} columns")
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
    for number, line in numbered_lines(path):
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
