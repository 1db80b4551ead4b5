"""Examples into a file of any format that ``data.read_file`` reads; what is read again is the same data.

    rows        svmlight, csv, tsv, npz, parquet, shards
    sequences   svmhmm, crfsuite, shards; conll and conllu where words are known
    trees       brackets, shards; conll and conllu have their words and tags

Formats of numbered features number attributes and texts in the order of their first use; labels that are
texts are numbered from 1 on, in comments at the top. What a format cannot hold is refused.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.data.attributes import AttributeEncoder
from maxmargin.data.file_parquet import parquet_bytes
from maxmargin.data.file_sequences import UD_COLUMNS
from maxmargin.data.from_file import FileError, FromFile
from maxmargin.data.manifest import columns_state
from maxmargin.data.shard_writer import ShardWriter, chunks_of
from maxmargin.data.text import STANDARD_INPUT
from maxmargin.data.trees import Tree, write_trees
from maxmargin.io.files import write_whole

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda content: gzip.compress(content, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
MOST_EXACT = 2**53  # whole numbers that a double holds
MOST_CELLS = 2**28  # of a dense array that was sparse
FORM = UD_COLUMNS.index("form")


def write_file(read: FromFile, path: str, format: str) -> None:
    """Write examples; "-" is standard output, and .gz, .bz2, .xz are packed."""
    if format not in WRITERS and format != "shards":
        raise FileError(f"format must be one of {sorted([*WRITERS, 'shards'])}, got {format!r}")
    if format == "shards":
        return write_shard_folder(read, path)
    content = WRITERS[format](read)
    if content.startswith(
        codecs.BOM_UTF8
    ):  # a label that begins so: readers take the first one away
        content = codecs.BOM_UTF8 + content
    if path == STANDARD_INPUT:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        packed = PACKERS.get(Path(path).suffix, bytes)
        write_whole(Path(path), packed(content))
    return None


# What was read, as a format needs it


def kind_of(read: FromFile) -> str:
    """Rows, sequences or trees."""
    if isinstance(read.Y[0], Tree):
        return "trees"
    return "sequences" if read.reading.task == "tagging" else "rows"


def check_kind(read: FromFile, *kinds: str) -> None:
    """Refuse data that a format has no form for."""
    found = kind_of(read)
    if found not in kinds:
        raise FileError(f"this format holds {' or '.join(kinds)}, and the examples are {found}")


def rows_of(read: FromFile) -> sp.csr_matrix:
    """The features of rows by number."""
    check_kind(read, "rows")
    X = read.X
    if isinstance(X, list):
        X = AttributeEncoder(sequences=False).fit_transform(X)
    found = X.tocsr() if hasattr(X, "tocsr") else sp.csr_matrix(np.asarray(X, dtype=float))
    return tidy(found)


def tidy(rows: Any) -> sp.csr_matrix:
    """A copy with columns in their order, each once."""
    found = sp.csr_matrix(rows, copy=True)
    found.sum_duplicates()
    return found


def sequences_of(read: FromFile) -> tuple[list[sp.csr_matrix], AttributeEncoder | None]:
    """The features of the positions of each sequence by number, and their names where they have some."""
    check_kind(read, "sequences")
    X = read.X
    if isinstance(X[0], tuple):
        raise FileError(
            "lines of a template that begin with B are features of edges, which only Chain has"
        )
    if isinstance(X, list) and not hasattr(X[0], "shape"):
        X = AttributeEncoder(sequences=True).fit_transform(X)
    return [tidy(X[i]) for i in range(len(X))], getattr(X, "encoder", None)


def attributes_of(read: FromFile) -> Iterator[list[dict[str, float]]]:
    """The attributes of the positions of each sequence, by name; numbered features are their numbers."""
    if read.reading.format == "crfsuite":
        yield from read.X
        return
    sequences, encoder = sequences_of(read)
    names = None if encoder is None else encoder.get_feature_names_out()
    for rows in sequences:
        named = rows.indices + 1 if names is None else names[rows.indices]
        pairs = list(zip(map(str, named.tolist()), rows.data.tolist(), strict=True))
        yield [dict(pairs[a:b]) for a, b in pairwise(rows.indptr.tolist())]


def word_columns(read: FromFile) -> Iterator[list[list[str]]]:
    """The columns of the tokens of each sequence, the label last."""
    check_kind(read, "sequences", "trees")
    form = read.reading.format
    if kind_of(read) == "trees":
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


def label_numbers(labels: Iterable[Any]) -> tuple[dict[Any, str], list[str]]:
    """The text of each label where labels must be numbers, and comments that explain texts."""
    known = set(labels)
    if all(type(label) in (int, float) for label in known):
        for label in known:
            if abs(label) >= MOST_EXACT:
                raise FileError(f"the label {label} is too large to be written exactly")
        return {label: repr(label) for label in known}, []
    ordered = sorted(known, key=str)
    for label in ordered:
        check_text(str(label), "\r\n\0", "in a comment")
    numbers = {label: str(k) for k, label in enumerate(ordered, 1)}
    return numbers, [f"# {k} is {label}" for label, k in numbers.items()]


def plain_list(labels: Any) -> list[Any]:
    """Labels as Python's own values."""
    found = labels.tolist() if hasattr(labels, "tolist") else labels
    return [label.item() if isinstance(label, np.generic) else label for label in found]


