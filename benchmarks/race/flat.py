"""python -m benchmarks.race.flat [--tasks NAME ...] [--relative R ...] [--repeats N] [--out DIR]
[--small]

Flat problems beside LIBLINEAR: CPU seconds of `fit` alone to the same primal objective, from the
user's
arrays to the fitted estimator, without an intercept. "auto" gets a gap of R times the objective as
its
tolerance. LIBLINEAR (scikit-learn's LinearSVC) gets the loosest of its tolerances, four to a
decade, whose
primal is no higher than the primal of "auto".

All methods alternate in one run, and a time is the least of N. Short fits run twice in a row, so
that the
second finds its own data in the caches. The other solvers get the same gap: `lost` is the extra
time of
"auto" relative to the best of them. A problem of at most 10,000 examples x features x classes is
solved to
rounding for any tolerance: there LIBLINEAR must come within a millionth of that objective. One
thread.
"""

from __future__ import annotations

import argparse
import gzip
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import maxmargin as mm
from benchmarks import datasets
from benchmarks.papers.dual_coordinate.__main__ import (
    Task,
    newsgroups,
    newsgroups_binary,
    primal,
    rcv1_binary,
    small_tasks,
    theirs,
)
from benchmarks.timing import write_csv

Row = dict[str, Any]
# a `keep` that differs from the default makes the solver search for outputs
SEARCHED = mm.solvers.Proximal(keep=9)
SOLVERS: dict[str, Any] = {
    "auto": "auto",
    "dual-coordinate": "dual-coordinate",
    "proximal, searched": SEARCHED,
}
SHORT = 0.02  # fits that are shorter than this many seconds run twice in a row
CLOSE = 1e-6  # relative excess of the primal that still counts as the same objective
LADDER = tuple(10.0 ** (0.5 - step / 4) for step in range(36))  # tolerances of LIBLINEAR


def scaled(X: np.ndarray) -> np.ndarray:
    """Scale columns to mean 0 and variance 1."""
    return StandardScaler().fit_transform(X)


@cache
def cover_rows() -> tuple[np.ndarray, np.ndarray]:
    """Return 10,000 of the first 60,000 rows of covertype."""
    with gzip.open(datasets.data_file("covtype", "covtype.csv.gz"), "rt") as lines:
        table = np.loadtxt(lines, delimiter=",", skiprows=1, max_rows=60_000)
    table = np.random.default_rng(0).permutation(table)[:10_000]
    return scaled(table[:, :-1]), table[:, -1].astype(np.int64)


def two_classes(data: tuple[np.ndarray, np.ndarray], label: Any, name: str) -> Task:
    """Return the task of one label against the rest."""
    X, y = data
    return Task(name, X, (y == label).astype(np.int64))


def many_classes(data: tuple[Any, np.ndarray], name: str) -> Task:
    X, y = data
    return Task(name, X, np.unique(y, return_inverse=True)[1])


def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X / 16, y


def usps() -> tuple[np.ndarray, np.ndarray]:
    data = datasets.usps()
    return data.X_train, np.asarray(data.Y_train)


def cancer(as_csr: bool = False) -> Task:
    X, y = load_breast_cancer(return_X_y=True)
    X = scaled(X)
    return Task(f"breast cancer{', CSR' * as_csr}", sparse.csr_matrix(X) if as_csr else X, y)


# name: (task, weights C)
TASKS: dict[str, tuple[Callable[[], Task], tuple[float, ...]]] = {
    "rcv1-2": (rcv1_binary, (0.01, 0.1, 1.0, 10.0, 100.0)),
    "news-2": (newsgroups_binary, (0.1, 1.0, 10.0)),
    "cover-2": (
        lambda: two_classes(cover_rows(), 2, "covertype, 10,000 rows, 2 classes"),
        (0.001, 0.1, 10.0),
    ),
    "usps-2": (lambda: two_classes(usps(), 0, "USPS, 0 or not"), (0.01, 1.0, 100.0)),
    "cancer": (cancer, (0.01, 1.0, 100.0)),
    "cancer-csr": (lambda: cancer(as_csr=True), (0.01, 1.0, 100.0)),
    "iris-2": (
        lambda: two_classes(load_iris(return_X_y=True), 1, "iris, 2 classes"),
        (0.01, 1.0, 100.0),
    ),
    "iris": (lambda: many_classes(load_iris(return_X_y=True), "iris"), (0.01, 1.0, 100.0)),
    "digits": (lambda: many_classes(digits(), "digits"), (0.01, 1.0)),
    "usps": (lambda: many_classes(usps(), "USPS"), (0.01, 1.0)),
    "cover-7": (lambda: many_classes(cover_rows(), "covertype, 7 classes"), (0.01,)),
    "news-20": (lambda: Task("newsgroups, 20 classes", *newsgroups()), (0.1, 1.0)),
}


