"""Sequences and trees into text: attributes, columns, Universal Dependencies, brackets.

A writer takes batches of examples and gives the content of the file in parts, in one walk.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from maxmargin.data.file_sequences import UD_COLUMNS
from maxmargin.data.from_file import FileError, FromFile
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
)

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
                    raise FileError(f"the label {first!r} cannot be written")
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
                        raise FileError(f"{cell[:60]!r} cannot be written in columns")
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
