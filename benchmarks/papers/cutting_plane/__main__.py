"""python -m benchmarks.papers.cutting_plane [WHAT ...] [--tasks NAME ...] [--seconds S] [--out DIR] [--small]

Joachims, Finley and Yu, Cutting-Plane Training of Structural SVMs (2009), on the data at hand. WHAT:

table1     CPU time, oracle calls and support vectors of 1-slack and n-slack          Table 1
size       against the number of examples, with and without the cache                Figures 1, 3, 5
epsilon    iterations and oracle calls against epsilon                                Figure 8
weight     the same against C                                                         Figure 9
liblinear  all of covertype beside LIBLINEAR on the same objective
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.papers.cutting_plane import figures, liblinear
from benchmarks.papers.cutting_plane.measure import line, measure
from benchmarks.papers.cutting_plane.tasks import TASKS, Task
from benchmarks.timing import write_csv

Row = dict[str, Any]
SIZES = {"covertype": (5000, 20_000, 100_000, 500_000)}
SHARES = (0.125, 0.25, 0.5, 1.0)  # of the other sets
FACTORS = (0.01, 0.1, 1.0)  # of the paper's C
EPSILONS = (30.0, 10.0, 3.0, 1.0)  # of the paper's epsilon


def sizes_of(task: Task, small: bool) -> list[int]:
    """Numbers of examples for the curves."""
    if task.name in SIZES and not small:
        return list(SIZES[task.name])
    return [max(10, int(share * task.size)) for share in SHARES]


def table1(tasks: list[Task], options: argparse.Namespace) -> list[Row]:
    """1-slack with the cache against n-slack, and the library's default beside them."""
    rows = []
    for task in tasks:
        for method in ("1-slack cache", "n-slack", "auto"):
            rows.append(measure(task, method, seconds=options.seconds, test=True))
            print(line(rows[-1]), flush=True)
    return rows


def size(tasks: list[Task], options: argparse.Namespace) -> list[Row]:
    """Against the number of examples."""
    rows = []
    for task in tasks:
        rows += figures.against_size(task, sizes_of(task, options.small), options.seconds)
    columns = ("cpu", "iterations", "oracle_calls", "support")
    figures.draw(rows, "n", columns, options.out / "size.png")
    return rows


def epsilon(tasks: list[Task], options: argparse.Namespace) -> list[Row]:
    """Against epsilon."""
    rows = []
    for task in tasks:
        values = [factor * task.eps for factor in EPSILONS]
        rows += figures.against(task, "eps", values, options.seconds)
    return drawn(rows, "eps", options.out / "epsilon.png")


def weight(tasks: list[Task], options: argparse.Namespace) -> list[Row]:
    """Against C."""
    rows = []
    for task in tasks:
        values = [factor * task.weight for factor in FACTORS]
        rows += figures.against(task, "weight", values, options.seconds)
    return drawn(rows, "C", options.out / "weight.png")


def drawn(rows: list[Row], across: str, path: Path) -> list[Row]:
    """The rows, once their picture is made."""
    figures.draw(rows, across, ("iterations", "oracle_calls"), path)
    return rows


def beside_liblinear(tasks: list[Task], options: argparse.Namespace) -> list[Row]:
    """Covertype only."""
    return [
        row for t in tasks if t.name == "covertype" for row in liblinear.run(t, options.seconds)
    ]


PARTS: dict[str, Callable[[list[Task], argparse.Namespace], list[Row]]] = {
    "table1": table1,
    "size": size,
    "epsilon": epsilon,
    "weight": weight,
    "liblinear": beside_liblinear,
}


def main(arguments: list[str] | None = None) -> dict[str, list[Row]]:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "what", nargs="*", metavar="WHAT", help="default: all of " + ", ".join(PARTS)
    )
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--seconds", type=float, default=600.0, help="for one fit, at most")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/cutting_plane"))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
    if unknown := set(options.what) - set(PARTS):
        parser.error(f"WHAT must be of {list(PARTS)}, got {sorted(unknown)}")
    options.out.mkdir(parents=True, exist_ok=True)
    tasks = [TASKS[name](options.small) for name in options.tasks]
    results = {}
    for part in options.what or PARTS:
        results[part] = PARTS[part](tasks, options)
        write_csv(options.out / f"{part}.csv", results[part])
    return results


if __name__ == "__main__":
    main()
