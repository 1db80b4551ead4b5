"""Rows that a benchmark prints."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

# The benchmarks are a folder of the repository, not a part of the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def speak(folder: Path, paper: str, but: str = "") -> None:
    """Every table of a paper (but one) has something to say of the rows that were made; it can be read."""
    from benchmarks.papers.tables import TABLES

    for table in TABLES:
        own, part, *_ = table.name.split("/")
        if own == paper and part != but and table.says is not None:
            sentences = table.says(rows_of(folder / f"{part}.csv"))
            assert sentences and all(each.endswith(".") for each in sentences), table.name
