"""The interface of callbacks.

The training loop calls ``on_start`` once, ``on_step`` after every step and ``on_end`` once, each
with a `Progress`. A callback only reads it. If ``on_step`` returns True, training ends. At the end ``kept``
may return other weights as the result; these are then certified. An estimator calls ``on_fit_start``
before and ``on_fit_end`` after all of that: a fit may train more than once.
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

    ``primal`` and ``gap`` are certified, and infinite until a first exact pass. ``dual`` is the
    solver's running dual and ``estimate`` its running estimate of the gap. ``gap``,
    ``estimate`` and ``tol`` are in units of the task loss. ``passes`` counts oracle calls per
    example, ``planes`` the cached outputs. ``status`` is empty until training has ended. ``weights()``
    returns a copy of w after the step. ``weights`` is None before the first step, and if the examples are
    not in memory.
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
    """Base class of all callbacks: does nothing and never asks to stop."""

    def attach(self, score: Callable[[np.ndarray, Any, Any, Any], float]) -> None:
        """Receive a scoring function from the estimator before training.

        ``score(w, X, Y, scoring)`` is the score of the estimator with the weights w.
        """

    def on_start(self, info: Progress) -> None:
        """Called once, before the first step."""

    def on_step(self, info: Progress) -> bool | None:
        """Called after every step; True ends training."""
        return None

    def kept(self) -> np.ndarray | None:
        """Return the weights that replace the last ones, or None; called once, after the last step."""
        return None

    def on_end(self, info: Progress) -> None:
        """Called once, after the last step, with ``info.status`` set."""

    def on_fit_start(self, estimator: Any) -> None:
        """Called by an estimator with itself before training; its parameters are set."""

    def on_fit_end(self, estimator: Any) -> None:
        """Called by an estimator with itself after the fit, or with None if the fit failed."""


def optional(module: str, user: str, extra: str) -> Any:
    """Import an optional package; if it is missing, the ImportError says what to install."""
    package = module.split(".")[0]
    try:
        return import_module(module)
    except ImportError:
        raise ImportError(
            f"{user} needs {package}: pip install 'maxmargin[{extra}]' (or '{package}')",
            name=package,
        ) from None
