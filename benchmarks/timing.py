"""CPU time of a call, and rows of results as CSV."""

from __future__ import annotations

import csv
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from maxmargin._core import core
from maxmargin.callbacks import Callback
from maxmargin.runtime.deadline import deadline

Result = TypeVar("Result")


@dataclass(frozen=True)
class Timed(Generic[Result]):
    """The fastest of several runs: its result, CPU and wall-clock seconds."""

    result: Result
    cpu: float
    wall: float


def best_of(repeats: int, call: Callable[[], Result], enough: float = 20.0) -> Timed[Result]:
    """Run `call` up to `repeats` times; no further run once `enough` CPU seconds are spent."""
    best: Timed[Result] | None = None
    spent = 0.0
    for _ in range(max(repeats, 1)):
        wall, cpu = time.perf_counter(), time.process_time()
        result = call()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        if best is None or cpu < best.cpu:
            best = Timed(result, cpu, wall)
        spent += cpu
        if spent > enough:
            break
    assert best is not None
    return best


@dataclass
class CpuLimit(Callback):
    """End training after the step in which these CPU seconds are used up.

    CPU seconds do not depend on how busy the machine is.
    """

    seconds: float
    began: float = field(default_factory=time.process_time)

    def on_step(self, info: Any) -> bool:
        return time.process_time() - self.began > self.seconds


@contextmanager
def cpu_deadline(seconds: float) -> Iterator[None]:
    """End the work inside with ``TimeUp`` after these CPU seconds of the process, even inside a
    step.

    A signal sets the deadline of the main thread to now. The next ``poll`` ends the work; it is
    called
    only when the state is consistent.
    """
    before = signal.signal(signal.SIGPROF, lambda *_: core.set_deadline(core.now()))
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 1e-6))
    try:
        with deadline(float("inf")):  # restores the deadline that the signal changes
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as CSV, with all columns that occur, in order of first appearance.

    Missing values of a row stay empty.
    """
    rows = list(rows)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
