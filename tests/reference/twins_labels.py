"""The readable twin of the audit of a set of labels: the most that all labels and pairs can still gain.

At weights w, of labels and of pairs, let t be the true set of an example. Label a gains g_a by
leaving its true value alone. Two labels gain p_ab more by leaving together:

    g_a  = cost + sigma_a (<w_a, x> + sum_(b on in t) w_ab)      sigma = +1 where t_a is off, else -1
    p_ab = s_ab w_ab                                             s = +1 where t_a = t_b, else -1

For any prices l_ab of label a and l_ba of label b the linear relaxation gains no more than

    sum_a max(0, g_a + sum_b l_ab) + sum_ab max(0, -l_ab, -l_ba, p_ab - l_ab - l_ba)

(docs/solvers.md). The prices of active pairs are their messages. For every other pair with p > 0,
its labels pay the price from the amount that they lose by leaving; an unpaid rest adds to the
bound. If every pair is paid in full, no inactive pair or label gains.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

ROUNDING = 1e-13


def gains(
    x: np.ndarray, truth: np.ndarray, weights: np.ndarray, pairs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """g and p of an example; every wrong label costs 1, and `pairs` is symmetric with a zero diagonal."""
    sign = 1.0 - 2.0 * truth
    return 1.0 + sign * (weights @ x + pairs @ truth), np.outer(sign, sign) * pairs


def ceiling(g: np.ndarray, p: np.ndarray, prices: Mapping[tuple[int, int], tuple]) -> float:
    """The bound, with the prices of active pairs and greedy payments for all others."""
    slope = g.copy()
    for (a, b), (first, second) in prices.items():
        slope[a] += first
        slope[b] += second
    bound = np.maximum(0.0, slope).sum()
    for (a, b), (first, second) in prices.items():
        bound += max(0.0, -first, -second, p[a, b] - first - second)
    return float(bound + unpaid(np.maximum(0.0, -slope), p, prices))


def unpaid(purse: np.ndarray, p: np.ndarray, active: Mapping[tuple[int, int], tuple]) -> float:
    """The unpaid rest of pairs that are not active, if the label with more left pays first.

    If the purse of a label covers the gains of all its pairs, the label pays each pair in full.
    """
    asked = np.maximum(0.0, p).sum(axis=1)
    poor = [int(a) for a in np.argsort(purse, kind="stable") if purse[a] < asked[a] + ROUNDING]
    short = 0.0
    for a, b in combinations(poor, 2):
        if (a, b) in active or (b, a) in active:
            continue
        price = max(0.0, p[a, b])
        for end in (b, a) if purse[a] < purse[b] else (a, b):
            paid = min(price, purse[end])
            purse[end] -= paid
            price -= paid
        short += price
    return short
