"""Marginals: a point of the local polytope of every example, written where it differs from the truth.

    p_v(y) >= 0, sum_y p_v(y) = 1                       of the nodes that are listed
    q_l(y, z) >= 0, with row sums p_a, column sums p_b  of the links that are listed

A link that is not listed is that of nodes which leave their true labels s, t one at a time: q(y, t) = p_a(y),
q(s, z) = p_b(z), q(s, t) = p_a(s) + p_b(t) - 1, which must not be negative.

On forests marginals are means of labellings; on graphs with cycles there are more of them: a dual point made
of marginals is then one of the linear relaxation, not of the problem with labellings.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np


@dataclass(frozen=True)
class Marginals:
    """Numbers of blocks (ascending) and of their nodes and links, and the values one after the other."""

    node_blocks: np.ndarray
    nodes: np.ndarray
    node_values: np.ndarray
    link_blocks: np.ndarray
    links: np.ndarray
    link_values: np.ndarray

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """As the core takes them."""
        return astuple(self)
