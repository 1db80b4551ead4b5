"""What a caller may attach to training: progress lines, log records, early stops.

The training loop calls ``on_start`` once, ``on_step`` after every step and ``on_end`` once, each
with a `Progress`. A callback only reads it; one that returns True from ``on_step`` ends training. At the end
``kept`` may name other weights to return, which are then certified.
"""

from __future__ import annotations

import logging
import math
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TextIO

import numpy as np

__all__ = [
    "Callback",
    "EarlyStop",
    "EarlyStopping",
    "LogProgress",
    "Progress",
    "ProgressLine",
    "describe",
]

logger = logging.getLogger("maxmargin")


@dataclass(frozen=True)
class Progress:
    """The state of training after a step.

    ``primal`` and ``gap`` are certified, and infinite until a first exact pass; ``dual`` is the
    solver's running dual and ``estimate`` its running estimate of the gap. ``gap``,
    ``estimate`` and ``tol`` are in units of the task loss. ``passes`` counts oracle calls per
    example, ``planes`` the outputs kept. ``status`` is empty until training has ended. ``weights()`` is w
    after the step, a copy; None before the first step, and where the examples are not in memory.
    """

    step: int = 0
    seconds: float = 0.0
    passes: float = 0.0
    oracle_calls: int = 0
    primal: float = math.inf
    dual: float = -math.inf
    gap: float = math.inf
    estimate: float = math.inf
    planes: int = 0
    tol: float = 0.0
    max_passes: float | None = None
    max_seconds: float | None = None
    solver: str = ""
    status: str = ""
    weights: Callable[[], np.ndarray] | None = field(default=None, repr=False, compare=False)


class Callback:
    """Base of all callbacks: does nothing and never asks to stop."""

    def attach(self, score: Callable[[np.ndarray, Any, Any, Any], float]) -> None:
        """Called by an estimator before training: ``score(w, X, Y, scoring)`` is its score with w."""

    def on_start(self, info: Progress) -> None:
        """Called once, before the first step."""

    def on_step(self, info: Progress) -> bool | None:
        """Called after every step; True ends training."""
        return None

    def kept(self) -> np.ndarray | None:
        """The weights to be returned in place of those of the end; asked once, after the last step."""
        return None

    def on_end(self, info: Progress) -> None:
        """Called once, after the last step, with ``info.status`` set."""


class EarlyStop(Callback):
    """Ends training by a budget or by the caller's own rule, whichever comes first.

    Parameters
    ----------
    seconds : wall-clock seconds since the start of training.
    passes : passes over the examples.
    when : called with the `Progress` of each step; a true answer ends training.
    """

    def __init__(
        self,
        seconds: float | None = None,
        passes: float | None = None,
        when: Callable[[Progress], bool] | None = None,
    ) -> None:
        if seconds is None and passes is None and when is None:
            raise ValueError("EarlyStop: expected seconds, passes or when, got none of them")
        for name, budget in (("seconds", seconds), ("passes", passes)):
            if budget is not None and not budget > 0:
                raise ValueError(f"EarlyStop: {name}: expected a number above 0, got {budget!r}")
        if when is not None and not callable(when):
            raise TypeError(f"EarlyStop: when: expected a callable, got {type(when).__name__}")
        self.seconds = seconds
        self.passes = passes
        self.when = when

    def on_step(self, info: Progress) -> bool:
        spent = self.seconds is not None and info.seconds >= self.seconds
        walked = self.passes is not None and info.passes >= self.passes
        return spent or walked or (self.when is not None and bool(self.when(info)))


