"""Figure 2: CPU time against the number of examples, each with the C that has the best test score."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from benchmarks.papers import rows as reading
from benchmarks.papers.cutting_plane import figures
from benchmarks.papers.cutting_plane.figure1 import sizes_of
from benchmarks.papers.cutting_plane.measure import line, measure
from benchmarks.papers.cutting_plane.tasks import Task

FACTORS = (0.01, 0.1, 1.0)  # multiples of the paper's C for the whole set


def run(tasks: list[Task], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Choose C with the cache, and use it with and without the cache."""
    found = []
    for task in tasks:
        for n in sizes_of(task, options.small):
            part = task.first(n)
            tried = [
                measure(
                    part, "1-slack cache", factor * task.weight, seconds=options.seconds, test=True
                )
                for factor in FACTORS
            ]
            best = max(tried, key=lambda row: row["test_score"])
            plain = measure(part, "1-slack", best["C"], seconds=options.seconds, test=True)
            found += [best, plain]
            print(line(best), line(plain), sep="\n", flush=True)
    figures.draw(found, "n", ("cpu", "test_score"), options.out / "best_c.png")
    return found


def says(rows: Sequence[reading.Row]) -> list[str]:
    """Describe the best C and the exponents of n."""
    found = []
    for task in reading.values(rows, "task"):
        for method in figures.CACHED:
            own = reading.chosen(rows, task=task, method=method, status="solved")
            if len(own) > 1:
                best = ", ".join(reading.short(reading.number(row, "C")) for row in own)
                power = reading.growth(own, "n", "cpu")
                found.append(f"{task}, {method}: best C {best}; CPU time grows as n^{power:.2f}.")
    return [*found, "The paper: time grows essentially as it does with one C for all sizes."]
