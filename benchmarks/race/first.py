"""How soon is there a rough answer? `fit` to a gap of a tenth of the mean loss, beside peers.

The solvers of this library pay for reading the arrays and for a certificate. A peer proves nothing.
Only the time of its training call counts, and it must bring its objective P within the same gap of
the
optimum. A tight fit gives the lower bound on the optimum.

    liblinear    Crammer-Singer, at the loosest tolerance that is good enough
    crfsuite-ap  averaged perceptron: the fewest passes after which its weights are good enough, times the
                 factor that minimises P
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import datasets
from benchmarks.race import ours, peers
from benchmarks.text_features import Vocabulary
from benchmarks.timing import best_of

Row = dict[str, Any]
DATA = ("usps", "ocr", "conll2000")
SOLVERS = ("auto", "sda", "bcfw", "subgradient", "one-slack")
ROUGH, TIGHT = 0.1, 0.003  # as fractions of the mean loss at w = 0
REGULARIZATION = 0.01
PASSES = (1, 2, 3, 5, 8, 12, 20, 40, 100)


def rows(small: bool, repeats: int) -> list[Row]:
    """Return the rows of all data sets: solvers in turn, then the installed peers."""
    return [row for name in DATA for row in rows_of(datasets.load(name, small=small), repeats)]


def rows_of(data: datasets.Dataset, repeats: int) -> list[Row]:
    """Return the rows of one data set."""
    tol = ROUGH * mean_loss(data)
    budget = {"max_passes": 200, "max_seconds": 30.0}
    kept = ("solver", "tol", "fit_cpu", "train_cpu", "passes", "gap", "converged")
    found: dict[str, Row] = {}
    for _ in range(repeats):  # solvers run in turn, so that all meet the same load
        for solver in SOLVERS:
            row, _ = ours.row(data, solver, REGULARIZATION, tol, 1, budget)
            if solver not in found or row["fit_cpu"] < found[solver]["fit_cpu"]:
                found[solver] = row
    result = [{"data": data.name} | {key: row[key] for key in kept} for row in found.values()]
    tight, svm = ours.row(
        data, "auto", REGULARIZATION, TIGHT * mean_loss(data), 1, {"max_seconds": 60.0}
    )
    enough = tight["dual"] + tol / REGULARIZATION  # C m = 1 / lambda
    peer = "liblinear" if data.kind == "multiclass" else "crfsuite-ap"
    if peers.available(peer):
        result.append({"data": data.name, "tol": tol} | PEERS[peer](data, svm, enough, repeats))
    return result


def mean_loss(data: datasets.Dataset) -> float:
    """Return the mean loss of the worst output of an example.

    Every label of the worst output is wrong, so its loss is the length if mistakes are counted, else 1.
    """
    if data.kind == "multiclass" or data.mean_loss:
        return 1.0
    return float(np.mean([len(y) for y in data.Y_train]))


def liblinear(data: datasets.Dataset, svm: Any, enough: float, repeats: int) -> Row:
    """Run LIBLINEAR to the objective `enough`."""
    row = peers.liblinear(data, peers.Setting(REGULARIZATION, enough, repeats))
    kept = {key: row[key] for key in ("solver", "fit_cpu", "train_cpu")}
    return kept | {"converged": row["primal"] <= enough}


def perceptron(data: datasets.Dataset, svm: Any, enough: float, repeats: int) -> Row:
    """Run CRFsuite's averaged perceptron to the objective `enough`, with the best factor on w."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="ap", verbose=False)
    for tokens, labels in zip(peers.tokens(data, "train"), data.Y_train, strict=True):
        trainer.append(pycrfsuite.ItemSequence(tokens), [str(label) for label in labels])
    examples = svm.model_.bind(data.X_train, data.Y_train)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.crfsuite")
        for passes in PASSES:
            trainer.set_params({"max_iterations": passes, "epsilon": 0.0})
            timed = best_of(1, lambda: trainer.train(path))
            primal = least_primal(examples, weights_of(path, data, svm), svm.C)
            if primal <= enough:
                break
        else:
            passes = PASSES[-1]
        if primal <= enough and repeats > 1:
            again = best_of(repeats - 1, lambda: trainer.train(path))
            timed = min(timed, again, key=lambda one: one.cpu)
    row = {"solver": "crfsuite-ap", "fit_cpu": timed.cpu, "train_cpu": timed.cpu}
    return row | {"passes": passes, "converged": primal <= enough}


PEERS: dict[str, Callable[[datasets.Dataset, Any, float, int], Row]] = {
    "liblinear": liblinear,
    "crfsuite-ap": perceptron,
}


def weights_of(path: str, data: datasets.Dataset, svm: Any) -> np.ndarray:
    """Return the weights in a file of CRFsuite, in the order of `coef_`."""
    import pycrfsuite

    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    said = tagger.info()
    tagger.close()
    code = {str(label): number for number, label in enumerate(svm.classes_)}
    if data.sentences:
        vocabulary = Vocabulary()
        vocabulary.encode(data.attributes("train"), float, grow=True)
        column: dict[str, int] = vocabulary.numbers
    else:
        column = {str(number): number for number in range(data.width)}
    unary, transitions = np.zeros((len(code), data.width)), np.zeros((len(code), len(code)))
    for (attribute, label), weight in said.state_features.items():
        unary[code[label], column[attribute]] = weight
    for (before, label), weight in said.transitions.items():
        transitions[code[before], code[label]] = weight
    return np.concatenate([unary.ravel(), transitions.ravel()])


def least_primal(examples: Any, w: np.ndarray, C: float) -> float:
    """Return min_s 1/2 |s w|^2 + C sum of slacks at s w.

    The function is convex in s, so a ternary search finds the minimum.
    """

    def primal(s: float) -> float:
        return 0.5 * s * s * float(w @ w) + C * float(examples.slacks(s * w)[0].sum())

    low, high = 0.0, 1.0
    while high < 1e6 and primal(2 * high) < primal(high):
        high *= 2
    high *= 2
    for _ in range(25):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        if primal(left) <= primal(right):
            high = right
        else:
            low = left
    return primal((low + high) / 2)
