"""Work of Python oracles over threads or any ``concurrent.futures.Executor``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from typing import Any

import numpy as np

from maxmargin._core import core
from maxmargin.runtime.threads import OFTEN, Threads

Workers = Executor | Threads

MOST_JOBS = 65_536  # threads: more is a typing mistake


def count_jobs(n_jobs: Any) -> int:
    """Number of threads from scikit-learn's n_jobs (None: 1; negative: from the number of cores)."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, Executor):
        return int(getattr(n_jobs, "_max_workers", 1))
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise ValueError(
            f"n_jobs must be a whole number other than 0, None or an Executor, got {n_jobs!r}"
        )
    if n_jobs > MOST_JOBS:
        raise ValueError(f"n_jobs must be at most {MOST_JOBS}, got {n_jobs}")
    return int(n_jobs) if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))


@contextmanager
def opened(n_jobs: Any) -> Iterator[Workers | None]:
    """The workers for n_jobs: the user's, threads of our own, or none."""
    if isinstance(n_jobs, Executor) or count_jobs(n_jobs) == 1:
        yield n_jobs if isinstance(n_jobs, Executor) else None
        return
    threads = Threads(count_jobs(n_jobs))
    try:
        yield threads
    finally:
        threads.close()


def workers(executor: Workers | None) -> int:
    """How many pieces of work an executor runs at a time."""
    if executor is None:
        return 1
    if isinstance(executor, Threads):
        return executor.count
    return int(getattr(executor, "_max_workers", None) or os.cpu_count() or 1)


def map_chunks(
    executor: Workers | None,
    work: Callable[..., Any],
    model: Any,
    X: list[Any],
    Y: list[Any],
    w: np.ndarray,
) -> list[Any]:
    """work(model, X, Y, w) over the items, in order, one contiguous chunk per worker."""
    if executor is None or len(X) == 1:
        return work(model, X, Y, w)
    size = -(-len(X) // workers(executor))
    pieces = [(model, X[a : a + size], Y[a : a + size], w) for a in range(0, len(X), size)]
    if isinstance(executor, Threads):
        return [item for answer in executor.map(work, pieces) for item in answer]
    futures = [executor.submit(work, *piece) for piece in pieces]
    try:
        return [item for future in futures for item in answered(future).result()]
    finally:  # after a failure or an interrupt nobody wants the rest
        for future in futures:
            future.cancel()


def answered(future: Future[Any]) -> Future[Any]:
    """Wait for a future, within the deadline of this thread."""
    while not wait([future], timeout=OFTEN).done:
        core.poll()
    return future
