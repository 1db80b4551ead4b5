"""CRF: conditional random fields, any model whose outputs can be summed over, in the style of scikit-learn.

p(y | x) = exp(<w, Psi(x, y)>) / Z(x)
P(w) = 1/2 |w|^2 - C sum_i v_i log p(y_i | x_i)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxmargin.callbacks import Callback
from maxmargin.data.arrays import among, check_whole, seed_of
from maxmargin.data.labels import Outputs
from maxmargin.estimators.base import CHECKS, Checks, Given
from maxmargin.estimators.structural import Structured
from maxmargin.formulation import SOFT
from maxmargin.models.examples import NO_SUMS
from maxmargin.models.protocol import Model
from maxmargin.problem import Formulation


@dataclass(eq=False, repr=False)
class CRF(Structured):
    """Conditional random field.

    Minimises P(w) = 1/2 |w|^2 + C sum_i v_i xi_i(w), with xi_i(w) = - log p(y_i | x_i) and p(y | x) as
    exp(<w, Psi(x, y)>), until the gap between P(w) and a dual bound D(a) is small enough.

    Parameters
    ----------
    model : models.Chain, Multiclass, Binary or Grammar, FactorGraph or MultiLabel whose graphs are forests
        Without a kernel, and without unknown labels.
    C : float
        Weight of the risk. C is 1 / (lambda n) of a mean with lambda/2 |w|^2, and 1 / (2 c2) of CRFsuite's
        c2.
    formulation : "log", as above, or "softmax-margin"
        The latter has the task loss in the exponent, xi_i(w) = log sum_y exp(Delta(y_i, y) + <w, psi_i(y)>).
    solver : str or solvers.Solver
        "auto": "exponentiated", a block dual ascent, for chains and classes unless C or memory is too large,
        else "lbfgs"; or an instance with options.
    tol : float or "auto"
        Wanted gap. A number is in nats per example (weighted: per unit of C sum_i v_i); "auto" is a hundredth
        of the primal, and where C is small a tenth of what can be learnt.
    max_passes, max_seconds : float
        Budgets; a pass is n sums over all outputs.
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
    """

    checks: ClassVar[Checks] = CHECKS | {"formulation": among(*SOFT)}
    scored: ClassVar[bool] = True

    model: Any
    C: float = 1.0
    formulation: str = "log"
    solver: Any = "auto"
    tol: float | str = "auto"
    max_passes: float = 1000
    max_seconds: float | None = None
    prior: Any = None
    warm_start: bool = False
    n_jobs: Any = None
    random_state: Any = None
    verbose: int = 0

    def fit(
        self,
        X: Any,
        Y: Any,
        sample_weight: Any = None,
        node_weight: Any = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: Any = None,
        checkpoint_every: float = 300.0,
        resume: bool = False,
    ) -> CRF:
        """Train; parameters as in ``StructuralSVM.fit``.

        ``node_weight`` is a factor on the loss of each position: for formulation="softmax-margin" alone.
        """
        if node_weight is not None and not self._formulation().augmented:
            raise ValueError(
                "node_weight weighs the task loss, which formulation='log' does not have; use "
                "'softmax-margin', or sample_weight for whole examples"
            )
        self._fit(
            Given(
                X,
                Y,
                sample_weight,
                node_weight,
                callbacks=callbacks,
                checkpoint=checkpoint,
                checkpoint_every=checkpoint_every,
                resume=resume,
            )
        )
        return self

    def check_model(self) -> None:
        """Refuse a model written in Python too: nobody sums over its outputs."""
        super().check_model()
        if not isinstance(self.model, Model):
            kind = type(self.model).__name__
            raise TypeError(f"CRF: model {kind} is one of your own; {NO_SUMS}")

    @property
    def hinge(self) -> str:  # type: ignore[override]
        """What takes the place of a hinge."""
        return self.formulation

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the labels: ``predict_marginals``; of ``MultiLabel`` p(on), (n, L)."""
        return self._probabilities(self.predict_marginals(X))

    def log_likelihood(self, X: Any, Y: Any) -> np.ndarray:
        """log p(y | x) of every example."""
        examples: Any = self._bound(X, Y).under(Formulation("log"))
        return -examples.log_sums(np.ascontiguousarray(self.coef_), self._jobs())

    def sample(self, X: Any, n: int = 1, random_state: Any = None) -> list[list[Any]]:
        """n outputs of every example, drawn from p(y | x), a list for each."""
        check_whole("n", n)
        examples: Any = self._bound(X)
        seed = seed_of(random_state)
        draws = examples.draw(np.ascontiguousarray(self.coef_), int(n), seed, self._jobs())
        return [list(own) for own in zip(*draws, strict=True)]

    def predict_minimum_risk(self, X: Any) -> Any:
        """For each node the label of the least expected cost, by its marginals; for chains and classes.

        For losses that count mistakes it is the most likely label of each node, where ``predict`` has the
        most likely output as a whole. Neighbouring labels may be such that ``transitions`` forbids them.
        """
        cost = getattr(self.model_, "cost_", None)
        if cost is None or not hasattr(self.model_, "classes_"):
            raise ValueError(
                "predict_minimum_risk: the model must be a Chain, Multiclass or Binary"
            )
        beliefs = self._node_beliefs(X)[0](1.0)
        p = np.exp(beliefs.log_marginals()).reshape(-1, len(self.model_.classes_))
        # Of one cost for each true label l: sum_l p(l) cost(l) less what the right one saves.
        risk = p @ cost if np.ndim(cost) == 2 else -p * cost
        labels = self.model_.classes_[risk.argmin(axis=1)]
        if self._flat:
            return labels
        return Outputs(np.split(labels, beliefs.nodes[1:-1]), getattr(X, "ndim", 1) > 1)
