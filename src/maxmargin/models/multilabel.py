"""MultiLabel: a set of labels for a row of features, with weights for pairs of labels that occur together.

    <w, Psi(x, y)> = sum_l y_l <w_l, x> + sum over pairs (l, m) of y_l y_m A_lm          y in {0, 1}^L
    Delta(y, y')   = sum_l weight_l cost[y_l, y'_l]

A factor is zero unless its label is on, or, for a pair, both labels are on.

``coef_``: (L, d) ravelled, label by label (d + 1 with a bias), then one weight for each pair, in the order of
``pairs_``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from maxmargin.data.arrays import array_of, check_lengths, check_start, floats
from maxmargin.data.attributes import Described, encoder_of, saved_attributes
from maxmargin.data.labels import LabelSet, is_matrix, members, ordered, placed
from maxmargin.data.memory import rows_of_table, width_of_table
from maxmargin.io.fields import (
    MOST_FEATURES,
    FieldError,
    bias_of,
    count,
    entries_of,
    flag,
    table,
)
from maxmargin.io.quoting import short
from maxmargin.losses import (
    Hamming,
    LabelF1,
    cost_matrix,
    label_loss,
    sample_loss_state,
    saved_costs,
    saved_sample_loss,
)
from maxmargin.models.constraints import Graph
from maxmargin.models.factors import Bank, EdgeType, Factors, GraphExamples, NodeType, Shape
from maxmargin.models.graph_input import is_forest
from maxmargin.models.graph_model import GraphModel, saved_method
from maxmargin.models.inside import LabelsInside
from maxmargin.models.label_samples import LabelSample
from maxmargin.models.protocol import as_weights, weights_and_bias
from maxmargin.models.registry import LABELS

OFF_ON = np.array([0, 1])


class LabelGraph(Graph):
    """An example as constraints see it: a node for each label, named by the label; 0 is off, 1 is on."""

    def __init__(self, labels: LabelSet, edges: np.ndarray):
        self.labels = labels
        self.edges: np.ndarray = labels.classes[edges] if len(edges) else edges
        self.n_nodes: int = len(labels)

    def node(self, name: Any) -> int:
        found = self.labels.code.get(name) if isinstance(name, Hashable) else None
        if found is None:
            raise ValueError(f"constraints: {short(name)} is not among the labels of the model")
        return found

    def code(self, node: int, label: Any) -> int | None:
        return int(label) if label in (0, 1) else None


class MultiLabelExamples(GraphExamples):
    """Rows with their sets of labels, in the core."""

    def __init__(self, model: MultiLabel, factors: Factors):
        self.model = model
        super().__init__(factors, model.inference_method, model.iterations)

    def output(self, i: int, codes: np.ndarray) -> Any:
        """Return the labels of one example in the user's form: a row of 0 and 1, or a tuple of labels."""
        if not self.model.sets_:
            return codes.astype(np.int64)
        return tuple(self.model.labels_.decode(np.flatnonzero(codes)).tolist())

    def decode(self, codes: np.ndarray) -> Any:
        if self.model.sets_:
            return super().decode(codes)
        return codes.reshape(self.n, -1).astype(np.int64)

    def label_classes(self) -> list[np.ndarray]:
        return [OFF_ON] * len(self.model.labels_)

    def graph(self, i: int) -> LabelGraph:
        return LabelGraph(self.model.labels_, self.model.pair_codes_)

    def constrained(self, w: np.ndarray, constraints: Any) -> Any:
        outputs = super().constrained(w, constraints)
        return outputs if self.model.sets_ else np.array(outputs)


