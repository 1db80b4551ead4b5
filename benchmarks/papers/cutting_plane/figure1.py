"""Figures 1, 3, 4 and 5: growth with the number of examples.

They show CPU time, iterations, support vectors and oracle calls.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from benchmarks.papers import rows as reading
from benchmarks.papers.cutting_plane import figures
from benchmarks.papers.cutting_plane.measure import line, measure
from benchmarks.papers.cutting_plane.tasks import Task

SIZES = {"covertype": (5000, 20_000, 100_000, 500_000)}
SHARES = (0.125, 0.25, 0.5, 1.0)  # for the other sets
METHODS = ("n-slack", *figures.CACHED)
COLUMNS = ("cpu", "iterations", "oracle_calls", "support")


def sizes_of(task: Task, small: bool) -> list[int]:
    """Return the numbers of examples for the curves."""
    if task.name in SIZES and not small:
        return [n for n in SIZES[task.name] if n <= task.size]
    return [max(10, int(share * task.size)) for share in SHARES]


def run(tasks: list[Task], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Fit all methods on all sizes; skip larger sizes for a method that ran out of time."""
    found = []
    for task in tasks:
        slow = set()
        for n in sizes_of(task, options.small):
            for method in (each for each in METHODS if each not in slow):
                found.append(measure(task.first(n), method, seconds=options.seconds))
                print(line(found[-1]), flush=True)
                if found[-1]["status"] != "solved":
                    slow.add(method)
    figures.draw(found, "n", COLUMNS, options.out / "size.png")
    return found


def says(rows: Sequence[reading.Row]) -> list[str]:
    """Describe the growth by exponents of n; the paper has only curves and words."""
    found = []
    for task in reading.values(rows, "task"):
        for method in METHODS:
            own = reading.chosen(rows, task=task, method=method, status="solved")
            if len(own) < 2:
                found.append(f"{task}, {method}: fewer than two sizes were solved in time.")
                continue
            powers = [f"{name} n^{reading.growth(own, 'n', name):.2f}" for name in COLUMNS]
            found.append(
                f"{task}, {method}, {own[0]['n']} to {own[-1]['n']} examples: {', '.join(powers)}."
            )
        found += of_the_cache(rows, task)
    return [
        *found,
        "The paper: for classes and tags the time of 1-slack grows at most as n, and the time of n-slack "
        "grows faster. The number of support vectors of 1-slack does not depend on n (iterations grow "
        "slowly for parses).",
    ]


def of_the_cache(rows: Sequence[reading.Row], task: str) -> list[str]:
    """Compare calls and time with the cache to those without it.

    The comparison uses the largest number of examples that both methods solved.
    """
    plain, cached = (
        {row["n"]: row for row in reading.chosen(rows, task=task, method=m, status="solved")}
        for m in figures.CACHED
    )
    both = [n for n in plain if n in cached]
    if not both:
        return []
    one, other = plain[both[-1]], cached[both[-1]]
    calls, cpu = (reading.short(reading.over(other, one, name)) for name in ("oracle_calls", "cpu"))
    return [
        f"{task}, {both[-1]} examples: the cache multiplies the oracle calls by {calls} and the CPU time by "
        f"{cpu}; without it the oracle takes {100 * reading.number(one, 'oracle_share'):.0f} % of the time."
    ]
