"""Status: why training ended, and what to do where the gap is not small enough then."""

from __future__ import annotations

from enum import Enum

from maxmargin.problem.certificate import Certificate


class Status(str, Enum):
    """Why training ended."""

    SOLVED = "solved"
    PASS_LIMIT = "pass limit"
    TIME_LIMIT = "time limit"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped by a callback"
    INEXACT = "inexact oracle"
    PASSES_MADE = "passes made"
    CACHE_FULL = "cache full"
    REDUCED = "reduced problem solved"
    UNCHANGED = "multipliers unchanged"
    NUMERICAL = "numerical trouble"

    def advice(self, certificate: Certificate, solver: str = "") -> str:
        """What to do about a gap above tol; ``solver`` is what its solver advises, if anything."""
        if not certificate.exact and self not in WHATEVER_PROVEN:
            return (
                "the model's argmax is not exact, or no exact pass was made: the gap is not proven"
            )
        # Of weights without a regulariser only the proximal problems are reduced.
        unknown = self is Status.REDUCED and certificate.reduced_gap is None
        if self in ADVICE and not unknown:
            return ADVICE[self].format(c=certificate)
        return solver or GENERAL


GENERAL = "raise max_passes or max_seconds, raise tol, lower C, or scale the features"
ADVICE = {
    Status.REDUCED: (
        "the problem reduced to the {c.support} outputs with multipliers is solved (its gap: "
        "{c.reduced_gap:.3g}); what all other outputs add to the sum is not known well enough"
    ),
    Status.UNCHANGED: (
        "no multipliers moved by more than SDCD's `change` in the last search: lower it, or set it to 0 to "
        "train until the gap is small"
    ),
    Status.NUMERICAL: (
        "numbers have overflowed, and later steps would prove nothing: scale the features to about 1, or "
        "lower C, the weights of examples and nodes, or the costs"
    ),
    Status.INEXACT: (
        "the argmax finds no worse output but cannot exclude one: the gap is a proven bound; raise tol, "
        "or give the model an exact argmax (slack_rescaled_inference for slack rescaling)"
    ),
    Status.PASSES_MADE: "solvers.Streaming(passes=None) makes passes until tol is reached",
    Status.CACHE_FULL: "the multipliers alone fill the cache: raise cache_bytes, or lower C",
}
# What they advise needs no proven gap.
WHATEVER_PROVEN = (Status.REDUCED, Status.UNCHANGED, Status.NUMERICAL)
