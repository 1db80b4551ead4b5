"""Readable twins of Algorithms 2 and 3 of Yen et al., line by line.

Algorithm 2 works on all factors of all examples at once; w, messages and scores are as in
``GdmmTwin``:

    q = sum_v c_v v,   v: a label of every factor                                                         (14)
    repeat  v+ = the best label of every factor,  v- = argmin over the bases of <scores, v>         (15), (16)
            towards v+ by a step in [0, 1], or away from v- by one in [0, c / (1 - c)]                    (17)
    until a step did not use up v-

Algorithm 3 has nodes and edges as factors, and p and q in mass * simplex:

    for each example: the factor with the largest  max_d <s, d> - Q/2 |d|^2  joins its active factors     (18)
                      each active factor: q += the best d, a projection onto the simplex                  (19)
    lambda += eta (M q - p)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .relaxed import local_features
from .twins_gdmm import Factor, GdmmTwin


class FrankWolfeTwin(GdmmTwin):
    """Algorithm 2 on a case of chains; with the prior N(mean, I), w is mean + w(q)."""

    def __init__(self, case: Any, rho: float, eta: float, mean: np.ndarray) -> None:
        super().__init__(case, rho, eta, 1, "away")
        self.mean = mean
        self.bases = [(1.0, {factor: next(iter(q)) for factor, q in self.q.items()})]

    def weights(self) -> np.ndarray:
        return self.mean + super().weights()

    def marginals(self, base: dict[Factor, tuple]) -> dict[Factor, dict[tuple, float]]:
        """The marginals of a base."""
        return {factor: {labels: self.c[factor[0]]} for factor, labels in base.items()}

    def rebuild(self) -> None:
        """Recompute q from the bases."""
        self.q = {factor: {} for factor in self.q}
        for c, base in self.bases:
            for factor, own in self.marginals(base).items():
                for labels, mass in own.items():
                    self.q[factor][labels] = self.q[factor].get(labels, 0.0) + c * mass

    def lagrangian(self) -> float:
        """The Lagrangian (12) with fixed messages, 1/2 |w|^2 - losses + rho/2 sum |m|^2, without
        its constant."""
        w, value = self.weights(), 0.0
        for factor, marginals in self.q.items():
            i, *positions = factor
            if len(positions) == 1:
                weight = 1.0 / len(self.Y[i]) if self.truth.mean else 1.0
                costs = weight * self.truth.costs[self.Y[i][positions[0]]]
                value -= sum(mass * costs[labels[0]] for labels, mass in marginals.items())
            else:
                value += sum(
                    0.5 * self.rho * (self.message(factor, end) ** 2).sum() for end in (0, 1)
                )
        return value + 0.5 * float(w @ w)

    def step_once(self) -> bool:
        """Make one step; return whether it was a drop step."""
        scores = {factor: self.scores(factor) for factor in self.q}

        def value(marginals: dict) -> float:
            parts = (m * scores[f][y] for f, own in marginals.items() for y, m in own.items())
            return float(sum(parts))

        best = {
            f: tuple(int(k) for k in np.unravel_index(int(np.argmax(s)), s.shape))
            for f, s in scores.items()
        }
        values = [value(self.marginals(base)) for _, base in self.bases]
        mean, worst = value(self.q), int(np.argmin(values))
        c = self.bases[worst][0]
        towards = value(self.marginals(best)) - mean
        back = mean - values[worst] > towards and c < 1
        slope = mean - values[worst] if back else towards
        if slope <= 1e-12:
            return False
        longest = c / (1 - c) if back else 1.0
        before, old = self.lagrangian(), list(self.bases)

        def moved(gamma: float) -> list:
            if back:
                shares = [
                    (1 + gamma) * share - gamma * (k == worst) for k, (share, _) in enumerate(old)
                ]
                return [(share, base) for share, (_, base) in zip(shares, old, strict=True)]
            return [((1 - gamma) * share, base) for share, base in old] + [(gamma, best)]

        self.bases = moved(1.0)  # L is quadratic: its value at 1 and its slope give the curvature
        self.rebuild()
        curvature = 2 * (self.lagrangian() - before + slope)
        gamma = min(longest, slope / curvature)
        self.bases = [(share, base) for share, base in moved(gamma) if share > 1e-14]
        self.rebuild()
        return back and gamma == longest

    def step(self, order: np.ndarray) -> None:
        while self.step_once():
            pass
        for pair in [factor for factor in self.q if len(factor) == 3]:
            for end in (0, 1):
                known = self.multipliers.get((pair, end), 0.0)
                self.multipliers[(pair, end)] = known + self.eta * self.residual(pair, end)


class BoundedTwin:
    """Algorithm 3 on ``Factors``; ``rho`` holds the penalty of each example."""

    def __init__(self, factors: Any, mass: np.ndarray, rho: np.ndarray, eta: float, bound: float):
        self.factors, self.mass, self.rho, self.eta, self.bound = factors, mass, rho, eta, bound
        n = len(mass)
        self.parts = [local_features(factors, i) for i in range(n)]
        self.edges = [np.asarray(factors.shapes[factors.shape[i]].edges) for i in range(n)]
        self.q: dict[tuple, np.ndarray] = {}
        self.multipliers: dict[tuple, np.ndarray] = {}
        self.active: list[list] = [[] for _ in range(n)]
        self.w = np.zeros(factors.dimension)
        for i in range(n):
            nodes, _, _ = self.parts[i]
            base = int(factors.node_offsets[i])
            truth = factors.truth[base : base + len(nodes)]
            for v, psi in enumerate(nodes):
                self.q[(i, v)] = mass[i] * np.eye(len(psi))[truth[v]]
            for e, (a, b) in enumerate(self.edges[i]):
                self.q[(i, a, b, e)] = np.outer(self.q[(i, a)], self.q[(i, b)]) / mass[i]
                for end, v in enumerate((a, b)):
                    self.multipliers[(i, e, end)] = np.zeros(len(nodes[v]))

    def residual(self, i: int, e: int, end: int) -> np.ndarray:
        """M q - p at one end of an edge."""
        a, b = self.edges[i][e]
        return self.q[(i, a, b, e)].sum(axis=1 - end) - self.q[(i, (a, b)[end])]

    def scores(self, factor: tuple) -> np.ndarray:
        """The negative gradient of a factor, the direction of ascent."""
        i, *rest = factor
        nodes, losses, edges = self.parts[i]
        if len(rest) == 1:
            v = rest[0]
            s = losses[v] + nodes[v] @ self.w
            for e, ends in enumerate(self.edges[i]):
                for end in (0, 1):
                    if ends[end] == v:
                        z = self.multipliers[(i, e, end)]
                        s = s + self.rho[i] * (self.residual(i, e, end) + z)
            return s
        e = rest[2]
        s = (edges[e] @ self.w).reshape(self.q[factor].shape)
        messages = [self.residual(i, e, end) + self.multipliers[(i, e, end)] for end in (0, 1)]
        return s - self.rho[i] * (messages[0][:, None] + messages[1][None, :])

    def features(self, factor: tuple) -> np.ndarray:
        i, *rest = factor
        return self.parts[i][0][rest[0]] if len(rest) == 1 else self.parts[i][2][rest[2]]

    def best(self, factor: tuple) -> tuple[np.ndarray, float]:
        """The best d of (18) and its gain."""
        q, s = self.q[factor], self.scores(factor)
        d = projected(q + s / self.bound, self.mass[factor[0]]) - q
        return d, float((s * d).sum() - 0.5 * self.bound * (d * d).sum())

    def step(self, order: np.ndarray) -> None:
        for i in order:
            own = [f for f in self.q if f[0] == i]
            own.sort(key=lambda f: (len(f), f[-1]))  # nodes, then edges
            gains = [self.best(f)[1] for f in own]
            found = own[int(np.argmax(gains))]
            if max(gains) > 0 and found not in self.active[i]:
                self.active[i].append(found)
            for factor in self.active[i]:
                d, _ = self.best(factor)
                self.q[factor] = self.q[factor] + d
                self.w = self.w - d.ravel() @ self.features(factor)
        for i, e, end in self.multipliers:
            self.multipliers[(i, e, end)] += self.eta * self.residual(i, e, end)


def projected(x: np.ndarray, mass: float) -> np.ndarray:
    """The nearest point of mass * simplex, by bisection of the level."""
    low, high = x.min() - mass, x.max()
    for _ in range(200):
        level = 0.5 * (low + high)
        low, high = (level, high) if np.maximum(x - level, 0).sum() > mass else (low, level)
    return np.maximum(x - 0.5 * (low + high), 0)
