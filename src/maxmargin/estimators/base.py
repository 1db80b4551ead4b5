"""What all estimators share: checks of parameters, the way to the one training loop, what a fit leaves."""

from __future__ import annotations

import copy
import logging
import re
import warnings
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from maxmargin.callbacks import Callback, LogProgress, ProgressLine
from maxmargin.data.arrays import check_flag, generator_of, is_number, unmasked
from maxmargin.data.labels import CodedLabels, CodedSequences, plain
from maxmargin.data.memory import check_columns
from maxmargin.data.tree_shards import MappedTrees
from maxmargin.incremental import (
    Past,
    Settings,
    advance,
    check_streams,
    first_model,
    next_model,
    streaming_of,
    support_of,
)
from maxmargin.models.checks import check_lengths
from maxmargin.models.examples import Examples
from maxmargin.models.python import bind_model
from maxmargin.problem import Formulation, Problem, Support, make_regularizer
from maxmargin.problem.problem import check_weight_of_risk, check_weights
from maxmargin.problem.regularizer import needs_of
from maxmargin.runtime.executor import count_jobs
from maxmargin.solvers import make_solver
from maxmargin.train import Result, train

logger = logging.getLogger("maxmargin")


SMALL = 10_000  # numbers in a problem
ROUNDING = 1e-13
MOST_BEST = 2**31 - 1  # outputs of ``predict_k_best``: no machine holds more


def polish_of(size: int, unit: float = 1.0) -> float | None:
    """The gap to go on to below tol, in units of the loss; None for a problem that is not small.

    A small problem is solved to rounding, which costs milliseconds: its solution then does not depend on
    the order of the examples or on the seed.
    """
    return ROUNDING * unit if size <= SMALL else None


def intercept_prior(svm: Any) -> tuple[float, float] | None:
    """What an intercept without a regulariser asks of a solver: a prior."""
    return (0.0, np.inf) if svm.fit_intercept and not svm.penalized_intercept else None


def intercept_regularizer(svm: Any, examples: Examples) -> Any:
    """1/2 |w|^2, without the intercepts where these are not penalised: the last weight of each row."""
    if intercept_prior(svm) is None:
        return None
    last = np.arange(1, examples.dimension + 1) % (svm.n_features_in_ + 1) == 0
    return make_regularizer((0.0, np.where(last, np.inf, 1.0)), None, examples)


def check_positive(name: str, value: Any, none: bool = False) -> None:
    """Refuse what is no positive number; None passes where it is allowed."""
    if value is None and none:
        return
    endless = isinstance(value, float | np.floating) and np.isposinf(value)
    if not (endless or is_number(value)) or value <= 0:
        raise ValueError(
            f"{name} must be a positive number{' or None' if none else ''}, got {value!r}"
        )


def seed_of(random_state: Any) -> int:
    """A seed from scikit-learn's random_state."""
    return int(generator_of(random_state).randint(np.iinfo(np.int32).max))


def plain_sequence(data: Any) -> Any:
    """Data frames and series as arrays: they index by label, everything here by position."""
    return data.to_numpy() if hasattr(data, "iloc") else data


def plain_outputs(Y: Any) -> Any:
    """True outputs by position; an array of numbers or strings stays one."""
    Y = plain_sequence(Y)
    single = isinstance(Y, str | bytes) or getattr(Y, "shape", None) == ()
    if single or (Y is not None and not hasattr(type(Y), "__iter__")):
        raise ValueError(f"Y must be a sequence of true outputs, got {Y!r}")
    if sp.issparse(Y):  # of MultiLabel: rows of 0 and 1
        check_columns(Y, "Y")
        return Y.toarray()
    kept = Y is None or isinstance(Y, CodedLabels | CodedSequences | MappedTrees)
    return Y if plain(Y) or kept else [plain_sequence(y) for y in Y]


def examples_of(X: Any, Y: Any) -> tuple[Any, Any]:
    """Inputs and true outputs by position, as many of each."""
    X, Y = plain_sequence(X), plain_outputs(Y)
    if Y is None:
        raise ValueError("Y must be given: the true output of every example")
    check_lengths(X, Y)
    return X, Y


