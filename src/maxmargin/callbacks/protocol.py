"""What a callback receives, and when.

The training loop calls ``on_start`` once, ``on_step`` after every step and ``on_end`` once, each
with a `Progress`. A callback only reads it; one that returns True from ``on_step`` ends training. At the end
``kept`` may name other weights to return, which are then certified. An estimator calls ``on_fit_start`` and
``on_fit_end`` around all of that: a fit may train more than once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np


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

    def on_fit_start(self, estimator: Any) -> None:
        """Called by an estimator with itself, before anything else: its parameters are known."""

    def on_fit_end(self, estimator: Any) -> None:
        """Called by an estimator with itself once it is fitted, and with None where its fit has failed."""


def optional(module: str, user: str, extra: str) -> Any:
    """A module of a package that need not be installed; what to install where it is not."""
    package = module.split(".")[0]
    try:
        return import_module(module)
    except ImportError:
        raise ImportError(
            f"{user} needs {package}: pip install 'maxmargin[{extra}]' (or '{package}')",
            name=package,
        ) from None
