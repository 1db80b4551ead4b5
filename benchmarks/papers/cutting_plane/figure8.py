"""Figures 8 and 9: iterations and oracle calls of 1-slack against epsilon and against C."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from benchmarks.papers import rows as reading
from benchmarks.papers.cutting_plane import figures
from benchmarks.papers.cutting_plane.measure import line, measure
from benchmarks.papers.cutting_plane.tasks import Task

FACTORS = (0.01, 0.1, 1.0)  # multiples of the paper's C
EPSILONS = (30.0, 10.0, 3.0, 1.0)  # multiples of the paper's epsilon


def against(
    tasks: list[Task], name: str, factors: Sequence[float], seconds: float
) -> list[dict[str, Any]]:
    """Make the rows of Figure 8 (name "eps") or Figure 9 (name "weight")."""
    found = []
    for task in tasks:
        for factor in factors:
            for method in figures.CACHED:
                value = {name: factor * getattr(task, name)}
                found.append(measure(task, method, seconds=seconds, **value))
                print(line(found[-1]), flush=True)
    return found


def epsilon(tasks: list[Task], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Make Figure 8."""
    found = against(tasks, "eps", EPSILONS, options.seconds)
    figures.draw(found, "eps", ("iterations", "oracle_calls"), options.out / "epsilon.png")
    return found


def weight(tasks: list[Task], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Make Figure 9."""
    found = against(tasks, "weight", FACTORS, options.seconds)
    figures.draw(found, "C", ("iterations", "oracle_calls"), options.out / "weight.png")
    return found


def says_epsilon(rows: Sequence[reading.Row]) -> list[str]:
    """Describe the exponents of 1/epsilon."""
    return powers(rows, "eps", -1.0, "1/epsilon")


def says_weight(rows: Sequence[reading.Row]) -> list[str]:
    """Describe the exponents of C."""
    return powers(rows, "C", 1.0, "C")


def powers(rows: Sequence[reading.Row], across: str, sign: float, name: str) -> list[str]:
    """Describe iterations without the cache and calls with it as powers."""
    found = []
    for task in reading.values(rows, "task"):
        plain, cached = (
            reading.chosen(rows, task=task, method=m, status="solved") for m in figures.CACHED
        )
        for what, own, column in (
            ("iterations without the cache", plain, "iterations"),
            ("oracle calls with the cache", cached, "oracle_calls"),
        ):
            if len(own) > 1:
                power = f"grow as ({name})^{sign * reading.growth(own, across, column):.2f}"
            else:
                power = "cannot be compared: fewer than two fits were solved in time"
            found.append(f"{task}: {what} {power}.")
    return [
        *found,
        f"The paper: iterations grow slower than {name}; calls with the cache hardly grow.",
    ]