class EarlyStopping(Callback):
    """Ends training when the score on validation data no longer rises.

    Parameters
    ----------
    X, Y : validation data, as ``predict`` and ``score`` of the estimator take them
    scoring : None for ``score``, a name of scikit-learn's or ``maxmargin.metrics``, or
        callable(estimator, X, Y)
    patience : scores in a row without a better one, after which training ends
    min_delta : by how much a score must exceed the best one to be better
    every : steps from one score to the next; a step is about a pass
    keep_best : return the weights of the best score; the certificate is then about these. Without, those of
        the end, as always.

    Attributes
    ----------
    scores_ : list of (passes, score);  best_score_ : float, or None before the first
    """

    def __init__(
        self,
        X: Any,
        Y: Any,
        scoring: Any = None,
        patience: int = 5,
        min_delta: float = 0.0,
        every: int = 1,
        keep_best: bool = True,
    ) -> None:
        for name, value in (("patience", patience), ("every", every)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"EarlyStopping: {name}: expected a whole number from 1, got {value!r}"
                )
        if not 0 <= min_delta < math.inf:
            raise ValueError(
                f"EarlyStopping: min_delta: expected a number from 0, got {min_delta!r}"
            )
        self.X, self.Y, self.scoring = X, Y, scoring
        self.patience, self.min_delta, self.every = patience, min_delta, every
        self.keep_best = keep_best
        self._score: Callable[[np.ndarray, Any, Any, Any], float] | None = None

    def attach(self, score: Callable[[np.ndarray, Any, Any, Any], float]) -> None:
        self._score = score

    def on_start(self, info: Progress) -> None:
        if self._score is None:
            raise ValueError(
                "EarlyStopping scores by an estimator, on one machine: give it to fit(..., callbacks=)"
            )
        self.scores_: list[tuple[float, float]] = []
        self.best_score_: float | None = None
        self._best: np.ndarray | None = None
        self._waited = 0

    def on_step(self, info: Progress) -> bool:
        if info.weights is None:
            raise ValueError("EarlyStopping needs the weights after each step: a stream has none")
        if info.step % self.every:
            return False
        assert self._score is not None
        w = info.weights()
        score = self._score(w, self.X, self.Y, self.scoring)
        self.scores_.append((info.passes, score))
        self._waited += 1
        if self.best_score_ is None or score > self.best_score_ + self.min_delta:
            self.best_score_, self._best, self._waited = score, w, 0
        return self._waited >= self.patience

    def kept(self) -> np.ndarray | None:
        return self._best if self.keep_best else None


class LogProgress(Callback):
    """Sends progress to the logger ``maxmargin``: steps at ``level``, start and end at INFO."""

    def __init__(self, level: int = logging.INFO) -> None:
        self.level = level
        self._forecast = Forecast()

    def on_start(self, info: Progress) -> None:
        self._forecast = Forecast()
        logger.info("%s: training to a gap of %.3g", info.solver or "solver", info.tol)

    def on_step(self, info: Progress) -> None:
        self._forecast.observe(info)
        logger.log(self.level, "%s", describe(info, self._forecast.time_left(info)))

    def on_end(self, info: Progress) -> None:
        logger.info("%s", describe_end(info))


