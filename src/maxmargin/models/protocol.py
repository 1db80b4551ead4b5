"""The protocol of a model: the methods that a user writes, and the base class of the built-in models.

A model written by a user is any object with

    initialize(X, Y)                     look at the data once: sizes, classes
    size_joint_feature                   length of w
    joint_feature(x, y)                  Psi(x, y)
    loss(y, y_hat)                       Delta(y, y_hat) >= 0, zero for y_hat = y
    inference(x, w)                      argmax_y <w, Psi(x, y)>
    loss_augmented_inference(x, y, w)    argmax_y' Delta(y, y') + <w, Psi(x, y')>

Optional members:

    batch_loss_augmented_inference(X, Y, w)    a list of outputs
    slack_rescaled_inference(x, y, w)          argmax_y' Delta(y, y') (1 + <w, psi(y')>)
    inference_k_best(x, w, k)                  the k best outputs
    outputs(x)                                 all outputs, for hinge="sum"
    agreement(y, y_hat)                        correct and all parts of an output, for
                                               ``StructuralSVM.score``
    exact = False                              the argmax may miss the best output
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
    """Raise TypeError if the object is not a model; the message names the missing methods."""
    if isinstance(model, str):
        found = [kind for kind in MODELS if kind.lower() == model.lower()] or ["Chain"]
        raise TypeError(
            f"model must be an instance, such as models.{found[0]}(), got {short(model)}"
        )
    missing = [name for name in PROTOCOL if not callable(getattr(model, name, None))]
    if missing:
        raise TypeError(
            f"model {type(model).__name__} is not a model, because it lacks {', '.join(missing)}; "
            "maxmargin.models.protocol lists what a model needs"
        )


def saved_base(state: dict[str, Any], arrays: dict[str, np.ndarray], kinds: Iterable[str]) -> Any:
    """Read the inner model, of one of these kinds, that the file of another model contains."""
    inner = entries_of(field_of(state, "base"), "base")
    base = MODELS[choice(inner, "kind", tuple(kinds))].from_state(inner, arrays)
    check_names(inner, {"kind", *base.state()[0]}, "base")
    return base


def as_weights(w: Any) -> np.ndarray:
    """Convert w to the contiguous float64 array that the core takes."""
    return np.ascontiguousarray(w, dtype=np.float64)


def encode_all(labels: LabelSet, Y: Any) -> np.ndarray:
    """Return the codes of labels; raise ValueError for a label that the model does not know."""
    codes = labels.encode(Y)
    if (codes < 0).any():
        i = int(np.argmin(codes))
        raise ValueError(f"Y[{i}] = {short(Y[i])} is not among the classes of the model")
    return codes


def weights_and_bias(w: np.ndarray, bias: float | None) -> dict[str, np.ndarray]:
    """Split w into feature weights and, if there is a bias, its contribution to scores."""
    if bias is None:
        return {"weights": w}
    return {"weights": w[..., :-1], "bias": np.asarray(w[..., -1] * bias)}


class Model(Shown):
    """Base of the built-in models: the protocol, implemented by a compiled data set."""

    classes_: np.ndarray
    size_joint_feature: int
    powers: ClassVar[tuple[str, ...]] = ()  # optional powers of the model: see ``models.registry``
    task: str = ""  # a key of ``metrics.tasks.TALLIES``; empty: the model has its own scores
    hidden: ClassVar[bool] = False  # outputs must be completed first: see ``models.Latent``
    joint: bool = False  # the loss is a loss of the whole sample: all examples are one block
    # How a chunk of a stream stores inputs ("rows" of one matrix, "sequences" of rows, or any
    # "objects"), and whether the core stores inner products of the rows of a sequence.
    packs: ClassVar[str] = "objects"
    tables: ClassVar[bool] = False
    # Rules for the parameters that can be checked without data; ``initialize`` checks them.
    checks: ClassVar[Checks] = {"bias": BIAS_RULE}
    # Parameters whose name is also a method of the protocol, and the attributes that hold them.
    stored: ClassVar[dict[str, str]] = {"loss": "task_loss"}
    task_loss: Any
    views: ClassVar[Any] = None  # class of ``models.inside`` that shows the weights

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name (scikit-learn's protocol)."""
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
        """Convert X to a form that ``initialize`` and ``bind`` take without reading attributes again.

        Nodes described by attributes become features. A fitted model determines the names of the features;
        before ``initialize`` they come from X. Any other X is returned unchanged. ``n_jobs`` is the number of
        threads.
        """
        return X

    @property
    def needs_all(self) -> str:
        """The reason why training needs all examples at once; empty if they may come in chunks."""
        return "a loss of the whole sample has one slack for all examples" if self.joint else ""

    def example_weights(self, Y: Any, weights: Any) -> Any:
        """Return v_i of the objective, given the weights of the user."""
        return weights

    def portable(self, Y: Any) -> Any:
        """Return outputs that can be split into examples and joined again; the model must be initialised."""
        return Y

    def initialize(self, X: Any, Y: Any) -> None:
        """Learn the classes and the number of features."""
        raise NotImplementedError

    def bind(self, X: Any, Y: Any = None, node_weight: Any = None) -> Examples:
        """Bind the model to these data and hand them to the core; without Y for prediction only."""
        raise NotImplementedError

    def inference(self, x: Any, w: np.ndarray) -> Any:
        """Return the output with the best score."""
        return self.bind_one(x).predict(as_weights(w))[0]

    def loss_augmented_inference(self, x: Any, y: Any, w: np.ndarray) -> Any:
        """Return argmax_y' Delta(y, y') + <w, Psi(x, y')>."""
        return self.bind_one(x, [y]).augmented(as_weights(w))[0]

    def bind_one(self, x: Any, Y: Any = None) -> Any:
        """Bind the model to a single example."""
        return self.bind([x], Y)

    # optional powers

    @property
    def feature_names_(self) -> np.ndarray | None:
        """The names of the features if examples have attributes, else None."""
        encoder = getattr(self, "encoder_", None)
        return None if encoder is None else encoder.get_feature_names_out()

    def read(self, X: Any) -> FeatureRows:
        """Check the inputs and return their feature rows; a model with this method can take a kernel."""
        raise NotImplementedError

    def bind_rows(self, rows: FeatureRows, Y: Any = None, node_weight: Any = None) -> Examples:
        """Bind the model to rows that were read before."""
        raise NotImplementedError

    def factors(self, X: Any, Y: Any = None, node_weight: Any = None) -> Factors:
        """Return the examples as factor graphs in plain arrays, for solvers that work on single factors.

        Only for models whose score and loss are sums over nodes and edges. The arrays hold the variables with
        their domains, the factors with their scopes, the weights that each template shares and the losses of
        the nodes; see ``models.factors``.
        """
        raise NotImplementedError

    def inside(self, w: np.ndarray) -> Any:
        """Return a view of the model with its weights, see ``models.inside``."""
        if self.views is None:
            raise ValueError(
                f"model {type(self).__name__} cannot show its weights by name, as Chain, "
                "Multiclass, Binary and MultiLabel can; use model_.unpack(coef_) if the model has "
                "it"
            )
        return self.views(self, w)

    # model files

    def compact(self, w: np.ndarray) -> tuple[Model, np.ndarray]:
        """Return a model and weights for a model file, which predict as this model does with w."""
        return self, w

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the fitted model as plain values (text and numbers) and arrays, for a model file."""
        raise NotImplementedError

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Model:
        """Rebuild the fitted model that ``state`` wrote; reject any state that no fitted model could have."""
        raise NotImplementedError
