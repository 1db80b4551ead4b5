"""python -m benchmarks.crf [--sets NAME ...] [--part SHARE] [--peers NAME ...] [--small]

Conditional random fields beside CRFsuite, and logistic regression beside scikit-learn, on the same
data in the same run. CPU seconds cover the training calls. The time to hand the data over to a peer is
not counted.

    ocr            letters, 26 labels, C = 0.5 (CRFsuite's c2 = 1), gap 0.001 nats
    conll2000      word and tag at -2..2, 22 labels, C = 0.5, gap 0.01
    conll2000-rich affixes, bigrams and shapes besides, C = 0.5, gap 0.1
    usps, newsgroups, covertype             multinomial logistic regression (regression.py)
    ocr-calibration, conll2000-calibration  hinge, softmax margin and log loss (calibration.py)
    ocr-rule, conll2000-rule, usps-rule, newsgroups-rule, covertype-rule
       both solvers for many C, to check the rule of "auto" (rule.py); only on request

CRFsuite's L-BFGS runs to its default stopping rule, its averaged perceptron for its default number
of passes. By default, CRFsuite has weights only for pairs of an attribute and a label that occur
together in the training part. Our model has weights for all pairs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import maxmargin as mm
from benchmarks import datasets
from benchmarks.crf.calibration import calibration
from benchmarks.crf.regression import LIBLINEAR, SETS, SOLVERS, regression, timed
from benchmarks.crf.rule import BED, bed
from benchmarks.datasets import Dataset
from benchmarks.race.peers import PEERS, Setting, available
from benchmarks.timing import write_csv
from maxmargin import models

Row = dict[str, Any]
ROOT = Path(__file__).parents[2]
CHAINS: dict[str, tuple[Callable[..., Dataset], float]] = {
    "ocr": (datasets.ocr_letters, 0.001),
    "conll2000": (datasets.conll2000, 0.01),
    "conll2000-rich": (lambda **given: datasets.conll2000(rich=True, **given), 0.1),
}
CALIBRATED = {"ocr-calibration": "ocr", "conll2000-calibration": "conll2000"}
CRFSUITE = ("crfsuite-lbfgs", "crfsuite-ap")
C = 0.5  # equals 1 / (2 c2) for CRFsuite's c2 = 1


def part_of(data: Dataset, share: float) -> Dataset:
    """Return the data set with only the first examples of its training part."""
    most = max(1, int(share * data.size))
    sentences = dict(data.sentences)
    if sentences:
        sentences["train"] = sentences["train"][:most]
    return replace(
        data, X_train=data.X_train[:most], Y_train=data.Y_train[:most], sentences=sentences
    )


def with_constant(data: Dataset) -> Dataset:
    """Add a pixel that is always on to letters; it serves as a bias for CRFsuite and for us."""
    if data.sentences:
        return data
    parts = {
        name: [np.hstack([x, np.ones((len(x), 1), x.dtype)]) for x in getattr(data, name)]
        for name in ("X_train", "X_test")
    }
    return replace(data, **parts)


def field(data: Dataset, tol: float, formulation: str = "log", solver: Any = "auto") -> Row:
    """Train our CRF on sequences; return its row."""
    crf = mm.CRF(
        models.Chain(), C=C, tol=tol, formulation=formulation, solver=solver, random_state=0
    )
    _, cpu = timed(lambda: crf.fit(data.X_train, data.Y_train))
    found = crf.certificate_
    return {
        "data": data.name,
        "learner": f"maxmargin {crf.solver_}",
        "train_cpu": cpu,
        "passes": found.passes,
        "gap": found.gap,
        "primal": found.primal,
        **data.scores(crf.predict(data.X_test)),
    }


def sequences(name: str, share: float, small: bool, peers: Sequence[str]) -> list[Row]:
    """Return our row, then the rows of CRFsuite."""
    load, tol = CHAINS[name]
    data = with_constant(part_of(load(small=small, dtype=np.float32), share))
    rows = [field(data, tol)]
    for peer in peers:
        if peer in CRFSUITE and available(peer):
            row = PEERS[peer](data, Setting(regularization=np.nan, c2=1.0))
            rows.append(
                {"data": name, "learner": peer, **{k: v for k, v in row.items() if k != "solver"}}
            )
    for row in rows:
        row["data"], row["ratio"] = name, row["train_cpu"] / rows[0]["train_cpu"]
    return rows


def rows_for(name: str, share: float, small: bool, peers: Sequence[str]) -> list[Row]:
    """Return the rows of a set, which depend on its group."""
    if name in BED:
        return bed(name, small)
    if name in SETS:
        return regression(name, share, small, peers)
    if name in CHAINS:
        return sequences(name, share, small, peers)
    load, _ = CHAINS[CALIBRATED[name]]
    data = part_of(load(small=small, dtype=np.float32), share)
    return [{"data": name, **row} for row in calibration(data)]


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    known = [*CHAINS, *SETS, *CALIBRATED]
    parser.add_argument("--sets", nargs="*", default=known, choices=[*known, *BED])
    parser.add_argument("--part", type=float, default=1.0, help="share of the training examples")
    parser.add_argument("--peers", nargs="*", default=[*CRFSUITE, *SOLVERS, LIBLINEAR])
    parser.add_argument("--small", action="store_true", help="tiny stand-ins, without data")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    rows: list[Row] = []
    for name in given.sets:
        found = rows_for(name, given.part, given.small, given.peers)
        for row in found:
            shown = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
            print("  ".join(shown), flush=True)
        rows += found
    write_csv(given.out / "crf.csv", rows)
    return rows


if __name__ == "__main__":
    main()
