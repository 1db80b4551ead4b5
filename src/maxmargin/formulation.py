"""Formulation: how an output becomes a plane, and which set the multipliers live in.

margin rescaling:  offset = Delta, vector = psi
slack rescaling:   offset = Delta, vector = Delta * psi
hinge="max":       a >= 0, sum_y a_i(y) = C v_i       hinge="sum":  0 <= a_i(y) <= C v_i
"""

from __future__ import annotations

from dataclasses import dataclass

from maxmargin.data.arrays import check_choice

HINGES = ("max", "sum")
RESCALINGS = ("margin", "slack")


@dataclass(frozen=True)
class Formulation:
    """The risk that is minimised."""

    hinge: str = "max"
    rescaling: str = "margin"

    def __post_init__(self) -> None:
        check_choice("hinge", self.hinge, HINGES)
        check_choice("rescaling", self.rescaling, RESCALINGS)

    def __str__(self) -> str:
        return f"hinge={self.hinge!r}, rescaling={self.rescaling!r}"


EVERY_FORMULATION = tuple(Formulation(h, r) for h in HINGES for r in RESCALINGS)
