"""Stochastic subgradient with step 1/t and averaging: the well-known baseline.

    w_t = (1 - 1/t) w_{t-1} - (n/t) C v_i psi_i(u_t),     blocks in a new random order for every pass

After p whole passes, the chosen outputs, each with C v_i / p, are feasible multipliers that give
w_t. So even this method has a certificate, but its slow rate keeps the certificate from being
tight.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from maxmargin.data.arrays import FLAG
from maxmargin.problem import Problem, Support, gap_between
from maxmargin.problem.regularizer import PRIOR
from maxmargin.solvers.base import Snapshot, Solver, StepReport, option, slow
from maxmargin.solvers.dual_state import DualState, open_state


@dataclass(frozen=True)
class Subgradient(Solver):
    """Stochastic subgradient.

    Parameters
    ----------
    averaging : bool
        Return the average of the iterates, in which later iterates weigh more.
    """

    name: ClassVar[str] = "subgradient"
    pairwise_optimum: ClassVar[bool] = False
    honours: ClassVar[tuple[str, ...]] = (PRIOR,)
    continues_from: ClassVar[tuple[str, ...]] = ()  # its multipliers count visits since w = 0
    advice: ClassVar[str] = slow("subgradient")
    averaging: bool = option(True, FLAG)

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> DualState:
        state = open_state(problem, tol, rng)
        state.core.clear()
        if self.averaging:
            state.core.start_average()
        return state

    def step(self, problem: Problem, state: DualState) -> StepReport:
        before = state.oracle_calls
        risk = state.subgradient(state.rng.permutation(problem.active))
        state.passes += 1
        w, support = self._last(problem, state)
        dual = problem.dual_objective(support)
        primal = problem.regularizer.value(w) + risk  # with each slack at the w of its visit
        estimate = gap_between(primal, dual, problem.total)
        return StepReport(state.oracle_calls - before, estimate, dual, state.n_planes)

    def _last(self, problem: Problem, state: DualState) -> tuple[np.ndarray, Support]:
        """Return the last iterate, and each block's counts scaled to its mass.

        An interrupt may come during the first pass. Blocks that were not visited then stay at their
        true outputs.
        """
        w = state.sums() * (len(problem.active) / max(state.core.steps, 1.0))
        counts = replace(state.support(), partial=state.passes == 0)
        return self._home(state, w), counts.rescaled(problem.mass)

    def solution(self, problem: Problem, state: DualState) -> tuple[np.ndarray, Support]:
        w, support = self._last(problem, state)
        if not self.averaging:
            return w, support
        # sum_t S_t = (T + 1) S_T - sum_j j delta_j,   average = 2 n / (T (T + 1)) sum_t S_t
        T, n = max(state.core.steps, 1.0), len(problem.active)
        total = (T + 1) * state.sums() - state.core.weighted()
        return self._home(state, 2.0 * n / (T * (T + 1)) * total), support

    @staticmethod
    def _home(state: DualState, u: np.ndarray) -> np.ndarray:
        """Return u relative to the origin instead of the mean of a prior."""
        return u if state.mean is None else u + state.mean

    def resumes(self, problem: Problem) -> bool:
        return True

    def snapshot(self, problem: Problem, state: DualState) -> Snapshot:
        """Return the counts of visits, times mass."""
        return state.snapshot(self._last(problem, state)[0], self.averaging)

    def resume(
        self, problem: Problem, tol: float, rng: np.random.Generator, at: Snapshot
    ) -> DualState:
        state = self.start(problem, tol, rng)
        state.go_on(at, self.averaging, counts=True)
        state.passes = int(state.core.steps / len(problem.active))
        return state

    def learn(self, problem: Problem, state: DualState, slacks: np.ndarray) -> None:
        """Do nothing: S is a plain sum."""
