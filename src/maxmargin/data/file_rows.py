"""Read files of rows: numbered features, tables with a header, arrays, shards.

Readers yield batches of about ``size`` characters of text, with unconverted labels. The type of the labels is
known only after the whole file is read (``data.file_labels``).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from maxmargin.data.from_file import FileError, FromFile, Reading
from maxmargin.data.mapped import csr_of
from maxmargin.data.sharded import open_shards
from maxmargin.data.text import batches_of, numbered_lines, open_raw
from maxmargin.io.quoting import short, shortened

LARGEST_FEATURE = 1e150  # largest absolute value of a feature; products of larger ones overflow
GROUP = re.compile(r"\bqid:(\d{1,18})\b")
UNREADABLE = (ValueError, OverflowError, IndexError)
NO_GROUP = "the line has no qid: after the tag; qid:N names the sequence of the line"
MOST_REASON = 200  # characters quoted from scikit-learn's message
OBJECTS = "it holds Python objects, which are not read; save arrays of numbers or texts"
SHARD_TASKS = {"rows": "", "sequences": "tagging", "trees": "parsing"}


def read_svmlight(path: Any, reading: Reading, size: float) -> Iterator[FromFile]:
    several = reading.task in ("", "multilabel") or reading.unlabelled
    for first, lines in batches_of(numbered_lines(path), size):
        bare = 0  # number of the first line without a label
        for number, line in enumerate(lines, first):
            label = first_word(line)
            if "," in label and reading.task not in ("", "multilabel"):
                raise FileError(
                    f"{path}, line {number}: the line has several labels, but the task is "
                    f"{reading.task}"
                )
            bare = bare or (number if ":" in label else 0)
        X, y, *_ = numbered(path, first, lines, reading, multilabel=several)
        if X.shape[0]:
            yield FromFile(X, y, reading, bare=bare)


def first_word(line: str) -> str:
    """The first word of a line without its comment: the label, if there is one."""
    return next(iter(line.partition("#")[0].split(None, 1)), "")


def read_svmhmm(path: Any, reading: Reading, size: float) -> Iterator[FromFile]:
    for first, lines in whole_groups(path, size):
        for number, line in enumerate(lines, first):
            if first_word(line) and group_of(line) is None:  # scikit-learn would accept "qid,:1"
                raise FileError(f"{path}, line {number}: {NO_GROUP}")
        X, y, group = numbered(path, first, lines, reading, query_id=True)
        if not len(group):
            continue
        bounds = np.concatenate([[0], np.flatnonzero(np.diff(group)) + 1, [len(group)]]).tolist()
        pairs = list(pairwise(bounds))
        yield FromFile([X[a:b] for a, b in pairs], [y[a:b] for a, b in pairs], reading)


def whole_groups(path: Any, size: float) -> Iterator[tuple[int, list[str]]]:
    """Yield batches of lines as ``batches_of`` does, but no batch ends within a sequence."""
    first, kept = 1, list[str]()
    for number, lines in batches_of(numbered_lines(path), size):
        first = first if kept else number
        kept += lines
        cut = last_group(kept)
        if cut:
            yield first, kept[:cut]
            first, kept = first + cut, kept[cut:]
    if kept:
        yield first, kept


def last_group(lines: list[str]) -> int:
    """Return the number of lines before the last sequence; lines without a qid may lie within a sequence."""
    last = None
    for k in range(len(lines), 0, -1):
        own = group_of(lines[k - 1])
        if own not in (None, last) and last is not None:
            return k
        last = own if last is None else last
    return 0


def group_of(line: str) -> int | None:
    """The number of the sequence of a line; None if the line has no qid."""
    found = GROUP.search(line.partition("#")[0])
    return int(found[1]) if found else None


def numbered(
    path: Any, first: int, lines: list[str], reading: Reading, **options: Any
) -> tuple[Any, ...]:
    """Return rows of numbered features as wide as in training, labels, and further results of the reader.

    Columns begin at 1.
    """

    def load(some: list[str]) -> tuple[Any, ...]:
        X, *rest = load_rows(some, **options)
        if (np.abs(X.data) > LARGEST_FEATURE).any():
            raise ValueError(f"a value above {LARGEST_FEATURE:g}")
        if options.get("query_id") and len(rest[1]) != X.shape[0]:
            raise ValueError(NO_GROUP)
        kept = reading.n_features or X.shape[1]
        return widened(X[:, :kept] if kept < X.shape[1] else X, kept), *rest

    return loaded(path, first, lines, load)


def loaded(path: Any, first: int, lines: list[Any], load: Callable[[list[Any]], Any]) -> Any:
    """Return ``load(lines)``; an error names the first unreadable line, which bisection finds."""
    try:
        return load(lines)
    except UNREADABLE as error:
        good, bad, reason = 0, len(lines), error
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                load(lines[good:middle])
                good = middle
            except UNREADABLE as found:
                bad, reason = middle, found
        large = "a column number is above the maximum, 2^31 - 1"
        said = large if isinstance(reason, OverflowError) else shortened(str(reason), MOST_REASON)
        got = (
            lines[good] if isinstance(lines[good], str) else lines[good].decode("utf-8", "replace")
        )
        raise FileError(f"{path}, line {first + good}: {said}; got {short(got.strip())}") from None


def load_rows(
    lines: list[Any], dtype: Any = np.float64, zero_based: bool = False, **options: Any
) -> tuple[Any, ...]:
    """Return rows of numbered features, labels, and further results of scikit-learn's reader.

    Columns begin at 1, or at 0 with ``zero_based``.
    """
    from sklearn.datasets import load_svmlight_file  # slow to import, and needed only here

    text = type(lines[0])().join(lines)
    text = io.BytesIO(text if isinstance(text, bytes) else text.encode())
    with np.errstate(over="ignore"):  # overflow gives infinity, which is refused below
        X, *rest = load_svmlight_file(text, dtype=dtype, zero_based=True, **options)
    if X.nnz and not zero_based and X.indices.min() == 0:
        raise ValueError(
            "feature 0, but features begin at 1; svmlight_to_shards has zero_based=True"
        )
    labels = [v for y in rest[0] for v in y] if options.get("multilabel") else rest[0]
    if not np.isfinite(X.data).all() or not np.isfinite(labels).all():
        raise ValueError(f"a value or a label is NaN, infinite, or too large for {np.dtype(dtype)}")
    width = int(X.indices.max()) + zero_based if X.nnz else 1
    return csr_of(X.data, X.indices - (not zero_based), X.indptr, (X.shape[0], width)), *rest


def widened(X: Any, width: int) -> Any:
    """Return rows of numbered features with ``width`` columns."""
    if isinstance(X, list):
        return [widened(x, width) for x in X]
    return X if X.shape[1] == width else csr_of(X.data, X.indices, X.indptr, (X.shape[0], width))


def read_csv(path: Any, reading: Reading, size: float) -> Iterator[FromFile]:
    header, at, batch, taken = list[str](), None, None, 0
    for number, row, length in numbered_table_rows(path, "\t" if reading.format == "tsv" else ","):
        if not header:
            header, at = row, label_place(path, row, reading)
            names = [name for j, name in enumerate(header) if j != at]
            continue
        if len(row) != len(header):
            raise FileError(f"{path}, line {number}: {len(row)} columns, expected {len(header)}")
        batch = batch or FromFile([], None if at is None else [], reading, names=names)
        if at is not None:
            batch.Y.append(row.pop(at))
            if not (batch.Y[-1] or reading.unlabelled):
                raise FileError(f"{path}, line {number}: the label is missing")
        cells = zip(names, row, strict=True)
        batch.X.append({name: value_of(text) for name, text in cells if text != ""})
        batch.lines.append(number)
        taken += length
        if taken >= size:
            yield batch
            batch, taken = None, 0
    if not header:
        raise FileError(f"{path} has no header")
    if batch:
        yield batch


def numbered_table_rows(path: Any, separator: str) -> Iterator[tuple[int, list[str], int]]:
    """Yield (number of the last line, cells, length) for each row of a table that is not empty."""
    rows = csv.reader((line for _, line in numbered_lines(path)), delimiter=separator)
    try:
        for row in rows:
            if row:
                yield rows.line_num, row, sum(map(len, row)) + len(row)
    except csv.Error as error:
        raise FileError(f"{path}, line {rows.line_num}: {error}") from None


def named_columns(read: FromFile, path: Any) -> np.ndarray:
    """Return rows as numbers, with the columns of training in their order; refuse texts."""
    names = read.reading.names = read.reading.names or read.names
    table = np.zeros((len(read.X), len(names)))
    for i, row in enumerate(read.X):
        for j, name in enumerate(names):
            if not isinstance(row.get(name), float):
                where = f"line {read.lines[i]}" if read.lines else f"row {i + 1}"
                raise FileError(
                    f"{path}, {where}: column {short(name)} must be a number, for regression"
                )
            table[i, j] = row[name]
    return table


def label_place(path: Any, header: list[str], reading: Reading) -> int | None:
    """Return the number of the label column, the last by default; keep its name for later files.

    Return None if the column is missing and labels are optional.
    """
    if not header:
        raise FileError(f"{path} has no columns")
    twice = next((name for j, name in enumerate(header) if name in header[:j]), None)
    if twice is not None:
        raise FileError(f"{path}: two columns are named {short(twice)}")
    label = reading.label
    if not label:
        at = len(header) - 1
    elif label in header:
        at = header.index(label)
    elif label.isdecimal() and int(label) < len(header) and not reading.unlabelled:
        at = int(label)
    elif reading.unlabelled:
        return None
    else:
        raise FileError(f"{path}: no column {short(label)}; there are {', '.join(header)}")
    reading.label = header[at] or label  # an empty name could not find the column again
    return at


def value_of(text: str) -> Any:
    try:
        number = float(text)
    except ValueError:
        return text
    return number if np.isfinite(number) else text


def content_of(path: Any) -> bytes:
    """The whole content of a binary file."""
    with open_raw(path) as file:
        return file.read()


def read_npz(path: Any, reading: Reading, size: float) -> Iterator[FromFile]:
    y = None
    try:
        with np.load(io.BytesIO(content_of(path)), allow_pickle=False) as file:
            names = {name.lower(): name for name in file.files}
            if "x" not in names or not ("y" in names or reading.unlabelled):
                raise ValueError(f"expected arrays X and y, got {', '.join(file.files)}")
            X = file[names["x"]]
            y = file[names["y"]] if "y" in names else np.zeros(len(X))
            if not (isinstance(X, np.ndarray) and isinstance(y, np.ndarray)):
                raise ValueError("X or y is not an array")
    except Exception as error:  # damaged bytes may raise any error
        said = OBJECTS if "pickle" in str(error) else error
        raise FileError(f"{path}: {said}") from None
    if X.ndim != 2 or y.ndim != 1 or len(X) != len(y):
        raise FileError(f"{path}: X must be (n, d) and y (n,), got {X.shape} and {y.shape}")
    if len(X):
        yield FromFile(X, y if "y" in names else None, reading)


def read_shards(path: Any, reading: Reading, size: float) -> Iterator[FromFile]:
    data = open_shards(path)
    if data.Y is None and not reading.unlabelled:
        raise FileError(f"{path}: these shards have no labels")
    reading.task = reading.task or SHARD_TASKS[data.manifest.kind]
    n = len(data)
    count = n if size * n >= data.n_bytes else max(1, int(size * n / data.n_bytes))
    if count == n:
        yield FromFile(data.X, data.Y, reading)
        return
    for a in range(0, n, count):
        yield FromFile(data.X[a : a + count], data.Y and data.Y[a : a + count], reading)
