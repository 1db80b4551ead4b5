"""python -m benchmarks.faults.agreement [--tasks NAME ...] [--relative 1e-6] [--small]

Compare one process, two workers and four workers on the same examples. Each runs to a gap of half
of `relative` times the objective. No dual may be above the primal of another run, and the
objectives must agree to within `relative`. Workers are processes on this machine (with --small,
threads), and each has a part of the examples in memory. The tasks are subsets: 200 words of OCR
letters, 100 sentences of Brown with its 500 most frequent attributes, 1,000 rows of covertype, and
100 rows of covertype with a model in Python.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

import maxmargin as mm
from benchmarks import datasets, stand_ins
from benchmarks.tagging import tags
from benchmarks.timing import write_csv
from maxmargin import cluster, models

Examples = tuple[Any, Any, Any]  # model, X, Y
WORKERS = (2, 4)
STRENGTH = 0.1  # lambda = 1 / (C n)


class Rows:
    """A multiclass model in Python, as a user would write it."""

    def initialize(self, X: Any, Y: Any) -> None:
        """Set the sizes."""
        self.n_labels, self.width = int(max(Y)) + 1, len(X[0])
        self.size_joint_feature = self.n_labels * self.width

    def joint_feature(self, x: np.ndarray, y: int) -> np.ndarray:
        """Return a vector that is x in the place of label y, and zero elsewhere."""
        return np.outer(np.arange(self.n_labels) == y, x).ravel()

    def loss(self, y: int, y_hat: int) -> float:
        """Return the zero-one loss."""
        return float(y != y_hat)

    def inference(self, x: np.ndarray, w: np.ndarray) -> int:
        """Return the label with the best score."""
        return int(np.argmax(w.reshape(self.n_labels, -1) @ x))

    def loss_augmented_inference(self, x: np.ndarray, y: int, w: np.ndarray) -> int:
        """Return the label with the largest sum of score and loss."""
        return int(np.argmax(w.reshape(self.n_labels, -1) @ x + (np.arange(self.n_labels) != y)))


def letters(small: bool) -> Examples:
    data = datasets.ocr_letters(small=small)
    n = 20 if small else 200
    return models.Chain(loss="mean-hamming"), data.X_train[:n], data.Y_train[:n]


def brown(small: bool) -> Examples:
    data = tags("brown", 100, small=small)
    counts = sum(np.asarray(x.sum(axis=0)).ravel() for x in data.X_train)
    common = np.sort(np.argsort(-counts)[:500])
    return models.Chain(), [x[:, common] for x in data.X_train], data.Y_train


def some_of_covertype() -> tuple[np.ndarray, np.ndarray]:
    """Return every 500th row, with each feature scaled to a largest absolute value of one."""
    with gzip.open(datasets.data_file("covtype", "covtype.csv.gz"), "rt") as lines:
        table = np.loadtxt(islice(lines, 1, None, 500), delimiter=",")
    X, y = np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)
    return X / np.maximum(np.abs(X).max(axis=0), 1e-12), y


def rows(small: bool, n: int = 1000) -> Examples:
    X, y = stand_ins.digits(examples=150) if small else some_of_covertype()
    chosen = slice(0, min(n, len(y)))
    return models.Multiclass(bias=1.0), X[chosen], y[chosen]


def own(small: bool) -> Examples:
    _, X, y = rows(small, 40 if small else 100)
    return Rows(), list(X), np.unique(y, return_inverse=True)[1].tolist()


TASKS: dict[str, Callable[[bool], Examples]] = {
    "ocr": letters,
    "brown": brown,
    "covertype": rows,
    "python": own,
}


def parts_of(X: Any, Y: Any, n_parts: int) -> list[tuple[Any, Any]]:
    """Split the examples into random parts."""
    groups = np.array_split(np.random.default_rng(0).permutation(len(Y)), n_parts)
    if hasattr(X, "shape"):
        return [(X[group], Y[group]) for group in groups]
    return [([X[i] for i in group], [Y[i] for i in group]) for group in groups]


def compared(
    name: str, examples: Examples, relative: float, client: Client
) -> list[dict[str, Any]]:
    """Return the fits of one task, with the difference of each from the fit of one process."""
    model, X, Y = examples
    options = {"C": 1 / (STRENGTH * len(Y)), "max_passes": 1e5, "random_state": 0}
    rough = mm.StructuralSVM(model, tol=1e-3, **options).fit(X, Y).certificate_
    options["tol"] = 0.5 * relative * rough.primal / (options["C"] * len(Y))
    alone = mm.StructuralSVM(model, **options).fit(X, Y).certificate_
    rows = [{"task": name, "n": len(Y), "workers": 0, **facts(alone, alone), "rounds": 0}]
    for n_workers in WORKERS:
        svm = mm.StructuralSVM(model, **options)
        # each of the first workers gets one part
        cluster.fit(svm, parts_of(X, Y, n_workers), client)
        row = {"task": name, "n": len(Y), "workers": n_workers, **facts(svm.certificate_, alone)}
        rows.append(row | {"rounds": len(svm.history_["gap"])})
    for row in rows:
        row["agree"] = row["bracketed"] and abs(row["difference"]) <= relative
        print(row, flush=True)
    return rows


def facts(found: mm.Certificate, alone: mm.Certificate) -> dict[str, Any]:
    """Return the bounds of a fit beside the bounds of one process."""
    return {
        "converged": found.converged,
        "primal": found.primal,
        "relative_gap": (found.primal - found.dual) / found.primal,
        "difference": found.primal / alone.primal - 1,
        "bracketed": found.dual <= alone.primal and alone.dual <= found.primal,
        "passes": found.passes,
        "seconds": found.seconds,
    }


def main(argv: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Compare, report, and fail if two fits do not agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--relative", type=float, default=1e-6)
    parser.add_argument("--small", action="store_true", help="made-up examples")
    parser.add_argument("--out", type=Path, default=Path("agreement.csv"))
    given = parser.parse_args(argv)
    rows = []
    options = {"n_workers": max(WORKERS), "threads_per_worker": 1, "dashboard_address": None}
    options["processes"] = not given.small
    with LocalCluster(silence_logs=50, **options) as made, Client(made) as client:
        for name in given.tasks:
            rows += compared(name, TASKS[name](given.small), given.relative, client)
    write_csv(given.out, rows)
    if not all(row["agree"] and row["converged"] for row in rows):
        raise SystemExit("two fits do not agree, or one did not converge")
    return rows


if __name__ == "__main__":
    main()
