"""Tasks on a `distributed` cluster: each part has a worker that holds it, and may move to another worker.

The tasks are plain. Actors would die with their worker, and tasks pinned to a worker would wait for a dead
one forever. A task prefers the worker that holds its part. If the scheduler moved it to another worker
although the first one is alive, it is sent back. If that worker is gone, the part starts over on another one.
"""

from __future__ import annotations

import statistics
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from maxmargin.cluster.source import FilePart, part_in_words
from maxmargin.cluster.worker import Answer, Missing, Order, forget, step

SLICE = 0.2  # seconds between two checks of the cluster; longer delays the notice that all workers are gone
LONELY = 60.0  # seconds without any worker before the fit fails; a worker needs time to restart
SHORTEST = 1.0  # seconds before a part can be late; if shorter, small delays leave parts out


class PartError(RuntimeError):
    """A part of the data, or every part, cannot be worked on; names the part, its data and the cause."""


@dataclass(frozen=True)
class Sent:
    """A step that was sent and not yet answered."""

    future: Any
    order: Order
    w: Any
    began: float


def files_at(path: str) -> list[tuple[str, int]]:
    """Names and sizes of the files at a path; an empty list if it cannot be read."""
    try:
        files = sorted(Path(path).iterdir()) if Path(path).is_dir() else [Path(path)]
        return [(file.name, file.stat().st_size) for file in files]
    except OSError:
        return []


def visible(client: Any, path: str) -> bool:
    """Whether all current workers see the same files at a path as this machine; a lost worker sees none."""
    own = files_at(path)
    answers = client.run(files_at, path, on_error="return") if own else {}
    return bool(own) and all(found == own for found in answers.values())


def task_result(value: Any) -> Any:
    """Return the value as the result of a task, so that the cluster can recompute it after a loss."""
    return value


