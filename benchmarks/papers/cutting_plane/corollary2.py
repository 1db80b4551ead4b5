"""Corollary 2: training with k basis functions takes O(n k + k^3) beside the oracle.

With the kernel itself it takes O(n^2). The task is USPS digits with a Gaussian kernel and 1-slack.
The table shows accuracy, objective and CPU time against k, and for the kernel itself. The paper has
the bound but no numbers. The span of the basis is a smaller space, so the optimum in it is no
better than the optimum with the kernel.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from typing import Any

import maxmargin as mm
from benchmarks import datasets
from benchmarks.papers import rows as reading
from benchmarks.papers.cutting_plane import figures
from benchmarks.papers.cutting_plane.measure import line
from maxmargin import models, solvers

RANKS = (25, 50, 100, 200, 400, 800)
GAMMA, WEIGHT, EPS = 0.01, 1e4, 1e-2  # C' and epsilon for a loss of at most one
EXACT = 3000  # number of examples on which the kernel itself is compared with the basis


def run(unused: Any, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Fit all ranks on all examples and on the first ones; fit the kernel on the first ones."""
    data = datasets.usps("raw", small=options.small)
    few = min(EXACT, len(data.Y_train))
    ranks = (5, 20) if options.small else RANKS
    wanted = [
        (few, None),
        *((few, k) for k in ranks),
        *((data.size, k) for k in ranks if data.size > few),
    ]
    found = []
    for n, rank in wanted:
        found.append(measured(data, n, rank, options.seconds))
        print(line(found[-1]), flush=True)
    curves = [row | {"task": "usps", "method": f"n = {row['n']}"} for row in found if row["rank"]]
    figures.draw(curves, "rank", ("test_score", "cpu", "primal"), options.out / "corollary2.png")
    return found


def measured(data: Any, n: int, rank: int | None, seconds: float) -> dict[str, Any]:
    """Measure one fit, with the time of the basis included."""
    kernel = models.Kernel(models.Multiclass(), "rbf", gamma=GAMMA, rank=rank)
    solver = solvers.OneSlack(cache=10)
    own = {"tol": EPS, "max_passes": 1e6, "max_seconds": seconds, "random_state": 0}
    svm = mm.StructuralSVM(kernel, C=WEIGHT / n, solver=solver, **own)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svm.fit(data.X_train[:n], data.Y_train[:n])
    cpu, found = time.process_time() - began, svm.certificate_
    score = 100 * svm.score(data.X_test, data.Y_test)
    row = {
        "n": n,
        "rank": rank,
        "cpu": cpu,
        "test_score": score,
        "primal": found.primal,
        "gap": found.gap,
    }
    return row | {"oracle_calls": found.oracle_calls, "status": found.status}


def says(rows: Sequence[reading.Row]) -> list[str]:
    """Describe accuracy and time of the basis beside the kernel."""
    (exact,) = (row for row in rows if not row["rank"])
    same = [row for row in rows if row["rank"] and row["n"] == exact["n"]]
    ranks = ", ".join(row["rank"] for row in same)
    scores = ", ".join(f"{reading.number(row, 'test_score'):.2f}" for row in same)
    times = reading.listed([reading.number(row, "cpu") for row in same])
    sentences = [
        f"{exact['n']} digits, k = {ranks}: {scores} % are right, in {times} s. With the kernel itself, "
        f"{reading.number(exact, 'test_score'):.2f} % are right in "
        f"{reading.short(reading.number(exact, 'cpu'))} s ({exact['status']})."
    ]
    sizes = reading.values(rows, "n")
    if len(sizes) > 1:
        for rank in reading.values(same, "rank"):
            pair = [row for row in rows if row["rank"] == rank]
            sentences.append(
                f"k = {rank}: CPU time grows as n^{reading.growth(pair, 'n', 'cpu'):.2f}."
            )
    return sentences
