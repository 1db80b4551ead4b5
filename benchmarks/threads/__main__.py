"""python -m benchmarks.threads [--data NAME ...] [--jobs N ...] [--repeats N] [--small]

Do threads make a fit faster? For each set and number of threads, the fastest of some runs in turn:

  seconds       wall-clock seconds of training with this many threads
  gain          seconds of one thread divided by `seconds`
  limit         the gain of as many independent fits side by side: threads x one alone / all of them
  passes        oracle calls per example, and `more`: relative to one thread
  work          CPU time of the fit relative to one thread, with all threads on one core. It exceeds 1
                mainly because threads repeat updates that meet updates of other threads. The gain is
                at most about threads / work

A machine that is busy with other work, or has fewer cores, shows less gain; work hardly depends on
that.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from benchmarks import datasets, stand_ins
from benchmarks.papers.cutting_plane.tasks import covertype
from benchmarks.papers.dual_coordinate.__main__ import newsgroups
from benchmarks.race.ours import estimator
from benchmarks.timing import write_csv

Row = dict[str, Any]


@dataclass
class Task:
    """Inputs and outputs, and a function that makes an estimator for a number of threads."""

    X: Any
    Y: Any
    make: Callable[[int], Any]

    def work(self, jobs: int) -> float:
        """Return the CPU seconds of a fit with all threads on one core."""
        with one_core():
            began = time.process_time()
            self.fit(jobs)
            return time.process_time() - began

    def fit(self, jobs: int) -> tuple[float, float]:
        """Return the wall-clock seconds of training, and the passes."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = self.make(jobs).fit(self.X, self.Y).certificate_
        return found.seconds, found.oracle_calls / len(self.Y)


def of_dataset(name: str, regularization: float, tol: float, small: bool, **options: Any) -> Task:
    """Return a set of the race, with the objective scaled as in its papers."""
    data = datasets.load(name, small=small, **options)
    tol = 0.1 if small else tol
    return Task(
        data.X_train,
        data.Y_train,
        lambda jobs: estimator(data, "proximal", regularization, tol=tol, n_jobs=jobs),
    )


def of_rows(
    read: Callable[[], tuple[Any, Any]], C: float, tol: float, most: int, small: bool
) -> Task:
    """Return a task of rows with several classes."""
    X, y = stand_ins.digits(examples=300) if small else read()
    settings = {"C": C, "tol": tol, "solver": "proximal", "random_state": 0}
    return Task(X[:most], y[:most], lambda jobs: mm.MulticlassSVC(n_jobs=jobs, **settings))


TASKS: dict[str, Callable[[bool], Task]] = {
    "ocr-0.01": lambda small: of_dataset("ocr", 0.01, 1e-3, small),
    "ocr-0.001": lambda small: of_dataset("ocr", 0.001, 1e-3, small),
    "conll-0.001": lambda small: of_dataset("conll2000", 0.001, 1e-2, small),
    "conll-rich": lambda small: of_dataset("conll2000", 0.001, 1e-1, small, rich=True),
    "covertype": lambda small: of_rows(covertype, 1e-2, 1e-3, 100_000, small),
    "newsgroups": lambda small: of_rows(newsgroups, 1.0, 1e-3, 100_000, small),
}


@contextmanager
def one_core() -> Iterator[None]:
    """Put all threads on one core if the system can do that, so that they do not wait for each other."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def side_by_side(task: Task, jobs: int) -> float:
    """Return the seconds of the slowest of some independent fits that run at the same time."""
    with ThreadPoolExecutor(jobs) as pool:
        return max(seconds for seconds, _ in pool.map(task.fit, [1] * jobs))


def measure(name: str, task: Task, jobs: Sequence[int], repeats: int) -> list[Row]:
    """Return a row for one thread, and one for each number of threads."""
    one, many = (float("inf"), 0.0), {k: (float("inf"), 0.0) for k in jobs}
    together = {k: float("inf") for k in jobs}
    work = {k: float("inf") for k in (1, *jobs)}
    for _ in range(repeats):
        one = min(one, task.fit(1))
        for k in jobs:
            many[k] = min(many[k], task.fit(k))
            together[k] = min(together[k], side_by_side(task, k))
        for k in work:
            work[k] = min(work[k], task.work(k))
    rows: list[Row] = [{"data": name, "threads": 1, "seconds": one[0], "passes": one[1]}]
    for k in jobs:
        rows.append(
            {
                "data": name,
                "threads": k,
                "seconds": many[k][0],
                "gain": one[0] / many[k][0],
                "limit": k * one[0] / together[k],
                "passes": many[k][1],
                "more": many[k][1] / one[1] - 1,
                "work": work[k] / work[1],
            }
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print, write `threads.csv`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--jobs", nargs="+", type=int, default=[2])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="made-up data, in seconds")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    for name in options.data:
        task = TASKS[name](options.small)
        rows += measure(name, task, options.jobs, 1 if options.small else options.repeats)
        for row in rows[-len(options.jobs) - 1 :]:
            print(
                "  ".join(
                    f"{k} {v:.4g}" if isinstance(v, float) else f"{v}" for k, v in row.items()
                ),
                flush=True,
            )
    write_csv(options.out / "threads.csv", rows)
    return rows


if __name__ == "__main__":
    main()
