"""Read files of sequences and of trees: text in columns, attributes, brackets.

Readers yield the file in batches of about ``size`` characters of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from maxmargin.data.from_file import FileError, FromFile, Reading
from maxmargin.data.templates import describe_columns
from maxmargin.data.text import numbered_lines
from maxmargin.data.trees import ParseTree, TreeError, next_token, read_trees
from maxmargin.io.quoting import short

ESCAPED = re.compile(r"((?:\\.|[^\\:])*\\?)(?:(:)(.*))?", re.DOTALL)
UD_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
COMMENTS = "#%;"  # characters that begin a comment between trees
Example = tuple[Any, Any, list[str]]  # input, output, and the lines or words of the example


def in_batches(
    examples: Iterable[Example], reading: Reading, size: float, tokens: bool = True
) -> Iterator[FromFile]:
    """Group examples into batches; ``tokens`` tells whether to keep the lines of each example."""
    batch, taken = list[Example](), 0
    for example in examples:
        batch.append(example)
        taken += sum(map(len, example[2])) + len(example[2])
        if taken >= size:
            yield batch_of(batch, reading, tokens)
            batch, taken = [], 0
    if batch:
        yield batch_of(batch, reading, tokens)


def batch_of(examples: list[Example], reading: Reading, tokens: bool) -> FromFile:
    X, Y, lines = (list(own) for own in zip(*examples, strict=True))
    return FromFile(X, None if Y[0] is None else Y, reading, lines if tokens else [])


def sequence_lines(path: Any) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line and the lines of each sequence; empty lines separate them."""
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


def column_sequences(path: Any, least: int = 2) -> Iterator[tuple[int, list[str], list[list[str]]]]:
    """Yield the number of the first line, the lines and their columns of each sequence.

    Refuses a file with fewer than ``least`` columns, and lines with other numbers of columns.
    """
    width = 0
    for first, lines in sequence_lines(path):
        rows = [line.split() for line in lines]
        width = width or len(rows[0])
        if width < least:
            raise FileError(
                f"{path}, line {first}: the line has one column, expected at least a word and a "
                "label"
            )
        for t, row in enumerate(rows):
            if len(row) != width:
                raise FileError(f"{path}, line {first + t}: {len(row)} columns, expected {width}")
        yield first, lines, rows


def read_column_batches(path: Any, reading: Reading, size: float) -> Iterator[FromFile]:
    return in_batches(column_examples(path, reading), reading, size)


def column_examples(path: Any, reading: Reading) -> Iterator[Example]:
    """Yield sequences of tokens as attributes, with their labels."""
    at: int | None = None
    least = 1 if reading.unlabelled else 2
    for number, (first, lines, rows) in enumerate(column_sequences(path, least)):
        if number == 0:
            at = label_column(path, first, len(rows[0]), reading)
        rest = [[v for j, v in enumerate(row) if j != at] for row in rows]
        labels = None if at is None else [row[at] for row in rows]
        yield described_tokens(path, first, rest, reading.templates), labels, lines


def label_column(path: Any, line: int, width: int, reading: Reading) -> int | None:
    """Return the label column and keep it for later files; None if labels are optional and missing."""
    if reading.columns and reading.unlabelled and width == reading.columns - 1:
        return None
    if reading.columns not in (0, width):
        raise FileError(
            f"{path}, line {line}: the line has {width} columns, but the training file had "
            f"{reading.columns}"
        )
    at = int(reading.label) if reading.label.isdecimal() else width - 1
    if at >= width or not (reading.label.isdecimal() or not reading.label):
        raise FileError(
            f"{path}: no column {short(reading.label)}; there are {width} columns, numbered from 0"
        )
    reading.columns, reading.label = width, str(at)
    return at


def described_tokens(path: Any, line: int, rows: list[list[str]], templates: str) -> Any:
    """Return the attributes of tokens; errors name the file and the line."""
    try:
        return describe_columns(rows, templates)
    except ValueError as error:
        raise FileError(f"{path}, line {line}: {error}") from None


def read_conllu(path: Any, reading: Reading, size: float) -> Iterator[FromFile]:
    at = reading.label or "upos"
    if at not in UD_COLUMNS[2:]:
        raise FileError(f"label must be one of {', '.join(UD_COLUMNS[2:])}, got {short(at)}")
    return in_batches(conllu_examples(path, reading, UD_COLUMNS.index(at)), reading, size)


