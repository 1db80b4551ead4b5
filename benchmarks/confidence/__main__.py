"""Probabilities of nodes beside CRFsuite's, and the coverage of sets over random splits.

    python -m benchmarks.confidence [--data ocr conll2000] [--sentences N] [--splits 1000] [--small]

A fifth of the training examples is held out for the temperature; both learners train on the rest. CRFsuite
takes part where python-crfsuite is installed. Calibration error: the mean distance of confidence and accuracy
over 15 bins of confidence. Coverage: test examples are split at random, one half sets the threshold, the
other counts.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import maxmargin as mm
from benchmarks import datasets
from maxmargin import models
from maxmargin.confidence import conformal_quantile

BINS = 15
COVERAGE = 0.8  # share of the nodes that are kept for the selective error
ALPHA = 0.1
STRENGTH = {"ocr": (0.3, 0.3), "conll2000": (0.1, 0.1)}  # our C, CRFsuite's c2


def calibration_error(sure: np.ndarray, right: np.ndarray) -> float:
    """sum over bins of their share times |mean confidence - accuracy|."""
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    counts = np.maximum(np.bincount(bins, minlength=BINS), 1)
    gap = np.bincount(bins, sure - right, minlength=BINS) / counts
    return float(np.abs(gap) @ np.bincount(bins, minlength=BINS) / len(sure))


def measures(marginals: Sequence[np.ndarray], classes: Any, Y: Sequence) -> dict[str, float]:
    """Error, calibration error and error at 80 % coverage of the nodes."""
    p, truth = np.concatenate(marginals), np.concatenate([np.asarray(y).astype(str) for y in Y])
    right, sure = np.asarray(classes).astype(str)[p.argmax(axis=1)] == truth, p.max(axis=1)
    kept = np.argsort(-sure, kind="stable")[: int(COVERAGE * len(sure))]
    return {
        "error": float(1 - right.mean()),
        "calibration": calibration_error(sure, right),
        "selective": float(1 - right[kept].mean()),
    }


def coverage(svm: Any, X: Sequence, Y: Sequence, splits: int) -> tuple[float, float]:
    """Mean and standard error of the coverage of sets over random splits, by examples."""
    code = {str(label): k for k, label in enumerate(svm.classes_)}
    scores = []
    for p, y in zip(svm.predict_marginals(X), Y, strict=True):
        own = np.array([code.get(str(label), -1) for label in y])
        scores.append(np.where(own < 0, np.inf, 1 - p[np.arange(len(y)), own]))
    nodes, rng, found = np.array([len(s) for s in scores]), np.random.default_rng(0), []
    for _ in range(splits):
        order = rng.permutation(len(scores))
        first, second = np.array_split(order, 2)
        own = np.concatenate([scores[i] for i in first])
        q = conformal_quantile(own, nodes[first], ALPHA)
        found.append(np.mean([(scores[i] <= q).mean() for i in second]))
    return float(np.mean(found)), float(np.std(found) / np.sqrt(splits))


def as_items(X: Sequence) -> Iterator[list[dict[str, float]]]:
    """Rows as CRFsuite takes them."""
    for x in X:
        rows = sp.csr_matrix(x)
        bounds = zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
        yield [
            {str(j): float(v) for j, v in zip(rows.indices[a:b], rows.data[a:b], strict=True)}
            for a, b in bounds
        ]


def crf_marginals(X: Sequence, Y: Sequence, X_test: Sequence, c2: float) -> tuple[Any, list]:
    """Labels, and their marginals at the nodes of the test examples."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False)
    for x, y in zip(as_items(X), Y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(x), [str(label) for label in y])
    trainer.set_params({"c2": c2, "max_iterations": 100})
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(str(Path(folder) / "crf"))
        tagger = pycrfsuite.Tagger()
        tagger.open(str(Path(folder) / "crf"))
        labels, found = tagger.labels(), []
        for x in as_items(X_test):
            tagger.set(pycrfsuite.ItemSequence(x))
            table = [[tagger.marginal(k, t) for k in labels] for t in range(len(x))]
            found.append(np.array(table))
        tagger.close()
    return labels, found


def run(name: str, sentences: int | None, splits: int, small: bool) -> list[dict[str, Any]]:
    """A row for each learner."""
    options = {"rich": True} if name == "conll2000" else {}
    data = datasets.load(name, small=small, **options)
    X, Y = list(data.X_train)[:sentences], list(data.Y_train)[:sentences]
    X_test, Y_test = list(data.X_test)[:sentences], list(data.Y_test)[:sentences]
    order = np.random.default_rng(0).permutation(len(X))
    held, kept = order[: len(X) // 5], order[len(X) // 5 :]
    C, c2 = STRENGTH[name]
    model = models.Chain(start=True, end=True, classes=np.unique(np.concatenate(Y)))
    svm = mm.StructuralSVM(model, C=C, tol=0.02, random_state=0)
    svm.fit([X[i] for i in kept], [Y[i] for i in kept])
    svm.calibrate([X[i] for i in held], [Y[i] for i in held])
    row = measures(svm.predict_proba(X_test), svm.classes_, Y_test)
    mean, error = coverage(svm, X_test, Y_test, splits)
    rows = [{"data": name, "learner": "maxmargin", **row, "covered": mean, "covered_error": error}]
    if find_spec("pycrfsuite"):
        labels, found = crf_marginals([X[i] for i in kept], [Y[i] for i in kept], X_test, c2)
        rows.append({"data": name, "learner": "crfsuite", **measures(found, labels, Y_test)})
    return rows


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.confidence")
    parser.add_argument("--data", nargs="+", default=list(STRENGTH), choices=list(STRENGTH))
    parser.add_argument("--sentences", type=int, help="examples of each part, at most")
    parser.add_argument("--splits", type=int, default=1000)
    parser.add_argument("--small", action="store_true", help="synthetic stand-ins")
    parser.add_argument("--out", type=Path, default=Path("confidence.csv"))
    given = parser.parse_args(arguments)
    rows = [
        row for name in given.data for row in run(name, given.sentences, given.splits, given.small)
    ]
    names = list(dict.fromkeys(key for row in rows for key in row))
    with given.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    for row in rows:
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    return rows


if __name__ == "__main__":
    main()
