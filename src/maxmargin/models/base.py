"""The protocol of a model, and a model bound to data.

A model written by a user is any object with

    initialize(X, Y)                     look at the data once: sizes, classes
    size_joint_feature                   length of w
    joint_feature(x, y)                  Psi(x, y)
    loss(y, y_hat)                       Delta(y, y_hat) >= 0, zero for y_hat = y
    inference(x, w)                      argmax_y <w, Psi(x, y)>
    loss_augmented_inference(x, y, w)    argmax_y' Delta(y, y') + <w, Psi(x, y')>

and, where it can, ``batch_loss_augmented_inference(X, Y, w)`` (a list of outputs),
``slack_rescaled_inference(x, y, w)`` (argmax_y' Delta (1 + <w, psi>)), ``inference_k_best(x, w, k)``,
``agreement(y, y_hat)`` (right and all parts of an output, for ``StructuralSVM.score``), and
``exact = False`` if its argmax may miss the best output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from maxmargin.data.arrays import count_of, is_number
from maxmargin.data.labels import LabelSet
from maxmargin.data.memory import FeatureRows

if TYPE_CHECKING:
    from maxmargin.models.factors import Factors

PROTOCOL = (
    "initialize",
    "joint_feature",
    "loss",
    "inference",
    "loss_augmented_inference",
)


class OracleError(ValueError):
    """A model's argmax contradicts its own features or loss."""


LISTED = 10_000  # violators of an example that a sum lists one by one; more are bracketed
WORK = 20_000_000  # steps of such a bracket, about
NOISE = 1e-6  # relative: scores of two outputs that differ by less are equal


def beaten(example: int, lead: float) -> OracleError:
    """The error for an oracle that missed a known output."""
    return OracleError(
        f"loss_augmented_inference of example {example} returned an output worse, by {lead:.3g}, than a "
        "known one (the true one, or one it returned before); if it is approximate, set exact = False "
        "on the model"
    )


