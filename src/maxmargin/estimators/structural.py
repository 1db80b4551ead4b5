"""StructuralSVM: any model, in the style of scikit-learn."""

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
from maxmargin.data.arrays import FINITE, check_weights, examples_of, plain_sequence, whole
from maxmargin.data.labels import Outputs, is_masked
from maxmargin.estimators.base import Given
from maxmargin.estimators.confidence import ConfidentSVM
from maxmargin.estimators.inspection import Inspection
from maxmargin.estimators.pruning import Pruning
from maxmargin.models.checks import lent
from maxmargin.models.examples import Examples
from maxmargin.models.protocol import Model, check_protocol
from maxmargin.parts.fit import streams

MOST_BEST = 2**31 - 1  # outputs of ``predict_k_best``: no machine holds more


def one_by_one(X: Any) -> Any:
    """Examples in turn, rows of a sparse matrix too."""
    return (X.tocsr()[i : i + 1] for i in range(X.shape[0])) if sp.issparse(X) else X


class Structured(ConfidentSVM, Inspection):
    """What estimators of any model share, whatever they minimise: how they predict and are scored."""

    model_: Any
    coef_: np.ndarray
    pruning_: Pruning

    lone: ClassVar[dict[str, str]] = {
        "tagging": "all labels are predicted to be {} (others may need more weight)"
    }
    scored: ClassVar[bool] = True  # whether the score of a prediction is one of what is observed

    model: Any

    def check_model(self) -> None:
        """Refuse what is not a model whose outputs the data show as a whole."""
        if isinstance(self.model, type):
            raise TypeError(f"model: give an instance, {self.model.__name__}(), not the class")
        if getattr(self.model, "hidden", False):
            raise TypeError("model Latent has hidden parts: fit it with maxmargin.LatentSVM")
        if not isinstance(self.model, Model):
            check_protocol(self.model)

    def _read(self, given: Given, reset: bool = True) -> Given:
        self.check_model()
        in_parts = streams(self.solver, self.model, given.X, given.Y, given.node_weight)
        given = replace(given, in_parts=in_parts, model=clone(self.model, safe=False))
        if in_parts and given.Y is None:
            return given
        X, Y = examples_of(given.X, given.Y)
        model = given.model if reset else self.model_
        if isinstance(model, Model) and not in_parts:
            X = model.convert(X, self._jobs())  # attributes are read once
        return replace(given, X=X, Y=Y)

    @staticmethod
    def params_of(model: Any) -> dict[str, Any]:
        return {"model": model}

    def adopt(self, model: Any, w: np.ndarray) -> None:
        self.model_, self.coef_ = model, w
        if hasattr(model, "classes_"):
            self.classes_: np.ndarray = model.classes_

    def predict(self, X: Any, constraints: Any = None, fixed: Any = None) -> Sequence[Any]:
        """The best output of every example: an array of labels where an output is one, else a list.

        The list has an array of labels for each sequence (``tolist`` makes lists of them), a row or a set for
        ``MultiLabel``, a tree for ``Grammar``.

        Parameters
        ----------
        constraints : list of ``models.constraints``, the same for all examples, or a list for each example
            What the outputs must keep; for FactorGraph and MultiLabel.
        fixed : list of what is known of each example
            Its labels with None where one is free, a dict from positions to labels, or None: the outputs
            are the best of those that have these labels; for Chain.
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
                    f"constraints: model {type(self.model_).__name__} takes none; FactorGraph and "
                    "MultiLabel do"
                )
            return examples.constrained(self.coef_, constraints)

    def _ready(self, examples: Examples) -> Any:
        """coef_ as predictions take it: packed once, and again where it is another array.

        It is read-only from then on: a change in place would not be seen.
        """
        known = self.__dict__.get("_packed", (None, None, None))
        if known[0] is not self.coef_ or known[1] is not self.model_ or self.coef_.flags.writeable:
            packed = examples.ready(self.coef_)
            if packed is self.coef_:
                return packed
            self.coef_.flags.writeable = False
            known = self._packed = self.coef_, self.model_, packed
        return known[2]

    @available_if(lambda svm: svm.scored)
    def decision_function(self, X: Any) -> np.ndarray:
        """The score <w, Psi(x, y)> of the prediction of every example, (n,)."""
        return self._bound(X).decide(self.coef_, self._jobs())

    def predict_margins(self, X: Any) -> Any:
        """For each node the best score of an output less the best score with another label at the node.

        A list with a vector for each example; (n,) where an output is one label.
        """
        return self._bound(X).margins(self.coef_, self._jobs())

    def _bound(self, X: Any, Y: Any = None) -> Examples:
        """The fitted model on data."""
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
        """For every example the k best outputs with their scores, best first."""
        check_is_fitted(self, "coef_")
        self._check_k_best()
        whole().check("k", k)
        with lent(self.coef_, "inference_k_best") as w:
            items = one_by_one(plain_sequence(X))
            return [self.model_.inference_k_best(x, w, min(int(k), MOST_BEST)) for x in items]

    def _check_k_best(self) -> None:
        if not hasattr(self.model_, "inference_k_best"):
            raise ValueError(f"model {type(self.model_).__name__} has no inference_k_best")

    def prune(self, tolerance: float) -> Any:
        """A fitted copy whose weights of at most ``tolerance`` are zero: smaller, nearly the same scores.

        ``pruning_`` of the copy has what was dropped: the score of an output y changes by no more than
        ``pruning_.largest`` |Psi(x, y)|_1, and ``pruning_.norm`` |Psi(x, y)|; ``score_change(X)`` is the
        largest change for given examples. Its certificate bounds the optimum from below only.
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
        """For every example the largest change, over all of its outputs, that ``prune`` made to a score."""
        check_is_fitted(self, "pruning_")
        self._check_k_best()
        return self.pruning_.change(self.model_, one_by_one(plain_sequence(X)))

    def score(self, X: Any, Y: Any, sample_weight: Any = None) -> float:
        """Share of correctly predicted nodes, over all examples: positions of sequences, labels of sets.

        With many nodes of one label, such as "O" outside of entities, it is high for a model that finds
        nothing: ``maxmargin.metrics`` has scores for that. A label that the model does not know is never
        correct. A model may count otherwise (``agreement``): for trees the score is labelled bracket F1.
        """
        Y, _, counts = self._compared(X, Y)
        right, total = check_weights(sample_weight, len(Y)) @ counts
        return float(right / total) if total else 1.0  # nothing to find, and nothing claimed

    def loss(self, X: Any, Y: Any) -> float:
        """Mean task loss of ``predict(X)``; of the whole sample where the loss is one of it."""
        check_is_fitted(self, "coef_")
        if getattr(self.model_, "joint", False):
            return self.model_.bind(*examples_of(X, Y)).loss_at(self.coef_)
        model, (Y, outputs, _) = self._judge(Y), self._compared(X, Y)
        return float(np.mean([model.loss(y, p) for y, p in zip(Y, outputs, strict=True)]))

    def _judge(self, Y: Any) -> Any:
        """The model whose loss compares predictions with these outputs."""
        return self.model_

    def _compared(self, X: Any, Y: Any) -> tuple[Any, Sequence[Any], np.ndarray]:
        """The true outputs, the predicted ones, and of each how many nodes agree and how many there are."""
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
        """How many nodes of two outputs agree, and how many there are, as the model counts them."""
        masked = is_masked(y) or (isinstance(y, list | tuple) and any(map(is_masked, y)))
        if masked and isinstance(self.model_, Model):
            raise ValueError("has masked entries")
        if hasattr(self.model_, "agreement"):
            return self.model_.agreement(y, y_hat)
        if getattr(self.model_, "flat", np.ndim(y_hat) == 0):
            return float(y == y_hat), 1
        if len(y) != len(y_hat) and isinstance(self.model_, Model):
            raise ValueError(f"Y[{i}] has {len(y)} nodes, but {len(y_hat)} were predicted")
        # Outputs of an own model may differ in length: what one has more than the other is wrong.
        same = sum(bool(np.all(a == b)) for a, b in zip(y, y_hat, strict=False))
        return float(same), max(len(y), len(y_hat))


