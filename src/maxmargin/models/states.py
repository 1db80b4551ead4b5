"""Hidden states of labels: a fitted model whose labels are split, in the form that ``Latent`` needs.

    label k has parts_k states; a node with label k is in one of them, and the data do not say which
    Psi(x, z)    = Psi of the same model with states in place of labels
    Delta(z, z') = Delta(labels of z, labels of z')

States are numbered label by label and, if there are several types of nodes, type by type. The best states
of given labels are the argmax over outputs without a mistake. They are exact if the argmax of the model
is exact.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxmargin._core import core
from maxmargin.data.labels import LabelSet, as_array
from maxmargin.losses import Costs, Hamming, cost_of
from maxmargin.models.cliques import check_states
from maxmargin.models.factor_graph import FactorGraph
from maxmargin.models.multiclass import Multiclass
from maxmargin.models.protocol import as_weights
from maxmargin.models.transitions import TransitionRules

Completer = Callable[[np.ndarray], list[Any]]  # finds the best complete outputs at w


def cluster(rows: Any, count: int, start: str, seed: int) -> np.ndarray:
    """Return first states of the nodes of one label: clusters of their features, or random states."""
    n = rows.shape[0]
    if start == "random" or n <= count:
        return np.random.default_rng(seed).integers(count, size=n)
    from sklearn.cluster import KMeans  # a slow import, needed only here

    with np.errstate(over="ignore", invalid="ignore"), warnings.catch_warnings():
        # k-means need not converge: any start will do
        warnings.simplefilter("ignore", ConvergenceWarning)
        return KMeans(count, n_init=4, random_state=seed).fit_predict(rows)


@dataclass(eq=False)
class LabelStates:
    """States of the labels of a fitted Multiclass, Chain or FactorGraph."""

    base: Any
    counts: list[int]

    def __post_init__(self) -> None:
        self.first: np.ndarray = np.cumsum([0, *self.counts])  # the first state of each label
        self.owner: np.ndarray = np.repeat(np.arange(len(self.counts)), self.counts)
        self.labels: np.ndarray = self.names(self.base)[self.owner]
        self.inner: Any = over_states(self.base, self.owner)
        self.strict: Any = over_states(self.base, self.owner, unit=True)

    @staticmethod
    def prepare(base: Any, X: Any, Y: Any) -> None:
        """Fit the model over labels to the data."""
        base.initialize(X, Y)

    @staticmethod
    def names(base: Any) -> np.ndarray:
        """Return the labels of a fitted model; for several types of nodes, one type after the other."""
        sets = base.label_sets_ if isinstance(base, FactorGraph) else [base.labels_]
        every = [label for own in sets for label in own.classes.tolist()]
        return sets[0].classes if len(sets) == 1 else as_array(every)

    def begin(self, X: Any, Y: Any, start: str, seed: int) -> list[Any]:
        """Return first states for the true labels."""
        numbers, sizes, features = self._nodes(X, Y)
        states = self.first[numbers]
        for k, count in enumerate(self.counts):
            members = np.flatnonzero(numbers == k)
            if count > 1 and len(members):
                states[members] += cluster(features(members), count, start, seed + k)
        return self._split(states, sizes)

    def completer(self, X: Any, Y: Any, n_jobs: int) -> Completer:
        """Return a function of w that finds the best states of the true labels."""
        numbers, sizes, _ = self._nodes(X, Y)
        given = self.first[numbers]
        examples: Any = self.strict.bind(X, self._split(given, sizes))

        def complete(w: np.ndarray) -> list[Any]:
            found = examples.decode(examples.answers.complete(as_weights(w), n_jobs))
            states = np.concatenate(found) if not self.base.flat else found
            states = np.asarray(states, dtype=np.int64)
            # An approximate argmax may miss the true label of a node; such a node gets the first state.
            return self._split(np.where(self.owner[states] == numbers, states, given), sizes)

        return complete

    def observed(self, outputs: Any) -> Any:
        """Return the labels of states."""
        if self.base.flat:
            return self.labels[np.asarray(outputs, dtype=np.int64)]
        return [self.labels[np.asarray(z, dtype=np.int64)] for z in outputs]

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return Delta of labels."""
        return self.base.loss(y, y_hat)

    def _split(self, states: np.ndarray, sizes: np.ndarray) -> list[Any]:
        if self.base.flat:
            return states.tolist()
        return [states[a:b] for a, b in pairwise(np.cumsum([0, *sizes]).tolist())]

    def _nodes(self, X: Any, Y: Any) -> tuple[np.ndarray, np.ndarray, Any]:
        """Return the label numbers of all nodes, the number of nodes of each example, and their features."""
        bound = self.base.bind(X, Y)
        numbers = bound.true_codes().astype(np.int64)
        if not isinstance(self.base, FactorGraph):
            rows = bound.rows.stacked()
            sizes = bound.output_sizes(np.arange(bound.n))
            return numbers, sizes, lambda members: rows[members]
        factors, own = bound.factors, [bound.node_types(i) for i in range(bound.n)]
        types, sizes = np.concatenate(own), np.array([len(kinds) for kinds in own])
        places = [a + np.arange(n) for a, n in zip(bound.offsets[:-1], sizes, strict=True)]
        rows_of = factors.node_rows[np.concatenate(places)]
        before = np.cumsum([0, *map(len, self.base.label_sets_)])

        def features(members: np.ndarray) -> Any:  # all members have one label, so one type
            bank = factors.banks[factors.node_types[types[members[0]]].bank]
            return bank.rows.stacked()[rows_of[members]]

        return numbers + before[types], sizes, features


