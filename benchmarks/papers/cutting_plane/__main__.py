"""python -m benchmarks.papers.cutting_plane [WHAT ...] [--tasks NAME ...] [--examples N] [--seconds
S]
          [--out DIR] [--small]

Joachims, Finley and Yu, Cutting-Plane Training of Structural SVMs (2009), on the available data.
WHAT:

table1      CPU time, oracle calls and support vectors of 1-slack and n-slack         Table 1
table2      two classes, beside LIBLINEAR and LIBSVM                                   Table 2
size        against the number of examples, with and without the cache                Figures 1, 3,
4, 5
best_c      the same with the best C for each size                                     Figure 2
cache       oracle calls against the size of the cache                                 Figure 6
duals       1-slack against n-slack over C                                             Figure 7
epsilon     iterations and oracle calls against epsilon                                Figure 8
weight      the same against C                                                         Figure 9
corollary2  kernels with k basis functions                                             Corollary 2
ordinal     ordinal regression by 1-slack                                              Section 3.2
threads     the oracle by several threads                                              Section 4
liblinear   all of covertype beside LIBLINEAR on the same objective
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.papers.cutting_plane import (
    corollary2,
    figure1,
    figure2,
    figure6,
    figure7,
    figure8,
    liblinear,
    ordinal,
    table1,
    table2,
    threads,
)
from benchmarks.papers.cutting_plane.tasks import TASKS, Task
from benchmarks.timing import write_csv

Row = dict[str, Any]
PARTS: dict[str, Callable[[list[Task], argparse.Namespace], list[Row]]] = {
    "table1": table1.run,
    "table2": table2.run,
    "size": figure1.run,
    "best_c": figure2.run,
    "cache": figure6.run,
    "duals": figure7.run,
    "epsilon": figure8.epsilon,
    "weight": figure8.weight,
    "corollary2": corollary2.run,
    "ordinal": ordinal.run,
    "threads": threads.run,
    "liblinear": liblinear.run,
}
WITHOUT_TASKS = ("table2", "corollary2", "ordinal")


def main(arguments: list[str] | None = None) -> dict[str, list[Row]]:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "what", nargs="*", metavar="WHAT", help="default: all of " + ", ".join(PARTS)
    )
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--sets", nargs="+", choices=table2.TASKS, help="of table2; default: all")
    parser.add_argument(
        "--examples", type=int, help="the first training examples of each task; default: all"
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="for one fit, at most")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/cutting_plane"))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
    if unknown := set(options.what) - set(PARTS):
        parser.error(f"WHAT must be of {list(PARTS)}, got {sorted(unknown)}")
    options.out.mkdir(parents=True, exist_ok=True)
    parts = options.what or list(PARTS)
    names = options.tasks if set(parts) - set(WITHOUT_TASKS) else []
    most = None if options.small else options.examples
    tasks = [TASKS[name](options.small, most) for name in names]
    results = {}
    for part in parts:
        results[part] = PARTS[part](tasks, options)
        write_csv(options.out / f"{part}.csv", results[part])
    return results


if __name__ == "__main__":
    main()
