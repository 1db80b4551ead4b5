"""One table or figure of a paper, or its part on one data set: how it is made at each level, what it
needs, and whether it is done.

A table is made by the command of its paper, which writes CSV files and pictures into a folder of the
table's own. The last file to be written is `done.json`: a run that was stopped begins with the table that
has none. The names of parts of a table begin with its own: `cutting_plane/table1/covertype`.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.datasets import missing_files
from benchmarks.papers.rows import Claims

LEVELS = ("full", "quick", "small")
DONE = "done.json"


@dataclass(frozen=True)
class Table:
    """What of a paper, and the arguments of its command at each level; none: it is not made at that level."""

    name: str
    paper: str
    command: Callable[[Sequence[str]], Any]
    full: tuple[str, ...]
    quick: tuple[str, ...] | None
    needs: tuple[str, ...]
    differs: str  # from the paper's numbers, and why
    quick_leaves_out: str = ""
    columns: tuple[str, ...] = ()  # shown on the page; all if empty
    says: Claims | None = None  # sentences that follow from the rows of a run
    full_ends: str = ""  # where fits of the full level end before their tolerance

    def arguments(self, level: str) -> tuple[str, ...] | None:
        """Of the command; None where the level leaves the table out."""
        if level == "small":
            return (*self.full, "--small")
        return self.full if level == "full" else self.quick

    def missing(self, level: str) -> list[str]:
        """Files that are needed and not there."""
        return [] if level == "small" else missing_files(self.needs)

    def folder(self, out: Path) -> Path:
        """Where its files are."""
        return out / self.name

    def made(self, out: Path) -> dict[str, Any] | None:
        """How it was made, if it is done."""
        path = self.folder(out) / DONE
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def is_done(self, out: Path, level: str) -> bool:
        """Made with the arguments of this level, or of the full one where less is asked for."""
        made = self.made(out)
        if made is None:
            return False
        enough = [level] + ["full"] * (level == "quick")
        return any(made["arguments"] == list(self.arguments(each) or ()) for each in enough)

    def make(self, out: Path, level: str) -> None:
        """Run the command in an empty folder."""
        folder, arguments = self.folder(out), self.arguments(level)
        assert arguments is not None
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        wall, cpu = time.perf_counter(), time.process_time()
        self.command([*arguments, "--out", str(folder)])
        made = {
            "level": level,
            "date": time.strftime("%Y-%m-%d"),
            "arguments": list(arguments),
            "wall_seconds": round(time.perf_counter() - wall, 1),
            "cpu_seconds": round(time.process_time() - cpu, 1),
        }
        (folder / DONE).write_text(json.dumps(made) + "\n", encoding="utf-8")
