"""Sets of labels with weights for all pairs: GDMM beside its rivals, on the linear relaxation's objective.

Soft-BCFW (Meshi, Srebro and Hazan) is GDMM without the step of the multipliers: the penalty rho alone holds
the factors together; its solution comes the nearer, and the slower, the larger rho is.

The relaxation's objective is proven for all methods alike, by roof duality; above 256 labels that of GDMM by
the prices of its pairs, a bound that takes milliseconds (docs/solvers.md). BCFW, Proximal and Subgradient
minimise that of labellings, which is not higher: `labellings` is its ceiling at the same w, where a proof of
every argmax is not too expensive (`labellings` of a task: "always", at the "last" look, or "never").
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.papers.factor_graphs.__main__ import label_sets, micro_f1, rcv1
from maxmargin import models, solvers
from maxmargin.data.synthetic_graphs import random_label_sets
from maxmargin.problem import Problem

Row = dict[str, Any]


def label_curves(
    tasks: list[Row], lam: float, methods: Mapping[str, Any], small: bool
) -> list[Row]:
    """Rows of all methods on all tasks; a method ends with the step that spends its CPU seconds."""
    rows: list[Row] = []
    for task in tasks:
        race = Race(made_up() if small else load(task), lam, task)
        for method in task.get("methods", methods):
            entry = methods[method]
            solver = getattr(solvers, entry["solver"])(**entry.get("settings", {}))
            for row in race.curve(solver):
                rows.append({"task": task.get("name", task["data"]), "method": method, **row})
                print(rows[-1], flush=True)
    return rows


def load(task: Row) -> tuple[Any, ...]:
    """X and Y of both parts; of the first `most` examples, and `most_test`, where the task says so."""
    X, Y, X_test, Y_test = rcv1() if task["data"] == "rcv1" else label_sets(task["data"])
    n, m = task.get("most", len(Y)), task.get("most_test", len(Y_test))
    return X[:n], Y[:n], X_test[:m], Y_test[:m]


def made_up() -> tuple[Any, ...]:
    """Small sets, for a run without data."""
    return (*random_label_sets(40, random_state=0), *random_label_sets(40, random_state=1))


class Race:
    """One task."""

    def __init__(self, data: tuple[Any, ...], lam: float, task: Row):
        X, Y, self.X_test, self.Y_test = data
        self.model = models.MultiLabel(bias=1.0)
        self.model.initialize(X, Y)
        self.examples = self.model.bind(X, Y)
        self.problem = Problem(self.examples, C=1 / (task.get("lambda", lam) * len(Y)))
        self.test = self.model.bind(self.X_test)
        self.seconds, self.looks = task["seconds"], task.get("looks", 7)
        self.labellings = task.get("labellings", "always")

    def curve(self, solver: Any) -> Iterator[Row]:
        """Looks at the doubling of the CPU time, until the budget is spent; they do not count."""
        problem = self.problem
        spent, due, steps = 0.0, self.seconds / 2 ** (self.looks - 1), 0
        began = time.process_time()
        state = solver.start(problem, 1e-3, np.random.default_rng(0))
        while spent < self.seconds:
            solver.step(problem, state)
            steps += 1
            spent = time.process_time() - began
            if spent < due and spent < self.seconds:
                continue
            due = 2 * spent
            look = time.process_time()
            asked = "always" if spent < self.seconds else "last"
            row = self.look(*solver.solution(problem, state), self.labellings in ("always", asked))
            yield {"steps": steps, "cpu_s": spent, **row}
            began += time.process_time() - look

    def look(self, w: np.ndarray, support: Any, labellings: bool) -> Row:
        """Both objectives, the dual, and the score on new rows."""
        problem = self.problem
        found, ceilings = problem.relaxed_bounds(w, support.prices)
        return {
            "primal": problem.objective(w, np.maximum(found, ceilings)),
            "labellings": problem.objective(w) if labellings else np.nan,
            "dual": problem.dual_objective(support),
            "relaxed": support.relaxed,
            "micro_f1": micro_f1(self.Y_test, self.test.predict(w, 1)),
        }


def oracle_costs(tasks: list[Row], lam: float, small: bool, passes: int = 20) -> list[Row]:
    """The joint oracle after some passes: weights looked at in a visit, and its time, beside all pairs."""
    rows: list[Row] = []
    for task in (
        each for each in tasks if "name" not in each
    ):  # a name: a set that is there already
        race = Race(made_up() if small else load(task), lam, task)
        solver = solvers.Gdmm()
        state = solver.start(race.problem, 1e-3, np.random.default_rng(0))
        for _ in range(3 if small else passes):
            solver.step(race.problem, state)
        labels, n = len(race.model.classes_), race.examples.n
        times, looks = {}, {}
        for exhaustive in (False, True):
            began = time.process_time()
            found = [state.core.joint_gains(i, 3, exhaustive) for i in range(min(n, 500))]
            times[exhaustive] = 1e6 * (time.process_time() - began) / len(found)
            looks[exhaustive] = float(np.mean([x[1] for x in found]))
        rows.append(
            {
                "task": task["data"],
                "labels": labels,
                "pairs": labels * (labels - 1) // 2,
                "looks": looks[False],
                "visit_us": times[False],
                "all_pairs_us": times[True],
                "active_labels": state.core.active_nodes / n,
                "active_pairs": state.core.active_links / n,
            }
        )
        print(rows[-1], flush=True)
    return rows
