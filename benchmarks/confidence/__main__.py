"""Probabilities of nodes beside CRFsuite's, and the coverage of sets over random splits.

    python -m benchmarks.confidence [--data ocr conll2000] [--sentences N] [--splits 1000] [--small]

A fifth of the training examples is held out, and all learners train on the rest. The held-out part
serves to fit the temperature and to choose C, and CRFsuite's c2, by the Brier score. For text it is
the last fifth, as sentences of an article are alike and the test has other articles. For letters it
is a random fifth, because that file is ordered by words, and the same words are in the test part.
CRFsuite takes part if python-crfsuite is installed.

Calibration error is the mean distance of confidence and accuracy over 15 bins of confidence. For
coverage, the test examples are split at random: one half sets the threshold, and the coverage is
measured on the other half.
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
COVERAGE = 0.8  # share of the nodes that count for the selective error: the most confident ones
ALPHA = 0.1
STRENGTHS = {  # C for both rescalings, c2 for CRFsuite
    "ocr": {"margin": (1, 3, 10), "slack": (0.1, 0.3, 1), "crfsuite": (0.03, 0.1, 0.3)},
    "conll2000": {"margin": (0.03, 0.1, 0.3), "slack": (0.03, 0.1, 0.3), "crfsuite": (0.3, 1, 3)},
}
Found = tuple[list[np.ndarray], Any]  # marginals of the examples, and the labels


def calibration_error(sure: np.ndarray, right: np.ndarray) -> float:
    """Return the sum over bins of (share of the nodes) * |mean confidence - accuracy|."""
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    counts = np.maximum(np.bincount(bins, minlength=BINS), 1)
    gap = np.bincount(bins, sure - right, minlength=BINS) / counts
    return float(np.abs(gap) @ np.bincount(bins, minlength=BINS) / len(sure))


def brier(found: Found, Y: Sequence) -> float:
    """Return the mean over nodes of sum_k (p(k) - [k is the label])^2."""
    p, truth = np.concatenate(found[0]), np.concatenate(Y).astype(str)
    hit = np.asarray(found[1]).astype(str)[None] == truth[:, None]
    known = hit.any(axis=1)  # an unknown label has p = 0
    return float(((p - hit) ** 2).sum(axis=1).mean() + 1 - known.mean())


def measures(found: Found, Y: Sequence) -> dict[str, float]:
    """Return the error, the calibration error, and the error at 80 % coverage of the nodes."""
    p, truth = np.concatenate(found[0]), np.concatenate(Y).astype(str)
    right, sure = np.asarray(found[1]).astype(str)[p.argmax(axis=1)] == truth, p.max(axis=1)
    kept = np.argsort(-sure, kind="stable")[: int(COVERAGE * len(sure))]
    return {
        "error": float(1 - right.mean()),
        "calibration": calibration_error(sure, right),
        "selective": float(1 - right[kept].mean()),
    }


def coverage(svm: Any, X: Sequence, Y: Sequence, splits: int) -> tuple[float, float]:
    """Return mean and standard error of the coverage over random splits of the examples."""
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
    """Yield rows in the form that CRFsuite takes."""
    for x in X:
        rows = sp.csr_matrix(x)
        bounds = zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
        yield [
            {str(j): float(v) for j, v in zip(rows.indices[a:b], rows.data[a:b], strict=True)}
            for a, b in bounds
        ]


def crf_marginals(X: Sequence, Y: Sequence, X_test: Sequence, c2: float) -> Found:
    """Return CRFsuite's marginals at the nodes of the test examples."""
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
    return found, labels


def crf_row(train: tuple, held: tuple, test: tuple, strengths: Sequence[float]) -> dict[str, Any]:
    """Train CRFsuite with several c2; return the row of the best."""
    rows = []
    for c2 in strengths:
        found, labels = crf_marginals(*train, [*held[0], *test[0]], c2)
        cut = len(held[0])
        score = brier((found[:cut], labels), held[1])
        rows.append({"strength": c2, "held": score} | measures((found[cut:], labels), test[1]))
    return min(rows, key=lambda row: row["held"])


def own_row(
    rescaling: str, data: tuple[tuple, tuple, tuple], strengths: Sequence[float], splits: int
) -> dict[str, Any]:
    """Train our chains with several C; return the row of the best."""
    train, held, test = data
    classes = np.unique(np.concatenate([*train[1], *held[1]]))
    fits = []
    for C in strengths:
        model = models.Chain(start=True, end=True, classes=classes)
        svm = mm.StructuralSVM(model, C=C, tol=0.05, rescaling=rescaling, random_state=0)
        svm.fit(*train).calibrate(*held)
        fits.append((brier((svm.predict_proba(held[0]), classes), held[1]), C, svm))
    score, C, svm = min(fits, key=lambda own: own[0])
    mean, error = coverage(svm, *test, splits)
    row = {"strength": C, "held": score}
    row |= measures((svm.predict_proba(test[0]), svm.classes_), test[1])
    return row | {"covered": mean, "covered_error": error}


def run(name: str, sentences: int | None, splits: int, small: bool) -> list[dict[str, Any]]:
    """Return a row for each learner."""
    options = {"rich": True} if name == "conll2000" else {}
    data = datasets.load(name, small=small, **options)
    X, Y = list(data.X_train)[:sentences], list(data.Y_train)[:sentences]
    order = np.arange(len(X))
    if name == "ocr":
        order = np.random.default_rng(0).permutation(order)
    first, last = np.split(order, [len(X) - len(X) // 5])
    train, held = (([X[i] for i in own], [Y[i] for i in own]) for own in (first, last))
    test = list(data.X_test)[:sentences], list(data.Y_test)[:sentences]
    rows = []
    for learner, strengths in STRENGTHS[name].items():
        if learner != "crfsuite":
            row = own_row(learner, (train, held, test), strengths, splits)
        elif find_spec("pycrfsuite"):
            row = crf_row(train, held, test, strengths)
        else:
            continue
        rows.append({"data": name, "learner": learner, **row})
        print(
            {k: round(v, 4) if isinstance(v, float) else v for k, v in rows[-1].items()}, flush=True
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.confidence")
    parser.add_argument("--data", nargs="+", default=list(STRENGTHS), choices=list(STRENGTHS))
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
    return rows


if __name__ == "__main__":
    main()
