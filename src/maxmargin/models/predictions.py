"""What a fitted model is asked on data: predictions, and how sure they are where that is found exactly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from maxmargin.models.beliefs import Beliefs

NO_BELIEFS = (
    "sums and maxima over all outputs with a given label are found for Multiclass, Binary, Chain, and for "
    "FactorGraph and MultiLabel whose graphs are forests; maxima also for Tree"
)


class Predictions(ABC):
    """Answers at weights w for every example; what a model has no answer for is refused in words."""

    @abstractmethod
    def predict(self, w: Any, n_jobs: int = 1) -> Any:
        """argmax_y <w, Psi(x_i, y)> for every example; w as it is, or what ``ready`` made of it."""

    def glance(self, w: np.ndarray, n: int) -> Any:
        """The same of the first n examples; None where that takes as long as all of them."""
        return None

    def ready(self, w: np.ndarray) -> Any:
        """w made ready for many predictions, on any data of the model: their cost then follows the data."""
        return w

    def decide(self, w: Any, n_jobs: int = 1) -> np.ndarray:
        """<w, Psi(x_i, y)> of the prediction of every example."""
        raise ValueError("decision_function: this model has no score of the single examples of X")

    def margins(self, w: Any, n_jobs: int = 1) -> Any:
        """For each node of every example the best score less the best one with another label there."""
        raise ValueError(f"predict_margins: {NO_BELIEFS}")

    def beliefs(self, w: Any, temperature: float, n_jobs: int = 1) -> Beliefs:
        """What each label of each node is worth, at a temperature."""
        raise ValueError(f"predict_marginals: {NO_BELIEFS}")

    def true_codes(self) -> np.ndarray:
        """The code of the true label of every node."""
        raise ValueError(f"Y: {NO_BELIEFS}")

    def around(self, fixed: Any) -> Any:
        """The same examples, for predictions that have these labels where they are given."""
        raise ValueError(
            "fixed: this model takes no fixed labels; Chain does, with a kernel or without"
        )
