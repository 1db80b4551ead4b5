"""CRF: conditional random fields, in the style of scikit-learn, for any model that can sum over its outputs.

p(y | x) = exp(<w, Psi(x, y)>) / Z(x)
P(w) = 1/2 |w|^2 - C sum_i v_i log p(y_i | x_i)

If labels of y_i are unknown, p(y_i | x_i) is the probability of the known labels, a sum over all
completions. P is then not convex; the rounds of ``maxmargin.cccp`` lower it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from maxmargin.callbacks import Callback
from maxmargin.cccp import Rounds, alternate
from maxmargin.checkpoint import RoundsCheckpoint
from maxmargin.data.arrays import among, positive, seed_of, takes_outputs, whole
from maxmargin.data.labels import Outputs
from maxmargin.estimators.base import CHECKS, Checks, Given
from maxmargin.estimators.flat import FlatClassifier
from maxmargin.estimators.latent import (
    check_begin,
    rounds_of,
    warn_rounds,
    weights_of_known,
)
from maxmargin.estimators.structural import Structured
from maxmargin.formulation import SOFT
from maxmargin.models.binary import Binary
from maxmargin.models.examples import NO_SUMS, Examples
from maxmargin.models.flat import FlatModel
from maxmargin.models.multiclass import Multiclass
from maxmargin.models.partial import Partial, known_weights, lacks_labels
from maxmargin.models.protocol import Model
from maxmargin.models.registry import POTENTIALS, UNKNOWN_LABELS, has_power
from maxmargin.problem import Formulation, Problem, Support
from maxmargin.problem.plane import DISTRIBUTIONS
from maxmargin.result import Result
from maxmargin.runtime.executor import Workers
from maxmargin.solvers.exponentiated import TRUE_POTENTIAL


@dataclass(eq=False, repr=False)
class CRF(Structured):
    """Conditional random field.

    Minimises P(w) = 1/2 |w|^2 + C sum_i v_i xi_i(w), with xi_i(w) = - log p(y_i | x_i) and p(y | x)
    proportional to exp(<w, Psi(x, y)>). Training ends when the gap between P(w) and a dual bound D(a) is
    small enough.

    Parameters
    ----------
    model : models.Chain, Multiclass, Binary or Grammar, FactorGraph or MultiLabel whose graphs are forests
        Without a kernel. None in Y is an unknown label, as for ``LatentSVM``; not for Grammar.
    C : float
        Weight of the risk. A mean loss plus lambda/2 |w|^2 has C = 1 / (lambda n); CRFsuite's c2 has
        C = 1 / (2 c2).
    formulation : "log", as above, or "softmax-margin"
        "softmax-margin" puts the task loss into the exponent, xi_i(w) = log sum_y exp(Delta(y_i, y) + <w,
        psi_i(y)>).
    solver : str or solvers.Solver
        A name or an instance with options. "auto" takes "exponentiated", a block dual ascent, for chains and
        classes, and "lbfgs" for other models or if C or memory is too large.
    tol : float or "auto"
        Wanted gap. A number is in nats per example (weighted: per unit of C sum_i v_i). "auto" is a
        hundredth of the primal; for small C it is a tenth of what can be learnt.
    max_passes, max_seconds : float
        Budgets; a pass is n sums over all outputs.
    max_rounds, round_tol : int; float or None
        Limits of the rounds for unknown labels, as in ``LatentSVM``.
    prior : (mean, scale) or None
        As in ``StructuralSVM``; its scales must be finite.
    warm_start : bool
        Start the next fit from the distributions of the last one (same examples; C may change).
    n_jobs : int or None
        Threads.
    random_state : int, RandomState or None
    verbose : int
        1: a progress line on stderr; 2: through the logger "maxmargin".

    Attributes
    ----------
    coef_, certificate_, history_, model_, classes_, solver_ : as in ``StructuralSVM``
    support_ : the distributions of the dual bound, for ``certify`` and ``warm_start``
    objective_path_ : array, the objective after every round if labels are unknown, else None.
        It never rises. With unknown labels, ``certificate_`` bounds the last convex problem, whose
        completions have their probabilities at ``completed_at_``. Counters, seconds and ``history_`` cover
        all rounds.
    """

    _checks: ClassVar[Checks] = CHECKS | {
        "formulation": among(*SOFT),
        "max_rounds": whole(),
        "round_tol": positive(none=True),
    }
    _scored: ClassVar[bool] = True

    model: Any
    C: float = 1.0
    formulation: str = "log"
    solver: Any = "auto"
    tol: float | str = "auto"
    max_passes: float = 1000
    max_seconds: float | None = None
    max_rounds: int = 50
    round_tol: float | None = None
    prior: Any = None
    warm_start: bool = False
    n_jobs: Any = None
    random_state: Any = None
    verbose: int = 0

    @takes_outputs
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        node_weight: Any = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: Any = None,
        checkpoint_every: float = 300.0,
        resume: bool = False,
    ) -> CRF:
        """Train; parameters as in ``StructuralSVM.fit``.

        ``node_weight`` is a factor on the loss of each position, for formulation="softmax-margin" only.
        """
        if node_weight is not None and not self._formulation().augmented:
            raise ValueError(
                "node_weight weighs the task loss, but formulation='log' has none; use "
                "formulation='softmax-margin', or sample_weight for whole examples"
            )
        kept = (checkpoint, checkpoint_every, resume)
        self._fit(Given(X, y, sample_weight, node_weight, callbacks=callbacks, kept=kept))
        return self

    def _check_model(self) -> None:
        """Also raise an error for a model written in Python: it cannot sum over its outputs."""
        super()._check_model()
        if not isinstance(self.model, Model):
            kind = type(self.model).__name__
            raise TypeError(f"CRF: model {kind} is written in Python; {NO_SUMS}")

    @property
    def hinge(self) -> str:  # type: ignore[override]
        """The formulation, which takes the place of a hinge."""
        return self.formulation

    # Unknown labels

    def _read(self, given: Given, reset: bool = True) -> Given:
        given = super()._read(given, reset)
        able = has_power(given.model, UNKNOWN_LABELS) and not given.in_parts
        return (
            replace(given, model=Partial(given.model)) if able and lacks_labels(given.Y) else given
        )

    def _check_convex(self, given: Given) -> None:
        if given.model.hidden and not given.model.model.flat:
            raise ValueError(
                "a path needs a convex problem, but unknown labels make it nonconvex; fit CRF "
                "once for each C, with warm_start=True"
            )

    def _adopt(self, model: Any, w: np.ndarray) -> None:
        super()._adopt(model.inner_ if model.hidden else model, w)

    def _example_weights(self, y: Any, sample_weight: Any) -> Any:
        """v_i of the objective; an example without known labels has weight 0."""
        return known_weights(y, sample_weight) if lacks_labels(y) else sample_weight

    def _bind(self, given: Given, executor: Workers | None = None) -> Examples:
        model = given.model
        able = model.hidden or has_power(model, UNKNOWN_LABELS)
        if given.Y is None or not able or not lacks_labels(given.Y):
            return super()._bind(given, executor)
        partial = model if model.hidden else Partial.over_fitted(model)
        return partial.summed(given.X, given.Y, given.node_weight)

    def _examples_at(self, X: Any, Y: Any, node_weight: Any, w: np.ndarray | None) -> Examples:
        """Bind the model to data, with the tangents at w or, without w, at ``completed_at_``."""
        examples = super()._examples_at(X, Y, node_weight, w)
        at = self.completed_at_ if w is None else w
        if examples.soft_truth is not None and at is not None:
            examples.soft_truth = replace(examples.soft_truth, at=at)
        return examples

    def _agreement(self, i: int, y: Any, y_hat: Any) -> tuple[float, float]:
        if has_power(self.model_, UNKNOWN_LABELS) and lacks_labels([y]):
            return Partial.over_fitted(self.model_).agreement(y, y_hat)
        return super()._agreement(i, y, y_hat)

    def _judge(self, Y: Any) -> Any:
        """The model that compares outputs, at known labels only if some are unknown."""
        return Partial.over_fitted(self.model_) if lacks_labels(Y) else self.model_

    def _solve(self, given: Given, executor: Workers | None) -> Result:
        self.completed_at_: np.ndarray | None = None
        self.objective_path_: np.ndarray | None = None
        # If an output is one label, an example with an unknown label has weight 0 and the problem is convex.
        if not given.model.hidden or given.model.model.flat:
            return super()._solve(given, executor)
        rounds = rounds_of(self)
        result = self._alternate(given, rounds)
        self.objective_path_ = np.array(rounds.path)
        warn_rounds("CRF", rounds)
        return result

    def _alternate(self, given: Given, rounds: Rounds) -> Result:
        """Alternate between the distributions of completions at w and the convex problem that they define."""
        given.model.initialize(given.X, given.Y)
        examples = self._bind(given).under(self._formulation())
        weights = self._example_weights(given.Y, given.sample_weight)

        def pose(u: np.ndarray) -> Problem:
            own = copy.copy(examples)
            own.soft_truth = replace(examples.soft_truth, at=np.ascontiguousarray(u))
            return self._problem_of(own, weights, self._jobs())

        def solve(problem: Problem, warm: Support | None) -> Result:
            warm = self._first(problem) if warm is None else warm
            return self._train(problem, warm, None, given.callbacks, rounds.left())

        file = given.checkpoint
        if file is not None:
            file = RoundsCheckpoint(file.path, file.every, file.resume)
        w = begin = None if file is None else file.open(self, given, rounds)
        if begin is None:
            begin = getattr(self, "coef_", None) if self.warm_start else None
        if begin is None:
            begin = weights_of_known(self, given, rounds, solve)
        check_begin(begin, given.model)
        first = begin, lambda w: w, pose, solve, w, file, self._warm()
        result, self.completed_at_ = alternate(rounds, *first)
        return result

    def _first(self, problem: Problem) -> Support | None:
        """Distributions to start with: near the distributions of the completions, or at the same weights."""
        truth, solver = problem.examples.soft_truth, self._chosen(problem)
        if truth is None or DISTRIBUTIONS not in solver.continues_from:
            return None
        by_potentials = POTENTIALS in solver.needs
        outputs = truth.potentials(TRUE_POTENTIAL, self._jobs()) if by_potentials else truth.at
        return Support(np.arange(problem.n_blocks), problem.mass, outputs, kind=DISTRIBUTIONS)

    def predict_proba(self, X: Any) -> Any:
        """Return label probabilities, ``predict_marginals``; for ``MultiLabel`` p(on), (n, L)."""
        return self._probabilities(self.predict_marginals(X))

    @takes_outputs
    def log_likelihood(self, X: Any, y: Any) -> np.ndarray:
        """Return log p(y | x) of every example, or of its known labels if some are unknown."""
        examples: Any = self._bound(X, y).under(Formulation("log"))
        w = np.ascontiguousarray(self.coef_)
        logs = -examples.log_sums(w, self._jobs())
        if examples.soft_truth is None:
            return logs
        return logs + examples.soft_truth.log_sums(w, self._jobs())

    def sample(self, X: Any, n: int = 1, random_state: Any = None) -> list[list[Any]]:
        """Draw n outputs of every example from p(y | x); return a list for each example."""
        whole().check("n", n)
        examples: Any = self._bound(X)
        seed = seed_of(random_state)
        draws = examples.draw(np.ascontiguousarray(self.coef_), int(n), seed, self._jobs())
        return [list(own) for own in zip(*draws, strict=True)]

    def predict_minimum_risk(self, X: Any) -> Any:
        """Return for each node the label of least expected cost under its marginals; not for ``Grammar``.

        For losses that count mistakes this is the most likely label of each node, whereas ``predict``
        returns the most likely output as a whole. Neighbouring labels may be a pair that ``transitions``
        forbids.
        """
        examples: Any = self._bound(X)
        # A list if nodes are of several kinds.
        costs = getattr(self.model_, "costs_", getattr(self.model_, "cost_", None))
        if costs is None:
            raise ValueError(
                f"predict_minimum_risk: model {type(self.model_).__name__} has no nodes with "
                "labels; use predict"
            )
        beliefs = examples.beliefs(self.coef_, 1.0, self._jobs())
        kinds = len(beliefs.classes)
        found = beliefs.least_risk(costs if isinstance(costs, list) else [costs] * kinds)
        outputs = examples.decode_nodes(found)
        even = getattr(X, "ndim", 1) > 1
        return Outputs(outputs, even) if isinstance(outputs, list) else outputs


@dataclass(eq=False, repr=False)
class MulticlassLogistic(FlatClassifier):
    """Logistic regression.

    Minimises 1/2 |W|^2 - C sum_i v_i log p(y_i | x_i), with p(y | x) proportional to exp(<w_y, x>). For two
    classes there is one vector w, and p(second | x) = 1 / (1 + exp(-<w, x>)). C has the same scale as in
    scikit-learn's LogisticRegression. The intercept is the weight of a constant feature 1, regularised like
    the rest.

    Parameters
    ----------
    C : float
    fit_intercept : bool
    class_weight : dict, "balanced" or None
    solver, tol, max_passes, max_seconds, warm_start, n_jobs, random_state, verbose
        As in ``CRF``. A problem of at most 10,000 examples x features x classes is solved to rounding error,
        whatever tol, if that takes at most 300 passes more.

    Attributes
    ----------
    coef_ : array of shape (K, d), (1, d) for two classes;  intercept_ : of shape (K,), (1,) for two classes
    classes_ : array of shape (K,)
    certificate_, history_, solver_, support_ : as in ``CRF``
    """

    hinge: ClassVar[str] = "log"  # type: ignore[misc]

    C: float = 1.0
    fit_intercept: bool = True
    class_weight: Any = None
    solver: Any = "auto"
    tol: float | str = "auto"
    max_passes: float = 1000
    max_seconds: float | None = None
    warm_start: bool = False
    n_jobs: Any = None
    random_state: Any = None
    verbose: int = 0

    def _make_model(self, labels: np.ndarray | None) -> FlatModel:
        two = labels is not None and len(np.unique(labels)) == 2
        return Binary(bias=self._bias) if two else Multiclass(bias=self._bias)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return p(y | x), (n, K), in the order of ``classes_``."""
        return self.predict_marginals(X)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return log p(y | x), (n, K)."""
        beliefs = self._node_beliefs(X)[0](self._temperature(None))
        return self._by_examples(beliefs.split(beliefs.log_marginals()))
