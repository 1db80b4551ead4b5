"""A page for readers who have not run anything: the finished tables, without links to files.

Full runs take hours, and are made a few tables at a time. So the page keeps a published table with its
day if the folder does not have the table or has it only at a lower level. Tables that no longer exist
are removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.papers.page import HEAD, NOT_MADE, Entry, contents, entry, section
from benchmarks.papers.table import LEVELS, Table

Part = tuple[Entry, list[str]]  # a table's cells in the contents, and its lines


def publish(tables: Sequence[Table], out: Path, level: str, path: Path) -> None:
    """Write the page, or update it."""
    before = published(path)
    parts: dict[str, Part] = {}
    for table in tables:
        here = entry(table, out), without_files(section(table, out, level))
        parts[table.name] = better(here, before.get(table.name, (NOT_MADE, [])))
    lines = [*HEAD, *contents({name: cells for name, (cells, _) in parts.items()}), ""]
    lines += [line for cells, own in parts.values() if cells != NOT_MADE for line in own]
    path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def better(here: Part, there: Part) -> Part:
    """Return the part with the higher level; if they are equal, the one from the folder."""
    ranks = (*LEVELS, NOT_MADE[0])
    return there if ranks.index(there[0][0]) < ranks.index(here[0][0]) else here


def without_files(lines: Sequence[str]) -> list[str]:
    """Return the lines that need no file beside the page; several empty lines become one."""
    alone = [line for line in lines if not line.startswith(("[", "!["))]
    return [line for k, line in enumerate(alone) if line or (k and alone[k - 1])]


def published(path: Path) -> dict[str, Part]:
    """Return the parts of a page that was written before, by the name of the table."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    head, *sections = text.split("\n## ")
    rows = [line.strip("| ").split(" | ") for line in head.splitlines() if line.startswith("|")]
    entries = {name: tuple(cells) for name, *cells in rows}
    found: dict[str, Part] = {}
    for each in sections:
        name = each.partition("\n")[0]
        found[name] = entries[name], [f"## {each}".rstrip(), ""]
    return found
