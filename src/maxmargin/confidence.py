"""How sure a prediction is: a temperature for probabilities, and sets with a guaranteed coverage.

Temperature. p_c(y | x) = exp(<w, Psi(x, y)> / c) / Z is the distribution whose mode is the prediction; c is
the one whose probabilities are the nearest to held-out labels, node by node (the score of Brier):

    min_c  sum_v sum_k (p_c(y_v = k | x) - [k is the label of v])^2

It is the least in expectation where p_c is the true distribution, as minus the log-likelihood is; but a node
costs at most 2: a few labels that no temperature explains do not make all others less sure than they are.

Sets (split conformal). With the nonconformity s = 1 - p of a true label or output, and examples i = 1 .. n
that are exchangeable with a new one, the set of all labels with s <= q holds the true one with probability at
least 1 - alpha, where q is the 1 - alpha quantile of

    sum_i 1/(n + 1) sum_{v of i} 1/|i| [s_v]  +  1/(n + 1) [infinity]

and the label is that of a node drawn from a new example (with one node an example: the usual quantile). Lee,
Barber and Willett, Distribution-free inference with hierarchical data, 2023.
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

# A temperature is sought this many times above and below the scale of the scores.
TEMPERATURE_RANGE = 1e3
TEMPERATURE_TOLERANCE = 1e-4  # relative


@dataclass(frozen=True)
class Conformal:
    """A threshold of 1 - p, for labels of nodes, or for whole outputs among the k best."""

    alpha: float
    threshold: float
    k: int | None = None  # None: labels of nodes


def fit_temperature(cost: Callable[[float], float], scale: float) -> float:
    """The temperature of the least cost, near a scale of the scores."""
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
    """q of the formula above, for scores of nodes and the number of nodes of each example."""
    counted = nodes[nodes > 0]
    n = len(counted)
    weight = np.repeat(1.0 / counted, counted) / (n + 1)
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(weight[order])
    at = int(np.searchsorted(reached, (1 - alpha) * (1 - 1e-12)))
    return float(scores[order[at]]) if at < len(scores) else np.inf


def reliability_table(probability: np.ndarray, right: np.ndarray, bins: int) -> Table:
    """Nodes by the probability of their best label, in bins of equal width, and how many are right."""
    bin_of = np.minimum((probability * bins).astype(int), bins - 1)
    nodes = np.bincount(bin_of, minlength=bins)
    kept = np.flatnonzero(nodes)
    said, hits = (np.bincount(bin_of, v, minlength=bins)[kept] for v in (probability, right))
    columns = {"nodes": nodes[kept], "probability": said / nodes[kept], "right": hits / nodes[kept]}
    return Table(columns, [f"{i / bins:g}-{(i + 1) / bins:g}" for i in kept], "probability")


def confidence_state(svm: Any) -> dict[str, Any]:
    """The temperature, and the rule of sets, where there are some."""
    rule = getattr(svm, "conformal_", None)
    return {
        "temperature": getattr(svm, "temperature_", None),
        "conformal": None if rule is None else vars(rule),
    }


def set_confidence(svm: Any, state: dict[str, Any]) -> None:
    """What ``confidence_state`` wrote; refuses what no calibration could have found."""
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
