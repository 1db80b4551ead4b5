"""One fit of one method on one task: the columns of the paper's Table 1, and more."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from benchmarks.papers.cutting_plane.tasks import Task
from benchmarks.timing import best_of
from maxmargin import solvers

Row = dict[str, Any]


@dataclass(frozen=True)
class WatchedOneSlack(solvers.OneSlack):
    """1-slack that keeps its last state, to count its cuts."""

    states: list = field(default_factory=list, compare=False)

    def start(self, *arguments: Any, **named: Any) -> Any:
        self.states.append(super().start(*arguments, **named))
        return self.states[-1]


METHODS: dict[str, Any] = {
    "n-slack": lambda: solvers.NSlack(),
    "1-slack": lambda: WatchedOneSlack(cache=0),
    "1-slack cache": lambda: WatchedOneSlack(cache=10),
    "1-slack cache proximal": lambda: WatchedOneSlack(cache=10, proximal=True),
    "auto": lambda: "auto",
}


MOST_SECONDS = {"n-slack": 120.0}  # the paper's took days


def measure(
    task: Task,
    method: str,
    weight: float | None = None,
    eps: float | None = None,
    seconds: float = 600.0,
    test: bool = False,
) -> Row:
    """Train `task` by a method of METHODS; CPU seconds are those of the whole fit."""
    weight, eps = weight or task.weight, eps or task.eps
    seconds = min(seconds, MOST_SECONDS.get(method, seconds))
    solver = METHODS[method]()
    svm = mm.StructuralSVM(
        task.model(),
        C=weight / task.size,
        solver=solver,
        tol=eps,
        max_passes=1e6,
        max_seconds=seconds,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        timed = best_of(1, lambda: svm.fit(task.X, task.Y))
    found = svm.certificate_
    row: Row = {
        "task": task.name,
        "method": method,
        "n": task.size,
        "N": len(svm.coef_),
        "C": weight,
        "eps": eps,
        "cpu": timed.cpu,
        "oracle_calls": found.oracle_calls,
        "iterations": len(svm.history_["gap"]),
        "support": found.support,
        "gap": found.gap,
        "primal": found.primal,
        "status": found.status,
    }
    if isinstance(solver, WatchedOneSlack):
        row["iterations"] = solver.states[-1].rounds
        row["support"] = int(np.count_nonzero(solver.states[-1].beta))
    if test:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a sentence without a parse scores as it does
            row["test_score"] = svm.score(task.X_test, task.Y_test)
    return row


def line(row: Row) -> str:
    """A row for the screen."""
    return "  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
