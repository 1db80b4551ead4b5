"""One fit of one method on one task, with the columns of the paper's Table 1 and more."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from benchmarks.papers.cutting_plane.tasks import Task
from benchmarks.timing import CpuLimit, best_of
from maxmargin import models, solvers
from maxmargin.data.spans import bracket_scores
from maxmargin.runtime.deadline import TimeUp

Row = dict[str, Any]


@dataclass
class Shares:
    """The CPU seconds of parts of a fit, by name, and the last state of its solver.

    No program is solved after `ends`, a moment of CPU time. `unreported` counts the oracle calls of
    the
    current step.
    """

    spent: dict[str, float] = field(default_factory=dict)
    state: Any = None
    ends: float = math.inf
    unreported: int = 0

    def timed(self, name: str, call: Callable[[], Any]) -> Any:
        """Run the call, and add its time to the total of this name."""
        began = time.process_time()
        try:
            return call()
        finally:  # also runs when a time limit ends a step in the middle
            self.spent[name] = self.spent.get(name, 0.0) + time.process_time() - began

    def program(self, call: Callable[[], Any]) -> Any:
        """Solve a program; raise TimeUp if the CPU time limit has passed.

        The limit is checked after every program, because one step solves thousands of them.
        """
        found = self.timed("qp", call)
        if time.process_time() > self.ends:
            raise TimeUp
        return found


@dataclass(frozen=True)
class WatchedOneSlack(solvers.OneSlack):
    """1-slack that keeps its last state, to count its cuts, and measures the time of its parts."""

    shares: Shares = field(default_factory=Shares, compare=False)

    def start(self, *arguments: Any, **named: Any) -> Any:
        self.shares.state = super().start(*arguments, **named)
        return self.shares.state

    def step(self, problem: Any, state: Any) -> Any:
        return self.shares.timed("step", lambda: super(WatchedOneSlack, self).step(problem, state))

    def use_cache(self, problem: Any, state: Any) -> None:
        before = self.shares.spent.get("qp", 0.0)
        self.shares.timed("cache", lambda: super(WatchedOneSlack, self).use_cache(problem, state))
        self.shares.spent["cache"] -= self.shares.spent.get("qp", 0.0) - before

    def improve(self, problem: Any, state: Any, cut: Any) -> bool:
        return self.shares.program(
            lambda: super(WatchedOneSlack, self).improve(problem, state, cut)
        )


@dataclass(frozen=True)
class WatchedNSlack(solvers.NSlack):
    """n-slack that measures the time of its parts."""

    shares: Shares = field(default_factory=Shares, compare=False)

    def step(self, problem: Any, state: Any) -> Any:
        report = self.shares.timed("step", lambda: super(WatchedNSlack, self).step(problem, state))
        self.shares.unreported = 0
        return report

    def ask(self, problem: Any, state: Any, blocks: np.ndarray) -> Any:
        self.shares.unreported += len(blocks)
        return super().ask(problem, state, blocks)

    def solve(self, problem: Any, state: Any) -> None:
        self.shares.program(lambda: super(WatchedNSlack, self).solve(problem, state))


WATCHED = (WatchedOneSlack, WatchedNSlack)
METHODS: dict[str, Any] = {
    "n-slack": WatchedNSlack,
    "n-slack printed": lambda: WatchedNSlack(batch=1, growing=False, keep=0),
    "1-slack": lambda: WatchedOneSlack(cache=0),
    "1-slack cache": lambda: WatchedOneSlack(cache=10),
    "1-slack cache proximal": lambda: WatchedOneSlack(cache=10, proximal=True),
    "auto": lambda: "auto",
}
# limits for slow methods: in the paper they took days
MOST_SECONDS = {"n-slack": 120.0, "n-slack printed": 60.0}
STOPPED = "stopped by a callback"


def measure(
    task: Task,
    method: str,
    weight: float | None = None,
    eps: float | None = None,
    seconds: float = 600.0,
    test: bool = False,
    n_jobs: int = 1,
    solver: Any = None,
) -> Row:
    """Train `task` by a method of METHODS, or by a given solver.

    CPU seconds cover the whole fit.
    """
    weight, eps = weight or task.weight, eps or task.eps
    seconds = min(seconds, MOST_SECONDS.get(method, seconds))
    solver = solver or METHODS[method]()
    svm = mm.StructuralSVM(
        task.model(),
        C=weight / task.size,
        solver=solver,
        tol=eps,
        max_passes=1e6,
        random_state=0,
        n_jobs=n_jobs,
    )
    if isinstance(solver, WATCHED):
        solver.shares.ends = time.process_time() + seconds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        timed = best_of(1, lambda: svm.fit(task.X, task.Y, callbacks=[CpuLimit(seconds)]))
    found = svm.certificate_
    row: Row = {
        "task": task.name,
        "method": method,
        "n": task.size,
        "N": len(svm.coef_),
        "C": weight,
        "eps": eps,
        "cpu": timed.cpu,
        "wall": timed.wall,
        "oracle_calls": found.oracle_calls,
        "iterations": len(svm.history_["gap"]),
        "support": found.support,
        "gap": found.gap,
        "primal": found.primal,
        "dual": found.dual,
        "status": "time limit" if found.status == STOPPED else found.status,
    }
    row |= parts(solver, timed.cpu)
    row["oracle_calls"] += row.pop("unreported", 0)
    return row | ({"test_score": test_score(svm, task)} if test else {})


def parts(solver: Any, cpu: float) -> Row:
    """Return the time shares of the oracle and of the quadratic program, and the cuts of 1-slack."""
    if not isinstance(solver, WATCHED):
        return {}
    spent = solver.shares.spent
    qp, rest = spent.get("qp", 0.0), spent.get("cache", 0.0)
    row: Row = {"oracle_share": (spent["step"] - qp - rest) / cpu, "qp_share": qp / cpu}
    row["unreported"] = solver.shares.unreported
    if isinstance(solver, WatchedOneSlack):
        row["iterations"] = solver.shares.state.rounds
        row["support"] = int(np.count_nonzero(solver.shares.state.beta))
    return row


def test_score(svm: Any, task: Task) -> float:
    """Return the share of right labels, or the F1 of brackets, in percent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a sentence without a parse warns; its score counts
        if isinstance(svm.model_, models.Grammar):
            predicted = svm.predict(task.X_test)
            return 100 * bracket_scores(task.Y_test, predicted, root=False).f1
        return 100 * svm.score(task.X_test, task.Y_test)


def line(row: Row) -> str:
    """Format a row for the screen."""
    return "  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
