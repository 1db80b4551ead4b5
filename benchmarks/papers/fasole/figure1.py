"""Figure 1: primal sub-optimality and test risk against passes and time, at the paper's lambda of
each set.

After a step, an exact pass and the test set evaluate w; the time of evaluations does not count.
P(w*)
is the largest dual value that any method reached, as in the paper.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.datasets import Dataset
from benchmarks.papers import rows as reading
from benchmarks.race import ours
from maxmargin import solvers
from maxmargin.problem import Problem

Row = dict[str, Any]
# CPU seconds of a curve; with less, the curves of slow methods end far from the optimum
LONGEST = 60.0
METHODS = ("fasole", "sdm", "bcfw", "cpa")


def run(config: dict[str, Any], sets: Sequence[Dataset], small: bool) -> list[Row]:
    """Make all curves; `distance` is (P(w) - P(w*)) / P(w*)."""
    seconds = 0.3 if small else min(LONGEST, config["max_seconds"])
    rows: list[Row] = []
    for data in sets:
        regularization = config["figures"][data.name]
        tol = {table["data"]: table.get("tol") for table in config["tables"]}[data.name]
        own = []
        for name in METHODS:
            choice = config["methods"][name]
            solver = getattr(solvers, choice["solver"])(**choice["settings"])
            for row in curve(data, regularization, solver, tol or config["tol"], seconds):
                own.append({"data": data.name, "lambda": regularization, "method": name} | row)
            print(own[-1], flush=True)
        best = max(row["dual"] for row in own)
        rows += [row | {"distance": (row["primal"] - best) / best} for row in own]
    return rows


def curve(
    data: Dataset, regularization: float, solver: Any, tol: float, seconds: float
) -> Iterator[Row]:
    """Evaluate w until the gap is tol or the time is used up; the last step may take longer."""
    model = ours.model_of(data)
    model.initialize(data.X_train, data.Y_train)
    C = 1 / (regularization * data.unit * data.size)
    problem = Problem(model.bind(data.X_train, data.Y_train), C=C)
    test = model.bind(data.X_test)
    began, looked, spent, calls, gap = time.process_time(), 0.0, 0.0, 0, np.inf
    state = solver.start(problem, tol / data.unit, np.random.default_rng(0))
    while spent < seconds and gap > tol:
        calls += solver.step(problem, state).oracle_calls
        spent = time.process_time() - began - looked
        if spent < looked and spent < seconds:  # evaluations take at most half of the whole time
            continue
        look = time.process_time()
        w, support = solver.solution(problem, state)
        bounds = problem.certify(w, support)
        scale = data.unit / problem.total
        gap = (bounds.primal - bounds.dual) * scale
        error = data.scores(test.predict(w, 1))
        looked += time.process_time() - look
        yield {
            "passes": calls / data.size,
            "cpu": spent,
            "primal": bounds.primal * scale,
            "dual": bounds.dual * scale,
            "gap": gap,
        } | error


def says(rows: Sequence[reading.Row]) -> list[str]:
    """Say when each method comes close; in the paper, FASOLE leads from the beginning to the end."""
    found = []
    for data in reading.values(rows, "data"):
        for near in (0.1, 0.01, 0.001):
            times, passes = [], {}
            for method in METHODS:
                own = reading.chosen(rows, data=data, method=method)
                there = [row for row in own if reading.number(row, "distance") <= near]
                passes[method] = reading.number(there[0], "passes") if there else math.inf
                shown = (
                    f"{reading.number(there[0], 'passes'):.1f} in {reading.number(there[0], 'cpu'):.2g} s"
                    if there
                    else "never"
                )
                times.append(f"{method} {shown}")
            found.append(f"{data}, passes to a relative distance of {near:g}: {', '.join(times)}.")
            level = [m for m in METHODS[1:] if passes[m] <= passes[METHODS[0]] < math.inf]
            if level:
                found[-1] += f" Not behind FASOLE here: {', '.join(level)}."
    return [
        *found,
        "The paper: FASOLE is ahead of the others from the beginning to the end, in passes.",
    ]


def draw(rows: list[Row], path: Path) -> None:
    """Draw distance and test risk against passes and against time, a row of panels per data set."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sets = list(dict.fromkeys(row["data"] for row in rows))
    size = (16, 3.2 * len(sets))
    figure, axes = pyplot.subplots(len(sets), 4, figsize=size, squeeze=False)
    panels = [(y, x) for y in ("distance", "test_error") for x in ("passes", "cpu")]
    for line, data in zip(axes, sets, strict=True):
        for axis, (y, x) in zip(line, panels, strict=True):
            for method in METHODS:
                own = [row for row in rows if (row["data"], row["method"]) == (data, method)]
                axis.plot([row[x] for row in own], [row[y] for row in own], ".-", label=method)
            axis.set(xscale="log", title=data, xlabel=x, ylabel=y)
            if y == "distance":
                axis.set(yscale="log")
    axes[0, 0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
