"""Objective and test error against time, with exact evaluations whose time does not count."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.datasets import Dataset
from maxmargin import models, solvers
from maxmargin.metrics import tag_accuracy_score
from maxmargin.models import chain
from maxmargin.problem import Problem

Row = dict[str, Any]


def curves(data: Dataset, C: float, methods: Mapping[str, Any], seconds: float) -> list[Row]:
    """Make the rows of all methods on one task; each method has this many CPU seconds."""
    rows: list[Row] = []
    for name, entry in methods.items():
        solver = getattr(solvers, entry["solver"])(**entry.get("settings", {}))
        with full_viterbi(entry.get("full", False)):
            for row in curve(data, C, solver, seconds):
                rows.append({"task": data.name, "method": name, **row})
                print(rows[-1], flush=True)
    return rows


def curve(data: Dataset, C: float, solver: Any, seconds: float) -> Iterator[Row]:
    """Take steps until the budget is spent; the last may take longer."""
    model = models.Chain()
    model.initialize(data.X_train, data.Y_train)
    problem = Problem(model.bind(data.X_train, data.Y_train), C=C)
    test = model.bind(data.X_test)
    began, spent, step, looked = time.process_time(), 0.0, 0, 0.0
    state = solver.start(problem, 1e-3, np.random.default_rng(0))
    while spent < seconds:
        solver.step(problem, state)
        step += 1
        spent = time.process_time() - began - looked
        # evaluations are expensive: they take at most a third of the time
        if spent < 2 * looked and spent < seconds:
            continue
        look = time.process_time()
        w, support = solver.solution(problem, state)
        bounds = problem.certify(w, support)
        error = 1 - tag_accuracy_score(data.Y_test, test.predict(w, 1))
        looked += time.process_time() - look
        yield {
            "step": step,
            "cpu_s": spent,
            "primal": bounds.primal,
            "dual": bounds.dual,
            "gap": (bounds.primal - bounds.dual) / problem.total,
            "test_error": error,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


@contextmanager
def full_viterbi(full: bool) -> Iterator[None]:
    """Make chains look at every transition, however many labels there are."""
    usual = chain.MANY_LABELS
    chain.MANY_LABELS = chain.MOST_LABELS if full else usual
    try:
        yield
    finally:
        chain.MANY_LABELS = usual
