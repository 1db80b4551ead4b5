"""What the commands do. Each takes what was parsed, prints its result, and raises what is wrong."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from maxmargin import metrics, models
from maxmargin.certify import objective
from maxmargin.data.from_file import FileError, FromFile, Reading
from maxmargin.data.read_file import guess_name, read_file
from maxmargin.data.tags import spans_of
from maxmargin.data.templates import TEMPLATES, template_of
from maxmargin.data.text import numbered_lines
from maxmargin.data.write_file import kind_of, write_file
from maxmargin.estimators import BinarySVC, MulticlassSVC, RegressionSVR, StructuralSVM
from maxmargin.estimators.path import regularization_path
from maxmargin.metrics import tasks
from maxmargin.persistence import load

SLOW = 3e9  # steps of a pass: some seconds
# What was best or near it on the data of the benchmarks.
USUAL_C = {"tagging": 0.1, "parsing": 0.1, "multilabel": 1.0}


def show(values: dict[str, Any], as_json: bool) -> None:
    """A result, as lines or as JSON."""
    if as_json:
        print(json.dumps(values, default=str))
        return
    width = max(map(len, values))
    for name, value in values.items():
        text = f"{value:.6g}" if isinstance(value, float) else one_line(value)
        print(f"{name:{width}}  {text}")


# train


def read_as_given(given: Namespace) -> FromFile:
    """The file of a command, by its options."""
    options = {name: getattr(given, name) for name in ("format", "task", "label")}
    return read_file(given.data, templates=templates_of(given.templates), **options)


def templates_of(given: str) -> str:
    """The name of templates, or the text of a file of them."""
    if given in TEMPLATES:
        return given
    try:
        text = "".join(line for _, line in numbered_lines(given))
        template_of(text)
    except (OSError, ValueError) as error:
        raise FileError(f"{given}: {error}") from None
    return text


def train(given: Namespace) -> None:
    read = read_as_given(given)
    svm = estimator_of(given, read)
    if given.C is not None:
        svm.set_params(C=given.C)
    svm.set_params(verbose=int(sys.stderr.isatty() and not given.quiet))  # a progress line
    names = ("checkpoint", "checkpoint_every", "resume")
    asked = {name: getattr(given, name) for name in names}
    if given.scheduler is not None:
        fit_on_cluster(svm, given, read, asked)
    elif given.parts is not None:
        raise ValueError("--parts is for --scheduler")
    else:
        svm.fit(read.X, read.Y, **asked)
    svm.set_params(verbose=0)
    read.reading.n_features = read.width
    svm.reading_ = read.reading.state()
    svm.save(given.model)
    certificate = svm.certificate_
    show(
        {
            "model": given.model,
            "task": read.reading.task,
            "format": read.reading.format,
            "examples": len(read.Y),
            "solver": svm.solver_,
            "C": float(svm.C),
            "status": str(certificate.status),
            "converged": certificate.converged,
            "primal": certificate.primal,
            "dual": certificate.dual,
            "gap": certificate.gap,
            "passes": certificate.passes,
            "seconds": certificate.seconds,
        },
        given.json,
    )


def fit_on_cluster(svm: Any, given: Namespace, read: FromFile, asked: dict[str, Any]) -> None:
    """Train on workers: shards are read there, other files travel in parts."""
    from maxmargin import cluster

    try:
        from distributed import Client
    except ImportError:
        raise ValueError(
            "--scheduler needs distributed: pip install 'maxmargin[cluster]'"
        ) from None
    with Client(given.scheduler, set_as_default=False) as client:
        source: Any = given.data
        if read.reading.format != "shards":
            n = given.parts or max(1, len(client.nthreads()))
            source = [chosen(read, part) for part in np.array_split(np.arange(len(read.Y)), n)]
        try:
            cluster.fit(svm, source, client, given.parts, **asked)
        except cluster.PartError as error:
            raise ValueError(str(error)) from error


def estimator_of(given: Namespace, read: FromFile) -> Any:
    """The estimator of a task."""
    task = read.reading.task
    options: dict[str, Any] = {
        "C": USUAL_C.get(task, 1.0),
        "solver": given.solver,
        "tol": given.tol,
        "max_seconds": given.max_seconds,
        "n_jobs": given.jobs,
        "random_state": given.seed,
    }
    if task != "tagging" and (given.transitions or given.order != 1):
        raise ValueError(f"--transitions and --order are for tagging, and the task is {task}")
    if task == "tagging":
        chain = models.Chain(
            start=True,
            end=True,
            order=given.order,
            transitions=given.transitions,
            edges=isinstance(read.X[0], tuple),
        )
        return StructuralSVM(chain, **options)
    if task == "parsing":
        return StructuralSVM(models.Grammar(), **options)
    if task == "multilabel":
        return StructuralSVM(models.MultiLabel(bias=1.0), **options)
    kinds = {"multiclass": MulticlassSVC, "binary": BinarySVC, "regression": RegressionSVR}
    return kinds[task](**options)


def path(given: Namespace) -> None:
    read = read_as_given(given)
    if given.dev:
        read.reading.n_features = read.width
        dev = read_file(given.dev, Reading(**read.reading.state()))
        (X, Y), validation = (read.X, read.Y), (dev.X, dev.Y)
    else:
        order = np.random.default_rng(given.seed).permutation(len(read.Y))
        held, kept = np.sort(order[: len(order) // 5]), np.sort(order[len(order) // 5 :])
        if len(held) == 0:
            raise FileError(f"{given.data}: too few examples to hold some out; give --dev")
        (X, Y), validation = chosen(read, kept), chosen(read, held)
    scoring = None if given.scoring is None else metrics.get_scorer(given.scoring)
    found: Any = regularization_path(
        estimator_of(given, read), X, Y, given.Cs, validation=validation, scoring=scoring
    )
    if given.report:
        found.best.report(given.report, *validation, title=f"{given.data}, best C", search=found)
    rows = [
        {"C": float(C), "score": float(score), "gap": float(c.gap), "passes": float(c.passes)}
        for C, score, c in zip(found.Cs, found.scores, found.certificates, strict=True)
    ]
    best = float(found.best.C)
    if given.json:
        print(json.dumps({"best": best, "path": rows}))
        return
    print(f"{'C':>12}  {'score':>8}  {'gap':>10}  {'passes':>8}")
    for row in rows:
        mark = "  <- best" if row["C"] == best else ""
        print(
            f"{row['C']:12.6g}  {row['score']:8.4f}  {row['gap']:10.3g}  {row['passes']:8.1f}{mark}"
        )


def chosen(read: FromFile, numbers: np.ndarray) -> tuple[Any, Any]:
    """Some of the examples."""
    X = read.X[numbers] if hasattr(read.X, "shape") else [read.X[i] for i in numbers]
    return X, [read.Y[i] for i in numbers]


def opened(given: Namespace) -> tuple[Any, FromFile]:
    """A model and a file that is read as its training file was."""
    svm = load(given.model)
    state = getattr(svm, "reading_", None)
    if state is None:
        raise FileError(f"{given.model} does not say how files are read: it was not trained here")
    svm.set_params(n_jobs=getattr(given, "jobs", None))
    return svm, read_file(given.data, Reading(**state))


def convert(given: Namespace) -> None:
    to = given.to or guess_name(given.output)
    if not to:
        raise FileError(f"{given.output}: its format cannot be guessed, give --to")
    read = read_as_given(given)
    try:
        write_file(read, given.output, to)
    except FileError as error:
        raise FileError(f"{given.data} cannot become {to}: {error}") from None


# predict, evaluate


def predict(given: Namespace) -> None:
    svm, read = opened(given)
    outputs = svm.predict(read.X)
    if read.reading.task == "tagging":
        for i, labels in enumerate(outputs):
            tokens = read.tokens[i] if given.append and read.tokens else [None] * len(labels)
            for token, label in zip(tokens, labels, strict=True):
                print(label if token is None else f"{token}\t{label}")
            print()
        return
    if given.append:
        raise ValueError("--append is for tagging from columns")
    for output in outputs:
        print(",".join(map(str, output)) if isinstance(output, tuple) else one_line(output))


def one_line(output: Any) -> str:
    """An output on one line."""
    return " ".join(str(output).split())


def evaluate(given: Namespace) -> None:
    svm, read = opened(given)
    predicted = svm.predict(read.X)
    scores = tasks.SCORES[read.reading.task](read.Y, predicted)
    if given.json:
        print(json.dumps({"examples": len(read.Y), **scores}))
        return
    show({"examples": len(read.Y), **scores}, False)
    table = tasks.REPORTS.get(read.reading.task)
    if table is not None:
        print()
        print(table(read.Y, predicted))


# inspect, certify


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
        svm, read = opened(given)
        texts = [" ".join(line.split()[0] for line in own) for own in read.tokens] or None
        data = {"X": read.X, "Y": read.Y, "texts": texts}
    svm.report(
        given.output, **data, title=given.title or given.model, k=given.top, shape=given.shape
    )


def certify(given: Namespace) -> None:
    svm, read = opened(given)
    found = objective(svm, svm.weights(), read.X, read.Y)
    facts = {
        "objective here": float(found),
        "primal in the file": float(svm.certificate_.primal),
        "dual in the file": float(svm.certificate_.dual),
        "same": bool(np.isclose(found, svm.certificate_.primal, rtol=1e-9)),
    }
    show(facts, given.json)
    if not facts["same"]:
        raise FileError(f"{given.data} is not what {given.model} was trained on, or not all of it")


# check


def check(given: Namespace) -> None:
    read = read_as_given(given)
    facts: dict[str, Any] = {"format": read.reading.format, "task": read.reading.task}
    facts["examples"] = len(read.Y)
    nodes = read.Y if read.reading.task != "tagging" else [label for y in read.Y for label in y]
    if read.reading.task == "tagging":
        lengths = [len(y) for y in read.Y]
        facts |= {"positions": sum(lengths), "longest": max(lengths)}
    if read.reading.task not in ("regression", "parsing"):
        counts = Counter(label_texts(nodes))
        facts["labels"] = len(counts)
        facts["most frequent"] = ", ".join(f"{k} {v}" for k, v in counts.most_common(8))
        facts["rarest"] = ", ".join(f"{k} {v}" for k, v in counts.most_common()[:-4:-1])
    facts |= costs(read, int(facts.get("labels", 1)))
    known = Counter(fingerprints(read))
    facts["duplicates"] = sum(n - 1 for n in known.values())
    scheme = tasks.scheme_of(read.Y) if read.reading.task == "tagging" else None
    if scheme is not None:
        facts[f"sequences that are not {scheme}"] = sum(
            spans_of(y, scheme) != spans_of(y, scheme, strict=True) for y in read.Y
        )
    if given.test:
        other = read_file(given.test, Reading(**read.reading.state()))
        facts["examples of the test file that are here"] = sum(
            key in known for key in fingerprints(other)
        )
    show(facts, given.json)


def costs(read: FromFile, labels: int) -> dict[str, Any]:
    """What one pass over the examples takes, and a note where that is slow."""
    kind = kind_of(read)
    if kind == "trees":
        steps, formula = sum(len(words) ** 3 for words in read.X), "words^3, for each rule"
    elif kind == "sequences":
        steps, formula = sum(map(len, read.Y)) * labels**2, "positions x labels^2"
    else:
        steps, formula = len(read.Y) * labels, "examples x labels, for each feature"
    facts: dict[str, Any] = {"steps of a pass": f"{steps:.3g} ({formula})"}
    if steps > SLOW:
        facts["slow"] = "a pass takes long; train on a part first, or give --max-seconds"
    return facts


def label_texts(labels: Iterable[Any]) -> Iterable[str]:
    """Labels, one by one, as texts; sets are their members."""
    for label in labels:
        yield from map(str, label if isinstance(label, tuple) else (label,))


def fingerprints(read: FromFile) -> list[int]:
    """A number for each example, the same for the same features."""
    if read.tokens:
        return [hash(tuple(tokens)) for tokens in read.tokens]
    if hasattr(read.X, "indptr"):
        X = read.X
        ends = list(zip(X.indptr[:-1].tolist(), X.indptr[1:].tolist(), strict=True))
        return [hash((X.indices[a:b].tobytes(), X.data[a:b].tobytes())) for a, b in ends]
    return [hash(repr(x)) for x in read.X]


def demo(given: Namespace) -> None:
    from maxmargin.data.synthetic import random_chains

    X, Y = random_chains(400, 8, 20, random_state=0)
    svm = StructuralSVM(models.Chain(), C=0.1, random_state=0).fit(X[:300], Y[:300])
    print("300 made-up sequences of 8 labels, tagged by a chain")
    print(svm.certificate_)
    print(f"right on 100 others: {svm.score(X[300:], Y[300:]):.1%}")
