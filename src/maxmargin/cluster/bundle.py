"""The master problem of the driver: find the best mixture of a few dual points of each part.

    maximise over beta   sum_c beta_c b_c - <c, q> - <q, Sigma q> / (2 (1 + k)),     q = sum_c beta_c q_c

Here beta of each part lies on a simplex and c = (m + k z) / (1 + k), where m is the mean of the prior. This
is the dual of P(w) + k/2 |w - z|^2 in the metric of the prior, restricted to these points. The w that belongs
to q is c + Sigma q / (1 + k). The current point of each part is among the points, so this dual never falls.

    D = sum_c beta_c b_c - R*(q)

D is a lower bound on the optimum for every such beta. If a worker dies, its points are replaced by one
frozen point, a number and a vector that no worker has to hold. A part may give weight to its frozen point
until its own points are as good.
"""

from __future__ import annotations

import numpy as np

from maxmargin.cluster.worker import CURRENT, FROZEN, Answer, Point
from maxmargin.problem.plane import CompactVector, compact, inner, with_zeros
from maxmargin.problem.regularizer import SquaredNorm
from maxmargin.solvers.cut_state import solve_program

SWEEPS = 50  # largest number of sweeps over the parts; fewer may leave the mixture short of its tolerance
NEWTON_STEPS = 20  # largest number of Newton steps after each sweep
NEGLIGIBLE = 1e-12  # share below which a point is dropped from a mixture
EMPTY = -3


