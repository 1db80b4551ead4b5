"""Convert text files to shards in one pass and in little memory: svmlight rows, CoNLL-like columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data.attributes import AttributeEncoder
from maxmargin.data.file_labels import whole_where_exact
from maxmargin.data.file_rows import load_rows, loaded, widened
from maxmargin.data.file_sequences import column_sequences
from maxmargin.data.manifest import columns_state
from maxmargin.data.mapped import csr_of, encoder_in
from maxmargin.data.shard_writer import SHARD_BYTES, ShardWriter
from maxmargin.data.sharded import open_shards
from maxmargin.data.templates import describe_columns
from maxmargin.data.text import batches_of, byte_lines, readable
from maxmargin.io.fields import MOST_FEATURES
from maxmargin.io.quoting import short

CHUNK_BYTES = 8 * 2**20  # bytes of text parsed at a time; more take more memory, fewer more calls
# A function from the columns of all tokens of a sequence to the attributes of each token.
Describe = Callable[[Sequence[Sequence[str]]], Sequence[Any]]


def svmlight_to_shards(
    path: Any,
    folder: Any,
    zero_based: bool = False,
    n_features: int | None = None,
    dtype: Any = np.float32,
    shard_bytes: int = SHARD_BYTES,
    overwrite: bool = False,
) -> Path:
    """Convert rows ``label index:value ...`` (svmlight, LIBSVM) to CSR shards.

    Columns begin at 1, or at 0 with ``zero_based``. ``n_features`` fixes the width, for a test file.
    The labels of a chunk become integers if all of them are whole numbers.
    """
    source, most = readable(path, folder), MOST_FEATURES if n_features is None else n_features

    def load(lines: list[bytes]) -> tuple[Any, Any]:
        X, y = load_rows(lines, dtype, zero_based)
        if X.shape[1] > most:
            named = "2^31 - 1" if n_features is None else f"n_features = {n_features}"
            raise ValueError(f"there are {X.shape[1]} columns, but at most {named} can be")
        return widened(X, n_features or X.shape[1]), y

    with ShardWriter(folder, "rows", shard_bytes, overwrite, dtype, grow=True) as writer:
        for first, lines in batches_of(enumerate(byte_lines(source), 1), CHUNK_BYTES):
            X, y = loaded(source, first, lines, load)
            writer.add(X, whole_where_exact(y))
    return Path(folder)


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
    """Convert text in columns (CoNLL) to chain shards: one token per line, an empty line after each sequence.

    Parameters
    ----------
    tag : int, the column that is the label
    describe : function from the other columns of all tokens of a sequence to the attributes of each token
        ``partial(data.describe_columns, templates="window")`` makes few attributes.
    hash_bits : int or None
        Hash the names to 2^hash_bits columns. None: a column for each name; the manifest keeps the names.
    like : ShardedDataset, path of its folder, or None
        Use the columns of this data set, for a test file. Names that it does not know are dropped.
    """
    if isinstance(like, str | PathLike):
        like = open_shards(like)
    if like is not None and (hash_bits is not None or encoder_in(like.X) is None):
        raise ValueError("like must be a data set made from columns, and hash_bits must be None")
    if hash_bits is not None and not 1 <= hash_bits <= 30:
        raise ValueError(f"hash_bits must be None or from 1 to 30, got {short(hash_bits)}")
    source = readable(path, folder)
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
    """Read the attributes and labels of the tokens of a text file in columns: X and Y of a chain.

    Parameters
    ----------
    path : path of the file, which may be compressed
    tag : int, the column that is the label; None: the file has no labels, and Y is None
    describe : function as for ``columns_to_shards``; use the one that the model was trained with
    """
    found = list(labelled_sequences(readable(path), tag))
    X = [describe(tokens) for tokens, _ in found]
    return X, None if tag is None else [labels for _, labels in found]


def labelled_sequences(path: Any, tag: int | None) -> Iterator[tuple[list[list[str]], list[str]]]:
    """Yield the tokens of each sequence without the label column, and their labels."""
    for _, _, tokens in column_sequences(path, 1 if tag is None else 2):
        width = len(tokens[0])
        if tag is None:
            yield tokens, []
            continue
        if not -width <= tag < width:
            raise ValueError(f"tag = {tag}, but {path} has {width} columns")
        rest = [[v for j, v in enumerate(t) if j != tag % width] for t in tokens]
        yield rest, [token[tag] for token in tokens]
