"""``fit`` on a cluster: checks, the model of all parts, the rounds, and the fitted attributes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.class_weight import compute_sample_weight

from maxmargin.callbacks import Callback
from maxmargin.checkpoint import make_checkpoint
from maxmargin.cluster.driver import ClusterCheckpoint, ClusterRounds, first_round, play
from maxmargin.cluster.pool import Pool, await_worker, connected
from maxmargin.cluster.source import (
    FilePart,
    FirstLook,
    ShardPart,
    first_look,
    parts_of,
    paths_in,
    stacked_parts,
)
from maxmargin.cluster.worker import Facts, Job, collected, confirm, prove, start, threads_of_blas
from maxmargin.data.arrays import FLAG, POSITIVE, whole
from maxmargin.data.file_parquet import Columns
from maxmargin.estimators.advice import warn_not_converged, warn_user
from maxmargin.estimators.base import Given
from maxmargin.estimators.hooks import notified
from maxmargin.models.protocol import Model
from maxmargin.problem import Support
from maxmargin.problem.plane import joined_points
from maxmargin.problem.regularizer import NONNEGATIVE
from maxmargin.result import Result
from maxmargin.solvers import Proximal

CLUSTER = "cluster"


def fit(
    svm: Any,
    source: Any,
    client: Any,
    n_parts: int | None = None,
    *,
    label: str | None = None,
    weight: str | None = None,
    sequence: str | None = None,
    passes: int = 2,
    older: int | None = None,
    patience: float = 3.0,
    retries: int = 2,
    collect: bool = False,
    callbacks: Sequence[Callback] = (),
    checkpoint: Any = None,
    checkpoint_every: float = 300.0,
    resume: bool = False,
) -> Any:
    """Train an estimator in place on the workers of a cluster; return it.

    Parameters
    ----------
    svm : StructuralSVM, MulticlassSVC or BinarySVC
    source : path, list of paths, or list of parts (X, Y) or (X, Y, sample_weight)
        A path names a folder of shards, a Parquet file or a folder of Parquet files. It must be the same on
        all workers.
    client : distributed.Client
    n_parts : int or None
        Number of parts into which a path is divided, or to which a list of (X, Y) is joined. None makes one
        part for each worker.
    label : str or None
        The label column of Parquet files. None takes the last column.
    weight, sequence : str or None
        The column of example weights, and the column that separates sequences. Consecutive rows with the
        same value in ``sequence`` are the positions of one example, as ``models.Chain`` takes them.
    passes : int
        Passes that a worker makes over its part in a round, besides the exact one.
    older : int
        Dual points of earlier rounds that the driver and the worker keep for each part. None keeps 15 per
        part, or 60 in total if there are fewer than four parts.
    patience : float
        How many times the usual duration of a step a part may take before a round ends without it.
    retries : int
        How often a failed task is tried again.
    collect : bool
        Whether ``support_`` gets the multipliers from the workers, for ``certify`` and ``warm_start``.
    callbacks : callbacks.Callback objects, which receive every round
    checkpoint, checkpoint_every, resume
        File of the driver's state, seconds between two writes, and whether to resume from it, as for
        ``svm.fit``. A resumed fit may use another cluster, but the parts must be the same.
    """
    check_client(client)
    whole().check("passes", passes)
    whole(none=True).check("older", older)
    whole(0).check("retries", retries)
    POSITIVE.check("patience", patience)
    FLAG.check("collect", collect)
    solver = check_estimator(svm)
    kept = make_checkpoint(
        checkpoint, checkpoint_every, resume, ClusterCheckpoint, paths_in(source)
    )
    await_worker(client)
    columns = Columns(label or "", weight or "", sequence or "")
    parts = parts_of(source, n_parts, len(client.nthreads()), columns)
    pool = Pool(client, parts, retries, patience)
    with notified(svm, callbacks), threads_of_blas(svm):
        try:
            with connected():
                older = older or usual_older(len(pool))
                rounds = prepared(svm, pool, solver, passes, older, callbacks)
            if kept is not None:
                kept.open(svm, rounds)
            play(rounds, kept)
            with connected():
                supports = finish(rounds, collect)
        finally:
            pool.close()
        adopt_result(svm, rounds, supports)
    if rounds.pass_seconds < rounds.round_seconds:
        warnings.warn(slower_than_one(rounds), stacklevel=2)
    return svm


def slower_than_one(rounds: ClusterRounds) -> str:
    """The warning for small data: one machine would make all passes in less time than the rounds took."""
    return (
        "the data are small for a cluster: all passes of the workers took "
        f"{rounds.pass_seconds:.2g} s together, but the rounds took {rounds.round_seconds:.2g} s; "
        "one machine is faster if it can hold the data (svm.fit)"
    )


def usual_older(n_parts: int) -> int:
    """The default number of older points per part. More points save rounds, but cost the driver time."""
    return max(15, 60 // n_parts)


def prepared(
    svm: Any,
    pool: Pool,
    solver: Proximal,
    passes: int,
    older: int,
    callbacks: Sequence[Callback] = (),
) -> ClusterRounds:
    """Open the parts with a common model, and return the state before the first round."""
    job = make_job(svm, pool, solver, passes)
    handle = pool.share(job)
    facts = check_facts(pool.each(start, handle))
    return first_round(pool, job, handle, facts, options=svm._options(callbacks), older=older)


def check_client(client: Any) -> None:
    """Raise an error if ``client`` is not a synchronous distributed.Client."""
    try:
        from distributed import Client
    except ImportError:
        raise ImportError(
            "maxmargin.cluster needs the package distributed: pip install 'maxmargin[cluster]' "
            "(or 'distributed')"
        ) from None
    if not isinstance(client, Client) or client.asynchronous:
        raise TypeError(
            'client must be a synchronous distributed.Client, such as Client("127.0.0.1:8786"), '
            f"got {client!r}"
        )


def check_estimator(svm: Any) -> Proximal:
    """Raise an error if a cluster cannot train the estimator; return the solver of the parts."""
    if not getattr(svm, "_divides", False):
        kind = type(svm).__name__
        raise TypeError(
            f"svm must be a StructuralSVM, a MulticlassSVC or a BinarySVC, got {kind}: a cluster "
            "cannot fit hidden parts, regression, groups, the log loss or a search for C; use fit "
            "on one machine"
        )
    svm._check_parameters()
    svm._check_model()
    if svm.hinge != "max":
        raise ValueError(
            "a cluster only supports hinge='max', got hinge='sum'; use fit on one machine"
        )
    if NONNEGATIVE in svm._asks_for():
        raise ValueError(
            "a cluster does not support nonnegative; give None, or use fit on one machine"
        )
    if getattr(svm, "_free", False):
        raise ValueError(
            "a cluster does not support penalized_intercept=False; set it to True, or use fit on "
            "one machine"
        )
    solver = Proximal() if svm.solver == "auto" else svm._chosen()
    if not isinstance(solver, Proximal):
        raise ValueError(
            "solver must be 'auto', 'proximal' or solvers.Proximal(...) on a cluster, got "
            f"{svm.solver!r}"
        )
    return solver


def check_facts(facts: list[Facts]) -> list[Facts]:
    """Raise an error if the problem cannot be divided into parts; return the facts."""
    if any(own.kernelised for own in facts):
        raise ValueError(
            "model: an exact kernel needs all examples, but each worker has only a part; use "
            "Kernel(rank=k), which has plain weights"
        )
    if facts[0].regularizer.free is not None:
        raise ValueError(
            "prior: a cluster does not support an infinite scale; give finite scales, or use fit "
            "on one machine"
        )
    return facts


def make_job(svm: Any, pool: Pool, solver: Proximal, passes: int) -> Job:
    """Build the job of all workers: the parameters, and a model initialised from all parts."""
    if isinstance(pool.parts[0], FilePart):
        found = pool.each(first_look, pool.share(clone(svm)), numbered=False)
        pool.take([own.part for own in found])  # the parts with their checksums
    else:  # the examples are in memory here
        found = [first_look(clone(svm), part) for part in pool.parts]
    given = svm._read(
        Given(stacked_parts([own.X for own in found]), stacked_parts([own.Y for own in found]))
    )
    if getattr(given.model, "joint", False):
        raise ValueError(
            "a cluster does not support a loss of the whole sample, because it is not a sum over "
            "parts; use fit on one machine"
        )
    given.model.initialize(given.X, given.Y)
    twin = clone(svm)
    twin.model_ = given.model
    if hasattr(svm, "n_features_in_"):
        twin.n_features_in_ = svm.n_features_in_
    if getattr(svm, "class_weight", None) is not None:
        twin.class_weight = weights_of_classes(svm.class_weight, found)
    return Job(pool.run, twin, solver, passes, svm._seed())


def weights_of_classes(class_weight: Any, found: list[FirstLook]) -> dict[Any, float]:
    """Resolve class_weight to a weight for each label, from label counts over all parts."""
    counts: dict[Any, int] = {}
    for own in found:
        assert own.labels is not None and own.counts is not None
        for label, count in zip(own.labels.tolist(), own.counts.tolist(), strict=True):
            counts[label] = counts.get(label, 0) + count
    if isinstance(class_weight, str) and class_weight == "balanced":
        n = sum(counts.values())
        return {label: n / (len(counts) * count) for label, count in counts.items()}
    try:
        weights = compute_sample_weight(class_weight, list(counts))
    except (TypeError, ValueError) as error:
        raise ValueError(f"class_weight: {error}") from None
    return dict(zip(counts, weights.tolist(), strict=True))


def finish(rounds: ClusterRounds, collect: bool) -> list[Support | None]:
    """Check the data and the model once more after the last round; return the multipliers if requested.

    Mapped files are read again. A model in Python is compared with its own predictions.
    """
    pool, handle = rounds.pool, rounds.handle
    if isinstance(pool.parts[0], ShardPart):
        pool.each(confirm, numbered=False)
    if not isinstance(rounds.job.svm.model_, Model):
        pool.each(prove, handle, rounds.best)
    if not collect:
        return []
    late = pool.receive(handle, True, math.inf)  # lets workers apply the last mixtures
    found = pool.each(collected, handle)
    return [None if k in late and late[k].fresh else own for k, own in enumerate(found)]


def joined_support(supports: list[Support], sizes: list[int]) -> Support:
    """Join the multipliers of all parts; blocks are numbered in the order of the parts."""
    pairs = zip(supports, np.cumsum([0, *sizes[:-1]]), strict=True)
    return joined_points([replace(own, blocks=own.blocks + first) for own, first in pairs])


def adopt_result(svm: Any, rounds: ClusterRounds, supports: list[Support | None]) -> Any:
    """Set the fitted attributes of the estimator."""
    lost = [k for k, own in enumerate(supports) if own is None]
    if lost:
        warn_user(
            f"support_ is None, because the multipliers of part {lost[0]} were lost with their "
            "worker"
        )
    whole: Any = [] if lost else supports
    support: Any = joined_support(whole, [own.n for own in rounds.facts]) if whole else None
    assert rounds.best is not None and rounds.status is not None
    result = Result(
        rounds.best, support, rounds.certificate(), rounds.history, rounds.status, CLUSTER
    )
    svm._keep(result)
    svm._fingerprint, svm._weighted_nodes = "", False
    svm._adopt(rounds.job.svm.model_, result.w)
    if not result.certificate.converged:
        warn_not_converged(result)
    return svm
