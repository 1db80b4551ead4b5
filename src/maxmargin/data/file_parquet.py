"""Tables in Parquet files, by pyarrow, which is imported here and not before."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from maxmargin.data.attributes import AttributeEncoder
from maxmargin.data.file_rows import column_of, content_of, is_regression, table_of
from maxmargin.data.formats import whole
from maxmargin.data.from_file import FileError, FromFile, Reading
from maxmargin.data.mapped import MappedRows, csr_of

NUMBERS = (bool, int, float)
BATCH = 10_000  # rows that are dicts at a time
Groups = tuple[str, int]  # a file, and the number of a row group in it


def arrow(name: str) -> Any:
    """A module of pyarrow."""
    try:
        return import_module(name)
    except ImportError as error:
        raise FileError("Parquet needs pyarrow: pip install maxmargin[parquet]") from error


def read_parquet(path: str, reading: Reading) -> FromFile:
    with refused(path):
        table = arrow("pyarrow.parquet").read_table(io.BytesIO(content_of(path)))
    X, y = described(path, table, reading.label, reading.task)
    if reading.task == "regression" or (not reading.task and is_regression(y)):
        at = column_of(path, table.column_names, reading.label)
        names = [name for j, name in enumerate(table.column_names) if j != at]
        return FromFile(table_of(path, X, names), y, reading)
    return FromFile(X, y, reading)


@contextmanager
def refused(path: str) -> Iterator[None]:
    """What pyarrow raises for other bytes, with the name of the file."""
    errors = arrow("pyarrow").ArrowException
    try:
        yield
    except FileError:  # which names it already
        raise
    except (errors, OSError, ValueError, OverflowError) as error:
        raise FileError(f"{path}: {error}") from None


def described(
    path: str, table: Any, label: str, task: str = "", first: int = 1
) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Rows of a table as dicts of numbers and texts, and their labels; ``first``: the number of the first."""
    with refused(path):
        cells = [table.column(j).to_pylist() for j in range(table.num_columns)]
    names = table.schema.names
    at = column_of(path, names, label)
    if not cells:
        raise FileError(f"{path}: there are no columns")
    columns = [checked(path, name, own) for name, own in zip(names, cells, strict=True)]
    y = labels_of(path, columns.pop(at), task, first)
    names = [name for j, name in enumerate(names) if j != at]
    rows = zip(*columns, strict=True) if columns else [()] * len(y)
    return [{k: v for k, v in zip(names, row, strict=True) if v is not None} for row in rows], y


def checked(path: str, name: str, cells: list[Any]) -> list[Any]:
    """The cells of a column as finite numbers, texts, or None for what is missing."""
    for cell in cells:
        if cell is not None and not isinstance(cell, (str, *NUMBERS)):
            raise FileError(
                f"{path}: column {name!r} holds {type(cell).__name__}, not numbers or texts"
            )
    numbers = [float(cell) if isinstance(cell, NUMBERS) else cell for cell in cells]
    return [None if isinstance(v, float) and not np.isfinite(v) else v for v in numbers]


def labels_of(path: str, cells: list[Any], task: str, first: int) -> np.ndarray:
    """Labels: texts, or numbers, whole where they can be."""
    missing = next((i for i, cell in enumerate(cells, first) if cell is None), None)
    if missing is not None:
        raise FileError(f"{path}, row {missing}: the label is missing")
    if any(isinstance(cell, str) for cell in cells):
        return np.array(cells, dtype=str)
    values = np.array(cells, dtype=float)
    return values if task == "regression" else whole(values)


# Files in pieces: row groups


def groups_of(path: str) -> list[Groups]:
    """The row groups of a file that have rows."""
    with refused(path):
        facts = arrow("pyarrow.parquet").read_metadata(path)
    return [(path, g) for g in range(facts.num_row_groups) if facts.row_group(g).num_rows]


def batches(groups: Sequence[Groups], label: str) -> Iterator[tuple[list[dict], np.ndarray]]:
    """Rows and labels of some row groups, a few at a time."""
    for path, g in groups:
        with refused(path), arrow("pyarrow.parquet").ParquetFile(path) as file:
            first = 1 + sum(file.metadata.row_group(h).num_rows for h in range(g))
            for batch in file.iter_batches(BATCH, row_groups=[g]):
                yield described(path, batch, label, first=first)
                first += batch.num_rows


def encoded(groups: Sequence[Groups], label: str, encoder: Any) -> tuple[MappedRows, np.ndarray]:
    """Rows of some row groups as features, and labels; the names of an encoder, or all where it is None."""
    learn, parts, labels = encoder is None, [], []
    for rows, y in batches(groups, label):
        if encoder is None:
            encoder = AttributeEncoder(sequences=False)
            found = encoder.encode(rows, learn=True)
        else:
            found = encoder.extend(rows) if learn else encoder.encode(rows)
        parts.append(found.parts[0])
        labels.append(y)
    width = encoder.n_features_
    wide = [csr_of(part.data, part.indices, part.indptr, (0, width)) for part in parts]
    return MappedRows(wide, width, found.encoder), np.concatenate(labels)


def checksum_of(groups: Sequence[Groups]) -> str:
    """Of the bytes of some row groups."""
    total = hashlib.sha256()
    for path, g in groups:
        with refused(path), open(path, "rb") as file:
            group = arrow("pyarrow.parquet").read_metadata(path).row_group(g)
            for j in range(group.num_columns):
                own = group.column(j)
                file.seek(own.dictionary_page_offset or own.data_page_offset)
                total.update(f"{own.path_in_schema} {own.total_compressed_size}".encode())
                total.update(file.read(own.total_compressed_size))
    return total.hexdigest()


def parquet_bytes(columns: dict[str, list[Any]]) -> bytes:
    """Columns as the content of a file; each holds numbers or texts."""
    for name, cells in columns.items():
        if len({isinstance(cell, str) for cell in cells if cell is not None}) > 1:
            raise FileError(f"column {name!r} holds numbers and texts, and here it must be one")
    content = io.BytesIO()
    table = arrow("pyarrow").table(columns)
    arrow("pyarrow.parquet").write_table(table, content)
    return content.getvalue()