class ProgressLine(Callback):
    """A live line of progress on a stream.

    On a terminal the line is rewritten in place, at most every ``interval`` seconds. Elsewhere (a
    file, a pipe) whole lines are written at growing intervals, so that a long training leaves a
    short record.

    Parameters
    ----------
    stream : where to write; standard error by default.
    interval : least seconds between two lines; elsewhere than on a terminal, before the second one.
    growth : elsewhere than on a terminal, factor from one interval to the next.
    clock : seconds from any origin, for tests.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        interval: float = 0.1,
        growth: float = 1.5,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stream = stream
        self.interval = interval
        self.growth = growth
        self.clock = clock
        self._forecast = Forecast()
        self._due = -math.inf
        self._wait = interval
        self._width = 0

    def on_start(self, info: Progress) -> None:
        self._forecast = Forecast()
        self._due = -math.inf
        self._wait = self.interval
        self._width = 0

    def on_step(self, info: Progress) -> None:
        self._forecast.observe(info)
        now = self.clock()
        if now < self._due:
            return
        self._write(describe(info, self._forecast.time_left(info)), last=False)
        self._due = now + self._wait
        if not self._on_terminal():
            self._wait *= self.growth

    def on_end(self, info: Progress) -> None:
        self._write(describe_end(info), last=True)

    def _out(self) -> TextIO:
        # Looked up late: notebooks and test runners replace sys.stderr after import.
        return sys.stderr if self.stream is None else self.stream

    def _on_terminal(self) -> bool:
        isatty = getattr(self._out(), "isatty", None)
        return bool(isatty and isatty())

    def _write(self, text: str, last: bool) -> None:
        out = self._out()
        if self._on_terminal():
            # A line longer than the terminal would wrap, and \r only returns to its last row.
            text = text if last else text[: shutil.get_terminal_size().columns - 1]
            # Spaces wipe what is left of a longer line before this one.
            out.write("\r" + text.ljust(self._width) + ("\n" if last else ""))
            self._width = len(text)
        else:
            out.write(text + "\n")
        out.flush()


@dataclass(frozen=True)
class TimeLeft:
    """Seconds until training ends: at the tolerance, or (``at_limit``) at a budget before it."""

    seconds: float
    at_limit: bool


class Forecast:
    """Extrapolates how long training still takes, from a straight line through log(gap) over time.

    The line goes through the later half of what was seen: solvers start faster than they finish.
    """

    def __init__(self, memory: int = 64) -> None:
        self._seen: deque[tuple[float, float]] = deque(maxlen=memory)

    def observe(self, info: Progress) -> None:
        """Remember a step."""
        distance = _distance(info)
        if math.isfinite(distance) and distance > 0:
            self._seen.append((info.seconds, math.log(distance)))

    def time_left(self, info: Progress) -> TimeLeft | None:
        """Time left to ``info.tol`` or to a budget; None where it is not known."""
        to_tol = self._seconds_to(info.tol)
        to_limit = _seconds_to_limit(info)
        if to_tol is None:
            return None
        if to_limit < to_tol:
            return TimeLeft(to_limit, at_limit=True)
        return TimeLeft(to_tol, at_limit=False)

    def _seconds_to(self, tol: float) -> float | None:
        later_half = list(self._seen)[len(self._seen) // 2 :]
        if len(later_half) < 3 or tol <= 0:
            return None
        slope = _slope(later_half)
        if not slope < 0:
            return None
        seconds = (math.log(tol) - later_half[-1][1]) / slope
        # Below tol an estimate only waits to be certified, and how long that takes is unknown.
        return seconds if seconds > 0 else None


def describe(info: Progress, left: TimeLeft | None = None) -> str:
    """One line about a step; ``~`` marks a gap that is estimated, not certified."""
    known = [_number(info.gap, 3)] if math.isfinite(info.gap) else []
    hoped = ["~" + _number(info.estimate, 3)] if info.estimate < info.gap else []
    gap = " ".join(known + hoped) or "?"
    line = f"{_counters(info)}  gap {gap}  planes {_count(info.planes)}  {_duration(info.seconds)}"
    if left is None:
        return line
    return f"{line}  ~{_duration(left.seconds)} to {'limit' if left.at_limit else 'tol'}"


def describe_end(info: Progress) -> str:
    """One line about the whole of training; its gap is the certified one."""
    return (
        f"{info.solver or 'training'}: {info.status or 'ended'}  {_counters(info)}  "
        f"gap {_number(info.gap, 3)} (tol {_number(info.tol, 3)})  "
        f"planes {_count(info.planes)}  {_duration(info.seconds)}"
    )


def _counters(info: Progress) -> str:
    passes = f"{info.passes:.1f}" if info.passes % 1 else f"{info.passes:.0f}"
    calls = _count(info.oracle_calls)
    return f"pass {passes}  calls {calls}  primal {_number(info.primal)}  dual {_number(info.dual)}"


def _distance(info: Progress) -> float:
    """The newest value of the gap: the estimate unless the certificate is better (or alone)."""
    return min(info.gap, info.estimate) if not math.isnan(info.estimate) else info.gap


def _slope(points: list[tuple[float, float]]) -> float:
    """Least-squares slope; zero when the points have no spread in time."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if spread == 0:
        return 0.0
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread


def _seconds_to_limit(info: Progress) -> float:
    limits = [math.inf]
    if info.max_seconds is not None:
        limits.append(info.max_seconds - info.seconds)
    if info.max_passes is not None and info.passes > 0:
        limits.append((info.max_passes - info.passes) * info.seconds / info.passes)
    return max(0.0, min(limits))


def _number(value: float, digits: int = 5) -> str:
    return f"{value:.{digits}g}" if math.isfinite(value) else "?"


def _count(value: float) -> str:
    return f"{value:.0f}" if value < 100_000 else f"{value / 1000:.0f}k"


def _duration(seconds: float) -> str:
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    if seconds < 59.5:
        return f"{seconds:.0f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    return f"{minutes // 60}h{minutes % 60:02d}m"
