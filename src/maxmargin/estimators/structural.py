"""StructuralSVM: an estimator for any structured model, in the style of scikit-learn."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from maxmargin.callbacks import Callback
from maxmargin.data.arrays import (
    FINITE,
    check_weights,
    examples_of,
    plain_sequence,
    takes_outputs,
    whole,
)
from maxmargin.data.labels import Outputs, is_masked
from maxmargin.data.table import Table
from maxmargin.estimators.base import Given
from maxmargin.estimators.confidence import ConfidentSVM
from maxmargin.estimators.inspection import Inspection
from maxmargin.estimators.pruning import Pruning
from maxmargin.models.checks import lent
from maxmargin.models.examples import Examples
from maxmargin.models.protocol import Model, check_protocol
from maxmargin.parts.fit import streams

MOST_BEST = 2**31 - 1  # largest k of ``predict_k_best``; no machine holds more outputs


def one_by_one(X: Any) -> Any:
    """Iterate over examples; a sparse matrix gives its rows."""
    return (X.tocsr()[i : i + 1] for i in range(X.shape[0])) if sp.issparse(X) else X


class Structured(ConfidentSVM, Inspection):
    """Base class of the estimators of structured models: prediction and scores."""

    model_: Any
    coef_: np.ndarray
    pruning_: Pruning

    _lone: ClassVar[dict[str, str]] = {
        "tagging": "all labels are predicted to be {} (others may need more weight)"
    }
    # Whether ``decision_function`` exists; predictions with hidden parts have no score.
    _scored: ClassVar[bool] = True

    model: Any

    def _check_model(self) -> None:
        """Reject models with hidden parts, and objects that are not models."""
        if isinstance(self.model, type):
            raise TypeError(f"model: give an instance, {self.model.__name__}(), not the class")
        if getattr(self.model, "hidden", False):
            raise TypeError("model Latent has hidden parts; fit it with maxmargin.LatentSVM")
        if not isinstance(self.model, Model):
            check_protocol(self.model)

    def _read(self, given: Given, reset: bool = True) -> Given:
        self._check_model()
        in_parts = streams(self.solver, self.model, given.X, given.Y, given.node_weight)
        given = replace(given, in_parts=in_parts, model=clone(self.model, safe=False))
        if in_parts and given.Y is None:
            return given
        X, Y = examples_of(given.X, given.Y)
        model = given.model if reset else self.model_
        if isinstance(model, Model) and not in_parts:
            X = model.convert(X, self._jobs())  # converts attributes once
        return replace(given, X=X, Y=Y)

    @staticmethod
    def _params_of(model: Any) -> dict[str, Any]:
        return {"model": model}

    def _adopt(self, model: Any, w: np.ndarray) -> None:
        """Set ``model_``, ``coef_`` and, if the model has labels, ``classes_``."""
        self.model_, self.coef_ = model, w
        if hasattr(model, "classes_"):
            self.classes_: np.ndarray = model.classes_

    def predict(self, X: Any, constraints: Any = None, fixed: Any = None) -> Sequence[Any]:
        """Return the best output of every example: an array if an output is one label, else a list.

        The list holds an array of labels for each sequence (``tolist`` makes lists of them), a row or a set
        for ``MultiLabel``, a tree for ``Grammar``.

        Parameters
        ----------
        constraints : list of ``models.constraints``, the same for all examples, or a list for each example
            Constraints on the outputs, for FactorGraph and MultiLabel.
        fixed : list with the known labels of each example
            The labels of an example with None for a free one, a dict from positions to labels, or None. The
            result is the best output that has these labels; for Chain.
        """
        check_is_fitted(self, "coef_")
        with self._workers(self.model_) as executor:
            given = Given(plain_sequence(X), model=self.model_)
            examples: Any = self._bind(given, executor)
            if fixed is not None:
                examples = examples.around(plain_sequence(fixed))
            if constraints is None:
                found = examples.predict(self._ready(examples), self._jobs())
                even = getattr(X, "ndim", 1) > 1
                return Outputs(found, even) if isinstance(found, list) else found
            if not hasattr(examples, "constrained"):
                raise ValueError(
                    f"constraints: model {type(self.model_).__name__} does not take constraints; "
                    "FactorGraph and MultiLabel do"
                )
            return examples.constrained(self.coef_, constraints)

    def _ready(self, examples: Examples) -> Any:
        """coef_ packed for predictions; packed again if it is another array.

        The array becomes read-only, because a change in place would not be noticed.
        """
        known = self.__dict__.get("_packed", (None, None, None))
        if known[0] is not self.coef_ or known[1] is not self.model_ or self.coef_.flags.writeable:
            packed = examples.ready(self.coef_)
            if packed is self.coef_:
                return packed
            self.coef_.flags.writeable = False
            known = self._packed = self.coef_, self.model_, packed
        return known[2]

    @available_if(lambda svm: svm._scored)
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the score <w, Psi(x, y)> of the prediction of every example, (n,)."""
        return self._bound(X).decide(self.coef_, self._jobs())

    def predict_margins(self, X: Any) -> Any:
        """Return for each node the best score minus the best score with another label at the node.

        The result is a list with a vector for each example, or an array (n,) if an output is one label.
        """
        return self._bound(X).margins(self.coef_, self._jobs())

    def _bound(self, X: Any, Y: Any = None) -> Examples:
        """Bind the fitted model to data."""
        check_is_fitted(self, "coef_")
        X, Y = (plain_sequence(X), None) if Y is None else examples_of(X, Y)
        return self._bind(Given(X, Y, model=self.model_))

    def _node_beliefs(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        examples, jobs = self._bound(X, Y), self._jobs()
        codes = None if Y is None else examples.true_codes()
        return (lambda temperature: examples.beliefs(self.coef_, temperature, jobs)), codes

    @property
    def _flat(self) -> bool:  # type: ignore[override]
        """Whether an output is one label."""
        return bool(getattr(self.model_, "flat", False))

    def _probabilities(self, marginals: Any) -> Any:
        if self.model_.task == "multilabel":
            return np.array([own[:, 1] for own in marginals])
        return marginals

    def _likely_outputs(self, X: Any, k: int) -> list[list[tuple[Any, float]]]:
        if self._flat:
            return super()._likely_outputs(X, k)
        temperature = self._temperature(None)
        beliefs = self._node_beliefs(X)[0](temperature)
        sums, found = beliefs.partitions(), []
        for outputs, a, b in zip(
            self.predict_k_best(X, k), beliefs.nodes[:-1], beliefs.nodes[1:], strict=True
        ):
            all_of_them = sums[a] if b > a else 0.0
            found.append([(y, float(np.exp((s - all_of_them) / temperature))) for y, s in outputs])
        return found

    def predict_k_best(self, X: Any, k: int) -> list[list[tuple[Any, float]]]:
        """Return for every example the k best outputs with their scores, best first."""
        check_is_fitted(self, "coef_")
        self._check_k_best()
        whole().check("k", k)
        with lent(self.coef_, "inference_k_best") as w:
            items = one_by_one(plain_sequence(X))
            return [self.model_.inference_k_best(x, w, min(int(k), MOST_BEST)) for x in items]

    def _check_k_best(self) -> None:
        if not hasattr(self.model_, "inference_k_best"):
            raise ValueError(f"model {type(self.model_).__name__} has no inference_k_best")

    def transitions(self) -> Table:
        """Return the weights between labels: [previous, next] of a chain, pairs of labels of ``MultiLabel``.

        Weights of the first and of the last label have a row "(start)" and a column "(end)". Illegal
        transitions have -inf.
        """
        return self._inside().ties()

    def prune(self, tolerance: float) -> Any:
        """Return a fitted copy with all weights of at most ``tolerance`` set to zero; scores change little.

        The attribute ``pruning_`` of the copy holds the dropped weights. The score of an output y changes by
        at most ``pruning_.largest`` |Psi(x, y)|_1, and by at most ``pruning_.norm`` |Psi(x, y)|.
        ``score_change(X)`` is the largest change for given examples. The certificate of the copy is only a
        lower bound on the optimum.
        """
        check_is_fitted(self, "coef_")
        FINITE.check("tolerance", tolerance)
        pruned = copy.copy(self)
        pruned.pruning_ = Pruning.of(self.coef_, tolerance)
        pruned.coef_ = pruned.pruning_.applied(self.coef_)
        status = f"pruned, {pruned.pruning_.dropped} weights of at most {tolerance:g} dropped"
        pruned.certificate_ = replace(
            self.certificate_,
            primal=np.inf,
            gap=np.inf,
            converged=False,
            exact=False,
            status=status,
        )
        return pruned

    def score_change(self, X: Any) -> np.ndarray:
        """Return for every example the largest change of any output's score that ``prune`` made."""
        check_is_fitted(self, "pruning_")
        self._check_k_best()
        return self.pruning_.change(self.model_, one_by_one(plain_sequence(X)))

    @takes_outputs
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of correctly predicted nodes over all examples: positions of sequences, labels of sets.

        If most nodes have one label, such as "O" outside entities, the score is high for a model that finds
        no entities; ``maxmargin.metrics`` has scores for that case. A label that the model does not know is
        never correct. A model may count differently (``agreement``): for trees the score is labelled bracket
        F1.
        """
        Y, _, counts = self._compared(X, y)
        right, total = check_weights(sample_weight, len(Y)) @ counts
        return float(right / total) if total else 1.0  # no nodes, neither true nor predicted

    @takes_outputs
    def loss(self, X: Any, y: Any) -> float:
        """Mean task loss of ``predict(X)``; for a sample loss such as F1: the loss of the whole sample."""
        check_is_fitted(self, "coef_")
        if getattr(self.model_, "joint", False):
            return self.model_.bind(*examples_of(X, y)).loss_at(self.coef_)
        model, (Y, outputs, _) = self._judge(y), self._compared(X, y)
        return float(np.mean([model.loss(*pair) for pair in zip(Y, outputs, strict=True)]))

    def _judge(self, Y: Any) -> Any:
        """The model whose loss compares predictions with these true outputs."""
        return self.model_

    def _compared(self, X: Any, Y: Any) -> tuple[Any, Sequence[Any], np.ndarray]:
        """True outputs, predicted outputs, and per example the number of correct nodes and of all nodes."""
        X, Y = examples_of(X, Y)
        outputs, counts = self.predict(X), []
        for i, (y, output) in enumerate(zip(Y, outputs, strict=True)):
            try:
                counts.append(self._agreement(i, y, output))
            except (TypeError, ValueError) as error:
                if not isinstance(self.model_, Model) or str(error).startswith("Y["):
                    raise
                raise ValueError(f"Y[{i}]: {error}") from None
        return Y, outputs, np.array(counts)

    def _agreement(self, i: int, y: Any, y_hat: Any) -> tuple[float, float]:
        """Count the nodes that agree in two outputs, and all nodes, as the model counts them."""
        masked = is_masked(y) or (isinstance(y, list | tuple) and any(map(is_masked, y)))
        if masked and isinstance(self.model_, Model):
            raise ValueError("has masked entries")
        if hasattr(self.model_, "agreement"):
            return self.model_.agreement(y, y_hat)
        if getattr(self.model_, "flat", np.ndim(y_hat) == 0):
            return float(y == y_hat), 1
        if len(y) != len(y_hat) and isinstance(self.model_, Model):
            raise ValueError(f"Y[{i}] has {len(y)} nodes, but {len(y_hat)} were predicted")
        # Outputs of a user's model may differ in length; extra nodes count as wrong.
        same = sum(bool(np.all(a == b)) for a, b in zip(y, y_hat, strict=False))
        return float(same), max(len(y), len(y_hat))


@dataclass(eq=False, repr=False)
class StructuralSVM(Structured):
    """Structural support vector machine.

    Minimises P(w) = 1/2 |w|^2 + C sum_i v_i xi_i(w), with xi_i(w) = max_y Delta(y_i, y) +
    <w, Psi(x_i, y) - Psi(x_i, y_i)>. Training ends when the gap between P(w) and a dual bound D(a) is small
    enough.

    Parameters
    ----------
    model : a model of ``maxmargin.models``, or any object with the protocol of ``models.protocol``
    C : float
        Weight of the risk. The papers' lambda form is C = 1 / (lambda n).
    hinge, rescaling : str
        The formulation. rescaling="margin" is the formula above; "slack" multiplies Delta by 1 + <w, psi>.
        hinge="max" is the formula above; "sum" is sum_y max(0, .) in place of max_y.
    solver : str or solvers.Solver
        "auto", a name of ``solvers.SOLVERS``, or an instance with options such as solvers.OneSlack(cache=5).
    tol : float or "auto"
        Wanted gap. A number is in units of the task loss. "auto" is a hundredth of the primal; for small C
        it is a tenth of what can be learnt. docs/choosing_c.md also says how much test scores lose by it.
    max_passes, max_seconds : float
        Budgets; a pass is n oracle calls.
    prior : (mean, scale) or None
        1/2 (w - mean)' Sigma^-1 (w - mean) in place of 1/2 |w|^2. The mean is a vector or a number. The
        scale is a number s with Sigma = s^2 I, a vector of such numbers, or the matrix Sigma itself. In a
        vector a scale may be infinite: that weight is not regularised.
    nonnegative : indices or mask over ``coef_``, or None
        Weights that must not be negative.
    warm_start : bool
        Start the next fit from the multipliers of the last one (same examples; C may change).
    n_jobs : int, None or concurrent.futures.Executor
        Threads of the compiled models, or workers of an oracle written in Python. The same number gives
        bitwise identical results.
    random_state : int, RandomState or None
    verbose : int
        1: a progress line on stderr; 2: through the logger "maxmargin".

    Attributes
    ----------
    coef_ : array, the weights
    certificate_ : Certificate
    history_ : dict of arrays
    model_ : the fitted model; classes_ if it has classes
    solver_ : name of the solver that was used
    support_ : the multipliers, for ``certify`` and ``warm_start``
    """

    _divides: ClassVar[bool] = True

    model: Any
    C: float = 1.0
    hinge: str = "max"
    rescaling: str = "margin"
    solver: Any = "auto"
    tol: float | str = "auto"
    max_passes: float = 1000
    max_seconds: float | None = None
    prior: Any = None
    nonnegative: Any = None
    warm_start: bool = False
    n_jobs: Any = None
    random_state: Any = None
    verbose: int = 0

    @takes_outputs
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        node_weight: Any = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: Any = None,
        checkpoint_every: float = 300.0,
        resume: bool = False,
    ) -> StructuralSVM:
        """Train.

        Parameters
        ----------
        X, y : sequences of examples and their outputs, as the model takes them.
            ``Y`` is another name of ``y``. For solver="streaming", X may be an iterable of chunks (X, y) or
            (X, y, sample_weight), with y=None.
        sample_weight : array of shape (n,), one weight for each example
        node_weight : list of arrays, a factor on the loss of each position (Chain)
        callbacks : callbacks.Callback objects, which receive every step; one may stop training
        checkpoint : file, or None
            File for the state that a later fit needs to resume, written regularly and at the end
            (docs/checkpoints.md).
        checkpoint_every : seconds between two checkpoints; they are written between passes
        resume : whether to resume from the checkpoint if there is one
        """
        kept = (checkpoint, checkpoint_every, resume)
        self._fit(Given(X, y, sample_weight, node_weight, callbacks=callbacks, kept=kept))
        return self

    @takes_outputs
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> StructuralSVM:
        """Train on one more chunk; the objective covers all chunks so far, with weight C per example.

        Examples that carry multipliers are kept, within the solver's ``cache_bytes``; the others are
        discarded. See docs/data.md about the meaning of ``certificate_``.

        Parameters
        ----------
        classes : all labels, at the first call; without it, the first chunk must contain all labels
        """
        self._partial_fit(Given(X, y, sample_weight, classes=classes))
        return self
