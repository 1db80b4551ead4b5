"""Commands that train a model, and commands that need none: train, path, convert, demo."""

from __future__ import annotations

import json
import os
import re
import sys
from argparse import Namespace
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from maxmargin import metrics, models
from maxmargin.callbacks import ProgressLine
from maxmargin.cli.screen import live_line
from maxmargin.cli.show import show
from maxmargin.data.file_parquet import files_of, groups_of, read_parquet
from maxmargin.data.from_file import FileError, FromFile, Reading
from maxmargin.data.patterns import template_of
from maxmargin.data.read_file import Source, guess_name, read_encoded, reading_of
from maxmargin.data.sharded import open_shards
from maxmargin.data.templates import TEMPLATES
from maxmargin.data.text import STANDARD_INPUT, small_text
from maxmargin.data.write_file import ONE_WALK, write_file, write_shard_folder
from maxmargin.estimators import BinarySVC, MulticlassSVC, RegressionSVR, StructuralSVM
from maxmargin.estimators.path import regularization_path
from maxmargin.parts.fit import reads_parts
from maxmargin.solvers import Streaming

# C by task: the best value, or close to it, on the data of the benchmarks.
USUAL_C = {"tagging": 0.1, "parsing": 0.1, "multilabel": 1.0}
IN_PARTS = ("multiclass", "binary", "tagging")  # tasks whose examples may stay on disk
SMALLEST_SHARD = 2**20


def source_of(given: Namespace) -> Source:
    """The data source of a command, read according to its options."""
    options = {name: getattr(given, name) for name in ("format", "task", "label")}
    reading = reading_of(given.data, templates=templates_of(given.templates), **options)
    return Source(given.data, reading)


def read_as_given(given: Namespace, stack: ExitStack | None = None) -> FromFile:
    """Read all examples of a command: into memory, or onto disk until the exit stack closes."""
    if stack is not None and given.memory:
        return on_disk(given, stack)
    return read_encoded(source_of(given))


def templates_of(given: str) -> str:
    """Return the name of built-in templates, or the text of a template file."""
    if given in TEMPLATES:
        return given
    try:
        text = small_text(given)
        template_of(text)
    except (OSError, ValueError) as error:
        raise FileError(f"{given}: {error}") from None
    return text


