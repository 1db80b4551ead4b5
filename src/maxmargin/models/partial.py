"""Partial: true outputs with some unknown labels, given as None in Y.

    F(w) = R(w) + C sum_i v_i ( max_y [ Delta(y_i, y) + <w, Psi(x_i, y)> ]
                                - max_{y agrees with y_i} <w, Psi(x_i, y)> )

Delta compares known labels only. An output agrees with y_i if it has all known labels of y_i. The best such
output at w is the completion; it is exact if the argmax is exact. F is not convex: ``LatentSVM`` lowers it
round by round (``maxmargin.cccp``). An example without known labels adds 0 to F.

The first completions use weights that were learnt from the known labels alone. For that, the parts of a
sequence or of a graph whose labels are all known become examples.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from maxmargin.data.mapped import encoder_in
from maxmargin.io.quoting import short
from maxmargin.models.chain import Chain, check_node_weight
from maxmargin.models.examples import Examples
from maxmargin.models.graph_input import read_item
from maxmargin.models.latent import Latent
from maxmargin.models.multilabel import MultiLabel
from maxmargin.models.protocol import as_weights, saved_base
from maxmargin.models.registry import UNKNOWN_LABELS, has_power, names_with
from maxmargin.models.soft_truth import SoftTruth
from maxmargin.models.states import Completer


@dataclass(eq=False)
class Completed:
    """A true output with its completion, and a mask of its known labels."""

    labels: Any
    known: np.ndarray

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.labels, dtype=dtype)


def completed(labels: Any, known: list[np.ndarray]) -> list[Completed]:
    """Combine completed outputs with the masks of their known labels."""
    return [Completed(found, mask) for found, mask in zip(labels, known, strict=True)]


@contextmanager
def said_of_outputs() -> Iterator[None]:
    """Replace "fixed[" by "Y[" in error messages: the fixed labels of a prediction are known labels here."""
    try:
        yield
    except ValueError as error:
        raise ValueError(str(error).replace("fixed[", "Y[")) from None


def is_unknown(label: Any) -> bool:
    """Whether a label is None, or NaN in a row of numbers."""
    return label is None or (isinstance(label, float | np.floating) and label != label)


def known_of(y: Any) -> np.ndarray:
    """Return a mask of the known labels of an output."""
    return np.array([not is_unknown(label) for label in y], dtype=bool)


def off_where_unknown(Y: Any) -> np.ndarray:
    """Return a matrix of 0 and 1, with 0 for unknown labels."""
    return np.array([[0 if is_unknown(v) else v for v in y] for y in Y])


def lacks_labels(Y: Any) -> bool:
    """Whether some label of the outputs is unknown."""
    if isinstance(Y, np.ndarray) and Y.dtype.kind not in "Of":
        return False
    return any(lacks_label(y) for y in Y) if isinstance(Y, list | tuple | np.ndarray) else False


def lacks_label(y: Any) -> bool:
    """Whether an output, one label or several, has an unknown label."""
    if not isinstance(y, list | tuple | np.ndarray) or np.ndim(y) == 0:
        return is_unknown(y)
    if isinstance(y, np.ndarray) and y.dtype.kind not in "Of":
        return False
    kinds = set(map(type, y))  # checking every label would take long
    numbers = any(issubclass(kind, float | np.floating) for kind in kinds)
    return type(None) in kinds or (numbers and any(map(is_unknown, y)))


def known_weights(Y: Any, sample_weight: Any) -> Any:
    """Return the weights of examples; an example without known labels gets weight 0."""
    known = np.array([known_of([y] if np.ndim(y) == 0 else y).any() for y in Y])
    if known.all():
        return sample_weight
    return np.where(known, 1.0 if sample_weight is None else sample_weight, 0.0)


class Partial(Latent):
    """A model whose true outputs may have unknown labels; fit it with ``LatentSVM``.

    Parameters
    ----------
    model : Chain, FactorGraph, MultiLabel, Multiclass or Binary
        For MultiLabel, Y is a matrix of 0, 1 and None (or NaN); sets cannot express unknown labels.
    """

    inner_: Any
    classes_: np.ndarray
    flat: Any

    own: ClassVar[bool] = False  # type: ignore[assignment]
    learns_from_known: ClassVar[bool] = True

    def __init__(self, model: Any):
        self.model = model

    def initialize(self, X: Any, Y: Any) -> None:
        """Initialise the model from the examples or parts of examples whose labels are known."""
        if not has_power(self.model, UNKNOWN_LABELS):
            names = ", ".join(names_with(UNKNOWN_LABELS))
            raise TypeError(
                f"Partial: model must be one of {names}, got {type(self.model).__name__}"
            )
        inner = clone(self.model, safe=False)
        if inner.joint:
            raise ValueError(
                f"Partial: {short(inner.task_loss)} is a loss of the whole sample, which needs "
                "all labels; use a loss of single examples"
            )
        kept, known = self.known_part(X, Y)
        if len(known) == 0:
            raise ValueError("Y holds no known label; at least one is needed")
        inner.initialize(kept, known)
        if encoder_in(X) is not None:
            inner.keep_names(X)  # the parts of examples lack the names of attributes
        self._settle(inner)
        # raises ValueError for outputs of wrong length, which placeholders would hide
        if not self.flat:
            self.over(X, self.begin(X, Y, 0))

    @classmethod
    def over_fitted(cls, model: Any) -> Partial:
        """Wrap a fitted model, for outputs with unknown labels."""
        made = cls(model)
        made._settle(model)
        return made

    def _settle(self, inner: Any) -> None:  # type: ignore[override]
        self.inner_, self.classes_, self.flat = inner, inner.classes_, inner.flat
        self.size_joint_feature: int = inner.size_joint_feature

    def inside(self, w: np.ndarray) -> Any:
        return self.inner_.inside(w)

    def known_part(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """Return the data with known labels only, as examples whose outputs are completely known."""
        return self._known(X, Y)[:2]

    def _known(self, X: Any, Y: Any) -> tuple[Any, Any, list[int]]:
        """Do as ``known_part`` does, and also return the example that each part comes from."""
        if self.model.flat or isinstance(self.model, MultiLabel):
            whole = [i for i, y in enumerate(Y) if known_of([y] if np.ndim(y) == 0 else y).all()]
            if self.model.flat:
                return X[whole], [Y[i] for i in whole], whole
            # If no row is completely known, treat unknown labels as off.
            whole = whole or list(range(len(Y)))
            return X[whole], off_where_unknown(Y)[whole], whole
        cut = cut_sequence if isinstance(self.model, Chain) else cut_graph
        parts = [(*part, i) for i in range(len(Y)) for part in cut(X[i], Y[i], i)]
        return [x for x, _, _ in parts], [y for _, y, _ in parts], [i for _, _, i in parts]

    def begin(self, X: Any, Y: Any, seed: int) -> list[Any]:
        """Return completions that use no weights."""
        if isinstance(self.inner_, Chain):
            return self.completions(X, Y, np.zeros(self.size_joint_feature))
        return completed(self._filled(X, Y), self._masks(Y))

    def _filled(self, X: Any, Y: Any) -> Any:
        """Return Y with unknown labels replaced by some label of the model."""
        if self.flat:
            first = self.classes_[0]
            return [first if is_unknown(y) else y for y in Y]
        if isinstance(self.inner_, MultiLabel):
            return off_where_unknown(Y)
        return [
            [
                a if is_unknown(label) else label
                for label, a in zip(y, self._any(x, y, i), strict=True)
            ]
            for i, (x, y) in enumerate(zip(X, Y, strict=True))
        ]

    def _any(self, x: Any, y: Any, i: int) -> list[Any]:
        """Return, for each node of a graph, some label that the node may have."""
        item, model = read_item(x, i), self.inner_
        types = item.type_codes(model.types_, f"X[{i}]")
        if len(types) != len(y):
            raise ValueError(f"X[{i}] has {len(types)} nodes, but Y[{i}] has {len(y)} labels")
        return [model.label_sets_[t].classes[0] for t in types]

    def _masks(self, Y: Any) -> list[np.ndarray]:
        """Return a mask of the known labels of each output."""
        return [known_of([y] if self.flat else y) for y in Y]

    def completer(self, X: Any, Y: Any, n_jobs: int = 1) -> Completer:
        """Return a function of w that finds the best output that agrees with each true output."""
        known, best = self._masks(Y), self._best(X, Y, n_jobs)
        return lambda w: completed(best(as_weights(w)), known)

    def _best(self, X: Any, Y: Any, n_jobs: int) -> Callable[[np.ndarray], Any]:
        """Return a function of w that finds the labels of these completions."""
        if self.flat:
            rows = self.inner_.bind(X)
            return lambda w: [
                found if is_unknown(y) else y
                for found, y in zip(rows.predict(w, n_jobs), Y, strict=True)
            ]
        if isinstance(self.inner_, Chain):
            return self._best_around(X, Y, n_jobs)
        filled, masks = self._filled(X, Y), [known_of(y).astype(np.float64) for y in Y]
        examples: Any = self._counting().bind(X, filled, masks)

        def best(w: np.ndarray) -> list[np.ndarray]:
            found = examples.decode(examples.answers.complete(w, n_jobs))
            # An approximate argmax may miss a known label: put the known labels back.
            return [
                np.where(mask > 0, np.asarray(y, dtype=np.asarray(z).dtype), z)
                for z, y, mask in zip(found, filled, masks, strict=True)
            ]

        return best

    def _counting(self) -> Any:
        """Return the model with a loss that counts mistakes."""
        twin = copy.copy(self.inner_)
        twin.task_loss = "hamming"
        twin.set_loss()
        return twin

    def _best_around(self, X: Any, Y: Any, n_jobs: int) -> Callable[[np.ndarray], Any]:
        """Return a function of w that finds the best legal sequences that have the known labels."""
        fixed = [[None if is_unknown(label) else label for label in y] for y in Y]
        with said_of_outputs():
            examples: Any = self.inner_.bind(X).around(fixed)

        def best(w: np.ndarray) -> list[np.ndarray]:
            with said_of_outputs():
                return examples.predict(w, n_jobs)

        return best

    def example_weights(self, Y: Any, sample_weight: Any) -> Any:
        """Return the weights of examples; an example without known labels has weight 0."""
        return known_weights(Y, sample_weight)

    def over_known(self, X: Any, Y: Any, sample_weight: Any) -> tuple[Examples, Any]:
        """Bind the model to the parts with known labels, and return their weights too.

        Transition rules do not apply: runs of known labels may begin and end anywhere.
        """
        free = copy.copy(self.inner_)
        free.rules_ = None
        X, Y, owners = self._known(X, Y)
        weights = None if sample_weight is None else np.asarray(sample_weight)[owners]
        return free.bind(X, Y), weights

    def over(
        self, X: Any, outputs: Any = None, executor: Any = None, node_weight: Any = None
    ) -> Examples:
        """Bind the examples with complete outputs; only labels that were known count in the loss."""
        if outputs is None:
            return self.inner_.bind(X)
        if not all(isinstance(z, Completed) for z in outputs):
            return self.inner_.bind(X, outputs)
        labels: Sequence[Any] = [z.labels for z in outputs]
        if self.flat:
            return self.inner_.bind(X, labels, node_weight)
        masks = [z.known.astype(np.float64) for z in outputs]
        if node_weight is not None:
            given = check_node_weight(node_weight, np.array([len(mask) for mask in masks]))
            masks = [mask * own for mask, own in zip(masks, given, strict=True)]
        matrix = isinstance(self.inner_, MultiLabel)
        return self.inner_.bind(X, np.array(labels) if matrix else labels, masks)

    def summed(self, X: Any, Y: Any, node_weight: Any = None) -> Examples:
        """Bind the examples with any completions; add a ``SoftTruth``, which sums over all of them."""
        outputs = self.begin(X, Y, 0)
        examples = self.over(X, outputs, node_weight=node_weight)
        nowhere = np.zeros(self.size_joint_feature)
        if self.flat:
            unknown = np.array([not z.known.all() for z in outputs], dtype=np.float64)
            examples.soft_truth = SoftTruth(examples, nowhere, unknown, 0.0)
        else:
            twin = copy.copy(self)
            twin.inner_ = self._counting()
            examples.soft_truth = SoftTruth(twin.over(X, outputs), nowhere)
        return examples

    def observed(self, outputs: Any) -> Any:
        """Return the outputs unchanged, because predictions have no hidden part."""
        return outputs

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return Delta over the known labels."""
        if self.flat:
            return 0.0 if is_unknown(y) else self.inner_.loss(y, y_hat)
        known = known_of(y)
        filled = np.where(known, np.asarray(y, dtype=object), np.asarray(y_hat, dtype=object))
        if isinstance(self.inner_, MultiLabel):
            filled = filled.astype(np.int64)
        return self.inner_.loss(list(filled) if isinstance(self.inner_, Chain) else filled, y_hat)

    def agreement(self, y: Any, y_hat: Any) -> tuple[float, float]:
        """Return the number of correct labels among the known labels, and the number of known labels."""
        pairs = [(y, y_hat)] if self.flat else list(zip(y, y_hat, strict=True))
        known = [a == b for a, b in pairs if not is_unknown(a)]
        return float(sum(known)), len(known)

    def inference(self, x: Any, w: np.ndarray) -> Any:
        """Return the best output."""
        return self.inner_.inference(x, w)

    def unpack(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """Return the named parts of w, with the names of the model."""
        return self.inner_.unpack(w)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        state, arrays = self.inner_.state()
        return {"base": {"kind": type(self.inner_).__name__, **state}}, arrays

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Partial:
        return cls.over_fitted(saved_base(state, arrays, names_with(UNKNOWN_LABELS)))


def cut_sequence(x: Any, y: Any, i: int) -> list[tuple[Any, list[Any]]]:
    """Return the runs of known labels of a sequence with their inputs; edges go with their nodes."""
    paired = isinstance(x, tuple) and len(x) == 2
    parts = []
    for known, run in groupby(range(len(y)), lambda t: not is_unknown(y[t])):
        places = list(run)
        a, b = places[0], places[-1] + 1
        if known:
            part = (x[0][a:b], x[1][a : b - 1]) if paired else x[a:b]
            parts.append((part, list(y[a:b])))
    return parts


def cut_graph(x: Any, y: Any, i: int) -> list[tuple[Any, list[Any]]]:
    """Return the subgraph of the nodes whose labels are known."""
    item, known = read_item(x, i), known_of(y)
    if len(known) != item.n_nodes:
        raise ValueError(f"X[{i}] has {item.n_nodes} nodes, but Y[{i}] has {len(known)} labels")
    if not known.any():
        return []
    numbers = np.cumsum(known) - 1
    joined = known[item.edges].all(axis=1)
    nodes, types = item.nodes, item.types
    if isinstance(nodes, Mapping):
        nodes = {
            name: matrix[known[np.array([t == name for t in types])]]
            for name, matrix in nodes.items()
        }
    else:
        nodes = nodes[known] if hasattr(nodes, "shape") else np.asarray(nodes)[known]
    features = None if item.edge_features is None else item.edge_features[joined]
    cliques = {
        name: numbers[members[known[members].all(axis=1)]] for name, members in item.cliques.items()
    }
    kept_types = None if types is None else types[known]
    part = (nodes, numbers[item.edges[joined]], features, kept_types, cliques)
    return [(part, [label for label, kept in zip(y, known, strict=True) if kept])]
