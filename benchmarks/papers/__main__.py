"""python -m benchmarks.papers [--quick | --small] [--only NAME ...] [--force] [--out DIR]
[--publish FILE]

Make the tables and figures of the papers, each in its own folder below `--out`, and a page of all
of them, index.md and index.html. Without `--force`, finished tables are not made again, so that you
can resume a run that was stopped.

  --quick   fewer rows; the page says which rows are left out
  --small   synthetic stand-ins, no data needed
  --only    tables whose name begins with one of these: fasole, gdmm/curves
  --publish also write a page without pictures and CSV files, such as
            benchmarks/papers/RESULTS.md. A table that is already on it stays unless this
            folder has the table at the same level or a higher one

The data are in the folder that MAXMARGIN_DATA names, else in `data/` of the checkout. If files are
missing, the tables that need them are listed with the files, and the exit status is 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.papers import page
from benchmarks.papers.publish import publish
from benchmarks.papers.table import Table
from benchmarks.papers.tables import TABLES


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the unfinished tables; write the page after every table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    level = parser.add_mutually_exclusive_group()
    level.add_argument("--quick", action="store_const", dest="level", const="quick")
    level.add_argument("--small", action="store_const", dest="level", const="small")
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME")
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--publish", type=Path, metavar="FILE")
    asked = parser.parse_args(arguments)
    chosen = [table for table in TABLES if table.name.startswith(tuple(asked.only))]
    if not chosen:
        parser.error(f"--only: no table begins so; there are {[table.name for table in TABLES]}")
    lacking = [
        table.name
        for table in chosen
        if not make(table, asked.out, asked.level or "full", asked.force)
    ]
    page.write(TABLES, asked.out, asked.level or "full")
    if asked.publish:
        publish(TABLES, asked.out, asked.level or "full", asked.publish)
    print("written:", asked.out / "index.md", asked.out / "index.html")
    return 1 if lacking else 0


def make(table: Table, out: Path, level: str, force: bool) -> bool:
    """Make the table unless it is done; return False if files are missing."""
    if table.arguments(level) is None:
        print(f"{table.name}: not made at the level {level}")
    elif not force and table.is_done(out, level):
        print(f"{table.name}: done before")
    elif missing := table.missing(level):
        print(f"{table.name}: needs {', '.join(missing)}")
        return False
    else:
        print(f"{table.name}: {table.paper}", flush=True)
        table.make(out, level)
        page.write(TABLES, out, level)
    return True


if __name__ == "__main__":
    raise SystemExit(main())
