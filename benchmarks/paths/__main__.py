"""python -m benchmarks.paths [--sets NAME ...] [--most N] [--values K] [--small]

Compare regularisation paths with single fits at the same values of C, by passes and CPU seconds.

    chunks             CoNLL-2000, word and tag at -2..2: hinge and log loss
    words              CoNLL-2000, only the word and a bias: hinge and log loss
    usps, newsgroups   rows of features: multi-class hinge and logistic regression

Values of C go from 0.01 to 10. "bad" counts points of the path that did not converge.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

import maxmargin as mm
from benchmarks import datasets
from benchmarks.crf.regression import rows_of, timed
from benchmarks.timing import write_csv
from maxmargin import models

Row = dict[str, Any]
ROOT = Path(__file__).parents[2]
CHAINS, ROWS = ("chunks", "words"), ("usps", "newsgroups")
FIRST, LAST = 0.01, 10.0  # C


def examples(name: str, most: int, small: bool) -> tuple[Any, Any]:
    """Return the first examples of a data set."""
    if name in ROWS:
        X, y = rows_of(name, 1.0, small)
        return X[:most], y[:most]
    if name == "chunks":
        data = datasets.conll2000(small=small)
        return data.X_train[:most], data.Y_train[:most]
    sentences, Y = datasets.chunked("train", small)
    words = [[[f"w={word}", "bias"] for word in sentence[0]] for sentence in sentences[:most]]
    return words, Y[:most]


def learners(name: str) -> dict[str, Any]:
    """Return the estimators for a data set."""
    if name in ROWS:
        return {
            "hinge": mm.MulticlassSVC(random_state=0),
            "log loss": mm.MulticlassLogistic(random_state=0),
        }
    return {
        "hinge": mm.StructuralSVM(models.Chain(start=True), random_state=0),
        "log loss": mm.CRF(models.Chain(start=True), random_state=0),
    }


def compare(name: str, values: int, most: int, small: bool) -> list[Row]:
    """Return a row for each loss."""
    X, Y = examples(name, most, small)
    Cs = np.geomspace(FIRST, LAST, values)
    rows = []
    for loss, svm in learners(name).items():
        path, path_cpu = timed(lambda svm=svm: mm.regularization_path(svm, X, Y, Cs))
        single, cpu = timed(
            lambda svm=svm: [clone(svm).set_params(C=C).fit(X, Y).certificate_ for C in Cs]
        )
        passes = sum(found.passes for found in path.certificates)
        alone = sum(found.passes for found in single)
        rows.append(
            {
                "data": name,
                "loss": loss,
                "examples": len(Y),
                "path_calls": sum(found.oracle_calls for found in path.certificates),
                "calls": sum(found.oracle_calls for found in single),
                "path_passes": passes,
                "passes": alone,
                "passes_ratio": passes / alone,
                "path_cpu": path_cpu,
                "cpu": cpu,
                "cpu_ratio": path_cpu / cpu,
                "bad": sum(not found.converged for found in path.certificates),
            }
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    known = [*CHAINS, *ROWS]
    parser.add_argument("--sets", nargs="*", default=known, choices=known)
    parser.add_argument("--most", type=int, default=2000, help="examples of each set")
    parser.add_argument("--values", type=int, default=7, help="how many values of C")
    parser.add_argument("--small", action="store_true", help="tiny stand-ins, without data")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    rows: list[Row] = []
    for name in given.sets:
        found = compare(name, given.values, given.most, given.small)
        for row in found:
            shown = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
            print("  ".join(shown), flush=True)
        rows += found
    write_csv(given.out / "paths.csv", rows)
    return rows


if __name__ == "__main__":
    main()
