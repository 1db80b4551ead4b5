"""Examples into a file of any format that ``data.read_file`` reads; what is read again is the same data.

    rows        svmlight, csv, tsv, npz, parquet, shards
    sequences   svmhmm, crfsuite, shards; conll and conllu where words are known
    trees       brackets, shards; conll and conllu have their words and tags

What a format cannot hold is refused. Examples come in batches: but for arrays (npz) no more than one of them
is in memory, with the names of attributes where they are numbered.
A writer takes batches and gives the content of the file in parts. Those of sequences and of trees are here:
attributes, columns, Universal Dependencies, brackets.
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
    """The attributes of the positions of each sequence, by name; numbered features are their numbers."""
    if read.reading.format == "crfsuite":
        yield from read.X
        return
    check_kind(read, "sequences")
    described = isinstance(read.X, list) and not hasattr(read.X[0], "shape")
    # The names of each sequence by themselves: there may be more of all than memory holds.
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
    """The columns of the tokens of each sequence, the label last."""
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
        raise FileError(f"this format holds words, and {form} has only features of them")


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
    """An attribute as CRFsuite has it."""
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
        if read.reading.format == "conllu":  # all columns as they were
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
    """Write examples, or batches of them; "-" is standard output, and .gz, .bz2, .xz are packed.

    Batches are walked through twice by the formats that are not in ``ONE_WALK``.
    """
    if format not in WRITERS and format != "shards":
        raise FileError(
            f"format must be one of {sorted([*WRITERS, 'shards'])}, got {short(format)}"
        )
    batches = [examples] if isinstance(examples, FromFile) else examples
    source = getattr(examples, "path", None)  # of a ``Source``
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
    waiting = [next(walk)]  # nothing else may hold a batch: it is larger than what is made of it
    kind = kind_of_examples(waiting[0])
    numbers = Numbers(sequences=kind == "sequences")
    with ShardWriter(path, kind, shard_bytes, grow=kind != "trees") as writer:
        while waiting:
            add_batch(writer, numbers, kind, waiting.pop())
            waiting.extend(islice(walk, 1))
        if numbers.encoder is not None:
            writer.attributes = columns_state(numbers.encoder)


def add_batch(writer: ShardWriter, numbers: Numbers, kind: str, read: FromFile) -> None:
    """Add the examples of a batch of a file to a folder of shards."""
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
