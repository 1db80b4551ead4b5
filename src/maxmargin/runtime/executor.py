"""Work of Python oracles over threads or any ``concurrent.futures.Executor``."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from maxmargin._core import core

OFTEN = 0.05  # seconds between two looks at the deadline
MOST_JOBS = 65_536  # threads: more is a slip of the pen


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


def open_executor(n_jobs: Any) -> tuple[Executor | None, bool]:
    """The executor for n_jobs, and whether the caller must close it."""
    if isinstance(n_jobs, Executor):
        return n_jobs, False
    jobs = count_jobs(n_jobs)
    return (ThreadPoolExecutor(jobs), True) if jobs > 1 else (None, False)


def workers(executor: Executor | None) -> int:
    """How many pieces of work an executor runs at a time."""
    return (
        1
        if executor is None
        else int(getattr(executor, "_max_workers", None) or os.cpu_count() or 1)
    )


def map_chunks(
    executor: Executor | None, work: Callable, model: Any, X: list, Y: list, w: np.ndarray
) -> list[Any]:
    """work(model, X, Y, w) over the items, in order, one contiguous chunk a worker."""
    if executor is None or len(X) == 1:
        return work(model, X, Y, w)
    size = -(-len(X) // workers(executor))
    futures = [
        executor.submit(work, model, X[a : a + size], Y[a : a + size], w)
        for a in range(0, len(X), size)
    ]
    try:
        return [item for future in futures for item in answered(future).result()]
    finally:  # after a failure or an interrupt nobody wants the rest
        for future in futures:
            future.cancel()


def answered(future: Future) -> Future:
    """Wait for a future, within the deadline of this thread."""
    while not wait([future], timeout=OFTEN).done:
        core.poll()
    return future
