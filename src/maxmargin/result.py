"""What training gives back, and what it keeps on the way: history, result, snapshots."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from maxmargin.problem import Certificate, Status, Support
from maxmargin.solvers import Snapshot

COLUMNS = ("seconds", "passes", "oracle_calls", "primal", "dual", "gap", "estimate", "planes")


@dataclass
class History:
    """Columns of equal length, an entry per step.

    ``primal`` is the least that an exact pass has proven so far and ``gap`` what it leaves open (infinite
    until the first exact pass); ``estimate`` is the gap as the solver saw it while w moved.
    """

    columns: ClassVar[tuple[str, ...]] = COLUMNS

    rows: list[dict[str, float]] = field(default_factory=list, kw_only=True)

    def arrays(self) -> dict[str, np.ndarray]:
        """The columns as arrays."""
        return {name: np.array([row[name] for row in self.rows], float) for name in self.columns}


@dataclass(frozen=True)
class Result:
    """A trained solution.

    ``resumable``: the same solver can go on from ``support``. ``advice``: what to do where training did not
    converge. ``dropped_warm``: the warm start was worse than a cold one, and training began again without it.
    """

    w: np.ndarray
    support: Support
    certificate: Certificate
    history: History
    status: Status
    solver: str
    advice: str = ""
    resumable: bool = True
    dropped_warm: bool = False


@dataclass(frozen=True)
class Saved:
    """What a later run needs to go on: a snapshot, with the best weights known, and what was spent."""

    snapshot: Snapshot
    oracle_calls: int
    seconds: float


class Keeper(Protocol):
    """Keeps the snapshots of a run, and has the one to begin with: ``maxmargin.checkpoint``."""

    every: float  # seconds between two
    found: Saved | None

    def save(self, saved: Saved) -> None:
        """Keep a snapshot in place of the last one."""
