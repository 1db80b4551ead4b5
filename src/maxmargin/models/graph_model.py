"""What models over graphs share."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from maxmargin.data.arrays import check_choice
from maxmargin.models.factors import METHODS
from maxmargin.models.protocol import Model
from maxmargin.models.registry import FACTORS, SUMS, UNKNOWN_LABELS


class GraphModel(Model):
    """What models over graphs share: the method of the argmax, and its budget."""

    powers: ClassVar[tuple[str, ...]] = (FACTORS, SUMS, UNKNOWN_LABELS)
    stored: ClassVar[dict[str, str]] = {"loss": "task_loss", "inference": "inference_method"}
    inference_method: str
    iterations: int

    @property
    def exact(self) -> bool:
        """Whether the argmax is exact for graphs as in training; else certificates are made of ceilings."""
        forests = self.inference_method == "auto" and getattr(self, "forests_", False)
        return self.inference_method == "tree" or forests

    def check_inference(self) -> None:
        """Refuse a method that does not exist, and a budget that is not a number."""
        check_choice("inference", self.inference_method, METHODS)
        whole = isinstance(self.iterations, int | np.integer)
        if not whole or isinstance(self.iterations, bool) or not 1 <= self.iterations < 2**31:
            raise ValueError(
                "iterations must be a whole number of at least 1 and below 2^31, got "
                f"{self.iterations!r}"
            )
