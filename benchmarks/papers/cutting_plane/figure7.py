"""Figure 7: the dual of 1-slack relative to the dual of n-slack over C, and both test scores.

`to_learn` is the difference between the objective of w = 0 and n-slack's dual, in units of the
loss. If it is at most epsilon, any small w solves the problem, and test scores cannot tell the
methods apart.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.papers import rows as reading
from benchmarks.papers.cutting_plane import figures
from benchmarks.papers.cutting_plane.measure import line, measure
from benchmarks.papers.cutting_plane.table1 import PAPER
from benchmarks.papers.cutting_plane.tasks import Task
from maxmargin.problem import Problem

LOOSE = 0.1  # fraction of the dual above which two certified solutions may differ visibly
FACTORS = (0.0001, 0.001, 0.01, 0.1, 1.0)  # multiples of the paper's C


def run(tasks: list[Task], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a row for each task and C; stop at the first C that is not solved in time."""
    found = []
    for task in tasks:
        most = greatest_loss(task)
        for factor in FACTORS:
            weight = factor * task.weight
            one, many = (
                measure(task, method, weight, seconds=options.seconds, test=True)
                for method in ("1-slack cache", "n-slack")
            )
            found.append(beside(one, many, most))
            print(line(found[-1]), flush=True)
            if found[-1]["status"] != "solved":
                break
    figures.draw(found, "C", ("relative_difference",), options.out / "duals.png", scale="semilogx")
    return found


def greatest_loss(task: Task) -> float:
    """Return the mean of max_y Delta, which is the objective of w = 0."""
    model = task.model()
    model.initialize(task.X, task.Y)
    problem = Problem(model.bind(task.X, task.Y), C=1 / task.size)
    return problem.objective(np.zeros(problem.dimension))


def beside(one: dict[str, Any], many: dict[str, Any], most: float) -> dict[str, Any]:
    """Return two fits as one row."""
    row = {name: one[name] for name in ("task", "n", "C", "eps")} | {
        "method": "1-slack / n-slack - 1"
    }
    row |= {"dual": one["dual"], "n_slack_dual": many["dual"]}
    row["relative_difference"] = one["dual"] / many["dual"] - 1
    row["allowed"] = one["C"] * one["eps"] / many["dual"]  # both gaps are at most C eps
    row["to_learn"] = most - many["dual"] / one["C"]
    row |= {"test_score": one["test_score"], "n_slack_test_score": many["test_score"]}
    both = {one["status"], many["status"]}
    return row | {"status": "solved" if both == {"solved"} else " / ".join(sorted(both))}


def says(rows: Sequence[reading.Row]) -> list[str]:
    """Describe the differences, and the scores beside the paper's."""
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
            "; in the paper at its C: {} and {} %".format(*PAPER[task][5]) if task in PAPER else ""
        )
        found.append(
            f"{task}: the duals differ by at most {100 * worst:.2g} %, "
            f"{'all' if within else 'not all'} within the difference "
            f"that the two gaps allow; test scores at the last C: {score[0]} and {score[1]} %{paper}."
        )
        loosest = max(reading.number(row, "allowed") for row in own)
        if loosest > LOOSE:
            found.append(
                f"{task}: C epsilon is up to {reading.short(loosest)} times n-slack's dual, so two "
                "solutions may differ that much; the paper says the same about its tags."
            )
        idle = [r for r in own if reading.number(r, "to_learn") <= reading.number(r, "eps")]
        if idle:
            weights = ", ".join(row["C"] for row in idle)
            found.append(
                f"{task}: for C = {weights}, w = 0 is within epsilon of the optimum. So training may end at "
                "any small w; 1-slack ends at the w of its first cuts. These scores do not compare methods."
            )
    return found
