"""LatentSVM: structural support vector machines with hidden parts, trained by ``maxmargin.cccp``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.callbacks import Callback
from maxmargin.cccp import Rounds, alternate, changed
from maxmargin.checkpoint import CheckpointFile, RoundsCheckpoint
from maxmargin.data.arrays import examples_of, positive, takes_outputs, whole
from maxmargin.estimators.advice import warn_user
from maxmargin.estimators.base import Checks, Given
from maxmargin.estimators.structural import StructuralSVM
from maxmargin.models.examples import Examples
from maxmargin.models.latent import Completing, Latent
from maxmargin.models.partial import Partial
from maxmargin.models.registry import UNKNOWN_LABELS, has_power, names_with
from maxmargin.parts.problem import Settings, StreamedProblem
from maxmargin.parts.source import Chunks
from maxmargin.problem import Problem, Support
from maxmargin.result import Result
from maxmargin.runtime.executor import Workers
from maxmargin.train import train

Solve = Callable[[Problem, Support | None], Result]
Posed = tuple[Any, Callable[[np.ndarray], Any], Callable[[Any], Problem]]


def check_max(name: str, hinge: Any) -> None:
    """Raise an error for sums over outputs: the sum over all completions of the true output is not known."""
    if not isinstance(hinge, str) or hinge != "max":
        raise ValueError(
            f"LatentSVM: {name} must be 'max', got {hinge!r}; use StructuralSVM for 'sum'"
        )


def check_begin(w: np.ndarray, model: Any) -> None:
    """Raise an error if a warm start has the weights of another model."""
    if len(w) != model.size_joint_feature:
        raise ValueError(
            f"warm_start: the last fit had {len(w)} weights, this model has "
            f"{model.size_joint_feature}; set warm_start=False"
        )


def weights_of_known(svm: Any, given: Given, rounds: Rounds, solve: Solve) -> np.ndarray:
    """Learn weights from the known labels alone, if some labels are unknown."""
    examples, weights = given.model.over_known(given.X, given.Y, given.sample_weight)
    first = solve(svm._problem_of(examples, weights, svm._jobs()), None)
    rounds.passes += first.certificate.passes
    rounds.oracle_calls += first.certificate.oracle_calls
    return first.w


def rounds_of(svm: Any) -> Rounds:
    """The budget of rounds from an estimator's parameters."""
    asked = svm.tol if svm.round_tol is None else svm.round_tol
    return Rounds(svm.max_rounds, svm.max_passes, svm.max_seconds, asked)


def warn_rounds(kind: str, rounds: Rounds) -> None:
    """Warn if the rounds ended before they converged."""
    if not rounds.enough:
        warn_user(
            f"{kind}: not converged after {len(rounds.path)} rounds ({rounds.over()}): the last "
            f"round lowered the objective by {rounds.fall:.3g}, but round_tol asks for at most "
            f"{rounds.least:.3g}; raise round_tol or the budget"
        )


