"""python -m benchmarks.crf [--sets NAME ...] [--part SHARE] [--peers NAME ...] [--small]

Conditional random fields beside CRFsuite, and logistic regression beside scikit-learn, on the same data in
the same run. CPU seconds are those of the training calls; handing the data over is not counted against a
peer.

    ocr            letters, 26 labels, C = 0.5 (CRFsuite's c2 = 1), gap 0.001 nats
    conll2000      word and tag at -2..2, 22 labels, C = 0.5, gap 0.01
    conll2000-rich affixes, bigrams and shapes besides, C = 0.5, gap 0.1
    usps, newsgroups, covertype     multinomial logistic regression; a peer gets the loosest tolerance whose
                   objective is as low as ours, which is certified to a thousandth

CRFsuite's L-BFGS runs to its default end, its averaged perceptron for its default number of passes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression

import maxmargin as mm
from benchmarks import datasets, stand_ins
from benchmarks.datasets import Dataset
from benchmarks.papers.cutting_plane.tasks import covertype
from benchmarks.papers.dual_coordinate.__main__ import newsgroups
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
FLAT = ("usps", "newsgroups", "covertype")
CRFSUITE = ("crfsuite-lbfgs", "crfsuite-ap")
LOGISTIC = ("lbfgs", "newton-cholesky", "saga")
C = 0.5  # 1 / (2 c2) of CRFsuite's c2 = 1
CLOSE = 1e-3  # relative gap of logistic regression
TOLERANCES = tuple(10.0 ** (-step / 2) for step in range(2, 17))
MOST_DIRECT = 5000  # weights of a Newton step with a matrix


def part_of(data: Dataset, share: float) -> Dataset:
    """The first examples of the training part."""
    most = max(1, int(share * data.size))
    sentences = dict(data.sentences)
    if sentences:
        sentences["train"] = sentences["train"][:most]
    return replace(
        data, X_train=data.X_train[:most], Y_train=data.Y_train[:most], sentences=sentences
    )


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    found = call()
    return found, time.process_time() - began


def field(data: Dataset, tol: float, formulation: str = "log", solver: Any = "auto") -> Row:
    """Ours on sequences."""
    model = models.Chain(bias=None if data.sentences else 1.0)
    crf = mm.CRF(model, C=C, tol=tol, formulation=formulation, solver=solver, random_state=0)
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
    """Ours, then CRFsuite's."""
    load, tol = CHAINS[name]
    data = part_of(load(small=small, dtype=np.float32), share)
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


def rows_of(name: str, share: float, small: bool) -> tuple[Any, np.ndarray]:
    """Features and labels of a set of rows."""
    if small:
        X, y = stand_ins.digits()
    elif name == "usps":
        data = datasets.usps()
        X, y = data.X_train, data.Y_train
    else:
        X, y = newsgroups() if name == "newsgroups" else covertype()
    most = int(share * X.shape[0])
    return X[:most], np.unique(y[:most], return_inverse=True)[1]


def logistic_primal(W: np.ndarray, X: Any, y: np.ndarray, weight: float) -> float:
    """1/2 |W|^2 - C sum_i log p(y_i | x_i)."""
    scores = np.asarray(X @ W.T)
    own = scores[np.arange(len(y)), y]
    return float(0.5 * np.sum(W * W) + weight * np.sum(logsumexp(scores, axis=1) - own))


def regression(name: str, share: float, small: bool, peers: Sequence[str]) -> list[Row]:
    """Ours to a certified thousandth, then each solver of scikit-learn to the same objective."""
    X, y = rows_of(name, share, small)
    ours = mm.CRF(models.Multiclass(), C=1.0, random_state=0)
    total = len(y) * np.log(y.max() + 1)
    tol = CLOSE * ours.fit(X, y).certificate_.primal / len(y)
    ours.set_params(tol=tol)
    _, cpu = timed(lambda: ours.fit(X, y))
    primal = ours.certificate_.primal
    row = {"data": name, "learner": f"maxmargin {ours.solver_}", "train_cpu": cpu}
    rows: list[Row] = [{**row, "primal": primal, "gap": ours.certificate_.gap, "at_zero": total}]
    for solver in peers:
        if solver not in LOGISTIC or (
            solver == "newton-cholesky" and X.shape[1] * (y.max() + 1) > MOST_DIRECT
        ):
            continue
        rows.append({"data": name, **peer_regression(solver, X, y, primal)})
    for row in rows:
        row["ratio"] = row["train_cpu"] / cpu
    return rows


def peer_regression(solver: str, X: Any, y: np.ndarray, primal: float) -> Row:
    """The loosest tolerance of a solver that reaches an objective."""
    cpu, value, tol = np.nan, np.inf, np.nan
    for tol in TOLERANCES:
        given = LogisticRegression(
            C=1.0, fit_intercept=False, solver=solver, tol=tol, max_iter=100_000, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, cpu = timed(lambda given=given: given.fit(X, y))
        value = logistic_primal(found.coef_, X, y, 1.0)
        if value <= primal:
            break
    return {"learner": f"sklearn {solver}", "train_cpu": cpu, "primal": value, "status": tol}


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sets", nargs="*", default=[*CHAINS, *FLAT], choices=[*CHAINS, *FLAT])
    parser.add_argument("--part", type=float, default=1.0, help="share of the training examples")
    parser.add_argument("--peers", nargs="*", default=[*CRFSUITE, *LOGISTIC])
    parser.add_argument("--small", action="store_true", help="tiny stand-ins, without data")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    rows: list[Row] = []
    for name in given.sets:
        run = sequences if name in CHAINS else regression
        found = run(name, given.part, given.small, given.peers)
        for row in found:
            shown = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
            print("  ".join(shown), flush=True)
        rows += found
    write_csv(given.out / "crf.csv", rows)
    return rows


if __name__ == "__main__":
    main()
