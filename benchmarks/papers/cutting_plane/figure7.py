"""Figure 7: the dual of 1-slack relative to that of n-slack over C, and both test scores."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from benchmarks.papers import rows as reading
from benchmarks.papers.cutting_plane import figures
from benchmarks.papers.cutting_plane.measure import line, measure
from benchmarks.papers.cutting_plane.table1 import PAPER
from benchmarks.papers.cutting_plane.tasks import Task

FACTORS = (0.0001, 0.001, 0.01, 0.1, 1.0)  # of the paper's C


def run(tasks: list[Task], options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each task and C; C from which n-slack runs out of time are the last of a task."""
    found = []
    for task in tasks:
        for factor in FACTORS:
            weight = factor * task.weight
            one, many = (
                measure(task, method, weight, seconds=options.seconds, test=True)
                for method in ("1-slack cache", "n-slack")
            )
            found.append(beside(one, many))
            print(line(found[-1]), flush=True)
            if found[-1]["status"] != "solved":
                break
    figures.draw(found, "C", ("relative_difference",), options.out / "duals.png", scale="semilogx")
    return found


def beside(one: dict[str, Any], many: dict[str, Any]) -> dict[str, Any]:
    """Two fits as one row."""
    row = {name: one[name] for name in ("task", "n", "C", "eps")} | {
        "method": "1-slack / n-slack - 1"
    }
    row |= {"dual": one["dual"], "n_slack_dual": many["dual"]}
    row["relative_difference"] = one["dual"] / many["dual"] - 1
    row["allowed"] = one["C"] * one["eps"] / many["dual"]  # both gaps are at most C eps
    row |= {"test_score": one["test_score"], "n_slack_test_score": many["test_score"]}
    both = {one["status"], many["status"]}
    return row | {"status": "solved" if both == {"solved"} else " / ".join(sorted(both))}


def says(rows: Sequence[reading.Row]) -> list[str]:
    """Differences, and scores beside the paper's."""
    found = []
    for task in reading.values(rows, "task"):
        own = reading.chosen(rows, task=task, status="solved")
        if not own:
            found.append(f"{task}: not solved in time.")
            continue
        worst = max(abs(reading.number(row, "relative_difference")) for row in own)
        within = all(
            abs(reading.number(r, "relative_difference")) <= reading.number(r, "allowed")
            for r in own
        )
        score = [
            f"{reading.number(own[-1], name):.2f}" for name in ("test_score", "n_slack_test_score")
        ]
        paper = (
            "; the paper's at its C: {} and {} %".format(*PAPER[task][5]) if task in PAPER else ""
        )
        found.append(
            f"{task}: duals differ by {100 * worst:.2g} % at most, "
            f"{'all' if within else 'not all'} within what "
            f"the two gaps allow; test scores at the last C: {score[0]} and {score[1]} %{paper}."
        )
    return found
