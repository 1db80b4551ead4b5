"""Files of rows: numbered features, tables with a header, arrays, shards."""

from __future__ import annotations

import csv
import io
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

from maxmargin.data.formats import whole
from maxmargin.data.from_file import FileError, FromFile, Reading
from maxmargin.data.sharded import open_shards
from maxmargin.data.text import STANDARD_INPUT, numbered_lines

# What the reader of arrays raises for other bytes.
DAMAGED = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
SHARD_TASKS = {"rows": "", "sequences": "tagging", "trees": "parsing"}


def read_svmlight(path: str, reading: Reading) -> FromFile:
    lines = [line for _, line in numbered_lines(path)]
    first = (line.partition("#")[0].lstrip().split(" ", 1)[0] for line in lines)
    sets = next((number for number, labels in enumerate(first, 1) if "," in labels), 0)
    if sets and reading.task not in ("", "multilabel"):
        raise FileError(f"{path}, line {sets}: several labels, and the task is {reading.task}")
    several = reading.task == "multilabel" or sets > 0
    X, y, *_ = numbered(path, lines, reading, multilabel=several)
    Y = [tuple(int(v) for v in labels) for labels in y] if several else whole(y)
    return FromFile(X, Y, reading)


def read_svmhmm(path: str, reading: Reading) -> FromFile:
    lines = [line for _, line in numbered_lines(path)]
    X, y, group = numbered(path, lines, reading, query_id=True)
    ends = np.flatnonzero(np.diff(group)) + 1
    bounds = np.concatenate([[0], ends, [len(group)]])
    labels = whole(y).tolist()
    pairs = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    return FromFile([X[a:b] for a, b in pairs], [labels[a:b] for a, b in pairs], reading)


def numbered(path: str, lines: list[str], reading: Reading, **options: Any) -> tuple:
    """What scikit-learn reads of numbered features; columns begin at 1."""
    try:
        return load_rows(lines, reading, options)
    except (ValueError, OverflowError, IndexError) as error:
        first, last, reason = 0, len(lines), error
        while last - first > 1:  # the first line that cannot be read
            middle = (first + last) // 2
            try:
                load_rows(lines[first:middle], reading, options)
                first = middle
            except (ValueError, OverflowError, IndexError) as found:
                last, reason = middle, found
        raise FileError(f"{path}, line {first + 1}: {reason}") from None


def load_rows(lines: list[str], reading: Reading, options: dict) -> tuple:
    text = io.BytesIO("".join(lines).encode())
    with np.errstate(over="ignore"):
        found = load_svmlight_file(text, zero_based=True, **options)
    X = found[0]
    if X.nnz and X.indices.min() == 0:
        raise ValueError("feature 0, but features are numbered from 1")
    labels = [v for y in found[1] for v in y] if options.get("multilabel") else found[1]
    if not np.isfinite(X.data).all() or not np.isfinite(labels).all():
        raise ValueError("a value or a label is not a finite number")
    width = max(X.shape[1], 1)
    kept = reading.n_features or width - 1
    X = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], max(width, kept + 1)))
    return (X[:, 1 : kept + 1].tocsr(), *found[1:])


def read_csv(path: str, reading: Reading) -> FromFile:
    separator = "\t" if reading.format == "tsv" else ","
    rows = csv.reader((line for _, line in numbered_lines(path)), delimiter=separator)
    try:
        header, *body = list(rows)
    except csv.Error as error:
        raise FileError(f"{path}, line {rows.line_num}: {error}") from None
    except ValueError as error:
        raise FileError(
            str(error) if path in str(error) else f"{path}: there is no header"
        ) from None
    at = column_of(path, header, reading.label)
    X, y = [], []
    for number, row in enumerate(body, 2):
        if not row:
            continue
        if len(row) != len(header):
            raise FileError(f"{path}, line {number}: {len(row)} columns, expected {len(header)}")
        y.append(row[at])
        pairs = (p for j, p in enumerate(zip(header, row, strict=True)) if j != at)
        X.append({name: value_of(text) for name, text in pairs if text != ""})
    read = FromFile(X, labels_of(y, reading.task), reading)
    if reading.task == "regression" or (not reading.task and is_regression(read.Y)):
        names = [name for j, name in enumerate(header) if j != at]
        read.X = table_of(path, X, names)
    return read


def table_of(path: str, rows: list[dict[str, Any]], names: list[str]) -> np.ndarray:
    """Rows as numbers, a column for each name; regression takes no texts."""
    table = np.zeros((len(rows), len(names)))
    for i, row in enumerate(rows):
        for j, name in enumerate(names):
            if not isinstance(row.get(name), float):
                raise FileError(
                    f"{path}, line {i + 2}: column {name!r} must be a number, for regression"
                )
            table[i, j] = row[name]
    return table


def column_of(path: str, header: list[str], label: str) -> int:
    """The number of the column that is the label; the last by default."""
    if not label:
        return len(header) - 1
    if label not in header:
        raise FileError(f"{path}: no column {label!r}; there are {', '.join(header)}")
    return header.index(label)


def value_of(text: str) -> Any:
    try:
        number = float(text)
    except ValueError:
        return text
    return number if np.isfinite(number) else text


def labels_of(texts: list[str], task: str) -> np.ndarray:
    """Labels as whole numbers, numbers or texts."""
    values = [value_of(t) for t in texts]
    if task in ("multiclass", "binary") or any(isinstance(v, str) for v in values):
        numbers = all(isinstance(v, float) and v == round(v) for v in values)
        return whole(np.array(values)) if numbers else np.array(texts)
    return whole(np.array(values)) if task != "regression" else np.array(values)


def content_of(path: str) -> bytes:
    """All of a file that is not text."""
    return sys.stdin.buffer.read() if path == STANDARD_INPUT else Path(path).read_bytes()


def read_npz(path: str, reading: Reading) -> FromFile:
    try:
        with np.load(io.BytesIO(content_of(path)), allow_pickle=False) as file:
            names = {name.lower(): name for name in file.files}
            if not {"x", "y"} <= set(names):
                raise ValueError(f"expected arrays X and y, got {', '.join(file.files)}")
            X, y = file[names["x"]], file[names["y"]]
            if not (isinstance(X, np.ndarray) and isinstance(y, np.ndarray)):
                raise ValueError("X or y is no array")
    except DAMAGED as error:
        raise FileError(f"{path}: {error}") from None
    if X.ndim != 2 or y.ndim != 1 or len(X) != len(y):
        raise FileError(f"{path}: X must be (n, d) and y (n,), got {X.shape} and {y.shape}")
    return FromFile(X, y, reading)


def read_shards(path: str, reading: Reading) -> FromFile:
    data = open_shards(path)
    if data.Y is None:
        raise FileError(f"{path}: these shards have no labels")
    reading.task = reading.task or SHARD_TASKS[data.manifest.kind]
    return FromFile(data.X, data.Y, reading)


def is_regression(labels: np.ndarray) -> bool:
    """Whether labels are numbers that are not all whole."""
    return labels.dtype.kind == "f" and bool((labels != np.round(labels)).any())
