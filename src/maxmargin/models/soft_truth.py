"""SoftTruth: what a true output with unknown labels is worth under the log loss, all completions together.

    t_i(w) = log sum_{y agrees with y_i} exp(<w, Psi(x_i, y) - Psi(x_i, z_i)>)      z_i: any of these y
    F(w)   = R(w) + sum_i mass_i (xi_i(w) - t_i(w))      xi_i: the slack with z_i as the true output

F is minus the logarithm of the probability of what is known. t_i is convex: its tangent at any u is below it,

    t_i(w) >= t_i(u) + <E_b psi_i, w - u>,      b: the distribution of the completions at u

so that the tangents in place of t_i make a convex P(w; u) >= F(w), with equality at w = u. It is the problem
with the true outputs z_i and one plane more, that of ``plane``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# The loss of a wrong label is taken this many times: exp of it is zero beside any scores.
EXCLUDED = -1e200


@dataclass(frozen=True)
class SoftTruth:
    """Examples with true outputs z_i whose loss counts wrong labels among the known ones, and u.

    ``counted``: a factor for each example; ``loss``: that of the loss in the exponent of a completion. Where
    an output is one label the unknown ones count, and all labels are completions.
    """

    examples: Any
    at: np.ndarray
    counted: np.ndarray | None = None
    loss: float = EXCLUDED

    def log_sums(self, w: np.ndarray, n_jobs: int = 1) -> np.ndarray:
        """t_i(w) of every example."""
        sums = self.examples.answers.log_sums(w, n_jobs, self.loss)
        return sums if self.counted is None else self.counted * sums

    def plane(self, mass: np.ndarray, n_jobs: int = 1) -> tuple[float, np.ndarray]:
        """- sum_i mass_i (the tangent of t_i at u) as an offset b and a vector v: b - <v, w>."""
        mass = mass if self.counted is None else self.counted * mass
        value, vector = self.examples.answers.tilt(self.at, mass, n_jobs, self.loss)
        return float(np.einsum("i,i->", vector, self.at)) - value, vector

    def potentials(self, height: float, n_jobs: int = 1) -> np.ndarray:
        """About those of b: scores at u, less this height for wrong labels."""
        return self.examples.answers.list_potentials(self.at, n_jobs, -height)