def train(given: Namespace) -> None:
    with ExitStack() as stack:
        client = client_of(given, stack)
        there = client is not None and read_by_workers(client, given)
        if there:  # reads only the label column of the tables
            read = source_of(given).outline(partial(read_parquet, labels_alone=True))
        else:
            read = read_as_given(given, stack)
        svm = estimator_for_task(given, read)
        check_room_for_weights(given, read)
        try:
            fit_estimator(svm, given, read, client, there)
        except ValueError as error:
            of_data = re.search(r"\b[XY]\b", str(error)) is not None
            raise FileError(f"{given.data}: {error}") if of_data else error from None
        read.reading.n_features = read.width
        svm.reading_ = read.reading.state()
        svm.save(given.model)
        certificate, examples = svm.certificate_, len(read)
    show(
        {
            "model": given.model,
            "task": read.reading.task,
            "format": read.reading.format,
            "examples": examples,
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


def check_room_for_weights(given: Namespace, read: FromFile) -> None:
    """Raise an error if the weights of numbered features do not fit into the memory of this machine."""
    if not hasattr(os, "sysconf") or read.reading.task == "regression":
        return
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if 16.0 * read.width > there:  # 8 bytes a weight, at least two labels
        raise FileError(
            f"{given.data}: the weights of {read.width} features per label do not fit into the "
            f"{there / 2**30:.0f} GiB of memory of this machine; use fewer features"
        )


def on_disk(given: Namespace, stack: ExitStack) -> FromFile:
    """Open the examples as shards, which training reads a part at a time.

    Data that are not in shards are first written as shards to a temporary folder.
    """
    source = source_of(given)
    if source.reading.format == "shards":
        return source.read()
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="maxmargin-"))) / "shards"
    try:
        # A shard takes more memory than its size, because it is copied while it is written.
        write_shard_folder(source, str(folder), max(SMALLEST_SHARD, given.memory // 16))
    except FileError as error:
        raise FileError(f"--memory cannot read {given.data}: {error}") from None
    data = open_shards(folder, verify=False)
    return FromFile(data.X, data.Y, source.reading)


def fit_estimator(svm: Any, given: Namespace, read: FromFile, client: Any, there: bool) -> None:
    """Train as the options say: in memory, from disk, or on a cluster."""
    if given.C is not None:
        svm.set_params(C=given.C)
    names = ("checkpoint", "checkpoint_every", "resume")
    asked = {name: getattr(given, name) for name in names}
    if sys.stderr.isatty() and not given.quiet:
        asked["callbacks"] = [ProgressLine(live_line())]
    if given.memory:
        if read.reading.task not in IN_PARTS:
            raise ValueError(
                f"--memory works for {', '.join(IN_PARTS)}, not for {read.reading.task}"
            )
        if not (given.solver == "auto" or reads_parts(given.solver)) or given.scheduler is not None:
            raise ValueError("--memory needs --solver streaming or auto, and excludes --scheduler")
        svm.set_params(solver=Streaming(passes=None, cache_bytes=given.memory))
    if given.scheduler is not None:
        fit_on_cluster(svm, given, read, client, there, asked)
    elif given.parts is not None:
        raise ValueError("--parts needs --scheduler")
    else:
        svm.fit(read.X, read.Y, **asked)


def client_of(given: Namespace, stack: ExitStack) -> Any:
    """Connect to the cluster given by --scheduler; None without one."""
    if given.scheduler is None or given.memory:
        return None
    try:
        from distributed import Client
    except ImportError:
        raise ValueError(
            "--scheduler needs the package distributed: pip install 'maxmargin[cluster]'"
        ) from None
    return stack.enter_context(Client(given.scheduler, set_as_default=False))


def read_by_workers(client: Any, given: Namespace) -> bool:
    """Whether the workers read the tables themselves: all see the files, and there are enough row groups."""
    from maxmargin.cluster.pool import await_worker, visible

    if given.data == STANDARD_INPUT or source_of(given).reading.format != "parquet":
        return False
    await_worker(client)
    groups = sum(len(groups_of(str(file))) for file in files_of(given.data))
    enough = groups >= (given.parts or len(client.nthreads()))
    return enough and visible(client, str(Path(given.data).resolve()))


def fit_on_cluster(
    svm: Any, given: Namespace, read: FromFile, client: Any, there: bool, asked: dict[str, Any]
) -> None:
    """Train on the workers of a cluster.

    The workers read files that they can see. Other data are sent to them in parts.
    """
    from maxmargin import cluster

    source: Any = given.data
    if there:
        asked["label"] = given.label or None
    elif read.reading.format != "shards":
        n = given.parts or max(1, len(client.nthreads()))
        source = [chosen_examples(read, part) for part in np.array_split(np.arange(len(read.Y)), n)]
    try:
        cluster.fit(svm, source, client, given.parts, **asked)
    except cluster.PartError as error:
        raise ValueError(str(error)) from error


def estimator_for_task(given: Namespace, read: FromFile) -> Any:
    """The estimator for the task of the data."""
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
        raise ValueError(f"--transitions and --order need the task tagging, but the task is {task}")
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
        dev = Source(given.dev, Reading(**read.reading.state())).read()
        (X, Y), validation = (read.X, read.Y), (dev.X, dev.Y)
    else:
        order = np.random.default_rng(given.seed).permutation(len(read.Y))
        held_out, kept = np.sort(order[: len(order) // 5]), np.sort(order[len(order) // 5 :])
        if len(held_out) == 0:
            raise FileError(
                f"{given.data} has too few examples to hold some out; give a file with --dev"
            )
        (X, Y), validation = chosen_examples(read, kept), chosen_examples(read, held_out)
    scoring = None if given.scoring is None else metrics.get_scorer(given.scoring)
    found: Any = regularization_path(
        estimator_for_task(given, read), X, Y, given.Cs, validation=validation, scoring=scoring
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


def chosen_examples(read: FromFile, numbers: np.ndarray) -> tuple[Any, Any]:
    """Select examples by number."""
    X = read.X[numbers] if hasattr(read.X, "shape") else [read.X[i] for i in numbers]
    return X, [read.Y[i] for i in numbers]


def convert(given: Namespace) -> None:
    to = given.to or guess_name(given.output)
    if not to:
        raise FileError(f"{given.output}: the name does not show the format; give --to")
    source = source_of(given)
    if to not in ONE_WALK:
        source.keep()
    try:
        write_file(source, given.output, to)
    except FileError as error:
        said = str(error)
        raise FileError(
            said
            if said.startswith(str(given.data))
            else f"{given.data} cannot be converted to {to}: {error}"
        ) from None


def demo(given: Namespace) -> None:
    from maxmargin.data.synthetic import random_chains

    X, Y = random_chains(400, 8, 20, random_state=0)
    svm = StructuralSVM(models.Chain(), C=0.1, random_state=0).fit(X[:300], Y[:300])
    print("300 made-up sequences of 8 labels, tagged by a chain")
    print(svm.certificate_)
    print(f"correct labels on 100 other sequences: {svm.score(X[300:], Y[300:]):.1%}")
