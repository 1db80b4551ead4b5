"""Write examples to a file of any format that ``data.read_file`` reads, so that reading gives the same data.

    rows        svmlight, csv, tsv, npz, parquet, shards
    sequences   svmhmm, crfsuite, shards; conll and conllu if the words are known
    trees       brackets, shards; conll and conllu get their words and tags

Writers refuse examples that a format cannot hold. Examples come in batches, and only one batch is in memory,
except for arrays (npz). Formats with numbered features also keep the names of attributes in memory.
A writer takes batches and yields the content of the file in parts. This module has the writers of sequences
and of trees: attributes, columns, Universal Dependencies, brackets.
"""

from __future__ import annotations

import bz2
import codecs
import lzma
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data.file_sequences import UD_COLUMNS
from maxmargin.data.from_file import FileError, FromFile
from maxmargin.data.manifest import columns_state
from maxmargin.data.shard_writer import SHARD_BYTES, ShardWriter, chunks_of
from maxmargin.data.text import STANDARD_INPUT
from maxmargin.data.trees import write_trees
from maxmargin.data.write_rows import (
    Batches,
    Numbers,
    check_filled,
    check_kind,
    check_text,
    file_content,
    kind_of_examples,
    plain_list,
    single_labels,
    write_npz,
    write_parquet,
    write_svmhmm,
    write_svmlight,
    write_table,
)
from maxmargin.io.files import write_parts
from maxmargin.io.paths import refuse_clash
from maxmargin.io.quoting import short

FORM = UD_COLUMNS.index("form")


def attributes_of(read: FromFile) -> Iterator[list[dict[str, float]]]:
    """Yield the attributes of the positions of each sequence; a numbered feature is named by its number."""
    if read.reading.format == "crfsuite":
        yield from read.X
        return
    check_kind(read, "sequences")
    described = isinstance(read.X, list) and not hasattr(read.X[0], "shape")
    # Encode each sequence by itself: the names of all sequences may not fit in memory.
    alone = ([x] for x in read.X) if described else [read.X]
    for X in alone:
        numbers = Numbers(sequences=True)
        sequences = numbers.sequences(FromFile(X, read.Y, read.reading))
        encoder = numbers.encoder
        names = None if encoder is None else encoder.get_feature_names_out()
        for rows in sequences:
            named = rows.indices + 1 if names is None else names[rows.indices]
            pairs = list(zip(map(str, named.tolist()), rows.data.tolist(), strict=True))
            yield [dict(pairs[a:b]) for a, b in pairwise(rows.indptr.tolist())]


def word_columns(read: FromFile) -> Iterator[list[list[str]]]:
    """Yield the columns of the tokens of each sequence, with the label last."""
    check_kind(read, "sequences", "trees")
    form = read.reading.format
    if kind_of_examples(read) == "trees":
        yield from ([list(pair) for pair in tree.pos()] for tree in read.Y)
    elif form == "conllu":
        for lines, labels in zip(read.tokens, read.Y, strict=True):
            words = [line.split("\t")[FORM] for line in lines]
            yield [list(pair) for pair in zip(words, labels, strict=True)]
    elif form == "conll":
        for lines, labels in zip(read.tokens, read.Y, strict=True):
            rows = [line.split() for line in lines]
            at = int(read.reading.label or -1) % len(rows[0])
            yield [
                [*row[:at], *row[at + 1 :], label] for row, label in zip(rows, labels, strict=True)
            ]
    else:
        raise FileError(f"this format holds words, but {form} has only their features")


def write_crfsuite(batches: Batches) -> Iterator[bytes]:
    done = 0
    for read in batches:
        lines, attributes = list[str](), list(attributes_of(read))
        check_filled(read, done)
        done += len(attributes)
        for tokens, labels in zip(attributes, read.Y, strict=True):
            for token, label in zip(tokens, plain_list(labels), strict=True):
                first = check_text(str(label), "\t\r\n\0", "as a label")
                if not first.strip():
                    raise FileError(f"the label {short(first)} cannot be written")
                lines.append("\t".join([first, *(attribute_text(*pair) for pair in token.items())]))
            lines.append("")
        yield file_content(lines)


