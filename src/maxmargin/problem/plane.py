"""Plane: one linear lower bound on one block's risk, and the planes that carry multipliers.

xi_block(w) >= offset + <w, vector>      for every w
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from maxmargin.data.mapped import ranges

# kinds of dual points
PLANES, MARGINALS, DISTRIBUTIONS = "planes", "marginals", "distributions"

CompactVector: TypeAlias = np.ndarray | sp.csr_matrix
# An entry of a sparse vector takes 12 bytes, one of an array 8. Above this share of entries that are not zero
# an array is the smaller of the two.
SPARSE_SHARE = 2 / 3
MOST_PLACES = 2**31 - 1  # of a vector whose places are numbers of 32 bits


def thin(vector: np.ndarray, share: float = 0.25) -> CompactVector:
    """The vector by its entries if at most this share of them is not zero.

    Late cuts hold the few mistakes that are left.
    """
    if len(vector) > MOST_PLACES or np.count_nonzero(vector) > share * len(vector):
        return vector
    index = np.flatnonzero(vector).astype(np.int32)
    ends = np.array([0, len(index)], dtype=np.int32)
    return sp.csr_matrix((vector[index], index, ends), shape=(1, len(vector)))


def with_zeros(vector: CompactVector) -> np.ndarray:
    """The vector as an array."""
    return vector if isinstance(vector, np.ndarray) else vector.toarray().ravel()


def inner(vector: CompactVector, dense: np.ndarray) -> float:
    """<vector, dense>."""
    return float(vector @ dense) if isinstance(vector, np.ndarray) else float((vector @ dense)[0])


def compact(vector: np.ndarray) -> CompactVector:
    """The vector in the fewer bytes."""
    return thin(vector, SPARSE_SHARE)


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
    """A plane offset - <vector, w> that counts in the risk, and its mass.

    Of examples that are gone: below their risk, from multipliers that stay as they are. Of unknown labels:
    the tangent of what all completions are worth, without mass (``models.soft_truth``).
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
    outputs, marginals of factors, or those of one distribution over the outputs of each block (``outputs``
    then gives these: ``models.examples``). ``relaxed``: the point is one of a linear relaxation, whose
    optimum may be higher. ``prices``: what may help to bound the slacks of that relaxation, a proof for any
    values (``cpp/solvers/label_visit.hpp``); or None.
    """

    blocks: np.ndarray
    multipliers: np.ndarray
    outputs: Any
    partial: bool = False
    kind: str = PLANES
    relaxed: bool = False
    prices: Any = None

    def __len__(self) -> int:
        return len(self.blocks)

    def times(self, factor: float) -> Support:
        """The point with all multipliers times a factor."""
        return replace(self, multipliers=factor * self.multipliers)

    def chosen(self, places: np.ndarray, sizes: np.ndarray) -> Support:
        """Some of its planes, by number; ``sizes``: how long the output of each of all of them is."""
        if isinstance(self.outputs, list):
            outputs: Any = [self.outputs[place] for place in places]
        else:
            outputs = self.outputs[ranges((np.cumsum(sizes) - sizes)[places], sizes[places])]
        blocks, multipliers = self.blocks[places], self.multipliers[places]
        return replace(self, blocks=blocks, multipliers=multipliers, outputs=outputs)

    def rescaled(self, mass: np.ndarray) -> Support:
        """The same point for other masses: each block's multipliers scaled to its new sum."""
        factor = self._factors(mass, self.multipliers)[self.blocks]
        return replace(self, multipliers=self.multipliers * factor)

    def clipped(self, mass: np.ndarray) -> Support:
        """The same point for other masses where each multiplier has bounds of its own."""
        return replace(self, multipliers=np.minimum(self.multipliers, mass[self.blocks]))

    def carried(self, mass: np.ndarray, truth: Support, unit: float) -> Support:
        """The same w for other masses, as far as they allow it; masses and multipliers times a unit.

        What a block gains goes to its true output, which adds nothing to w; what it loses, all of its
        multipliers lose in proportion. ``truth`` has a plane for every block.
        """
        scaled, mass = unit * self.multipliers, unit * mass
        factor = np.minimum(1.0, self._factors(mass, scaled))
        a = scaled * factor[self.blocks]
        left = mass - np.bincount(self.blocks, a, minlength=len(mass))
        rest = np.where(factor < 1, 0.0, np.maximum(0.0, left))[truth.blocks]
        return joined_points([replace(self, multipliers=a), replace(truth, multipliers=rest)])

    def _factors(self, mass: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
        """Each block's new sum over the sum of its multipliers; refuses those of other examples."""
        total = np.bincount(self.blocks, multipliers, minlength=len(mass)).astype(np.float64)
        if self.partial and len(total) == len(mass):
            total[total == 0] = mass[total == 0]
        if len(total) != len(mass) or (total[mass > 0] <= 0).any():
            raise ValueError(
                f"warm_start: the last fit had {len(total)} examples, {int((total > 0).sum())} of them with "
                f"weight, now there are {len(mass)} and {int((mass > 0).sum())}; set warm_start=False or fit "
                "the same examples"
            )
        return np.divide(mass, total, out=np.zeros_like(total), where=total > 0)


def joined_points(points: Sequence[Support]) -> Support:
    """All multipliers of several points; what they share is listed several times."""
    outputs: Any = [point.outputs for point in points]
    listed = isinstance(outputs[0], list)
    return Support(
        np.concatenate([point.blocks for point in points]),
        np.concatenate([point.multipliers for point in points]),
        list(chain.from_iterable(outputs)) if listed else np.concatenate(outputs),
    )
