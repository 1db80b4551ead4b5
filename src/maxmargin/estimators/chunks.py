"""Learning from data in parts: ``partial_fit`` for a chunk at a time, and ``fit`` on a source of chunks."""

from __future__ import annotations

from maxmargin.estimators.base import BaseSVM, Given, warn_not_converged
from maxmargin.parts.part import (
    Settings,
    first_model,
    next_model,
    optimise_chunk,
    streaming_of,
)
from maxmargin.parts.sequential import streamed_problem
from maxmargin.parts.source import check_streams
from maxmargin.problem import Problem
from maxmargin.problem.problem import check_weights
from maxmargin.runtime.executor import Workers, count_jobs


class ChunkSVM(BaseSVM):
    """An estimator that also learns from chunks."""

    def _partial_fit(self, given: Given) -> None:
        """Train on one more chunk."""
        self.check_parameters()
        check_streams(getattr(self, "model", None))
        for name in self._asks_for():
            raise ValueError(f"partial_fit: {name} must be None; fit takes it")
        if self.hinge != "max":
            raise ValueError(
                f"partial_fit solves hinge='max' only, got {self._formulation()}; use fit"
            )
        if given.Y is None:
            raise ValueError("partial_fit: Y must be given, the true output of every example")
        past = getattr(self, "memory_", None)
        given = self._read(given, reset=past is None)
        X, Y = given.X, given.Y
        if past is None:
            model = first_model(given.model, X, Y, given.classes)
        else:
            model = next_model(past, self, given.classes)
        chunk = (X, Y, check_weights(given.sample_weight, len(Y)))
        past, result, examples = optimise_chunk(
            past, float(self.C), model, chunk, self._settings(given)
        )
        self._keep(result)
        self.fingerprint_ = examples.fingerprint
        self.memory_, self.support_ = past, past.whole_support()
        self.adopt(model, result.w)
        self.weighted_nodes_ = False
        if result.certificate.gap > self.tol:
            warn_not_converged(result)

    def _settings(self, given: Given) -> Settings:
        """How a stream is optimised."""
        jobs, options = count_jobs(self.n_jobs), self._options(given.callbacks)
        return Settings(streaming_of(self.solver), self._formulation(), jobs, options)

    def _pose_parts(self, given: Given, executor: Workers | None) -> tuple[Problem, str]:
        X, Y, weights, settings = given.X, given.Y, given.sample_weight, self._settings(given)
        problem = streamed_problem(given.model, X, Y, weights, settings, self.C, executor)
        warm = self._warm()
        if warm is not None and (isinstance(warm.outputs, list) or not problem.source.repeatable):
            raise ValueError(
                "warm_start: a stream needs a compiled model and data that can be read again"
            )
        return problem, ""
