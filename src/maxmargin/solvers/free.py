"""Weights without any regulariser: infinite scales of a prior.

    min P(w), with an R that does not depend on w_F;   the dual has one more condition, sum a psi_F = 0

The method uses proximal points. Each is the solution of a problem with an ordinary prior, which any
solver takes:

    repeat:   w = argmin P(w) + 1/(2 s^2) |w_F - c|^2;     c <- c - s^2 sum a psi_F,  which is w_F

The certificate needs multipliers that meet the condition. The multipliers of the last w miss it by
r = sum a psi_F. They are repaired, and the true output receives the mass that other outputs lose:

    a_p <- kappa a_p (1 - <lambda, psi_p,F>),     (sum_p a_p psi_p,F psi_p,F') lambda = r

kappa <= 1 keeps every block within its mass. With hinge="sum" it keeps every multiplier within its
bound, and true outputs have no multipliers. A multiplier that would become negative is set to zero,
and lambda is computed again. If this fails, all mass goes to the true output, which always meets
the condition.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.problem import Problem, Support, loss_units
from maxmargin.problem.plane import joined_points
from maxmargin.problem.regularizer import Prior
from maxmargin.solvers.base import Snapshot, Solver, StepReport
from maxmargin.solvers.box_state import open_box
from maxmargin.solvers.dual_state import UnderPrior, open_state

ROUNDS = 30  # most corrections of lambda in one repair
SPREAD_FACTOR, MOST_SPREAD = 4.0, 1e4  # growth and limit of s^2 if the residual falls too slowly
SLOW_SHARE = 0.3  # slow: more than this share of the last residual is left
# The residual is only compared if the proximal gap is below this share of the price of a repair;
# above it, the gap could hide the residual.
SURE = 0.1
INNER = 0.3  # factor on tol for the proximal problems
EXACT = 1e-13  # share of sum a |psi_F| below which r counts as zero
LEAST_FACTOR = 1e-9  # a smaller factor on a multiplier is a rounding error, and becomes zero


@dataclass
class FeasibleMultipliers:
    """The repair of multipliers that nearly meet sum a psi_F = 0: it makes them feasible."""

    problem: Problem
    truth: Support
    columns: np.ndarray

    def __post_init__(self) -> None:
        self.missed: np.ndarray = np.zeros(len(self.columns))  # r of the last multipliers
        self.sizes: np.ndarray = self.problem.examples.output_sizes(self.truth.blocks)
        self.place: np.ndarray = np.full(self.problem.n_blocks, -1)
        self.place[self.truth.blocks] = np.arange(len(self.truth))

    def repair(self, support: Support) -> Support:
        """Return a dual point of the problem with free weights."""
        rows = self.problem.examples.select(support.blocks, support.outputs, self.columns)
        self.missed = support.multipliers @ rows
        factors = balance(rows, support.multipliers)
        if factors is None:
            return self.truth
        n, a = self.problem.n_blocks, support.multipliers
        if self.problem.summed:
            most = self.problem.mass[support.blocks]
            fits = np.divide(most, a * factors, out=np.ones(len(a)), where=a * factors > 0)
            kappa = min(1.0, float(fits.min(initial=1.0)))
            kept = np.minimum(kappa * a * factors, most)
            return Support(support.blocks, kept, support.outputs)
        moves = rows.any(axis=1)  # planes without free features, as of true outputs, stay
        before = np.bincount(support.blocks, a * moves, minlength=n)
        after = np.bincount(support.blocks, a * moves * factors, minlength=n)
        fits = np.divide(before, after, out=np.ones(n), where=after > 0)
        kappa = min(1.0, float(fits.min()))
        kept = np.where(moves, kappa * a * factors, a)
        return self.with_truth(support, kept, np.maximum(before - kappa * after, 0.0))

    def with_truth(self, support: Support, multipliers: np.ndarray, rest: np.ndarray) -> Support:
        """Return the planes with these multipliers, and true outputs with the rest of each block's mass."""
        blocks = np.flatnonzero(rest > 0)
        own = self.truth.chosen(self.place[blocks], self.sizes)
        own = replace(own, multipliers=rest[blocks])
        return joined_points([replace(support, multipliers=multipliers), own])


def balance(rows: np.ndarray, a: np.ndarray) -> np.ndarray | None:
    """Return factors t >= 0, near one, with sum_p a_p t_p rows_p = 0, or None on failure."""
    factors, used = np.ones(len(a)), rows.any(axis=1) & (a > 0)
    for _ in range(ROUNDS):
        left = (a * factors) @ rows
        if (np.abs(left) <= EXACT * ((a * factors) @ np.abs(rows))).all():
            return factors
        if not used.any():
            return None
        part = rows[used]
        gram = (part * a[used, None]).T @ part
        if not np.isfinite(gram).all():
            return None
        step = np.linalg.lstsq(gram, left, rcond=None)[0]
        factors[used] -= part @ step
        wrong = factors < LEAST_FACTOR
        factors[wrong], used[wrong] = 0.0, False
    return None


