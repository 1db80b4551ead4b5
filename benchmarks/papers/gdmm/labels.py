"""Sets of labels with weights for all pairs: GDMM beside its rivals, on the linear relaxation's objective.

Soft-BCFW (Meshi, Srebro and Hazan) is GDMM without the step of the multipliers: the penalty rho alone holds
the factors together; its solution comes the nearer, and the slower, the larger rho is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.papers.factor_graphs.__main__ import label_sets, micro_f1
from maxmargin import models, solvers
from maxmargin.data.synthetic_graphs import random_label_sets
from maxmargin.problem import Problem

Row = dict[str, Any]


def label_curves(
    names: list[str], lam: float, methods: Mapping[str, Any], seconds: float, small: bool
) -> list[Row]:
    """Rows of all methods on all sets; a method ends after so many CPU seconds of its own."""
    rows: list[Row] = []
    for name in names:
        data = made_up() if small else label_sets(name)
        for method, entry in methods.items():
            solver = getattr(solvers, entry["solver"])(**entry.get("settings", {}))
            for row in curve(data, lam, solver, seconds):
                rows.append({"task": name, "method": method, **row})
                print(rows[-1], flush=True)
    return rows


def made_up() -> tuple[Any, ...]:
    """Small sets, for a run without data."""
    return (*random_label_sets(40, random_state=0), *random_label_sets(40, random_state=1))


def curve(data: tuple[Any, ...], lam: float, solver: Any, seconds: float) -> Iterator[Row]:
    """Looks at the doubling of the CPU time, until the budget is spent; they do not count."""
    X, Y, X_test, Y_test = data
    model = models.MultiLabel(bias=1.0)
    model.initialize(X, Y)
    problem = Problem(model.bind(X, Y), C=1 / (lam * len(Y)))
    test = model.bind(X_test)
    began, looked, due, spent = time.process_time(), 0.0, seconds / 64, 0.0
    state = solver.start(problem, 1e-3, np.random.default_rng(0))
    while spent < seconds:
        solver.step(problem, state)
        spent = time.process_time() - began - looked
        if spent < due:
            continue
        due = 2 * spent
        look = time.process_time()
        w, support = solver.solution(problem, state)
        found, ceilings = problem.relaxed_bounds(w)
        row = {
            "cpu_s": spent,
            "primal": problem.objective(w, np.maximum(found, ceilings)),
            "dual": problem.dual_objective(support),
            "relaxed": support.relaxed,
            "micro_f1": micro_f1(Y_test, test.predict(w, 1)),
        }
        looked += time.process_time() - look
        yield row
