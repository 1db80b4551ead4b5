"""Write rows and numbered sequences to files: svmlight, SVM-hmm, tables, arrays.

A writer takes batches of examples, over which it may iterate more than once, and yields the content of the
file in parts. Attributes are numbered in the order of their first use. Labels that are texts are numbered
from 1 on in sorted order; comments at the top of the file explain the numbers.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.data.attributes import AttributeEncoder
from maxmargin.data.file_labels import MOST_EXACT
from maxmargin.data.file_parquet import parquet_parts
from maxmargin.data.from_file import FileError, FromFile
from maxmargin.data.trees import ParseTree
from maxmargin.io.quoting import short

MOST_CELLS = 2**28  # largest number of cells of a table; more may not fit in memory once dense
CELLS = 2**20  # cells of a table written at a time; more take more memory
Batches = Iterable[FromFile]


def kind_of_examples(read: FromFile) -> str:
    """The kind of the examples: "rows", "sequences" or "trees"."""
    if isinstance(read.Y[0], ParseTree):
        return "trees"
    return "sequences" if read.reading.task == "tagging" else "rows"


def check_kind(read: FromFile, *kinds: str) -> None:
    """Refuse examples of a kind that a format cannot hold."""
    found = kind_of_examples(read)
    if found not in kinds:
        raise FileError(f"this format holds {' or '.join(kinds)}, but the examples are {found}")


class Numbers:
    """Numbers features: an attribute gets the next column when it first occurs."""

    width: int = 0
    used: int = 0
    examples: int = 0

    def __init__(self, sequences: bool):
        self.own: AttributeEncoder = AttributeEncoder(sequences=sequences).fit([])
        # The encoder of the columns; None if they have no names.
        self.encoder: AttributeEncoder | None = None

    def rows(self, read: FromFile) -> sp.csr_matrix:
        """Return the numbered features of rows."""
        check_kind(read, "rows")
        X = read.X
        if isinstance(X, list):
            X, self.encoder = self.own.extend(X).parts[0], self.own
        self.encoder = self.encoder or getattr(X, "encoder", None)
        found = X.tocsr() if hasattr(X, "tocsr") else sp.csr_matrix(np.asarray(X, dtype=float))
        return self.seen([tidy(found)], len(read))[0]

    def sequences(self, read: FromFile) -> list[sp.csr_matrix]:
        """Return the numbered features of the positions of each sequence."""
        check_kind(read, "sequences")
        X = read.X
        if isinstance(X[0], tuple):
            raise FileError(
                "the template has lines that begin with B, which are features of edges for Chain; "
                "this format cannot hold them"
            )
        if isinstance(X, list) and not hasattr(X[0], "shape"):
            X, self.encoder = self.own.extend(X), self.own
        self.encoder = self.encoder or getattr(X, "encoder", None)
        return self.seen([tidy(X[i]) for i in range(len(X))], len(read))

    def seen(self, matrices: list[sp.csr_matrix], examples: int) -> list[sp.csr_matrix]:
        self.width = max(self.width, matrices[0].shape[1])
        self.used = max(self.used, *(int(own.indices.max(initial=-1)) + 1 for own in matrices))
        self.examples += examples
        return matrices


def tidy(rows: Any) -> sp.csr_matrix:
    """Return a copy with sorted columns and without duplicates."""
    found = sp.csr_matrix(rows, copy=True)
    found.sum_duplicates()
    return found


def label_numbers(known: dict[Any, None]) -> tuple[dict[Any, str], list[str]]:
    """Return each label as the text of a number, and comments that explain the numbers of texts."""
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
    """Return labels as plain Python values."""
    found = labels.tolist() if hasattr(labels, "tolist") else labels
    return [label.item() if isinstance(label, np.generic) else label for label in found]


def check_text(value: str, forbidden: str, where: str) -> str:
    """Return a text; refuse one with characters that would change its meaning in the file."""
    if any(c in value for c in forbidden):
        raise FileError(f"{short(value)} cannot be written {where}")
    return value


def file_content(lines: Iterable[str]) -> bytes:
    """Encode lines as the content of a file."""
    return "".join(f"{line}\n" for line in lines).encode()


def feature_texts(rows: sp.csr_matrix) -> list[list[str]]:
    """Format the features of each row as index:value, with columns from 1 on."""
    columns, values = (rows.indices + 1).tolist(), rows.data.astype(float).tolist()
    pairs = [f"{j}:{v!r}" for j, v in zip(columns, values, strict=True)]
    return [pairs[a:b] for a, b in pairwise(rows.indptr.tolist())]


def keep_width(texts: list[str], numbers: Numbers) -> None:
    """Add a zero in the last column to the first row, so that empty columns at the end are not lost."""
    if numbers.used < numbers.width:
        texts.append(f"{numbers.width}:0")


def check_filled(read: FromFile, first: int) -> None:
    """Refuse empty sequences, which would be lost in a text file."""
    for i, y in enumerate(read.Y, first):
        if len(y) == 0:
            raise FileError(f"example {i} is an empty sequence, which this format cannot hold")


def write_svmlight(batches: Batches) -> Iterator[bytes]:
    first, seen, several = Numbers(sequences=False), dict[Any, None](), False
    for read in batches:
        first.rows(read)
        labels = plain_list(read.Y)
        several = several or isinstance(labels[0], tuple)
        seen.update(
            dict.fromkeys(v for y in labels for v in y) if several else dict.fromkeys(labels)
        )
    numbers, comments = label_numbers(seen)
    yield file_content(comments)
    for k, read in enumerate(batches):
        texts = feature_texts(first.rows(read))
        if k == 0:
            keep_width(texts[0], first)
        labels = plain_list(read.Y)
        sets = labels if several else [(y,) for y in labels]
        marks = ([",".join(numbers[label] for label in own)] if own else [] for own in sets)
        # Readers skip an empty line, so a row without labels and features gets a zero.
        yield file_content(
            " ".join([*m, *own] or ["1:0"]) for m, own in zip(marks, texts, strict=True)
        )


def write_svmhmm(batches: Batches) -> Iterator[bytes]:
    first, seen, number = Numbers(sequences=True), dict[Any, None](), 0
    for read in batches:
        first.sequences(read)
        check_filled(read, first.examples - len(read))
        seen.update(dict.fromkeys(label for y in read.Y for label in plain_list(y)))
    numbers, comments = label_numbers(seen)
    yield file_content(comments)
    for read in batches:
        lines = []
        for y, own in zip(read.Y, first.sequences(read), strict=True):
            texts = feature_texts(own)
            if number == 0:
                keep_width(texts[0], first)
            number += 1
            for label, features in zip(plain_list(y), texts, strict=True):
                lines.append(" ".join([numbers[label], f"qid:{number}", *features]))
        yield file_content(lines)


# Tables and arrays


def single_labels(read: FromFile) -> list[Any]:
    """Return the labels of rows; refuse sets of labels."""
    check_kind(read, "rows")
    labels = plain_list(read.Y)
    if isinstance(labels[0], tuple):
        raise FileError("this format holds one label per row, but the examples have sets of labels")
    return labels


class ColumnsOfFile:
    """The columns of a table, found in one pass over all batches; then converts each batch to rows."""

    numbers: Numbers

    def __init__(self, batches: Batches):
        self.kinds: dict[str, set[type]] = {}
        self.numbers, label, of_label = Numbers(sequences=False), "", set[type]()
        for read in batches:
            label = label or read.reading.label or "label"
            of_label.update(map(type, single_labels(read)))
            if not isinstance(read.X, list):
                self.numbers.rows(read)
                continue
            for row in read.X:
                for name, cell in row.items():
                    self.kinds.setdefault(name, set()).add(type(cell))
        cells = self.numbers.examples * self.numbers.width
        if cells > MOST_CELLS:
            raise FileError(f"{cells} features are too many for a table")
        numbered = [f"x{j}" for j in range(1, self.numbers.width + 1)]
        known = read.reading.names if len(read.reading.names) == len(numbered) else numbered
        self.names: list[str] = list(self.kinds) or known
        self.kinds = {name: self.kinds.get(name, {float}) for name in self.names}
        while label in self.kinds:
            label += "_"
        self.kinds[label] = of_label

    def rows(self, read: FromFile) -> Iterator[list[list[Any]]]:
        """Yield the rows of a batch, about CELLS cells at a time; missing cells are None."""
        labels = single_labels(read)
        count = max(1, CELLS // max(1, len(self.names)))
        table = None if isinstance(read.X, list) else self.numbers.rows(read)
        for a in range(0, len(labels), count):
            if table is None:
                own = [[row.get(name) for name in self.names] for row in read.X[a : a + count]]
            else:
                own = table[a : a + count].toarray().tolist()
            yield [[*row, y] for row, y in zip(own, labels[a : a + count], strict=True)]


def write_table(batches: Batches, separator: str) -> Iterator[bytes]:
    columns = ColumnsOfFile(batches)
    yield table_text([list(columns.kinds)], separator)
    for read in batches:
        for rows in columns.rows(read):
            yield table_text(rows, separator)


def table_text(rows: Iterable[list[Any]], separator: str) -> bytes:
    """Format rows as lines of a table."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    for row in rows:
        cells = ("" if cell is None else str(cell) for cell in row)
        writer.writerow([check_text(cell, "\r\0", "in a table") for cell in cells])
    return text.getvalue().encode()


def write_parquet(batches: Batches) -> Iterator[bytes]:
    columns = ColumnsOfFile(batches)
    tables = (rows for read in batches for rows in columns.rows(read))
    yield from parquet_parts(
        columns.kinds, ([list(own) for own in zip(*rows, strict=True)] for rows in tables)
    )


def write_npz(batches: Batches) -> Iterator[bytes]:
    """Yield the whole content at once, since such a file holds whole arrays."""
    numbers, rows, labels, content = Numbers(sequences=False), [], [], io.BytesIO()
    for read in batches:
        rows.append(numbers.rows(read))
        labels += single_labels(read)
    if numbers.examples * numbers.width > MOST_CELLS:
        raise FileError(f"{numbers.examples} x {numbers.width} features are too many for a table")
    for own in rows:
        own.resize(own.shape[0], numbers.width)
    X = sp.vstack(rows, format="csr").toarray()
    np.savez_compressed(content, X=X, y=np.asarray(labels))
    yield content.getvalue()