@dataclass
class FreeState:
    """The proximal problem, the solver's state on it, and the last repaired point."""

    problem: Problem
    inner: Any
    rng: np.random.Generator
    tol: float
    feasible: FeasibleMultipliers
    spread: float = 1.0  # s^2
    residual: float = np.inf
    point: tuple[np.ndarray, Support] | None = None


@dataclass(frozen=True)
class FreeSolver(Solver):
    """A solver for free weights: it runs ``solver`` on proximal points, with ordinary priors."""

    solver: Solver

    def start(
        self, problem: Problem, tol: float, rng: np.random.Generator, warm: Support | None = None
    ) -> FreeState:
        prior = problem.regularizer
        assert isinstance(prior, Prior) and prior.free is not None
        inner = copy.copy(problem)
        inner.regularizer = near(prior, np.zeros(problem.dimension), 1.0)
        truth = (open_box if problem.summed else open_state)(inner, tol, rng).support()
        feasible = FeasibleMultipliers(problem, truth, np.flatnonzero(prior.free))
        state = FreeState(inner, None, rng, INNER * tol, feasible)
        state.inner = self.solver.start(inner, state.tol, rng, warm)
        return state

    def step(self, problem: Problem, state: FreeState) -> StepReport:
        report = self.solver.step(state.problem, state.inner)
        w, support = self.solver.solution(state.problem, state.inner)
        repaired = state.feasible.repair(support)
        state.point, dual = (w, repaired), problem.dual_objective(repaired)
        prior: Any = state.problem.regularizer
        away = (w - prior.mean)[state.feasible.columns]
        apart = float(away @ away) / (2 * state.spread)
        seen = report.estimate * problem.total  # the gap of the proximal problem
        price = report.dual - apart - dual  # loss of the dual by the repair
        if seen <= price:
            center = prior.mean.copy()
            center[state.feasible.columns] -= state.spread * state.feasible.missed
            if seen <= SURE * price:
                residual = float(np.abs(state.feasible.missed).max())
                slow = residual > SLOW_SHARE * state.residual and state.spread < MOST_SPREAD
                state.spread *= SPREAD_FACTOR if slow else 1.0
                state.residual = residual
            self.recenter(problem, state, center, support)
        estimate = loss_units(seen + price, problem.total)
        done = estimate <= state.tol / INNER  # otherwise another proximal point is needed
        return replace(report, estimate=estimate, dual=dual, ended=report.ended if done else None)

    def recenter(
        self, problem: Problem, state: FreeState, center: np.ndarray, support: Support
    ) -> None:
        """Move to the next proximal point."""
        prior: Any = problem.regularizer
        last: Any = state.problem.regularizer
        state.problem.regularizer = following = near(prior, center, state.spread)
        inner = state.inner
        dual = inner if isinstance(inner, UnderPrior) else getattr(inner, "dual", None)
        if isinstance(dual, UnderPrior):
            dual.take_prior(following)
        elif not inner.take_prior(last, following):
            state.inner = self.solver.start(state.problem, state.tol, state.rng, support)

    def solution(self, problem: Problem, state: FreeState) -> tuple[np.ndarray, Support]:
        if state.point is not None:
            return state.point
        w, support = self.solver.solution(state.problem, state.inner)
        return w, state.feasible.repair(support)

    def resumes(self, problem: Problem) -> bool:
        return self.solver.resumes(problem)

    def snapshot(self, problem: Problem, state: FreeState) -> Snapshot:
        """Return the snapshot of the proximal problem, with its centre and its s^2."""
        at, prior = self.solver.snapshot(state.problem, state.inner), state.problem.regularizer
        center: Any = prior.mean
        return replace(at, own=at.own | {"center": center, "spread": np.array([state.spread])})

    def resume(
        self, problem: Problem, tol: float, rng: np.random.Generator, at: Snapshot
    ) -> FreeState:
        state, prior = self.start(problem, tol, rng), problem.regularizer
        assert isinstance(prior, Prior)
        state.spread = float(at.array("spread", 1)[0])
        center = at.array("center", problem.dimension)
        state.problem.regularizer = near(prior, center, state.spread)
        state.inner = self.solver.resume(state.problem, state.tol, rng, at)
        return state

    def retarget(self, problem: Problem, state: FreeState, factor: float) -> None:
        state.tol *= factor
        self.solver.retarget(state.problem, state.inner, factor)

    def learn(self, problem: Problem, state: FreeState, slacks: np.ndarray) -> None:
        self.solver.learn(state.problem, state.inner, slacks)


def fitted_to(problem: Problem, solver: Solver) -> Solver:
    """Wrap a solver in proximal points, for a problem with free weights."""
    # Each proximal point starts from the multipliers of the last one, and the repair works plane by
    # plane.
    if not solver.continues_from or not solver.takes_free:
        raise ValueError(f"solver {solver.name!r} does not support infinite scales in prior")
    return FreeSolver(solver)


def near(prior: Prior, w: np.ndarray, spread: float) -> Prior:
    """Return the prior that keeps its free weights near the values in w."""
    assert prior.free is not None
    mean = np.zeros(len(w)) if prior.mean is None else prior.mean
    mean = np.where(prior.free, w, mean)
    scale = np.where(prior.free, np.sqrt(spread), prior.scale)
    return Prior(mean, scale, prior.bound, prior.metric, prior.asks_for)
