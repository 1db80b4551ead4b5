"""Formulation: how an output becomes a plane, and the feasible set of the multipliers.

margin rescaling:  offset = Delta, vector = psi
slack rescaling:   offset = Delta, vector = Delta * psi
hinge="max":       a >= 0, sum_y a_i(y) = C v_i       hinge="sum":  0 <= a_i(y) <= C v_i

The soft formulations replace the hinge: the slack is the logarithm of a sum over all outputs, and a
/ (C v_i) is a distribution.
    "log"              xi_i(w) = log sum_y exp(<w, psi_i(y)>): minus the log-likelihood of a random field
    "softmax-margin"   xi_i(w) = log sum_y exp(Delta_i(y) + <w, psi_i(y)>)
"""

from __future__ import annotations

from dataclasses import dataclass, field

HINGES = ("max", "sum")
SOFT = ("log", "softmax-margin")
RESCALINGS = ("margin", "slack")


@dataclass(frozen=True)
class Formulation:
    """The risk that is minimised: hinge or soft loss, and how it is rescaled."""

    hinge: str = "max"
    rescaling: str = "margin"
    # Whether the slack is the logarithm of a sum over all outputs.
    soft: bool = field(init=False, repr=False, compare=False, default=False)

    def __post_init__(self) -> None:
        for name, allowed in (("hinge", HINGES + SOFT), ("rescaling", RESCALINGS)):
            value = getattr(self, name)
            if not isinstance(value, str) or value not in allowed:
                raise ValueError(f"{name} must be one of {list(allowed)}, got {value!r}")
        object.__setattr__(self, "soft", self.hinge in SOFT)
        if self.soft and self.rescaling != "margin":
            raise ValueError(f"formulation {self.hinge!r} has no rescaling={self.rescaling!r}")

    @property
    def augmented(self) -> bool:
        """Whether the loss is added to the scores in a slack."""
        return self.hinge != "log"

    def __str__(self) -> str:
        if self.soft:
            return f"formulation={self.hinge!r}"
        return f"hinge={self.hinge!r}, rescaling={self.rescaling!r}"


EVERY_FORMULATION = tuple(Formulation(h, r) for h in HINGES for r in RESCALINGS)
