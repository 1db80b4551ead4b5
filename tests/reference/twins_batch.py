"""Twins of FASOLE, of the proximal method, and of dual coordinate ascent over all outputs.

The first two buffer outputs between oracle passes; the third enumerates all constraints. Notation
and the conversion from the paper's lambda are as in `reference.twins`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .twins import State, Trace, active_blocks, choose_wss2, pair_step, violator


def reduced_problem(state: State, blocks: list[int], tol: float, max_sweeps: int = 10000) -> None:
    """Problem (12): run Algorithm 2 over the outputs seen so far, until every G_i <= tol."""
    for _ in range(max_sweeps):
        updates = 0
        for i in blocks:
            u = state.best_cached(i)
            if state.score(i, u) - state.average_score(i) > tol:
                updates += pair_step(state, i, u, choose_wss2)
        if updates == 0:
            return


@dataclass
class FasolePass:
    """The counters of one pass of Algorithm 3."""

    gap: float = 0.0
    satisfied: int = 0
    checked: int = 0


@dataclass
class FasoleRun:
    """Algorithm 3, line by line; `K` is the share of satisfied blocks that starts the batch regime."""

    problem: Any
    tol: float
    K: float = 0.9
    regime: str = "online"
    satisfied: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = State(self.problem)
        self.blocks = active_blocks(self.problem)
        self.share = self.problem.budgets / self.problem.budgets.sum()
        self.satisfied = [False] * len(self.problem.budgets)

    def visit(self, i: int, counters: FasolePass) -> None:
        """The body of "forall i": oracle, gap, satisfied flag, buffer, online update."""
        counters.checked += 1
        u, gap = violator(self.state, i)
        counters.gap += self.share[i] * gap
        if gap <= self.tol:
            self.satisfied[i] = True
            counters.satisfied += 1
            return
        self.state.alpha[i].setdefault(u, 0.0)  # Y_i, A and b grow
        if self.regime == "online":
            pair_step(self.state, i, u, choose_wss2)

    def one_pass(self) -> bool:
        """One round of "repeat"; return whether it converged."""
        counters = FasolePass()
        for i in self.blocks:
            if not self.satisfied[i]:
                self.visit(i, counters)
        if counters.checked == len(self.blocks):
            if self.regime == "batch" and counters.gap <= self.tol:
                return True
            if self.K * len(self.blocks) <= counters.satisfied:
                self.regime = "batch"
        if all(self.satisfied[i] for i in self.blocks):
            self.satisfied = [False] * len(self.satisfied)
        reduced_problem(self.state, self.blocks, self.tol)
        return False


def fasole(problem: Any, tol: float = 1e-6, max_passes: int = 1000, K: float = 0.9) -> Trace:
    """Run FASOLE with the paper's reduced problem."""
    run = FasoleRun(problem, tol, K)
    trace = Trace(run.state, run.state.w.copy())
    for _ in range(max_passes):
        trace.converged = run.one_pass()
        trace.note()
        if trace.converged:
            break
    return trace


def starting_kappa(problem: Any, sample: int = 200) -> float:
    """k = kappa / lambda: mean |psi_i(y-hat)|^2 over mean Delta_i(y-hat), times the mean budget.

    y-hat is the loss-augmented output at w = 0. In the paper's scaling kappa has 1/m in front,
    and lambda m = 1/C.
    """
    w = np.zeros(problem.dimension)
    blocks = active_blocks(problem)[:sample]
    planes = [problem.plane(i, problem.oracle(i, w)) for i in blocks]
    norms = np.mean([vector @ vector for _, vector in planes])
    losses = np.mean([offset for offset, _ in planes])
    return float(np.mean(problem.budgets[blocks]) * norms / losses)


@dataclass
class ProximalRun:
    """Rounds on P(w) + k/2 |w - z|^2: one oracle pass, then passes over cached outputs."""

    problem: Any
    tol: float
    generator: np.random.Generator
    cached_passes: int = 3
    momentum: float = 0.3

    def __post_init__(self) -> None:
        self.state = State(self.problem, k=starting_kappa(self.problem))
        self.blocks = active_blocks(self.problem)
        self.previous = self.state.w.copy()

    def oracle_pass(self) -> None:
        """Visit the blocks in a fresh permutation, with one WSS2 step if G_i is positive."""
        for i in self.generator.permutation(self.blocks):
            u, gap = violator(self.state, i)
            if gap > 0:
                self.state.alpha[i].setdefault(u, 0.0)
                pair_step(self.state, i, u, choose_wss2)

    def cached_pass(self) -> None:
        """Make the same pass over the outputs seen so far."""
        for i in self.generator.permutation(self.blocks):
            pair_step(self.state, i, self.state.best_cached(i), choose_wss2)

    def gap_terms(self) -> tuple[float, float]:
        """The two terms of P(w) - D(alpha): sum_i c_i G_i and k^2/2 |w - z|^2."""
        state = self.state
        first = 0.0
        for i in self.blocks:
            best = state.score(i, self.problem.oracle(i, state.w))
            first += self.problem.budgets[i] * (best - state.average_score(i))
        shift = state.w - state.z
        return first, 0.5 * state.k**2 * float(shift @ shift)

    def move_centre(self, weaken: bool) -> None:
        """Set z = w + momentum (w - previous w); divide k by 1.3 if `weaken`; recompute w."""
        state = self.state
        state.z = state.w + self.momentum * (state.w - self.previous)
        self.previous = state.w.copy()
        state.k = state.k / 1.3 if weaken else state.k
        state.w = (state.k * state.z + state.direct()) / (1.0 + state.k)

    def round(self) -> bool:
        """Make one round; return whether the exact gap of the original problem is <= tol."""
        self.oracle_pass()
        for _ in range(self.cached_passes):
            self.cached_pass()
        first, second = self.gap_terms()
        if (first + second) / self.problem.budgets.sum() <= self.tol:
            return True
        self.move_centre(weaken=second > 0.5 * first)
        return False


def proximal(problem: Any, tol: float = 1e-6, max_passes: int = 1000, seed: int = 0) -> Trace:
    """Run accelerated proximal dual ascent, without the shortcuts of the compiled solver."""
    run = ProximalRun(problem, tol, np.random.default_rng(seed))
    trace = Trace(run.state, run.state.w.copy())
    for _ in range(max_passes):
        trace.converged = run.round()
        trace.note()
        if trace.converged:
            break
    return trace


def shuffled(order: np.ndarray, seed: int) -> np.ndarray:
    """The Fisher-Yates shuffle with the numbers of SplitMix64, as in the compiled epochs."""
    order, mask = order.copy(), 2**64 - 1
    for k in range(len(order), 1, -1):
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        j = (((z ^ (z >> 31)) >> 32) * k) >> 32
        order[[k - 1, j]] = order[[j, k - 1]]
    return order


def dual_coordinate(problem: Any, seeds: list[int], rounds: int = 200) -> Trace:
    """Algorithm 1 of the dual coordinate paper over all constraints, one epoch for each seed.

    A visit repeats pair steps until its block is solved. If one output of the pair is the true one,
    the step is the paper's update (12) of a single variable, else its update (15) of two.
    """
    state = State(problem)
    trace = Trace(state, state.w.copy())
    order = np.array(active_blocks(problem))
    for seed in seeds:
        for i in shuffled(order, seed):
            for _ in range(rounds):
                u = problem.oracle(i, state.w)
                if not pair_step(state, i, u, choose_wss2):
                    break
        trace.note()
    return trace