class Bundle:
    """Points in a table with a row of slots for each part.

    Slot 0 of a part holds its current point, slot 1 a frozen point, the others its older points. Vectors
    keep the form in which they arrived, and many are sparse: the work grows with their entries, not with the
    number of weights.
    """

    def __init__(self, regularizer: SquaredNorm, n_parts: int, dimension: int, older: int):
        self.regularizer = regularizer
        self.older = older
        self.width: int = older + 4
        self.numbers: np.ndarray = np.full((n_parts, self.width), EMPTY)
        self.numbers[:, 0] = CURRENT
        self.offsets: np.ndarray = np.zeros(self.numbers.shape)
        self.beta: np.ndarray = np.zeros(self.numbers.shape)
        self.beta[:, 0] = 1.0
        self.dimension = dimension
        self.vectors: list[CompactVector] = [compact(np.zeros(dimension))] * self.numbers.size
        self.sums: dict[int, np.ndarray] = {}  # cached q of parts; a change drops it
        self.gram: np.ndarray = np.zeros((self.numbers.size, self.numbers.size))
        self.mean: np.ndarray = (
            np.zeros(dimension) if regularizer.mean is None else regularizer.mean
        )

    def slots(self, part: int) -> np.ndarray:
        """The filled slots of a part, as indices into ``vectors``."""
        return part * self.width + np.flatnonzero(self.numbers[part] != EMPTY)

    def receive(self, answers: dict[int, Answer]) -> None:
        """Store the three points of each answer; the current point is the one that the worker computed."""
        changed = []
        for part, answer in answers.items():
            if answer.fresh:
                changed.append(self._lose(part))
            number = 2 * answer.version
            places = [0, *np.flatnonzero(self.numbers[part, 2:] == EMPTY)[:2] + 2]
            names = (CURRENT, number, number + 1)
            points = (answer.current, answer.proposal, answer.cut)
            for place, name, point in zip(places, names, points, strict=True):
                changed.append(self._put(part, place, name, point))
        if changed:
            self._measure(changed)

    def _measure(self, changed: list[int]) -> None:
        """Update the inner products of the changed vectors."""
        images = np.zeros((self.dimension, len(changed)))
        for column, row in enumerate(changed):
            images[:, column] = self.regularizer.image(with_zeros(self.vectors[row]))
        rows, used = np.array(changed), np.flatnonzero(self.numbers != EMPTY)
        products = np.array([np.ravel(self.vectors[row] @ images) for row in used])
        self.gram[np.ix_(used, rows)] = products
        self.gram[np.ix_(rows, used)] = products.T

    def _lose(self, part: int) -> int:
        """Replace the points of a part, lost with their worker, by their mixture as one frozen point."""
        offset, vector = self.at(part)
        self.numbers[part], self.beta[part] = EMPTY, 0.0
        self.beta[part, 1] = 1.0
        return self._put(part, 1, FROZEN, Point(offset, vector))

    def freeze(self, offsets: np.ndarray, vectors: np.ndarray) -> None:
        """Put all weight of each part on a point from an earlier run, which no worker holds.

        Called before the first round.
        """
        rows = [
            self._put(part, 1, FROZEN, Point(float(b), q))
            for part, (b, q) in enumerate(zip(offsets, vectors, strict=True))
        ]
        self.beta[:, :2] = 0.0, 1.0
        self._measure(rows)

    def _put(self, part: int, place: int, number: int, point: Point) -> int:
        """Store a point in a slot; return its index into ``vectors``."""
        self.numbers[part, place], self.offsets[part, place] = number, point.offset
        row = part * self.width + place
        self.vectors[row] = point.vector
        self.sums.pop(part, None)
        return row

    def at(self, part: int) -> tuple[float, np.ndarray]:
        """b and q of the mixture of a part."""
        if part not in self.sums:
            self.sums[part] = self._sum(part, self.beta[part])
        return float(self.offsets[part] @ self.beta[part]), self.sums[part]

    def _sum(self, part: int, shares: np.ndarray) -> np.ndarray:
        """The mixture of the vectors of a part with the given shares."""
        total = np.zeros(self.dimension)
        for place in np.flatnonzero(shares):
            vector = self.vectors[part * self.width + place]
            if isinstance(vector, np.ndarray):
                total += shares[place] * vector
            else:
                total[vector.indices] += shares[place] * vector.data
        return total

    def slopes(self, rows: np.ndarray, w: np.ndarray) -> np.ndarray:
        """<q, w> of the points at the given indices."""
        return np.array([inner(self.vectors[row], w) for row in rows])

    @property
    def frozen(self) -> bool:
        """Whether any part gives weight to a frozen point."""
        return bool((self.beta[:, 1] > 0).any())

    def thaw(self) -> None:
        """Remove all frozen points; the other points of each part take over their shares."""
        for part in np.flatnonzero(self.numbers[:, 1] == FROZEN):
            self.numbers[part, 1], self.beta[part, 1] = EMPTY, 0.0
            self.sums.pop(int(part), None)
            total = self.beta[part].sum()
            if total > 0:
                self.beta[part] /= total
            else:
                self.beta[part, 0] = 1.0

    def q(self) -> np.ndarray:
        """q summed over all parts."""
        total = np.zeros(self.dimension)
        for part in range(len(self.beta)):
            total += self.at(part)[1]
        return total

    def dual(self, q: np.ndarray) -> float:
        """D, for q of all parts."""
        return float((self.beta * self.offsets).sum()) - self.regularizer.conjugate(q)

    def centre(self, k: float, z: np.ndarray) -> np.ndarray:
        """c of the module docstring."""
        return (self.mean + k * z) / (1 + k)

    def weights(self, k: float, z: np.ndarray, q: np.ndarray) -> np.ndarray:
        """The w that belongs to q."""
        return self.centre(k, z) + self.regularizer.image(q) / (1 + k)

    def solve(self, parts: list[int], k: float, z: np.ndarray, tolerance: float) -> None:
        """Find the best mixture for these parts, until sum_parts (max slope - mean slope) <= tolerance."""
        own = [self.slots(part) for part in parts]
        if not own:
            return
        rows = np.concatenate(own)
        ends = np.cumsum([len(some) for some in own])[:-1]
        fixed = self.beta.copy()
        fixed[parts] = 0.0
        hessian = self.gram[np.ix_(rows, rows)] / (1 + k)
        offsets = self.offsets.ravel()[rows] - self.slopes(rows, self.centre(k, z))
        offsets -= self.gram[rows] @ fixed.ravel() / (1 + k)
        groups = np.split(np.arange(len(rows)), ends)
        beta = mixture(hessian, offsets, self.beta.reshape(-1)[rows], groups, tolerance)
        self.beta.reshape(-1)[rows] = beta
        self.sums.clear()

    def order(self, part: int) -> tuple[dict[int, float], tuple[int, ...], np.ndarray | None]:
        """Return the mixture of a part, the older points that its worker must keep, and a pull or None.

        The pull is q of the part; it is given if the frozen point has a share. After this call the mixture
        is the current point of the part in the table, too.
        """
        beta, numbers = self.beta[part], self.numbers[part]
        beta[beta < NEGLIGIBLE] = 0.0
        beta /= beta.sum()
        if beta[1] == 0.0 and numbers[1] == FROZEN:  # no weight is left on the frozen point
            numbers[1] = EMPTY
        lost, shares = float(beta[1]), np.where(numbers == FROZEN, 0.0, beta)
        pull = self.at(part)[1] if lost > 0 else None
        if not shares.any():  # all points of the part are lost: the worker keeps its current point
            shares[0] = 1.0
        shares /= shares.sum()
        mixture = {int(numbers[c]): float(shares[c]) for c in np.flatnonzero(shares)}
        self._mix(part, shares)
        self.beta[part] = 0.0
        self.beta[part, :2] = 1.0 - lost, lost
        return mixture, self._keep(part, shares), pull

    def _mix(self, part: int, shares: np.ndarray) -> None:
        """Replace the current point of a part by the mixture of its points."""
        first, own = part * self.width, slice(part * self.width, (part + 1) * self.width)
        self.offsets[part, 0] = shares @ self.offsets[part]
        self.vectors[first] = compact(self._sum(part, shares))
        self.sums.pop(part, None)
        row = shares @ self.gram[own]
        row[first] = shares @ row[own]
        self.gram[first], self.gram[:, first] = row, row

    def _keep(self, part: int, shares: np.ndarray) -> tuple[int, ...]:
        """Choose the older points to keep: points in the mixture come first, then the newest."""
        numbers = self.numbers[part]
        places = np.flatnonzero(numbers >= 0)
        order = places[np.lexsort((numbers[places], shares[places] > 0))[::-1]]
        numbers[order[self.older :]] = EMPTY
        return tuple(numbers[order[: self.older]].tolist())


