"""Figure 2: GDMM beside Soft-BCFW in passes and in time, with and without sublinear oracles; and
its rate.

Soft-BCFW (Meshi, Srebro and Hazan) is GDMM without the step of the multipliers (`eta=0`): only the
penalty rho holds the factors together. "exhaustive" finds the same best pairs by looking at all of
them.
"Algorithm 1 alone" is GDMM on chains without sweeps and without a proximal term, neither of which
the
paper has. The rows of Soft-BCFW on chains have neither of them, too.

Theorems 1 and 2 promise O(log 1/epsilon) passes: the gap falls by the same factor in every pass,
which
gives a straight line over passes on a logarithmic scale. `factor_of_ten_passes` is fitted to the
later
half of the evaluations of a method. `straight` is the share of the variance of log gap that the
line
explains.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.papers.factor_graphs.__main__ import label_sets
from benchmarks.papers.gdmm.labels import made_up
from benchmarks.papers.gdmm.tasks import load
from maxmargin import models, solvers
from maxmargin.problem import Problem

Row = dict[str, Any]
LOOKS_PER_DOUBLING = 2


def passes_and_time(config: Row, small: bool) -> tuple[list[Row], list[Row]]:
    """Return a row for each evaluation of each method on each task, and a row for the rate of each."""
    rows: list[Row] = []
    for task in config["tasks"]:
        problem = problem_of(task, small)
        passes = 8 if small else task["passes"]
        for name in task["methods"]:
            settings = dict(config["methods"][name])
            on_chains = settings.pop("chain", {})
            solver = solvers.Gdmm(**settings, **(on_chains if task["kind"] == "chain" else {}))
            for row in looks(problem, solver, passes, task["seconds"]):
                rows.append({"task": task["data"], "method": name, **row})
                print(rows[-1], flush=True)
    return rows, rates(rows)


def problem_of(task: Row, small: bool) -> Problem:
    """Return the problem of a task: a chain, or sets of labels."""
    if task["kind"] == "labels":
        X, Y, *_ = made_up() if small else label_sets(task["data"])
        model: Any = models.MultiLabel(bias=1.0)
    else:
        data = load(task["data"], task["most"], small)
        X, Y, model = data.X_train, data.Y_train, models.Chain()
    n = min(len(Y), task["most"])
    model.initialize(X[:n], Y[:n])
    return Problem(model.bind(X[:n], Y[:n]), C=1 / (task["lambda"] * n))


def looks(problem: Problem, solver: Any, passes: int, seconds: float) -> Iterator[Row]:
    """Evaluate both bounds after numbers of passes that grow geometrically.

    The time of evaluations does not count.
    """
    state = solver.start(problem, 1e-9, np.random.default_rng(0))
    spent, due = 0.0, 1.0
    for number in range(1, passes + 1):
        began = time.process_time()
        solver.step(problem, state)
        spent += time.process_time() - began
        if number < due and number < passes and spent < seconds:
            continue
        due = max(number + 1, due * 2 ** (1 / LOOKS_PER_DOUBLING))
        bounds = problem.certify(*solver.solution(problem, state))
        gap = (bounds.primal - bounds.dual) / problem.total
        yield {
            "pass": number,
            "cpu_s": spent,
            "primal": bounds.primal,
            "dual": bounds.dual,
            "gap": gap,
        }
        if spent >= seconds:
            return


def rates(rows: list[Row]) -> list[Row]:
    """Fit a straight line through log gap over passes, for each method on each task."""
    found = []
    for task, method in dict.fromkeys((row["task"], row["method"]) for row in rows):
        own = [row for row in rows if (row["task"], row["method"]) == (task, method)]
        late = [row for row in own[len(own) // 2 :] if row["gap"] > 0]
        if len(late) < 3:
            continue
        x, y = np.array([row["pass"] for row in late]), np.log10([row["gap"] for row in late])
        slope, level = np.polyfit(x, y, 1)
        left = float(
            ((y - slope * x - level) ** 2).sum() / max(((y - y.mean()) ** 2).sum(), 1e-300)
        )
        found.append(
            {
                "task": task,
                "method": method,
                "passes": int(x[-1]),
                "last_gap": float(10 ** y[-1]),
                "factor_of_ten_passes": float(10 ** (10 * slope)),
                "straight": 1 - left,
            }
        )
        print(found[-1], flush=True)
    return found
