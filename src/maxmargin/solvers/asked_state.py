"""Planes of a model written in Python, in a state of the core: Python calls the oracle, the core solves."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.models.checks import NOISE, beaten, read_only
from maxmargin.problem import Problem, Support
from maxmargin.runtime.executor import workers


class AskedState:
    """Base of states whose planes are made in Python: it calls the oracle for the core."""

    problem: Problem
    core: Any

    def batch_size(self) -> int:
        """Return how many blocks are searched at one w before they are visited in turn.

        A large batch keeps all workers busy; a small one keeps w fresh.
        """
        examples: Any = self.problem.examples
        executor = getattr(examples, "executor", None)
        batched = hasattr(getattr(examples, "model", None), "batch_loss_augmented_inference")
        return 1 if executor is None and not batched else max(8, 4 * workers(executor))

    def running(self) -> np.ndarray:
        """Return a read-only view of the w that the visits use."""
        return read_only(self.core.running)

    def ask(self, blocks: np.ndarray, w: np.ndarray) -> None:
        """Call the oracle for these blocks and pass its planes to the core."""
        exact = self.problem.examples.argmax_exact
        for plane in self.problem.oracle(blocks, w):
            _, lead = self.core.offer(plane.block, plane.offset, plane.index, plane.value, w)
            if exact and lead > NOISE * (1 + abs(plane.offset)):
                raise beaten(plane.block, lead)

    def readable(self, numbers: np.ndarray) -> list[Any]:
        """Return planes of the core, by number, in the form of models written in Python."""
        planes = map(self.core.plane, numbers.tolist())
        return [(offset, (index, value)) for offset, index, value in planes]

    def _offered(self, point: Support) -> np.ndarray:
        """Store the planes of a dual point in the core; return their numbers there."""
        w, planes = self.running(), zip(point.blocks, point.outputs, strict=True)
        numbers = [self.core.offer(int(i), a, *vector, w)[0] for i, (a, vector) in planes]
        return np.array(numbers, dtype=np.int32)
