"""Random small problems of each kind, with the enumerated reference for each."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.data.trees import ParseTree

from .dense_qp import Optimum, solve
from .enumerate import (
    BinaryTruth,
    Block,
    ChainTruth,
    EdgeChainTruth,
    MulticlassTruth,
    enumerate_blocks,
)
from .graphs import GraphTruth, MultiLabelTruth, random_links
from .parts import TreeTruth
from .ranking import RankingTruth
from .trees import GrammarTruth, TooManyTreesError


@dataclass(frozen=True)
class Case:
    """One training problem: data, options of the model, and the reference (`truth`) to compare with."""

    kind: str
    X: Any
    Y: list
    truth: Any
    C: float = 1.0
    sample_weight: np.ndarray | None = None
    options: dict = field(default_factory=dict)
    rescaling: str = "margin"

    @cached_property
    def blocks(self) -> list[Block]:
        """Every plane of every example: (Delta, psi), or (Delta, Delta psi) for slack rescaling."""
        blocks = enumerate_blocks(self.truth, self.X, self.Y)
        if self.rescaling == "margin":
            return blocks
        return [Block(b.outputs, b.offsets, b.offsets[:, None] * b.vectors) for b in blocks]

    @cached_property
    def optimum(self) -> Optimum:
        """The optimum of the dense QP over all outputs."""
        return solve(self.blocks, self.C, self.sample_weight)

    @property
    def budgets(self) -> np.ndarray:
        """C v_i."""
        weights = np.ones(len(self.Y)) if self.sample_weight is None else self.sample_weight
        return self.C * np.asarray(weights, dtype=np.float64)

    def replace(self, **changes: Any) -> Case:
        """Return a changed copy; cached values are not copied."""
        return replace(self, **changes)


def random_costs(generator: np.random.Generator, n_classes: int) -> np.ndarray:
    """A cost matrix [true, predicted] without ties: zero diagonal, not symmetric."""
    costs = generator.uniform(0.3, 2.0, size=(n_classes, n_classes))
    np.fill_diagonal(costs, 0.0)
    return costs


def _features(
    generator: np.random.Generator, shape: tuple[int, int], layout: str, dtype: Any
) -> Any:
    """Dense normal features, or CSR with about half of the entries zero."""
    values = generator.normal(size=shape)
    if layout == "dense":
        return values.astype(dtype)
    values[generator.uniform(size=shape) < 0.5] = 0.0
    return sparse.csr_matrix(values.astype(dtype))


def _weights(generator: np.random.Generator, n: int, weighted: bool) -> np.ndarray | None:
    """Uneven weights with one zero among them, or None."""
    if not weighted:
        return None
    weights = generator.uniform(0.2, 3.0, size=n)
    weights[-1] = 0.0
    return weights


def multiclass_case(
    generator: np.random.Generator,
    n: int = 10,
    n_features: int = 4,
    n_classes: int = 3,
    layout: str = "dense",
    dtype: Any = np.float64,
    costs: bool = False,
    bias: float | None = None,
    weighted: bool = False,
    C: float = 1.0,
) -> Case:
    """A random multiclass problem; every class occurs."""
    X = _features(generator, (n, n_features), layout, dtype)
    labels = np.concatenate([np.arange(n_classes), generator.integers(n_classes, size=n)])[:n]
    table = random_costs(generator, n_classes) if costs else None
    truth = MulticlassTruth(range(n_classes), n_features, table, bias)
    options = {"costs": table, "bias": bias}
    weights = _weights(generator, n, weighted)
    return Case("multiclass", X, [int(y) for y in labels], truth, C, weights, options)


def binary_case(generator: np.random.Generator, **settings: Any) -> Case:
    """A random problem with two classes, one weight per feature."""
    case = multiclass_case(generator, n_classes=2, **settings)
    options = case.options
    truth = BinaryTruth([0, 1], case.X.shape[1], options["costs"], options["bias"])
    return case.replace(kind="binary", truth=truth)


def chain_case(
    generator: np.random.Generator,
    n: int = 5,
    n_features: int = 3,
    n_classes: int = 3,
    lengths: tuple[int, ...] = (1, 2, 3),
    layout: str = "dense",
    dtype: Any = np.float64,
    costs: bool = False,
    mean: bool = False,
    bias: float | None = None,
    start: bool = False,
    end: bool = False,
    weighted: bool = False,
    C: float = 1.0,
    illegal: tuple[tuple[Any, Any], ...] = (),
) -> Case:
    """Random chains; the lengths repeat in turn, every class occurs, and illegal pairs do not."""
    X, Y = [], []
    for i in range(n):
        length = lengths[i % len(lengths)]
        X.append(_features(generator, (length, n_features), layout, dtype))
        Y.append([int(y) for y in generator.integers(n_classes, size=length)])
    positions = [(i, t) for i, y in enumerate(Y) for t in range(len(y))]
    for label, (i, t) in zip(range(n_classes), positions, strict=False):
        Y[i][t] = label
    table = random_costs(generator, n_classes) if costs else None
    truth = ChainTruth(range(n_classes), n_features, table, mean, bias, start, end, illegal)
    for i, x in enumerate(X):
        if not truth.legal(Y[i]):
            legal = truth.outputs(range(x.shape[0]))
            Y[i] = list(legal[generator.integers(len(legal))])
    options = {"costs": table, "mean": mean, "bias": bias, "start": start, "end": end}
    options["illegal"] = illegal
    return Case("chain", X, Y, truth, C, _weights(generator, n, weighted), options)


def edge_chain_case(
    generator: np.random.Generator, n_edges: int = 2, order: int = 1, **options: Any
) -> Case:
    """A random chain with features on its edges, or of second order, or both."""
    plain = chain_case(generator, **options)
    X, layout = plain.X, options.get("layout", "dense")
    dtype = options.get("dtype", np.float64)
    if n_edges:
        X = [(x, _features(generator, (x.shape[0] - 1, n_edges), layout, dtype)) for x in X]
    known = plain.truth
    truth = EdgeChainTruth(
        known.classes,
        known.n_features,
        n_edges,
        order == 2,
        costs=known.costs,
        mean=known.mean,
        bias=known.bias,
        start=known.start,
        end=known.end,
        illegal=known.illegal,
    )
    more = {"edges": n_edges > 0, "order": order}
    return plain.replace(kind="edge-chain", X=X, truth=truth, options={**plain.options, **more})


def observed_case(generator: np.random.Generator, **settings: Any) -> Case:
    """Random chains with weights only for pairs of a feature and a label that occur together."""
    case = chain_case(generator, layout="csr", **settings)
    truth, options = case.truth, case.options
    width = truth.n_features + (truth.bias is not None)
    seen = np.zeros((width, len(truth.classes)), dtype=bool)
    for x, y in zip(truth.examples(case.X), case.Y, strict=True):
        for row, label in zip(x, y, strict=True):
            seen[: len(row), label] |= row != 0
            seen[len(row) :, label] = True  # the bias has a weight for every label
    rest = truth.mean, truth.bias, truth.start, truth.end
    truth = ChainTruth(truth.classes, truth.n_features, options["costs"], *rest, observed=seen)
    return case.replace(truth=truth, options={**options, "features": "observed"})


def random_tree(
    generator: np.random.Generator, words: list[str], labels: str, tags: str, depth: int = 0
) -> ParseTree:
    """A random tree over the words: phrases of up to three children, sometimes a chain of unary nodes."""
    if len(words) == 1:
        tree = ParseTree(str(generator.choice(list(tags))), words)
    else:
        n = int(generator.integers(2, min(len(words), 3) + 1))
        cuts = np.sort(generator.choice(np.arange(1, len(words)), n - 1, replace=False))
        parts = [list(part) for part in np.split(np.array(words, dtype=object), cuts)]
        children = [random_tree(generator, part, labels, tags, depth + 1) for part in parts]
        tree = ParseTree(str(generator.choice(list(labels))), children)
    if generator.uniform() < 0.3:
        above = str(generator.choice(list(labels)))
        tree = tree if above == tree.label() else ParseTree(above, [tree])
    return tree if depth or tree.label() == "S" else ParseTree("S", [tree])


def grammar_case(
    generator: np.random.Generator,
    n: int = 5,
    lengths: tuple[int, ...] = (2, 3, 1),
    loss: str = "spans",
    horizontal: int | None = None,
    weighted: bool = False,
    C: float = 1.0,
    most: int = 150,
) -> Case:
    """Random trees over few, hence ambiguous, words; a sentence has at most `most` trees."""
    while True:
        X = [list(generator.choice(list("abc"), lengths[i % len(lengths)])) for i in range(n)]
        X = [[str(word) for word in x] for x in X]
        Y = [random_tree(generator, x, "AB", "xy") for x in X]
        truth = GrammarTruth(Y, loss, horizontal)
        with suppress(TooManyTreesError):
            if 4 <= max(len(truth.outputs(x)) for x in X) <= most:
                break
    options = {"loss": loss, "horizontal": horizontal}
    return Case("grammar", X, Y, truth, C, _weights(generator, n, weighted), options)


def parts_case(
    generator: np.random.Generator,
    n: int = 5,
    grids: tuple[tuple[int, int], ...] = ((2, 3), (3, 2), (1, 4)),
    edges: tuple[tuple[int, int], ...] = ((1, 0), (1, 2)),
    n_features: int = 2,
    dtype: Any = np.float64,
    weighted: bool = False,
    C: float = 1.0,
) -> Case:
    """Random places on small grids; the edges lead away from the root."""
    shapes = [grids[i % len(grids)] for i in range(n)]
    X = [generator.normal(size=(*shape, n_features)).astype(dtype) for shape in shapes]
    Y = [
        tuple(tuple(int(v) for v in generator.integers(shape)) for _ in range(len(edges) + 1))
        for shape in shapes
    ]
    truth = TreeTruth(list(edges), Y, n_features)
    weights = _weights(generator, n, weighted)
    return Case("tree", X, Y, truth, C, weights, {"edges": list(edges)})


def graph_case(
    generator: np.random.Generator,
    n: int = 5,
    sizes: tuple[int, ...] = (3, 1, 4),
    shape: str = "tree",
    kind: str = "full",
    n_features: int = 2,
    n_classes: int = 3,
    n_edge_features: int | None = None,
    layout: str = "dense",
    dtype: Any = np.float64,
    costs: bool = False,
    mean: bool = False,
    bias: float | None = None,
    weighted: bool = False,
    C: float = 1.0,
) -> Case:
    """Random graphs with one type of nodes; the sizes repeat in turn."""
    X, Y = [], []
    for i in range(n):
        size = sizes[i % len(sizes)]
        edges = random_links(generator, size, shape)
        nodes = _features(generator, (size, n_features), layout, dtype)
        extra = (
            ()
            if n_edge_features is None
            else (_features(generator, (len(edges), n_edge_features), layout, dtype),)
        )
        X.append((nodes, edges, *extra))
        Y.append([int(y) for y in generator.integers(n_classes, size=size)])
    nodes_of = [(i, v) for i, y in enumerate(Y) for v in range(len(y))]
    for label, (i, v) in zip(range(n_classes), nodes_of, strict=False):
        Y[i][v] = label
    table = random_costs(generator, n_classes) if costs else None
    truth = GraphTruth(range(n_classes), n_features, kind, n_edge_features, table, mean, bias)
    options = {"costs": table, "mean": mean, "bias": bias, "pairwise": kind}
    return Case("graph", X, Y, truth, C, _weights(generator, n, weighted), options)


def multilabel_case(
    generator: np.random.Generator,
    n: int = 6,
    n_features: int = 3,
    n_labels: int = 4,
    pairs: Any = "all",
    layout: str = "dense",
    bias: float | None = None,
    C: float = 1.0,
) -> Case:
    """Random rows with random sets of labels, as a matrix."""
    X = _features(generator, (n, n_features), layout, np.float64)
    Y = generator.integers(2, size=(n, n_labels))
    every = [(a, b) for a in range(n_labels) for b in range(a + 1, n_labels)]
    given = {"all": every, "none": []}[pairs] if isinstance(pairs, str) else pairs
    ordered = sorted(tuple(sorted(pair)) for pair in given)  # the smaller label first
    truth = MultiLabelTruth(n_labels, n_features, ordered, bias)
    return Case("multilabel", X, Y, truth, C, None, {"pairs": pairs, "bias": bias})


def ranking_case(
    generator: np.random.Generator,
    n: int = 5,
    sizes: tuple[int, ...] = (3, 1, 4, 2),
    n_features: int = 3,
    grades: int = 3,
    layout: str = "dense",
    dtype: Any = np.float64,
    weighted: bool = False,
    C: float = 1.0,
) -> Case:
    """Random grades of a few candidates; some queries may have only one grade."""
    lengths = [sizes[i % len(sizes)] for i in range(n)]
    X = [_features(generator, (m, n_features), layout, dtype) for m in lengths]
    Y = [generator.integers(grades, size=m).tolist() for m in lengths]
    truth = RankingTruth(Y, n_features)
    return Case("ranking", X, Y, truth, C, _weights(generator, n, weighted), {})


def fresh(seed: int, salt: int = 0) -> np.random.Generator:
    """A separate random generator for one case."""
    return np.random.default_rng([seed, salt])
