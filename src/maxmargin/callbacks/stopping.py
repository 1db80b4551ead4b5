"""Callbacks that end training: by a budget, by a rule, or by a score on validation data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.callbacks.protocol import Callback, Progress


@dataclass(eq=False)
class EarlyStop(Callback):
    """Ends training at a budget or by the caller's own rule, whichever comes first.

    Parameters
    ----------
    seconds : wall-clock seconds since the start of training.
    passes : passes over the examples.
    when : function of the `Progress` of each step; training ends if it returns a true value.
    """

    seconds: float | None = None
    passes: float | None = None
    when: Callable[[Progress], bool] | None = None

    def __post_init__(self) -> None:
        if self.seconds is None and self.passes is None and self.when is None:
            raise ValueError("EarlyStop: expected seconds, passes or when, got none of them")
        for name, budget in (("seconds", self.seconds), ("passes", self.passes)):
            if budget is not None and not budget > 0:
                raise ValueError(f"EarlyStop: {name}: expected a number above 0, got {budget!r}")
        if self.when is not None and not callable(self.when):
            raise TypeError(f"EarlyStop: when: expected a callable, got {type(self.when).__name__}")

    def on_step(self, info: Progress) -> bool:
        spent = self.seconds is not None and info.seconds >= self.seconds
        walked = self.passes is not None and info.passes >= self.passes
        return spent or walked or (self.when is not None and bool(self.when(info)))


@dataclass(eq=False, repr=False)
class EarlyStopping(Callback):
    """Ends training when the score on validation data no longer rises.

    Parameters
    ----------
    X, Y : validation data, as ``predict`` and ``score`` of the estimator take them.
    scoring : None for ``score``, a name from scikit-learn or ``maxmargin.metrics``, or
        callable(estimator, X, Y).
    patience : training ends after this many scores in a row without an improvement.
    min_delta : least improvement over the best score that counts.
    every : steps from one score to the next; a step is about a pass.
    keep_best : return the weights with the best score.
        The certificate is then about these weights. With False, the fit returns the last weights as usual.

    Attributes
    ----------
    scores_ : list of (passes, score);  best_score_ : float, or None before the first score
    """

    X: Any
    Y: Any
    scoring: Any = None
    patience: int = 5
    min_delta: float = 0.0
    every: int = 1
    keep_best: bool = True

    def __post_init__(self) -> None:
        for name, value in (("patience", self.patience), ("every", self.every)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"EarlyStopping: {name}: expected a whole number from 1, got {value!r}"
                )
        if not 0 <= self.min_delta < math.inf:
            raise ValueError(
                f"EarlyStopping: min_delta: expected a number from 0, got {self.min_delta!r}"
            )
        self._score: Callable[[np.ndarray, Any, Any, Any], float] | None = None

    def attach(self, score: Callable[[np.ndarray, Any, Any, Any], float]) -> None:
        self._score = score

    def on_start(self, info: Progress) -> None:
        if self._score is None:
            raise ValueError(
                "EarlyStopping needs an estimator on one machine; give it to fit(..., callbacks=)"
            )
        self.scores_: list[tuple[float, float]] = []
        self.best_score_: float | None = None
        self._best: np.ndarray | None = None
        self._waited = 0

    def on_step(self, info: Progress) -> bool:
        if info.weights is None:
            raise ValueError(
                "EarlyStopping needs the weights after each step, but a stream has none"
            )
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
