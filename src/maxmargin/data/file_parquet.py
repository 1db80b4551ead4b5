"""Tables in Parquet files, by pyarrow, which is imported here and not before."""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any

import numpy as np

from maxmargin.data.file_rows import column_of, content_of, is_regression, table_of
from maxmargin.data.formats import whole
from maxmargin.data.from_file import FileError, FromFile, Reading

NUMBERS = (bool, int, float)


def arrow(name: str) -> Any:
    """A module of pyarrow."""
    try:
        return import_module(name)
    except ImportError as error:
        raise FileError("Parquet needs pyarrow: pip install maxmargin[parquet]") from error


def read_parquet(path: str, reading: Reading) -> FromFile:
    parquet, errors = arrow("pyarrow.parquet"), arrow("pyarrow").ArrowException
    try:
        table = parquet.read_table(io.BytesIO(content_of(path)))
        cells = [table.column(j).to_pylist() for j in range(table.num_columns)]
    except (errors, OSError, ValueError, OverflowError) as error:
        raise FileError(f"{path}: {error}") from None
    names = table.column_names
    at = column_of(path, names, reading.label)
    if not cells:
        raise FileError(f"{path}: there are no columns")
    columns = [checked(path, name, own) for name, own in zip(names, cells, strict=True)]
    y = labels_of(path, columns.pop(at), reading.task)
    names = [name for j, name in enumerate(names) if j != at]
    rows = zip(*columns, strict=True) if columns else [()] * len(y)
    X = [{k: v for k, v in zip(names, row, strict=True) if v is not None} for row in rows]
    if reading.task == "regression" or (not reading.task and is_regression(y)):
        return FromFile(table_of(path, X, names), y, reading)
    return FromFile(X, y, reading)


def checked(path: str, name: str, cells: list[Any]) -> list[Any]:
    """The cells of a column as finite numbers, texts, or None for what is missing."""
    for cell in cells:
        if cell is not None and not isinstance(cell, (str, *NUMBERS)):
            raise FileError(
                f"{path}: column {name!r} holds {type(cell).__name__}, not numbers or texts"
            )
    numbers = [float(cell) if isinstance(cell, NUMBERS) else cell for cell in cells]
    return [None if isinstance(v, float) and not np.isfinite(v) else v for v in numbers]


def labels_of(path: str, cells: list[Any], task: str) -> np.ndarray:
    """Labels: texts, or numbers, whole where they can be."""
    missing = next((i for i, cell in enumerate(cells, 1) if cell is None), None)
    if missing is not None:
        raise FileError(f"{path}, row {missing}: the label is missing")
    if any(isinstance(cell, str) for cell in cells):
        return np.array(cells, dtype=str)
    values = np.array(cells, dtype=float)
    return values if task == "regression" else whole(values)


def parquet_bytes(columns: dict[str, list[Any]]) -> bytes:
    """Columns as the content of a file; each holds numbers or texts."""
    for name, cells in columns.items():
        if len({isinstance(cell, str) for cell in cells if cell is not None}) > 1:
            raise FileError(f"column {name!r} holds numbers and texts, and here it must be one")
    content = io.BytesIO()
    table = arrow("pyarrow").table(columns)
    arrow("pyarrow.parquet").write_table(table, content)
    return content.getvalue()
