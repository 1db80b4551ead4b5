"""python -m benchmarks.papers.dual_coordinate.schedules [--data NAME ...] [--n N] [--out DIR]
[--small]

Test the dual coordinate paper's claims about schedules (Section 3) and about its two upper bounds
(Section 2). The measures are CPU seconds, passes of the oracle and kept outputs until the gap is
proven
to be a hundredth of the objective.

Schedules: "cyclic" and "random" visit examples in order or in a fresh random order, with sweeps
over
kept outputs after each pass. "pruned" also drops every output without a multiplier at once. "gap"
is
Algorithm 2, in which the running gap decides between new examples and the cache. "gap, 10 revisits"
makes ten visits to the cache for each new example, as LaRank does. Digits in random order run
compiled
epochs over all constraints, without an oracle.

Bounds: the true bound (22) after every pass, or only when the running bound (23) says that it may
be
small enough.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

import maxmargin as mm
from benchmarks.datasets import load
from benchmarks.timing import write_csv
from maxmargin import models
from maxmargin.solvers import DualCoordinate, Streaming

Row = Mapping[str, Any]
SEEDS = (0, 1, 2)
WEIGHT = 0.1  # C
SCHEDULES = {
    "random": DualCoordinate(),
    "cyclic": DualCoordinate(order="cyclic"),
    "random, pruned": DualCoordinate(prune=True),
    "gap": Streaming(passes=None),
    "gap, 10 revisits": Streaming(passes=None, revisits=10),
}
# steps between two exact passes; None lets the running bound decide
BOUNDS = {"running": None, "true, every pass": 1}


def problem_of(name: str, n: int | None, small: bool) -> mm.Problem:
    """Return the problem of the first n training examples of a set."""
    data = load(name, small=small)
    X, Y = data.X_train[:n], data.Y_train[:n]
    model = models.Multiclass() if data.kind == "multiclass" else models.Chain()
    model.initialize(X, Y)
    return mm.Problem(model.bind(X, Y), WEIGHT)


def row_of(problem: mm.Problem, solver: Any, seed: int, every: int | None = None) -> Row:
    """Return the row of one training run."""
    began = time.process_time()
    settings = {"tol": "auto", "max_passes": 500, "random_state": seed, "certify_every": every}
    result = mm.train(problem, solver, **settings)
    found, steps = result.certificate, result.history.arrays()
    return {
        "seed": seed,
        "cpu": time.process_time() - began,
        "passes": round(found.passes, 2),
        "planes": int(steps["planes"].max(initial=0)),
        "relative_gap": found.relative_gap,
        "converged": found.converged,
    }


def run(names: Sequence[str], n: int | None, small: bool) -> list[Row]:
    """Run all sets, schedules and bounds."""
    rows: list[Row] = []
    for name in names:
        problem = problem_of(name, n, small)
        about = {"data": name, "n": problem.n_blocks}
        trials = [("schedule", key, solver, None) for key, solver in SCHEDULES.items()]
        trials += [("bound", key, DualCoordinate(), every) for key, every in BOUNDS.items()]
        for what, key, solver, every in trials:
            for seed in SEEDS:
                row = {**about, "compares": what, "method": key}
                rows.append({**row, **row_of(problem, solver, seed, every)})
                print("  ".join(f"{k} {v}" for k, v in rows[-1].items()), flush=True)
    return rows


def mean_of(rows: Sequence[Row], data: str, what: str, method: str, column: str) -> float:
    """Return the mean over seeds."""
    keys = (data, what, method)
    own = [float(r[column]) for r in rows if (r["data"], r["compares"], r["method"]) == keys]
    return sum(own) / len(own)


def says(rows: Sequence[Row]) -> list[str]:
    """Describe the results."""
    sentences = []
    for data in dict.fromkeys(row["data"] for row in rows):
        cyclic, random, gap = (
            mean_of(rows, data, "schedule", key, "passes") for key in ("cyclic", "random", "gap")
        )
        all_kept, pruned = (
            mean_of(rows, data, "schedule", key, "planes") for key in ("cyclic", "random, pruned")
        )
        true, running = (
            mean_of(rows, data, "bound", key, "cpu") for key in ("true, every pass", "running")
        )
        sentences.append(
            f"{data}: {random:.1f} passes in random order, {cyclic:.1f} in the order of the examples, "
            f"{gap:.1f} with the gap schedule. Pruning keeps {pruned / max(all_kept, 1):.0%} of the outputs "
            f"that passes in order keep. The true bound after every pass takes {true / running:.2f} times "
            "the CPU of the running bound (the paper: about 2)."
        )
    return sentences


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=("usps", "ocr"), default=["usps", "ocr"])
    parser.add_argument("--n", type=int, default=None, help="training examples; all if not given")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/dual_coordinate"))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an unfinished run shows in its gap
        rows = run(options.data, options.n, options.small)
    write_csv(options.out / "schedules.csv", rows)
    print("\n".join(says(rows)))
    return rows


if __name__ == "__main__":
    main()