def check_text(value: str, forbidden: str, where: str) -> str:
    """A text; refuses one that would be read as something else."""
    if any(c in value for c in forbidden):
        raise FileError(f"{value[:60]!r} cannot be written {where}")
    return value


def joined(lines: Iterable[str]) -> bytes:
    """Lines as the content of a file."""
    return "".join(f"{line}\n" for line in lines).encode()


# Numbered features


def feature_texts(rows: sp.csr_matrix) -> list[list[str]]:
    """index:value of all features of each row, columns from 1 on."""
    columns, values = (rows.indices + 1).tolist(), rows.data.astype(float).tolist()
    pairs = [f"{j}:{v!r}" for j, v in zip(columns, values, strict=True)]
    return [pairs[a:b] for a, b in pairwise(rows.indptr.tolist())]


def keep_width(texts: list[list[str]], width: int, used: int) -> None:
    """Columns at the end that no row has would be lost: the first row says how many there are."""
    if used < width:
        texts[0].append(f"{width}:0")


def check_filled(read: FromFile) -> None:
    """Refuse sequences without a position: between lines of text they would be lost."""
    for i, y in enumerate(read.Y):
        if len(y) == 0:
            raise FileError(f"example {i} is an empty sequence, which this format cannot hold")


def write_svmlight(read: FromFile) -> bytes:
    rows, labels = rows_of(read), plain_list(read.Y)
    texts = feature_texts(rows)
    keep_width(texts, rows.shape[1], int(rows.indices.max(initial=-1)) + 1)
    if not isinstance(labels[0], tuple):
        numbers, comments = label_numbers(labels)
        lines = (" ".join([numbers[y], *own]) for y, own in zip(labels, texts, strict=True))
        return joined([*comments, *lines])
    numbers, comments = label_numbers(label for own in labels for label in own)
    sets = ([",".join(numbers[label] for label in own)] if own else [] for own in labels)
    # A line without labels and features is empty, and would be no example.
    lines = (" ".join([*s, *own] or ["1:0"]) for s, own in zip(sets, texts, strict=True))
    return joined([*comments, *lines])


def write_svmhmm(read: FromFile) -> bytes:
    rows, _ = sequences_of(read)
    check_filled(read)
    labels = [plain_list(y) for y in read.Y]
    numbers, comments = label_numbers(label for y in labels for label in y)
    texts = [feature_texts(own) for own in rows]
    used = max(int(own.indices.max(initial=-1)) + 1 for own in rows)
    keep_width(texts[0], rows[0].shape[1], used)
    lines = (
        " ".join([numbers[label], f"qid:{i}", *features])
        for i, (y, own) in enumerate(zip(labels, texts, strict=True), 1)
        for label, features in zip(y, own, strict=True)
    )
    return joined([*comments, *lines])


# Sequences and trees as text


def write_crfsuite(read: FromFile) -> bytes:
    lines, attributes = [], list(attributes_of(read))
    check_filled(read)
    for tokens, labels in zip(attributes, read.Y, strict=True):
        for token, label in zip(tokens, plain_list(labels), strict=True):
            first = check_text(str(label), "\t\r\n\0", "as a label")
            if not first.strip():
                raise FileError(f"the label {first!r} cannot be written")
            lines.append("\t".join([first, *(attribute_text(*pair) for pair in token.items())]))
        lines.append("")
    return joined(lines)