@dataclass(frozen=True)
class Written:
    """All constraints of all examples, written down: what needs no oracle.

    ``core`` are the data that they are. ``scale`` is the size of a loss where single
    precision is worth having. Where output 0 of the structure is the true one, ``truth`` has the codes to
    translate by.
    """

    core: Any
    scale: float | None = None
    truth: np.ndarray | None = None

    def translate(self, blocks: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Outputs of the model as numbers of the structure, and back."""
        return outputs if self.truth is None else outputs ^ self.truth[blocks]


class Examples(ABC):
    """A model bound to data: all that a problem asks of it.

    Ensures: ``slacks`` and ``combine`` follow the definition in double precision; an output is the
    model's own affair, kept by solvers and handed back in ``combine``.
    """

    n: int
    dimension: int
    exact: bool = True
    # The argmax tries every output, which costs no more than a few of them.
    enumerates: bool = False
    kernelised: bool = False  # a step changes all of w: in double precision and by one thread
    core: Any = None  # the compiled data set, where there is one
    sums_exact: bool = False  # ``sums`` tries every output: floors and ceilings are equal
    sums_bounded: bool = (
        False  # ``sums`` has proven ceilings, which may be infinite for want of room
    )

    @abstractmethod
    def slacks(self, w: np.ndarray, n_jobs: int, rescaling: str = "margin") -> np.ndarray:
        """xi_i(w) of every example, in the given rescaling."""

    @abstractmethod
    def combine(
        self,
        blocks: np.ndarray,
        multipliers: np.ndarray,
        outputs: Any,
        rescaling: str = "margin",
        n_jobs: int = 1,
    ) -> tuple[float, np.ndarray]:
        """Sums of the offsets and of the vectors of the planes of kept outputs, with multipliers."""

    def select(
        self, blocks: np.ndarray, outputs: Any, columns: np.ndarray, rescaling: str = "margin"
    ) -> np.ndarray:
        """Some weights of the vectors of kept outputs: a row for each."""
        raise NotImplementedError

    def written(self) -> Written | None:
        """All constraints, where they are few enough to be written down (margin rescaling)."""
        return None

    def check_rescaling(self, rescaling: str) -> None:
        """Refuse a rescaling that the model cannot answer, before any work."""
        return

    def metric(self, v: np.ndarray) -> np.ndarray:
        """M v, where <u, M v> is the inner product of weights: v itself unless there is a kernel."""
        return v

    def fingerprint(self, rescaling: str = "margin") -> str:
        """What kept planes depend on besides the model; empty where planes are made anew from outputs."""
        return ""

    def check_summed(self) -> None:
        """Refuse hinge="sum" where there is no box of multipliers, before any work."""
        return

    def check_dual(self) -> None:
        """Refuse data on which multipliers mean nothing."""
        return

    def check_weights(self, sample_weight: Any) -> None:
        """Refuse weights of examples where the loss has none."""
        return

    def is_exact(self, rescaling: str) -> bool:
        """Whether the argmax of this rescaling is always the best output."""
        return self.exact

    def is_bounded(self, rescaling: str) -> bool:
        """Whether ``slack_bounds`` has proven ceilings."""
        return self.is_exact(rescaling)

    def slack_bounds(
        self, w: np.ndarray, n_jobs: int, rescaling: str = "margin"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Slacks of every example as far as the argmax found them, and what they cannot exceed."""
        found = self.slacks(w, n_jobs, rescaling)
        proven = self.is_exact(rescaling)
        return found, found if proven else np.full_like(found, np.inf)

    def relaxed_bounds(self, w: np.ndarray, n_jobs: int) -> tuple[np.ndarray, np.ndarray]:
        """Slacks of the linear relaxation as far as they were found, and what they cannot exceed."""
        return self.slack_bounds(w, n_jobs)

    def sums(
        self, w: np.ndarray, n_jobs: int, rescaling: str = "margin"
    ) -> tuple[np.ndarray, np.ndarray]:
        """sum_y max(0, s_i(y)) of every example, from below and from above (hinge="sum").

        Where nothing is known but the argmax: no less than its slack, and no bound above.
        """
        found = self.slacks(w, n_jobs, rescaling)
        return found, np.full_like(found, np.inf)

    def distinct(self, blocks: np.ndarray, outputs: Any, rescaling: str = "margin") -> bool:
        """Whether no output of a block stands twice."""
        sizes, labels = self.output_sizes(blocks), np.ascontiguousarray(outputs)
        if (sizes == 1).all():
            pairs = blocks * (int(labels.max(initial=0)) + 1) + labels
            return len(np.unique(pairs)) == len(blocks)
        ends = np.cumsum(sizes)
        places = zip(blocks.tolist(), (ends - sizes).tolist(), ends.tolist(), strict=True)
        return len({(i, labels[a:b].tobytes()) for i, a, b in places}) == len(blocks)

    def output_sizes(self, blocks: np.ndarray) -> np.ndarray:
        """How many entries of ``Support.outputs`` an output of each of these blocks takes."""
        return np.ones(len(blocks), dtype=np.int64)

    def table_bytes(self) -> int:
        """What the core's tables of inner products take, where it builds some."""
        return 0

    @abstractmethod
    def worst_outputs(
        self, w: np.ndarray, n_jobs: int, rescaling: str = "margin"
    ) -> tuple[np.ndarray, Any]:
        """xi_i(w) of every example, and the outputs that attain them."""

    @abstractmethod
    def cache(self, capacity: int, rescaling: str = "margin") -> Any:
        """The last outputs of each example: ``add`` takes one of each, ``best`` tells the worst kept ones."""

    def check_slacks(
        self, w: np.ndarray, slacks: np.ndarray, blocks: np.ndarray, outputs: Any, exact: bool
    ) -> None:
        """Hold the slacks of an exact pass against kept outputs; a compiled argmax needs no check."""
        return

    def try_argmax(self, rescaling: str) -> int:
        """Try the argmax before training; returns how often it was asked. A compiled one needs no trial."""
        return 0

    def check_ceilings(self, w: np.ndarray, ceilings: np.ndarray, rescaling: str) -> None:
        """Hold what slacks cannot exceed against predictions at w; a compiled argmax needs no check."""
        return

    @abstractmethod
    def predict(self, w: np.ndarray, n_jobs: int) -> Any:
        """argmax_y <w, Psi(x_i, y)> for every example."""


class CompiledExamples(Examples):
    """A built-in model on data, answered by the core; ``ask`` for margin, ``ask_slack`` for slack."""

    ask: Any
    labels: LabelSet

    def take(self, data: Any) -> None:
        """Answer for these data, which the core has now."""
        self.core, self.ask = data, data.exact("margin")
        self.n, self.dimension = self.ask.blocks, self.ask.dimension

    def exactly(self, rescaling: str) -> Any:
        """The core's exact answers in a rescaling."""
        if rescaling == "margin":
            return self.ask
        if not hasattr(self, "ask_slack"):
            self.ask_slack = self.core.exact(rescaling)
        return self.ask_slack

    def is_exact(self, rescaling: str) -> bool:
        return self.exactly(rescaling).exact

    def is_bounded(self, rescaling: str) -> bool:
        return True

    def slack_bounds(
        self, w: np.ndarray, n_jobs: int, rescaling: str = "margin"
    ) -> tuple[np.ndarray, np.ndarray]:
        if self.is_exact(rescaling):
            return super().slack_bounds(w, n_jobs, rescaling)
        return self.exactly(rescaling).slack_bounds(w, n_jobs)

    def check_summed(self) -> None:
        if not hasattr(self.core, "box"):
            kind = type(self.core).__name__.removesuffix("Data")
            raise ValueError(f"hinge='sum' is not solved for models of the kind {kind}; use 'max'")

    def sums(
        self, w: np.ndarray, n_jobs: int, rescaling: str = "margin"
    ) -> tuple[np.ndarray, np.ndarray]:
        return self.exactly(rescaling).sums(w, n_jobs, LISTED, WORK)

    def knows(self, outputs: np.ndarray, blocks: np.ndarray) -> bool:
        """Whether outputs of these blocks that were kept before hold this model's labels only."""
        return self.ask.knows(blocks, np.ascontiguousarray(outputs, dtype=np.int32))

    def slacks(self, w: np.ndarray, n_jobs: int, rescaling: str = "margin") -> np.ndarray:
        return self.exactly(rescaling).slacks(w, n_jobs, False)[0]

    def worst_outputs(
        self, w: np.ndarray, n_jobs: int, rescaling: str = "margin"
    ) -> tuple[np.ndarray, np.ndarray]:
        return self.exactly(rescaling).slacks(w, n_jobs, True)

    def cache(self, capacity: int, rescaling: str = "margin") -> Any:
        return self.core.cache(rescaling, capacity)

    def combine(self, blocks, multipliers, outputs, rescaling="margin", n_jobs=1):
        labels = np.ascontiguousarray(outputs, dtype=np.int32)
        return self.exactly(rescaling).combine(blocks, multipliers, labels, n_jobs)

    def select(self, blocks, outputs, columns, rescaling="margin"):
        labels = np.ascontiguousarray(outputs, dtype=np.int32)
        rows = self.exactly(rescaling).select(blocks, labels, columns)
        return rows.reshape(len(blocks), len(columns))


class Model(BaseEstimator):
    """Base of the built-in models: the protocol on top of a compiled data set."""

    classes_: np.ndarray
    size_joint_feature: int
    streams: ClassVar[bool] = True  # chunks of examples can be cut up and joined again
    task_loss: Any  # the parameter ``loss``: the attribute of that name is the protocol's method

    @property
    def joint(self) -> bool:
        """Whether the loss is one of the whole sample: all examples are one block."""
        return False

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name (scikit-learn's protocol)."""
        names = self._get_param_names()
        return {name: self.task_loss if name == "loss" else getattr(self, name) for name in names}

    def set_params(self, **params: Any) -> Model:
        """Set parameters by name (scikit-learn's protocol)."""
        known = self._get_param_names()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"{name!r} is no parameter of {type(self).__name__}, which has {known}"
                )
            setattr(self, "task_loss" if name == "loss" else name, value)
        return self

    def bind(self, X: Any, Y: Any = None, node_weight: Any = None) -> Examples:
        """The model on these data, ready for the core."""
        raise NotImplementedError

    def read(self, X: Any) -> FeatureRows:
        """The feature rows of these inputs, checked; a model that has them can take a kernel."""
        raise NotImplementedError

    def bind_rows(self, rows: FeatureRows, Y: Any = None, node_weight: Any = None) -> Examples:
        """The model on rows that are read already."""
        raise NotImplementedError

    def factors(self, X: Any, Y: Any = None, node_weight: Any = None) -> Factors:
        """The examples as factor graphs in plain arrays, for solvers that work factor by factor.

        An optional power, of models whose score and loss are sums over nodes and edges: variables with their
        domains, factors with scopes, weights shared by template, losses of the nodes; see ``models.factors``.
        """
        raise NotImplementedError

    def compact(self, w: np.ndarray) -> tuple[Model, np.ndarray]:
        """What a model file must hold to predict as this model does with w."""
        return self, w

    def initialize(self, X: Any, Y: Any) -> None:
        """Learn the classes and the number of features."""
        raise NotImplementedError

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The fitted model as plain values (text and numbers) and arrays, for a model file."""
        raise NotImplementedError

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Model:
        """The fitted model that ``state`` wrote; raises what no fitted model could have written."""
        raise NotImplementedError

    def inference(self, x: Any, w: np.ndarray) -> Any:
        """The output with the best score."""
        return self.bind([x]).predict(np.ascontiguousarray(w, dtype=np.float64), 1)[0]


def check_protocol(model: Any) -> None:
    """Refuse an object that is not a model, naming what it lacks."""
    missing = [name for name in PROTOCOL if not callable(getattr(model, name, None))]
    if missing:
        raise TypeError(
            f"model {type(model).__name__} is no model: it lacks {', '.join(missing)}; "
            "see maxmargin.models.base for the protocol"
        )


def check_lengths(X: Any, Y: Any) -> None:
    """Refuse data of different length, or none."""
    n = count_of(X, "X")
    if n == 0:
        raise ValueError("X is empty: at least one example is needed")
    if Y is not None and n != count_of(Y, "Y"):
        raise ValueError(f"X has {n} examples, but Y has {count_of(Y, 'Y')}")


def check_bias(bias: Any) -> None:
    """Refuse a bias that is no number, or that could never act."""
    if bias is not None and (not is_number(bias) or bias == 0):
        raise ValueError(f"bias must be None or a number other than 0, got {bias!r}")


def no_cost(label: Any) -> ValueError:
    """The error for a true label without a row in the cost matrix."""
    return ValueError(f"the label {label!r} is not among the classes of the model: it has no cost")


def check_classes(classes: np.ndarray) -> None:
    """Refuse a single class: there would be nothing to learn."""
    if len(classes) < 2:
        raise ValueError(
            f"at least 2 classes are needed, but Y holds one class only: {classes.tolist()}"
        )
