"""Which C is small: the size of C follows from the losses and the features, not from their number alone.

Let a be a dual point for C with q = - sum a psi. For any C' the point a C' / C is feasible as well, hence

    P*(C') >= D(s a) = s sum a Delta - R*(s q),      s = C' / C

which for R = 1/2 |w|^2 grows until s = sum a Delta / |q|^2. Below that C' even the best w hardly lowers the
objective of w = 0: all multipliers that help are at their bound, and w only grows with C'.
"""

from __future__ import annotations

import numpy as np

from maxmargin.problem.plane import Support
from maxmargin.problem.problem import Problem


def useful_c(problem: Problem, support: Support) -> float:
    """The C at which the dual stops to grow along these multipliers; infinite where they give no w.

    R*(q) = <m, q> + 1/2 q' Sigma q for a prior: its two parts are told apart by the value at -q.
    """
    offset, vector = problem.plane(support)
    there, back = problem.regularizer.conjugate(-vector), problem.regularizer.conjugate(vector)
    square, tilt = there + back, 0.5 * (there - back)
    if not 0 < square < np.inf or offset <= tilt:
        return np.inf
    return problem.C * (offset - tilt) / square


def first_c(problem: Problem) -> float:
    """The same along the worst outputs at w = 0, by one exact pass: a C far below any that is of use."""
    cut = problem.cut(np.zeros(problem.dimension))
    everything = np.arange(problem.n_blocks)
    return useful_c(problem, Support(everything, problem.mass, cut.outputs))


SMALL = (
    50.0  # times below the useful C: no w lowers the objective of w = 0 by more than a hundredth
)
NOTHING = 0.99  # of P(0): an objective above it has learnt next to nothing


def learns(problem: Problem, support: Support, primal: float) -> bool:
    """Whether the objective is below that of w = 0, by more than a hundredth.

    P*(C) >= P(0) (1 - C / (2 useful)) along these multipliers: P(0), an exact pass, is looked at only where
    that is above NOTHING, and there is a w that could help.
    """
    if problem.formulation.soft:  # a pass at w = 0 is cheaper than the plane of distributions
        return not primal >= NOTHING * problem.at_zero()
    useful = useful_c(problem, support)
    if not SMALL * problem.C < useful < np.inf:
        return True
    zero = problem.at_zero()
    return not primal >= NOTHING * zero > 0
