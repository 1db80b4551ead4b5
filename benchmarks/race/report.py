"""The CSV files and the plot of a race."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.race.runner import Outcome
from benchmarks.timing import write_csv

Row = dict[str, Any]


def write(outcome: Outcome, folder: Path, name: str) -> list[Path]:
    """Write results, curves and plot of one race; return the written files."""
    results, curves = folder / f"{name}.csv", folder / f"{name}-curves.csv"
    write_csv(results, outcome.rows)
    write_csv(curves, outcome.curves)
    picture = folder / f"{name}.png"
    draw(outcome, picture, name)
    return [results, curves, picture]


def draw(outcome: Outcome, path: Path, title: str) -> None:
    """Draw the gap against passes and against CPU seconds, one column per lambda."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    lambdas = list(dict.fromkeys(row["lambda"] for row in outcome.curves))
    tightest = min(row["tol"] for row in outcome.curves)
    figure, axes = pyplot.subplots(
        2, len(lambdas), figsize=(4 * len(lambdas), 7), squeeze=False, sharey=True
    )
    for column, value in enumerate(lambdas):
        chosen = [c for c in outcome.curves if c["lambda"] == value and c["tol"] == tightest]
        for line, unit in enumerate(("passes", "seconds")):
            _draw_gaps(axes[line, column], chosen, unit)
            axes[line, column].axhline(tightest, color="grey", linewidth=0.8)
        axes[0, column].set_title(f"lambda {value:g}")
        _draw_peers(
            axes[1, column], [row for row in outcome.rows if "oracle_calls" not in row], value
        )
    axes[0, 0].set_ylabel("duality gap")
    axes[1, 0].set_ylabel("duality gap")
    axes[1, -1].legend(fontsize=7)
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _draw_gaps(axis: Any, curves: list[Row], unit: str) -> None:
    for solver in dict.fromkeys(curve["solver"] for curve in curves):
        own = [curve for curve in curves if curve["solver"] == solver]
        # Between exact passes, a solver has only its running estimate.
        gaps = [c["gap"] if np.isfinite(c["gap"]) else c["estimate"] for c in own]
        axis.loglog([c[unit] for c in own], gaps, marker=".", markersize=4, label=solver)
    axis.set_xlabel(unit)
    axis.grid(alpha=0.3)


def _draw_peers(axis: Any, rows: list[Row], value: float) -> None:
    # A peer has no curve of our gap, so a vertical line marks the time of its training.
    for number, row in enumerate(row for row in rows if row.get("lambda") in (None, value)):
        style = ("--", ":", "-.")[number % 3]
        axis.axvline(row["train_cpu"], color="black", linestyle=style, label=row["solver"])
