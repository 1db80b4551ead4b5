"""Scaling in n (Figures 1, 3 and 5), epsilon (Figure 8) and C (Figure 9): rows, then pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.papers.cutting_plane.measure import line, measure
from benchmarks.papers.cutting_plane.tasks import Task

Row = dict[str, Any]
CACHED = ("1-slack", "1-slack cache")
LABELS = {
    "cpu": "CPU seconds",
    "iterations": "iterations",
    "oracle_calls": "calls of the oracle",
    "support": "support vectors",
    "n": "examples",
    "eps": "epsilon",
    "C": "C",
}


def against_size(task: Task, sizes: Sequence[int], seconds: float) -> list[Row]:
    """Figures 1, 3 and 5. A method that runs out of time is not tried on more examples."""
    rows, slow = [], set()
    for n in sizes:
        for method in ("n-slack", *CACHED):
            if method in slow:
                continue
            rows.append(measure(task.first(n), method, seconds=seconds))
            print(line(rows[-1]), flush=True)
            if rows[-1]["status"] != "solved":
                slow.add(method)
    return rows


def against(task: Task, name: str, values: Sequence[float], seconds: float) -> list[Row]:
    """Figure 8 (name "eps") or 9 (name "weight")."""
    rows = []
    for value in values:
        for method in CACHED:
            rows.append(measure(task, method, seconds=seconds, **{name: value}))
            print(line(rows[-1]), flush=True)
    return rows


def draw(rows: list[Row], across: str, columns: Sequence[str], path: Path) -> None:
    """One column of pictures for each task, one row for each quantity; unfinished fits are left out."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    tasks = list(dict.fromkeys(row["task"] for row in rows))
    size = (4 * len(tasks), 3 * len(columns))
    figure, axes = pyplot.subplots(len(columns), len(tasks), figsize=size, squeeze=False)
    for j, task in enumerate(tasks):
        for i, name in enumerate(columns):
            axis = axes[i][j]
            for method in dict.fromkeys(row["method"] for row in rows):
                own = [r for r in rows if r["task"] == task and r["method"] == method]
                own = [row for row in own if row["status"] == "solved"]
                axis.loglog([r[across] for r in own], [r[name] for r in own], "o-", label=method)
            axis.set(xlabel=LABELS[across], ylabel=LABELS[name])
            if i == 0:
                axis.set_title(task)
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
