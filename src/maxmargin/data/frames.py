"""Tables and columns of pandas, polars and pyarrow, none of which is imported here."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.arrays import is_missing

PACKAGES = ("pandas", "polars", "pyarrow")


def package_of(data: Any) -> str:
    """The package whose table or column it is, or nothing."""
    if hasattr(data, "iloc"):
        return "pandas"
    package = type(data).__module__.split(".")[0]
    return package if package in PACKAGES and hasattr(data, "__array__") else ""


def names_of(data: Any) -> list[Any] | None:
    """The names of the columns of a table; None for anything else."""
    if not package_of(data):
        return None
    names = getattr(data, "column_names", None)  # of pyarrow, whose ``columns`` are the data
    names = getattr(data, "columns", None) if names is None else names
    return None if names is None else list(names)


def plain_sequence(data: Any) -> Any:
    """Tables and columns as arrays: they index by label, everything here by position."""
    package = package_of(data)
    if package == "pandas":
        return data.to_numpy()
    return np.asarray(data) if package else data


def is_frame(data: Any) -> bool:
    """Whether it is a table whose columns have names."""
    names = names_of(data)
    return names is not None and all(isinstance(name, str) for name in names)


def any_table(data: Any) -> bool:
    """Whether some item of a sequence is a table or a column."""
    kinds = set(map(type, data))
    return any(hasattr(k, "iloc") or k.__module__.split(".")[0] in PACKAGES for k in kinds)


def values_of(column: Any) -> list[Any]:
    """The entries of a column; what is missing is None."""
    listed = getattr(column, "to_pylist", None) or column.to_list
    return [None if is_missing(v) or v != v else v for v in listed()]


def records(frame: Any) -> list[dict[str, Any]]:
    """The rows of a table as dicts; what is missing has no value."""
    names = names_of(frame) or []
    columns = [values_of(frame[name]) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def fault_of(frame: Any) -> str:
    """The first entry that is not a finite number, by its column and row; empty where there is none."""
    for j, name in enumerate(names_of(frame) or []):
        column = frame.iloc[:, j] if package_of(frame) == "pandas" else frame[name]
        array = np.asarray(column)
        if array.dtype.kind in "biuf" and np.isfinite(array).all():
            continue
        for i, value in enumerate(values_of(column)):
            where = f"column {name!r}, row {i}"
            if value is None:
                return f"{where}: a value is missing; fill it, or drop such rows"
            try:
                finite = np.isfinite(float(value))
            except (TypeError, ValueError):
                return f"{where}: {value!r} is not a number; encode the column, or leave it out"
            if not finite:
                return f"{where}: {value} is not finite"
    return ""
