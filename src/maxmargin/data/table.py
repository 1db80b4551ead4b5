"""Tables with named rows and columns, which reports and views of weights return."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

import numpy as np

from maxmargin.io.quoting import short

MOST_SHOWN = 60  # largest number of rows or columns that are printed


def cell_text(cell: Any) -> str:
    """Format a cell as text: floats with three digits after the point, NaN as an empty text."""
    if isinstance(cell, float | np.floating):
        return "" if np.isnan(cell) else f"{cell:.3f}"
    return str(cell)


class Table:
    """A table with named columns and rows.

    ``table[row, column]`` is a cell, and ``table[column]`` is a column as an array. ``np.asarray(table)``
    holds all cells, and ``table.to_pandas()`` is a data frame.
    """

    def __init__(
        self,
        columns: Mapping[Any, Any],
        rows: Iterable[Any],
        corner: str = "",
        title: str = "",
    ):
        self.rows: list[Any] = list(rows)
        self.corner = corner
        self.title = title
        self._cells = {name: np.asarray(cells) for name, cells in columns.items()}

    @property
    def columns(self) -> list[Any]:
        """The names of the columns."""
        return list(self._cells)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) == 2 and key not in self._cells:
            row, column = key
            if row in self.rows and column in self._cells:
                return self._cells[column].tolist()[self.rows.index(row)]
        elif key in self._cells:
            return self._cells[key]
        raise KeyError(f"{short(key)}: give a column, one of {self.columns[:10]}, or (row, column)")

    def __len__(self) -> int:
        return len(self.rows)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        cells = list(self._cells.values())
        array = np.column_stack(cells) if cells else np.empty((len(self), 0))
        return array if dtype is None else array.astype(dtype)

    def to_pandas(self) -> Any:
        """Return the table as a data frame; pandas must be installed."""
        import pandas as pd

        frame = pd.DataFrame(self._cells, index=pd.Index(self.rows, tupleize_cols=False))
        return frame.rename_axis(index=self.corner or None)

    def _texts(self) -> tuple[list[str], list[list[str]]]:
        """The head and the lines as texts, without rows and columns beyond MOST_SHOWN."""
        columns, n = self.columns[:MOST_SHOWN], min(len(self), MOST_SHOWN)
        head = [self.corner, *map(str, columns)]
        lines = [
            [str(row), *(cell_text(self._cells[c][r]) for c in columns)]
            for r, row in enumerate(self.rows[:n])
        ]
        return head, lines

    def _rest(self) -> str:
        rows, columns = len(self) - MOST_SHOWN, len(self._cells) - MOST_SHOWN
        left = [f"{rows} more rows"] * (rows > 0) + [f"{columns} more columns"] * (columns > 0)
        return f"... {' and '.join(left)}" if left else ""

    def __repr__(self) -> str:
        head, lines = self._texts()
        widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
        right = [False, *(self._cells[c].dtype.kind in "biuf" for c in self.columns[:MOST_SHOWN])]
        text = [
            "  ".join(
                cell.rjust(width) if number else cell.ljust(width)
                for cell, width, number in zip(line, widths, right, strict=True)
            ).rstrip()
            for line in (head, *lines)
        ]
        return "\n".join(part for part in (self.title, *text, self._rest()) if part)

    def _repr_html_(self) -> str:
        head, lines = self._texts()
        top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        body = "".join(
            f"<tr><th>{escape(line[0])}</th>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in line[1:])
            + "</tr>"
            for line in lines
        )
        caption = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        return (
            f"<table>{caption}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
            + escape(self._rest())
        )


class Tables(list[Any]):
    """A list of tables, shown one below the other."""

    def __repr__(self) -> str:
        return "\n\n".join(map(repr, self))

    def _repr_html_(self) -> str:
        return "".join(table._repr_html_() for table in self)
