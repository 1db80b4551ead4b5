"""Marginals: a point of the local polytope of every example, stored where it differs from the truth.

    p_v(y) >= 0, sum_y p_v(y) = 1                       for the listed nodes
    q_l(y, z) >= 0, with row sums p_a, column sums p_b  for the listed links

The nodes of an unlisted link leave their true labels s, t only one at a time: q(y, t) = p_a(y),
q(s, z) = p_b(z), q(s, t) = p_a(s) + p_b(t) - 1, which must not be negative.

On forests, marginals are means of labellings. On graphs with cycles the polytope is larger. A dual point
made of marginals then belongs to the linear relaxation, not to the problem with labellings.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np


@dataclass(frozen=True)
class Marginals:
    """Nodes and links: the numbers of their blocks (ascending), their own numbers, and their values."""

    node_blocks: np.ndarray
    nodes: np.ndarray
    node_values: np.ndarray
    link_blocks: np.ndarray
    links: np.ndarray
    link_values: np.ndarray

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The arrays in the order that the core takes."""
        return astuple(self)
