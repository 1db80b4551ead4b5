"""Which gap is small enough? And the cost of a path over C.

    python -m benchmarks.tolerance [--data NAME ...] [--parts gaps path] [--seeds 3] [--small]

Each seed draws nine tenths of the training examples. For every data set, C and seed, the problem is
solved to
(P - D) / P = 0.0001, then to each gap of GAPS, with tol="auto" and with tol=0.001, each time from w
= 0.
`excess` is P(w) above the optimum in percent. `score` is the test score in percent (of nodes, or F1
of spans).
`lost` is the score at the optimum minus this score.

The path goes over ten values of C, found from the data, with tol="auto"; each is also fitted from w
= 0.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import accuracy_score

import maxmargin as mm
from benchmarks import datasets, stand_ins
from benchmarks.papers.dual_coordinate.__main__ import newsgroups as tf_idf
from maxmargin import models
from maxmargin.metrics import entity_f1_score, tag_accuracy_score

EXACT = 1e-4
GAPS = (0.03, 0.01, 0.005, 0.001)
# values of C, as multiples of the smallest C at which something is learnt
TIMES = (100, 1000, 10000)


RARE = ("ADJP", "ADVP", "PRT", "SBAR")  # kinds of chunks


class Task(NamedTuple):
    """Data, a model for them, and a function that scores predictions."""

    train: tuple[Any, Any]
    test: tuple[Any, Any]
    model: Callable[[], Any]
    score: Callable[[Any, Any], float]


def ocr(small: bool) -> Task:
    """Words of letters; one fold of ten is the test part."""
    data = datasets.ocr_letters(small=small)
    return Task(
        (data.X_train, data.Y_train), (data.X_test, data.Y_test), models.Chain, tag_accuracy_score
    )


def usps(small: bool) -> Task:
    """The first 3,000 digits."""
    data = datasets.usps(small=small)
    train = data.X_train[:3000], data.Y_train[:3000]
    model = lambda: models.Multiclass(bias=1.0)  # noqa: E731
    return Task(train, (data.X_test, data.Y_test), model, accuracy_score)


def conll2000(small: bool) -> Task:
    """Chunks of 1,000 sentences, whose losses are counts."""
    data = datasets.conll2000(small=small)
    train = data.X_train[:1000], data.Y_train[:1000]
    return Task(train, (data.X_test[:1000], data.Y_test[:1000]), models.Chain, entity_f1_score)


def rare(small: bool) -> Task:
    """The same sentences with only the rare kinds of chunks, which are about as rare as named entities."""
    task = conll2000(small)
    kinds = ("VP",) if small else RARE
    named = [[[t if t[2:] in kinds else "O" for t in y] for y in part[1]] for part in task[:2]]
    return task._replace(train=(task.train[0], named[0]), test=(task.test[0], named[1]))


def newsgroups(small: bool) -> Task:
    """Text in two nearly separable classes: computers and the rest."""
    if small:
        X, y = stand_ins.digits()
        X, y = X, (y < 5).astype(int)
        return Task((X[:150], y[:150]), (X[150:], y[150:]), models.Binary, accuracy_score)
    X, y = tf_idf()
    y, order = (y < 6).astype(int), np.random.default_rng(0).permutation(len(y))
    train, test = order[:3000], order[6000:]
    return Task((X[train], y[train]), (X[test], y[test]), models.Binary, accuracy_score)


DATA = {"ocr": ocr, "usps": usps, "conll2000": conll2000, "rare": rare, "newsgroups": newsgroups}


def solved(task: Task, C: float, tol: Any, seed: int = 0) -> tuple[Any, float, float]:
    """Return a fitted estimator, its CPU seconds and its test score in percent."""
    svm = mm.StructuralSVM(task.model(), C=C, tol=tol, random_state=seed)
    began = time.process_time()
    svm.fit(*task.train)
    seconds = time.process_time() - began
    return svm, seconds, 100 * task.score(task.test[1], svm.predict(task.test[0]))


def some(task: Task, seed: int) -> Task:
    """Return the task with nine tenths of the training examples."""
    X, Y = task.train
    order = np.random.default_rng(seed).permutation(len(Y))[: len(Y) * 9 // 10]
    taken = [data[order] if hasattr(data, "shape") else [data[i] for i in order] for data in (X, Y)]
    return task._replace(train=tuple(taken))


def study(name: str, small: bool, seeds: int) -> None:
    """Print a line for every C and tolerance: means over the seeds, and the error of the lost score."""
    whole = DATA[name](small)
    base = mm.StructuralSVM(whole.model(), tol=0.1, random_state=0)
    first = mm.regularization_path(base, *whole.train, 1).Cs[0]
    for times in TIMES[:1] if small else TIMES:
        C, rows = times * first, {}
        for seed in range(seeds):
            for tol, row in compared(some(whole, seed), C, seed):
                rows.setdefault(tol, []).append(row)
        print(f"{name} C={C:.3g} ({times} x first)", flush=True)
        best = np.array(rows[EXACT])[:, 3]
        for tol, own in rows.items():
            seconds, passes, excess, score = np.mean(own, axis=0)
            lost = best - np.array(own)[:, 3]
            error = lost.std() / np.sqrt(seeds)
            print(
                f"    {tol!s:>8}  {seconds:7.2f} s  {passes:6.1f} passes  excess {excess:5.2f} %  score "
                f"{score:.2f}  lost {lost.mean():+.2f} +- {error:.2f}, at most {lost.max():+.2f}",
                flush=True,
            )


def compared(task: Task, C: float, seed: int) -> Iterator[tuple[Any, tuple[float, ...]]]:
    """Yield (tolerance, (CPU seconds, passes, percent above the optimum, score)) of each fit."""
    rough = solved(task, C, 0.01, seed)[0].certificate_
    total = (rough.primal - rough.dual) / rough.gap
    exact = solved(task, C, EXACT * rough.primal / total, seed)
    optimum = exact[0].certificate_.dual
    for tol in (EXACT, *GAPS, "auto", "1e-3"):
        number = {"auto": "auto", "1e-3": 1e-3}.get(tol) or tol * optimum / total
        svm, seconds, score = exact if tol == EXACT else solved(task, C, number, seed)
        excess = 100 * (svm.certificate_.primal / optimum - 1)
        yield tol, (seconds, svm.certificate_.passes, excess, score)


def path(name: str, small: bool, seeds: int) -> None:
    """Print the cost of a path beside fits from w = 0."""
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
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="synthetic stand-ins, for a test")
    arguments = parser.parse_args(given)
    for part in arguments.parts:
        for name in arguments.data:
            PARTS[part](name, arguments.small, 1 if arguments.small else arguments.seeds)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
