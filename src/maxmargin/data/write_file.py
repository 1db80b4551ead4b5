"""Examples into a file of any format that ``data.read_file`` reads; what is read again is the same data.

    rows        svmlight, csv, tsv, npz, parquet, shards
    sequences   svmhmm, crfsuite, shards; conll and conllu where words are known
    trees       brackets, shards; conll and conllu have their words and tags

What a format cannot hold is refused. Examples come in batches: but for arrays (npz) no more than one of them
is in memory, with the names of attributes where they are numbered.
"""

from __future__ import annotations

import bz2
import codecs
import lzma
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data.from_file import FileError, FromFile
from maxmargin.data.manifest import columns_state
from maxmargin.data.shard_writer import SHARD_BYTES, ShardWriter, chunks_of
from maxmargin.data.text import STANDARD_INPUT
from maxmargin.data.write_rows import (
    Batches,
    Numbers,
    kind_of_examples,
    single_labels,
    write_npz,
    write_parquet,
    write_svmhmm,
    write_svmlight,
    write_table,
)
from maxmargin.data.write_sequences import (
    write_brackets,
    write_columns,
    write_conllu,
    write_crfsuite,
)
from maxmargin.io.files import write_parts

PACKERS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.compressobj(wbits=31),
    ".bz2": bz2.BZ2Compressor,
    ".xz": lzma.LZMACompressor,
}
ONE_WALK = ("crfsuite", "conll", "conllu", "brackets", "npz", "shards")


def write_file(examples: FromFile | Batches, path: str, format: str) -> None:
    """Write examples, or batches of them; "-" is standard output, and .gz, .bz2, .xz are packed.

    Batches are walked through twice by the formats that are not in ``ONE_WALK``.
    """
    if format not in WRITERS and format != "shards":
        raise FileError(f"format must be one of {sorted([*WRITERS, 'shards'])}, got {format!r}")
    batches = [examples] if isinstance(examples, FromFile) else examples
    if format == "shards":
        return write_shard_folder(batches, path)
    parts = marked(WRITERS[format](batches))
    if path == STANDARD_INPUT:
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
    else:
        packer = PACKERS.get(Path(path).suffix)
        write_parts(Path(path), parts if packer is None else packed(parts, packer()))
    return None


def marked(parts: Iterable[bytes]) -> Iterator[bytes]:
    """A label may begin with the mark of UTF-8, of which readers take the first one away."""
    begun = False
    for part in parts:
        yield codecs.BOM_UTF8 + part if not begun and part.startswith(codecs.BOM_UTF8) else part
        begun = begun or bool(part)


def packed(parts: Iterable[bytes], packer: Any) -> Iterator[bytes]:
    """What a file that is packed holds."""
    for part in parts:
        yield packer.compress(part)
    yield packer.flush()


def write_shard_folder(batches: Batches, path: str, shard_bytes: int = SHARD_BYTES) -> None:
    """A folder of shards, with the names of attributes; one shard at a time is in memory."""
    if path == STANDARD_INPUT:
        raise FileError("shards are a folder, not standard output")
    walk = iter(batches)
    first = next(walk)
    kind = kind_of_examples(first)
    numbers = Numbers(sequences=kind == "sequences")
    with ShardWriter(path, kind, shard_bytes, grow=kind != "trees") as writer:
        for read in chain([first], walk):
            X, Y = read.X, read.Y
            if kind == "rows":
                X, Y = numbers.rows(read), np.asarray(single_labels(read))
            elif kind == "sequences":
                X = numbers.sequences(read)
            for item in chunks_of(X, Y, kind):
                writer.add(*item)
        if numbers.encoder is not None:
            writer.attributes = columns_state(numbers.encoder)


WRITERS: dict[str, Callable[[Batches], Iterator[bytes]]] = {
    "svmlight": write_svmlight,
    "svmhmm": write_svmhmm,
    "crfsuite": write_crfsuite,
    "conll": write_columns,
    "conllu": write_conllu,
    "brackets": write_brackets,
    "csv": partial(write_table, separator=","),
    "tsv": partial(write_table, separator="\t"),
    "npz": write_npz,
    "parquet": write_parquet,
}
