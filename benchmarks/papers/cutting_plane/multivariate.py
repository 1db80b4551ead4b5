"""python -m benchmarks.papers.cutting_plane.multivariate [--data NAME ...] [--train N] [--out DIR]
[--small]

Compare training for F1 with training for the error, on sets with few positives: the rarest class of
covertype against the rest, and one class of 20 Newsgroups against the rest. Every method takes the
C
with the best F1 on a validation split, and likewise the weight of the positives if it has one. Test
F1 is measured once. "shifted" is the F1 if the threshold is also chosen on the validation split.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import f1_score, precision_recall_curve

import maxmargin as mm
from benchmarks import stand_ins
from benchmarks.datasets import data_file
from benchmarks.papers import rows as reading
from benchmarks.papers.cutting_plane.tasks import covertype
from benchmarks.timing import best_of, write_csv

Row = dict[str, Any]
TRAINED = {
    "error": "trained for the error",
    "weighted": "for a weighted error",
    "f1": "for F1",
}
METHODS = tuple(TRAINED)
POSITIVE_WEIGHTS = (3.0, 10.0, 30.0, 100.0)


@dataclass(frozen=True)
class Split:
    """Three parts with labels 0 and 1."""

    name: str
    train: tuple[Any, np.ndarray]
    validation: tuple[Any, np.ndarray]
    test: tuple[Any, np.ndarray]


def rare_covertype(train: int) -> Split:
    """Return the rarest of the seven classes (0.5 %) against the rest.

    There are as many examples for validation as for training.
    """
    X, y = covertype()
    values, counts = np.unique(y, return_counts=True)
    labels = (y == values[np.argmin(counts)]).astype(np.int64)
    cuts = (slice(0, train), slice(train, 2 * train), slice(2 * train, None))
    return Split("covertype", *((X[cut], labels[cut]) for cut in cuts))


def newsgroups(train: int) -> Split:
    """Return the smallest of the twenty groups against the rest, as tf-idf rows of norm one.

    A share of 30 % of the training examples is for validation.
    """
    with np.load(data_file("newsgroups20", "newsgroups20.npz"), allow_pickle=False) as stored:
        width = int(stored["n_features"])
        parts = {
            part: (_csr(stored, part, width), stored[f"y_{part}"].astype(np.int64))
            for part in ("train", "test")
        }
    X, y = parts["train"]
    weigh = TfidfTransformer(sublinear_tf=True).fit(X)
    values, counts = np.unique(y, return_counts=True)
    rare = values[np.argmin(counts)]
    order = np.random.default_rng(0).permutation(len(y))[:train]
    own, other = np.split(order, [int(0.7 * len(order))])
    rows = [(X[own], y[own]), (X[other], y[other]), parts["test"]]
    return Split("newsgroups", *((weigh.transform(x), (z == rare).astype(int)) for x, z in rows))


def _csr(stored: Any, part: str, width: int) -> Any:
    pieces = [stored[f"X_{part}_{name}"] for name in ("data", "indices", "indptr")]
    return sparse.csr_matrix(
        (pieces[0].astype(np.float64), *pieces[1:]), (len(pieces[2]) - 1, width)
    )


def small_split(train: int) -> Split:
    """Return digits of a stand-in, one of ten against the rest."""
    X, y = stand_ins.digits(examples=300)
    labels = (y == 3).astype(np.int64)
    return Split("small", *((X[a : a + 100], labels[a : a + 100]) for a in (0, 100, 200)))


# name -> loader, values of C for losses of single examples, values of C for the sample loss
DATA = {
    "covertype": (rare_covertype, np.logspace(-1, 3, 5), np.logspace(5, 9, 5)),
    "newsgroups": (newsgroups, np.logspace(-1, 3, 5), np.logspace(4, 9, 6)),
    "small": (small_split, np.array([0.01, 1.0]), np.array([10.0, 1000.0])),
}


def settings(method: str, flat: np.ndarray, whole: np.ndarray) -> Iterator[Row]:
    """Yield the settings that a method tries."""
    if method == "f1":
        yield from ({"C": C, "loss": "f1", "tol": 0.01} for C in whole)
        return
    weights = POSITIVE_WEIGHTS if method == "weighted" else (1.0,)
    for weight in weights:
        for C in flat:
            yield {"C": C, "class_weight": {0: 1.0, 1: weight}, "tol": 1e-4}


def best_threshold(scores: np.ndarray, y: np.ndarray) -> float:
    """Return the lowest score that counts as positive at the best F1."""
    precision, recall, thresholds = precision_recall_curve(y, scores)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    return float(thresholds[np.argmax(f1[:-1])])


def measure(data: Split, method: str, options: Row) -> Row:
    """Measure one fit and its F1."""
    svc = mm.BinarySVC(max_passes=2000, max_seconds=120, random_state=0, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        timed = best_of(1, lambda: svc.fit(*data.train))
    seen, unseen = (svc.decision_function(part[0]) for part in (data.validation, data.test))
    bar = best_threshold(seen, data.validation[1])

    def f1(part: tuple[Any, np.ndarray], predicted: np.ndarray) -> float:
        return float(f1_score(part[1], predicted, zero_division=0.0))

    return {
        "data": data.name,
        "method": method,
        "C": options["C"],
        "weight": options.get("class_weight", {1: 1.0})[1],
        "cpu": timed.cpu,
        "oracle_calls": svc.certificate_.oracle_calls,
        "gap": svc.certificate_.gap,
        "validation_f1": f1(data.validation, seen > 0),
        "test_f1": f1(data.test, unseen > 0),
        "validation_f1_shifted": f1(data.validation, seen >= bar),
        "test_f1_shifted": f1(data.test, unseen >= bar),
    }


def run(names: list[str], train: int) -> list[Row]:
    """Run all sets, methods and settings."""
    rows = []
    for name in names:
        load, flat, whole = DATA[name]
        data = load(train)
        for method in METHODS:
            for options in settings(method, flat, whole):
                rows.append(measure(data, method, options))
                print(
                    "  ".join(
                        f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}"
                        for k, v in rows[-1].items()
                    ),
                    flush=True,
                )
    return rows


def chosen(rows: Sequence[reading.Row], data: str, method: str) -> tuple[reading.Row, reading.Row]:
    """Return the fits with the best F1 on the validation split, without and with a shifted threshold."""
    own = reading.chosen(rows, data=data, method=method)
    best, shifted = (
        max(own, key=lambda row: reading.number(row, name))
        for name in ("validation_f1", "validation_f1_shifted")
    )
    return best, shifted


def says(rows: Sequence[reading.Row]) -> list[str]:
    """Describe the test F1 of the fits that the validation split chose."""
    found = []
    for data in reading.values(rows, "data"):
        parts = []
        for method in METHODS:
            best, shifted = chosen(rows, data, method)
            cpu = sum(
                reading.number(r, "cpu") for r in reading.chosen(rows, data=data, method=method)
            )
            parts.append(
                f"{TRAINED[method]} {reading.number(best, 'test_f1'):.3f}, with a shifted threshold "
                f"{reading.number(shifted, 'test_f1_shifted'):.3f}, all fits {reading.short(cpu)} s"
            )
        found.append(
            f"{data}, test F1 of the fits that the validation split chose: {'; '.join(parts)}."
        )
    return found


def main(arguments: list[str] | None = None) -> list[Row]:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--data", nargs="+", choices=list(DATA), default=["newsgroups", "covertype"]
    )
    parser.add_argument("--train", type=int, default=100_000, help="examples, at most")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/cutting_plane"))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
    rows = run(["small"] if options.small else options.data, options.train)
    write_csv(options.out / "multivariate.csv", rows)
    for sentence in says(reading.read(options.out / "multivariate.csv")):
        print(sentence)
    return rows


if __name__ == "__main__":
    main()
