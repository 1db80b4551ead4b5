"""Text files into shards, in one pass and in little memory: svmlight rows, CoNLL-like columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.data.attributes import AttributeEncoder
from maxmargin.data.file_labels import whole_where_exact
from maxmargin.data.file_sequences import column_sequences
from maxmargin.data.manifest import columns_state
from maxmargin.data.mapped import csr_of
from maxmargin.data.shard_writer import SHARD_BYTES, ShardWriter
from maxmargin.data.templates import describe_columns
from maxmargin.data.text import byte_lines, readable
from maxmargin.io.fields import MOST_FEATURES

CHUNK_BYTES = 8 * 2**20  # of text parsed at a time
Describe = Callable[
    [Sequence[Sequence[str]]], Sequence[Any]
]  # columns of tokens to their attributes


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
            writer.add(X, whole_where_exact(y))
    return Path(folder)


def svmlight_rows(
    lines: Sequence[bytes], n_features: int | None, dtype: Any, zero_based: bool
) -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows and labels of some lines; refuses what shards cannot hold."""
    from sklearn.datasets import load_svmlight_file  # a slow import, of use here alone

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
    lines: Sequence[bytes], options: tuple[Any, ...], error: ValueError | OverflowError
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


def columns_to_shards(
    path: Any,
    folder: Any,
    tag: int = -1,
    describe: Describe = describe_columns,
    hash_bits: int | None = None,
    like: Any = None,
    shard_bytes: int = SHARD_BYTES,
    overwrite: bool = False,
) -> Path:
    """Tokens, one per line in columns, an empty line after each sequence (CoNLL), into chain shards.

    Parameters
    ----------
    tag : int, the column that is the label
    describe : from the other columns of all tokens of a sequence to the attributes of each token
        ``partial(data.describe_columns, templates="window")`` makes few of them.
    hash_bits : int or None
        2^hash_bits columns by a hash of the names; None: a column for each name, kept in the manifest.
    like : ShardedDataset or None
        Use its columns, for a test file; names that it does not know are left out.
    """
    if like is not None and (hash_bits is not None or getattr(like.X, "encoder", None) is None):
        raise ValueError("like must be a data set made from columns, without hash_bits beside it")
    if hash_bits is not None and not 1 <= hash_bits <= 30:
        raise ValueError(f"hash_bits must be None or from 1 to 30, got {hash_bits!r}")
    source = readable(path)
    encoder: AttributeEncoder = (
        AttributeEncoder(sequences=True).fit([]) if like is None else like.X.encoder
    )
    if hash_bits is not None:
        encoder = AttributeEncoder(n_features=2**hash_bits, sequences=True).fit([])
    read = encoder.extend if like is None else encoder.transform
    with ShardWriter(folder, "sequences", shard_bytes, overwrite, np.float32, grow=True) as writer:
        for tokens, labels in labelled_sequences(source, tag):
            rows = read([describe(tokens)]).parts[0]
            width = max(1, rows.shape[1])
            writer.add(
                csr_of(rows.data.astype(np.float32), rows.indices, rows.indptr, (0, width)), labels
            )
        writer.attributes = columns_state(encoder)
        if like is not None:
            writer.features = max(writer.features, like.manifest.features)
    return Path(folder)


def read_columns(
    path: Any, tag: int | None = -1, describe: Describe = describe_columns
) -> tuple[list[Sequence[Any]], list[list[str]] | None]:
    """The attributes of the tokens of a text file in columns, and their labels: X and Y of a chain.

    Parameters
    ----------
    path : path of the file, which may be packed
    tag : int, the column that is the label; None: there is none, and Y is None
    describe : as for ``columns_to_shards``; a model reads what it was trained with
    """
    found = list(labelled_sequences(readable(path), tag))
    X = [describe(tokens) for tokens, _ in found]
    return X, None if tag is None else [labels for _, labels in found]


def labelled_sequences(path: Any, tag: int | None) -> Iterator[tuple[list[list[str]], list[str]]]:
    """The tokens of each sequence without their labels, and these."""
    for _, _, tokens in column_sequences(path, 1 if tag is None else 2):
        width = len(tokens[0])
        if tag is None:
            yield tokens, []
            continue
        if not -width <= tag < width:
            raise ValueError(f"tag = {tag}, but {path} has {width} columns")
        rest = [[v for j, v in enumerate(t) if j != tag % width] for t in tokens]
        yield rest, [token[tag] for token in tokens]
