"""Logistic regression beside scikit-learn's solvers, each to the same objective, and LIBLINEAR's -s
7.

Our fit is certified to a relative gap of a thousandth. For a peer with the same objective, the
benchmark finds the fewest iterations that reach a value as low as ours, by doubling and halving. It
gives up after `PATIENCE` times our CPU seconds. LIBLINEAR trains one machine for each class against
the rest, which is another objective: it stops at its default tolerance, and only test errors can be
compared. A random tenth of the examples is the test part. BLAS uses one thread.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from threadpoolctl import threadpool_limits

import maxmargin as mm
from benchmarks import datasets, stand_ins
from benchmarks.papers.cutting_plane.tasks import covertype
from benchmarks.papers.dual_coordinate.__main__ import newsgroups
from benchmarks.timing import best_of
from maxmargin import models

Row = dict[str, Any]
SETS = ("usps", "newsgroups", "covertype")
SOLVERS = ("lbfgs", "newton-cholesky", "saga")
LIBLINEAR = "liblinear-7"
CLOSE = 1e-3  # relative gap
FIRST = 4  # iterations of a peer to begin with
PATIENCE = 30  # multiple of our CPU seconds that a peer may take
LEAST = 1.0  # CPU seconds that every peer may take at least
MOST_DIRECT = 5000  # most weights for a solver that builds a matrix in each Newton step


def rows_of(name: str, share: float, small: bool) -> tuple[Any, np.ndarray]:
    """Return the features and the labels 0..K-1 of a set."""
    if small:
        X, y = stand_ins.digits()
    elif name == "usps":
        data = datasets.usps()
        X, y = data.X_train, data.Y_train
    else:
        X, y = newsgroups() if name == "newsgroups" else covertype()
    most = int(share * X.shape[0])
    return X[:most], np.unique(y[:most], return_inverse=True)[1]


def split(X: Any, y: np.ndarray) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Hold out a random tenth for the test."""
    order = np.random.default_rng(0).permutation(len(y))
    test, train = np.sort(order[: len(y) // 10]), np.sort(order[len(y) // 10 :])
    return X[train], y[train], X[test], y[test]


def primal_of(W: np.ndarray, X: Any, y: np.ndarray) -> float:
    """Return 1/2 |W|^2 - sum_i log p(y_i | x_i)."""
    scores = np.asarray(X @ W.T)
    own = scores[np.arange(len(y)), y]
    return float(0.5 * np.sum(W * W) + np.sum(logsumexp(scores, axis=1) - own))


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peers are often stopped before they converge
        found = call()
    return found, time.process_time() - began


def regression(name: str, share: float, small: bool, peers: Sequence[str]) -> list[Row]:
    """Return our row, then a row for each peer."""
    X, y, X_test, y_test = split(*rows_of(name, share, small))
    ours = mm.CRF(models.Multiclass(), C=1.0, random_state=0)
    tol = CLOSE * ours.fit(X, y).certificate_.primal / len(y)
    run = best_of(3, lambda: ours.set_params(tol=tol).fit(X, y), enough=10.0)
    found = ours.certificate_
    row = {"data": name, "learner": f"maxmargin {ours.solver_}", "train_cpu": run.cpu}
    row |= {"primal": found.primal, "gap": found.gap, "passes": found.passes}
    rows: list[Row] = [row | {"test_error": float(np.mean(ours.predict(X_test) != y_test))}]
    direct = X.shape[1] * (y.max() + 1) <= MOST_DIRECT
    for solver in (s for s in SOLVERS if s in peers and (direct or s != "newton-cholesky")):
        machine, row = reached(solver, X, y, found.primal, max(LEAST, PATIENCE * run.cpu))
        rows.append({"data": name, **row, "test_error": 1 - machine.score(X_test, y_test)})
    if LIBLINEAR in peers:
        machine, cpu = timed(lambda: one_against_rest().fit(X, y))
        row = {"data": name, "learner": LIBLINEAR, "train_cpu": cpu}
        rows.append(row | {"test_error": 1 - machine.score(X_test, y_test)})
    for row in rows:
        row["ratio"] = row["train_cpu"] / run.cpu
    return rows


def one_against_rest() -> OneVsRestClassifier:
    """LIBLINEAR -s 7, which solves the dual, with the tolerance of its command line."""
    return OneVsRestClassifier(
        LogisticRegression(
            C=1.0, dual=True, fit_intercept=False, solver="liblinear", tol=0.1, random_state=0
        )
    )


def reached(solver: str, X: Any, y: np.ndarray, goal: float, budget: float) -> tuple[Any, Row]:
    """Find the fewest iterations whose objective is at most `goal`; return the machine and its row."""

    def run(iterations: int) -> tuple[Any, float, float]:
        machine = LogisticRegression(
            C=1.0,
            fit_intercept=False,
            solver=solver,
            tol=1e-12,
            max_iter=iterations,
            random_state=0,
        )
        with threadpool_limits(1):
            machine, cpu = timed(lambda: machine.fit(X, y))
        return machine, cpu, primal_of(machine.coef_, X, y)

    low, high = 0, FIRST
    machine, cpu, value = run(high)
    while value > goal and cpu < budget:
        low, high = high, 2 * high
        machine, cpu, value = run(high)
    status = "" if value <= goal else "objective not reached"
    while not status and high - low > max(1, high // 20):
        middle = (low + high) // 2
        found = run(middle)
        if found[2] <= goal:
            high, (machine, cpu, value) = middle, found
        else:
            low = middle
    row = {"learner": f"sklearn {solver}", "train_cpu": cpu, "primal": value, "passes": high}
    return machine, row | {"status": status}
