"""Rows of a table as read from a CSV file (texts by name), and helpers for sentences about them."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path

Row = dict[str, str]
Claims = Callable[[Sequence[Row]], list[str]]  # sentences that follow from the rows


def read(path: Path) -> list[Row]:
    """Return all rows of a file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def chosen(rows: Sequence[Row], **wanted: str) -> list[Row]:
    """Return the rows with these entries."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def values(rows: Sequence[Row], name: str) -> list[str]:
    """Return the values that occur in a column, in order."""
    return list(dict.fromkeys(row[name] for row in rows))


def number(row: Row, name: str) -> float:
    """Return an entry as a number; nan if there is none."""
    return float(row.get(name) or "nan")


def short(value: float) -> str:
    """Format a number with three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def listed(found: Sequence[float]) -> str:
    """Format numbers as a list."""
    return ", ".join(short(value) for value in found)


def growth(rows: Sequence[Row], across: str, name: str) -> float:
    """Return the exponent of `name` as a power of `across`, between the first and the last row."""
    first, last = rows[0], rows[-1]
    power = math.log(over(last, first, across))
    return math.log(over(last, first, name)) / power if power else math.nan


def over(above: Row, below: Row, name: str) -> float:
    """Return the ratio of two entries; nan unless both are positive."""
    top, bottom = number(above, name), number(below, name)
    return top / bottom if top > 0 and bottom > 0 else math.nan
