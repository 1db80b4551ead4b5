"""The distance of the dual to the best one, and test accuracy, against CPU seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Row = dict[str, Any]


def distances(rows: list[Row]) -> list[Row]:
    """Return each row of a curve with |f* - f| / |f*|.

    f* is the best dual of the same task and method.
    """
    best: dict[tuple, float] = {}
    for row in rows:
        key = row["task"], row["method"]
        best[key] = max(best.get(key, row["dual"]), row["dual"])
    return [
        row
        | {
            "distance": abs(best[row["task"], row["method"]] - row["dual"])
            / best[row["task"], row["method"]]
        }
        for row in rows
    ]


def draw(rows: list[Row], columns: dict[str, str], path: Path) -> None:
    """Draw one column of pictures per task, one row per quantity."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    tasks = list(dict.fromkeys(row["task"] for row in rows))
    size = (4.5 * len(tasks), 3.2 * len(columns))
    figure, axes = pyplot.subplots(len(columns), len(tasks), figsize=size, squeeze=False)
    for j, task in enumerate(tasks):
        for i, (name, label) in enumerate(columns.items()):
            axis = axes[i][j]
            for method in dict.fromkeys(row["method"] for row in rows):
                own = [r for r in rows if r["task"] == task and r["method"] == method]
                own = [r for r in own if r.get(name) is not None]
                axis.plot([r["cpu"] for r in own], [r[name] for r in own], ".-", label=method)
            axis.set(xlabel="CPU seconds", ylabel=label, xscale="log", title=task)
            if name == "distance" and any(row[name] > 0 for row in rows if row["task"] == task):
                axis.set_yscale("log")
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