class Pool:
    """The workers of a client, and the pending step of each part.

    ``patience``: how many times the usual duration of a step a part may take before a round ends without it.
    """

    def __init__(self, client: Any, parts: Sequence[Any], retries: int, patience: float):
        self.client = client
        self.retries = retries
        self.patience = patience
        self.run: str = f"maxmargin-{uuid.uuid4().hex}"
        workers = sorted(client.nthreads())
        self.homes: list[Any] = [workers[k % len(workers)] for k in range(len(parts))]
        self.take(parts)
        self.pending: dict[int, Sent] = {}
        self.times: list[float] = []  # durations of the latest steps, at most one per part
        self.alone: float | None = None  # time since when there have been no workers

    def __len__(self) -> int:
        return len(self.parts)

    def take(self, parts: Sequence[Any]) -> None:
        """Set the parts of the tasks: files are passed by name, examples in memory as results of tasks."""
        self.parts = parts
        self.data: Any = [
            part if isinstance(part, FilePart) else self.share(part) for part in parts
        ]

    def share(self, value: Any) -> Any:
        """Put a value on the cluster for all tasks; it travels once to each worker."""
        with warnings.catch_warnings():
            # Data in memory travel inside a task on purpose: the cluster can then recompute them.
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self.client.submit(task_result, value, pure=False)

    def _submit(self, part: int, task: Callable[..., Any], *args: Any) -> Any:
        return self.client.submit(
            task,
            *args,
            workers=[self.homes[part]],
            allow_other_workers=True,
            retries=self.retries,
            pure=False,
        )

    def each(self, task: Callable[..., Any], *args: Any, numbered: bool = True) -> list[Any]:
        """Run a task over all parts: task(*args, number, data), or task(*args, data)."""
        futures = {
            k: self._submit(k, task, *args, *([k] if numbered else []), self.data[k])
            for k in range(len(self))
        }
        while waiting := [future for future in futures.values() if not future.done()]:
            self._look(waiting, SLICE)
        return [self._result(k, future) for k, future in futures.items()]

    def send(self, job: Any, order: Order, w: Any) -> None:
        """Send a step to its part."""
        future = self._submit(order.part, step, job, order, self.data[order.part], w)
        self.pending[order.part] = Sent(future, order, w, time.perf_counter())

    def receive(self, job: Any, wait_for_all: bool, deadline: float) -> dict[int, Answer]:
        """Collect answers, until only late parts are pending or the deadline passes.

        With ``wait_for_all`` no part counts as late.
        """
        answers: dict[int, Answer] = {}
        while self.pending:
            for part in [k for k, sent in self.pending.items() if sent.future.done()]:
                found = self._result(part, self.pending[part].future)
                if isinstance(found, Missing):
                    self._resend(job, part, found)
                    continue
                answers[part], self.homes[part] = found, found.worker
                self.times.append(time.perf_counter() - self.pending.pop(part).began)
            if not self.pending or self._enough(answers, wait_for_all, deadline):
                break
            self._look([sent.future for sent in self.pending.values()], SLICE)
        self.times = self.times[-len(self) :]
        return answers

    def _enough(self, answers: dict[int, Answer], wait_for_all: bool, deadline: float) -> bool:
        now = time.perf_counter()
        if now > deadline:
            return True
        if wait_for_all or not answers:
            return False
        usual = max(SHORTEST, self.patience * statistics.median(self.times))
        return all(now - sent.began > usual for sent in self.pending.values())

    def _resend(self, job: Any, part: int, found: Missing) -> None:
        """Send a step back to the worker that holds its part; if it is gone, let the part start over."""
        sent = self.pending[part]
        alive = found.worker != self.homes[part] and self.homes[part] in self.client.nthreads()
        self.send(job, sent.order if alive else replace(sent.order, restart=True), sent.w)

    def _look(self, futures: list[Any], seconds: float) -> None:
        """Wait a moment for one of the futures; raise an error if there have been no workers for too long."""
        from distributed import wait

        with suppress(TimeoutError), self.client.as_current():  # ``wait`` uses the current client
            wait(futures, timeout=seconds, return_when="FIRST_COMPLETED")
            return
        now = time.perf_counter()
        if self.client.nthreads():
            self.alone = None
        elif self.alone is None:
            self.alone = now
        elif now - self.alone > LONELY:
            raise PartError(f"the cluster has had no workers for {LONELY:.0f} seconds")

    def _result(self, part: int, future: Any) -> Any:
        if future.status in ("finished", "cancelled"):  # "cancelled": the scheduler is lost
            return future.result()
        error = future.exception() if future.status == "error" else None
        reason = f"{type(error).__name__}: {error}" if error else f"its task was {future.status}"
        where = part_in_words(self.parts[part])
        raise PartError(f"part {part} ({where}) failed: {reason}") from error

    def close(self) -> None:
        """Delete the data of the run, here and on all workers."""
        if self.client.status != "running":  # the cluster is gone
            return
        with suppress(Exception):  # the cluster may shut down meanwhile
            for sent in self.pending.values():
                sent.future.cancel()
            self.client.run(forget, self.run)


def await_worker(client: Any) -> None:
    """Wait up to LONELY seconds for the first worker: workers just started need a while."""
    from distributed import TimeoutError as TooLate

    try:
        client.wait_for_workers(1, timeout=LONELY)
    except TooLate:
        raise ValueError(
            f"client: the cluster has had no workers for {LONELY:.0f} seconds; start one with "
            "`dask worker`"
        ) from None


@contextmanager
def connected() -> Iterator[None]:
    """Turn the errors of `distributed` after the loss of the scheduler into a PartError with advice."""
    from distributed.client import CancelledError, ClosedClientError
    from distributed.comm import CommClosedError

    try:
        yield
    except (CancelledError, ClosedClientError, CommClosedError, OSError) as error:
        raise PartError(
            f"the connection to the scheduler was lost ({type(error).__name__}); restart the "
            "cluster, and continue a fit with a checkpoint by resume=True"
        ) from error
