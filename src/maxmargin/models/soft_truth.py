"""SoftTruth: the value of a true output with unknown labels under the log loss, summed over completions.

    t_i(w) = log sum_{y agrees with y_i} exp(<w, Psi(x_i, y) - Psi(x_i, z_i)>)      z_i: any of these y
    F(w)   = R(w) + sum_i mass_i (xi_i(w) - t_i(w))      xi_i: the slack with z_i as the true output

The risk in F is minus the logarithm of the probability of the known labels. t_i is convex, so its tangent
at any u is a lower bound:

    t_i(w) >= t_i(u) + <E_b psi_i, w - u>,      b: the distribution of the completions at u

If the tangents replace t_i, the objective becomes a convex P(w; u) >= F(w), with equality at w = u. This is
the problem with the true outputs z_i and one additional plane, which ``plane`` returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# Factor on the loss in exponents: exp(EXCLUDED) vanishes beside exp of any score, so a wrong label
# has probability 0.
EXCLUDED = -1e200


@dataclass(frozen=True)
class SoftTruth:
    """Examples with true outputs z_i, whose loss counts mistakes at known labels, and the point u.

    ``counted`` is a factor for each example. ``loss`` is the factor on the loss in the exponent of a
    completion. If an output is one label, only examples with an unknown label count, and every label is a
    completion.
    """

    examples: Any
    at: np.ndarray
    counted: np.ndarray | None = None
    loss: float = EXCLUDED

    def log_sums(self, w: np.ndarray, n_jobs: int = 1) -> np.ndarray:
        """Return t_i(w) of every example."""
        sums = self.examples.answers.log_sums(w, n_jobs, self.loss)
        return sums if self.counted is None else self.counted * sums

    def plane(self, mass: np.ndarray, n_jobs: int = 1) -> tuple[float, np.ndarray]:
        """Return - sum_i mass_i (the tangent of t_i at u) as an offset b and a vector v: b - <v, w>."""
        mass = mass if self.counted is None else self.counted * mass
        value, vector = self.examples.answers.tilt(self.at, mass, n_jobs, self.loss)
        return float(np.einsum("i,i->", vector, self.at)) - value, vector

    def potentials(self, height: float, n_jobs: int = 1) -> np.ndarray:
        """Return approximate potentials of b: scores at u, with ``height`` subtracted for wrong labels."""
        return self.examples.answers.list_potentials(self.at, n_jobs, -height)
