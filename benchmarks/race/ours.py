"""One row per fit of this library: a solver, a lambda, a tolerance."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from benchmarks.datasets import Dataset
from benchmarks.timing import CpuLimit, Timed, best_of
from maxmargin import models, solvers

Row = dict[str, Any]

# Names on the command line; a plain name is the library's default form of that solver.
SOLVERS: dict[str, Callable[[], Any]] = {
    "auto": lambda: "auto",
    "proximal": solvers.Proximal,
    "proximal-double": lambda: solvers.Proximal(precision="double"),
    "fasole": solvers.Fasole,
    "fasole-cyclic": lambda: solvers.Fasole(order="cyclic"),
    "fasole-sweeps": lambda: solvers.Fasole(reduced="sweeps"),
    "sda": solvers.SDA,
    "sdm": solvers.SDM,
    "bcfw": solvers.BCFW,
    "bcfw-pairwise": lambda: solvers.BCFW(pairwise=True),
    "bcfw-gap-sampling": lambda: solvers.BCFW(gap_sampling=True),
    "subgradient": solvers.Subgradient,
    "one-slack": solvers.OneSlack,
}


def estimator(data: Dataset, solver: Any, regularization: float, **options: Any) -> Any:
    """Return the estimator whose objective is lambda/2 |w|^2 + mean loss, scaled by 1/lambda."""
    C = 1.0 / (regularization * data.size)
    options = {"C": C, "solver": solver, "random_state": 0, "n_jobs": 1} | options
    if data.kind == "multiclass":
        return mm.MulticlassSVC(**options)
    return mm.StructuralSVM(model_of(data), **options)


def model_of(data: Dataset) -> Any:
    """Return the model for this kind of data."""
    if data.kind == "multiclass":
        return models.Multiclass()
    if data.kind == "grammar":
        return models.Grammar(horizontal=1)
    if data.kind == "tree":
        return models.Tree()
    return models.Chain(loss="mean-hamming" if data.mean_loss else "hamming")


def fit(
    data: Dataset, make: Callable[[], Any], repeats: int, seconds: float = float("inf")
) -> Timed[Any]:
    """Return the fastest of several fits, each by a fresh estimator, within this many CPU seconds."""

    def once() -> Any:
        svm = make()
        with warnings.catch_warnings():
            # The row of a fit says whether it stopped at its budget.
            warnings.simplefilter("ignore", ConvergenceWarning)
            limits = [CpuLimit(seconds)] if seconds < float("inf") else []
            return svm.fit(data.X_train, data.Y_train, callbacks=limits)

    return best_of(repeats, once)


def row(
    data: Dataset, name: str, regularization: float, tol: float, repeats: int, budget: Row
) -> tuple[Row, Any]:
    """Fit, measure, test; return the row and the fitted estimator."""
    solver = SOLVERS[name]()
    timed = fit(data, lambda: estimator(data, solver, regularization, tol=tol, **budget), repeats)
    svm, certificate = timed.result, timed.result.certificate_
    # The certificate has wall-clock seconds; the share of CPU comes from the whole fit.
    busy = min(timed.cpu / timed.wall, 1.0)
    result = {
        "solver": name,
        "lambda": regularization,
        "tol": tol,
        "fit_cpu": timed.cpu,
        "train_cpu": certificate.seconds * busy,
        "passes": certificate.oracle_calls / data.size,
        "oracle_calls": certificate.oracle_calls,
        "primal": certificate.primal,
        "dual": certificate.dual,
        "gap": certificate.gap,
        "converged": certificate.converged,
        "planes": float(np.asarray(svm.history_["planes"])[-1]),
        "status": str(certificate.status),
    }
    return result | data.scores(svm.predict(data.X_test)), svm


def curve(svm: Any, label: Row) -> list[Row]:
    """Return the history of a fit as rows, for the convergence plot."""
    names = ("seconds", "passes", "oracle_calls", "primal", "dual", "gap", "estimate", "planes")
    columns = {name: np.asarray(svm.history_[name], dtype=float) for name in names}
    steps = len(columns["gap"])
    return [
        label | {name: float(values[step]) for name, values in columns.items()}
        for step in range(steps)
    ]
