"""Plane: one linear lower bound on one block's risk, and the planes that carry multipliers.

xi_block(w) >= offset + <w, vector>      for every w
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

PLANES, MARGINALS = "planes", "marginals"  # kinds of dual points


@dataclass(frozen=True)
class Plane:
    """A lower bound on the slack of a block; the vector is sparse."""

    block: int
    offset: float
    index: np.ndarray
    value: np.ndarray


@dataclass(frozen=True)
class Cut:
    """One plane for the whole set: sum_i mass_i xi_i(w) >= offset + <w, vector>, tight where it was made.

    ``outputs`` has an output of every block, as the model keeps it; ``risk`` is the sum at that w.
    """

    offset: float
    vector: np.ndarray
    outputs: Any
    slacks: np.ndarray
    risk: float


@dataclass(frozen=True)
class FrozenPlane:
    """What is left of examples that are gone: a plane below their risk, and their mass.

    sum_gone mass_i xi_i(w) >= offset - <vector, w>, from multipliers that stay as they are.
    """

    offset: float
    vector: np.ndarray
    mass: float


@dataclass(frozen=True)
class Support:
    """Planes with positive multipliers: the dual point, independent of any solver.

    ``outputs`` holds what the model keeps of a plane: labels one after the other for the compiled
    models, (loss, vector) pairs for models written in Python. With ``partial``, blocks that are not
    mentioned have all of their mass on the true output. ``kind``: the multipliers are those of planes of
    outputs, or marginals of factors. ``relaxed``: the point is one of a linear relaxation, whose optimum
    may be higher.
    """

    blocks: np.ndarray
    multipliers: np.ndarray
    outputs: Any
    partial: bool = False
    kind: str = PLANES
    relaxed: bool = False

    def __len__(self) -> int:
        return len(self.blocks)

    def rescaled(self, mass: np.ndarray) -> Support:
        """The same point for other masses: each block's multipliers scaled to its new sum."""
        total = np.bincount(self.blocks, self.multipliers, minlength=len(mass)).astype(np.float64)
        if self.partial and len(total) == len(mass):
            total[total == 0] = mass[total == 0]
        if len(total) != len(mass) or (total[mass > 0] <= 0).any():
            raise ValueError(
                f"warm_start: the last fit had {len(total)} examples, {int((total > 0).sum())} of them with "
                f"weight, now there are {len(mass)} and {int((mass > 0).sum())}; set warm_start=False or fit "
                "the same examples"
            )
        factor = np.divide(mass, total, out=np.zeros_like(total), where=total > 0)[self.blocks]
        return replace(self, multipliers=self.multipliers * factor)
