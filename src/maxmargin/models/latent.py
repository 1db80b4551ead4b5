"""Latent: outputs of which the data show only a part; the rest h is hidden, and learnt with the weights.

    prediction   y of argmax_{y, h} <w, Psi(x, y, h)>
    completion   h_i = argmax_h <w, Psi(x_i, y_i, h)>, the best hidden part of the true output

A complete output z = (y, h) is an ordinary output. Given the completions, learning is an ordinary convex
problem. ``LatentSVM`` alternates between the two.

With ``parts`` the model is one of the library's models, and each node has a hidden state. Label k has parts_k
states, each with its own weights, and the loss depends on labels only. ``coef_`` holds the weights of the
model over states, with the states of the first label first; see ``models.states``. The hidden states of a
``Tree`` are types of its parts; see ``models.part_types``. ``Completing`` is a model of complete outputs, for
examples that come in chunks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from maxmargin.data.arrays import among, whole
from maxmargin.io.fields import (
    FieldError,
    choice,
    is_whole_in,
    list_of,
)
from maxmargin.io.quoting import short
from maxmargin.models.chain import Chain
from maxmargin.models.checks import lent
from maxmargin.models.examples import Examples
from maxmargin.models.factor_graph import FactorGraph
from maxmargin.models.multiclass import Multiclass
from maxmargin.models.part_types import PartTypes
from maxmargin.models.protocol import Model, check_protocol, saved_base
from maxmargin.models.python import bind_model, converted
from maxmargin.models.states import Completer, LabelStates
from maxmargin.models.tree import Tree

STATE_STARTS = ("k-means", "random")
# The library's models that can have hidden states, and the class that handles the states of each.
STATES_OF: dict[type, Any] = {
    Multiclass: LabelStates,
    Chain: LabelStates,
    FactorGraph: LabelStates,
    Tree: PartTypes,
}
STATES_SAID = ", ".join(kind.__name__ for kind in STATES_OF)
MOST_PARTS = 2**14  # Limit on the states of all labels; at the limit their cost matrix takes 2 GiB.


class Latent(Model):
    """A model with hidden parts.

    Parameters
    ----------
    model : Multiclass, Chain, FactorGraph, Tree, or an own model with hidden parts
        An own model has the protocol over complete outputs and two more methods. ``complete(x, y, w)``
        returns the best complete output whose observed part is y. ``observed(z)`` returns the observed part.
    parts : int, mapping from labels to ints, or None
        Number of hidden states of each label, for the library's models; for Tree, number of types of each
        part by its number. A label that the mapping does not name has one state.
    start : "k-means" or "random"
        First completions with ``parts``: random states, or clusters. Nodes of a label are clustered by their
        features, parts of a Tree by the positions of their neighbours.
    """

    base_: Any
    counts_: list[int]
    states_: Any
    inner_: Any
    owner_: Any
    flat: Any
    task: str

    hidden: ClassVar[bool] = True
    # Whether first weights are learnt from the known labels alone, by ``over_known``.
    learns_from_known: ClassVar[bool] = False

    def __init__(self, model: Any, parts: Any = None, start: str = "k-means"):
        self.model = model
        self.parts = parts
        self.start = start

    @property
    def own(self) -> bool:
        """Whether a model of the user defines the hidden parts."""
        return self.parts is None

    def convert(self, X: Any, n_jobs: int = 1) -> Any:
        return converted(getattr(self, "inner_", self.model), X, n_jobs)

    def initialize(self, X: Any, Y: Any) -> None:
        """Look at the data once; Y holds observed outputs."""
        self._check()
        inner = clone(self.model, safe=False)
        if not self.own:
            states = STATES_OF[type(inner)]
            states.prepare(inner, X, Y)
            self._settle(inner, count_parts(self.parts, states.names(inner)))
            return
        inner.initialize(X, Y)
        self.inner_ = inner
        self.size_joint_feature = int(inner.size_joint_feature)
        if hasattr(inner, "classes_"):
            self.classes_ = inner.classes_

    def _check(self) -> None:
        if self.own:
            check_protocol(self.model)
            lacks = [name for name in ("complete", "observed") if not hasattr(self.model, name)]
            if lacks:
                raise TypeError(
                    f"Latent: model {type(self.model).__name__} lacks {', '.join(lacks)}; define "
                    f"those, or give parts=... for {STATES_SAID}"
                )
        elif type(self.model) not in STATES_OF:
            raise TypeError(
                f"Latent: parts works for {STATES_SAID}, got {type(self.model).__name__}; a model "
                "written in Python defines its hidden parts itself"
            )
        among(*STATE_STARTS).check("Latent: start", self.start)

    def _settle(self, base: Any, counts: list[int]) -> None:
        """Set up the states of a fitted model."""
        self.base_, self.counts_, self.states_ = base, counts, STATES_OF[type(base)](base, counts)
        self.inner_, self.owner_ = self.states_.inner, self.states_.owner
        self.flat, self.task = getattr(base, "flat", False), base.task
        if hasattr(base, "classes_"):
            self.classes_: np.ndarray = base.classes_
        if hasattr(self.states_, "agreement"):  # otherwise ``score`` compares labels
            self.agreement: Any = self.states_.agreement
        self.size_joint_feature: int = self.inner_.size_joint_feature

    def begin(self, X: Any, Y: Any, seed: int) -> list[Any]:
        """Return first complete outputs for the true outputs."""
        if self.own:
            return self.completions(X, Y, np.zeros(self.size_joint_feature))
        return self.states_.begin(X, Y, self.start, seed)

    def completer(self, X: Any, Y: Any, n_jobs: int = 1) -> Completer:
        """Return a function of w that finds the best complete output of every true output.

        The examples are read only once. An own model is called in one thread.
        """
        if not self.own:
            return self.states_.completer(X, Y, n_jobs)

        def complete(w: np.ndarray) -> list[Any]:
            pairs = zip((X[i] for i in range(len(Y))), Y, strict=True)
            with lent(w, "complete") as w:
                return [self.inner_.complete(x, y, w) for x, y in pairs]

        return complete

    def completions(self, X: Any, Y: Any, w: np.ndarray, n_jobs: int = 1) -> list[Any]:
        """Return the best complete output at w of every true output."""
        return self.completer(X, Y, n_jobs)(w)

    def over(self, X: Any, outputs: Any = None, executor: Any = None) -> Examples:
        """Bind the examples with complete outputs: the training data once the hidden parts are chosen."""
        return bind_model(self.inner_, X, outputs, executor=executor)

    def observed(self, outputs: Any) -> Any:
        """Return the observed parts of complete outputs."""
        if self.own:
            return [self.inner_.observed(z) for z in outputs]
        return self.states_.observed(outputs)

    def inference(self, x: Any, w: np.ndarray) -> Any:
        """Return the observed part of the best output."""
        with lent(w, "inference") as w:
            return self.observed([self.inner_.inference(x, w)])[0]

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return Delta of observed outputs; an own model compares complete outputs."""
        if self.own:
            return float(self.inner_.loss(y, y_hat))
        return self.states_.loss(y, y_hat)

    def unpack(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """Return the named parts of w from the inner model, and with ``parts`` the label of each state."""
        if self.own:
            return self.inner_.unpack(w)
        return {**self.inner_.unpack(w), "classes": self.states_.labels}

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        if self.own:
            raise ValueError(
                "save: the model inside Latent is written in Python, which a model file cannot "
                "hold; save coef_ and rebuild the model"
            )
        state, arrays = self.base_.state()
        if not isinstance(self.base_, Multiclass):
            state = {"base": {"kind": type(self.base_).__name__, **state}}
        return {**state, "parts": self.counts_, "start": self.start}, arrays

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Latent:
        base, counts = base_of(state, arrays), list_of(state, "parts")
        labels, weights = STATES_OF[type(base)].names(base).tolist(), arrays["w"].size
        fits = len(counts) == len(labels) and all(is_whole_in(c, 1, weights) for c in counts)
        # The file does not hold the cost matrix, so a small file could claim many parts: keep the
        # matrix from taking far more memory than the weights.
        if not fits or sum(counts) > max(MOST_PARTS, 64 * (weights // sum(counts))):
            raise FieldError(f"the parts do not match {len(labels)} labels and {weights} weights")
        model = cls(
            base, dict(zip(labels, counts, strict=True)), choice(state, "start", STATE_STARTS)
        )
        model._settle(base, counts)
        if model.size_joint_feature != weights:
            raise FieldError(f"the parts do not match {len(labels)} labels and {weights} weights")
        return model


def base_of(state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Read the model whose labels were split; files of Multiclass hold its state beside the parts."""
    if "base" not in state:
        return Multiclass.from_state(state, arrays)
    kinds = (kind.__name__ for kind in STATES_OF if kind is not Multiclass)
    return saved_base(state, arrays, kinds)


def count_parts(parts: Any, classes: np.ndarray) -> list[int]:
    """Return the number of hidden states of each label; raise ValueError unless all are positive integers."""
    if isinstance(parts, Mapping):
        labels = classes.tolist()
        unknown = [label for label in parts if label not in labels]
        if unknown:
            raise ValueError(
                f"Latent: parts names {short(unknown[0])}, which is not a class of the data"
            )
        counts = [parts.get(label, 1) for label in labels]
    else:
        counts = [parts] * len(classes)
    for count in counts:
        whole().check("Latent: parts", count)
    if sum(counts) > MOST_PARTS:
        raise ValueError(f"Latent: parts must be at most {MOST_PARTS} in all, got {sum(counts)}")
    return [int(count) for count in counts]


@dataclass(eq=False, repr=False)
class Completing(Model):
    """A model of complete outputs; it completes outputs at the weights w when it binds them.

    Without w the outputs are complete already.
    """

    latent: Latent
    n_jobs: int
    w: np.ndarray | None = None

    @property
    def packed_as(self) -> Any:
        """The model whose inputs these are."""
        return self.latent.inner_

    @property
    def size_joint_feature(self) -> int:  # type: ignore[override]
        return self.latent.size_joint_feature

    def convert(self, X: Any, n_jobs: int = 1) -> Any:
        return self.latent.convert(X, n_jobs)

    def initialize(self, X: Any, Y: Any) -> None:
        """Look at the first examples; from then on outputs are completed at w = 0."""
        self.latent.initialize(X, Y)
        self.w = np.zeros(self.size_joint_feature)

    def example_weights(self, Y: Any, weights: np.ndarray) -> Any:
        """Return the weights of examples; an example without known labels has weight 0."""
        return self.latent.example_weights(Y, weights)

    def bind(self, X: Any, Y: Any = None, node_weight: Any = None) -> Examples:
        """Bind the model to complete outputs."""
        outputs = Y if self.w is None else self.latent.completions(X, Y, self.w, self.n_jobs)
        return self.latent.over(X, outputs)
