"""Pictures of rows: one column of panels for each task, one row of panels for each quantity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
CACHED = ("1-slack", "1-slack cache")
LABELS = {
    "cpu": "CPU seconds",
    "iterations": "iterations",
    "oracle_calls": "calls of the oracle",
    "support": "support vectors",
    "test_score": "test score, %",
    "relative_difference": "dual of 1-slack / n-slack - 1",
    "primal": "primal",
    "n": "examples",
    "eps": "epsilon",
    "cache": "outputs kept for each example",
    "rank": "basis functions",
    "C": "C",
}


def draw(
    rows: list[Row], across: str, columns: Sequence[str], path: Path, scale: str = "loglog"
) -> None:
    """Draw quantities against one of them; unfinished fits are left out."""
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
                plot = axis.plot if scale == "linear" else getattr(axis, scale)
                plot([r[across] for r in own], [r[name] for r in own], "o-", label=method)
            axis.set(xlabel=LABELS[across], ylabel=LABELS[name])
            if i == 0:
                axis.set_title(task)
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
