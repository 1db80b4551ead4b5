"""Read the rows that a benchmark writes, and check the sentences of its tables."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

# The benchmarks are a folder of the repository and are not in the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def speak(folder: Path, paper: str, but: str = "") -> None:
    """Assert that every table of a paper, except `but`, makes full sentences from the rows of its file."""
    from benchmarks.papers.tables import TABLES

    for table in TABLES:
        own, part, *_ = table.name.split("/")
        if own == paper and part != but and table.says is not None:
            sentences = table.says(rows_of(folder / f"{part}.csv"))
            assert sentences and all(each.endswith(".") for each in sentences), table.name
