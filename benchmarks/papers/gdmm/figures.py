"""Pictures of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

Row = dict[str, Any]


def domain(rows: list[Row], path: Path) -> None:
    """Draw microseconds per search against the number of labels."""
    figure = Figure(figsize=(9, 4))
    left, right = figure.subplots(1, 2)
    labels = [row["labels"] for row in rows]
    pictures = (
        (
            left,
            "exact argmax",
            {"full_us": "full Viterbi", "followed_us": "stored transitions"},
            "a position",
        ),
        (
            right,
            "best pair of a bigram",
            {"exhaustive_us": "all pairs", "ordered_us": "ordered weights"},
            "a search",
        ),
    )
    for axes, title, lines, unit in pictures:
        for (column, name), mark in zip(lines.items(), ("o-", "s-"), strict=True):
            axes.loglog(labels, [row[column] for row in rows], mark, label=name)
        axes.set_title(title)
        axes.set_xlabel("labels")
        axes.set_ylabel(f"microseconds {unit}")
        axes.legend()
    save(figure, path)


def curves(rows: list[Row], path: Path) -> None:
    """Draw the objective above the best known, and the test error, against CPU seconds.

    There is a column per task.
    """
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    colours = {name: f"C{n}" for n, name in enumerate(dict.fromkeys(r["method"] for r in rows))}
    figure = Figure(figsize=(4.5 * len(tasks), 7))
    grid = figure.subplots(2, len(tasks), squeeze=False)
    for column, task in enumerate(tasks):
        own = [row for row in rows if row["task"] == task]
        floor = max(row["dual"] for row in own)
        for method in dict.fromkeys(row["method"] for row in own):
            line = [row for row in own if row["method"] == method]
            seconds = [row["cpu_s"] for row in line]
            above = [row["primal"] / floor - 1 if floor > 0 else row["gap"] for row in line]
            errors = [row["test_error"] for row in line]
            grid[0][column].loglog(seconds, above, ".-", label=method, color=colours[method])
            grid[1][column].semilogx(seconds, errors, ".-", color=colours[method])
        grid[0][column].set_title(task)
        grid[1][column].set_xlabel("CPU seconds")
    grid[0][0].set_ylabel("objective above the best dual, relative")
    grid[1][0].set_ylabel("test error")
    for column in range(len(tasks)):
        grid[0][column].legend(fontsize="small")
    save(figure, path)


def labels(rows: list[Row], path: Path) -> None:
    """Draw the relaxed objective above the best dual of the relaxation, against CPU seconds.

    There is a column per task.
    """
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    figure = Figure(figsize=(4.5 * len(tasks), 4))
    grid = figure.subplots(1, len(tasks), squeeze=False)[0]
    for axes, task in zip(grid, tasks, strict=True):
        own = [row for row in rows if row["task"] == task]
        floor = max(row["dual"] for row in own)
        for method in dict.fromkeys(row["method"] for row in own):
            line = [row for row in own if row["method"] == method]
            above = [row["primal"] / floor - 1 if floor > 0 else row["primal"] for row in line]
            axes.loglog([row["cpu_s"] for row in line], above, ".-", label=method)
        axes.set_title(task)
        axes.set_xlabel("CPU seconds")
    grid[0].set_ylabel("objective above the best dual, relative")
    grid[0].legend()
    save(figure, path)


def iterations(rows: list[Row], path: Path) -> None:
    """Draw the objective above the best dual against passes and CPU time, and the gap over passes.

    The gap has a logarithmic scale.
    """
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    figure = Figure(figsize=(4.5 * len(tasks), 10))
    grid = figure.subplots(3, len(tasks), squeeze=False)
    for column, task in enumerate(tasks):
        own = [row for row in rows if row["task"] == task]
        floor = max(row["dual"] for row in own)
        for method in dict.fromkeys(row["method"] for row in own):
            line = [row for row in own if row["method"] == method]
            above = [row["primal"] / floor - 1 if floor > 0 else row["gap"] for row in line]
            passes, seconds = ([row[key] for row in line] for key in ("pass", "cpu_s"))
            grid[0][column].loglog(passes, above, ".-", label=method)
            grid[1][column].loglog(seconds, above, ".-")
            grid[2][column].semilogy(passes, [row["gap"] for row in line], ".-")
        for row, label in enumerate(("passes", "CPU seconds", "passes")):
            grid[row][column].set_xlabel(label)
        grid[0][column].set_title(task)
        grid[0][column].legend(fontsize="small")
    grid[0][0].set_ylabel("objective above the best dual, relative")
    grid[2][0].set_ylabel("proven gap: a straight line is a linear rate")
    save(figure, path)


def oracle(rows: list[Row], path: Path) -> None:
    """Draw the number of weights that the joint oracle looks at against the number of labels."""
    figure = Figure(figsize=(5, 4))
    axes = figure.subplots()
    count = [row["labels"] for row in rows]
    axes.loglog(count, [row["pairs"] for row in rows], "o-", label="pairs")
    axes.loglog(count, [row["looks"] for row in rows], "s-", label="looked at in a visit")
    axes.set_xlabel("labels")
    axes.legend()
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write a picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
