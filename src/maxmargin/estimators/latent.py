"""LatentSVM: structural support vector machines with hidden parts, by the concave-convex procedure.

    F(w) = R(w) + C sum_i v_i ( max_{y, h} [ Delta(y_i, y) + <w, Psi(x_i, y, h)> ]
                                - max_h <w, Psi(x_i, y_i, h)> )

F is not convex: the second maximum has a minus. Replaced by the value of any one h_i it gives a convex
problem P(w; h) >= F(w), with equality where h_i is the best completion at w. Hence a round,

    1.  h_i = argmax_h <w, Psi(x_i, y_i, h)>       P(w; h) = F(w)
    2.  w' = a solution of P(.; h)                 F(w') <= P(w'; h) <= P(w; h) = F(w)

never raises F. It is stopped when it lowers F by too little. The certificate is that of the last convex
problem; nobody knows how far F is from its least value.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from maxmargin.callbacks import Callback
from maxmargin.estimators.base import (
    check_positive,
    plain_outputs,
    plain_sequence,
    seed_of,
)
from maxmargin.estimators.structural import StructuralSVM
from maxmargin.models.checks import check_lengths
from maxmargin.models.examples import Examples
from maxmargin.models.latent import Latent
from maxmargin.models.planes import PlaneExamples
from maxmargin.problem import Certificate, Problem, Status, Support, gap_between
from maxmargin.runtime.executor import Workers, count_jobs
from maxmargin.train import Result


class LatentSVM(StructuralSVM):
    """Structural support vector machine with hidden parts.

    Parameters
    ----------
    model : models.Latent
    max_rounds : int
        Completions and convex problems, at most.
    round_tol : float or None
        Training ends when a round lowers the objective by no more than this, in units of the task loss
        (divided by C sum_i v_i, like the gap). None: as ``tol``.
    max_passes, max_seconds : float
        Budgets of all rounds together.
    C, hinge, rescaling, solver, tol, prior, nonnegative, n_jobs, verbose
        Of the convex problem of every round, as in ``StructuralSVM``.
    warm_start : bool
        Begin at the weights of the last fit, in place of the model's first completions.
    random_state : int, RandomState or None
        Also of the first completions.

    Attributes
    ----------
    objective_path_ : array, F after every round; it never rises
    completions_ : the complete true outputs of the last convex problem
    history_ : dict of arrays over all rounds; ``round`` numbers them, counters and seconds run on
    certificate_ : bounds of the last convex problem; its counters and seconds are those of all rounds
    coef_, model_, solver_, support_ : as in ``StructuralSVM``, of the last round
    """

    def __init__(
        self,
        model: Any,
        C: float = 1.0,
        hinge: str = "max",
        rescaling: str = "margin",
        solver: Any = "auto",
        tol: float = 1e-3,
        max_passes: float = 1000,
        max_seconds: float | None = None,
        prior: Any = None,
        nonnegative: Any = None,
        warm_start: bool = False,
        n_jobs: Any = None,
        random_state: Any = None,
        verbose: int = 0,
        max_rounds: int = 50,
        round_tol: float | None = None,
    ):
        super().__init__(
            model,
            C=C,
            hinge=hinge,
            rescaling=rescaling,
            solver=solver,
            tol=tol,
            max_passes=max_passes,
            max_seconds=max_seconds,
            prior=prior,
            nonnegative=nonnegative,
            warm_start=warm_start,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.max_rounds = max_rounds
        self.round_tol = round_tol

    def fit(  # type: ignore[override]
        self, X: Any, Y: Any, sample_weight: Any = None, callbacks: Sequence[Callback] = ()
    ) -> LatentSVM:
        """Train on observed outputs Y; callbacks are told of the steps of every round."""
        self._check_shared()
        if self.hinge != "max":
            raise ValueError(
                f"LatentSVM: hinge must be 'max', got {self.hinge!r}; StructuralSVM takes 'sum'"
            )
        if isinstance(self.max_rounds, bool) or not isinstance(self.max_rounds, int | np.integer):
            raise ValueError(f"max_rounds must be a whole number, got {self.max_rounds!r}")
        check_positive("max_rounds", self.max_rounds)
        check_positive("round_tol", self.round_tol, none=True)
        if not isinstance(self.model, Latent):
            raise TypeError(f"LatentSVM: model must be a models.Latent, got {self.model!r}")
        X, Y = plain_sequence(X), plain_outputs(Y)
        check_lengths(X, Y)
        model = clone(self.model)
        model.initialize(X, Y)
        begin = getattr(self, "coef_", None) if self.warm_start else None
        if begin is None:
            outputs = model.begin(X, Y, seed_of(self.random_state))
        else:
            if len(begin) != model.size_joint_feature:
                raise ValueError(
                    f"warm_start: the last fit had {len(begin)} weights, now there are "
                    f"{model.size_joint_feature}; set warm_start=False"
                )
            outputs = model.completions(X, Y, begin)
        with self._executor(model) as executor:
            self._alternate(model, X, Y, outputs, (sample_weight, callbacks, executor))
        return self

    def _alternate(self, model: Latent, X: Any, Y: Any, outputs: list, settings: tuple) -> None:
        """Rounds until one lowers the objective by too little, or a budget ends."""
        sample_weight, callbacks, executor = settings
        rounds = Rounds(self.max_rounds, self.max_passes, self.max_seconds)
        w: np.ndarray | None = None
        warm: Support | None = None
        least, enough, fall = self.tol if self.round_tol is None else self.round_tol, False, np.inf
        while not enough and not rounds.over():
            problem = self._problem(model, X, outputs, sample_weight, executor)
            result = self._train(problem, warm, callbacks=callbacks, budget=rounds.left())
            if rounds.path and result.certificate.primal > rounds.path[-1]:
                # No better than what it began with, within tol: P(w; h) of the last w is F(w).
                assert w is not None
                result = kept(result, w, rounds.path[-1], problem)
            w = result.w
            following = model.completions(X, Y, w)
            again = self._problem(model, X, following, sample_weight, executor)
            moved = changed(outputs, following)
            fall = rounds.note(result, again.objective(w), problem)
            # The user had enough, or numbers overflowed.
            ended = result.status in (Status.INTERRUPTED, Status.STOPPED, Status.NUMERICAL)
            enough = ended or not moved.any() or fall <= least
            self._keep(replace(result, certificate=rounds.told(result.certificate)))
            self.completions_, outputs = outputs, following
            if result.resumable:
                warm = carried(problem, result.support, moved)
        assert w is not None
        self.adopt(model, w)
        self.history_ = rounds.history()
        self.objective_path_, self.weighted_nodes_ = np.array(rounds.path), False
        if not enough:
            warnings.warn(
                f"LatentSVM: not converged after {len(rounds.path)} rounds ({rounds.over()}): the last round "
                f"lowered the objective by {fall:.3g}, round_tol {least:.3g}; raise it, or the budget",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _problem(
        self, model: Latent, X: Any, outputs: list, sample_weight: Any, executor: Any = None
    ) -> Problem:
        """The convex problem of some completions."""
        examples = model.over(X, outputs, executor)
        return self.problem_of(examples, sample_weight, count_jobs(self.n_jobs))

    def examples_at(self, X: Any, Y: Any, node_weight: Any, w: np.ndarray | None) -> Examples:
        """With the best completions at w; without w, with those of the last convex problem."""
        if node_weight is not None:
            raise ValueError("node_weight: a model with hidden parts takes none")
        if w is None:
            if len(Y) != len(self.completions_):
                raise ValueError(
                    f"the fit had {len(self.completions_)} examples, but Y has {len(Y)}"
                )
            return self.model_.over(X, self.completions_)
        return self.model_.over(X, self.model_.completions(X, Y, w))

    def _executor(self, model: Any) -> AbstractContextManager[Workers | None]:
        """Workers for an own model."""
        return super()._executor(model.inner_)

    def predict(self, X: Any, constraints: Any = None) -> Sequence[Any]:
        """The observed part of the best output of every example."""
        if constraints is not None:
            raise ValueError("constraints: models with hidden parts take none")
        outputs = self.predict_complete(X)
        return self.model_.observed(outputs)

    def predict_complete(self, X: Any) -> Sequence[Any]:
        """The best output of every example with its hidden part; for Multiclass the number of the part."""
        check_is_fitted(self, "coef_")
        with self._executor(self.model_) as executor:
            examples = self.model_.over(plain_sequence(X), None, executor)
            return examples.predict(self.coef_, count_jobs(self.n_jobs))

    def loss(self, X: Any, Y: Any) -> float:
        """Mean task loss of ``predict(X)``."""
        check_is_fitted(self, "coef_")
        if not self.model_.own:
            return super().loss(X, Y)
        X, Y = plain_sequence(X), plain_outputs(Y)
        check_lengths(X, Y)
        pairs = zip(
            self.model_.completions(X, Y, self.coef_), self.predict_complete(X), strict=True
        )
        return float(np.mean([self.model_.loss(z, z_hat) for z, z_hat in pairs]))


@dataclass
class Rounds:
    """What the rounds have cost and reached so far."""

    max_rounds: int
    max_passes: float
    max_seconds: float | None
    path: list[float] = field(default_factory=list)  # F after every round
    parts: list[dict[str, np.ndarray]] = field(default_factory=list)  # their histories
    passes: float = 0.0
    oracle_calls: int = 0
    began: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """Since the first round began."""
        return time.perf_counter() - self.began

    def left(self) -> dict[str, float | None]:
        """The budgets of the next round."""
        seconds = None if self.max_seconds is None else max(self.max_seconds - self.seconds, 1e-9)
        return {"max_passes": self.max_passes - self.passes, "max_seconds": seconds}

    def over(self) -> str:
        """Which budget has ended, if one has."""
        if len(self.path) >= self.max_rounds:
            return f"max_rounds={self.max_rounds}"
        if self.path and self.passes >= self.max_passes:
            return f"max_passes={self.max_passes}"
        if self.path and self.max_seconds is not None and self.seconds >= self.max_seconds:
            return f"max_seconds={self.max_seconds}"
        return ""

    def note(self, result: Result, value: float, problem: Problem) -> float:
        """Take over a round that ended at F = value; by how much it lowered F, in units of the task loss."""
        part = result.history.arrays()
        spent = {"passes": self.passes, "oracle_calls": self.oracle_calls}
        spent["seconds"] = self.seconds - result.certificate.seconds
        for name, before in spent.items():
            part[name] = part[name] + before
        part["round"] = np.full(len(part["gap"]), float(len(self.path)))
        self.parts.append(part)
        self.passes += (
            result.certificate.passes + 1
        )  # F takes an exact pass with the new completions
        self.oracle_calls += result.certificate.oracle_calls + problem.n_blocks
        fall = np.inf if not self.path else (self.path[-1] - value) / problem.total
        self.path.append(value)
        return float(fall)

    def told(self, certificate: Certificate) -> Certificate:
        """The certificate of the last round, with the counters of all."""
        return replace(
            certificate, passes=self.passes, oracle_calls=self.oracle_calls, seconds=self.seconds
        )

    def history(self) -> dict[str, np.ndarray]:
        """One table of all rounds."""
        return {name: np.concatenate([part[name] for part in self.parts]) for name in self.parts[0]}


def changed(before: list, after: list) -> np.ndarray:
    """Which completions differ."""
    return np.array([not np.array_equal(a, b) for a, b in zip(before, after, strict=True)])


def kept(result: Result, w: np.ndarray, primal: float, problem: Problem) -> Result:
    """The result with a better w that was known."""
    gap = gap_between(primal, result.certificate.dual, problem.total)
    converged = gap <= result.certificate.tol and result.certificate.exact
    certificate = replace(result.certificate, primal=primal, gap=gap, converged=converged)
    return replace(result, w=w, certificate=certificate)


def carried(problem: Problem, support: Support, moved: np.ndarray) -> Support:
    """Multipliers for the next completions.

    Outputs mean the same whatever the true output is. Planes are differences to it: where it moved, the
    block starts anew.
    """
    if not isinstance(problem.examples, PlaneExamples):
        return support
    stay = ~moved[support.blocks]
    empty = (0.0, (np.empty(0, np.int32), np.empty(0)))
    anew = np.flatnonzero(moved & (problem.mass > 0))
    return Support(
        np.concatenate([support.blocks[stay], anew]),
        np.concatenate([support.multipliers[stay], problem.mass[anew]]),
        [plane for plane, keep in zip(support.outputs, stay, strict=True) if keep]
        + [empty] * len(anew),
    )
