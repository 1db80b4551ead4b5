"""Progress as lines of text, on a terminal, in a notebook, in a file or through the logger."""

from __future__ import annotations

import logging
import math
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from statistics import linear_regression
from typing import TextIO

from maxmargin.callbacks.protocol import Callback, Progress

logger: logging.Logger = logging.getLogger("maxmargin")


@dataclass(eq=False)
class LogProgress(Callback):
    """Sends progress to the logger ``maxmargin``: steps at ``level``, start and end at INFO."""

    level: int = logging.INFO

    def on_start(self, info: Progress) -> None:
        self._forecast = Forecast()
        logger.info("%s: training to a gap of %.3g", info.solver or "solver", info.tol)

    def on_step(self, info: Progress) -> None:
        self._forecast.observe(info)
        logger.log(self.level, "%s", describe(info, self._forecast.time_left(info)))

    def on_end(self, info: Progress) -> None:
        logger.info("%s", describe_end(info))


@dataclass(eq=False)
class ProgressLine(Callback):
    """A live line of progress on a stream.

    On a terminal and in a notebook the line is rewritten in place, at most every ``interval`` seconds.
    In a file or a pipe, whole lines are written at growing intervals, so a long training leaves a short
    record.

    Parameters
    ----------
    stream : the stream to write to; standard error by default.
    interval : least seconds between two lines. In a file or a pipe, only the second line keeps this interval.
    growth : factor from one interval to the next, in a file or a pipe.
    clock : function that returns seconds from any origin. Tests replace it.
    """

    stream: TextIO | None = None
    interval: float = 0.1
    growth: float = 1.5
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._forecast = Forecast()
        self._due = -math.inf
        self._wait = self.interval
        self._width = 0

    def on_start(self, info: Progress) -> None:
        self.__post_init__()

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
        # Looked up at each call: notebooks and test runners replace sys.stderr after import.
        return sys.stderr if self.stream is None else self.stream

    def _on_terminal(self) -> bool:
        """Whether a line can be rewritten; notebooks understand \\r, though they are not terminals."""
        out = self._out()
        isatty = getattr(out, "isatty", None)
        return bool(isatty and isatty()) or type(out).__module__.startswith("ipykernel.")

    def _write(self, text: str, last: bool) -> None:
        out = self._out()
        if self._on_terminal():
            # A line longer than the terminal would wrap, and \r only returns to its last row.
            text = text if last else text[: shutil.get_terminal_size().columns - 1]
            # Spaces erase the rest of a longer previous line.
            out.write("\r" + text.ljust(self._width) + ("\n" if last else ""))
            self._width = len(text)
        else:
            out.write(text + "\n")
        out.flush()


@dataclass(frozen=True)
class TimeLeft:
    """Seconds until training reaches the tolerance, or (``at_limit``) an earlier budget."""

    seconds: float
    at_limit: bool


class Forecast:
    """Extrapolates the remaining training time from a straight line through log(gap) over time.

    The line is fitted to the later half of the observed steps: solvers start faster than they finish.
    """

    def __init__(self, memory: int = 64) -> None:
        self._seen: deque[tuple[float, float]] = deque(maxlen=memory)

    def observe(self, info: Progress) -> None:
        """Record the gap of a step."""
        gap = distance(info)
        if math.isfinite(gap) and gap > 0:
            self._seen.append((info.seconds, math.log(gap)))

    def time_left(self, info: Progress) -> TimeLeft | None:
        """The time left until ``info.tol`` or a budget is reached; None if it is unknown."""
        to_tol = self._seconds_to(info.tol)
        to_limit = _seconds_to_limit(info)
        if to_tol is None:
            return None
        if to_limit < to_tol:
            return TimeLeft(to_limit, at_limit=True)
        return TimeLeft(to_tol, at_limit=False)

    def _seconds_to(self, tol: float) -> float | None:
        later_half = list(self._seen)[len(self._seen) // 2 :]
        if len(later_half) < 3 or tol <= 0 or later_half[0][0] == later_half[-1][0]:
            return None
        slope = linear_regression(*zip(*later_half, strict=True)).slope
        if not slope < 0:
            return None
        seconds = (math.log(tol) - later_half[-1][1]) / slope
        # An estimate below tol only waits for its certificate, and that takes an unknown time.
        return seconds if seconds > 0 else None


def describe(info: Progress, left: TimeLeft | None = None) -> str:
    """One line about a step; ``~`` marks a gap that is estimated, not certified."""
    known = [short_number(info.gap, 3)] if math.isfinite(info.gap) else []
    hoped = ["~" + short_number(info.estimate, 3)] if info.estimate < info.gap else []
    gap = " ".join(known + hoped) or "?"
    line = f"{_counters(info)}  gap {gap}  planes {_count(info.planes)}  {_duration(info.seconds)}"
    if left is None:
        return line
    return f"{line}  ~{_duration(left.seconds)} to {'limit' if left.at_limit else 'tol'}"


def describe_end(info: Progress) -> str:
    """One line about the whole training, with the certified gap."""
    return (
        f"{info.solver or 'training'}: {info.status or 'ended'}  {_counters(info)}  "
        f"gap {short_number(info.gap, 3)} (tol {short_number(info.tol, 3)})  "
        f"planes {_count(info.planes)}  {_duration(info.seconds)}"
    )


def _counters(info: Progress) -> str:
    passes = f"{info.passes:.1f}" if info.passes % 1 else f"{info.passes:.0f}"
    calls = _count(info.oracle_calls)
    return f"pass {passes}  calls {calls}  primal {short_number(info.primal)}  dual {short_number(info.dual)}"


def distance(info: Progress) -> float:
    """The latest value of the gap: the smaller of the certified gap and the running estimate."""
    return min(info.gap, info.estimate) if not math.isnan(info.estimate) else info.gap


def _seconds_to_limit(info: Progress) -> float:
    limits = [math.inf]
    if info.max_seconds is not None:
        limits.append(info.max_seconds - info.seconds)
    if info.max_passes is not None and info.passes > 0:
        limits.append((info.max_passes - info.passes) * info.seconds / info.passes)
    return max(0.0, min(limits))


def short_number(value: float, digits: int = 5) -> str:
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
