"""Cutting planes (Joachims, Finley and Yu, 2009): one slack for the whole set, or one for each example.

OneSlack, Algorithms 3 and 4. A cut is one plane for the whole risk, the sum of the worst planes of all
blocks at w. The dual over the cuts is a small quadratic program over the simplex,

    max_beta <b, beta> - 1/2 |sum_c beta_c g_c|^2,   beta >= 0, sum beta = 1,   w = - sum_c beta_c g_c

    repeat: cut at w; gap = P(w) - D(beta); add the cut, extend the Hessian by a row, solve from beta on

NSlack, Algorithms 1 and 2. Every block has its own working set of outputs; after each batch of blocks the
quadratic program over all working sets is solved from where it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from maxmargin._core import core
from maxmargin.problem import Problem, Support
from maxmargin.solvers.base import Solver, StepReport, option
from maxmargin.solvers.dual_state import DualState, open_state

QP_STEPS = 1_000_000  # of the inner quadratic program, at most


@dataclass(frozen=True)
class OneSlack(Solver):
    """1-slack cutting planes.

    Parameters
    ----------
    keep : int
        Rounds that a cut without a multiplier is kept.
    accuracy : float
        The inner program is solved to this part of the last gap.
    """

    name: ClassVar[str] = "one-slack"
    keep: int = 50
    accuracy: float = 0.1

    def __post_init__(self) -> None:
        option("OneSlack", "keep", self.keep, test=lambda x: x >= 1, says="at least 1")
        option("OneSlack", "accuracy", self.accuracy, test=lambda x: 0 < x < 1, says="in (0, 1)")

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> CutState:
        truth = open_state(problem, tol, rng).support()
        everything, metric = np.arange(problem.n_blocks), problem.examples.metric
        state = CutState(tol, np.zeros(problem.dimension), everything, metric)
        state.add(0.0, np.zeros(problem.dimension), truth)
        state.beta[0] = 1.0
        if warm is not None:
            point = warm.rescaled(problem.mass)
            offset, vector = problem.examples.combine(
                point.blocks, point.multipliers, point.outputs, problem.rescaling
            )
            state.add(offset, vector, point)
            state.beta[:] = [0.0, 1.0]
            state.w = -vector
        return state

    def step(self, problem: Problem, state: CutState) -> StepReport:
        cut = problem.cut(state.w)
        gap = problem.regularizer.value(state.w) + cut.risk - state.dual()
        estimate = max(0.0, gap) / problem.total
        slacks: np.ndarray | None = cut.slacks  # w stays: the cut was an exact pass
        if estimate > state.tol:
            slacks = None
            state.add(
                cut.offset, cut.vector, Support(state.everything, problem.mass, slim(cut.outputs))
            )
            state.solve(self.accuracy * gap)
            state.forget(self.keep)
        return StepReport(problem.n_blocks, estimate, state.dual(), len(state.beta), slacks)

    def solution(self, problem: Problem, state: CutState) -> tuple[np.ndarray, Support]:
        # Cuts share outputs of a block; a dual state adds up what is the same.
        merged = open_state(problem, state.tol, np.random.default_rng(0))
        merged.restore(state.support())
        return state.w, merged.support()

    def learn(self, problem: Problem, state: CutState, slacks: np.ndarray) -> None:
        """Nothing to mend: w is computed from the cuts."""


def slim(outputs: Any) -> Any:
    """Labels in as few bytes as they need: a cut keeps an output of every block."""
    if not isinstance(outputs, np.ndarray) or len(outputs) == 0:
        return outputs
    return outputs.astype(np.min_scalar_type(int(outputs.max())))


@dataclass
class CutState:
    """Cuts, their Gram matrix, their multipliers and w."""

    tol: float
    w: np.ndarray
    everything: np.ndarray  # the numbers of all blocks, shared by the cuts
    metric: Callable[[np.ndarray], np.ndarray]  # <g, metric(h)> is the inner product of two cuts
    offsets: np.ndarray = field(default_factory=lambda: np.empty(0))
    beta: np.ndarray = field(default_factory=lambda: np.empty(0))
    idle: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    hessian: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    vectors: list[np.ndarray] = field(default_factory=list)
    points: list[Support] = field(default_factory=list)  # each cut as a dual point of its own

    def add(self, offset: float, vector: np.ndarray, point: Support) -> None:
        """A new cut: one more row of the Hessian."""
        image = self.metric(vector)
        row = np.array([g @ image for g in self.vectors] + [vector @ image])
        n = len(self.beta)
        grown = np.empty((n + 1, n + 1))
        grown[:n, :n] = self.hessian
        grown[n, :] = grown[:, n] = row
        self.hessian = grown
        self.offsets = np.append(self.offsets, offset)
        self.beta = np.append(self.beta, 0.0)
        self.idle = np.append(self.idle, 0)
        self.vectors.append(vector)
        self.points.append(point)

    def solve(self, tolerance: float) -> None:
        """The program over the cuts, from where beta stands; then w by the law."""
        core.simplex_qp(self.hessian, self.offsets, self.beta, tolerance, QP_STEPS)
        self.beta /= self.beta.sum()
        self.w = -sum(b * g for b, g in zip(self.beta, self.vectors, strict=True) if b > 0)

    def dual(self) -> float:
        """D(beta)."""
        return float(self.offsets @ self.beta - 0.5 * self.beta @ self.hessian @ self.beta)

    def forget(self, keep: int) -> None:
        """Drop cuts that had no multiplier for `keep` rounds."""
        self.idle = np.where(self.beta > 0, 0, self.idle + 1)
        stays = np.flatnonzero(self.idle <= keep)
        if len(stays) == len(self.beta):
            return
        self.offsets, self.beta, self.idle = self.offsets[stays], self.beta[stays], self.idle[stays]
        self.hessian = np.ascontiguousarray(self.hessian[np.ix_(stays, stays)])
        self.vectors = [self.vectors[c] for c in stays]
        self.points = [self.points[c] for c in stays]

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


@dataclass(frozen=True)
class NSlack(Solver):
    """n-slack cutting planes.

    Parameters
    ----------
    batch : int
        Blocks that are asked between two solutions of the quadratic program.
    accuracy : float
        The program is solved until its gap is this part of tol.
    max_sweeps : int
        Sweeps of the program's solver, at most.
    """

    name: ClassVar[str] = "n-slack"
    batch: int = 100
    accuracy: float = 0.5
    max_sweeps: int = 1000

    def __post_init__(self) -> None:
        option("NSlack", "batch", self.batch, test=lambda x: x >= 1, says="at least 1")
        option("NSlack", "accuracy", self.accuracy, test=lambda x: 0 < x < 1, says="in (0, 1)")
        option("NSlack", "max_sweeps", self.max_sweeps, test=lambda x: x >= 1, says="at least 1")

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> DualState:
        return open_state(problem, tol, rng, warm=warm)

    def step(self, problem: Problem, state: DualState) -> StepReport:
        calls, seen = 0, 0.0
        for start in range(0, len(problem.active), self.batch):
            blocks = problem.active[start : start + self.batch]
            visit = state.visit(
                blocks, update=False, tolerance=self.accuracy * state.tol, threads=problem.n_jobs
            )
            calls, seen = calls + visit.oracle_calls, seen + visit.violation
            if (visit.violations > self.accuracy * state.tol).any():
                self._solve(problem, state)
        return StepReport(calls, seen / problem.total, state.dual(), state.n_planes)

    def learn(self, problem: Problem, state: DualState, slacks: np.ndarray) -> None:
        super().learn(problem, state, slacks)
        state.tol *= 0.5  # what it counts as satisfied was not enough

    def _solve(self, problem: Problem, state: DualState) -> None:
        """The quadratic program over all working sets, from where it stands."""
        for _ in range(self.max_sweeps):
            order = state.rng.permutation(problem.active)
            visit = state.visit(order, oracle=False, tolerance=0.0, threads=problem.n_jobs)
            if visit.violation <= self.accuracy * state.tol * problem.total or visit.gain <= 0:
                return
