"""Planes of a model written in Python, in a state of the core: the oracle is asked here, and offers them."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.models.checks import NOISE, beaten, read_only
from maxmargin.problem import Problem, Support
from maxmargin.runtime.executor import workers


class AskedState:
    """Of a state whose planes are made in Python: the oracle is asked here, and the core is offered them."""

    problem: Problem
    core: Any

    def batch_size(self) -> int:
        """Blocks whose outputs are found at one w, then visited in turn.

        Wide enough to feed the workers, narrow enough that w is fresh.
        """
        examples: Any = self.problem.examples
        executor = getattr(examples, "executor", None)
        batched = hasattr(getattr(examples, "model", None), "batch_loss_augmented_inference")
        return 1 if executor is None and not batched else max(8, 4 * workers(executor))

    def running(self) -> np.ndarray:
        """The w that the visits see, read-only."""
        return read_only(self.core.running)

    def ask(self, blocks: np.ndarray, w: np.ndarray) -> None:
        """Offer the oracle's planes to their blocks."""
        exact = self.problem.examples.argmax_exact
        for plane in self.problem.oracle(blocks, w):
            _, lead = self.core.offer(plane.block, plane.offset, plane.index, plane.value, w)
            if exact and lead > NOISE * (1 + abs(plane.offset)):
                raise beaten(plane.block, lead)

    def readable(self, numbers: np.ndarray) -> list[Any]:
        """Planes that the core keeps, by their numbers, as models written in Python have them."""
        planes = map(self.core.plane, numbers.tolist())
        return [(offset, (index, value)) for offset, index, value in planes]

    def _offered(self, point: Support) -> np.ndarray:
        """The numbers under which the core keeps the planes of a dual point from now on."""
        w, planes = self.running(), zip(point.blocks, point.outputs, strict=True)
        numbers = [self.core.offer(int(i), a, *vector, w)[0] for i, (a, vector) in planes]
        return np.array(numbers, dtype=np.int32)
