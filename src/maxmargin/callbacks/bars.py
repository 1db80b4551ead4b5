"""A progress bar, drawn by tqdm (with widgets in notebooks) or by rich.

The bar is full when the gap is at tol. Gaps shrink by factors, so the finished share is
log(first / now) / log(first / tol), computed from the solver's estimate of the gap. The bar never goes back.
"""

from __future__ import annotations

import math
from typing import Any

from maxmargin.callbacks.lines import distance, short_number
from maxmargin.callbacks.protocol import Callback, Progress, optional

LIBRARIES = ("tqdm", "rich")
FULL = 100.0
TQDM_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
RICH_FORMAT = "[progress.percentage]{task.percentage:>3.0f}%"


class ProgressBar(Callback):
    """A bar that fills as the gap falls to tol; beside it the gap, the primal and the pass.

    Parameters
    ----------
    library : "tqdm" or "rich"
        The library that draws the bar. Both work on terminals and in notebooks; ``tqdm.auto`` draws a widget
        if the notebook supports it.
    label : text before the bar. None shows the name of the solver.
    options : keyword arguments of ``tqdm.auto.tqdm``, or of ``rich.progress.Progress``
    """

    def __init__(self, library: str = "tqdm", label: str | None = None, **options: Any) -> None:
        if library not in LIBRARIES:
            raise ValueError(f"ProgressBar: library: expected one of {LIBRARIES}, got {library!r}")
        self.library = library
        self.label = label
        self.options: dict[str, Any] = options
        self._bar: Any = None

    def on_start(self, info: Progress) -> None:
        self._close()  # an interrupted fit leaves its bar open
        self._first, self._done = math.nan, 0.0
        make = TqdmBar if self.library == "tqdm" else RichBar
        self._bar = make(self.label or info.solver or "training", self.options)

    def on_step(self, info: Progress) -> None:
        self._advance(info)
        self._bar.show(self._done, bar_text(info))

    def on_end(self, info: Progress) -> None:
        self._advance(info)
        self._bar.show(self._done, f"{bar_text(info)}, {info.status}")
        self._close()

    def on_fit_end(self, estimator: Any) -> None:
        self._close()  # ``on_end`` is not called if the fit failed

    def _advance(self, info: Progress) -> None:
        gap = distance(info)
        if not gap < math.inf or info.tol <= 0:
            return
        if info.gap <= info.tol:
            self._done = FULL
            return
        self._first = gap if math.isnan(self._first) else self._first
        whole = math.log(self._first / info.tol) if self._first > info.tol else 0.0
        if whole > 0 and gap > 0:
            # An estimate below tol stays at 99 % until the certificate confirms it.
            part = min(math.log(self._first / gap) / whole, 0.99)
            self._done = max(self._done, FULL * part)

    def _close(self) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()


def bar_text(info: Progress) -> str:
    """The text beside the bar; ``~`` marks a gap that is only estimated."""
    mark = "" if info.gap <= info.estimate else "~"
    gap, primal = short_number(distance(info), 3), short_number(info.primal)
    return f"gap {mark}{gap}, primal {primal}, pass {info.passes:.0f}"


class TqdmBar:
    """A tqdm bar."""

    def __init__(self, label: str, options: dict[str, Any]) -> None:
        plain = {"total": FULL, "desc": label, "bar_format": TQDM_FORMAT}
        tqdm = optional("tqdm.auto", "ProgressBar", "progress").tqdm
        self._bar: Any = tqdm(**(plain | options))

    def show(self, done: float, words: str) -> None:
        """Update the bar; tqdm limits how often it redraws."""
        self._bar.set_postfix_str(words, refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Close the bar; its last state stays visible unless ``leave=False``."""
        self._bar.refresh()
        self._bar.close()


class RichBar:
    """A rich bar."""

    def __init__(self, label: str, options: dict[str, Any]) -> None:
        rich = optional("rich.progress", "ProgressBar", "progress")
        text = rich.TextColumn
        columns = (
            "{task.description}",
            rich.BarColumn(),
            text(RICH_FORMAT),
            rich.TimeElapsedColumn(),
        )
        self._bar: Any = rich.Progress(*columns, text("{task.fields[words]}"), **options)
        self._task = self._bar.add_task(label, total=FULL, words="")
        self._bar.start()

    def show(self, done: float, words: str) -> None:
        """Update the bar; rich limits how often it redraws."""
        self._bar.update(self._task, completed=done, words=words)

    def close(self) -> None:
        """Close the bar; its last state stays visible unless ``transient=True``."""
        self._bar.stop()
