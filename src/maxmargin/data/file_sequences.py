"""Files of sequences and of trees: text in columns, attributes, brackets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from maxmargin.data.from_file import FileError, FromFile, Reading
from maxmargin.data.templates import describe_columns
from maxmargin.data.text import numbered_lines
from maxmargin.data.trees import TreeError, read_trees

ESCAPED = re.compile(r"((?:\\.|[^\\:])*\\?)(?:(:)(.*))?", re.DOTALL)
UD_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")


def sequences(path: Any) -> Iterator[tuple[int, list[str]]]:
    """The lines of each sequence, and the number of the first; empty lines are between them."""
    first, lines = 1, list[str]()
    for number, line in numbered_lines(path):
        text = line.rstrip("\r\n")
        if text.strip():
            first = first if lines else number
            lines.append(text)
        elif lines:
            yield first, lines
            lines = []
    if lines:
        yield first, lines


def column_sequences(path: Any, least: int = 2) -> Iterator[tuple[list[str], list[list[str]]]]:
    """The lines of each sequence, and the columns in them, of which there are at least so many."""
    width = 0
    for first, lines in sequences(path):
        rows = [line.split() for line in lines]
        width = width or len(rows[0])
        if width < least:
            raise FileError(
                f"{path}, line {first}: one column, expected at least a word and a label"
            )
        for t, row in enumerate(rows):
            if len(row) != width:
                raise FileError(f"{path}, line {first + t}: {len(row)} columns, expected {width}")
        yield lines, rows


def read_columns(path: str, reading: Reading) -> FromFile:
    X, Y, tokens = [], [], []
    for lines, rows in column_sequences(path):
        width = len(rows[0])
        at = int(reading.label) if reading.label.isdecimal() else width - 1
        if at >= width or not (reading.label.isdecimal() or not reading.label):
            raise FileError(
                f"{path}: there is no column {reading.label!r}, only {width}, from 0 on"
            )
        Y.append([row[at] for row in rows])
        rest = [[v for j, v in enumerate(row) if j != at] for row in rows]
        X.append(described(path, rest, reading.templates))
        tokens.append(lines)
    return FromFile(X, Y, reading, tokens)


def described(path: str, rows: list[list[str]], templates: str) -> Any:
    """The attributes of tokens; errors name the file."""
    try:
        return describe_columns(rows, templates)
    except ValueError as error:
        raise FileError(f"{path}: {error}") from None


def read_conllu(path: str, reading: Reading) -> FromFile:
    at = reading.label or "upos"
    if at not in UD_COLUMNS[2:]:
        raise FileError(f"label must be one of {', '.join(UD_COLUMNS[2:])}, got {at!r}")
    X, Y, tokens = [], [], []
    for first, lines in sequences(path):
        kept = []
        for t, line in enumerate(lines):
            columns = line.split("\t")
            if line.startswith("#"):
                continue
            if len(columns) != 10:
                raise FileError(f"{path}, line {first + t}: {len(columns)} columns, expected 10")
            if columns[0].isdigit():  # else words of one token, or an empty node
                kept.append(columns)
        if kept:
            X.append(described(path, [[c[1]] for c in kept], reading.templates))
            Y.append([c[UD_COLUMNS.index(at)] for c in kept])
            tokens.append(["\t".join(c) for c in kept])
    return FromFile(X, Y, reading, tokens)


def read_crfsuite(path: str, reading: Reading) -> FromFile:
    X, Y, tokens = [], [], []
    for first, lines in sequences(path):
        fields = [line.split("\t") for line in lines]
        Y.append([row[0] for row in fields])
        X.append([attributes(path, first + t, row[1:]) for t, row in enumerate(fields)])
        tokens.append(lines)
    return FromFile(X, Y, reading, tokens)


def attributes(path: str, line: int, texts: list[str]) -> dict[str, float]:
    """Names and values of CRFsuite's attributes: ``name``, ``name:value``, with \\: and \\\\ in names."""
    found: dict[str, float] = {}
    for text in texts:
        name, colon, value = unescaped(text) if "\\" in text else text.partition(":")
        try:
            number = float(value) if colon else 1.0
        except ValueError:
            raise FileError(f"{path}, line {line}: {value!r} is not a number") from None
        if name:
            found[name] = found.get(name, 0.0) + number
    return found


def unescaped(text: str) -> tuple[str, str, str]:
    """Name, colon and value of an attribute whose name has \\: for a colon and \\\\ for a backslash."""
    escaped, colon, value = ESCAPED.fullmatch(text).groups()  # type: ignore[union-attr]
    return re.sub(r"\\([\\:])", r"\1", escaped), colon, value


def read_brackets(path: str, reading: Reading) -> FromFile:
    try:
        trees = read_trees("".join(line for _, line in numbered_lines(path)))
    except TreeError as error:
        raise FileError(f"{path}: {error}") from None
    return FromFile([tree.leaves() for tree in trees], trees, reading)
