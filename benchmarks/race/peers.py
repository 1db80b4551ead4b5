"""Other learners on the same data: LIBLINEAR's Crammer-Singer and CRFsuite.

Each peer is a function (dataset, setting) -> row. CPU seconds cover its training call alone. The time
to hand over the data is reported in its own column, and is not counted against the peer.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.datasets import Dataset
from benchmarks.timing import best_of

Row = dict[str, Any]
# From loose to tight, six to a decade; the first that reaches the primal is the peer's best.
LIBLINEAR_TOLERANCES = tuple(10.0 ** (-step / 6) for step in range(43))


@dataclass(frozen=True)
class Setting:
    """The setting of a peer; a peer with our objective must reach `primal`."""

    regularization: float  # lambda
    primal: float | None = None
    repeats: int = 3
    c2: float = 1.0
    max_iterations: int | None = None  # None: the peer's own default


def multiclass_primal(W: np.ndarray, X: np.ndarray, y: np.ndarray, C: float) -> float:
    """Return 1/2 |W|^2 + C sum_i max_k [k != y_i] + <w_k - w_{y_i}, x_i>, with y in 0..K-1."""
    scores = X @ W.T
    margins = scores - scores[np.arange(len(y)), y][:, None] + 1.0
    margins[np.arange(len(y)), y] = 0.0
    return float(0.5 * np.sum(W * W) + C * np.sum(margins.max(axis=1)))


def liblinear(data: Dataset, setting: Setting) -> Row:
    """Run LIBLINEAR's Crammer-Singer at the loosest tolerance whose primal is good enough."""
    from sklearn.svm import LinearSVC

    C = 1.0 / (setting.regularization * data.size)
    X = np.hstack([data.X_train, np.ones((data.size, 1))])
    y = np.searchsorted(np.unique(data.Y_train), data.Y_train)

    def fit(tol: float) -> LinearSVC:
        svm = LinearSVC(C=C, multi_class="crammer_singer", tol=tol, max_iter=100000, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unfinished fit shows in its primal
            return svm.fit(data.X_train, data.Y_train)

    for tol in LIBLINEAR_TOLERANCES:
        svm = fit(tol)
        primal = multiclass_primal(np.column_stack([svm.coef_, svm.intercept_]), X, y, C)
        if setting.primal is None or primal <= setting.primal:
            break
    timed = best_of(setting.repeats, lambda: fit(tol))
    row = {"solver": "liblinear", "fit_cpu": timed.cpu, "train_cpu": timed.cpu, "primal": primal}
    reached = setting.primal is None or primal <= setting.primal
    row |= {"status": f"tol={tol:g}" if reached else "primal not reached"}
    return row | data.scores(svm.predict(data.X_test))


def crfsuite_lbfgs(data: Dataset, setting: Setting) -> Row:
    """Train a conditional random field by L-BFGS to its default stopping rule."""
    return _crfsuite(data, setting, "lbfgs", {"c2": setting.c2})


def crfsuite_perceptron(data: Dataset, setting: Setting) -> Row:
    """Train the averaged perceptron with CRFsuite's default number of passes."""
    return _crfsuite(data, setting, "ap", {})


PEERS: dict[str, Callable[[Dataset, Setting], Row]] = {
    "liblinear": liblinear,
    "crfsuite-lbfgs": crfsuite_lbfgs,
    "crfsuite-ap": crfsuite_perceptron,
}
KINDS = {"liblinear": "multiclass", "crfsuite-lbfgs": "chain", "crfsuite-ap": "chain"}


def available(name: str) -> bool:
    """Return whether the package of a peer is installed."""
    from importlib.util import find_spec

    return find_spec("sklearn" if name == "liblinear" else "pycrfsuite") is not None


def _crfsuite(data: Dataset, setting: Setting, algorithm: str, options: dict[str, Any]) -> Row:
    import pycrfsuite

    if setting.max_iterations is not None:
        options = options | {"max_iterations": setting.max_iterations}
    trainer = pycrfsuite.Trainer(algorithm=algorithm, params=options, verbose=False)
    started = time.process_time()
    for items, labels in zip(tokens(data, "train"), data.Y_train, strict=True):
        trainer.append(pycrfsuite.ItemSequence(items), [str(label) for label in labels])
    appending = time.process_time() - started
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.crfsuite")
        timed = best_of(1, lambda: trainer.train(path))
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        predicted = [tagger.tag(pycrfsuite.ItemSequence(x)) for x in tokens(data, "test")]
        tagger.close()
    iterations = trainer.logparser.last_iteration or {}
    row = {"solver": f"crfsuite-{algorithm}", "fit_cpu": timed.cpu + appending}
    row |= {"train_cpu": timed.cpu, "passes": iterations.get("num")}
    row |= {"status": " ".join(f"{name}={value}" for name, value in options.items())}
    return row | data.scores(_as_labels(predicted, data))


def tokens(data: Dataset, part: str) -> Iterable[Sequence[Any]]:
    """Return the tokens of each example in the form that CRFsuite takes."""
    if data.sentences:
        return data.attributes(part)  # type: ignore[arg-type]
    X = data.X_train if part == "train" else data.X_test
    return ([_active(row) for row in x] for x in X)


def _active(row: np.ndarray) -> dict[str, float]:
    return {str(index): float(row[index]) for index in np.flatnonzero(row)}


def _as_labels(predicted: list[list[str]], data: Dataset) -> list[list[Any]]:
    # CRFsuite takes only strings; convert the labels back to their type.
    kind = type(data.Y_train[0][0])
    return [[kind(label) for label in labels] for labels in predicted]
