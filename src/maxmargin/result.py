"""The results of training: history, final result, and the snapshots for checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from maxmargin.problem import Certificate, Status, Support
from maxmargin.solvers import Snapshot

COLUMNS = ("seconds", "passes", "oracle_calls", "primal", "dual", "gap", "estimate", "planes")


@dataclass
class History:
    """Columns of equal length, with one entry per step.

    ``primal`` is the smallest that exact passes have proven so far, and ``gap`` is the gap to it
    (infinite until the first exact pass). ``estimate`` is the gap as the solver saw it while w
    moved.
    """

    columns: ClassVar[tuple[str, ...]] = COLUMNS

    rows: list[dict[str, float]] = field(default_factory=list, kw_only=True)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the columns as arrays."""
        return {name: np.array([row[name] for row in self.rows], float) for name in self.columns}


@dataclass(frozen=True)
class Result:
    """A trained solution.

    ``resumable``: whether the same solver can continue from ``support``. ``advice``: the changes
    that can help if training did not converge. ``dropped_warm``: the warm start was worse than a
    cold one, so training started again without it.
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
    """The data that a later run needs to resume: a snapshot with the best weights, and the costs so far."""

    snapshot: Snapshot
    oracle_calls: int
    seconds: float


class Keeper(Protocol):
    """A store of the snapshots of a run; it has the one to start from: ``maxmargin.checkpoint``."""

    every: float  # seconds between two snapshots
    found: Saved | None

    def save(self, saved: Saved) -> None:
        """Replace the last snapshot by this one."""
