"""The past of a stream: examples that are gone, with what their multipliers gave.

Multipliers a of examples that are no longer at hand give sum a psi and sum a Delta. Held fixed, these are
one plane below their risk, whatever w is:

    sum_gone mass_i xi_i(w) >= b - <q, w>,      b = sum_gone a Delta,   q = - sum_gone a psi

    P'(w) = 1/2 |w|^2 + b - <q, w> + sum_at_hand mass_i xi_i(w)  <=  P(w) of all examples
    D(a)  = b + sum_at_hand a Delta - 1/2 |q - sum_at_hand a psi|^2  <=  min P of all examples

A gone example whose multiplier is all on its true output gives nothing to b and q.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.problem.plane import Support
from maxmargin.problem.problem import Problem, check_total


@dataclass(frozen=True)
class Past:
    """What is left of gone examples: b, q, and their mass."""

    offset: float
    vector: np.ndarray
    mass: float


class PastProblem(Problem):
    """The problem of the examples at hand, above the fixed plane of those that are gone."""

    def __init__(self, past: Past, *args: Any):
        super().__init__(*args)
        self.past = past
        self.total += past.mass
        check_total(self.total)

    def objective(self, w: np.ndarray, slacks: np.ndarray | None = None) -> float:
        """P'(w): a lower bound on P(w) of all examples."""
        past = self.past
        return super().objective(w, slacks) + past.offset - float(past.vector @ np.asarray(w))

    def dual_of(self, offset: float, q: np.ndarray, support: Support) -> float:
        """D(a) of all examples."""
        return super().dual_of(self.past.offset + offset, self.past.vector + q, support)