def mixture(
    hessian: np.ndarray,
    offsets: np.ndarray,
    beta: np.ndarray,
    groups: list[np.ndarray],
    tolerance: float,
) -> np.ndarray:
    """Maximise <offsets, beta> - 1/2 beta' hessian beta, with each group of beta on a simplex.

    Sweeps over the groups, each solved by its own program, find which points matter. Newton steps among these
    points then end the zigzag of the sweeps. A Newton step stops at the border of the simplex.
    """
    for _ in range(SWEEPS):
        for own in groups:
            H = np.ascontiguousarray(hessian[np.ix_(own, own)])
            slope = offsets[own] - hessian[own] @ beta
            beta[own] = solve_program(H, slope + H @ beta[own], beta[own], 0.1 * tolerance)[0]
        for _ in range(NEWTON_STEPS):
            slope = offsets - hessian @ beta
            if sum(float(slope[own].max() - slope[own] @ beta[own]) for own in groups) <= tolerance:
                return beta
            if not newton_step(hessian, slope, beta, groups):
                break
    return beta


def newton_step(
    hessian: np.ndarray, slope: np.ndarray, beta: np.ndarray, groups: list[np.ndarray]
) -> bool:
    """Step towards the best point of a face; return whether the objective rises.

    The face is spanned by the points of beta with a positive share and by the steepest point of each group.
    """
    chosen = beta > 0
    for own in groups:
        chosen[own[np.argmax(slope[own])]] = True
    face = np.flatnonzero(chosen)
    owner = np.concatenate([np.full(len(own), g) for g, own in enumerate(groups)])[face]
    sums = (owner == np.arange(len(groups))[:, None]).astype(float)
    inner = hessian[np.ix_(face, face)]
    ridge = 1e-13 * max(float(np.trace(inner)), np.finfo(float).tiny) * np.eye(len(face))
    system = np.block([[inner + ridge, sums.T], [sums, np.zeros((len(groups),) * 2)]])
    move = np.linalg.lstsq(system, np.append(slope[face], np.zeros(len(groups))), rcond=None)[0]
    move = move[: len(face)]
    gain = float(slope[face] @ move - 0.5 * move @ inner @ move)
    down = move < 0
    most = float(np.min(-beta[face][down] / move[down], initial=1.0))
    if not gain > 0 or most <= 0:
        return False
    beta[face] = np.maximum(beta[face] + most * move, 0.0)
    if most < 1:  # the share that limits the step is exactly 0
        beta[face[down][np.argmin(-beta[face][down] / move[down])]] = 0.0
    for own in groups:
        beta[own] /= beta[own].sum()
    return True
