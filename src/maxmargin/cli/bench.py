"""maxmargin bench: compare the solvers, and LIBLINEAR if it fits the task, on one file and this machine.

All minimise the same objective. ``gap`` is the gap of a solver's own certificate. ``above`` bounds how
far an objective is from the optimum, in units of the loss. It uses the best lower bound that any solver has
proven, so it is also known for LIBLINEAR.
"""

from __future__ import annotations

import json
import platform
import time
import warnings
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC, LinearSVR

from maxmargin.certify import objective
from maxmargin.cli.train import estimator_for_task, read_as_given
from maxmargin.data.from_file import FileError
from maxmargin.data.table import Table
from maxmargin.data.write_rows import Numbers
from maxmargin.formulation import Formulation
from maxmargin.runtime.executor import count_jobs
from maxmargin.solvers.auto import compatible

Row = dict[str, Any]
# The LIBLINEAR estimator of each task, with the same loss. Its intercept is the weight of a constant feature,
# as in this library.
PEERS: dict[str, Callable[[Any], Any]] = {
    "multiclass": lambda svm: LinearSVC(multi_class="crammer_singer", C=svm.C, random_state=0),
    "binary": lambda svm: LinearSVC(loss="hinge", C=svm.C, random_state=0),
    "regression": lambda svm: LinearSVR(epsilon=svm.epsilon, C=svm.C, random_state=0),
}
COLUMNS_OF_BENCH = ("solver", "cpu seconds", "passes", "gap", "objective", "status", "dual")


def bench(given: Namespace) -> None:
    """Print a table of all solvers on a file."""
    read = read_as_given(given)
    svm = estimator_for_task(given, read)
    if given.C is not None:
        svm.set_params(C=given.C)
    svm.set_params(max_seconds=given.max_seconds)
    numbered = read.reading.task in PEERS
    X, Y = (Numbers(sequences=False).rows(read) if numbered else read.X), read.Y
    rows: list[Row] = []
    refused: list[str] = []
    for name in given.solvers or compatible(Formulation()):
        try:
            rows.append(timed_solver(svm, name, X, Y))
        except ValueError as error:  # the solver does not support this model, or the data are bad
            refused.append(f"{name}: {error}")
    if (given.solvers and refused) or not rows:
        raise FileError(f"{given.data}: {refused[0]}")
    if numbered:
        rows.append(timed_peer(svm, PEERS[read.reading.task](svm), X, Y))
    best = max(row.pop("dual") for row in rows)
    total = float(svm.C) * len(Y)
    for row in rows:
        row["above"] = max(0.0, row["objective"] - best) / total
    if given.json:
        print(json.dumps({"machine": machine(), "C": float(svm.C), "rows": rows}))
        return
    print(f"{given.data}: {len(Y)} examples, {read.reading.task}, C = {svm.C:g}; {machine()}\n")
    names = [row.pop("solver") for row in rows]
    columns = {key: np.array([as_text(row[key]) for row in rows]) for key in rows[0]}
    print(Table(columns, names, "solver"))
    if refused:
        print(
            "\nsolvers that do not fit this task: "
            f"{', '.join(line.split(':')[0] for line in refused)}"
        )


def as_text(value: Any) -> str:
    """Format a number in few digits; NaN becomes an empty text."""
    if isinstance(value, str):
        return value
    return "" if np.isnan(value) else f"{value:.4g}"


def machine() -> str:
    """A description of the machine of the measurement."""
    return f"{platform.machine()}, {count_jobs(-1)} cores, {platform.system()}"


def timed_solver(svm: Any, name: str, X: Any, Y: Any) -> Row:
    """Fit with one solver; return the row with CPU seconds, passes and certificate."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the table shows the status
        svm.set_params(solver=name).fit(X, Y)
    seconds, c = time.process_time() - began, svm.certificate_
    proven = c.exact and not c.relaxed  # otherwise the lower bound belongs to another problem
    dual = c.dual if proven else -np.inf
    row = (name, seconds, c.passes, c.gap, c.primal, str(c.status), dual)
    return dict(zip(COLUMNS_OF_BENCH, row, strict=True))


def timed_peer(svm: Any, peer: Any, X: Any, Y: Any) -> Row:
    """Fit LIBLINEAR through scikit-learn with its defaults; evaluate its weights by our objective."""
    began = time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        peer.fit(X, Y)
    seconds = time.process_time() - began
    intercepts = np.reshape(peer.intercept_, (-1, 1))
    w = np.hstack([np.atleast_2d(peer.coef_), intercepts]).ravel()
    late = any(issubclass(warning.category, ConvergenceWarning) for warning in said)
    status = "iteration limit" if late else "own tolerance"
    passes, found = float(np.max(peer.n_iter_)), objective(svm, w, X, Y)
    row = ("LIBLINEAR", seconds, passes, np.nan, found, status, -np.inf)
    return dict(zip(COLUMNS_OF_BENCH, row, strict=True))
