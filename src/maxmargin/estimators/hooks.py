"""Notification of callbacks about a fit, including the callbacks of scikit-learn (from 1.9).

The callbacks of scikit-learn see a fit as a task, and each step of training as a subtask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from maxmargin.callbacks import Callback, Progress
from maxmargin.estimators.inputs import scorer_of
from maxmargin.estimators.reporting import STATE

try:
    from sklearn.callback import with_callbacks
except ImportError:  # scikit-learn before 1.9

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method unchanged."""
        return method


@contextmanager
def watched(svm: Any, given: Any) -> Iterator[Any]:
    """Notify all callbacks of a fit; yield the arguments with scikit-learn's callbacks added."""
    others = [SklearnTasks(given)] if getattr(svm, "_skl_callbacks", ()) else []
    if not given.callbacks and not others:
        yield given
        return
    given = replace(given, callbacks=[*given.callbacks, *others])
    with notified(svm, given.callbacks):
        yield given


@contextmanager
def notified(svm: Any, callbacks: Sequence[Callback]) -> Iterator[None]:
    """Notify callbacks of the start of a fit and of its end, also if it fails."""
    with ExitStack() as stack:
        for callback in callbacks:
            stack.push(partial(leave, callback, svm))
            callback.on_fit_start(svm)
        yield


def leave(callback: Callback, svm: Any, kind: Any, *_: Any) -> None:
    """Notify a callback of the end of a fit; ``kind`` is the type of the error, or None."""
    callback.on_fit_end(svm if kind is None else None)


def attach(callbacks: Sequence[Callback], at: Callable[[np.ndarray], Any]) -> None:
    """Give callbacks a function that scores weights; ``at(w)`` is the estimator with the weights w."""

    def score(w: np.ndarray, X: Any, Y: Any, scoring: Any) -> float:
        svm = at(w)
        return float(scorer_of(svm, scoring)(svm, X, Y))

    for callback in callbacks:
        callback.attach(score)
        if isinstance(callback, SklearnTasks):
            callback.at = at


class SklearnTasks(Callback):
    """Reports training steps as tasks to scikit-learn's callbacks."""

    at: Callable[[np.ndarray], Any]

    def __init__(self, given: Any) -> None:
        weights = given.sample_weight
        known = None if weights is None else {"sample_weight": weights}
        self.data: dict[str, Any] = {"X": given.X, "y": given.Y, "metadata": known}

    def on_fit_start(self, estimator: Any) -> None:
        self.svm = estimator
        self.fit: Any = estimator._init_callback_context(max_subtasks=None)
        self.fit.call_on_fit_task_begin(estimator=estimator, **self.data)

    def on_step(self, info: Progress) -> bool:
        step = self.fit.subcontext(task_name="step")
        step.call_on_fit_task_begin(estimator=self.svm, **self.data)
        weights = info.weights
        fitted = None if weights is None else lambda: learnt(self.at(weights()))
        return step.call_on_fit_task_end(
            estimator=self.svm, reconstruction_attributes=fitted, **self.data
        )

    def on_fit_end(self, estimator: Any) -> None:
        if estimator is not None:
            self.fit.call_on_fit_task_end(
                estimator=estimator,
                reconstruction_attributes=lambda: learnt(estimator),
                **self.data,
            )


def learnt(svm: Any) -> dict[str, Any]:
    """The fitted attributes of an estimator, and its fitted state without a public name."""
    public = {k: v for k, v in vars(svm).items() if k.endswith("_") and not k.startswith("_")}
    return public | {k: v for k, v in vars(svm).items() if k in STATE.values()}
