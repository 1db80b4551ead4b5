"""Section 4, parallelisation: the loop over the oracle with several threads.

The paper expects an almost linear speed-up if the oracle takes 98 % of the time (parses), and has
no
numbers. Seconds are wall-clock seconds.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

from benchmarks.papers import rows as reading
from benchmarks.papers.cutting_plane.measure import line, measure
from benchmarks.papers.cutting_plane.tasks import Task
from maxmargin.runtime.executor import count_jobs

THREADS = (1, 2, 4, 8)
# multiple of the paper's epsilon: the gain of an iteration does not depend on the final gap
EPS = 30.0


def run(tasks: list[Task], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run 1-slack without its cache, so that the oracle dominates.

    There are at most as many threads as cores.
    """
    found = []
    cores = count_jobs(-1)
    for task in tasks:
        for n_jobs in (each for each in THREADS if each <= cores):
            row = measure(
                task, "1-slack", eps=EPS * task.eps, seconds=n_jobs * options.seconds, n_jobs=n_jobs
            )
            found.append({"threads": n_jobs, "load": os.getloadavg()[0]} | row)
            print(line(found[-1]), flush=True)
    return found


def says(rows: Sequence[reading.Row]) -> list[str]:
    """Describe the wall-clock speed-up; the share of the oracle with one thread bounds it."""
    found = []
    for task in reading.values(rows, "task"):
        own = reading.chosen(rows, task=task)
        one = own[0]
        share, wall = reading.number(one, "oracle_share"), reading.number(one, "wall")
        for row in own[1:]:
            threads = int(row["threads"])
            most = 1 / (1 - share + share / threads)
            found.append(
                f"{task}: {threads} threads are {wall / reading.number(row, 'wall'):.2f} times as fast; with "
                f"{100 * share:.0f} % of the time in the oracle, {most:.2f} is the limit (load "
                f"average of the last minute {reading.number(row, 'load'):.1f})."
            )
    return found
