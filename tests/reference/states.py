"""The reference for hidden states of labels: converts a reference over labels into one over their states."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from .enumerate import ChainTruth, EdgeChainTruth, MulticlassTruth
from .graphs import GraphTruth


def split_truth(truth: Any, counts: list[int]) -> tuple[Any, np.ndarray]:
    """Return the same kind of model with states in place of labels, and the label of each state."""
    owner = np.repeat(np.arange(len(counts)), counts)
    costs = truth.costs[owner][:, owner]
    states = range(len(owner))
    if isinstance(truth, GraphTruth):
        plain = truth.n_features, truth.kind, truth.n_edge_features, costs, truth.mean, truth.bias
        return GraphTruth(states, *plain), owner
    if isinstance(truth, MulticlassTruth):
        return type(truth)(states, truth.n_features, costs, truth.bias), owner
    options: dict[str, Any] = {"costs": costs, "mean": truth.mean, "bias": truth.bias}
    options |= {"start": truth.start, "end": truth.end}
    options["illegal"] = [
        (a, b)
        for a in [*states, None]
        for b in [*states, None]
        if (label(truth, owner, a), label(truth, owner, b)) in truth.illegal
    ]
    if isinstance(truth, EdgeChainTruth):
        sizes = truth.n_features, truth.n_edges, truth.triples
        return EdgeChainTruth(states, *sizes, **options), owner
    observed = None if truth.observed is None else copy.copy(truth.observed[:, owner])
    return ChainTruth(states, truth.n_features, **options, observed=observed), owner


def label(truth: Any, owner: np.ndarray, state: int | None) -> Any:
    """Return the label of a state; None, the start and the end, stays None."""
    return None if state is None else truth.classes[owner[state]]
