"""Parts of the report page: text from data and names is escaped here, and cut if it is too long."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data.table import Table

MOST_TEXT = 160  # characters that the page shows of one text; longer texts are cut
# Size limits of a table; a larger one fills the page and slows the browser.
MOST_ROWS, MOST_COLUMNS = 300, 40
TOTALS = ("(micro)", "(macro)")  # rows that stay at the bottom when the reader sorts a table


def text(value: Any) -> str:
    """Convert any value to HTML text: escaped, and cut after MOST_TEXT characters."""
    words = str(value)
    return escape(words if len(words) <= MOST_TEXT else words[: MOST_TEXT - 1] + "…")


def shown_number(value: Any) -> str:
    """Format a number for the page; NaN becomes an empty text."""
    value = float(value)
    if np.isnan(value):
        return ""
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e12 else f"{value:.4g}"


def is_number_cell(value: Any) -> bool:
    """Whether a table cell holds a number; True and False are shown as words."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)


def colour(shade: float) -> str:
    """HTML attributes that colour a cell: blue above zero, red below; 1 is the strongest shade."""
    if not np.isfinite(shade) or abs(shade) < 0.005:
        return ""
    return f' class="heat{" minus" if shade < 0 else ""}" style="--v:{min(1.0, abs(shade)):.2f}"'


def cell(value: Any, shade: float = 0.0) -> str:
    """One table cell."""
    if is_number_cell(value):
        return f"<td{colour(shade)}>{shown_number(value)}</td>"
    return f'<td class="text">{text(value)}</td>'


def html_table(found: Table, shades: np.ndarray | None = None) -> str:
    """A table that the reader can sort by column; ``shades`` gives each cell a value from -1 to 1."""
    columns, n = found.columns[:MOST_COLUMNS], min(len(found), MOST_ROWS)
    cells = [found[name].tolist() for name in columns]
    if shades is None:
        shades = np.zeros((n, len(columns)))
    head = "".join(
        f'<th scope="col"><button type="button">{text(name)}</button></th>'
        for name in (found.corner, *columns)
    )
    lines = [
        f'<tr><th scope="row">{text(row)}</th>'
        + "".join(cell(own[i], shades[i, j]) for j, own in enumerate(cells))
        + "</tr>"
        for i, row in enumerate(found.rows[:n])
    ]
    last = sum(row in TOTALS for row in found.rows[:n])
    body, foot = lines[: n - last], lines[n - last :]
    left = len(found) - n, len(found.columns) - len(columns)
    rest = (
        f'<p class="soft">{left[0]} more rows and {left[1]} more columns are not shown</p>'
        if any(left)
        else ""
    )
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody>'
        f"<tfoot>{''.join(foot)}</tfoot></table></div>{rest}"
    )


def facts(values: Mapping[str, Any]) -> str:
    """A table of names and values."""
    rows = "".join(
        f'<tr><th scope="row">{text(name)}</th>{cell(value)}</tr>' for name, value in values.items()
    )
    return f'<div class="wide"><table class="facts"><tbody>{rows}</tbody></table></div>'


def paragraph(words: str) -> str:
    """A paragraph of escaped text."""
    return f"<p>{text(words)}</p>"


def row(parts: Iterable[str]) -> str:
    """Place parts side by side if the window is wide enough; empty parts are left out."""
    return f'<div class="row">{"".join(f"<div>{part}</div>" for part in parts if part)}</div>'


def document(title: str, about: str, sections: Mapping[str, str]) -> str:
    """The whole page, without empty sections. Its security policy allows only its own script to run."""
    here = Path(__file__)
    style, script = (here.with_name(f"page.{end}").read_text("utf-8") for end in ("css", "js"))
    known = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{known}'"
    )
    kept = {name: content for name, content in sections.items() if content}
    links = "".join(f'<a href="#s{i}">{text(name)}</a> ' for i, name in enumerate(kept))
    body = "".join(
        f'<section id="s{i}"><h2>{text(name)}</h2>{content}</section>'
        for i, (name, content) in enumerate(kept.items())
    )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{style}</style></head><body>"
        f'<h1>{text(title)}</h1><p class="soft">{text(about)}</p><nav>{links}</nav>{body}'
        f"<script>{script}</script></body></html>\n"
    )
