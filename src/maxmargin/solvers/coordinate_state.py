"""Multipliers of explicit constraints, and w: the Python side of the core's ``Coordinate``.

A visit scores every output of a block and solves the block (``cpp/solvers/block_step.hpp``). Epochs
and rounds are compiled (``cpp/solvers/dual_coordinate.hpp``). As in a dual state, a prior with one
scale s acts like another C: objectives are divided by ``unit`` = s^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.models.examples import ExplicitConstraints
from maxmargin.problem import Problem, Support
from maxmargin.problem.regularizer import Prior
from maxmargin.solvers.base import StepReport
from maxmargin.solvers.dual_state import known_outputs, shift_of

MANY = 2**40  # number of visits that means no limit
SMALL_WORK = 250_000  # blocks x weights: on smaller data, one step may make several rounds
# A step on small data makes at least LEAST_ROUNDS rounds, or one for every ROUNDS_BEFORE rounds
# made so far. More rounds per step would overrun a budget.
LEAST_ROUNDS, ROUNDS_BEFORE = 2, 2
# Factor on the last estimate: the next target if a step follows although the target was met.
FURTHER = 1e-2
# Factors on the gap that visits saw while w moved, which give the gap at the end of a round. If
# they are too small, some exact passes are made in vain; if they are too large, some rounds are. An
# exact pass of small data costs more than a round.
HINDSIGHT, HINDSIGHT_OF_SMALL = 1.4, 2.0
# If an epoch saw a gap above this factor times the target, old parts of the gap are measured again
# before the estimate counts. Larger values trust old parts more often and risk an exact pass in
# vain.
FAR, FAR_OF_SMALL = 10.0, 3.0
# Satisfied blocks are skipped for some rounds if at most this share of all blocks is not satisfied.
# On small data they are always skipped. If the share is larger, skipping saves little, and the other
# blocks move w far away from the w at which the skipped blocks were satisfied.
FEW_BLOCKS = 0.125
# If the target gap is below PRECISE times the loss, rounds that leave a gap below CLIMB_BELOW times
# the loss end with a climb of the face. For rougher solutions a climb costs more time than it
# saves.
PRECISE, CLIMB_BELOW = 1e-6, 0.3


def explicit_constraints(problem: Problem) -> ExplicitConstraints | None:
    """Return all constraints as a list if the problem allows it, else None.

    The problem must have margin rescaling and no frozen plane. Its prior must have mean 0 and one
    scale.
    """
    prior = problem.regularizer
    scaled = isinstance(prior, Prior) and not (prior.uniform and prior.mean is None)
    if problem.rescaling != "margin" or scaled or problem.frozen is not None:
        return None
    return problem.examples.explicit


@dataclass(eq=False, repr=False)
class CoordinateState:
    """Multipliers of explicit constraints, and w. Blocks with g_i <= ``satisfied_below`` are satisfied."""

    problem: Problem
    explicit: ExplicitConstraints
    satisfied_below: float
    rng: np.random.Generator
    single: bool
    aim: float = 0.0  # target gap, at which a step may end before its last round
    enough: float = np.inf  # the gap that ends a step, if it is less than ``aim``
    loss: float = 0.0  # mean loss, if it is known
    made: int = 0  # rounds so far
    probed: int = 0  # oracle calls that no step has reported yet
    passes_left: float = np.inf  # passes that the budget still allows

    def __post_init__(self) -> None:
        problem = self.problem
        self.unit: float = shift_of(problem)[0]  # as in a dual state
        self.core: Any = self.explicit.core.coordinate(self.single, self.unit * problem.mass)
        self.work: int = problem.n_blocks * problem.dimension

    def epoch(self, shrinking: bool) -> StepReport:
        """Make one pass over the blocks that shrinking has not set aside."""
        seed = int(self.rng.integers(2**63))
        visits, _, _, violation = self.core.epoch(seed, shrinking, self.satisfied_below)
        return self._report(visits, violation)

    def rounds(
        self, sweeps: int, skip: int, inner: float, momentum: float, decay: float
    ) -> StepReport:
        """Make a round of the proximal method, or several short ones, until the gap is small enough."""
        seed = int(self.rng.integers(2**63))
        small = self.work <= SMALL_WORK
        rounds = 1
        near = CLIMB_BELOW * self.loss if self.aim < PRECISE * self.loss else 0.0
        unit = self.problem.total * self.unit
        enough, far, few, hindsight = min(self.aim, self.enough), FAR, FEW_BLOCKS, HINDSIGHT
        if small:
            far, few, hindsight = FAR_OF_SMALL, 1.0, HINDSIGHT_OF_SMALL
            rounds = max(LEAST_ROUNDS, min(self.made // ROUNDS_BEFORE, SMALL_WORK // self.work))
        visits, made, gap = self.core.rounds(
            seed,
            self.satisfied_below,
            sweeps,
            skip,
            inner,
            momentum,
            decay,
            rounds,
            int(min(self.passes_left * self.problem.n_blocks, MANY)),
            unit * enough,
            far,
            unit * near,
            few,
        )
        self.made += made
        calls, self.probed = visits + self.probed, 0
        report = self._report(calls, hindsight * gap)
        if report.estimate <= hindsight * self.aim:  # a further step needs a smaller target
            self.enough = FURTHER * report.estimate
        return report

    def _report(self, visits: int, gap: float) -> StepReport:
        estimate = gap / self.unit / self.problem.total
        return StepReport(visits, estimate, self.core.dual() / self.unit, self.core.n_planes)

    def weights(self) -> np.ndarray:
        """Return the running w."""
        return self.core.weights()

    def solution(self) -> tuple[np.ndarray, Support]:
        """Return w and the multipliers."""
        return self.weights(), self.support()

    def support(self) -> Support:
        """Return the constraints with positive multipliers."""
        blocks, multipliers, outputs = self.core.support()
        return Support(blocks, multipliers / self.unit, outputs)

    def restore(self, support: Support) -> None:
        """Start from these multipliers, as a dual state does."""
        point = support.carried(self.problem.mass, self.support(), self.unit)
        self.core.restore(point.blocks, point.multipliers, known_outputs(self.problem, point))

    def reopen(self) -> None:
        """Include all blocks again, and recompute w without accumulated rounding."""
        self.core.refresh()
        self.core.reopen()
