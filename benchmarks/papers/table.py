"""One table or figure of a paper, or its part on one data set.

A table knows how it is made at each level, which files it needs, and whether it is done. The
command of its paper makes it, and writes CSV files and pictures into the table's own folder. The
last file is `done.json`, so that a resumed run starts with the first table that has none. The name
of a part begins with the name of its table: `cutting_plane/table1/covertype`.
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
    """A table, and the arguments of its command at each level.

    A level without arguments does not make the table.
    """

    name: str
    paper: str
    command: Callable[[Sequence[str]], Any]
    full: tuple[str, ...]
    quick: tuple[str, ...] | None
    needs: tuple[str, ...]
    differs: str  # how and why it differs from the paper's numbers
    quick_leaves_out: str = ""
    columns: tuple[str, ...] = ()  # the columns shown on the page; all if empty
    says: Claims | None = None  # sentences that follow from the rows of a run
    full_ends: str = ""  # how limits of the full level end fits before their tolerance

    def arguments(self, level: str) -> tuple[str, ...] | None:
        """Return the arguments of the command, or None if the level leaves the table out."""
        if level == "small":
            return (*self.full, "--small")
        return self.full if level == "full" else self.quick

    def missing(self, level: str) -> list[str]:
        """Return the needed files that are missing."""
        return [] if level == "small" else missing_files(self.needs)

    def folder(self, out: Path) -> Path:
        """Return the folder of the table's files."""
        return out / self.name

    def made(self, out: Path) -> dict[str, Any] | None:
        """Return how the table was made, or None if it is not done."""
        path = self.folder(out) / DONE
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def is_done(self, out: Path, level: str) -> bool:
        """Return whether the table was made at this level, or at the full level if `level` is "quick"."""
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