@dataclass(eq=False, repr=False)
class LatentSVM(StructuralSVM):
    """Structural support vector machine with hidden parts.

    Parameters
    ----------
    model : models.Latent, or Chain, FactorGraph, MultiLabel, Multiclass, Binary
        All but ``models.Latent`` are wrapped in ``models.Partial``: None in Y is an unknown label.
    max_rounds : int
        Largest number of rounds. A round completes the outputs and solves a convex problem.
    round_tol : float or None
        Training ends when a round lowers the objective by no more than this, in units of the task loss
        (divided by C sum_i v_i, like the gap). None takes ``tol``; for "auto" it is a hundredth of the
        objective.
    max_passes, max_seconds : float
        Budgets of all rounds together.
    C, hinge, rescaling, solver, tol, prior, nonnegative, n_jobs, verbose
        Parameters of the convex problem of every round, as in ``StructuralSVM``.
    warm_start : bool
        Start at the weights of the last fit, in place of the model's first completions.
    random_state : int, RandomState or None
        Seed of the solver and of the first completions.

    Attributes
    ----------
    objective_path_ : array, F after every round; it never rises
    completions_ : the complete true outputs of the last convex problem.
        For chunks it is None; ``completed_at_`` then holds the weights at which the completions are best.
    history_ : dict of arrays over all rounds; ``round`` numbers them, counters and seconds run on
    certificate_ : bounds of the last convex problem; its counters and seconds cover all rounds
    coef_, model_, solver_, support_ : as in ``StructuralSVM``, from the last round
    """

    _checks: ClassVar[Checks] = StructuralSVM._checks | {
        "hinge": check_max,
        "max_rounds": whole(),
        "round_tol": positive(none=True),
    }

    _keeper: ClassVar[type[CheckpointFile]] = RoundsCheckpoint
    _scored: ClassVar[bool] = False
    _divides: ClassVar[bool] = False

    max_rounds: int = 50
    round_tol: float | None = None

    @takes_outputs
    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: Any = None,
        checkpoint_every: float = 300.0,
        resume: bool = False,
    ) -> LatentSVM:
        """Train on observed outputs y; callbacks receive the steps of every round.

        Checkpoints are as in ``StructuralSVM.fit``, but written between rounds.
        """
        kept = (checkpoint, checkpoint_every, resume)
        self._fit(Given(X, y, sample_weight, callbacks=callbacks, kept=kept))
        return self

    def _check_model(self) -> None:
        """Raise an error unless the model has hidden parts or allows unknown labels."""
        hidden = getattr(self.model, "hidden", False)
        if not hidden and not has_power(self.model, UNKNOWN_LABELS):
            kinds = ", ".join(names_with(UNKNOWN_LABELS))
            raise TypeError(
                f"LatentSVM: model must be a models.Latent, or for unknown labels one of {kinds}; "
                f"got {self.model!r}"
            )

    def _read(self, given: Given, reset: bool = True) -> Given:
        given = super()._read(given, reset)
        return given if given.model.hidden else replace(given, model=Partial(given.model))

    def _check_convex(self, given: Given) -> None:
        raise TypeError(
            "a path needs a convex problem, but that of LatentSVM is not convex; fit it once for "
            "each C"
        )

    def _solve(self, given: Given, executor: Workers | None) -> Result:
        """Alternate between choosing the hidden parts and solving the convex problem that they define."""
        rounds = rounds_of(self)

        def solve(problem: Problem, warm: Support | None) -> Result:
            return self._train(problem, warm, None, given.callbacks, rounds.left())

        file = given.checkpoint
        if file is not None and given.in_parts:
            raise ValueError(
                "checkpoint: LatentSVM cannot keep its rounds over a stream; give X and Y in memory"
            )
        posed = self._posed_parts if given.in_parts else self._posed
        first, complete, pose = posed(given, executor, rounds, solve)
        w = None if file is None else file.open(self, given, rounds)
        outputs = first() if w is None else complete(w)
        result, last = alternate(rounds, outputs, complete, pose, solve, w, file)
        self.completions_: Any = None if given.in_parts else last
        self.completed_at_: Any = last if given.in_parts else None
        self.objective_path_: np.ndarray = np.array(rounds.path)
        warn_rounds("LatentSVM", rounds)
        return result

    def _posed(self, given: Given, executor: Any, rounds: Rounds, solve: Solve) -> Posed:
        """Return functions for the first completions, the best ones at w, and the convex problem they define.

        The examples are in memory; ``_posed_parts`` does the same for a stream.
        """
        given.model.initialize(given.X, given.Y)
        weights = given.model.example_weights(given.Y, given.sample_weight)

        def pose(outputs: list[Any]) -> Problem:
            examples = self._bind(replace(given, Y=outputs), executor)
            return self._problem_of(examples, weights, self._jobs())

        first = partial(self._first_outputs, given, rounds, solve)
        return first, given.model.completer(given.X, given.Y, self._jobs()), pose

    def _posed_parts(self, given: Given, executor: Any, rounds: Rounds, solve: Solve) -> Posed:
        """Return the same functions for a stream; here the weights stand for the completions.

        Examples are completed at these weights each time they are read. The first weights are learnt from
        the first chunk.
        """
        settings, latent = self._settings(given, self._chosen()), given.model
        if isinstance(given.X, Iterator):
            raise ValueError(
                "X is an iterator, which can be read once, but each round reads the chunks again; "
                "give a list, or an iterable that can be read again"
            )
        source = Chunks(Completing(latent, self._jobs()), given.X, executor, self._jobs())
        begin = getattr(self, "coef_", None) if self.warm_start else None
        if begin is None:
            X, Y, weights = source.first
            own = replace(given, X=X, Y=Y, sample_weight=weights)
            outputs = self._first_outputs(own, rounds, solve)
            problem = self._problem_of(latent.over(X, outputs, executor), weights, self._jobs())
            begin = solve(problem, None).w

        def pose(w: np.ndarray) -> Problem:
            return StreamedProblem(Completing(latent, self._jobs(), w), source, self.C, settings)

        return lambda: begin, lambda w: w, pose

    def _optimise(
        self, past: Any, model: Any, chunk: tuple[Any, Any, np.ndarray], settings: Settings
    ) -> tuple[Any, Result, Examples]:
        """Run rounds over the hidden parts of a chunk; the hidden parts of earlier chunks do not change."""
        X, Y, weights = chunk
        weights = model.example_weights(Y, weights)
        rounds = Rounds(self.max_rounds, self.max_passes, self.max_seconds, 0.0)
        own = Given(X, Y, weights, model=model)

        def solve(problem: Problem, warm: Support | None) -> Result:
            return train(problem, settings.solver, **settings.options)

        binder, complete = Completing(model, self._jobs()), model.completer(X, Y, self._jobs())
        first = past is None
        outputs = self._first_outputs(own, rounds, solve) if first else complete(self.coef_)
        value = np.inf
        for _ in range(self.max_rounds):
            trained = super()._optimise(past, binder, (X, outputs, weights), settings)
            certificate, before = trained[1].certificate, outputs
            outputs = complete(trained[1].w)
            enough = certificate.tol if self.round_tol is None else self.round_tol
            fall, value = value - certificate.primal, certificate.primal
            if not changed(before, outputs).any() or fall <= enough * self.C * weights.sum():
                break
        self.completions_, self.completed_at_ = None, trained[1].w
        return trained

    def _first_outputs(self, given: Given, rounds: Rounds, solve: Solve) -> list[Any]:
        """The first complete outputs: the model's, or the best ones at the weights of a warm start.

        If some labels are unknown, the outputs are completed at weights learnt from the known labels alone.
        """
        model: Latent = given.model
        begin = getattr(self, "coef_", None) if self.warm_start else None
        if begin is None and model.learns_from_known:
            begin = weights_of_known(self, given, rounds, solve)
        if begin is None:
            return model.begin(given.X, given.Y, self._seed())
        check_begin(begin, model)
        return model.completions(given.X, given.Y, begin, self._jobs())

    def _example_weights(self, y: Any, sample_weight: Any) -> Any:
        """v_i of the objective; an example without known labels has weight 0."""
        return self.model_.example_weights(y, sample_weight)

    def _bind(self, given: Given, executor: Workers | None = None) -> Examples:
        """Bind the model to complete outputs."""
        if given.node_weight is not None:
            raise ValueError("node_weight must be None for a model with hidden parts")
        return given.model.over(self._converted(given), given.Y, executor)

    def _examples_at(self, X: Any, Y: Any, node_weight: Any, w: np.ndarray | None) -> Examples:
        """Bind the model to data with the best completions at w.

        Without w, the completions are those of the last convex problem.
        """
        if w is None and self.completions_ is None:
            if self.model_.own:
                raise ValueError(
                    "the planes of a model in Python belong to completions of chunks, which were "
                    "not kept; fit the data in memory"
                )
            w = self.completed_at_
        if w is None and len(Y) != len(self.completions_):
            raise ValueError(f"the fit had {len(self.completions_)} examples, but Y has {len(Y)}")
        Y = self.completions_ if w is None else self.model_.completions(X, Y, w, self._jobs())
        return super()._examples_at(X, Y, node_weight, w)

    def _workers(self, model: Any) -> AbstractContextManager[Workers | None]:
        """Workers for a model written by the user."""
        return super()._workers(model.model if model.own else model)

    def predict(self, X: Any, constraints: Any = None, fixed: Any = None) -> Sequence[Any]:
        """Return the observed part of the best output of every example."""
        for name, value in (("constraints", constraints), ("fixed", fixed)):
            if value is not None:
                raise ValueError(f"{name} must be None for a model with hidden parts")
        outputs = self.predict_complete(X)
        return self.model_.observed(outputs)

    def _bound(self, X: Any, Y: Any = None) -> Any:
        raise ValueError("models with hidden parts have no scores, margins or marginals of labels")

    def predict_complete(self, X: Any) -> Sequence[Any]:
        """Return the best output of every example with its hidden part; for Multiclass the part's number."""
        return super().predict(X)

    @takes_outputs
    def loss(self, X: Any, y: Any) -> float:
        """Mean task loss of ``predict(X)``."""
        check_is_fitted(self, "coef_")
        if not self.model_.own:
            return super().loss(X, y)
        X, Y = examples_of(X, y)
        true = self.model_.completions(X, Y, self.coef_, self._jobs())
        pairs = zip(true, self.predict_complete(X), strict=True)
        return float(np.mean([self.model_.loss(z, z_hat) for z, z_hat in pairs]))
