"""python -m benchmarks.papers.cutting_plane [--sizes N ...] [--c C'] [--eps EPS] [--out DIR] [--small]

Multiclass training on covertype against the number of examples, as in the first columns of Table 1
and Figures 1 and 3 of Joachims, Finley and Yu: CPU seconds, oracle calls and cuts of 1-slack and
n-slack cutting planes, with the library's default beside them. C' and eps are in the paper's scale
for a zero-one loss of one: 1/2 |w|^2 + C'/n sum xi.
"""

from __future__ import annotations

import argparse
import gzip
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from benchmarks import stand_ins
from benchmarks.datasets import data_file
from benchmarks.timing import best_of, write_csv
from maxmargin import models

Row = dict[str, Any]
SOLVERS = ("auto", "one-slack", "n-slack")
MOST_FOR_N_SLACK = 100_000  # a program over all examples after each batch: time grows like n^2


def covertype() -> tuple[np.ndarray, np.ndarray]:
    """All 581,012 examples in random order, each feature scaled to a largest size of one."""
    with gzip.open(data_file("covtype", "covtype.csv.gz"), "rt") as lines:
        table = np.loadtxt(lines, delimiter=",", skiprows=1)
    table = np.random.default_rng(0).permutation(table)
    X, y = np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)
    return X / np.maximum(np.abs(X).max(axis=0), 1e-12), y


def measure(X: np.ndarray, y: np.ndarray, solver: str, weight: float, eps: float) -> Row:
    """One fit."""
    svm = mm.StructuralSVM(
        models.Multiclass(bias=1.0),
        C=weight / len(y),
        solver=solver,
        tol=eps,
        max_passes=5000,
        max_seconds=600,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        timed = best_of(1, lambda: svm.fit(X, y))
    certificate = svm.certificate_
    return {
        "solver": solver,
        "n": len(y),
        "cpu": timed.cpu,
        "oracle_calls": certificate.oracle_calls,
        "passes": certificate.passes,
        "planes": int(svm.history_["planes"][-1]),
        "gap": certificate.gap,
        "status": certificate.status,
    }


def run(sizes: list[int], weight: float, eps: float, small: bool) -> list[Row]:
    """All sizes and solvers."""
    X, y = stand_ins.digits(examples=max(sizes)) if small else covertype()
    rows = []
    for n in sizes:
        for solver in SOLVERS:
            if solver == "n-slack" and n > MOST_FOR_N_SLACK:
                continue
            rows.append(measure(X[:n], y[:n], solver, weight, eps))
            print(
                "  ".join(
                    f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}"
                    for k, v in rows[-1].items()
                )
            )
    return rows


def draw(rows: list[Row], path: Path) -> None:
    """CPU seconds and passes against n."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 4))
    for axis, name in zip(axes, ("cpu", "passes"), strict=True):
        for solver in SOLVERS:
            own = [row for row in rows if row["solver"] == solver]
            axis.loglog([row["n"] for row in own], [row[name] for row in own], "o-", label=solver)
        axis.set(xlabel="examples", ylabel={"cpu": "CPU seconds", "passes": "passes"}[name])
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(arguments: list[str] | None = None) -> list[Row]:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[5000, 20_000, 100_000, 500_000])
    parser.add_argument("--c", type=float, default=1000.0)
    parser.add_argument("--eps", type=float, default=0.01)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/cutting_plane"))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
    rows = run([60, 120] if options.small else options.sizes, options.c, options.eps, options.small)
    write_csv(options.out / "covertype.csv", rows)
    draw(rows, options.out / "covertype.png")
    return rows


if __name__ == "__main__":
    main()
