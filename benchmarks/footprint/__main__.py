"""python -m benchmarks.footprint [--data NAME ...] [--learners NAME ...] [--sentences N] [--small]

Measure models of tagged text, and CRFsuite if it is installed. Each learner runs in its own process:

    fit_cpu       CPU seconds from lists of attributes to a model
    fit_peak      peak memory of the process, in MB; `before` is the peak with the data, before training
    file          size of the model file, in MB
    load_peak     peak memory of a process that loads the file and tags, in MB
    latency       median milliseconds for one sentence of ten tokens, after loading
    throughput    thousands of tokens per second for all test sentences at once, on all cores

Our learners are "all" (`Chain(features="all")`), "observed", and "pruned". The last one is "observed" in
single precision, without weights of at most 1 % of the largest.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import maxmargin as mm
from benchmarks import datasets
from benchmarks.papers.gdmm.tasks import CZECH, conllu
from benchmarks.tagging import affix_attributes, split
from benchmarks.text_features import iterate_attributes
from benchmarks.timing import best_of, write_csv
from maxmargin import models

Row = dict[str, Any]
Text = tuple[
    list[Any], list[Any], list[Any], list[Any]
]  # attributes and tags, for training and testing
DATA = ("conll2000", "czech")
OURS = ("all", "observed", "pruned")
PEERS = {"crfsuite-ap": "ap", "crfsuite-lbfgs": "lbfgs"}
SETTINGS = {"conll2000": {"C": 0.1, "tol": 0.1}, "czech": {"C": 0.1, "tol": 0.3}}
PASSES = 10  # `max_iterations` of CRFsuite, so that its training ends
CALLS = 200
TOKENS = 10


def text(name: str, most: int | None, small: bool) -> Text:
    """Return lists of attributes and tags, for training and for testing."""
    parts = [described(name, part, small) for part in ("train", "test")]
    (X, Y), (X_test, Y_test) = parts
    return X[:most], Y[:most], X_test, Y_test


def described(name: str, part: str, small: bool) -> tuple[list[Any], list[Any]]:
    """Return attributes and tags of one part of a text."""
    if name == "conll2000":
        sentences, Y = datasets.chunked(part, small)
        return list(iterate_attributes(sentences, rich=True)), Y
    if small:
        tagged = split("treebank", True)[part == "test"]
    else:
        tagged = [sentence for file in CZECH[part] for sentence in conllu(file)]
    return [affix_attributes(words) for words, _ in tagged], [tags for _, tags in tagged]


def peak() -> float:
    """Return the peak memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        2**20 if sys.platform == "darwin" else 1024
    )


def train(learner: str, data: Text, settings: dict[str, float], path: Path) -> float:
    """Train and save the model; return the CPU seconds of training."""
    X, Y = data[:2]
    if learner in PEERS:
        return best_of(1, lambda: train_peer(PEERS[learner], X, Y, path)).cpu
    chain = models.Chain(features="all" if learner == "all" else "observed")
    svm = mm.StructuralSVM(chain, random_state=0, **settings)
    seconds = best_of(1, lambda: svm.fit(X, Y)).cpu
    if learner == "pruned":
        svm.prune(0.01 * float(abs(svm.coef_).max())).save(path, dtype="float32")
    else:
        svm.save(path)
    return seconds


def train_peer(algorithm: str, X: list[Any], Y: list[Any], path: Path) -> None:
    """Train CRFsuite and write its file, with weights only for observed pairs, its default."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm, verbose=False)
    trainer.set_params({"max_iterations": PASSES})
    for x, y in zip(X, Y, strict=True):
        trainer.append(x, y)
    trainer.train(str(path))


def tagger(learner: str, path: Path) -> Callable[[list[Any]], list[Any]]:
    """Load a model file, and return the function that tags sentences."""
    if learner in PEERS:
        import pycrfsuite

        found = pycrfsuite.Tagger()
        found.open(str(path))
        return lambda X: [found.tag(x) for x in X]
    svm = mm.load(path).set_params(n_jobs=-1)
    return svm.predict


def tag(learner: str, data: Text, path: Path) -> Row:
    """Measure the latency of a sentence, the throughput, and the test error."""
    X, Y = data[2:]
    find = tagger(learner, path)
    short = [next((x[:TOKENS] for x in X if len(x) >= TOKENS), X[0])]
    find(short)
    times = []
    for _ in range(CALLS):
        start = time.perf_counter()
        find(short)
        times.append(time.perf_counter() - start)
    runs = best_of(3, lambda: find(X))
    tokens = sum(map(len, X))
    wrong = sum(
        a != b
        for y, found in zip(Y, runs.result, strict=True)
        for a, b in zip(y, found, strict=True)
    )
    return {
        "load_peak": peak(),
        "latency": 1000 * median(times),
        "throughput": tokens / runs.wall / 1000,
        "test_error": wrong / tokens,
    }


def child(given: argparse.Namespace) -> None:
    """Run one step of one learner, and print its row as JSON."""
    data = text(given.data[0], given.sentences, given.small)
    learner, path, before = given.learners[0], Path(given.out), peak()
    if given.step == "tag":
        row = tag(learner, data, path)
    else:
        cpu = train(learner, data, SETTINGS[given.data[0]], path)
        labels = len({tag for y in data[1] for tag in y})
        row = {"sentences": len(data[0]), "labels": labels, "fit_cpu": cpu, "before": before}
        row |= {"fit_peak": peak(), "file": path.stat().st_size / 1e6}
    print(json.dumps(row))


def measure(name: str, learner: str, given: argparse.Namespace) -> Row:
    """Train in one process and tag in another; return the row of the learner."""
    row: Row = {"data": name, "learner": learner}
    with tempfile.TemporaryDirectory() as folder:
        for step in ("fit", "tag"):
            command = [sys.executable, "-m", "benchmarks.footprint", "--step", step, "--data", name]
            command += ["--learners", learner, "--out", str(Path(folder) / "model")]
            command += ["--small"] * given.small
            command += [] if given.sentences is None else ["--sentences", str(given.sentences)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            row |= json.loads(done.stdout.splitlines()[-1])
    return row


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure the learners on the data sets; write a CSV file and print the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = [*OURS, *(PEERS if find_spec("pycrfsuite") else ())]
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--learners", nargs="+", choices=[*OURS, *PEERS], default=every)
    parser.add_argument("--sentences", type=int, help="of the training part, at most")
    parser.add_argument("--small", action="store_true", help="a made-up text, without any file")
    parser.add_argument("--out", default="benchmarks/results/footprint")
    parser.add_argument("--step", choices=("fit", "tag"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.step is not None:
        child(given)
        return []
    rows = []
    for name in given.data:
        for learner in given.learners:
            rows.append(measure(name, learner, given))
            print(
                "  ".join(
                    f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}"
                    for k, v in rows[-1].items()
                )
            )
    write_csv(Path(given.out) / "footprint.csv", rows)
    return rows


if __name__ == "__main__":
    main()
