"""Latent: outputs of which the data show a part; the rest h is hidden, and chosen with the weights.

    prediction   y of argmax_{y, h} <w, Psi(x, y, h)>
    completion   h_i = argmax_h <w, Psi(x_i, y_i, h)>, the best hidden part of the true output

A complete output z = (y, h) is an ordinary output: given the completions, learning is an ordinary convex
problem. ``LatentSVM`` alternates between the two.

With ``parts`` the hidden part is a sub-class: class k has parts_k rows of weights, its score is the best
of them, and the cost depends on classes alone. ``coef_`` is the (sum_k parts_k, d) matrix ravelled, the
parts of the first class first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.cluster import KMeans

from maxmargin.data.arrays import check_choice, check_whole
from maxmargin.io.fields import FieldError, choice, is_whole, list_of
from maxmargin.losses import Costs, cost_of
from maxmargin.models.checks import lent
from maxmargin.models.examples import Examples
from maxmargin.models.multiclass import Multiclass
from maxmargin.models.protocol import Model, as_weights, check_protocol
from maxmargin.models.python import bind_model

STARTS = ("k-means", "random")
MOST_PARTS = 2**14  # of all classes: their costs take 2 GiB


class Latent(Model):
    """A model with hidden parts.

    Parameters
    ----------
    model : Multiclass, or an own model with hidden parts
        The own model has the protocol over complete outputs, and ``complete(x, y, w)``, the best complete
        output whose observed part is y, and ``observed(z)``, the observed part.
    parts : int, mapping from labels to ints, or None
        Hidden sub-classes of each class, for Multiclass; a label that the mapping does not name has one.
    start : "k-means" or "random"
        First completions, for Multiclass: clusters of the examples of a class, or drawn.
    """

    hidden: ClassVar[bool] = True  # outputs must be completed first
    needs_all = "a round of completions is one of all examples"  # type: ignore[assignment]

    def __init__(self, model: Any, parts: Any = None, start: str = "k-means"):
        self.model = model
        self.parts = parts
        self.start = start

    @property
    def own(self) -> bool:
        """Whether the hidden parts are those of a model of the user's."""
        return self.parts is None

    def initialize(self, X: Any, Y: Any) -> None:
        """Look at the data once; Y holds observed outputs."""
        self._check()
        inner = clone(self.model, safe=False)
        inner.initialize(X, Y)
        if self.own:
            self.inner_ = inner
            self.size_joint_feature = int(inner.size_joint_feature)
            if hasattr(inner, "classes_"):
                self.classes_ = inner.classes_
        else:
            self._settle(inner, count_parts(self.parts, inner.classes_))

    def _check(self) -> None:
        if self.own:
            check_protocol(self.model)
            lacks = [name for name in ("complete", "observed") if not hasattr(self.model, name)]
            if lacks:
                raise TypeError(
                    f"Latent: model {type(self.model).__name__} lacks {', '.join(lacks)}; give those, "
                    "or parts=... for Multiclass"
                )
        elif type(self.model) is not Multiclass:
            raise TypeError(
                f"Latent: parts is for Multiclass, got {type(self.model).__name__}; a model of your own "
                "defines its hidden parts itself"
            )
        check_choice("Latent: start", self.start, STARTS)

    def _settle(self, base: Multiclass, counts: list[int]) -> None:
        """A Multiclass over all parts, numbered class by class; `base` knows the classes."""
        self.base_, self.counts_, self.flat = base, counts, True
        self.classes_ = base.classes_
        self.owner_ = np.repeat(np.arange(len(counts)), counts)
        numbers = np.arange(len(self.owner_))
        cost = cost_of(base.cost_, self.owner_[:, None], self.owner_[None, :])
        self.inner_ = Multiclass(Costs(cost), base.bias, classes=numbers)
        self.inner_.initialize(np.zeros((len(numbers), base.n_features_)), numbers)
        self.size_joint_feature = self.inner_.size_joint_feature

    def begin(self, X: Any, Y: Any, seed: int) -> list[Any]:
        """First complete outputs of the true ones."""
        if self.own:
            return self.completions(X, Y, np.zeros(self.size_joint_feature))
        codes, first = self.base_.encode(Y), np.cumsum([0, *self.counts_])
        rows = self.base_.read(X).stacked()
        drawn = np.random.default_rng(seed)
        outputs = first[codes]
        for k, count in enumerate(self.counts_):
            members = np.flatnonzero(codes == k)
            if count == 1 or len(members) == 0:
                continue
            if self.start == "random" or len(members) <= count:
                chosen = drawn.integers(count, size=len(members))
            else:
                with np.errstate(over="ignore", invalid="ignore"):  # any start will do
                    chosen = KMeans(count, n_init=4, random_state=seed).fit_predict(rows[members])
            outputs[members] += chosen
        return outputs.tolist()

    def completions(self, X: Any, Y: Any, w: np.ndarray) -> list[Any]:
        """The best complete output at w of every true output."""
        if self.own:
            pairs = zip((X[i] for i in range(len(Y))), Y, strict=True)
            with lent(w, "complete") as w:
                return [self.inner_.complete(x, y, w) for x, y in pairs]
        codes: Any = self.base_.encode(Y)
        examples: Any = self.inner_.bind(X)
        scores = examples.scores(as_weights(w))
        return np.where(self.owner_ == codes[:, None], scores, -np.inf).argmax(axis=1).tolist()

    def example_weights(self, Y: Any, sample_weight: Any) -> Any:
        """v_i of the objective."""
        return sample_weight

    def over(self, X: Any, outputs: Any = None, executor: Any = None) -> Examples:
        """The examples with complete outputs: what is learnt from once the hidden parts are chosen."""
        return bind_model(self.inner_, X, outputs, executor=executor)

    def observed(self, outputs: Any) -> Any:
        """What the data would show of complete outputs."""
        if self.own:
            return [self.inner_.observed(z) for z in outputs]
        return self.classes_[self.owner_[np.asarray(outputs, dtype=np.int64)]]

    def inference(self, x: Any, w: np.ndarray) -> Any:
        """The observed part of the best output."""
        with lent(w, "inference") as w:
            return self.observed([self.inner_.inference(x, w)])[0]

    def loss(self, y: Any, y_hat: Any) -> float:
        """Delta of observed outputs, for Multiclass; an own model compares complete ones."""
        if self.own:
            return float(self.inner_.loss(y, y_hat))
        return self.base_.loss(y, y_hat)

    def unpack(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """Named parts of w: those of the inner model, and for Multiclass the class of each row."""
        if self.own:
            return self.inner_.unpack(w)
        return {**self.inner_.unpack(w), "classes": self.classes_[self.owner_]}

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        if self.own:
            raise ValueError(
                "save: the model inside Latent is written in Python, which a model file cannot hold: save "
                "coef_ and rebuild the model"
            )
        state, arrays = self.base_.state()
        return {**state, "parts": self.counts_, "start": self.start}, arrays

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Latent:
        base, counts = Multiclass.from_state(state, arrays), list_of(state, "parts")
        weights, width = arrays["w"].size, base.n_features_ + (base.bias is not None)
        fits = len(counts) == len(base.classes_) and all(is_whole(c, 1, weights) for c in counts)
        rows = sum(counts) if fits else 0
        # The matrix of costs is not in the file: it may not take far more memory than the weights.
        if not fits or rows * width != weights or rows > max(MOST_PARTS, 64 * width):
            raise FieldError(
                f"the parts do not fit {len(base.classes_)} classes, {weights} weights"
            )
        start = choice(state, "start", STARTS)
        model = cls(base, dict(zip(base.classes_.tolist(), counts, strict=True)), start)
        model._settle(base, counts)
        return model


def count_parts(parts: Any, classes: np.ndarray) -> list[int]:
    """Hidden sub-classes of each class; refuses what is not a positive whole number."""
    if isinstance(parts, Mapping):
        labels = classes.tolist()
        unknown = [label for label in parts if label not in labels]
        if unknown:
            raise ValueError(
                f"Latent: parts names {unknown[0]!r}, which is not a class of the data"
            )
        counts = [parts.get(label, 1) for label in labels]
    else:
        counts = [parts] * len(classes)
    for count in counts:
        check_whole("Latent: parts", count)
    if sum(counts) > MOST_PARTS:
        raise ValueError(f"Latent: parts must be at most {MOST_PARTS} in all, got {sum(counts)}")
    return [int(count) for count in counts]