class MultiLabel(Described, GraphModel):
    """Sets of labels.

    Parameters
    ----------
    pairs : "all", "none", or a sequence of pairs of labels
        Pairs that have a weight, which counts if both labels are on.
    loss : "hamming", "mean-hamming", losses.Hamming(...), or costs as for losses.Hamming, over [0, 1]
        The number of wrong labels, or their share. Costs (2,) are the costs of a false alarm and of a miss.
        With pairs="none" also a loss of the whole sample: "micro-f1", "macro-f1", losses.MicroF1(beta),
        losses.MacroF1(beta).
    bias : float or None
        Append a constant feature of this value to every example.
    inference : "auto", "tree", "cut", "lp" or "milp"
        The method of the argmax; "auto" chooses for each example.
    iterations : int
        Limit on the iterations of message passing if "lp" is used.
    classes : sequence or None
        All labels; if Y is a matrix, the names of its columns.
    """

    labels_: LabelSet
    pair_codes_: np.ndarray

    powers: ClassVar[tuple[str, ...]] = (LABELS, *GraphModel.powers)
    packs = "rows"
    views: ClassVar[Any] = LabelsInside
    task = "multilabel"
    flat: ClassVar[bool] = False

    def __init__(
        self,
        pairs: Any = "all",
        loss: Any = "hamming",
        bias: float | None = None,
        inference: str = "auto",
        iterations: int = 100,
        classes: Any = None,
    ):
        self.pairs = pairs
        self.task_loss = loss
        self.bias = bias
        self.inference_method = inference
        self.iterations = iterations
        self.classes = classes

    def initialize(self, X: Any, Y: Any) -> None:
        """Learn the labels and the number of features."""
        check_start(X, None, self)
        X = self.learn_attributes(X)
        self.n_features_: int = width_of_table(X, "X", "2 dimensions (examples, features)")
        self.sets_: bool = not is_matrix(Y)
        if self.sets_:
            every = (label for i, y in enumerate(Y) for label in members(y, f"Y[{i}]"))
            given = self.classes
            with placed(Y, nested=True):
                named = LabelSet(list(every)) if given is None else LabelSet(given, "classes")
            self.labels_ = named
        else:
            width = int(np.shape(Y)[1] if not sp.issparse(Y) else Y.shape[1])
            self.labels_ = ordered(range(width) if self.classes is None else self.classes)
        self.classes_: np.ndarray = self.labels_.classes
        if len(self.labels_) == 0:
            name = "Y has" if self.classes is None else "classes has"
            raise ValueError(f"{name} no labels; at least one is needed")
        self.encode(Y)
        self._learn_pairs()
        self.forests_: bool = is_forest(len(self.labels_), self.pair_codes_, {})
        self.set_loss()
        self._measure()

    def _learn_pairs(self) -> None:
        n = len(self.labels_)
        if isinstance(self.pairs, str):
            if self.pairs not in ("all", "none"):
                raise ValueError(
                    f'pairs must be "all", "none" or pairs of labels, got {short(self.pairs)}'
                )
            found = np.argwhere(np.triu(np.ones((n, n), dtype=bool), 1))
            self.pair_codes_ = found if self.pairs == "all" else found[:0]
            return
        known: dict[tuple[int, int], None] = {}
        if not isinstance(self.pairs, Iterable) or getattr(self.pairs, "shape", None) == ():
            raise ValueError(
                f'pairs must be "all", "none" or pairs of labels, got {short(self.pairs)}'
            )
        for p, pair in enumerate(self.pairs):
            if not isinstance(pair, Iterable) or len(tuple(pair)) != 2:
                raise ValueError(f"pairs[{p}] must be two labels, got {short(pair)}")
            found = self.labels_.encode(list(pair), f"pairs[{p}]")
            if (found < 0).any() or found[0] == found[1]:
                raise ValueError(
                    f"pairs[{p}] must be two different labels of the model, got {short(pair)}"
                )
            known[int(found.min()), int(found.max())] = None
        self.pair_codes_ = np.array(sorted(known), dtype=np.int64).reshape(-1, 2)

    @property
    def joint(self) -> bool:  # type: ignore[override]
        return isinstance(label_loss(self.task_loss), LabelF1)

    def set_loss(self) -> None:
        """Set the costs of mistakes from the parameter ``loss``."""
        spec = label_loss(self.task_loss)
        if isinstance(spec, LabelF1) and len(self.pair_codes_):
            raise ValueError(
                f"loss: {short(spec)} has an exact oracle only for labels without weights for "
                'pairs; set pairs="none"'
            )
        self.hamming_: Hamming = Hamming() if isinstance(spec, LabelF1) else spec
        self.cost_: np.ndarray = cost_matrix(self.hamming_.costs, OFF_ON)

    def _measure(self) -> None:
        width = self.n_features_ + (self.bias is not None)
        self.pairs_: list[tuple[Any, ...]] = [
            tuple(pair) for pair in self.classes_[self.pair_codes_].tolist()
        ]
        self.size_joint_feature: int = len(self.labels_) * width + len(self.pairs_)

    def encode(self, Y: Any) -> np.ndarray:
        """Convert Y to an (n, L) array of 0 and 1; raise ValueError for outputs of another form."""
        L = len(self.labels_)
        if is_matrix(Y):
            table = array_of(Y.toarray() if sp.issparse(Y) else Y, "Y")
            if table.shape[1] != L:
                raise ValueError(f"Y has {table.shape[1]} columns, but the model has {L} labels")
            wrong = ~np.isin(table, (0, 1))
            if wrong.any():
                i, j = np.argwhere(wrong)[0]
                raise ValueError(f"Y[{i}, {j}] must be 0 or 1, got {short(table[i, j])}")
            return table.astype(np.int32)
        codes = np.zeros((len(Y), L), dtype=np.int32)
        for i, y in enumerate(Y):
            labels = members(y, f"Y[{i}]")
            found = self.labels_.encode(labels, f"Y[{i}]")
            if (found < 0).any():
                unknown = labels[int(np.argmin(found))]
                raise ValueError(
                    f"Y[{i}] has {short(unknown)}, which is not among the classes of the model"
                )
            codes[i, found] = 1
        return codes

    def portable(self, Y: Any) -> np.ndarray:
        """Return Y as a matrix of 0 and 1; a list of rows could be mistaken for sets of labels."""
        return self.encode(Y).astype(np.int8)

    def bind(self, X: Any, Y: Any = None, node_weight: Any = None) -> Any:
        """Bind the model to these data; without Y for prediction only."""
        if Y is not None and self.joint:
            if node_weight is not None:
                raise ValueError(
                    f"node_weight must be None, because {short(self.task_loss)} is a loss of the "
                    "whole sample"
                )
            return self._sample(X, Y)
        return MultiLabelExamples(self, self.factors(X, Y, node_weight))

    def _sample(self, X: Any, Y: Any) -> LabelSample:
        """Bind the examples as one block, for a loss of the whole sample."""
        spec = label_loss(self.task_loss)
        assert isinstance(spec, LabelF1)
        rows = rows_of_table(self.convert(X), self.n_features_, self.bias)
        codes = None if Y is None else self.encode(Y)
        if codes is not None and len(codes) != rows.core.n_rows:
            raise ValueError(f"X has {rows.core.n_rows} examples, but Y has {len(codes)}")
        return LabelSample(rows, self.labels_, codes, spec)

    def factors(self, X: Any, Y: Any = None, node_weight: Any = None) -> Factors:
        check_lengths(X, None)
        rows = rows_of_table(self.convert(X), self.n_features_, self.bias)
        n, L, P = int(rows.offsets[-1]), len(self.labels_), len(self.pairs_)
        codes = np.zeros((n, L), dtype=np.int32) if Y is None else self.encode(Y)
        if len(codes) != n:
            raise ValueError(f"X has {n} examples, but Y has {len(codes)}")
        banks = [Bank(rows, L, self.bias)] + [Bank(None, P)] * (P > 0)
        nodes = [NodeType(0, np.array([-1, k], dtype=np.int32), self.cost_) for k in range(L)]
        edges = [
            EdgeType(a, b, 1, np.array([[-1, -1], [-1, p]], dtype=np.int32))
            for p, (a, b) in enumerate(self.pair_codes_.tolist())
        ]
        shape = Shape(np.arange(L), self.pair_codes_, np.arange(P))
        weight = self._node_weight(node_weight, n)
        which, place = np.zeros(n, dtype=np.int32), np.repeat(np.arange(n), L)
        return Factors(banks, nodes, edges, [shape], which, place, codes.ravel(), weight.ravel())

    def _node_weight(self, node_weight: Any, n: int) -> np.ndarray:
        L = len(self.labels_)
        weight = np.ones((n, L))
        if node_weight is not None:
            weight = floats(node_weight, "node_weight")
            if weight.shape != (n, L):
                raise ValueError(f"node_weight must have shape ({n}, {L}), got {weight.shape}")
            if not np.isfinite(weight).all() or (weight < 0).any():
                raise ValueError("node_weight must be finite and not negative")
        return weight / L if self.hamming_.mean else weight

    def inference(self, x: Any, w: np.ndarray) -> Any:
        """Return the best labels of a row; for a loss of the whole sample, of all rows of x (n, d)."""
        return self.bind(x).predict(as_weights(w)) if self.joint else super().inference(x, w)

    def loss_augmented_inference(self, x: Any, y: Any, w: np.ndarray) -> Any:
        """Return argmax_y' Delta(y, y') + <w, Psi(x, y')>."""
        if not self.joint:
            return super().loss_augmented_inference(x, y, w)
        codes = self._sample(x, y).worst_labelling(as_weights(w))
        return self.bind(x).decode(codes)

    def _output(self, y: Any) -> Any:
        """Return one output in the form of a Y with one example."""
        if self.sets_:
            return [y]
        return array_of(y.toarray() if sp.issparse(y) else y, "Y").reshape(1, -1)

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Return Psi(x, y), in the order of ``coef_``."""
        if self.joint:
            return self._sample(x, None).joint_feature(self.encode(y).ravel())
        factors = self.factors(self.one_row(x), self._output(y))
        return factors.joint_feature(0, factors.truth)

    def bind_one(self, x: Any, Y: Any = None) -> Any:
        return self.bind(self.one_row(x), None if Y is None else self._output(Y[0]))

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return Delta(y, y_hat), or the loss of a whole sample if ``loss`` is such a loss.

        A true label that the model does not know counts as missed.
        """
        if self.joint:
            blank = sp.csr_matrix((len(y), self.n_features_))
            return self._sample(blank, y).loss_of(self.encode(y_hat).ravel())
        unknown = 0
        if self.sets_:
            known = [label for label in members(y, "Y") if label in self.labels_.code]
            unknown = len(members(y, "Y")) - len(known)
            y = known
        true, other = self.encode(self._output(y))[0], self.encode(self._output(y_hat))[0]
        total = float(self.cost_[true, other].sum()) + unknown * float(self.cost_[1, 0])
        return total / len(self.labels_) if self.hamming_.mean else total

    def agreement(self, y: Any, y_hat: Any) -> tuple[float, float]:
        """Return the number of correct labels and the number of all labels."""
        if not self.sets_:
            right = self.encode(self._output(y)) == self.encode(self._output(y_hat))
            return float(right.sum()), float(right.size)
        wrong = set(members(y, "Y")) ^ set(members(y_hat, "Y"))
        return float(len(self.labels_) - len(wrong)), float(len(self.labels_))

    def unpack(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """Return the named parts of w: ``weights`` (L, d), ``bias`` (L,), ``pairs`` (P,) as in ``pairs_``."""
        L, width = len(self.labels_), self.n_features_ + (self.bias is not None)
        unary, pairs = np.split(np.asarray(w), [L * width])
        return {**weights_and_bias(unary.reshape(L, width), self.bias), "pairs": pairs}

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        state = {
            "sets": self.sets_,
            "bias": self.bias,
            "inference": self.inference_method,
            "iterations": int(self.iterations),
            "mean": self.hamming_.mean,
            "n_features": self.n_features_,
            **self.labels_.state(),
            **saved_attributes(self.encoder_),
        }
        spec = label_loss(self.task_loss)
        if isinstance(spec, LabelF1):
            state["loss"] = sample_loss_state(spec)
        return state, {"cost": self.cost_, "pairs": self.pair_codes_.astype(np.int64)}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> MultiLabel:
        labels = LabelSet.from_state(state)
        costs = saved_costs(table(arrays, "cost", np.float64, 2, 2))
        codes = table(arrays, "pairs", np.int64, -1, 2)
        inside = (codes >= 0).all() and (codes[:, 0] < codes[:, 1]).all()
        if not len(labels) or not inside or (codes >= len(labels)).any():
            raise FieldError("the pairs do not match the labels")
        if len(np.unique(codes, axis=0)) != len(codes):
            raise FieldError("a pair appears twice")
        pairs = [tuple(pair) for pair in labels.classes[codes].tolist()]
        loss: Any = Hamming(costs, flag(state, "mean"))
        if "loss" in state:
            loss = saved_sample_loss(entries_of(state["loss"], "loss"))
        model = cls(pairs, loss, bias_of(state), *saved_method(state))
        model.labels_, model.classes_, model.sets_ = labels, labels.classes, flag(state, "sets")
        model.n_features_ = count(state, "n_features", 0, MOST_FEATURES)
        model.encoder_ = encoder_of(state, model.n_features_, sequences=False)
        model.pair_codes_ = codes
        model.set_loss()
        model._measure()
        return model
