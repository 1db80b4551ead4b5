"""The concave-convex procedure: an objective with hidden parts, minimised by a sequence of convex problems.

    F(w) = R(w) + C sum_i v_i ( max_{y, h} [ Delta(y_i, y) + <w, Psi(x_i, y, h)> ]
                                - max_h <w, Psi(x_i, y_i, h)> )

and for the log loss with the logarithms of sums of exponentials in place of both maxima. F is not convex: the
second maximum has a minus. Replaced by the value of any one h_i it gives a convex problem P(w; h) >= F(w),
with equality where h_i is the best completion at w; replaced by its tangent at w, a sum gives another
(``models.soft_truth``), with all completions, as probable as they are at w, in place of one. Hence a round,

    1.  h_i = argmax_h <w, Psi(x_i, y_i, h)>       P(w; h) = F(w)
    2.  w' = a solution of P(.; h)                 F(w') <= P(w'; h) <= P(w; h) = F(w)

never raises F. It is stopped when it lowers F by too little. The certificate is that of the last convex
problem; nobody knows how far F is from its least value.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from maxmargin.problem import Certificate, Problem, Status, Support, gap_between
from maxmargin.problem.certificate import RELATIVE
from maxmargin.problem.plane import joined_points
from maxmargin.result import COLUMNS, History, Result


@dataclass
class Rounds(History):
    """What the rounds have cost and reached so far; their histories as one, with a column ``round``."""

    columns: ClassVar[tuple[str, ...]] = (*COLUMNS, "round")

    max_rounds: int
    max_passes: float
    max_seconds: float | None
    # A round that lowers F by no more than this is the last; "auto": by this part of F.
    asked: float | str
    path: list[float] = field(default_factory=list)  # F after every round
    enough: bool = False  # whether they ended by themselves
    fall: float = np.inf  # by how much the last lowered F, in units of the task loss
    least: float = np.inf  # what was asked, in these units
    passes: float = 0.0
    oracle_calls: int = 0
    began: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """Since the first round began."""
        return time.perf_counter() - self.began

    def left(self) -> dict[str, float | None]:
        """The budgets of the next round."""
        seconds = None if self.max_seconds is None else max(self.max_seconds - self.seconds, 1e-9)
        return {"max_passes": max(self.max_passes - self.passes, 1e-9), "max_seconds": seconds}

    def over(self) -> str:
        """Which budget has ended, if one has."""
        if len(self.path) >= self.max_rounds:
            return f"max_rounds={self.max_rounds}"
        if self.path and self.passes >= self.max_passes:
            return f"max_passes={self.max_passes}"
        if self.path and self.max_seconds is not None and self.seconds >= self.max_seconds:
            return f"max_seconds={self.max_seconds}"
        return ""

    def note(self, result: Result, value: float, problem: Problem) -> None:
        """Take over a round that ended at F = value."""
        spent = {"passes": self.passes, "oracle_calls": self.oracle_calls}
        spent["seconds"] = self.seconds - result.certificate.seconds
        number = {"round": float(len(self.path))}
        for row in result.history.rows:
            self.rows.append(row | number | {name: row[name] + spent[name] for name in spent})
        # F takes an exact pass with the new completions.
        self.passes += result.certificate.passes + 1
        self.oracle_calls += result.certificate.oracle_calls + problem.n_blocks
        asked = self.asked
        self.least = RELATIVE * value / problem.total if isinstance(asked, str) else asked
        if self.path:
            self.fall = float((self.path[-1] - value) / problem.total)
        self.path.append(value)

    def summed(self, certificate: Certificate) -> Certificate:
        """The certificate of the last round, with the counters of all."""
        return replace(
            certificate, passes=self.passes, oracle_calls=self.oracle_calls, seconds=self.seconds
        )


def alternate(
    rounds: Rounds,
    outputs: Sequence[Any] | np.ndarray,
    complete: Callable[[np.ndarray], Any],
    pose: Callable[[Any], Problem],
    solve: Callable[[Problem, Support | None], Result],
    w: np.ndarray | None = None,
    file: Any = None,
    warm: Support | None = None,
) -> tuple[Result, Any]:
    """Rounds until one lowers F by too little, or a budget ends; the last result and its completions.

    ``outputs`` are the first completions, ``complete(w)`` the best ones at w; ``pose`` makes the convex
    problem of some completions, and ``solve`` solves it from some multipliers, the first from ``warm``.
    Completions of a stream, or all together, are the weights that they are made at. ``w`` is that of the last
    of earlier rounds, whose completions ``outputs`` are; a ``file`` keeps that of every round, where there is
    one. There is always a round, for the certificate.
    """
    problem, before = pose(outputs), outputs
    while True:
        result = solve(problem, warm)
        if w is not None and result.certificate.primal > rounds.path[-1]:
            # No better than what it began with, within tol: P(w; h) of the last w is F(w).
            result = kept(result, w, problem)
        w = result.w
        before, outputs = outputs, complete(result.w)
        moved = changed(before, outputs)
        again = pose(outputs)
        rounds.note(result, again.objective(result.w), problem)
        # The user stopped it, or numbers overflowed.
        ended = result.status in (Status.INTERRUPTED, Status.STOPPED, Status.NUMERICAL)
        rounds.enough = ended or not moved.any() or rounds.fall <= rounds.least
        last = bool(rounds.enough or rounds.over())
        if file is not None:
            file.keep(w, rounds, last)
        if last:
            break
        if result.resumable:
            warm = carried(problem, result.support, moved)
        problem = again
    return replace(result, certificate=rounds.summed(result.certificate), history=rounds), before


def changed(before: Any, after: Any) -> np.ndarray:
    """Which completions differ; of weights, which of these."""
    if isinstance(before, np.ndarray) and before.ndim == 1:
        return before != after
    return np.array([not np.array_equal(a, b) for a, b in zip(before, after, strict=True)])


def kept(result: Result, w: np.ndarray, problem: Problem) -> Result:
    """The result with a better w that was known."""
    bounds = problem.certify(w, result.support)
    primal = bounds.primal + bounds.above
    gap = gap_between(primal, result.certificate.dual, problem.total)
    converged = gap <= result.certificate.tol and result.certificate.exact
    certificate = replace(
        result.certificate,
        primal=primal,
        gap=gap,
        converged=converged,
        rounding=bounds.above + bounds.below,
    )
    return replace(result, w=w, certificate=certificate)


def carried(problem: Problem, support: Support, moved: np.ndarray) -> Support | None:
    """Multipliers for the next completions.

    Outputs mean the same whatever the true output is. Planes are differences to it: where it moved, the
    block starts again.
    """
    if problem.open_stream is not None:  # of a stream nobody knows which have moved
        return None if isinstance(support.outputs, list) else support
    if not problem.examples.checked:
        return support
    stay = support.chosen(np.flatnonzero(~moved[support.blocks]), np.ones(len(support), int))
    empty = (0.0, (np.empty(0, np.int32), np.empty(0)))
    fresh = np.flatnonzero(moved & (problem.mass > 0))
    return joined_points([stay, Support(fresh, problem.mass[fresh], [empty] * len(fresh))])
