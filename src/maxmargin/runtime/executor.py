"""Run Python oracles on threads or on any ``concurrent.futures.Executor``.

``ThreadPoolExecutor`` waits with locks that are written in Python. An interrupt at the wrong moment leaves
one of them locked, and the next thread that needs it waits forever. The queues of ``Threads`` are atomic, and
its threads never keep the interpreter from ending.
"""

from __future__ import annotations

import os
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from maxmargin._core import core

# Seconds between two checks of the deadline. If it is larger, interrupts and limits act late; if it is
# smaller, the thread wakes up more often.
OFTEN = 0.05
MOST_JOBS = 65_536  # largest n_jobs; a larger one is a typing mistake


class Threads:
    """A pool of threads that wait for work.

    ``count`` is the number of pieces of work that the caller wants to run at a time. At most as
    many threads start as the process may use cores, and fewer if the system refuses more. Results
    do not depend on the thread that runs a piece. In a child made by ``fork`` new threads start.
    """

    def __init__(self, count: int):
        self.count = count
        self._start()

    def _start(self) -> None:
        self.process, self.started = os.getpid(), 0
        self.work: SimpleQueue[Any] = SimpleQueue()
        try:
            while self.started < min(self.count, usable_cores()):
                # threading.Thread would wait for the start with a lock written in Python
                start_new_thread(serve, (self.work,))
                self.started += 1
        except RuntimeError:  # the system refuses more threads
            pass
        except BaseException:
            self.close()
            raise

    def map(self, work: Callable[..., Any], pieces: list[tuple[Any, ...]]) -> list[Any]:
        """Return work(*piece) for every piece, in order, within the deadline of the calling thread."""
        found: dict[int, Any] = {}
        asked = 0  # the id of the process whose threads have the pieces
        while len(found) < len(pieces):
            if asked != os.getpid():  # in the first round, and after a fork in the child
                asked, answers = os.getpid(), self._ask(work, pieces, found)
            try:
                number, answer, error = answers.get(timeout=OFTEN)
            except Empty:
                core.poll()
                continue
            if error is not None:
                raise error
            found[number] = answer
        return [found[number] for number in range(len(pieces))]

    def _ask(
        self, work: Callable[..., Any], pieces: list[tuple[Any, ...]], found: dict[int, Any]
    ) -> SimpleQueue[Any]:
        """Give the pieces without an answer to the threads; return the queue of the answers."""
        if self.process != os.getpid():
            self._start()
        answers: SimpleQueue[Any] = SimpleQueue()
        for number, piece in enumerate(pieces):
            if number not in found:
                self.work.put((answers, number, work, piece))
        if self.started == 0:  # the system refuses all threads
            self.work.put(None)
            serve(self.work)
        return answers

    def close(self) -> None:
        """Let the threads end once the queued pieces are done."""
        for _ in range(self.started):
            self.work.put(None)


def serve(work: SimpleQueue[Any]) -> None:
    """Run pieces of work from a queue, one after the other, until None comes."""
    while (task := work.get()) is not None:
        answers, number, call, piece = task
        try:
            answers.put((number, call(*piece), None))
        except BaseException as error:  # raised in the thread that asked
            answers.put((number, None, error))


Workers = Executor | Threads


def usable_cores() -> int:
    """Return the number of cores that this process may use: affinity and CPU quotas count."""
    return int(core.usable_cores())


def count_jobs(n_jobs: Any) -> int:
    """Return the number of workers that n_jobs asks for.

    None means 1. Negative numbers count from the cores that this process may use: -1 is all of
    them, -2 all but one.
    """
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
    return int(n_jobs) if n_jobs > 0 else max(1, usable_cores() + 1 + int(n_jobs))


@contextmanager
def opened(n_jobs: Any) -> Iterator[Workers | None]:
    """Open the workers for n_jobs: the user's executor, our own threads, or None for one job."""
    if isinstance(n_jobs, Executor) or count_jobs(n_jobs) == 1:
        yield n_jobs if isinstance(n_jobs, Executor) else None
        return
    threads = Threads(count_jobs(n_jobs))
    try:
        yield threads
    finally:
        threads.close()


def workers(executor: Workers | None) -> int:
    """The number of pieces of work that an executor runs at a time."""
    if executor is None:
        return 1
    if isinstance(executor, Threads):
        return executor.count
    return int(getattr(executor, "_max_workers", None) or usable_cores())


def map_chunks(
    executor: Workers | None,
    work: Callable[..., Any],
    model: Any,
    X: list[Any],
    Y: list[Any],
    w: np.ndarray,
) -> list[Any]:
    """Return work(model, X, Y, w) of all items, in order, with one contiguous chunk per worker."""
    if executor is None or len(X) == 1:
        return work(model, X, Y, w)
    size = -(-len(X) // workers(executor))
    pieces = [(model, X[a : a + size], Y[a : a + size], w) for a in range(0, len(X), size)]
    if isinstance(executor, Threads):
        return [item for answer in executor.map(work, pieces) for item in answer]
    futures = [executor.submit(work, *piece) for piece in pieces]
    try:
        return [item for future in futures for item in answered(future).result()]
    finally:  # after a failure or an interrupt the other answers are not needed
        for future in futures:
            future.cancel()


def answered(future: Future[Any]) -> Future[Any]:
    """Wait for a future, within the deadline of this thread."""
    while not wait([future], timeout=OFTEN).done:
        core.poll()
    return future