def over_states(base: Any, owner: np.ndarray, unit: bool = False) -> Any:
    """Return the fitted model over states.

    ``owner`` holds the label of each state. With ``unit`` every wrong label costs 1.
    """
    made = copy.copy(base)
    if isinstance(base, FactorGraph):
        split_graph(made, owner, unit)
        return made
    made.labels_ = LabelSet(np.arange(len(owner)))
    made.classes_ = made.labels_.classes
    made.cost_ = costs_of_states(base.cost_, owner, unit)
    if isinstance(base, Multiclass):
        made.task_loss = Costs(made.cost_)
        made._measure()
        return made
    made.task_loss = made.hamming_ = Hamming(made.cost_, base.hamming_.mean and not unit)
    made.rules_ = None if base.rules_ is None else split_rules(base.rules_, owner, made.labels_)
    if base.edges_ is not None:
        base.edges_.check_labels(len(owner))
    pairs = base.nodes_.pairs
    made._measure(None if pairs is None else split_pairs(pairs, owner))
    return made


def costs_of_states(cost: np.ndarray, owner: np.ndarray, unit: bool) -> np.ndarray:
    """Return costs of states (S, S), from the costs of their labels."""
    if unit:
        return (owner[:, None] != owner[None, :]).astype(np.float64)
    return np.ascontiguousarray(cost_of(cost, owner[:, None], owner[None, :]))


def split_graph(made: FactorGraph, owner: np.ndarray, unit: bool) -> None:
    """Replace labels by states in a copy of a fitted graph model."""
    before = np.cumsum([0, *map(len, made.label_sets_)])
    bounds = np.searchsorted(owner, before)
    made.costs_ = [
        costs_of_states(cost, owner[a:b] - k, unit)
        for cost, k, (a, b) in zip(made.costs_, before[:-1], pairwise(bounds), strict=True)
    ]
    made.label_sets_ = [LabelSet(np.arange(a, b)) for a, b in pairwise(bounds)]
    counts = np.diff(bounds).tolist()
    made.cliques_ = [
        replace(own, sizes=tuple(counts[t] for t in own.types)) for own in made.cliques_
    ]
    for own in made.cliques_:
        check_states(own)
    made.hamming_ = Hamming(mean=made.hamming_.mean and not unit)
    made._measure()


def split_rules(rules: TransitionRules, owner: np.ndarray, states: LabelSet) -> TransitionRules:
    """Forbid transitions between states if the transition between their labels is forbidden."""
    K = len(rules.labels)
    illegal = np.zeros((K + 2, K), dtype=bool)
    illegal.ravel()[rules.keys] = True
    rows = np.concatenate([owner, [K, K + 1]])  # the start and the end are not split
    return TransitionRules(states, np.flatnonzero(illegal[rows][:, owner]))


def split_pairs(pairs: Any, owner: np.ndarray) -> Any:
    """Give every state of a label the features that occur with the label."""
    counts, first = np.bincount(owner), np.searchsorted(owner, np.arange(pairs.labels))
    many = counts[pairs.label]
    within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    states = np.repeat(first[pairs.label], many) + within
    bounds = np.concatenate([[0], np.cumsum(many)])[pairs.first]
    return core.Pairs(bounds.astype(np.int64), states.astype(np.uint16), len(owner))
