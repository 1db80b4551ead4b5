"""Multipliers of constraints that are all written down, and w: the Python side of the core's ``Coordinate``.

A visit scores every output of a block and solves the block (``cpp/solvers/block_step.hpp``); epochs and
rounds are compiled (``cpp/solvers/dual_coordinate.hpp``). As in a dual state, a prior of one scale s is
another C: objectives are divided by ``unit`` = s^2.
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

MANY = 2**40  # visits: no limit
SMALL_WORK = 250_000  # blocks x weights: a step over less may make several rounds
# Such a step makes at least two, and one for this many made before it: budgets end where they should.
LEAST_ROUNDS, ROUNDS_BEFORE = 2, 2
FURTHER = 1e-2  # of the gap that was enough, where a step is made all the same
# Visits see the gap while w moves: at the end of a round it is 0.8 to 1.6 times the sum of what they saw, on
# text, digits, covertype and breast cancer. Small data: another round takes less than an exact pass in vain.
HINDSIGHT, HINDSIGHT_OF_SMALL = 1.4, 2.0
# Blocks are looked at once more before an estimate is believed, where the epoch saw this many times what is
# enough. On large data such a look takes as long as a round; an exact pass of small data takes longer.
FAR, FAR_OF_SMALL = 10.0, 3.0
# Of the blocks: satisfied ones rest where the others are at most this part, and on small data. Where more are
# not, rests save little, and sweeps over those move w far from what the epoch saw of the resting ones.
FEW_BLOCKS = 0.125
# Of the loss: where a gap below PRECISE is asked for, rounds that leave less than CLIMB_BELOW end with a
# climb of the face. Rougher solutions take longer with climbs than without.
PRECISE, CLIMB_BELOW = 1e-6, 0.3


def explicit_constraints(problem: Problem) -> ExplicitConstraints | None:
    """All constraints of a problem that rescales margins, without a mean or scales of weights; else None."""
    prior = problem.regularizer
    scaled = isinstance(prior, Prior) and not (prior.uniform and prior.mean is None)
    if problem.rescaling != "margin" or scaled or problem.frozen is not None:
        return None
    return problem.examples.explicit


@dataclass(eq=False, repr=False)
class CoordinateState:
    """Multipliers of explicit constraints, and w; blocks with g_i <= ``satisfied_below`` are satisfied."""

    problem: Problem
    explicit: ExplicitConstraints
    satisfied_below: float
    rng: np.random.Generator
    single: bool
    aim: float = 0.0  # the gap asked for, where a step may end before its last round
    enough: float = np.inf  # and the one that ends a step, where it is less
    loss: float = 0.0  # mean, where it is known
    made: int = 0  # rounds so far
    probed: int = 0  # oracle calls that no step has reported
    passes_left: float = np.inf  # of the budget

    def __post_init__(self) -> None:
        problem = self.problem
        self.unit: float = shift_of(problem)[0]  # as in a dual state
        self.core: Any = self.explicit.core.coordinate(self.single, self.unit * problem.mass)
        self.work: int = problem.n_blocks * problem.dimension

    def epoch(self, shrinking: bool) -> StepReport:
        """One pass over the blocks that are not put aside."""
        seed = int(self.rng.integers(2**63))
        visits, _, _, violation = self.core.epoch(seed, shrinking, self.satisfied_below)
        return self._report(visits, violation)

    def rounds(
        self, sweeps: int, skip: int, inner: float, momentum: float, decay: float
    ) -> StepReport:
        """A round of the proximal method, or several where one is short, until the gap is small enough."""
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
        if report.estimate <= hindsight * self.aim:  # a step after this one is asked for more
            self.enough = FURTHER * report.estimate
        return report

    def _report(self, visits: int, gap: float) -> StepReport:
        estimate = gap / self.unit / self.problem.total
        return StepReport(visits, estimate, self.core.dual() / self.unit, self.core.n_planes)

    def weights(self) -> np.ndarray:
        """The running w."""
        return self.core.weights()

    def solution(self) -> tuple[np.ndarray, Support]:
        """w and the multipliers."""
        return self.weights(), self.support()

    def support(self) -> Support:
        """The constraints with positive multipliers."""
        blocks, multipliers, outputs = self.core.support()
        return Support(blocks, multipliers / self.unit, outputs)

    def restore(self, support: Support) -> None:
        """Start from these multipliers, as a dual state does."""
        point = support.carried(self.problem.mass, self.support(), self.unit)
        self.core.restore(point.blocks, point.multipliers, known_outputs(self.problem, point))

    def reopen(self) -> None:
        """See all blocks again, with the rounding removed from w."""
        self.core.refresh()
        self.core.reopen()
