"""python -m benchmarks.micro.attributes [--sentences N] [--repeats N] [--tag] [--train] [--out DIR]
[--small]

Measure CPU and wall time to read the attributes of CoNLL-2000 (``data.describe_columns``, dicts of
strings and lists):

    fit_transform   learn the names and make the matrix, which a fit does once
    transform       make the matrix, with known names
    hashed          the same with 2^18 columns, by a hash of the names
    ..., 2 threads  with n_jobs=2: one thread walks over the items, the other looks names up
    append          ``Trainer.append`` of python-crfsuite on the same items, if it is installed

--tag also measures predictions from lists of strings with 9 labels (the most frequent phrases),
beside CRFsuite's tagger: CPU and wall time per token, with one thread and with two. --train also
measures the way from the dicts to F1 on the test part, beside CRFsuite's averaged perceptron.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import maxmargin as mm
from benchmarks import datasets
from benchmarks.datasets import Dataset
from benchmarks.text_features import iterate_attributes
from benchmarks.timing import best_of, write_csv
from maxmargin import models
from maxmargin.data import AttributeEncoder, describe_columns

Row = dict[str, Any]
Items = list[list[Any]]
COLUMNS = 2**18
C, TOL = 0.1, 0.1
LABELS, PASSES = 9, 5


def described(data: Dataset, part: str, most: int | None = None) -> Items:
    """Return the sentences as dicts whose values are lists, since CRFsuite takes no tuples."""
    sentences = [
        describe_columns(list(zip(words, tags, strict=True)))
        for words, tags in data.sentences[part][:most]
    ]
    for sentence in sentences:
        for item in sentence:
            item.update(prefix=list(item["prefix"]), suffix=list(item["suffix"]))
    return sentences


def readings(X: Items, Y: Sequence[Any]) -> dict[str, Callable[[], Any]]:
    """Return the calls to time, by name."""
    known = AttributeEncoder(sequences=True).fit(X)
    hashing = AttributeEncoder(n_features=COLUMNS, sequences=True).fit([])
    once: dict[str, Callable[[Any], Any]] = {
        "fit_transform": lambda n: AttributeEncoder(sequences=True, n_jobs=n).fit_transform(X),
        "transform": lambda n: known.set_params(n_jobs=n).transform(X),
        "hashed": lambda n: hashing.set_params(n_jobs=n).transform(X),
    }
    found: dict[str, Callable[[], Any]] = {}
    for name, call in once.items():
        found |= {name: partial(call, None), f"{name}, 2 threads": partial(call, 2)}
    if find_spec("pycrfsuite"):
        found["append"] = lambda: appended(X, Y, "ap")
    return found


def appended(X: Items, Y: Sequence[Any], algorithm: str) -> Any:
    """Return a trainer of CRFsuite that holds these data."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm, verbose=False)
    for x, y in zip(X, Y, strict=True):
        trainer.append(x, y)
    return trainer


def trainings(data: Dataset) -> list[Row]:
    """Measure the way from dicts to F1, for ours and for the averaged perceptron."""
    X, X_test = described(data, "train"), described(data, "test")
    svm = mm.StructuralSVM(models.Chain(), C=C, tol=TOL, random_state=0)
    ours = best_of(1, lambda: svm.fit(X, data.Y_train))
    rows = [{"learner": "maxmargin", "cpu": ours.cpu, **data.scores(svm.predict(X_test))}]
    if find_spec("pycrfsuite"):
        import pycrfsuite

        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "model.crfsuite")
            peer = best_of(1, lambda: appended(X, data.Y_train, "ap").train(path))
            tagger = pycrfsuite.Tagger()
            tagger.open(path)
            found = data.scores([tagger.tag(x) for x in X_test])
            tagger.close()
        rows.append({"learner": "crfsuite-ap", "cpu": peer.cpu, **found})
    for row in rows:
        scores = {name: f"{value:.4f}" for name, value in row.items() if name != "learner"}
        print(f"{row['learner']:>14} {scores}", flush=True)
    return rows


def taggings(data: Dataset, most: int, repeats: int) -> list[Row]:
    """Measure predictions from lists of strings.

    A few passes of training are enough, as the time of a prediction does not depend on them.
    """
    phrases = [[str(tag).split("-")[-1] for tag in y] for y in data.Y_train[:most]]
    kept = {k for k, _ in Counter(k for y in phrases for k in y).most_common(LABELS)}
    Y = [[k if k in kept else "O" for k in y] for y in phrases]
    texts = (data.sentences[part][:most] for part in ("train", "test"))
    X, X_test = (list(iterate_attributes(text, rich=True)) for text in texts)
    svm = mm.StructuralSVM(models.Chain(), C=C, tol=1.0, max_passes=PASSES, random_state=0)
    svm.fit(X, Y)
    calls: dict[str, Callable[[], Any]] = {
        "predict, 1 thread": lambda: svm.set_params(n_jobs=1).predict(X_test),
        "predict, 2 threads": lambda: svm.set_params(n_jobs=2).predict(X_test),
    }
    with tempfile.TemporaryDirectory() as folder:
        if find_spec("pycrfsuite"):
            tagger = peer_tagger(X, Y, Path(folder) / "model.crfsuite")
            calls["crfsuite"] = lambda: [tagger.tag(x) for x in X_test]
        runs = {name: best_of(repeats, call) for name, call in calls.items()}
    tokens, rows = sum(map(len, X_test)), []
    for name, run in runs.items():
        rows.append({"tagging": name, "cpu": run.cpu, "us_token": 1e6 * run.cpu / tokens})
        wall = f"{1e6 * run.wall / tokens:.2f}"
        print(f"{name:>18} {rows[-1]['us_token']:.2f} us/token, wall {wall}", flush=True)
    return rows


def peer_tagger(X: Items, Y: Sequence[Any], path: Path) -> Any:
    """Return CRFsuite's tagger after a few passes of training."""
    import pycrfsuite

    trainer = appended(X, Y, "ap")
    trainer.set_params({"max_iterations": PASSES})
    trainer.train(str(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print, write the CSV."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.micro.attributes")
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--train", action="store_true", help="also train, on all sentences")
    parser.add_argument("--tag", action="store_true", help="also predict, with 9 labels")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/micro"))
    parser.add_argument("--small", action="store_true", help="synthetic stand-in, no data needed")
    chosen = parser.parse_args(arguments)
    data = datasets.conll2000(small=chosen.small)
    X, Y = described(data, "train", chosen.sentences), data.Y_train[: chosen.sentences]
    given = AttributeEncoder(sequences=True).fit_transform(X).nnz
    rows = []
    for name, call in readings(X, Y).items():
        run = best_of(chosen.repeats, call)
        cpu, wall = 1e9 * run.cpu / given, 1e9 * run.wall / given
        rows.append({"reading": name, "cpu": run.cpu, "ns_attribute": cpu, "ns_wall": wall})
        print(
            f"{name:>24} {1e3 * run.cpu:9.1f} ms {cpu:7.0f} ns/attribute, wall {wall:.0f}",
            flush=True,
        )
    rows += taggings(data, chosen.sentences, chosen.repeats) if chosen.tag else []
    rows += trainings(data) if chosen.train else []
    write_csv(chosen.out / "attributes.csv", rows)
    return rows


if __name__ == "__main__":
    main()
