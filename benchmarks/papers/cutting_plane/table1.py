"""Table 1: CPU time, oracle calls and support vectors of 1-slack with its cache and of n-slack.

The table also has the test scores of Figure 7, the library's default solver, and the paper's
n-slack algorithm without changes, which is stopped after a minute.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from benchmarks.papers import rows as reading
from benchmarks.papers.cutting_plane.measure import line, measure
from benchmarks.papers.cutting_plane.tasks import Task

METHODS = ("1-slack cache", "n-slack", "n-slack printed", "auto")
# n, N; hours, oracle calls, support vectors, test score (percent) of 1-slack and of n-slack
PAPER: dict[str, tuple] = {
    "covertype": (
        *(522_911, 378, (1.05, 1180.56), (4_183_288, 10_981_131)),
        *((98, 334_524), (72.33, 72.35)),
    ),
    "treebank-tags": (
        *(35_531, 18_573_781, (0.90, 177.0), (1_314_647, 4_476_906)),
        *((139, 83_126), (96.71, 96.69)),
    ),
    "treebank-parses": (
        *(9780, 154_655, (2.90, 8.52), (224_940, 479_220)),
        *((70, 12_890), (70.22, 70.09)),
    ),
}
ORACLE_SHARES = {"covertype": "less than 1", "treebank-tags": "15", "treebank-parses": "98"}
NAMES = ("hours", "calls", "support", "score")


def run(tasks: list[Task], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run all methods on all tasks."""
    found = []
    for task in tasks:
        for method in METHODS:
            row = measure(task, method, seconds=options.seconds, test=True)
            found.append(row | of_paper(task.name, method))
            print(line(found[-1]), flush=True)
    return found


def of_paper(task: str, method: str) -> dict[str, float]:
    """Return the paper's entries for a row."""
    if task not in PAPER or method not in ("1-slack cache", "n-slack"):
        return {}
    column = ("1-slack cache", "n-slack").index(method)
    entries = {f"paper_{name}": PAPER[task][2 + k][column] for k, name in enumerate(NAMES)}
    return {"paper_n": PAPER[task][0], "paper_N": PAPER[task][1], **entries}


def says(rows: Sequence[reading.Row]) -> list[str]:
    """Describe the results."""
    found = []
    for task in reading.values(rows, "task"):
        own = {row["method"]: row for row in reading.chosen(rows, task=task)}
        one, many = own["1-slack cache"], own["n-slack"]
        found.append(
            f"{task}: n-slack {'takes' if many['status'] == 'solved' else '(not finished) took'} "
            f"{ratio(many, one, 'cpu')} times the CPU time, "
            f"{ratio(many, one, 'oracle_calls')} times the oracle calls and {ratio(many, one, 'support')} "
            f"times the support vectors of 1-slack with its cache{paper_ratios(task)}."
        )
        found += [unfinished(row) for row in own.values() if row["status"] != "solved"]
        if {one["status"], many["status"]} == {"solved"} and reading.over(many, one, "cpu") < 1:
            found.append(
                f"{task}: unlike in the paper, n-slack is faster. The quadratic program takes "
                f"{100 * reading.number(one, 'qp_share'):.0f} % of the time of 1-slack. The program of "
                "n-slack is solved by compiled steps on single examples, starting from its last solution."
            )
        shares = [
            f"{100 * reading.number(one, name):.0f} %" for name in ("oracle_share", "qp_share")
        ]
        claim = f" (the paper: {ORACLE_SHARES[task]} %)" if task in ORACLE_SHARES else ""
        found.append(
            f"{task}: the oracle takes {shares[0]} of the time of 1-slack{claim}, and the quadratic program "
            f"takes {shares[1]}. Cuts from the cache and the certificate take the rest."
        )
        found.append(
            f"{task}: `auto` takes {reading.short(reading.number(own['auto'], 'cpu'))} s, 1-slack "
            f"{ratio(one, own['auto'], 'cpu')} times as much."
        )
    return found


def unfinished(row: reading.Row) -> str:
    """Say why a fit ended, and how far it had come."""
    gap, eps = (reading.number(row, name) for name in ("gap", "eps"))
    return (
        f"{row['task']}: {row['method']} was ended by its {row['status']} at a gap of "
        f"{reading.short(gap)}, {reading.short(gap / eps)} times the requested gap. Its numbers are from "
        "that moment."
    )


def ratio(above: reading.Row, below: reading.Row, name: str) -> str:
    """Format the ratio of two entries."""
    return reading.short(reading.over(above, below, name))


def paper_ratios(task: str) -> str:
    """Format the same ratios of the paper's numbers."""
    if task not in PAPER:
        return ""
    hours, calls, support = (PAPER[task][k] for k in (2, 3, 4))
    three = reading.listed([b / a for a, b in (hours, calls, support)])
    return f"; in the paper {three} times"