@dataclass(frozen=True)
class Setting:
    """A task at one C."""

    task: Task
    C: float

    def ours(self, solver: Any, tol: float | str) -> Any:
        """Return one of this library's classifiers."""
        kind = mm.BinarySVC if self.task.binary else mm.MulticlassSVC
        svm = kind(self.C, fit_intercept=False, solver=solver, tol=tol, random_state=0)
        return svm.set_params(max_passes=5000)

    def theirs(self, tol: float) -> Any:
        """Return LIBLINEAR on the same objective."""
        return theirs(self.task, self.C, tol).set_params(max_iter=20_000)

    def fitted(self, svm: Any) -> Any:
        """Fit and return the classifier."""
        return svm.fit(self.task.X, self.task.y)

    def primal(self, svm: Any) -> float:
        """Return P(w) by definition."""
        return primal(self.task, np.atleast_2d(svm.coef_), self.C)

    def tolerance(self, relative: float) -> float:
        """Return the gap that is this fraction of the objective, in units of the loss."""
        dual = self.fitted(self.ours("auto", "auto")).certificate_.dual
        return relative * dual / (self.C * len(self.task.y))


def seconds(setting: Setting, svm: Any) -> tuple[float, Any]:
    """Return the CPU seconds of `fit` alone, and the fitted classifier."""
    started = time.process_time()
    setting.fitted(svm)
    return time.process_time() - started, svm


def loosest(setting: Setting, goal: float, most: float) -> tuple[float, bool]:
    """Find LIBLINEAR's loosest tolerance that reaches the primal `goal`.

    Also return whether one was found before a fit took more than `most` seconds.
    """
    for tol in LADDER:
        spent, svm = seconds(setting, setting.theirs(tol))
        if setting.primal(svm) <= goal * (1 + CLOSE):
            return tol, True
        if spent > most:
            break
    return tol, False


def race(setting: Setting, relative: float, repeats: int, most: float) -> Row:
    """Run all methods alternately; return the least CPU milliseconds of each."""
    tol = setting.tolerance(relative)
    goal = setting.primal(setting.fitted(setting.ours("auto", tol)))
    peer, reached = loosest(setting, goal, most)
    svms = {name: setting.ours(solver, tol) for name, solver in SOLVERS.items()}
    svms["liblinear"] = setting.theirs(peer)
    best = dict.fromkeys(svms, np.inf)
    for _ in range(repeats):
        for name, svm in svms.items():
            for _ in range(2 if best[name] < SHORT else 1):
                best[name] = min(best[name], seconds(setting, clone(svm))[0])
    others = min(best[name] for name in list(SOLVERS)[1:])
    row: Row = {"task": setting.task.name, "C": setting.C, "relative": relative}
    row |= {f"{name} ms": 1e3 * spent for name, spent in best.items()}
    row |= {"ahead": best["liblinear"] / best["auto"], "lost": best["auto"] / others - 1}
    return row | {"peer tol": peer, "peer reached": reached, "primal": goal}


def table(rows: Sequence[Row]) -> str:
    """Format the rows as a Markdown table."""
    columns = [name for name in rows[0] if name not in ("peer tol", "primal")]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = [f"{row[c]:.3g}" if isinstance(row[c], float) else str(row[c]) for c in columns]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> list[Row]:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--relative", nargs="+", type=float, default=[1e-2, 1e-3])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--most", type=float, default=20.0, help="seconds of one fit of LIBLINEAR")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/race"))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
    if options.small:
        settings = [Setting(task, C) for task in small_tasks() for C in (0.01, 1.0)]
    else:
        chosen = [TASKS[name] for name in options.tasks]
        settings = [
            Setting(task, C) for make, weights in chosen for task in [make()] for C in weights
        ]
    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an unfinished fit shows in its primal
        for setting in settings:
            for relative in options.relative:
                rows.append(race(setting, relative, options.repeats, options.most))
                print(table(rows[-1:]).splitlines()[-1], flush=True)
    write_csv(options.out / "flat.csv", rows)
    (options.out / "flat.md").write_text(table(rows), encoding="utf-8")
    return rows


if __name__ == "__main__":
    main()
