"""The pool of a cluster without a cluster: tasks run here, one after the other, and their bytes are counted.

Everything else is what ``maxmargin.cluster`` does, with as many parts as memory allows; what a task would
bring to its worker and back is counted by its pickle. ``absent`` draws parts that miss a round, and ``lose``
takes the state of a part, as the death of its worker does.
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
    """As ``maxmargin.cluster.pool.Pool``; each part has a worker of its own."""

    def __init__(self, parts: Sequence[Any], absent: float = 0.0, seed: int = 0):
        self.run = RUN
        self.take(parts)
        self.pending: dict[int, tuple[worker.Order, np.ndarray]] = {}
        self.absent, self.rng = absent, np.random.default_rng(seed)
        self.to_workers = self.from_workers = 0  # bytes so far

    def __len__(self) -> int:
        return len(self.parts)

    def take(self, parts: Sequence[Any]) -> None:
        """The parts that tasks work on."""
        self.parts = [part if isinstance(part, FilePart) else (*part, None)[:3] for part in parts]

    def share(self, value: Any) -> Any:
        """As it would arrive."""
        return pickle.loads(pickle.dumps(value, 5))

    def each(self, task: Callable, *args: Any, numbered: bool = True) -> list[Any]:
        """A task over all parts."""
        pairs = enumerate(self.parts)
        return [task(*args, *([k] if numbered else []), data) for k, data in pairs]

    def send(self, job: Any, order: worker.Order, w: np.ndarray) -> None:
        """A step of a part."""
        self.to_workers += len(pickle.dumps((order, w), 5))
        self.pending[order.part] = order, w

    def receive(self, job: Any, wait_for_all: bool, deadline: float) -> dict[int, worker.Answer]:
        """The answers of all parts but those that are absent."""
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
        """The worker of a part dies; another starts over."""
        del worker.STATES[self.run, part]

    def close(self) -> None:
        """Forget all parts."""
        worker.forget(self.run)


def fit(
    svm: Any, parts: Sequence[Any], *, pool: Any = None, collect: bool = True, **given: Any
) -> Any:
    """``cluster.fit`` in this process; ``given``: passes, older, and change, which sees the first round."""
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
    """The first round of a fit."""
    solver, older = training.check_estimator(svm), older or training.usual_older(len(pool))
    made: Any = pool
    return training.prepared(svm, made, solver, passes, older, callbacks)
