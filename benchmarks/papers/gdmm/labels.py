"""Sets of labels with weights for all pairs: GDMM beside its rivals, on the linear relaxation's
objective.

Soft-BCFW (Meshi, Srebro and Hazan) is GDMM without the step of the multipliers: only the penalty
rho
holds the factors together. With a larger rho its solution is closer to the optimum, but takes
longer.

The relaxation's objective (`primal`) is computed exactly for all methods, by roof duality, which
takes
0.1 to 0.35 s an example with a thousand labels. If a task has a `sample` of its training examples,
all
methods get an estimate from it instead (`sampled`, with its standard error). The methods in its
`proven`
also get an upper bound on all examples from the prices of pairs, which takes milliseconds an
example
(docs/solvers.md).

BCFW, Proximal and Subgradient minimise the objective of labellings, which is not higher.
`labellings` is
an upper bound of it at the same w. The task's `labellings` says when it is computed, since the
proof of
every argmax may be too expensive: "always", at the "last" evaluation, or "never".

A limit of CPU seconds may end a method inside a step. Then `ended` says so, and `steps` counts only
whole steps.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.papers.factor_graphs.__main__ import label_sets, micro_f1, rcv1
from benchmarks.timing import cpu_deadline
from maxmargin import models, solvers
from maxmargin.data.synthetic_graphs import random_label_sets
from maxmargin.problem import Problem
from maxmargin.runtime.deadline import TimeUp

Row = dict[str, Any]
INSIDE = "inside a step"


def label_curves(
    tasks: list[Row], lam: float, methods: Mapping[str, Any], small: bool
) -> list[Row]:
    """Make the rows of all methods on all tasks."""
    rows: list[Row] = []
    for task in tasks:
        race = Race(made_up() if small else load(task), lam, task)
        for method in task.get("methods", methods):
            entry = methods[method]
            solver = getattr(solvers, entry["solver"])(**entry.get("settings", {}))
            race.proven = method in task.get("proven", ())
            for row in race.curve(solver):
                rows.append({"task": task.get("name", task["data"]), "method": method, **row})
                print(rows[-1], flush=True)
    return rows


def load(task: Row) -> tuple[Any, ...]:
    """Return X and Y of both parts, limited to the task's `most` and `most_test` if it has them."""
    X, Y, X_test, Y_test = rcv1() if task["data"] == "rcv1" else label_sets(task["data"])
    n, m = task.get("most", len(Y)), task.get("most_test", len(Y_test))
    return X[:n], Y[:n], X_test[:m], Y_test[:m]


def made_up() -> tuple[Any, ...]:
    """Make small sets for a run without data."""
    return (*random_label_sets(40, random_state=0), *random_label_sets(40, random_state=1))


class Race:
    """One task, on which each method makes a curve."""

    def __init__(self, data: tuple[Any, ...], lam: float, task: Row):
        X, Y, self.X_test, self.Y_test = data
        self.model = models.MultiLabel(bias=1.0)
        self.model.initialize(X, Y)
        self.examples = self.model.bind(X, Y)
        self.problem = Problem(self.examples, C=1 / (task.get("lambda", lam) * len(Y)))
        self.test = self.model.bind(self.X_test)
        self.seconds, self.looks = task["seconds"], task.get("looks", 7)
        self.labellings = task.get("labellings", "always")
        self.proven, self.sample = False, None
        if "sample" in task:
            chosen = np.random.default_rng(0).permutation(len(Y))[: task["sample"]]
            self.sample = self.model.bind(X[chosen], Y[chosen])

    def curve(self, solver: Any) -> Iterator[Row]:
        """Yield evaluations at each doubling of the CPU time until the budget is spent.

        The time of evaluations does not count.
        """
        problem = self.problem
        began = time.process_time()
        state = solver.start(problem, 1e-3, np.random.default_rng(0))
        spent, due, steps = time.process_time() - began, self.seconds / 2 ** (self.looks - 1), 0
        while spent < self.seconds:
            began = time.process_time()
            whole = self.step(solver, state, self.seconds - spent)
            spent += time.process_time() - began
            steps += whole
            if spent < due and spent < self.seconds and whole:
                continue
            due = 2 * spent
            asked = "always" if spent < self.seconds and whole else "last"
            row = self.look(*solver.solution(problem, state), self.labellings in ("always", asked))
            yield {"steps": steps, "ended": "" if whole else INSIDE, "cpu_s": spent, **row}
            if not whole:
                return

    def step(self, solver: Any, state: Any, seconds: float) -> bool:
        """Take a step; return False if the time was up in the middle of it."""
        try:
            with cpu_deadline(seconds):
                solver.step(self.problem, state)
        except TimeUp:
            return False
        return True

    def look(self, w: np.ndarray, support: Any, labellings: bool) -> Row:
        """Return the objectives, the dual, and the score on new rows."""
        problem = self.problem
        return {
            **self.relaxation(w, support),
            "labellings": problem.objective(w) if labellings else np.nan,
            "dual": problem.dual_objective(support),
            "relaxed": support.relaxed,
            "micro_f1": micro_f1(self.Y_test, self.test.predict(w, 1)),
        }

    def relaxation(self, w: np.ndarray, support: Any) -> Row:
        """Return the relaxation's objective; with a sample, an estimate and, if asked, a proven bound."""
        problem = self.problem
        if self.sample is None:
            return {"primal": problem.objective(w, np.maximum(*problem.relaxed_bounds(w)))}
        slacks = np.maximum(*self.sample.relaxed_slacks(w, 1))
        error = float(problem.mass.sum() * slacks.std(ddof=1) / np.sqrt(len(slacks)))
        row = {"primal": np.nan}
        if self.proven:
            proven = np.maximum(*problem.relaxed_bounds(w, support.prices))
            row["primal"] = problem.objective(w, proven)
        mean = np.full(problem.n_blocks, slacks.mean())
        return {**row, "sampled": problem.objective(w, mean), "sampled_error": error}


def oracle_costs(tasks: list[Row], lam: float, small: bool, passes: int = 20) -> list[Row]:
    """Measure the joint oracle after some passes: the weights it looks at in a visit, and its time.

    The time of a look at all pairs is measured for comparison.
    """
    rows: list[Row] = []
    for task in (
        each for each in tasks if "name" not in each
    ):  # a named task uses a set that another task already measures
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
