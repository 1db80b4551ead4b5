"""Estimators that learn from data in parts: chunks of an iterable, mapped files, ``partial_fit``."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.estimators.advice import warn_not_converged
from maxmargin.estimators.base import BaseSVM, Given
from maxmargin.models.examples import Examples
from maxmargin.parts.fit import (
    first_model,
    next_model,
    optimise_chunk,
    streamed_problem,
    streaming_of,
)
from maxmargin.parts.source import NO_FREE_WEIGHTS, Settings, check_streams
from maxmargin.problem import Problem
from maxmargin.problem.problem import check_weights
from maxmargin.result import Result
from maxmargin.runtime.executor import Workers
from maxmargin.solvers import Streaming


class ChunkSVM(BaseSVM):
    """An estimator that also learns from chunks."""

    def _partial_fit(self, given: Given) -> None:
        """Train on one more chunk."""
        self.check_parameters(solver=self.hinge == "max")  # sums have a solver of their own
        if given.Y is None:
            raise ValueError("partial_fit: Y must be given, the true output of every example")
        past = getattr(self, "memory_", None)
        given = self._cut(self._read(given, reset=past is None))
        check_streams(given.model)
        X, Y = given.X, given.Y
        if past is None:
            model = first_model(given.model, X, Y, given.classes)
        else:
            model = next_model(past, self, given.classes)
        chunk = (X, Y, check_weights(given.sample_weight, len(Y)))
        past, result, examples = self._optimise(past, model, chunk, self._settings(given))
        self._keep(result)
        self.fingerprint_ = examples.fingerprint
        self.memory_, self.support_ = past, past.whole_support()
        self.adopt(model, result.w)
        self.weighted_nodes_ = False
        if result.certificate.gap > result.certificate.tol:
            warn_not_converged(result)

    def _optimise(
        self, past: Any, model: Any, chunk: tuple[Any, Any, np.ndarray], settings: Settings
    ) -> tuple[Any, Result, Examples]:
        """Train on a chunk together with what is kept of those before it."""
        return optimise_chunk(past, float(self.C), model, chunk, settings)

    def _cut(self, given: Given) -> Given:
        """A chunk as examples that can be told apart."""
        return given

    def _streaming(self) -> Streaming:
        """The solver of chunks: that of the parameters, or one in place of the default."""
        return streaming_of("auto" if self.solver == type(self).solver else self.solver)

    def _settings(self, given: Given) -> Settings:
        """How a stream is optimised."""
        if self._free:
            raise ValueError(NO_FREE_WEIGHTS)
        solver, options = self._streaming(), self._options(given.callbacks)
        formulation = self._formulation()
        return Settings(solver, formulation, self._jobs(), options, self._regularizer)

    def _pose_parts(self, given: Given, executor: Workers | None) -> tuple[Problem, str]:
        X, Y, weights, settings = given.X, given.Y, given.sample_weight, self._settings(given)
        weights = weights if Y is None else self.example_weights(Y, weights)
        problem = streamed_problem(given.model, X, Y, weights, settings, self.C, executor)
        warm = self._warm()
        if warm is not None and (isinstance(warm.outputs, list) or not problem.source.repeatable):
            raise ValueError(
                "warm_start: a stream needs a compiled model and data that can be read again"
            )
        return problem, ""
