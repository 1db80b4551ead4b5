"""Figure 6: oracle calls of 1-slack against the size of the cache."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from benchmarks.papers import rows as reading
from benchmarks.papers.cutting_plane import figures
from benchmarks.papers.cutting_plane.measure import WatchedOneSlack, line, measure
from benchmarks.papers.cutting_plane.tasks import Task

SIZES = (0, 1, 2, 5, 10, 20)
ENOUGH = 5  # the size that has all of the benefits, according to the paper
VISIBLE = 0.05  # fraction of the calls: a smaller saving is not reported


def run(tasks: list[Task], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Fit all tasks with all sizes of the cache."""
    found = []
    for task in tasks:
        for size in SIZES:
            solver = WatchedOneSlack(cache=size)
            row = measure(task, f"cache of {size}", seconds=options.seconds, solver=solver)
            found.append({"cache": size} | row)
            print(line(found[-1]), flush=True)
    curves = [row | {"method": "1-slack"} for row in found]
    figures.draw(
        curves, "cache", ("oracle_calls", "cpu"), options.out / "cache.png", scale="linear"
    )
    return found


def says(rows: Sequence[reading.Row]) -> list[str]:
    """Describe the calls relative to the cache size that the paper calls large enough."""
    found = []
    for task in reading.values(rows, "task"):
        own = reading.chosen(rows, task=task)
        solved = [row for row in own if row["status"] == "solved"]
        if late := [row["cache"] for row in own if row not in solved]:
            found.append(
                f"{task}: the time limit ended the fits with a cache of {', '.join(late)}."
            )
        for base in (row for row in solved if row["cache"] == str(ENOUGH)):
            ratios = [reading.over(row, base, "oracle_calls") for row in solved]
            caches = ", ".join(row["cache"] for row in solved)
            found.append(
                f"{task}: oracle calls with a cache of {caches}, divided by the calls with a cache of "
                f"{ENOUGH}: {reading.listed(ratios)}."
            )
            last = solved[-1]
            if ratios[-1] < 1 - VISIBLE:
                found.append(
                    f"{task}: unlike in the paper, a cache of {last['cache']} saves more calls. It makes "
                    f"{last['iterations']} cuts, most from the cache; a cache of {ENOUGH} makes "
                    f"{base['iterations']}."
                )
    return [*found, f"The paper: a cache of {ENOUGH} has all of the benefits."]
