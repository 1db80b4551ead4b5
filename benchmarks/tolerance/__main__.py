"""Which gap is small enough, and what a path over C costs.

    python -m benchmarks.tolerance [--data ocr usps conll2000 newsgroups] [--parts gaps path] [--small]

For every data set and C the problem is solved to (P - D) / P = 0.0003, then to each gap of GAPS, with
tol="auto" and with tol=0.001, each time from w = 0. `excess` is P(w) above the optimum in percent, `score`
the test score in percent (nodes; chunk F1 for chunks), `lost` what the optimum has more.

The path goes over ten values of C, found from the data, with tol="auto"; each is also fitted from w = 0.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import accuracy_score

import maxmargin as mm
from benchmarks import datasets, stand_ins
from benchmarks.papers.dual_coordinate.__main__ import newsgroups as tf_idf
from maxmargin import models
from maxmargin.metrics import entity_f1_score, tag_accuracy_score

EXACT = 3e-4
GAPS = (0.1, 0.03, 0.01, 0.003, 0.001)
TIMES = (10, 100, 1000, 10000)  # C over the first that is of use


class Task(NamedTuple):
    """Data, a model for them, and how predictions are scored."""

    train: tuple[Any, Any]
    test: tuple[Any, Any]
    model: Callable[[], Any]
    score: Callable[[Any, Any], float]


def ocr(small: bool) -> Task:
    """Words of letters, one fold of ten for training, as the data are published."""
    data = datasets.ocr_letters(small=small)
    return Task(
        (data.X_train, data.Y_train), (data.X_test, data.Y_test), models.Chain, tag_accuracy_score
    )


def usps(small: bool) -> Task:
    """Digits."""
    data = datasets.usps(small=small)
    model = lambda: models.Multiclass(bias=1.0)  # noqa: E731
    return Task((data.X_train, data.Y_train), (data.X_test, data.Y_test), model, accuracy_score)


def conll2000(small: bool) -> Task:
    """Chunks of 2,000 sentences: losses are counts."""
    data = datasets.conll2000(small=small)
    train = data.X_train[:2000], data.Y_train[:2000]
    return Task(train, (data.X_test[:1000], data.Y_test[:1000]), models.Chain, entity_f1_score)


def newsgroups(small: bool) -> Task:
    """Text in two classes, nearly separable: computers and the rest."""
    if small:
        X, y = stand_ins.digits()
        X, y = X, (y < 5).astype(int)
        return Task((X[:150], y[:150]), (X[150:], y[150:]), models.Binary, accuracy_score)
    X, y = tf_idf()
    y, order = (y < 6).astype(int), np.random.default_rng(0).permutation(len(y))
    train, test = order[:6000], order[6000:]
    return Task((X[train], y[train]), (X[test], y[test]), models.Binary, accuracy_score)


DATA = {"ocr": ocr, "usps": usps, "conll2000": conll2000, "newsgroups": newsgroups}


def solved(task: Task, C: float, tol: Any) -> tuple[Any, float, float]:
    """A fitted estimator, its CPU seconds and its test score."""
    svm = mm.StructuralSVM(task.model(), C=C, tol=tol, random_state=0)
    began = time.process_time()
    svm.fit(*task.train)
    seconds = time.process_time() - began
    return svm, seconds, task.score(task.test[1], svm.predict(task.test[0]))


def study(name: str, small: bool) -> None:
    """Print a line for every C and gap."""
    task = DATA[name](small)
    base = mm.StructuralSVM(task.model(), tol=0.1, random_state=0)
    first = mm.regularization_path(base, *task.train, 1).Cs[0]
    for times in TIMES[1:2] if small else TIMES:
        C = times * first
        rough = solved(task, C, 0.01)[0].certificate_
        per_loss = rough.primal - rough.dual, rough.gap
        total = per_loss[0] / per_loss[1]
        exact, seconds, best = solved(task, C, EXACT * rough.primal / total)
        optimum = exact.certificate_.primal
        each = f"optimum {optimum / total:.4g} a unit of loss"
        print(f"{name} C={C:.3g} ({times} x first)  {each}", flush=True)

        line(EXACT, exact, seconds, best, optimum, best)
        for gap in GAPS:
            line(gap, *solved(task, C, gap * optimum / total), optimum, best)
        line("auto", *solved(task, C, "auto"), optimum, best)
        line("absolute", *solved(task, C, 1e-3), optimum, best)


def line(name: Any, svm: Any, seconds: float, score: float, optimum: float, best: float) -> None:
    """Print what a fit took and reached."""
    certificate = svm.certificate_
    print(
        f"    {name!s:>8}  {seconds:7.2f} s  {certificate.passes:6.1f} passes  excess "
        f"{100 * (certificate.primal / optimum - 1):5.2f} %  score {100 * score:.2f}  lost "
        f"{100 * (best - score):+.2f}",
        flush=True,
    )


def path(name: str, small: bool) -> None:
    """Print what a path costs beside fits from w = 0."""
    task = DATA[name](small)
    svm = mm.StructuralSVM(task.model(), random_state=0)
    began = time.process_time()
    found = mm.regularization_path(svm, *task.train, 3 if small else 10)
    seconds = time.process_time() - began
    warm = sum(certificate.passes for certificate in found.certificates)
    fits = [solved(task, C, "auto") for C in found.Cs]
    cold = [fit[1] for fit in fits]
    passes = [fit[0].certificate_.passes for fit in fits]
    print(
        f"{name}: path {seconds:.2f} s, {warm:.0f} passes; from w = 0 {sum(cold):.2f} s, {sum(passes):.0f} "
        f"passes; the most expensive {max(cold):.2f} s: the path takes {seconds / max(cold):.2f} of it"
    )


PARTS = {"gaps": study, "path": path}


def main(given: list[str] | None = None) -> int:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--small", action="store_true", help="synthetic stand-ins, for a test")
    arguments = parser.parse_args(given)
    for part in arguments.parts:
        for name in arguments.data:
            PARTS[part](name, arguments.small)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