def conllu_examples(path: Any, reading: Reading, at: int) -> Iterator[Example]:
    """Yield sequences of words as attributes, with the cells of column ``at`` as labels."""
    for first, lines in sequence_lines(path):
        kept = []
        for t, line in enumerate(lines):
            columns = line.split("\t")
            if line.startswith("#"):
                continue
            if len(columns) != len(UD_COLUMNS):
                raise FileError(f"{path}, line {first + t}: {len(columns)} columns, expected 10")
            if columns[0].isdigit():  # skip multiword tokens (1-2) and empty nodes (1.1)
                kept.append(columns)
        if kept:
            x = described_tokens(path, first, [[c[1]] for c in kept], reading.templates)
            yield x, [c[at] for c in kept], ["\t".join(c) for c in kept]


def read_crfsuite(path: Any, reading: Reading, size: float) -> Iterator[FromFile]:
    return in_batches(crfsuite_examples(path), reading, size)


def crfsuite_examples(path: Any) -> Iterator[Example]:
    """Yield sequences of attributes, with their labels."""
    for first, lines in sequence_lines(path):
        fields = [line.split("\t") for line in lines]
        x = [attributes(path, first + t, row[1:]) for t, row in enumerate(fields)]
        yield x, [row[0] for row in fields], lines


def attributes(path: str, line: int, texts: list[str]) -> dict[str, float]:
    """Parse CRFsuite's attributes ``name`` and ``name:value``; names may hold the escapes \\: and \\\\."""
    found: dict[str, float] = {}
    for text in texts:
        name, colon, value = unescaped(text) if "\\" in text else text.partition(":")
        try:
            number = float(value) if colon else 1.0
        except ValueError:
            raise FileError(f"{path}, line {line}: {short(value)} is not a number") from None
        if name:
            found[name] = found.get(name, 0.0) + number
    return found


def unescaped(text: str) -> tuple[str, str, str]:
    """Split an attribute into name, colon and value; \\: stands for a colon, \\\\ for a backslash."""
    escaped, colon, value = ESCAPED.fullmatch(text).groups()  # type: ignore[union-attr]
    return re.sub(r"\\([\\:])", r"\1", escaped), colon, value


def read_brackets(path: Any, reading: Reading, size: float) -> Iterator[FromFile]:
    examples = bracket_examples(path, reading.unlabelled)
    return in_batches(examples, reading, size, tokens=False)


def bracket_examples(path: Any, unlabelled: bool) -> Iterator[Example]:
    """Yield sentences with their trees; if labels are optional, lines of words have no trees."""
    lines = numbered_lines(path)
    for number, line in lines:
        if not line.strip() or line.lstrip()[0] in COMMENTS:
            continue
        if unlabelled and line.lstrip()[0] != "(":
            yield line.split(), None, [line]
            break
        for tree in bracket_trees(path, chain([(number, line)], lines)):
            words = tree.leaves()
            yield words, tree, words
    for _, line in lines:  # the remaining lines are sentences
        if line.strip():
            yield line.split(), None, [line]


def bracket_trees(
    path: Any, lines: Iterable[tuple[int, str]] | None = None, top: str | None = None
) -> Iterator[ParseTree]:
    """Yield the trees of a file in brackets one by one; the whole file is never in memory."""
    buffered, depth, began = list[str](), 0, 1
    for number, line in numbered_lines(path) if lines is None else lines:
        began = began if buffered else number
        buffered.append(line)
        depth = depth_after(line, depth)
        if depth <= 0:
            yield from trees_of(path, began, buffered, top)
            buffered, depth = [], 0
    if buffered:
        yield from trees_of(path, began, buffered, top)


def depth_after(line: str, depth: int) -> int:
    """The number of open brackets after a line; comments between trees are skipped."""
    if not any(mark in line for mark in COMMENTS):
        return depth + line.count("(") - line.count(")")
    position = 0
    while (token := next_token(line, position, outside=depth <= 0)) is not None:
        position = token.end()
        depth += {"(": 1, ")": -1}.get(token.group(), 0)
    return depth


def trees_of(path: Any, began: int, lines: list[str], top: str | None = None) -> list[ParseTree]:
    """Parse the trees in some lines; errors name the file and the line in it."""
    text = "".join(lines)
    try:
        return read_trees(text, top)
    except TreeError:
        try:
            return read_trees("\n" * (began - 1) + text, top)  # to correct the line
        except TreeError as error:
            raise TreeError(f"{path}, {error}") from None
