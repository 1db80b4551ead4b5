"""Confidence of predictions: a temperature for probabilities, and sets with guaranteed coverage.

Temperature. p_c(y | x) = exp(<w, Psi(x, y)> / c) / Z is the distribution whose mode is the
prediction. c minimises the Brier score of the probabilities of the nodes on held-out examples:

    min_c  sum_v sum_k (p_c(y_v = k | x) - [k is the label of v])^2

If p_c is the true distribution, it minimises the expected score, as with minus the log-likelihood.
But one node costs at most 2, so a few labels that no temperature explains do not reduce the
confidence of all others.

Sets (split conformal). Let s = 1 - p be the nonconformity of a true label or output, and let
examples i = 1 .. n be exchangeable with a new one. The set of all labels with s <= q contains the
true label with probability at least 1 - alpha, where q is the 1 - alpha quantile of

    sum_i 1/(n + 1) sum_{v of i} 1/|i| [s_v]  +  1/(n + 1) [infinity]

and the label belongs to a random node of a new example. With one node per example this is the usual
quantile. See Lee, Barber and Willett, Distribution-free inference with hierarchical data, 2023.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from maxmargin.data.table import Table
from maxmargin.io.fields import FieldError, check_names, count, entries_of, field_of, number
from maxmargin.io.quoting import short

# The search for a temperature covers this factor above and below the scale of the scores.
TEMPERATURE_RANGE = 1e3
TEMPERATURE_TOLERANCE = 1e-4  # relative error of the temperature


@dataclass(frozen=True)
class Conformal:
    """A threshold on 1 - p, for labels of nodes, or for whole outputs among the k best."""

    alpha: float
    threshold: float
    k: int | None = None  # None: for labels of nodes


def fit_temperature(cost: Callable[[float], float], scale: float) -> float:
    """Return the temperature with the lowest cost, searched around the scale of the scores."""
    if not (np.isfinite(scale) and scale > 0):
        raise ValueError("calibrate: all labels of these examples have the same score")
    bounds = (np.log(scale / TEMPERATURE_RANGE), np.log(scale * TEMPERATURE_RANGE))
    grid = np.linspace(*bounds, 15)
    best = int(np.argmin([cost(float(np.exp(t))) for t in grid]))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    found = minimize_scalar(
        lambda t: cost(float(np.exp(t))),
        bounds=around,
        method="bounded",
        options={"xatol": TEMPERATURE_TOLERANCE},
    )
    return float(np.exp(found.x))


def conformal_quantile(scores: np.ndarray, nodes: np.ndarray, alpha: float) -> float:
    """Return q of the formula above, from the scores of nodes and the number of nodes per example."""
    counted = nodes[nodes > 0]
    n = len(counted)
    weight = np.repeat(1.0 / counted, counted) / (n + 1)
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(weight[order])
    at = int(np.searchsorted(reached, (1 - alpha) * (1 - 1e-12)))
    return float(scores[order[at]]) if at < len(scores) else np.inf


def reliability_table(probability: np.ndarray, right: np.ndarray, bins: int) -> Table:
    """Return nodes grouped by the probability of their best label, in equal bins, and the share right."""
    bin_of = np.minimum((probability * bins).astype(int), bins - 1)
    nodes = np.bincount(bin_of, minlength=bins)
    kept = np.flatnonzero(nodes)
    said, hits = (np.bincount(bin_of, v, minlength=bins)[kept] for v in (probability, right))
    columns = {"nodes": nodes[kept], "probability": said / nodes[kept], "right": hits / nodes[kept]}
    return Table(columns, [f"{i / bins:g}-{(i + 1) / bins:g}" for i in kept], "probability")


def confidence_state(svm: Any) -> dict[str, Any]:
    """Return the temperature and the rule for sets, each None if it is not set."""
    rule = getattr(svm, "conformal_", None)
    return {
        "temperature": getattr(svm, "temperature_", None),
        "conformal": None if rule is None else vars(rule),
    }


def set_confidence(svm: Any, state: dict[str, Any]) -> None:
    """Restore what ``confidence_state`` returned; raise FieldError for values that cannot be valid."""
    check_names(state, ("temperature", "conformal"), "confidence")
    if field_of(state, "temperature") is not None:
        if number(state, "temperature") <= 0:
            raise FieldError(f"temperature must be positive, got {short(state['temperature'])}")
        svm.temperature_ = float(state["temperature"])
    if field_of(state, "conformal") is not None:
        rule = entries_of(state["conformal"], "conformal")
        check_names(rule, ("alpha", "threshold", "k"), "conformal")
        endless = field_of(rule, "threshold") == math.inf
        threshold = math.inf if endless else number(rule, "threshold")
        alpha, k = number(rule, "alpha"), field_of(rule, "k")
        if not 0 < alpha < 1:
            raise FieldError(f"alpha must be between 0 and 1, got {short(alpha)}")
        svm.conformal_ = Conformal(alpha, threshold, None if k is None else count(rule, "k", 1))
