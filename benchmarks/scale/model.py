"""The scale model: bytes, memory and time of a round, as formulas of docs/scale.md.

d weights, K parts (one for each worker), m = older + 4 points of a part, p passes of a proposal

    bytes      a round sends w (8 d) and a command (ORDER) to each worker, and three vectors back (24 d, or
               less if they are sparse). The scheduler passes on all answers: it writes
               8 d + K (24 d + ORDER)
    driver     8 K m d for the vectors of all points, 8 (K m)^2 for their inner products
    rounds     A K^B to a gap, fitted to simulations
    time       a round processes (p + 1) n / K examples at a worker, sends its bytes through the scheduler's
               network, and solves the mixture. The mixture takes Newton steps on a program of K m unknowns,
               so its time grows as K^3 from the measured value
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# Bytes of a command and of the data that `distributed` adds to a task, measured on loopback.
ORDER = 2000
POINTS = 19  # m


@dataclass(frozen=True)
class Cluster:
    """A cluster, its data, and the measured time of an example."""

    parts: int
    weights: int
    examples: float
    example_seconds: float  # CPU seconds of an example in a pass
    bandwidth: float = 1.25e9  # bytes per second of the scheduler's network: 10 Gbit/s
    passes: int = 2
    points: int = POINTS

    @property
    def to_worker(self) -> float:
        """Bytes of a round to each worker."""
        return 8.0 * self.weights + ORDER

    @property
    def from_part(self) -> float:
        """Bytes of a round from each part, if vectors are dense."""
        return 24.0 * self.weights

    @property
    def through_scheduler(self) -> float:
        """Bytes that the scheduler writes in a round."""
        return 8.0 * self.weights + self.parts * (self.from_part + ORDER)

    @property
    def driver_memory(self) -> float:
        """Bytes of the driver's points and of their inner products."""
        table = self.parts * self.points
        return 8.0 * table * self.weights + 8.0 * table**2

    def round_seconds(self, mixing: float) -> dict[str, float]:
        """Return the seconds of a round for passes, network and mixture (`mixing` is the last of these)."""
        passes = (self.passes + 1) * self.examples / self.parts * self.example_seconds
        return {
            "passes": passes,
            "wire": self.through_scheduler / self.bandwidth,
            "mixing": mixing,
        }


def power_law(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Fit A and B of y = A x^B by least squares of the logarithms."""
    B, a = np.polyfit(np.log(x), np.log(y), 1)
    return float(np.exp(a)), float(B)


def extrapolated(
    rows: Sequence[dict[str, Any]], cluster: Cluster, gap: str = "rounds_0.01"
) -> dict[str, Any]:
    """Extrapolate from simulations with several numbers of parts to a larger cluster."""
    reached = [row for row in rows if row[gap] and row["parts"] > 1]
    A, B = power_law([row["parts"] for row in reached], [row[gap] for row in reached])
    last = max(reached, key=lambda row: row["parts"])
    rounds = A * cluster.parts**B
    seconds = cluster.round_seconds(last["mixing_seconds"] * (cluster.parts / last["parts"]) ** 3)
    return {
        "parts": cluster.parts,
        "weights": cluster.weights,
        "examples": cluster.examples,
        "exponent": B,
        "rounds": rounds,
        "driver_gb": cluster.driver_memory / 1e9,
        "scheduler_gb_a_round": cluster.through_scheduler / 1e9,
        **{f"{name}_seconds": value for name, value in seconds.items()},
        "hours": rounds * sum(seconds.values()) / 3600,
    }