def attribute_text(name: str, value: float) -> str:
    """Format an attribute as CRFsuite does."""
    if not name:
        raise FileError("an attribute without a name cannot be written")
    text = check_text(name, "\t\r\n\0", "as an attribute").replace("\\", "\\\\").replace(":", "\\:")
    return text if value == 1 else f"{text}:{float(value)!r}"


def write_columns(batches: Batches) -> Iterator[bytes]:
    for read in batches:
        lines: list[str] = []
        for rows in word_columns(read):
            for row in rows:
                for cell in row:
                    if cell.split() != [cell] or "\0" in cell:
                        raise FileError(f"{short(cell)} cannot be written in columns")
                lines.append(" ".join(row))
            lines.append("")
        yield file_content(lines)


def write_conllu(batches: Batches) -> Iterator[bytes]:
    for read in batches:
        lines: list[str] = []
        if read.reading.format == "conllu":  # keep all columns
            yield file_content(line for tokens in read.tokens for line in (*tokens, ""))
            continue
        for rows in word_columns(read):
            for number, (word, *_, label) in enumerate(rows, 1):
                cells = [check_text(cell, "\t\r\n\0", "in a column") for cell in (word, label)]
                rest = ["_"] * (len(UD_COLUMNS) - 4)
                lines.append("\t".join([str(number), cells[0], "_", cells[1], *rest]))
            lines.append("")
        yield file_content(lines)


def write_brackets(batches: Batches) -> Iterator[bytes]:
    for read in batches:
        check_kind(read, "trees")
        yield write_trees(read.Y).encode()


PACKERS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.compressobj(wbits=31),
    ".bz2": bz2.BZ2Compressor,
    ".xz": lzma.LZMACompressor,
}
ONE_WALK = ("crfsuite", "conll", "conllu", "brackets", "npz", "shards")


def write_file(examples: FromFile | Batches, path: str, format: str) -> None:
    """Write examples or batches of examples; "-" is standard output, and .gz, .bz2, .xz are compressed.

    Formats outside ``ONE_WALK`` iterate over the batches twice.
    """
    if format not in WRITERS and format != "shards":
        raise FileError(
            f"format must be one of {sorted([*WRITERS, 'shards'])}, got {short(format)}"
        )
    batches = [examples] if isinstance(examples, FromFile) else examples
    source = getattr(examples, "path", None)  # the input file of a ``Source``
    if isinstance(source, str | Path) and STANDARD_INPUT not in (str(source), path):
        refuse_clash([source], path, "path")
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
    """Write the byte order mark twice if a label begins with it, since readers remove the first one."""
    begun = False
    for part in parts:
        yield codecs.BOM_UTF8 + part if not begun and part.startswith(codecs.BOM_UTF8) else part
        begun = begun or bool(part)


def packed(parts: Iterable[bytes], packer: Any) -> Iterator[bytes]:
    """Yield the compressed content of a file."""
    for part in parts:
        yield packer.compress(part)
    yield packer.flush()


def write_shard_folder(batches: Batches, path: str, shard_bytes: int = SHARD_BYTES) -> None:
    """Write a folder of shards with the names of attributes; only one shard at a time is in memory."""
    if path == STANDARD_INPUT:
        raise FileError("shards need a folder; they cannot be written to standard output")
    walk = iter(batches)
    waiting = [next(walk)]  # keep no other reference to a batch, which is larger than its shard
    kind = kind_of_examples(waiting[0])
    numbers = Numbers(sequences=kind == "sequences")
    with ShardWriter(path, kind, shard_bytes, grow=kind != "trees") as writer:
        while waiting:
            add_batch(writer, numbers, kind, waiting.pop())
            waiting.extend(islice(walk, 1))
        if numbers.encoder is not None:
            writer.attributes = columns_state(numbers.encoder)


def add_batch(writer: ShardWriter, numbers: Numbers, kind: str, read: FromFile) -> None:
    """Add the examples of a batch to a folder of shards."""
    X, Y = read.X, read.Y
    if kind == "rows":
        X, Y = numbers.rows(read), np.asarray(single_labels(read))
    elif kind == "sequences":
        X = numbers.sequences(read)
    for item in chunks_of(X, Y, kind):
        writer.add(*item)


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