def score_of(score: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """A score of scikit-learn's; its errors name the parameter."""
    y = unmasked(y, "y")
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return score(X, y, sample_weight)
    except (TypeError, ValueError, OverflowError) as error:
        if re.search(r"\b(X|y)\b", str(error)):
            raise
        raise ValueError(f"y: {error}") from None


def check_rows(svm: Any, X: Any, **options: Any) -> Any:
    """X, and y where it is given, by scikit-learn's checks; its errors name the parameters."""
    X = unmasked(X, "X")
    check_columns(X, "X")
    if "y" in options:
        options["y"] = unmasked(options["y"], "y")
    try:
        return validate_data(
            svm, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", **options
        )
    except (TypeError, ValueError, OverflowError) as error:
        if re.search(r"\b[Xy]\b", str(error)):
            raise
        kind = ValueError if isinstance(error, ValueError | OverflowError) else TypeError
        raise kind(f"{'X or y' if 'y' in options else 'X'}: {error}") from None


class SolverMixin:
    """Training, shared by the estimators: parameters in, fitted attributes out."""

    memory_: Past | None  # of ``partial_fit``
    fingerprint_: str

    def example_weights(self, y: Any, sample_weight: Any) -> Any:
        """v_i of the objective, from what the user gave for each example."""
        return sample_weight

    def weights(self) -> np.ndarray:
        """w as the model packs it."""
        raise NotImplementedError

    @staticmethod
    def params_of(model: Any) -> dict[str, Any]:
        """The parameters that a fitted model stands for."""
        raise NotImplementedError

    def adopt(self, model: Any, w: np.ndarray) -> None:
        """Become the fitted estimator of this model and these weights."""
        raise NotImplementedError

    def save(self, path: Any) -> None:
        """Write the model to a file that holds numbers and plain text only; see ``maxmargin.load``."""
        from maxmargin.persistence import save

        save(self, path)

    def _formulation(self) -> Formulation:
        return Formulation()

    def _needs(self) -> tuple[str, ...]:
        """Names of the parameters of the regulariser that are given."""
        return needs_of(self._prior(), getattr(self, "nonnegative", None))

    def _prior(self) -> Any:
        """(mean, scale) of the weights, or None."""
        return getattr(self, "prior", None)

    def examples_at(self, X: Any, Y: Any, node_weight: Any, w: np.ndarray | None) -> Examples:
        """The fitted model on data; w matters where outputs have hidden parts."""
        return bind_model(self.model_, X, Y, node_weight)  # type: ignore[attr-defined]

    def problem_of(
        self, examples: Examples, sample_weight: Any, n_jobs: int = 1, C: Any = None
    ) -> Problem:
        """What this estimator minimises on these examples; with its own C unless another is given."""
        C = self.C if C is None else C  # type: ignore[attr-defined]
        regularizer = self._regularizer(examples)
        return Problem(examples, C, sample_weight, self._formulation(), n_jobs, regularizer)

    def _regularizer(self, examples: Examples) -> Any:
        """That of the parameters, for these examples."""
        return make_regularizer(self._prior(), getattr(self, "nonnegative", None), examples)

    def _callbacks(self) -> list[Callback]:
        level = self.verbose  # type: ignore[attr-defined]
        return ([ProgressLine()] if level == 1 else []) + ([LogProgress()] if level >= 2 else [])

    def _minimise(
        self,
        examples: Examples,
        sample_weight: Any,
        polish: float | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Result:
        """Train on examples, from the last fit where a warm start is asked for."""
        me: Any = self
        problem = self.problem_of(examples, sample_weight, count_jobs(me.n_jobs))
        warm = getattr(self, "support_", None) if me.warm_start else None
        fingerprint = problem.examples.fingerprint()
        if warm is not None and fingerprint != self.fingerprint_:
            raise ValueError(
                "warm_start: planes kept as vectors (models in Python, losses of the whole sample) need "
                "the same examples, loss and rescaling as the last fit"
            )
        self.fingerprint_ = fingerprint
        return self._train(problem, warm, polish, callbacks)

    def _train(
        self,
        problem: Problem,
        warm: Support | None,
        polish: Any = None,
        callbacks: Sequence = (),
        budget: dict[str, Any] | None = None,
    ) -> Result:
        """Train on a problem from some multipliers; warn if not converged. ``budget``: what is left of it."""
        me: Any = self
        solver = make_solver(me.solver, problem.formulation, problem, self._needs())
        options = self._options(callbacks) | (budget or {})
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            # What overflows is no point of a finite objective, which training tells.
            result = train(problem, solver, warm=warm, polish=polish, **options)
        self.memory_ = None
        if me.solver == "auto":
            logger.info("solver='auto' took %r", solver)
        # Without an exact pass nothing can be proven: the running estimate is what was asked for.
        asked = not solver.verifies and result.certificate.gap <= me.tol
        if not result.certificate.converged and not asked:
            warn_not_converged(result)
        return result

    def _options(self, callbacks: Sequence[Callback] = ()) -> dict[str, Any]:
        """What the training loop takes from the parameters."""
        me: Any = self
        return {
            "tol": me.tol,
            "max_passes": me.max_passes,
            "max_seconds": me.max_seconds,
            "callbacks": [*self._callbacks(), *callbacks],
            "random_state": seed_of(me.random_state),
        }

    def _stream(self, make: Any, X: Any, Y: Any, classes: Any, sample_weight: Any) -> None:
        """One chunk of ``partial_fit``; ``make`` gives the model of the first."""
        me: Any = self
        check_streams(getattr(self, "model", None))
        for name in self._needs():
            raise ValueError(f"partial_fit: {name} must be None; fit takes it")
        if self._formulation().hinge != "max":
            raise ValueError(
                f"partial_fit solves hinge='max' only, got {self._formulation()}; use fit"
            )
        check_lengths(X, Y)
        past: Past | None = getattr(self, "memory_", None)
        model = (
            first_model(make(), X, Y, classes) if past is None else next_model(past, me, classes)
        )
        chunk = (X, Y, check_weights(sample_weight, len(Y)))
        past, result, examples = advance(
            past, check_weight_of_risk(me.C), model, chunk, self._settings()
        )
        self._keep(result)
        self.fingerprint_ = examples.fingerprint()
        self.memory_, self.support_ = past, support_of(past.memory)
        self.adopt(model, result.w)
        if result.certificate.gap > me.tol:
            warn_not_converged(result)

    def _settings(self, callbacks: Sequence[Callback] = ()) -> Settings:
        """How a stream is optimised."""
        me: Any = self
        jobs, options = count_jobs(me.n_jobs), self._options(callbacks)
        return Settings(streaming_of(me.solver), self._formulation(), jobs, options)

    def _keep(self, result: Result) -> None:
        """Set the fitted attributes that all estimators share."""
        self.certificate_ = result.certificate
        self.history_ = result.history.arrays()
        self.solver_ = result.solver
        self.support_ = result.support

    def __sklearn_clone__(self) -> Any:
        """A clone shares its executor: workers cannot be copied."""
        me: Any = self
        if not isinstance(me.n_jobs, Executor):
            return super().__sklearn_clone__()  # type: ignore[misc]
        own = {k: v for k, v in me.get_params(deep=False).items() if k != "n_jobs"}
        twin = type(me)(**{k: clone(v, safe=False) for k, v in own.items()}, n_jobs=me.n_jobs)
        if hasattr(me, "_metadata_request"):
            twin._metadata_request = copy.deepcopy(me._metadata_request)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return dict(state, n_jobs=None) if isinstance(state.get("n_jobs"), Executor) else state

    def _check_shared(self) -> None:
        """Refuse parameters before any work on the data."""
        me: Any = self
        for name in ("warm_start", "fit_intercept", "penalized_intercept"):
            check_flag(name, getattr(me, name, False))
        make_solver(me.solver, self._formulation(), needs=self._needs())
        check_weight_of_risk(me.C)
        check_positive("tol", me.tol)
        check_positive("max_passes", me.max_passes)
        check_positive("max_seconds", me.max_seconds, none=True)
        count_jobs(me.n_jobs)
        seed_of(me.random_state)
        if not isinstance(me.verbose, int | np.integer | np.bool_) or me.verbose < 0:
            raise ValueError(f"verbose must be 0, 1 or 2, got {me.verbose!r}")


def warn_not_converged(result: Result) -> None:
    """Say what was reached and what to do."""
    c = result.certificate
    warnings.warn(
        f"not converged ({c.status}): gap {c.gap:.3g} after {c.passes:.1f} passes, tol {c.tol:.3g}; "
        f"{result.advice}",
        ConvergenceWarning,
        stacklevel=5,
    )
