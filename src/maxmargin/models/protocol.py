"""The protocol of a model: what a user writes, and what the built-in models share.

A model written by a user is any object with

    initialize(X, Y)                     look at the data once: sizes, classes
    size_joint_feature                   length of w
    joint_feature(x, y)                  Psi(x, y)
    loss(y, y_hat)                       Delta(y, y_hat) >= 0, zero for y_hat = y
    inference(x, w)                      argmax_y <w, Psi(x, y)>
    loss_augmented_inference(x, y, w)    argmax_y' Delta(y, y') + <w, Psi(x, y')>

and, where it can, ``batch_loss_augmented_inference(X, Y, w)`` (a list of outputs),
``slack_rescaled_inference(x, y, w)`` (argmax_y' Delta (1 + <w, psi>)), ``inference_k_best(x, w, k)``,
``outputs(x)`` (all of them, for hinge="sum"), ``agreement(y, y_hat)`` (right and all parts of an output, for
``StructuralSVM.score``), and ``exact = False`` if its argmax may miss the best output.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from maxmargin.data.arrays import BIAS_RULE, Checks
from maxmargin.data.labels import LabelSet
from maxmargin.data.memory import FeatureRows
from maxmargin.io.fields import check_names, choice, entries_of, field_of
from maxmargin.io.quoting import short
from maxmargin.models.examples import Examples
from maxmargin.models.registry import MODELS
from maxmargin.notebook import Shown

if TYPE_CHECKING:
    from maxmargin.models.factors import Factors

PROTOCOL = (
    "initialize",
    "joint_feature",
    "loss",
    "inference",
    "loss_augmented_inference",
)


def check_protocol(model: Any) -> None:
    """Refuse an object that is not a model, naming what it lacks."""
    if isinstance(model, str):
        found = [kind for kind in MODELS if kind.lower() == model.lower()] or ["Chain"]
        raise TypeError(
            f"model must be an instance, such as models.{found[0]}(), got {short(model)}"
        )
    missing = [name for name in PROTOCOL if not callable(getattr(model, name, None))]
    if missing:
        raise TypeError(
            f"model {type(model).__name__} is not a model: it lacks {', '.join(missing)}; "
            "see maxmargin.models.protocol for what a model has"
        )


def saved_base(state: dict[str, Any], arrays: dict[str, np.ndarray], kinds: Iterable[str]) -> Any:
    """The model, of one of these kinds, that a file holds inside of another."""
    inner = entries_of(field_of(state, "base"), "base")
    base = MODELS[choice(inner, "kind", tuple(kinds))].from_state(inner, arrays)
    check_names(inner, {"kind", *base.state()[0]}, "base")
    return base


def as_weights(w: Any) -> np.ndarray:
    """w as the core takes it."""
    return np.ascontiguousarray(w, dtype=np.float64)


def encode_all(labels: LabelSet, Y: Any) -> np.ndarray:
    """Codes of labels; refuses one that the model does not know."""
    codes = labels.encode(Y)
    if (codes < 0).any():
        i = int(np.argmin(codes))
        raise ValueError(f"Y[{i}] = {short(Y[i])} is not among the classes of the model")
    return codes


def weights_and_bias(w: np.ndarray, bias: float | None) -> dict[str, np.ndarray]:
    """The weights of features, and with a constant feature of value ``bias`` what it adds to scores."""
    if bias is None:
        return {"weights": w}
    return {"weights": w[..., :-1], "bias": np.asarray(w[..., -1] * bias)}


class Model(Shown):
    """Base of the built-in models: the protocol on top of a compiled data set."""

    classes_: np.ndarray
    size_joint_feature: int
    powers: ClassVar[tuple[str, ...]] = ()  # that not every model has: see ``models.registry``
    task: str = (
        ""  # what outputs are, for scores: a key of ``metrics.tasks.TALLIES``; empty: own ones
    )
    hidden: ClassVar[bool] = False  # outputs must be completed first: ``models.Latent``
    joint: bool = False  # the loss is one of the whole sample: all examples are one block
    # How a part of a stream keeps inputs: "rows" of one matrix, "sequences" of rows, or any "objects"; and
    # whether the core keeps inner products of the rows of a sequence.
    packs: ClassVar[str] = "objects"
    tables: ClassVar[bool] = False
    # What the parameters that need no data must be: ``initialize`` looks at them.
    checks: ClassVar[Checks] = {"bias": BIAS_RULE}
    # Parameters whose name is a method of the protocol, and the attributes that hold them.
    stored: ClassVar[dict[str, str]] = {"loss": "task_loss"}
    task_loss: Any
    views: ClassVar[Any] = None  # of its weights: a class of ``models.inside``

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name (scikit-learn's protocol)."""
        return {n: getattr(self, self.stored.get(n, n)) for n in self._get_param_names()}

    def set_params(self, **params: Any) -> Model:
        """Set parameters by name (scikit-learn's protocol)."""
        known = self._get_param_names()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"{short(name)} is not a parameter of {type(self).__name__}, which has {known}"
                )
            setattr(self, self.stored.get(name, name), value)
        return self

    def convert(self, X: Any, n_jobs: int = 1) -> Any:
        """X as ``initialize`` and ``bind`` take it without reading attributes again; by so many threads.

        Nodes described by attributes become features: by the names that the model knows, or before
        ``initialize`` by those in X. Anything else stays as it is.
        """
        return X

    @property
    def needs_all(self) -> str:
        """Why all examples are needed at once; empty where they may come in chunks."""
        return "a loss of the whole sample has one slack for all examples" if self.joint else ""

    def example_weights(self, Y: Any, weights: Any) -> Any:
        """v_i of the objective, from those that were given."""
        return weights

    def portable(self, Y: Any) -> Any:
        """Outputs that can be cut up into examples and joined again, once the model is made ready."""
        return Y

    def initialize(self, X: Any, Y: Any) -> None:
        """Learn the classes and the number of features."""
        raise NotImplementedError

    def bind(self, X: Any, Y: Any = None, node_weight: Any = None) -> Examples:
        """The model on these data, handed to the core; without Y for prediction only."""
        raise NotImplementedError

    def inference(self, x: Any, w: np.ndarray) -> Any:
        """The output with the best score."""
        return self.bind_one(x).predict(as_weights(w))[0]

    def loss_augmented_inference(self, x: Any, y: Any, w: np.ndarray) -> Any:
        """argmax_y' Delta(y, y') + <w, Psi(x, y')>."""
        return self.bind_one(x, [y]).augmented(as_weights(w))[0]

    def bind_one(self, x: Any, Y: Any = None) -> Any:
        """The model on a single example."""
        return self.bind([x], Y)

    # optional powers

    @property
    def feature_names_(self) -> np.ndarray | None:
        """The names of the features where they are attributes; else None."""
        encoder = getattr(self, "encoder_", None)
        return None if encoder is None else encoder.get_feature_names_out()

    def read(self, X: Any) -> FeatureRows:
        """The feature rows of these inputs, checked; a model that has them can take a kernel."""
        raise NotImplementedError

    def bind_rows(self, rows: FeatureRows, Y: Any = None, node_weight: Any = None) -> Examples:
        """The model on rows that are read already."""
        raise NotImplementedError

    def factors(self, X: Any, Y: Any = None, node_weight: Any = None) -> Factors:
        """The examples as factor graphs in plain arrays, for solvers that work factor by factor.

        For models whose score and loss are sums over nodes and edges: variables with their domains, factors
        with scopes, weights shared by template, losses of the nodes; see ``models.factors``.
        """
        raise NotImplementedError

    def inside(self, w: np.ndarray) -> Any:
        """The model with its weights, to be looked at: see ``models.inside``."""
        if self.views is None:
            raise ValueError(
                f"model {type(self).__name__} has no views of its weights, as Chain, Multiclass, Binary and "
                "MultiLabel have; model_.unpack(coef_) names the weights where a model has it"
            )
        return self.views(self, w)

    # model files

    def compact(self, w: np.ndarray) -> tuple[Model, np.ndarray]:
        """What a model file must hold to predict as this model does with w."""
        return self, w

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The fitted model as plain values (text and numbers) and arrays, for a model file."""
        raise NotImplementedError

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Model:
        """The fitted model that ``state`` wrote; refuses what no fitted model could have written."""
        raise NotImplementedError