def attribute_text(name: str, value: float) -> str:
    """An attribute as CRFsuite has it."""
    if not name:
        raise FileError("an attribute without a name cannot be written")
    text = check_text(name, "\t\r\n\0", "as an attribute").replace("\\", "\\\\").replace(":", "\\:")
    return text if value == 1 else f"{text}:{float(value)!r}"


def write_columns(read: FromFile) -> bytes:
    lines: list[str] = []
    for rows in word_columns(read):
        for row in rows:
            for cell in row:
                if cell.split() != [cell] or "\0" in cell:
                    raise FileError(f"{cell[:60]!r} cannot be written in columns")
            lines.append(" ".join(row))
        lines.append("")
    return joined(lines)


def write_conllu(read: FromFile) -> bytes:
    lines: list[str] = []
    if read.reading.format == "conllu":  # all columns as they were
        return joined(line for tokens in read.tokens for line in (*tokens, ""))
    for rows in word_columns(read):
        for number, (word, *_, label) in enumerate(rows, 1):
            cells = [check_text(cell, "\t\r\n\0", "in a column") for cell in (word, label)]
            rest = ["_"] * (len(UD_COLUMNS) - 4)
            lines.append("\t".join([str(number), cells[0], "_", cells[1], *rest]))
        lines.append("")
    return joined(lines)


def write_brackets(read: FromFile) -> bytes:
    check_kind(read, "trees")
    return write_trees(read.Y).encode()


# Tables and arrays


def single_labels(read: FromFile) -> list[Any]:
    """The labels of rows; refuses sets."""
    check_kind(read, "rows")
    labels = plain_list(read.Y)
    if isinstance(labels[0], tuple):
        raise FileError(
            "this format has one label for each row, and the examples have sets of them"
        )
    return labels


def table_of(read: FromFile) -> tuple[list[str], list[list[Any]]]:
    """Names of columns and rows, the label last; None for what is missing."""
    labels = single_labels(read)
    if isinstance(read.X, list):
        names = list({name: None for row in read.X for name in row})
        rows = [[row.get(name) for name in names] for row in read.X]
    else:
        rows = dense_rows(read).tolist()
        names = [f"x{j}" for j in range(1, len(rows[0]) + 1)]
    label = read.reading.label or "label"
    while label in names:
        label += "_"
    return [*names, label], [[*row, y] for row, y in zip(rows, labels, strict=True)]


def write_table(read: FromFile, separator: str) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    names, rows = table_of(read)
    for row in (names, *rows):
        cells = ("" if cell is None else str(cell) for cell in row)
        writer.writerow([check_text(cell, "\r\0", "in a table") for cell in cells])
    return text.getvalue().encode()


def write_parquet(read: FromFile) -> bytes:
    names, rows = table_of(read)
    return parquet_bytes(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def dense_rows(read: FromFile) -> np.ndarray:
    """The features of rows as a table; refuses what is too large for one."""
    rows = rows_of(read)
    if rows.shape[0] * rows.shape[1] > MOST_CELLS:
        raise FileError(f"{rows.shape[0]} x {rows.shape[1]} features are too many for a table")
    return rows.toarray()


def write_npz(read: FromFile) -> bytes:
    labels, content = single_labels(read), io.BytesIO()
    np.savez_compressed(content, X=dense_rows(read), y=np.asarray(labels))
    return content.getvalue()


def write_shard_folder(read: FromFile, path: str) -> None:
    """A folder of shards, with the names of attributes."""
    if path == STANDARD_INPUT:
        raise FileError("shards are a folder, not standard output")
    kind, X, Y, encoder = kind_of(read), read.X, read.Y, None
    if kind == "rows":
        X, Y = rows_of(read), np.asarray(single_labels(read))
    elif kind == "sequences":
        X, encoder = sequences_of(read)
    with ShardWriter(path, kind) as writer:
        for item in chunks_of(X, Y, kind):
            writer.add(*item)
        if encoder is not None:
            writer.attributes = columns_state(encoder)


WRITERS: dict[str, Callable[[FromFile], bytes]] = {
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
