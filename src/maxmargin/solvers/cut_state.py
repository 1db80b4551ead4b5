"""Cuts of the whole risk, their Gram matrix, their multipliers and w: the state of 1-slack cutting planes.

    risk(w) >= b_c + <g_c, w>  for every cut c;     D(beta) = <b, beta> - 1/2 |sum_c beta_c g_c|^2

with beta on the simplex. Any beta is a dual point of the problem: each cut is one (an output of every
block), and the problem's multipliers are their mixture.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin._core import core
from maxmargin.problem import Problem, Support
from maxmargin.problem.plane import Cut
from maxmargin.solvers.dual_state import open_state

QP_STEPS = 1_000_000  # of the inner quadratic program, at most
TOGETHER = 20  # cuts of the line search that are kept apart


def thin(vector: np.ndarray) -> np.ndarray | sp.csr_matrix:
    """The vector by its entries where these are few: late cuts hold the few mistakes that are left."""
    if np.count_nonzero(vector) > len(vector) / 4:
        return vector
    index = np.flatnonzero(vector).astype(np.int32)
    ends = np.array([0, len(index)], dtype=np.int32)
    return sp.csr_matrix((vector[index], index, ends), shape=(1, len(vector)))


def inner(vector: np.ndarray | sp.csr_matrix, dense: np.ndarray) -> float:
    """<vector, dense>."""
    return float(vector @ dense) if isinstance(vector, np.ndarray) else float((vector @ dense)[0])


@dataclass(frozen=True)
class Point:
    """A w with its exact slacks and objective."""

    primal: float
    w: np.ndarray
    slacks: np.ndarray


@dataclass
class CutState:
    """What 1-slack cutting planes know."""

    tol: float
    w: np.ndarray
    everything: np.ndarray  # the numbers of all blocks, shared by the cuts
    cache: Any = None  # the last outputs of each block, where they are kept
    best: Point | None = None
    gap: float = np.inf  # P(best) - D(beta), after the last exact cut
    rounds: int = 0  # cuts so far, cached ones included
    offsets: np.ndarray = field(default_factory=lambda: np.empty(0))
    beta: np.ndarray = field(default_factory=lambda: np.empty(0))
    idle: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    hessian: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    vectors: list[np.ndarray | sp.csr_matrix] = field(default_factory=list)
    points: list[Support] = field(default_factory=list)  # each cut as a dual point of its own
    proximity: float = 0.0  # k of the proximal term k/2 |w - center|^2
    center: np.ndarray | None = None
    pulls: np.ndarray = field(default_factory=lambda: np.empty(0))  # <g_c, center>
    trial: np.ndarray = field(
        default_factory=lambda: np.empty(0)
    )  # beta of the program with the term

    def add(self, problem: Problem, offset: float, vector: np.ndarray, point: Support) -> None:
        """A new cut: one more row of the Hessian."""
        image = problem.regularizer.metric(vector)
        row = np.array([inner(g, image) for g in self.vectors] + [vector @ image])
        n = len(self.beta)
        grown = np.empty((n + 1, n + 1))
        grown[:n, :n] = self.hessian
        grown[n, :] = grown[:, n] = row
        self.hessian = grown
        self.offsets = np.append(self.offsets, offset)
        self.beta = np.append(self.beta, 0.0)
        self.trial = np.append(self.trial, 0.0)
        self.idle = np.append(self.idle, 0)
        self.pulls = np.append(self.pulls, 0.0 if self.center is None else self.center @ image)
        self.vectors.append(thin(vector))
        self.points.append(point)

    def add_cut(self, problem: Problem, cut: Cut) -> None:
        """A cut of the oracle or of the cache."""
        point = Support(self.everything, problem.mass, slim(cut.outputs))
        self.add(problem, cut.offset, cut.vector, point)
        self.rounds += 1

    def mixed(self, beta: np.ndarray) -> np.ndarray:
        """sum_c beta_c g_c."""
        total = np.zeros_like(self.w)
        for b, g in zip(beta, self.vectors, strict=True):
            if b <= 0:
                continue
            if isinstance(g, np.ndarray):
                total += b * g
            else:
                total[g.indices] += b * g.data
        return total

    def solve(self, tolerance: float) -> None:
        """The program over the cuts, from where beta stands; then w by the law."""
        core.simplex_qp(self.hessian, self.offsets, self.beta, tolerance, QP_STEPS)
        self.beta /= self.beta.sum()
        if self.proximity == 0:
            self.w = -self.mixed(self.beta)
        else:
            self.solve_near(tolerance)

    def solve_near(self, tolerance: float) -> None:
        """The program with the proximal term: w = (k z - sum beta g) / (1 + k)."""
        k = self.proximity
        shrink = 1 / (1 + k)
        offsets = self.offsets + k * shrink * self.pulls
        if self.trial.sum() == 0:
            self.trial = self.beta.copy()
        core.simplex_qp(self.hessian * shrink, offsets, self.trial, tolerance, QP_STEPS)
        self.trial /= self.trial.sum()
        assert self.center is not None
        self.w = shrink * (k * self.center - self.mixed(self.trial))

    def search_line(self) -> None:
        """The best point between beta and the newest cut, as in the proof of Theorem 5."""
        towards = -self.beta
        towards[-1] += 1.0
        slope = float((self.offsets - self.hessian @ self.beta) @ towards)
        curvature = float(towards @ self.hessian @ towards)
        step = 1.0 if curvature <= slope else max(0.0, slope / curvature)
        self.beta = np.maximum(self.beta + step * towards, 0.0)
        self.beta /= self.beta.sum()
        self.w = -self.mixed(self.beta)

    def dual(self) -> float:
        """D(beta)."""
        return float(self.offsets @ self.beta - 0.5 * self.beta @ self.hessian @ self.beta)

    def risk(self, problem: Problem, w: np.ndarray) -> float:
        """What the cuts know of the risk at w."""
        image = problem.regularizer.metric(w)
        return max(b + inner(g, image) for b, g in zip(self.offsets, self.vectors, strict=True))

    def recenter(self, problem: Problem, center: np.ndarray, proximity: float) -> None:
        """A new centre and weight of the proximal term."""
        self.proximity = proximity
        if center is not self.center:
            self.center = center
            image = problem.regularizer.metric(center)
            self.pulls = np.array([inner(g, image) for g in self.vectors])

    def forget(self, keep: int) -> None:
        """Drop cuts that had no multiplier for `keep` rounds."""
        used = (self.beta > 0) | (self.trial > 0)
        self.idle = np.where(used, 0, self.idle + 1)
        stays = np.flatnonzero(self.idle <= keep)
        if len(stays) == len(self.beta):
            return
        for name in ("offsets", "beta", "trial", "idle", "pulls"):
            setattr(self, name, getattr(self, name)[stays])
        self.hessian = np.ascontiguousarray(self.hessian[np.ix_(stays, stays)])
        self.vectors = [self.vectors[c] for c in stays]
        self.points = [self.points[c] for c in stays]

    def gather(self, problem: Problem) -> None:
        """One cut in place of all: their mixture is a dual point as well."""
        if len(self.beta) <= TOGETHER:
            return
        offset, vector = float(self.offsets @ self.beta), self.mixed(self.beta)
        point = self.merged(problem)
        for name in ("offsets", "beta", "trial", "idle", "pulls"):
            setattr(self, name, getattr(self, name)[:0])
        self.hessian, self.vectors, self.points = np.empty((0, 0)), [], []
        self.add(problem, offset, vector, point)
        self.beta[0] = 1.0

    def support(self) -> Support:
        """The multipliers of the blocks: those of each cut, times its own."""
        used = [(b, p) for b, p in zip(self.beta, self.points, strict=True) if b > 0]
        outputs: Any = [p.outputs for _, p in used]
        plain = isinstance(outputs[0], np.ndarray)
        joined = np.concatenate(outputs) if plain else list(chain.from_iterable(outputs))
        return Support(
            np.concatenate([p.blocks for _, p in used]),
            np.concatenate([b * p.multipliers for b, p in used]),
            joined,
        )

    def merged(self, problem: Problem) -> Support:
        """The same, with what several cuts share added up by a dual state."""
        state = open_state(problem, self.tol, np.random.default_rng(0))
        state.restore(self.support())
        return state.support()


def slim(outputs: Any) -> Any:
    """Labels in as few bytes as they need: a cut keeps an output of every block."""
    if not isinstance(outputs, np.ndarray) or len(outputs) == 0:
        return outputs
    return outputs.astype(np.min_scalar_type(int(outputs.max())))


def unslim(outputs: Any) -> Any:
    """The outputs as the model takes them."""
    return outputs.astype(np.int32) if isinstance(outputs, np.ndarray) else outputs
