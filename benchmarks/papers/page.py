"""The page, index.md and index.html: every table beside the paper's numbers, from the tables' files."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.papers.rows import Row, read
from benchmarks.papers.table import Table

Entry = tuple[str, ...]
HEAD = ["# Tables and figures of the papers", ""]
MOST_ROWS = 50  # approximate number of rows of a table on the page; the CSV file has all
CURVE = ("task", "data", "method")  # rows that agree in these columns are points of one curve
DATA = "Data are in the folder that MAXMARGIN_DATA names, else in `data/` of the checkout."


def shown(value: str) -> str:
    """Return a number with four digits; other text stays the same."""
    try:
        number = float(value)
    except ValueError:
        return value.replace("|", "/")
    return str(int(number)) if number.is_integer() and abs(number) < 1e9 else f"{number:.4g}"


def section(table: Table, out: Path, level: str) -> list[str]:
    """Return the lines of Markdown for a table."""
    lines = [f"## {table.name}", "", table.paper + ".", ""]
    made = table.made(out)
    if made is None:
        return [*lines, reason(table, level), ""]
    lines += [f"{table.differs}", ""]
    lines += [f"{extent(table, made['level'])}", "", f"Made as {spent(made)}.", ""]
    for path in sorted(table.folder(out).glob("*.csv")):
        rows = read(path)
        few = thinned(rows)
        lines += [*grid(few, table.columns), ""]
        lines += [f"[{path.name}]({path.relative_to(out).as_posix()})"]
        if len(few) < len(rows):
            lines += [
                f"({len(few)} of {len(rows)} rows: some points of each curve, with its last point)"
            ]
        lines += ["", *sentences(table, rows, made["level"]), ""]
    for path in sorted(table.folder(out).glob("*.png")):
        lines += [f"![{path.stem}]({path.relative_to(out).as_posix()})", ""]
    return lines


def extent(table: Table, level: str) -> str:
    """Describe the part of the table that a level makes."""
    if level == "small":
        return "Stand-ins for the data: do not compare these numbers with the paper's."
    if level == "quick":
        return f"Quick run; left out: {table.quick_leaves_out or 'nothing'}."
    return f"Full run; {table.full_ends or 'all rows'}."


def spent(made: dict) -> str:
    """Describe level, day and time; folders of earlier versions have no day."""
    day = f" on {made['date']}" if "date" in made else ""
    return f"{made['level']}{day}: {made['wall_seconds']} s, of which CPU {made['cpu_seconds']} s"


def sentences(table: Table, rows: Sequence[Row], level: str) -> list[str]:
    """Return the sentences that follow from the rows; none for stand-ins."""
    if table.says is None or level == "small":
        return []
    return [f"- {sentence}" for sentence in table.says(rows)]


def reason(table: Table, level: str) -> str:
    """Say why a table was not made."""
    if missing := table.missing(level):
        return "Not made: it needs " + ", ".join(f"`{file}`" for file in missing) + f". {DATA}"
    if table.arguments(level) is None:
        return f"Not made at the level {level}."
    return "Not made yet."


def grid(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """Format rows as a Markdown table."""
    if not rows:
        return ["(no rows)"]
    names = [name for name in columns or rows[0] if name in rows[0]]
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return lines + ["| " + " | ".join(shown(row[name]) for name in names) + " |" for row in rows]


def thinned(rows: Sequence[Row]) -> list[Row]:
    """Return all rows, or points of each curve at equal distances, so that they fit on the page."""
    if len(rows) <= MOST_ROWS:
        return list(rows)
    curves: dict[tuple[str | None, ...], list[Row]] = {}
    for row in rows:
        curves.setdefault(tuple(row.get(name) for name in CURVE), []).append(row)
    each = max(1, MOST_ROWS // len(curves))
    return [own[k] for own in curves.values() for k in places(len(own), each)]


def places(n: int, most: int) -> list[int]:
    """Return at most this many numbers from 0 to n - 1, with the last one among them."""
    few = min(n, most)
    return [n - 1 - k * n // few for k in reversed(range(few))]


NOT_MADE = ("no", "", "")


def entry(table: Table, out: Path) -> Entry:
    """Return the cells of a table in the contents: its level, and its seconds."""
    made = table.made(out)
    if made is None:
        return NOT_MADE
    return tuple(str(made[name]) for name in ("level", "wall_seconds", "cpu_seconds"))


def contents(entries: Mapping[str, Entry]) -> Iterator[str]:
    """Yield the lines of the contents: which tables were made, how, and in how many seconds."""
    yield "| table | made | seconds | of which CPU |"
    yield "|---|---|---|---|"
    for name, cells in entries.items():
        yield f"| {name} | " + " | ".join(cells) + " |"
    done = [cells for cells in entries.values() if cells != NOT_MADE]
    totals = (str(round(sum(float(cells[k]) for cells in done))) for k in (1, 2))
    yield f"| all | {len(done)} of {len(entries)} | " + " | ".join(totals) + " |"


def write(tables: Sequence[Table], out: Path, level: str) -> None:
    """Write index.md and index.html."""
    lines = [*HEAD, *contents({table.name: entry(table, out) for table in tables}), ""]
    lines += [line for table in tables for line in section(table, out, level)]
    out.mkdir(parents=True, exist_ok=True)
    (out / "index.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (out / "index.html").write_text(as_html(lines), encoding="utf-8")


STYLE = (
    "body{font-family:sans-serif;max-width:70em;margin:2em auto}table{border-collapse:collapse}"
    "td,th{padding:.1em .7em;text-align:right;white-space:nowrap}tr>:first-child{text-align:left}"
    "tr:nth-child(even){background:#f3f3f3}img{max-width:100%}"
)


def as_html(lines: Sequence[str]) -> str:
    """Convert the few forms of Markdown that `section` writes to HTML."""
    body, in_table = [], False
    headings = {line[3:] for line in lines if line.startswith("## ")}
    for line in lines:
        if line.startswith("|--"):
            continue
        if in_table and not line.startswith("|"):
            body.append("</table>")
        if line.startswith("|"):
            kind = "td" if in_table else "th"
            body += [] if in_table else ["<table>"]
            cells = [cell_as_html(cell, headings) for cell in line[1:-1].split("|")]
            body.append("<tr>" + "".join(f"<{kind}>{cell}</{kind}>" for cell in cells) + "</tr>")
        else:
            body.append(line_as_html(line))
        in_table = line.startswith("|")
    head = f'<!doctype html><meta charset="utf-8"><title>Papers</title><style>{STYLE}</style>'
    return head + "\n".join(body) + "\n"


def cell_as_html(cell: str, headings: set[str]) -> str:
    """Convert a cell; the name of a table becomes a link to it."""
    text = html.escape(cell.strip())
    return f'<a href="#{text}">{text}</a>' if cell.strip() in headings else text


def line_as_html(line: str) -> str:
    """Convert a line that is not a row of a table."""
    if line.startswith("#"):
        depth = len(line) - len(line.lstrip("#"))
        text = html.escape(line[depth + 1 :])
        return f'<h{depth} id="{text}">{text}</h{depth}>'
    if line.startswith("- "):
        return f"<li>{html.escape(line[2:])}</li>"
    if line.startswith(("![", "[")):
        name, _, rest = line.lstrip("![").partition("](")
        target, _, after = rest.partition(")")
        target, name = html.escape(target, quote=True), html.escape(name)
        inner = (
            f'<img src="{target}" alt="{name}">'
            if line[0] == "!"
            else f'<a href="{target}">{name}</a>'
        )
        return f"<p>{inner}{html.escape(after)}</p>"
    return f"<p>{html.escape(line)}</p>" if line else ""
