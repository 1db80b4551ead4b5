"""What all estimators share: declared parameters, the one way through ``fit``, and what a fit leaves.

    fit -> check_parameters -> _read -> _solve: _pose (bind, problem), _train -> _keep -> adopt

Data in parts, chunks of an iterable or mapped files, are posed otherwise; a chunk of ``partial_fit`` is
optimised with what is kept of those before.

An estimator declares its parameters as the fields of a dataclass, in the order of its constructor, and fills
in the steps that differ.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from maxmargin._sklearn import CallbackSupportMixin
from maxmargin.callbacks import Callback, EarlyStopping, LogProgress, ProgressLine
from maxmargin.checkpoint import Checkpoint, CheckpointFile, checkpoint_of
from maxmargin.data.arrays import (
    FINITE,
    FLAG,
    POSITIVE,
    TOLERANCE,
    VERBOSITY,
    Checks,
    among,
    check_parameters,
    check_weights,
    positive,
    seed_of,
)
from maxmargin.estimators.advice import advise, warn_not_converged
from maxmargin.estimators.hooks import attach, watched, with_callbacks
from maxmargin.estimators.reporting import Reporting
from maxmargin.formulation import HINGES
from maxmargin.models.examples import Examples
from maxmargin.models.protocol import Model
from maxmargin.models.python import bind_model, converted
from maxmargin.parts.fit import first_model, next_model, optimise_chunk, streaming_of
from maxmargin.parts.problem import NO_FREE_WEIGHTS, Settings, check_streams, streamed_problem
from maxmargin.problem import Certificate, Formulation, Problem, Status, Support, make_regularizer
from maxmargin.problem.regularizer import NONNEGATIVE, PRIOR
from maxmargin.result import Result
from maxmargin.runtime.executor import Workers, count_jobs, opened
from maxmargin.runtime.reading import readers
from maxmargin.solvers import Solver, Streaming, make_solver
from maxmargin.train import train

logger: logging.Logger = logging.getLogger("maxmargin")


# What the parameters of all estimators must be; scikit-learn's ``Interval`` would take True for 1, and 10^400
# for a number.
CHECKS: Checks = {
    "C": FINITE,
    "tol": TOLERANCE,
    "max_passes": POSITIVE,
    "max_seconds": positive(none=True),
    "warm_start": FLAG,
    "fit_intercept": FLAG,
    "penalized_intercept": FLAG,
    "verbose": VERBOSITY,
    "hinge": among(*HINGES),
}


@dataclass(frozen=True)
class Given:
    """What a call of ``fit``, ``partial_fit`` or ``predict`` was given, and the model for it."""

    X: Any
    Y: Any = None
    sample_weight: Any = None
    node_weight: Any = None
    groups: Any = None
    classes: Any = None
    callbacks: Sequence[Callback] = ()
    kept: tuple[Any, float, bool] = (None, 300.0, False)  # checkpoint, checkpoint_every, resume
    checkpoint: Any = (
        None  # what keeps it, where that is asked for: a ``checkpoint.CheckpointFile``
    )
    in_parts: bool = False  # whether the data are read a part at a time
    model: Any = None


def can_stream(svm: BaseSVM) -> bool:
    """Whether its options allow ``partial_fit``; the cause of the AttributeError has the reason."""
    try:
        svm.check_chunks()
    except (TypeError, ValueError) as error:
        raise AttributeError(str(error)) from None
    return True


class BaseSVM(CallbackSupportMixin, Reporting):
    """Parameters in, fitted attributes out."""

    weighted_nodes_: bool
    support_: Any

    checks: ClassVar[Checks] = CHECKS
    keeper: ClassVar[type[CheckpointFile]] = Checkpoint
    divides: ClassVar[bool] = False  # a cluster may solve it, the examples in parts
    # What is said where one label alone is predicted, by the task of a model; of others nothing is.
    lone: ClassVar[dict[str, str]] = {}

    C: float
    solver: Any
    tol: float | str
    max_passes: float
    max_seconds: float | None
    warm_start: bool
    n_jobs: Any
    random_state: Any
    verbose: int
    # What not every estimator takes, and its value in those that do not.
    hinge: str = "max"
    rescaling: str = "margin"
    prior: Any = None
    nonnegative: Any = None

    model_: Any
    coef_: np.ndarray
    fingerprint_: str  # of the examples that the planes of ``support_`` depend on
    memory_: Any  # what ``partial_fit`` keeps of the chunks before; None after ``fit``

    # What an estimator fills in

    def _read(self, given: Given, reset: bool = True) -> Given:
        """The data as a model takes them, and a fresh one; ``reset``: these data are the first."""
        raise NotImplementedError

    def check_model(self) -> None:
        """Refuse a model that was given and cannot be fitted."""

    def adopt(self, model: Any, w: np.ndarray) -> None:
        """Become the fitted estimator of this model and these weights."""
        raise NotImplementedError

    def weights(self) -> np.ndarray:
        """w as the model packs it."""
        return self.coef_

    @staticmethod
    def params_of(model: Any) -> dict[str, Any]:
        """The parameters that a fitted model stands for."""
        return {}

    def example_weights(self, y: Any, sample_weight: Any) -> Any:
        """v_i of the objective, from what the user gave for each example."""
        return sample_weight

    def _polish(self, given: Given) -> float | None:
        """The gap to go on to below tol, in units of the loss; None: no further than tol."""
        return None

    def check_convex(self, given: Given) -> None:
        """Refuse data that make no convex problem, as a path over C needs it."""

    # The way through fit

    @with_callbacks
    def _fit(self, given: Given) -> None:
        """The one way from data to fitted attributes."""
        self.check_parameters()
        if given.kept[0] is not None or given.kept[2]:  # a file, or one to go on from
            given = replace(given, checkpoint=checkpoint_of(given, self.keeper))
        with watched(self, given) as given:
            given = self._read(given)
            self._attach(given)
            with self._workers(given.model) as executor:
                result = self._solve(given, executor)
            self._finish(given, result)

    def _attach(self, given: Given) -> None:
        """Let callbacks score weights on the way."""
        if given.callbacks:
            attach(given.callbacks, partial(self._at, given))

    def _at(self, given: Given, w: np.ndarray) -> Any:
        """This estimator with the weights of a solution; its own stay."""
        svm = copy.copy(self)
        svm.adopt(given.model, w)
        return svm

    def _finish(self, given: Given, result: Result) -> None:
        """Set all fitted attributes."""
        self._keep(result)
        self.adopt(given.model, result.w)
        self.weighted_nodes_ = given.node_weight is not None

    def check_parameters(self, solver: bool = True) -> None:
        """Refuse parameters before any work on the data; ``solver``: also one that is not able.

        What a class sets for itself, as CRF its hinge, is not a parameter.
        """
        values = {own.name: getattr(self, own.name) for own in fields(self)}  # type: ignore[arg-type]
        check_parameters(values, self.checks)
        self._jobs()
        self._seed()
        if solver:
            self._chosen()

    def _jobs(self) -> int:
        """How many threads there are to be."""
        return count_jobs(self.n_jobs)

    def _seed(self) -> int:
        """Of all that is drawn."""
        return seed_of(self.random_state)

    def _chosen(self, problem: Problem | None = None) -> Solver:
        """The solver of the parameters, for this problem if it is known; refuses what it cannot solve."""
        return make_solver(self.solver, self._formulation(), problem, self._asks_for())

    def _workers(self, model: Any) -> AbstractContextManager[Workers | None]:
        """Workers for a model written in Python, closed at the end if they were opened here."""
        return nullcontext() if isinstance(model, Model) else opened(self.n_jobs)

    def _solve(self, given: Given, executor: Workers | None) -> Result:
        """Pose the problem and train, from the last fit where a warm start is asked for."""
        pose = self._pose_parts if given.in_parts else self._pose
        problem, fingerprint = pose(given, executor)
        warm = self._warm()
        if warm is not None and fingerprint != self.fingerprint_:
            raise ValueError(
                "warm_start: planes kept as vectors (models in Python, losses of the whole sample) need "
                "the same examples, loss and rescaling as the last fit"
            )
        if given.checkpoint is not None:
            given.checkpoint.open(self, given, problem, self._chosen(problem))
        result = self._train(
            problem, warm, self._polish(given), given.callbacks, checkpoint=given.checkpoint
        )
        if not given.in_parts:
            advise(self, given, problem, result)
        self.fingerprint_ = fingerprint
        return result

    def _pose(self, given: Given, executor: Workers | None) -> tuple[Problem, str]:
        """The model on the data as a problem, and the fingerprint of its examples."""
        given.model.initialize(given.X, given.Y)
        weights = self.example_weights(given.Y, given.sample_weight)
        examples = self._bind(given, executor)
        problem = self.problem_of(examples, weights, self._jobs())
        return problem, problem.examples.fingerprint

    def _pose_parts(self, given: Given, executor: Workers | None) -> tuple[Problem, str]:
        """The same for data that are read a part at a time."""
        X, Y, weights = given.X, given.Y, given.sample_weight
        settings = self._settings(given, self._chosen())
        weights = weights if Y is None else self.example_weights(Y, weights)
        problem = streamed_problem(given.model, X, Y, weights, settings, self.C, executor)
        warm = self._warm()
        if warm is not None and (isinstance(warm.outputs, list) or not problem.source.repeatable):
            raise ValueError(
                "warm_start: a stream needs a compiled model and data that can be read again"
            )
        return problem, ""

    def _bind(self, given: Given, executor: Workers | None = None) -> Examples:
        """The model on data, which all threads read; without Y for prediction only."""
        X, jobs = self._converted(given), self._jobs()
        with readers(jobs) if jobs > 1 else nullcontext():
            return bind_model(given.model, X, given.Y, given.node_weight, executor)

    def _converted(self, given: Given) -> Any:
        """X with attributes read by several threads; one thread reads them as the model is bound."""
        jobs = self._jobs()
        return given.X if jobs == 1 else converted(given.model, given.X, jobs)

    def _warm(self) -> Support | None:
        """The multipliers of the last fit, where a warm start is asked for."""
        return getattr(self, "support_", None) if self.warm_start else None

    def _train(
        self,
        problem: Problem,
        warm: Support | None,
        polish: float | None = None,
        callbacks: Sequence[Callback] = (),
        budget: dict[str, Any] | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Result:
        """Train on a problem from some multipliers; warn if not converged. ``budget``: what is left of it."""
        solver = self._chosen(problem)
        options = self._options(callbacks) | (budget or {})
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            # What overflows is not a point of a finite objective, which training reports.
            result = train(problem, solver, warm=warm, polish=polish, keeper=checkpoint, **options)
        if self.solver == "auto":
            logger.info("solver='auto' took %r", solver)
        if result.dropped_warm:
            logger.info("the warm start was worse than w = 0: training began again without it")
        # Without an exact pass nothing can be proven: the running estimate is what was asked for.
        asked = not solver.verify and result.certificate.gap <= result.certificate.tol
        stopped = any(isinstance(callback, EarlyStopping) for callback in callbacks)
        asked = asked or (stopped and result.status is Status.STOPPED)
        if not result.certificate.converged and not asked:
            warn_not_converged(result)
        return result

    def _options(self, callbacks: Sequence[Callback] = ()) -> dict[str, Any]:
        """What the training loop takes from the parameters."""
        reports: list[Callback] = [ProgressLine()] if self.verbose == 1 else []
        reports += [LogProgress()] if self.verbose >= 2 else []
        return {
            "tol": self.tol,
            "max_passes": self.max_passes,
            "max_seconds": self.max_seconds,
            "callbacks": [*reports, *callbacks],
            "random_state": self._seed(),
        }

    def _keep(self, result: Result) -> None:
        """Set the fitted attributes that all estimators share."""
        self.certificate_: Certificate = result.certificate
        self.history_: dict[str, np.ndarray] = result.history.arrays()
        self.solver_: str = result.solver
        self.support_ = result.support
        self.memory_ = None
        self.forget_confidence()

    def forget_confidence(self) -> None:
        """A temperature and sets are those of one fit."""
        for name in ("temperature_", "conformal_"):
            self.__dict__.pop(name, None)

    # Chunks

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
        settings = self._settings(given, self._streaming())
        past, result, examples = self._optimise(past, model, chunk, settings)
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

    def check_chunks(self) -> None:
        """Refuse options with which there is no ``partial_fit``, and name them."""
        self._streaming()
        if self._free:
            raise ValueError(NO_FREE_WEIGHTS)

    def _cut(self, given: Given) -> Given:
        """A chunk as single examples."""
        return given

    def _streaming(self) -> Streaming:
        """The solver of chunks: that of the parameters, or one in place of the default."""
        return streaming_of("auto" if self.solver == type(self).solver else self.solver)

    def _settings(self, given: Given, solver: Any) -> Settings:
        """How a stream is optimised."""
        if self._free:
            raise ValueError(NO_FREE_WEIGHTS)
        options, formulation = self._options(given.callbacks), self._formulation()
        asked = (self._prior(), self.nonnegative) if self._asks_for() else None
        return Settings(solver, formulation, self._jobs(), options, asked)

    # The problem, which ``certify`` and ``objective`` pose again

    def read_again(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """Return X and Y in the form that ``fit`` makes of them, for the fitted model."""
        if Y is None:
            raise ValueError("Y must be given, with all examples at once: chunks are for fit")
        given = self._read(Given(X, Y), reset=False)
        return given.X, given.Y

    def examples_at(self, X: Any, Y: Any, node_weight: Any, w: np.ndarray | None) -> Examples:
        """The fitted model on data; w matters where outputs have hidden parts."""
        return self._bind(Given(X, Y, node_weight=node_weight, model=self.model_))

    def problem_of(
        self, examples: Examples, sample_weight: Any, n_jobs: int = 1, C: Any = None
    ) -> Problem:
        """What this estimator minimises on these examples; with its own C unless another is given."""
        C = self.C if C is None else C
        regularizer = self._regularizer(examples)
        return Problem(examples, C, sample_weight, self._formulation(), n_jobs, regularizer)

    def _formulation(self) -> Formulation:
        return Formulation(self.hinge, self.rescaling)

    _free: bool = False  # whether there is an intercept without a regulariser

    def _prior(self) -> Any:
        """(mean, scale) of the weights, or None."""
        return self.prior

    def _asks_for(self) -> tuple[str, ...]:
        """Names of the parameters of the regulariser that are given."""
        given = ((PRIOR, self._prior()), (NONNEGATIVE, self.nonnegative))
        return tuple(name for name, value in given if value is not None)

    def _regularizer(self, examples: Examples) -> Any:
        """That of the parameters, for these examples; None: 1/2 |w|^2."""
        if not self._asks_for():
            return None
        return make_regularizer(self._prior(), self.nonnegative, examples)
