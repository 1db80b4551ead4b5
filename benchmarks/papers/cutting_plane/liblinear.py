"""1-slack beside LIBLINEAR's Crammer-Singer, on the same objective, on all of covertype, in one run."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.svm import LinearSVC

from benchmarks.papers import rows as reading
from benchmarks.papers.cutting_plane.measure import line, measure
from benchmarks.papers.cutting_plane.tasks import Task
from benchmarks.race.peers import multiclass_primal
from benchmarks.timing import best_of

Row = dict[str, Any]
TOLERANCES = (1.0, 0.1, 0.01)


def all_examples(task: Task) -> Task:
    """Return the task with its test part added to the training part."""
    X, Y = np.vstack([task.X, task.X_test]), np.concatenate([task.Y, task.Y_test])
    return replace(task, X=X, Y=Y)


def peer(task: Task, tol: float, rounds: int = 200) -> Row:
    """Fit LIBLINEAR at one tolerance; its primal is computed by our definition."""
    C = task.weight / task.size
    svm = LinearSVC(C=C, multi_class="crammer_singer", tol=tol, max_iter=rounds, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an unfinished fit shows in its primal
        timed = best_of(1, lambda: svm.fit(task.X, task.Y))
    W = np.column_stack([svm.coef_, svm.intercept_])
    codes = np.searchsorted(svm.classes_, task.Y)
    primal = multiclass_primal(W, np.column_stack([task.X, np.ones(task.size)]), codes, C)
    row = {"task": task.name, "method": f"liblinear tol={tol:g}", "n": task.size, "C": task.weight}
    return row | {"cpu": timed.cpu, "primal": primal, "iterations": int(svm.n_iter_)}


def run(tasks: list[Task], options: argparse.Namespace) -> list[Row]:
    """Run on covertype only."""
    return [row for t in tasks if t.name == "covertype" for row in beside(t, options.seconds)]


def beside(task: Task, seconds: float) -> list[Row]:
    """Run all methods; `excess` is the primal minus the best lower bound, in units of the loss."""
    task = all_examples(task)
    rows = []
    for method in ("1-slack cache", "1-slack cache proximal", "auto"):
        rows.append(measure(task, method, seconds=seconds))
        print(line(rows[-1]), flush=True)
    for tol in TOLERANCES:
        rows.append(peer(task, tol))
        print(line(rows[-1]), flush=True)
    floor = max(row["primal"] - row["gap"] * task.weight for row in rows if "gap" in row)
    for row in rows:
        row["excess"] = (row["primal"] - floor) / task.weight
    return rows


def says(rows: Sequence[reading.Row]) -> list[str]:
    """Describe the time and the excess of each method."""
    return [
        f"{row['method']}: after {reading.short(reading.number(row, 'cpu'))} s it is "
        f"{reading.short(reading.number(row, 'excess'))} above the best lower bound, in units of the loss."
        for row in rows
    ]
