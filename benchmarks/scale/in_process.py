"""A simulated cluster: a pool that runs tasks one after the other in this process, and counts bytes.

Everything else is the code of ``maxmargin.cluster``, with as many parts as memory allows. The bytes that a
task would send to its worker and back are the size of its pickle. ``absent`` is the probability that a part
misses a round. ``lose`` drops the state of a part, like the death of its worker.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from maxmargin.cluster import training, worker
from maxmargin.cluster.driver import ClusterRounds, play
from maxmargin.cluster.source import FilePart

RUN = "in-process"


class InProcess:
    """A pool like ``maxmargin.cluster.pool.Pool``, in which each part has a worker of its own."""

    def __init__(self, parts: Sequence[Any], absent: float = 0.0, seed: int = 0):
        self.run = RUN
        self.take(parts)
        self.pending: dict[int, tuple[worker.Order, np.ndarray]] = {}
        self.absent, self.rng = absent, np.random.default_rng(seed)
        self.to_workers = self.from_workers = 0  # bytes so far

    def __len__(self) -> int:
        return len(self.parts)

    def take(self, parts: Sequence[Any]) -> None:
        """Set the parts that tasks work on."""
        self.parts = [part if isinstance(part, FilePart) else (*part, None)[:3] for part in parts]

    def share(self, value: Any) -> Any:
        """Return the value as a worker would receive it."""
        return pickle.loads(pickle.dumps(value, 5))

    def each(self, task: Callable, *args: Any, numbered: bool = True) -> list[Any]:
        """Run a task over all parts."""
        pairs = enumerate(self.parts)
        return [task(*args, *([k] if numbered else []), data) for k, data in pairs]

    def send(self, job: Any, order: worker.Order, w: np.ndarray) -> None:
        """Send a step to a part."""
        self.to_workers += len(pickle.dumps((order, w), 5))
        self.pending[order.part] = order, w

    def receive(self, job: Any, wait_for_all: bool, deadline: float) -> dict[int, worker.Answer]:
        """Return the answers of all parts that are not absent."""
        late = self.rng.random(len(self)) < (0.0 if wait_for_all else self.absent)
        answers: dict[int, worker.Answer] = {}
        for part in [k for k in self.pending if not late[k]]:
            order, w = self.pending.pop(part)
            found = worker.step(job, order, self.parts[part], w)
            if isinstance(found, worker.Missing):
                found = worker.step(job, replace(order, restart=True), self.parts[part], w)
            assert isinstance(found, worker.Answer)
            self.from_workers += len(pickle.dumps(found, 5))
            answers[part] = found
        return answers

    def lose(self, part: int) -> None:
        """Lose the worker of a part; another one starts over."""
        del worker.STATES[self.run, part]

    def close(self) -> None:
        """Forget all parts."""
        worker.forget(self.run)


def fit(
    svm: Any, parts: Sequence[Any], *, pool: Any = None, collect: bool = True, **given: Any
) -> Any:
    """Run ``cluster.fit`` in this process.

    ``given`` may hold arguments of ``prepare``, and ``change``, a function that receives the prepared rounds.
    """
    change = given.pop("change", lambda rounds: None)
    pool = InProcess(parts) if pool is None else pool
    try:
        rounds = prepare(svm, pool, **given)
        change(rounds)
        play(rounds)
        return training.adopt_result(svm, rounds, training.finish(rounds, collect))
    finally:
        pool.close()


def prepare(
    svm: Any,
    pool: InProcess,
    passes: int = 2,
    older: int | None = None,
    callbacks: Sequence[Any] = (),
) -> ClusterRounds:
    """Prepare the first round of a fit."""
    solver, older = training.check_estimator(svm), older or training.usual_older(len(pool))
    made: Any = pool
    return training.prepared(svm, made, solver, passes, older, callbacks)