@dataclass(eq=False, repr=False)
class StructuralSVM(Structured):
    """Structural support vector machine.

    Minimises P(w) = 1/2 |w|^2 + C sum_i v_i xi_i(w), with xi_i(w) = max_y Delta(y_i, y) +
    <w, Psi(x_i, y) - Psi(x_i, y_i)>, until the gap between P(w) and a dual bound D(a) is small enough.

    Parameters
    ----------
    model : a model of ``maxmargin.models``, or any object with the protocol of ``models.protocol``
    C : float
        Weight of the risk. The papers' lambda form is C = 1 / (lambda n).
    hinge, rescaling : str
        The formulation: rescaling="margin" (as above) or "slack" (Delta times 1 + <w, psi>); hinge="max" (as
        above) or "sum": sum_y max(0, .) in place of max_y.
    solver : str or solvers.Solver
        "auto", a name of ``solvers.SOLVERS``, or an instance with options such as solvers.OneSlack(cache=5).
    tol : float or "auto"
        Wanted gap. A number is in units of the task loss; "auto" is a hundredth of the primal, and where C is
        small a tenth of what can be learnt (docs/choosing_c.md, also on what test scores lose by it).
    max_passes, max_seconds : float
        Budgets; a pass is n oracle calls.
    prior : (mean, scale) or None
        1/2 (w - mean)' Sigma^-1 (w - mean) in place of 1/2 |w|^2: the mean a vector or a number, the scale
        a number s, Sigma = s^2 I, a vector of these, or a matrix, Sigma itself. In a vector a scale may be
        infinite: that weight is not regularised.
    nonnegative : indices or mask over ``coef_``, or None
        Weights that must not be negative.
    warm_start : bool
        Start the next fit from the multipliers of the last one (same examples; C may change).
    n_jobs : int, None or concurrent.futures.Executor
        Threads of the compiled models, or workers of an oracle written in Python. The same number gives
        the same bits.
    random_state : int, RandomState or None
    verbose : int
        1: a progress line on stderr; 2: through the logger "maxmargin".

    Attributes
    ----------
    coef_ : array, the weights
    certificate_ : Certificate
    history_ : dict of arrays
    model_ : the fitted model; classes_ where it has classes
    solver_ : name of the solver that was used
    support_ : the multipliers, for ``certify`` and ``warm_start``
    """

    divides: ClassVar[bool] = True

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

    def fit(
        self,
        X: Any,
        Y: Any = None,
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
        X, Y : sequences of examples and their outputs, as the model takes them; for solver="streaming" also
            an iterable of chunks (X, Y) or (X, Y, sample_weight), with Y=None
        sample_weight : array of shape (n,), one weight for each example
        node_weight : list of arrays, a factor on the loss of each position (Chain)
        callbacks : callbacks.Callback objects, which receive every step; one may stop training
        checkpoint : file, or None
            Where to write, from time to time and at the end, what a later fit needs: docs/checkpoints.md.
        checkpoint_every : seconds between two of them; they are written between passes
        resume : whether to go on from the checkpoint, where there is one
        """
        kept = (checkpoint, checkpoint_every, resume)
        self._fit(Given(X, Y, sample_weight, node_weight, callbacks=callbacks, kept=kept))
        return self

    def partial_fit(
        self, X: Any, Y: Any, classes: Any = None, sample_weight: Any = None
    ) -> StructuralSVM:
        """Train on one more chunk; the objective is that of all chunks so far, with weight C per example.

        Examples that carry multipliers are kept, within the solver's ``cache_bytes``; the others go. See
        docs/data.md for what ``certificate_`` then proves.

        Parameters
        ----------
        classes : all labels, at the first call; else those of the first chunk are all
        """
        self._partial_fit(Given(X, Y, sample_weight, classes=classes))
        return self
