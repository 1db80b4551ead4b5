"""Certificate: how far from the optimum a solution can be, computed by a stranger to the solver.

    dual <= P* <= primal,     gap = (primal - dual) / (C sum_i v_i)     in units of the task loss

Primal by one exact pass at w, dual from the multipliers alone; no running sum of a solver is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from maxmargin.problem.plane import Support
from maxmargin.problem.problem import Problem

LARGEST = 1e150  # of a weight: beyond, its products with large features are not finite


@dataclass(frozen=True)
class Certificate:
    """Bounds on the optimum, whether they are proven, and what they cost.

    ``exact`` is False where the model's argmax may miss the best output and no ceiling is known, or no
    exact pass was made: the primal is then an estimate and the gap is not proven; with hinge="sum" it is
    infinite. ``status`` is a sentence on why training ended. ``relaxed``: the bounds are those of the linear
    relaxation of the argmax, whose optimum is at least that of the problem itself; ``primal`` is an upper
    bound on both. ``reduced_gap`` is the gap of the problem whose outputs are those that were kept, where
    hinge="sum" and not all outputs can be tried; else None. Where numbers overflowed nothing is bounded:
    ``primal`` or ``dual`` is infinite, and so is the gap.
    """

    primal: float
    dual: float
    gap: float
    tol: float = float("nan")
    converged: bool = False
    exact: bool = True
    passes: float = 0.0
    oracle_calls: int = 0
    support: int = 0
    seconds: float = 0.0
    status: str = "certified"
    relaxed: bool = False
    reduced_gap: float | None = None

    def __post_init__(self) -> None:
        if self.converged and not bounded_by(self.primal, self.dual, self.gap):
            raise ValueError(
                f"a certificate with primal {self.primal}, dual {self.dual} and gap {self.gap} cannot be "
                "converged: these must be finite"
            )

    def __str__(self) -> str:
        proof = "proven" if self.exact else "not proven"
        if self.relaxed:
            proof += " for the linear relaxation"
        return (
            f"{self.status}: dual {self.dual:.6g} <= optimum <= primal {self.primal:.6g}, "
            f"gap {self.gap:.3g} ({proof}; tol {self.tol:.3g}), {self.passes:.1f} passes, "
            f"{self.oracle_calls} oracle calls, {self.support} support planes, {self.seconds:.2f} s"
        )


@dataclass(frozen=True)
class Bounds:
    """What one exact pass found; ``seen`` is the primal at the slacks found, below or at ``primal``.

    ``ceilings``: what the slacks cannot exceed. A value that overflowed bounds nothing: NaN becomes
    an infinite bound.
    """

    primal: float
    dual: float
    slacks: np.ndarray
    seen: float
    ceilings: np.ndarray

    def __post_init__(self) -> None:
        for name, nothing in (("primal", math.inf), ("dual", -math.inf), ("seen", math.inf)):
            value = getattr(self, name)
            known = not math.isnan(value) and value != -nothing
            object.__setattr__(self, name, value if known else nothing)

    @property
    def overflowed(self) -> bool:
        """Whether w or the multipliers, or what they give, cannot be told in double precision."""
        return not bounded_by(self.seen, self.dual)


def bounded_by(*values: float) -> bool:
    """Whether these numbers say anything: all of them are finite."""
    return all(map(math.isfinite, values))


def gap_between(primal: float, dual: float, total: float) -> float:
    """(primal - dual) / (C sum v); infinite where one of them is not finite.

    Rounding alone can make it negative, by parts in 1e16: then zero.
    """
    return loss_units(primal - dual, total)


def loss_units(difference: float, total: float) -> float:
    """A difference of bounds over C sum v; infinite where that cannot be told."""
    if not (bounded_by(difference, total) and total > 0):
        return math.inf
    return max(0.0, difference) / total


def reached(gap: float, tol: float) -> bool:
    """Whether a gap is one, and small enough."""
    return math.isfinite(gap) and gap <= tol


def slacks_and_ceilings(
    problem: Problem, w: np.ndarray, support: Support, slacks: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Slacks by an exact pass, and what they cannot exceed; held against the kept outputs."""
    if problem.exact:
        slacks = ceilings = problem.slacks(w) if slacks is None else slacks
    else:
        slacks, ceilings = problem.slack_bounds(w)
    problem.examples.check_slacks(w, slacks, support.blocks, support.outputs)
    return slacks, ceilings


def certify_state(
    problem: Problem, w: np.ndarray, support: Support, slacks: np.ndarray | None = None
) -> Bounds:
    """Primal and dual of (w, multipliers) from their definitions.

    ``slacks`` may be given where an exact pass at this w has just been made. Where the argmax may miss
    the best output, the primal is made of the ceilings of the slacks, if these are known.
    """
    if problem.certify is not None:
        return problem.certify(w, support)
    if support.relaxed:  # a labelling says nothing about the relaxation
        slacks, ceilings = problem.relaxed_bounds(w)
        ceilings = np.maximum(slacks, ceilings)
        primal = seen = problem.objective(w, ceilings)
    else:
        slacks, ceilings = slacks_and_ceilings(problem, w, support, slacks)
        ceilings = np.maximum(slacks, ceilings)
        seen = problem.objective(w, slacks)
        # A sum without a ceiling is infinite, for all that is known.
        proven = problem.bounded or problem.summed
        primal = problem.objective(w, ceilings) if proven else seen
    if not max(w.max(initial=0.0), -w.min(initial=0.0)) < LARGEST:  # the argmax may find anything
        primal = seen = math.inf
    return Bounds(primal, problem.dual_objective(support), slacks, seen, ceilings)
