"""Completing: a model with hidden parts as one of complete outputs, for examples that come in chunks."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.models.examples import Examples
from maxmargin.models.latent import Latent
from maxmargin.models.protocol import Model


class Completing(Model):
    """Outputs are completed at the weights w whenever they are bound; without w they are complete already."""

    n_jobs: int
    w: np.ndarray | None

    def __init__(self, latent: Latent, n_jobs: int, w: np.ndarray | None = None):
        self.latent, self.n_jobs = latent, n_jobs
        self.w = w

    @property
    def packed_as(self) -> Any:
        """The model whose inputs these are."""
        return self.latent.inner_

    @property
    def size_joint_feature(self) -> int:  # type: ignore[override]
        return self.latent.size_joint_feature

    def convert(self, X: Any) -> Any:
        return self.latent.convert(X)

    def initialize(self, X: Any, Y: Any) -> None:
        """Look at the first examples; their outputs are completed at w = 0 from then on."""
        self.latent.initialize(X, Y)
        self.w = np.zeros(self.size_joint_feature)

    def example_weights(self, Y: Any, weights: np.ndarray) -> Any:
        """Of examples of which something is known."""
        return self.latent.example_weights(Y, weights)

    def bind(self, X: Any, Y: Any = None, node_weight: Any = None) -> Examples:
        """The model on complete outputs."""
        outputs = Y if self.w is None else self.latent.completions(X, Y, self.w, self.n_jobs)
        return self.latent.over(X, outputs)
