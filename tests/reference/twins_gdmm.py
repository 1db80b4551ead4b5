"""The readable twin of GDMM, the greedy direction method of multipliers, on chains (Yen et al.).

It is Algorithm 1 of the paper.

    q[j]         marginals of position j: {label: mass}           c = C v_i is their sum
    q[f]         marginals of the pair f = (j, j + 1): {(y, z): mass}
    w(q)         sum_f (c phi_f(truth) - sum_y q_f(y) phi_f(y)), always recomputed
    m_jf(y)      sum_{y_f with y at j} q_f(y_f) - q_j(y) + lambda_jf(y)

Factors are visited in the order of the positions; a pair comes before the later of its positions.
With `sweeps`, the active labels of the example are visited again, back and forth. Before each of
these sweeps the multipliers make a step of `GENTLE` times eta. With k > 0, w is (w(q) + k z) / (1 +
k), around a centre z.
"""

from __future__ import annotations

from typing import Any

import numpy as np

GENTLE = 0.4  # factor on eta between sweeps
Factor = tuple[int, ...]  # (example, position) or (example, position, position + 1)


class GdmmTwin:
    """The state of the method on a case of chains; `rho` and `eta` are as in the paper."""

    def __init__(
        self,
        case: Any,
        rho: float,
        eta: float,
        inner: int,
        direction: str = "pairwise",
        sweeps: int = 0,
    ) -> None:
        self.truth, self.rho, self.eta, self.inner = case.truth, rho, eta, inner
        self.direction, self.sweeps = direction, sweeps
        # `seen` sums the gaps of the factors since it was last set to 0
        self.k, self.seen = 0.0, 0.0
        self.origin = self.center = np.zeros(case.truth.size_joint_feature)
        self.previous: np.ndarray | None = None
        self.X = case.truth.examples(case.X)
        self.Y = [[case.truth.classes.index(label) for label in y] for y in case.Y]
        self.c = case.budgets
        self.K = len(case.truth.classes)
        self.q: dict[Factor, dict[tuple, float]] = {}
        self.multipliers: dict[tuple[Factor, int], np.ndarray] = {}
        for i, y in enumerate(self.Y):
            for t in range(len(y)):
                if t > 0:
                    self.q[(i, t - 1, t)] = {(y[t - 1], y[t]): self.c[i]}
                self.q[(i, t)] = {(y[t],): self.c[i]}

    def phi(self, factor: Factor, labels: tuple) -> np.ndarray:
        """Joint features of one factor, in the order of coef_."""
        truth, (i, *positions) = self.truth, factor
        names = [truth.classes[label] for label in labels]
        if len(positions) == 1:
            return self._node(self.X[i], positions[0], names[0])
        K, width = self.K, len(self._node(self.X[i], 0, truth.classes[0]))
        table = np.zeros((K, K))
        table[labels] = 1.0
        vector = np.zeros(width)
        first = width - K * K - K * (truth.start + truth.end)
        vector[first : first + K * K] = table.ravel()
        return vector

    def _node(self, x: np.ndarray, t: int, name: Any) -> np.ndarray:
        vector = self.truth.joint_feature(x[t : t + 1], [name])
        start, end = self.truth.start, self.truth.end
        size = len(vector)
        if end and t < len(x) - 1:
            vector[size - self.K :] = 0.0
        if start and t > 0:
            vector[size - self.K * (1 + end) : size - self.K * end or None] = 0.0
        return vector

    def weights(self) -> np.ndarray:
        """The weights (origin + w(q) + k z) / (1 + k)."""
        return (self.origin + self.of_marginals() + self.k * self.center) / (1 + self.k)

    def recenter(self, momentum: float, k: float) -> None:
        """Set z = w + momentum (w - w at the last call), and k."""
        w = self.weights()
        self.center = w if self.previous is None else w + momentum * (w - self.previous)
        self.previous, self.k = w, k

    def of_marginals(self) -> np.ndarray:
        """w(q)."""
        w = np.zeros(self.truth.size_joint_feature)
        for factor, marginals in self.q.items():
            i, *positions = factor
            right = tuple(self.Y[i][t] for t in positions)
            w += self.c[i] * self.phi(factor, right)
            for labels, mass in marginals.items():
                w -= mass * self.phi(factor, labels)
        return w

    def residual(self, pair: Factor, end: int) -> np.ndarray:
        """M_jf q_f - q_j over the labels of one end of a pair."""
        found = np.zeros(self.K)
        for labels, mass in self.q[pair].items():
            found[labels[end]] += mass
        for (label,), mass in self.q[(pair[0], pair[1 + end])].items():
            found[label] -= mass
        return found

    def message(self, pair: Factor, end: int) -> np.ndarray:
        return self.residual(pair, end) + self.multipliers.get((pair, end), 0.0)

    def scores(self, factor: Factor) -> np.ndarray:
        """The negative gradient over all labels of a factor, up to a constant of the factor."""
        w, K = self.weights(), self.K
        if len(factor) == 3:
            table = np.array([[w @ self.phi(factor, (y, z)) for z in range(K)] for y in range(K)])
            left, right = self.message(factor, 0), self.message(factor, 1)
            return table - self.rho * left[:, None] - self.rho * right[None, :]
        i, t = factor
        weight = 1.0 / len(self.Y[i]) if self.truth.mean else 1.0
        found = weight * self.truth.costs[self.Y[i][t]]
        found = found + [w @ self.phi(factor, (y,)) for y in range(K)]
        for pair, end in (((i, t - 1, t), 1), ((i, t, t + 1), 0)):
            if pair in self.q:
                found = found + self.rho * self.message(pair, end)
        return found

    def curvature(self, factor: Factor, d: dict[tuple, float]) -> float:
        """|w(d)|^2 + rho |change of the messages by d|^2."""
        vector = sum(c * self.phi(factor, labels) for labels, c in d.items())
        square = float(np.sum(np.square(vector))) / (1 + self.k)
        ends = 2 if len(factor) == 3 else 1
        sums = np.zeros((ends, self.K))
        for labels, c in d.items():
            for end in range(ends):
                sums[end, labels[end]] += c
        if len(factor) == 3:
            return square + self.rho * float(np.sum(sums**2))
        i, t = factor
        pairs = ((i, t - 1, t) in self.q) + ((i, t, t + 1) in self.q)
        return square + self.rho * pairs * float(np.sum(sums**2))

    def move(self, factor: Factor, scores: np.ndarray) -> dict[tuple, float]:
        """The direction inside the active set (15) to (17); empty if there is none."""
        marginals, c = self.q[factor], self.c[factor[0]]
        up = max(marginals, key=lambda labels: scores[labels])
        down = min((y for y in marginals if marginals[y] > 0), key=lambda y: scores[y])
        if self.direction == "pairwise":
            return {} if up == down else {up: 1.0, down: -1.0}
        mean = sum(mass * scores[labels] for labels, mass in marginals.items())
        towards = {labels: -mass for labels, mass in marginals.items()}
        towards[up] += c
        if self.direction == "away" and mean - c * scores[down] > c * scores[up] - mean:
            towards = dict(marginals)
            towards[down] -= c
        return towards

    def search(self, factor: Factor) -> None:
        """Add the best label to the active set."""
        scores = self.scores(factor)
        best = np.unravel_index(int(np.argmax(scores)), scores.shape)
        self.q[factor].setdefault(tuple(int(label) for label in best), 0.0)

    def visit(self, factor: Factor, inner: int) -> None:
        """Make exact steps inside the active set."""
        for turn in range(inner):
            scores, marginals = self.scores(factor), self.q[factor]
            d = self.move(factor, scores)
            slope = sum(c * float(scores[labels]) for labels, c in d.items())
            if turn == 0:
                top = max(float(scores[labels]) for labels in marginals)
                mean = sum(mass * float(scores[labels]) for labels, mass in marginals.items())
                self.seen += self.c[factor[0]] * top - mean
            if slope <= 1e-12:
                break
            longest = min(marginals[labels] / -c for labels, c in d.items() if c < 0)
            step = min(longest, slope / self.curvature(factor, d))
            for labels, c in d.items():
                mass = marginals[labels] + step * c
                marginals[labels] = mass if mass > 1e-15 * self.c[factor[0]] else 0.0

    def rest(self, i: int) -> None:
        """Remove labels without mass from the active sets of an example."""
        for factor in self.factors(i):
            marginals = self.q[factor]
            self.q[factor] = {labels: mass for labels, mass in marginals.items() if mass > 0}

    def factors(self, i: int, back: bool = False) -> list[Factor]:
        """The factors of an example along the way; a pair comes just before the second of its positions."""
        order = range(len(self.Y[i]))[:: -1 if back else 1]
        found: list[Factor] = []
        for n, t in enumerate(order):
            if n > 0:
                found.append((i, t, t + 1) if back else (i, t - 1, t))
            found.append((i, t))
        return found

    def visit_example(self, i: int) -> None:
        """Run Algorithm 1 on the factors of an example, and sweeps over its active labels."""
        self.rest(i)
        self.seen, fresh = 0.0, set()
        for factor in self.factors(i):
            before = set(self.q[factor])
            self.search(factor)
            fresh |= {(factor, labels) for labels in set(self.q[factor]) - before}
            self.visit(factor, self.inner)
        if not self.sweeps:
            return
        self.join(i, fresh)
        enough = 0.2 * self.seen
        for n in range(self.sweeps):
            self.seen = self.update_multipliers(i, GENTLE)
            for factor in self.factors(i, back=n % 2 == 0):
                self.visit(factor, 1)
            if self.seen <= enough:
                return

    def join(self, i: int, fresh: set) -> None:
        """Add pairs of active labels if at least one of the two is fresh."""
        for pair in self.factors(i):
            if len(pair) == 3:
                left, right = (i, pair[1]), (i, pair[2])
                for y in self.q[left]:
                    for z in self.q[right]:
                        if (left, y) in fresh or (right, z) in fresh:
                            self.q[pair].setdefault((*y, *z), 0.0)

    def update_multipliers(self, i: int, part: float = 1.0) -> float:
        """Make the step (13) for an example; return the sum of rho |<m, residual>| before it."""
        sum_before = 0.0
        for pair in self.factors(i):
            for end in (0, 1) if len(pair) == 3 else ():
                residual, known = self.residual(pair, end), self.multipliers.get((pair, end), 0.0)
                sum_before += self.rho * float(np.sum(np.abs(residual * (residual + known))))
                self.multipliers[(pair, end)] = known + part * self.eta * residual
        return sum_before

    def step(self, order: np.ndarray) -> None:
        """Algorithm 1: one pass over all factors, then the multipliers."""
        for i in order:
            self.visit_example(i)
        for i in range(len(self.Y)):
            self.update_multipliers(i)
