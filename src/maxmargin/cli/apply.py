"""Commands that use a model: predict, evaluate, report, certify, inspect; all but report work in batches."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import numpy as np

from maxmargin.certify import objective_of
from maxmargin.cli.screen import write_data
from maxmargin.cli.show import one_line, show
from maxmargin.data.from_file import FileError, FromFile, Reading
from maxmargin.data.read_file import Source
from maxmargin.metrics.tasks import TALLIES
from maxmargin.persistence import load


def opened_model(given: Namespace, unlabelled: bool = False) -> tuple[Any, Source]:
    """Load a model, and open a file that is read in the same way as the model's training file."""
    svm = load(given.model)
    state = getattr(svm, "reading_", None)
    if state is None:
        raise FileError(f"{given.model} has no file settings; train it with `maxmargin train`")
    svm.set_params(n_jobs=getattr(given, "jobs", None))
    reading = Reading(**state, unlabelled=unlabelled)
    return svm, Source(given.data, reading).as_trained(getattr(svm, "classes_", ()))


def predict(given: Namespace) -> None:
    svm, source = opened_model(given, unlabelled=True)
    if given.append and source.reading.task != "tagging":
        raise ValueError(f"--append needs a tagging model, but the task is {source.reading.task}")
    for read in source:
        for line in predicted_lines(read, svm.predict(read.X), given.append):
            write_data(line)
        sys.stdout.flush()


def predicted_lines(read: FromFile, outputs: Any, append: bool) -> Iterator[str]:
    """Yield one output per line; for tagging one label per line, and an empty line after each sequence."""
    if read.reading.task != "tagging":
        for output in outputs:
            text = ",".join(map(str, output)) if isinstance(output, tuple) else one_line(output)
            yield f"{text}\n"
        return
    for i, labels in enumerate(outputs):
        tokens = read.tokens[i] if append and read.tokens else [None] * len(labels)
        for token, label in zip(tokens, labels, strict=True):
            yield f"{label}\n" if token is None else f"{token}\t{label}\n"
        yield "\n"


def evaluate(given: Namespace) -> None:
    svm, source = opened_model(given)
    tally, examples = TALLIES[source.reading.task](), 0
    for read in source:
        tally.add(read.Y, svm.predict(read.X))
        examples += len(read)
    facts = {"examples": examples, **tally.scores()}
    if given.json:
        print(json.dumps(facts))
        return
    show(facts, False)
    report = tally.report()
    if report is not None:
        print(f"\n{report}")


def certify(given: Namespace) -> None:
    svm, source = opened_model(given)
    found = objective_of(svm, svm._weights(), ((read.X, read.Y) for read in source))
    facts = {
        "objective here": float(found),
        "primal in the file": float(svm.certificate_.primal),
        "dual in the file": float(svm.certificate_.dual),
        "same": bool(np.isclose(found, svm.certificate_.primal, rtol=1e-9)),
    }
    show(facts, given.json)
    if not facts["same"]:
        raise FileError(
            f"{given.model} was trained on other data than {given.data}; give its training file"
        )


def inspect(given: Namespace) -> None:
    svm = load(given.model)
    certificate = svm.certificate_
    facts = {
        "estimator": type(svm).__name__,
        "model": repr(svm.model_),
        "weights": int(svm.coef_.size),
        "not zero": int(np.count_nonzero(svm.coef_)),
        "C": float(svm.C),
        "solver": svm.solver_,
        "gap": float(certificate.gap),
        "converged": certificate.converged,
        **{f"read as {name}": v for name, v in getattr(svm, "reading_", {}).items() if v},
    }
    show(facts, given.json)
    if given.json or not hasattr(svm, "feature_names_"):
        return
    for label in svm.classes_.tolist():
        print(f"\n{svm.top_features(label, given.top)}")


def report(given: Namespace) -> None:
    if given.data is None:
        svm, data = load(given.model), {}
    else:
        svm, source = opened_model(given)
        read = source.read()
        texts = [" ".join(line.split()[0] for line in own) for own in read.tokens] or None
        data = {"X": read.X, "Y": read.Y, "texts": texts}
    svm.report(
        given.output, **data, title=given.title or given.model, k=given.top, shape=given.shape
    )
