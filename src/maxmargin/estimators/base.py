"""The base class of all estimators: declared parameters, one path through ``fit``, and fitted attributes.

    fit -> _check_parameters -> _read -> _solve: _pose (bind, problem), _train -> _keep -> _adopt

Data in parts, which are chunks of an iterable or mapped files, take ``_pose_parts`` instead of ``_pose``. A
chunk of ``partial_fit`` is optimised together with the examples kept from earlier chunks.

An estimator declares its parameters as the fields of a dataclass, in the order of its constructor, and
implements the steps that differ.
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


# Valid values of the parameters that estimators share. scikit-learn's ``Interval`` would accept True as 1,
# and 10^400 as a number.
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
    """The arguments of a call of ``fit``, ``partial_fit`` or ``predict``, and the model for them."""

    X: Any
    Y: Any = None
    sample_weight: Any = None
    node_weight: Any = None
    groups: Any = None
    classes: Any = None
    callbacks: Sequence[Callback] = ()
    kept: tuple[Any, float, bool] = (None, 300.0, False)  # checkpoint, checkpoint_every, resume
    checkpoint: Any = (
        # The ``checkpoint.CheckpointFile`` of the fit, if a checkpoint is requested.
        None
    )
    in_parts: bool = False  # whether the data are read a part at a time
    model: Any = None


def can_stream(svm: BaseSVM) -> bool:
    """Return True if the options allow ``partial_fit``; otherwise raise an AttributeError with the reason."""
    try:
        svm._check_chunks()
    except (TypeError, ValueError) as error:
        raise AttributeError(str(error)) from None
    return True


class BaseSVM(CallbackSupportMixin, Reporting):
    """Base class of all estimators."""

    _weighted_nodes: bool
    support_: Any

    _checks: ClassVar[Checks] = CHECKS
    _keeper: ClassVar[type[CheckpointFile]] = Checkpoint
    _divides: ClassVar[bool] = False  # whether a cluster can train it, with the examples in parts
    # Warning text, by task, for a model that predicts one label everywhere; other tasks get no warning.
    _lone: ClassVar[dict[str, str]] = {}

    C: float
    solver: Any
    tol: float | str
    max_passes: float
    max_seconds: float | None
    warm_start: bool
    n_jobs: Any
    random_state: Any
    verbose: int
    # Defaults of parameters that only some estimators accept.
    hinge: str = "max"
    rescaling: str = "margin"
    prior: Any = None
    nonnegative: Any = None

    model_: Any
    coef_: np.ndarray
    _fingerprint: str  # of the examples, if the planes of ``support_`` depend on them
    _memory: Any  # state of ``partial_fit`` from earlier chunks; None after ``fit``

    # Steps that an estimator implements

    def _read(self, given: Given, reset: bool = True) -> Given:
        """Convert the data for the model, and make a new model; ``reset``: these are the first data."""
        raise NotImplementedError

    def _check_model(self) -> None:
        """Raise an error if the given model cannot be fitted."""

    def _adopt(self, model: Any, w: np.ndarray) -> None:
        """Set the fitted attributes that depend on the model and its weights."""
        raise NotImplementedError

    def _weights(self) -> np.ndarray:
        """Return w in the layout of the model."""
        return self.coef_

    @staticmethod
    def _params_of(model: Any) -> dict[str, Any]:
        """The constructor parameters that reproduce a fitted model."""
        return {}

    def _example_weights(self, y: Any, sample_weight: Any) -> Any:
        """v_i of the objective, computed from the user's weights of examples."""
        return sample_weight

    def _polish(self, given: Given) -> float | None:
        """The gap below tol at which training may go on, in units of the loss; None: stop at tol."""
        return None

    def _check_convex(self, given: Given) -> None:
        """Raise an error if the problem is not convex, as a path over C requires."""

    # The steps of fit

    @with_callbacks
    def _fit(self, given: Given) -> None:
        """Run all steps from data to fitted attributes."""
        self._check_parameters()
        if given.kept[0] is not None or given.kept[2]:  # a checkpoint file, or a request to resume
            given = replace(given, checkpoint=checkpoint_of(given, self._keeper))
        with watched(self, given) as given:
            given = self._read(given)
            self._attach(given)
            with self._workers(given.model) as executor:
                result = self._solve(given, executor)
            self._finish(given, result)

    def _attach(self, given: Given) -> None:
        """Give callbacks a function that scores weights during training."""
        if given.callbacks:
            attach(given.callbacks, partial(self._at, given))

    def _at(self, given: Given, w: np.ndarray) -> Any:
        """A copy of this estimator with the weights of a solution; this estimator keeps its own."""
        svm = copy.copy(self)
        svm._adopt(given.model, w)
        return svm

    def _finish(self, given: Given, result: Result) -> None:
        """Set all fitted attributes."""
        self._keep(result)
        self._adopt(given.model, result.w)
        self._weighted_nodes = given.node_weight is not None

    def _check_parameters(self, solver: bool = True) -> None:
        """Validate parameters before touching the data.

        With solver=True, also check that the solver supports the formulation. Attributes that a class sets
        for itself, such as the hinge of CRF, are not parameters.
        """
        values = {own.name: getattr(self, own.name) for own in fields(self)}  # type: ignore[arg-type]
        check_parameters(values, self._checks)
        self._jobs()
        self._seed()
        if solver:
            self._chosen()

    def _jobs(self) -> int:
        """The number of threads."""
        return count_jobs(self.n_jobs)

    def _seed(self) -> int:
        """The seed of every random draw."""
        return seed_of(self.random_state)

    def _chosen(self, problem: Problem | None = None) -> Solver:
        """Make the solver for this problem, if it is known; raise an error if it cannot solve it."""
        return make_solver(self.solver, self._formulation(), problem, self._asks_for())

    def _workers(self, model: Any) -> AbstractContextManager[Workers | None]:
        """Workers for a model written in Python; they are closed at the end if they were opened here."""
        return nullcontext() if isinstance(model, Model) else opened(self.n_jobs)

    def _solve(self, given: Given, executor: Workers | None) -> Result:
        """Pose the problem and train; a warm start begins at the last multipliers."""
        pose = self._pose_parts if given.in_parts else self._pose
        problem, fingerprint = pose(given, executor)
        warm = self._warm()
        if warm is not None and fingerprint != self._fingerprint:
            raise ValueError(
                "warm_start: planes kept as vectors (models in Python, losses of the whole "
                "sample) need the same examples, loss and rescaling as in the last fit; set "
                "warm_start=False"
            )
        if given.checkpoint is not None:
            given.checkpoint.open(self, given, problem, self._chosen(problem))
        result = self._train(
            problem, warm, self._polish(given), given.callbacks, checkpoint=given.checkpoint
        )
        if not given.in_parts:
            advise(self, given, problem, result)
        self._fingerprint = fingerprint
        return result

    def _pose(self, given: Given, executor: Workers | None) -> tuple[Problem, str]:
        """Bind the model to the data; return the problem and the fingerprint of its examples."""
        given.model.initialize(given.X, given.Y)
        weights = self._example_weights(given.Y, given.sample_weight)
        examples = self._bind(given, executor)
        problem = self._problem_of(examples, weights, self._jobs())
        return problem, problem.examples.fingerprint

    def _pose_parts(self, given: Given, executor: Workers | None) -> tuple[Problem, str]:
        """Pose the problem for data that are read a part at a time; return it with an empty fingerprint."""
        X, Y, weights = given.X, given.Y, given.sample_weight
        settings = self._settings(given, self._chosen())
        weights = weights if Y is None else self._example_weights(Y, weights)
        problem = streamed_problem(given.model, X, Y, weights, settings, self.C, executor)
        warm = self._warm()
        if warm is not None and (isinstance(warm.outputs, list) or not problem.source.repeatable):
            raise ValueError(
                "warm_start: a stream needs a compiled model, and data that can be read twice"
            )
        return problem, ""

    def _bind(self, given: Given, executor: Workers | None = None) -> Examples:
        """Bind the model to data that all threads read; without Y, for prediction only."""
        X, jobs = self._converted(given), self._jobs()
        with readers(jobs) if jobs > 1 else nullcontext():
            return bind_model(given.model, X, given.Y, given.node_weight, executor)

    def _converted(self, given: Given) -> Any:
        """Convert attributes in X with several threads. A single thread leaves this to ``_bind``."""
        jobs = self._jobs()
        return given.X if jobs == 1 else converted(given.model, given.X, jobs)

    def _warm(self) -> Support | None:
        """The multipliers of the last fit if a warm start is requested."""
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
        """Train on a problem, from the multipliers ``warm`` if given; warn if training has not converged.

        ``budget`` overrides options by the rest of a budget.
        """
        solver = self._chosen(problem)
        options = self._options(callbacks) | (budget or {})
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            # A w that overflows has no finite objective; training reports it.
            result = train(problem, solver, warm=warm, polish=polish, keeper=checkpoint, **options)
        if self.solver == "auto":
            logger.info("solver='auto' chose %r", solver)
        if result.dropped_warm:
            logger.info("the warm start was worse than w = 0, so training started over without it")
        # If the solver skips the exact pass, the user asked for the running estimate: do not warn.
        asked = not solver.verify and result.certificate.gap <= result.certificate.tol
        stopped = any(isinstance(callback, EarlyStopping) for callback in callbacks)
        asked = asked or (stopped and result.status is Status.STOPPED)
        if not result.certificate.converged and not asked:
            warn_not_converged(result)
        return result

    def _options(self, callbacks: Sequence[Callback] = ()) -> dict[str, Any]:
        """The options of the training loop, from the parameters."""
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
        self._memory = None
        self._forget_confidence()

    def _forget_confidence(self) -> None:
        """Delete the temperature and the conformal threshold, which belong to one fit."""
        for name in ("temperature_", "conformal_"):
            self.__dict__.pop(name, None)

    # Chunks

    def _partial_fit(self, given: Given) -> None:
        """Train on one more chunk."""
        self._check_parameters(solver=self.hinge == "max")  # sums have their own solver
        if given.Y is None:
            raise ValueError("partial_fit: Y must be given, with the true output of every example")
        past = getattr(self, "_memory", None)
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
        self._fingerprint = examples.fingerprint
        self._memory, self.support_ = past, past.whole_support()
        self._adopt(model, result.w)
        self._weighted_nodes = False
        if result.certificate.gap > result.certificate.tol:
            warn_not_converged(result)

    def _optimise(
        self, past: Any, model: Any, chunk: tuple[Any, Any, np.ndarray], settings: Settings
    ) -> tuple[Any, Result, Examples]:
        """Train on a chunk together with the examples kept from earlier chunks."""
        return optimise_chunk(past, float(self.C), model, chunk, settings)

    def _check_chunks(self) -> None:
        """Raise an error that names the option if an option rules out ``partial_fit``."""
        self._streaming()
        if self._free:
            raise ValueError(NO_FREE_WEIGHTS)

    def _cut(self, given: Given) -> Given:
        """Split a chunk into single examples."""
        return given

    def _streaming(self) -> Streaming:
        """The solver of chunks: the parameter, or a streaming solver in place of the default."""
        return streaming_of("auto" if self.solver == type(self).solver else self.solver)

    def _settings(self, given: Given, solver: Any) -> Settings:
        """The settings of a stream."""
        if self._free:
            raise ValueError(NO_FREE_WEIGHTS)
        options, formulation = self._options(given.callbacks), self._formulation()
        asked = (self._prior(), self.nonnegative) if self._asks_for() else None
        return Settings(solver, formulation, self._jobs(), options, asked)

    # The problem; ``certify`` and ``objective`` pose it again

    def _read_again(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """Return X and Y in the form that ``fit`` gives them, for the fitted model."""
        if Y is None:
            raise ValueError("Y must be given, with all examples at once; only fit takes chunks")
        given = self._read(Given(X, Y), reset=False)
        return given.X, given.Y

    def _examples_at(self, X: Any, Y: Any, node_weight: Any, w: np.ndarray | None) -> Examples:
        """Bind the fitted model to data; w matters if outputs have hidden parts."""
        return self._bind(Given(X, Y, node_weight=node_weight, model=self.model_))

    def _problem_of(
        self, examples: Examples, sample_weight: Any, n_jobs: int = 1, C: Any = None
    ) -> Problem:
        """The problem of this estimator on these examples; with its own C unless another is given."""
        C = self.C if C is None else C
        regularizer = self._regularizer(examples)
        return Problem(examples, C, sample_weight, self._formulation(), n_jobs, regularizer)

    def _formulation(self) -> Formulation:
        return Formulation(self.hinge, self.rescaling)

    _free: bool = False  # whether the intercept is not regularised

    def _prior(self) -> Any:
        """(mean, scale) of the weights, or None."""
        return self.prior

    def _asks_for(self) -> tuple[str, ...]:
        """Names of the regulariser's parameters that are not None."""
        given = ((PRIOR, self._prior()), (NONNEGATIVE, self.nonnegative))
        return tuple(name for name, value in given if value is not None)

    def _regularizer(self, examples: Examples) -> Any:
        """The regulariser for these examples, from the parameters; None: 1/2 |w|^2."""
        if not self._asks_for():
            return None
        return make_regularizer(self._prior(), self.nonnegative, examples)
