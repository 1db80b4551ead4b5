"""The readable twin of the audit of a set of labels: what all labels and pairs together can still gain.

At weights w, of labels and of pairs, let t be the true set of an example. Label a gains g_a by leaving it
alone, and two labels p_ab by leaving together beyond that:

    g_a  = cost + sigma_a (<w_a, x> + sum_(b on in t) w_ab)      sigma = +1 where t_a is off, else -1
    p_ab = s_ab w_ab                                             s = +1 where t_a = t_b, else -1

For any prices l_ab of label a and l_ba of label b the linear relaxation gains no more than

    sum_a max(0, g_a + sum_b l_ab) + sum_ab max(0, -l_ab, -l_ba, p_ab - l_ab - l_ba)

(docs/solvers.md). Active pairs have the prices of their messages. Every other pair with p > 0 is paid out of
what its labels lose by leaving, and is counted with what it remains short of. If no pair is short, nothing
gains that is not active.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

ROUNDING = 1e-13


def gains(
    x: np.ndarray, truth: np.ndarray, weights: np.ndarray, pairs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """g and p of an example; every wrong label costs 1, and `pairs` is symmetric with zeros inside."""
    sign = 1.0 - 2.0 * truth
    return 1.0 + sign * (weights @ x + pairs @ truth), np.outer(sign, sign) * pairs


def ceiling(g: np.ndarray, p: np.ndarray, prices: Mapping[tuple[int, int], tuple]) -> float:
    """The bound, by the prices of active pairs and greedy payments of all others."""
    slope = g.copy()
    for (a, b), (first, second) in prices.items():
        slope[a] += first
        slope[b] += second
    bound = np.maximum(0.0, slope).sum()
    for (a, b), (first, second) in prices.items():
        bound += max(0.0, -first, -second, p[a, b] - first - second)
    return float(bound + unpaid(np.maximum(0.0, -slope), p, prices))


def unpaid(purse: np.ndarray, p: np.ndarray, active: Mapping[tuple[int, int], tuple]) -> float:
    """What pairs that are not active are short of, if the end with more left pays first.

    A label whose purse is as large as all that its pairs can gain pays for them, whatever the others do.
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
