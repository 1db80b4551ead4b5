"""The concave-convex procedure: minimise an objective with hidden parts by convex problems.

    F(w) = R(w) + C sum_i v_i ( max_{y, h} [ Delta(y_i, y) + <w, Psi(x_i, y, h)> ]
                                - max_h <w, Psi(x_i, y_i, h)> )

For the log loss, logarithms of sums of exponentials replace both maxima. F is not convex, because
the second maximum has a minus sign. If the value of any one h_i replaces this maximum, the problem
is convex and P(w; h) >= F(w), with equality if h_i is the best completion at w. For the log loss,
the tangent of the second logarithm at w replaces that logarithm (``models.soft_truth``). It uses
all completions, with their probabilities at w. One round is:

    1.  h_i = argmax_h <w, Psi(x_i, y_i, h)>       P(w; h) = F(w)
    2.  w' = a solution of P(.; h)                 F(w') <= P(w'; h) <= P(w; h) = F(w)

So a round never raises F. The rounds stop when F falls too little. The certificate belongs to the
last convex problem; the distance of F from its minimum is unknown.
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
    """The costs and objectives of the rounds so far, and their histories in one, with a column ``round``."""

    columns: ClassVar[tuple[str, ...]] = (*COLUMNS, "round")

    max_rounds: int
    max_passes: float
    max_seconds: float | None
    # A round that lowers F by at most this ends the procedure; "auto" means a fraction of F.
    asked: float | str
    path: list[float] = field(default_factory=list)  # F after every round
    enough: bool = False  # whether the rounds ended before a budget did
    fall: float = np.inf  # decrease of F in the last round, in units of the task loss
    least: float = np.inf  # least decrease for another round, in the same units
    passes: float = 0.0
    oracle_calls: int = 0
    began: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """Seconds since the first round began."""
        return time.perf_counter() - self.began

    def left(self) -> dict[str, float | None]:
        """Return the budgets of the next round."""
        seconds = None if self.max_seconds is None else max(self.max_seconds - self.seconds, 1e-9)
        return {"max_passes": max(self.max_passes - self.passes, 1e-9), "max_seconds": seconds}

    def over(self) -> str:
        """Return the budget that is used up, as text, or ""."""
        if len(self.path) >= self.max_rounds:
            return f"max_rounds={self.max_rounds}"
        if self.path and self.passes >= self.max_passes:
            return f"max_passes={self.max_passes}"
        if self.path and self.max_seconds is not None and self.seconds >= self.max_seconds:
            return f"max_seconds={self.max_seconds}"
        return ""

    def note(self, result: Result, value: float, problem: Problem) -> None:
        """Record a round that ended at F = value."""
        spent = {"passes": self.passes, "oracle_calls": self.oracle_calls}
        spent["seconds"] = self.seconds - result.certificate.seconds
        number = {"round": float(len(self.path))}
        for row in result.history.rows:
            self.rows.append(row | number | {name: row[name] + spent[name] for name in spent})
        # Computing F takes an exact pass with the new completions.
        self.passes += result.certificate.passes + 1
        self.oracle_calls += result.certificate.oracle_calls + problem.n_blocks
        asked = self.asked
        self.least = RELATIVE * value / problem.total if isinstance(asked, str) else asked
        if self.path:
            self.fall = float((self.path[-1] - value) / problem.total)
        self.path.append(value)

    def summed(self, certificate: Certificate) -> Certificate:
        """Return the certificate of the last round, with the total costs of all rounds."""
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
    """Make rounds until F falls too little or a budget ends.

    Return the last result and its completions.

    ``outputs`` are the first completions, and ``complete(w)`` returns the best ones at w. ``pose``
    makes the convex problem for given completions. ``solve`` solves it from given multipliers, in
    the first round ``warm``. Completions of a stream, or of the log loss, are represented by the
    weights that define them.

    To resume earlier rounds, ``w`` is their last solution and ``outputs`` are its completions.
    ``file``, if given, receives w after every round and may store it. At least one round is made,
    for the certificate.
    """
    problem, before = pose(outputs), outputs
    while True:
        result = solve(problem, warm)
        if w is not None and result.certificate.primal > rounds.path[-1]:
            # The solution is not better than its starting point, within tol, and P(w; h) of the
            # last w is F(w).
            result = kept(result, w, problem)
        w = result.w
        before, outputs = outputs, complete(result.w)
        moved = changed(before, outputs)
        again = pose(outputs)
        rounds.note(result, again.objective(result.w), problem)
        # The user or a callback stopped the round, or numbers overflowed.
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
    """Return a mask of the completions that differ, or of the weights that represent them."""
    if isinstance(before, np.ndarray) and before.ndim == 1:
        return before != after
    return np.array([not np.array_equal(a, b) for a, b in zip(before, after, strict=True)])


def kept(result: Result, w: np.ndarray, problem: Problem) -> Result:
    """Return the result with the better w that was known before."""
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
    """Return multipliers for the next completions, or None.

    Compiled models store outputs, which keep their meaning if the true output changes. Python
    models store planes, which are differences to the true output: if it changed, the block starts
    again.
    """
    if problem.open_stream is not None:  # for a stream it is unknown which completions changed
        return None if isinstance(support.outputs, list) else support
    if not problem.examples.checked:
        return support
    stay = support.chosen(np.flatnonzero(~moved[support.blocks]), np.ones(len(support), int))
    empty = (0.0, (np.empty(0, np.int32), np.empty(0)))
    fresh = np.flatnonzero(moved & (problem.mass > 0))
    return joined_points([stay, Support(fresh, problem.mass[fresh], [empty] * len(fresh))])
