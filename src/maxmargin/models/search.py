"""Slack rescaling through a margin oracle: a search over the loss multiplier.

    wanted:    max_y Delta(y) (1 + m(y)),   m(y) = <w, psi(y)>
    given:     max_y lambda Delta(y) + m(y), the margin oracle at w / lambda

The oracle walks the upper hull of the points (Delta, m): each call gives a line that no output is above.
Segments between two points are split, most promising first. The search stops if no segment promises more than
the best point, or at the limit of calls. It can miss outputs under the hull, so it also returns an upper
bound on the value of all outputs. The compiled twin is cpp/models/hull.hpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.models.checks import read_only

CALLS = 16  # limit on calls of the margin oracle; fewer calls leave a looser upper bound


@dataclass(frozen=True)
class HullPoint:
    """An output in the search; no output is above the line of slope -multiplier through it."""

    output: Any
    loss: float
    margin: float
    multiplier: float

    @property
    def value(self) -> float:
        """Delta (1 + m) of the output."""
        return self.loss * (1 + self.margin)

    def ceiling(self, loss: float) -> float:
        """Return the largest margin that an output of this loss can have."""
        if np.isinf(self.multiplier):
            return np.inf if loss <= self.loss else -np.inf
        return self.margin - self.multiplier * (loss - self.loss)


def edge(left: HullPoint, right: HullPoint, multiplier: float) -> float:
    """Return the largest Delta (1 + m) between two points, on the line of slope -multiplier through them."""
    peak = (1 + left.margin + multiplier * left.loss) / (2 * multiplier)
    tops = (left.loss, right.loss, min(max(peak, left.loss), right.loss))
    return max(t * (1 + left.margin - multiplier * (t - left.loss)) for t in tops)


def promise(left: HullPoint, right: HullPoint) -> float:
    """Return the largest Delta (1 + m) that an output between two points can have."""
    if right.loss <= left.loss:
        return max(left.value, right.value)
    tops = [left.loss, right.loss]
    for p in (left, right):
        if 0 < p.multiplier < np.inf:  # the maximum of Delta (1 + ceiling)
            tops.append((1 + p.margin + p.multiplier * p.loss) / (2 * p.multiplier))
    if left.multiplier < right.multiplier < np.inf:  # the intersection of the two lines
        rise = (
            right.margin + right.multiplier * right.loss - left.margin - left.multiplier * left.loss
        )
        tops.append(rise / (right.multiplier - left.multiplier))
    inside = [min(max(t, left.loss), right.loss) for t in tops]
    return max(t * (1 + min(left.ceiling(t), right.ceiling(t))) for t in inside)


def dense(psi: Any) -> np.ndarray:
    """Return features, dense or sparse, as a vector."""
    return np.asarray(psi.toarray() if sp.issparse(psi) else psi, dtype=np.float64).ravel()


def search_slack(model: Any, x: Any, y: Any, w: np.ndarray) -> tuple[Any, float]:
    """Return the best output found for slack rescaling, and an upper bound if the oracle is exact."""
    truth = dense(model.joint_feature(x, y)) @ w

    def point(output: Any, multiplier: float) -> HullPoint:
        margin = float(dense(model.joint_feature(x, output)) @ w - truth)
        return HullPoint(output, float(model.loss(y, output)), margin, multiplier)

    left = point(model.inference(x, w), 0.0)
    right = point(model.loss_augmented_inference(x, y, read_only(0.0 * w)), np.inf)
    best = max(HullPoint(y, 0.0, 0.0, 0.0), left, right, key=lambda p: p.value)
    open_segments, closed = [(left, right)], 0.0
    for _ in range(CALLS):
        promises = [promise(*s) for s in open_segments]
        if not promises or max(promises) <= best.value + 1e-12 * (1 + best.value):
            break
        a, b = open_segments.pop(int(np.argmax(promises)))
        if b.loss <= a.loss or a.margin <= b.margin:
            closed = max(closed, promise(a, b))
            continue
        multiplier = (a.margin - b.margin) / (b.loss - a.loss)
        found = point(model.loss_augmented_inference(x, y, read_only(w / multiplier)), multiplier)
        line = multiplier * a.loss + a.margin
        if multiplier * found.loss + found.margin <= line + 1e-12 * (1 + abs(line)):
            # an edge of the hull: no output is above it
            closed = max(closed, edge(a, b, multiplier))
            continue
        best = max(best, found, key=lambda p: p.value)
        open_segments += [(a, found), (found, b)]
    return best.output, max([best.value, closed, *(promise(*s) for s in open_segments)])
