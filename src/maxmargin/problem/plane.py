"""Plane: one linear lower bound on one block's risk; Support: planes with their multipliers.

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

# The kinds of dual points.
PLANES, MARGINALS, DISTRIBUTIONS = "planes", "marginals", "distributions"

CompactVector: TypeAlias = np.ndarray | sp.csr_matrix
# A sparse entry takes 12 bytes, a dense one 8. A vector with a larger share of nonzeros is stored
# dense.
SPARSE_SHARE = 2 / 3
MOST_PLACES = 2**31 - 1  # sparse indices are 32-bit: longer vectors stay dense


def thin(vector: np.ndarray, share: float = 0.25) -> CompactVector:
    """Return a sparse vector if at most this share of the entries is nonzero, else the array.

    Late cuts have few nonzeros, because few mistakes are left.
    """
    if len(vector) > MOST_PLACES or np.count_nonzero(vector) > share * len(vector):
        return vector
    index = np.flatnonzero(vector).astype(np.int32)
    ends = np.array([0, len(index)], dtype=np.int32)
    return sp.csr_matrix((vector[index], index, ends), shape=(1, len(vector)))


def with_zeros(vector: CompactVector) -> np.ndarray:
    """Return the vector as a dense array."""
    return vector if isinstance(vector, np.ndarray) else vector.toarray().ravel()


def inner(vector: CompactVector, dense: np.ndarray) -> float:
    """<vector, dense>."""
    return float(vector @ dense) if isinstance(vector, np.ndarray) else float((vector @ dense)[0])


def compact(vector: np.ndarray) -> CompactVector:
    """Return the vector in the form that takes less memory."""
    return thin(vector, SPARSE_SHARE)


@dataclass(frozen=True)
class Plane:
    """A lower bound on the slack of one block; ``index`` and ``value`` are its sparse vector."""

    block: int
    offset: float
    index: np.ndarray
    value: np.ndarray


@dataclass(frozen=True)
class Cut:
    """One plane for the whole set: sum_i mass_i xi_i(w) >= offset + <w, vector>.

    Equality holds at the w that the oracle was called with. ``outputs`` holds one output for every
    block, in the model's own form. ``risk`` is the sum at that w, ``slacks`` its xi_i.
    """

    offset: float
    vector: np.ndarray
    outputs: Any
    slacks: np.ndarray
    risk: float


@dataclass(frozen=True)
class FrozenPlane:
    """A fixed plane offset - <vector, w> that counts in the risk, and its mass.

    It has two uses. For examples that are gone, it is a lower bound on their risk, from their last
    multipliers. For unknown labels, it is the tangent of the log-sum over all completions and has
    no mass (``models.soft_truth``).
    """

    offset: float
    vector: np.ndarray
    mass: float


@dataclass(frozen=True)
class Support:
    """Planes with positive multipliers: the dual point, independent of any solver.

    ``outputs`` holds the outputs in the model's form: concatenated labels for compiled models,
    (loss, vector) pairs for models written in Python. If ``partial`` is True, blocks that are not
    listed have all of their mass on the true output. ``kind`` says whether the multipliers belong
    to planes of outputs, are marginals of factors, or belong to one distribution over outputs for
    each block. In the last case ``outputs`` defines the distributions (``models.examples``).
    ``relaxed`` marks a dual point of a linear relaxation, whose optimum may be higher. ``prices``
    can help to bound the slacks of that relaxation and give a valid bound at any values
    (``cpp/solvers/label_visit.hpp``); they may be None.
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
        """Return the point with all multipliers multiplied by a factor."""
        return replace(self, multipliers=factor * self.multipliers)

    def chosen(self, places: np.ndarray, sizes: np.ndarray) -> Support:
        """Return the planes at the given places; ``sizes`` is the output length of every plane."""
        if isinstance(self.outputs, list):
            outputs: Any = [self.outputs[place] for place in places]
        else:
            outputs = self.outputs[ranges((np.cumsum(sizes) - sizes)[places], sizes[places])]
        blocks, multipliers = self.blocks[places], self.multipliers[places]
        return replace(self, blocks=blocks, multipliers=multipliers, outputs=outputs)

    def rescaled(self, mass: np.ndarray) -> Support:
        """Return the point for other masses: scale each block's multipliers to its new mass."""
        factor = self._factors(mass, self.multipliers)[self.blocks]
        return replace(self, multipliers=self.multipliers * factor)

    def clipped(self, mass: np.ndarray) -> Support:
        """Return the point for other masses if each multiplier has its own bound: clip it."""
        return replace(self, multipliers=np.minimum(self.multipliers, mass[self.blocks]))

    def carried(self, mass: np.ndarray, truth: Support, unit: float) -> Support:
        """Return a point with the same w for other masses, as far as they allow it.

        Masses and multipliers are multiplied by ``unit``. If the mass of a block grows, the extra
        mass goes to its true output, which adds nothing to w. If it shrinks, all multipliers of the
        block shrink in proportion. ``truth`` has a plane for every block.
        """
        scaled, mass = unit * self.multipliers, unit * mass
        factor = np.minimum(1.0, self._factors(mass, scaled))
        a = scaled * factor[self.blocks]
        left = mass - np.bincount(self.blocks, a, minlength=len(mass))
        rest = np.where(factor < 1, 0.0, np.maximum(0.0, left))[truth.blocks]
        return joined_points([replace(self, multipliers=a), replace(truth, multipliers=rest)])

    def _factors(self, mass: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
        """Return each block's new mass divided by the sum of its multipliers.

        Raise ValueError if the multipliers belong to other examples.
        """
        total = np.bincount(self.blocks, multipliers, minlength=len(mass)).astype(np.float64)
        if self.partial and len(total) == len(mass):
            total[total == 0] = mass[total == 0]
        if len(total) != len(mass) or (total[mass > 0] <= 0).any():
            raise ValueError(
                f"warm_start: the last fit had {len(total)} examples ({int((total > 0).sum())} "
                f"with positive weight), this one has {len(mass)} ({int((mass > 0).sum())}); set "
                "warm_start=False, or fit the same examples"
            )
        return np.divide(mass, total, out=np.zeros_like(total), where=total > 0)


def joined_points(points: Sequence[Support]) -> Support:
    """Return all multipliers of several points; planes in several points appear once for each."""
    outputs: Any = [point.outputs for point in points]
    listed = isinstance(outputs[0], list)
    return Support(
        np.concatenate([point.blocks for point in points]),
        np.concatenate([point.multipliers for point in points]),
        list(chain.from_iterable(outputs)) if listed else np.concatenate(outputs),
    )
