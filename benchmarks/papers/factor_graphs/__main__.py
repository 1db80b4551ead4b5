"""python -m benchmarks.papers.factor_graphs [--tasks NAME ...] [--repeats N] [--out DIR] [--small]

Training on graphs with a hard argmax: CPU seconds, the proven gap, the share of examples with a
proven
argmax, and the score on new data. The tasks are snakes on grids with 11 labels, and sets of labels
with
weights for all pairs, beside the same sets without pairs. C = 1 / (lambda n). One thread.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

import maxmargin as mm
from benchmarks.datasets import data_file
from benchmarks.timing import best_of, write_csv
from maxmargin import models
from maxmargin.data.synthetic_graphs import grid_edges, random_label_sets, random_snakes

Row = dict[str, Any]
SETS = ("scene", "yeast", "emotions", "medical", "enron")


@dataclass(frozen=True)
class Task:
    """A model with its data, lambda, and the tolerance in units of the loss."""

    name: str
    model: Any
    train: tuple[Any, Any]
    test: tuple[Any, Any]
    lam: float
    tol: float


def neighbourhoods(colours: np.ndarray, ground: int, n_colours: int) -> np.ndarray:
    """Return one-hot colours of each cell and the eight cells around it."""
    height, width = colours.shape
    padded = np.full((height + 2, width + 2), ground)
    padded[1:-1, 1:-1] = colours
    views = [padded[a : height + a, b : width + b] for a in range(3) for b in range(3)]
    return np.concatenate([np.eye(n_colours)[view.ravel()] for view in views], axis=1)


def snakes() -> list[Task]:
    """Return images of one snake each; the labels are the places in the snake."""
    with np.load(data_file("snakes", "snakes.npz"), allow_pickle=False) as stored:
        pixels = {
            part: stored[f"X_{part}"].astype(int) @ [65536, 256, 1] for part in ("train", "test")
        }
        values, counts = np.unique(pixels["train"], return_counts=True)
        parts = []
        for part in ("train", "test"):
            X, Y, place = [], [], 0
            codes = np.searchsorted(values, pixels[part])
            for height, width in stored[f"shape_{part}"].tolist():
                own = slice(place, place + height * width)
                grid = codes[own].reshape(height, width)
                nodes = neighbourhoods(grid, int(counts.argmax()), len(values))
                X.append((nodes, *grid_edges(height, width)))
                Y.append(stored[f"Y_{part}"][own])
                place = own.stop
            parts.append((X, Y))
    lams = (0.1, 0.01)
    return [Task("snakes", models.FactorGraph(), *parts, lam, 0.2) for lam in lams]


def label_sets(name: str) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Return X and Y of the training part and of the test part; dense features are standardised."""
    with np.load(data_file("multilabel", f"{name}.npz"), allow_pickle=False) as stored:
        if "X_train" in stored:
            X = [stored[f"X_{part}"].astype(np.float64) for part in ("train", "test")]
            mean, scale = X[0].mean(axis=0), X[0].std(axis=0) + 1e-9
            X = [(x - mean) / scale for x in X]
            Y = [stored[f"Y_{part}"].astype(int) for part in ("train", "test")]
        else:
            X = [csr(stored, f"X_{part}", int(stored["n_features"])) for part in ("train", "test")]
            Y = [csr(stored, f"Y_{part}", int(stored["n_labels"])) for part in ("train", "test")]
            Y = [y.toarray().astype(int) for y in Y]
    return X[0], Y[0], X[1], Y[1]


def csr(stored: Any, name: str, width: int) -> Any:
    """Build a matrix of ones and zeros from its arrays in the file."""
    index, start = stored[f"{name}_indices"], stored[f"{name}_indptr"]
    return sparse.csr_matrix((np.ones(len(index)), index, start), (len(start) - 1, width))


def rcv1() -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Return 3,000 documents to train on and 3,000 to test, drawn at random as the file is ordered."""
    with np.load(data_file("rcv1_subsets", "rcv1sub1.npz"), allow_pickle=False) as stored:
        X = sparse.csr_matrix(
            (stored["X_data"], stored["X_indices"], stored["X_indptr"]), tuple(stored["shape_X"])
        )
        Y = csr(stored, "Y", int(stored["shape_Y"][1])).toarray().astype(int)
    order = np.random.default_rng(0).permutation(len(Y))
    first, second = order[:3000], order[3000:]
    return X[first], Y[first], X[second], Y[second]


def with_and_without_pairs(name: str, X: Any, Y: Any, X_test: Any, Y_test: Any, lam: float) -> list:
    """Return two tasks on the same data; the tolerance is a fiftieth of the mean number of labels."""
    tol = 0.02 * float(Y.sum(axis=1).mean())
    kinds = ("none", "all")
    return [
        Task(
            f"{name}, pairs={kind}",
            models.MultiLabel(kind, bias=1.0),
            (X, Y),
            (X_test, Y_test),
            lam,
            tol,
        )
        for kind in kinds
    ]


TASKS: dict[str, Callable[[], list[Task]]] = {
    "snakes": snakes,
    **{
        name: lambda name=name: with_and_without_pairs(name, *label_sets(name), 0.01)  # type: ignore[misc]
        for name in SETS
    },
    "rcv1": lambda: with_and_without_pairs("rcv1", *rcv1(), 1e-3),
}


def small_tasks() -> list[Task]:
    """Return tasks on synthetic data."""
    grids = [random_snakes(6, 4, 4, 4, random_state=k) for k in (0, 1)]
    X, Y = random_label_sets(40, random_state=0)
    X_test, Y_test = random_label_sets(40, random_state=1)
    pairs = with_and_without_pairs("small", X, Y, X_test, Y_test, 0.01)
    return [Task("small grids", models.FactorGraph(), *grids, 0.1, 0.5), *pairs]


def micro_f1(Y: Any, predicted: Any) -> float:
    """Return F1 over all labels of all rows; for graphs, the share of correct nodes."""
    if not isinstance(predicted, np.ndarray):
        return float(np.mean(np.concatenate(Y) == np.concatenate(predicted)))
    return float(2 * (predicted * Y).sum() / max(1, predicted.sum() + Y.sum()))


def measure(task: Task, repeats: int) -> Row:
    """Return the row of one task."""
    n = len(task.train[1])
    svm = mm.StructuralSVM(task.model, C=1 / (task.lam * n), tol=task.tol, max_seconds=300)
    timed = best_of(repeats, lambda: svm.set_params(random_state=0).fit(*task.train))
    fitted = timed.result
    found, ceilings = fitted.model_.bind(*task.train).slacks(fitted.coef_)
    certificate = fitted.certificate_
    return {
        "task": task.name,
        "lambda": task.lam,
        "cpu": timed.cpu,
        "passes": certificate.passes,
        "tol": task.tol,
        "gap": certificate.gap,
        "status": certificate.status,
        "proven_argmax": float(np.mean(ceilings <= found + 1e-9 * (1 + found))),
        "score": micro_f1(task.test[1], fitted.predict(task.test[0])),
    }


def main(arguments: list[str] | None = None) -> list[Row]:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/factor_graphs"))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
    tasks = small_tasks() if options.small else [t for name in options.tasks for t in TASKS[name]()]
    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an unfinished fit shows in its gap
        for task in tasks:
            rows.append(measure(task, options.repeats))
            shown = {k: f"{v:.3g}" if isinstance(v, float) else v for k, v in rows[-1].items()}
            print("  ".join(f"{k} {v}" for k, v in shown.items()), flush=True)
    write_csv(options.out / "factor_graphs.csv", rows)
    return rows


if __name__ == "__main__":
    main()
