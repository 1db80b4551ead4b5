"""Checkpoints of a cluster: of each part b and q of what it is at, the last w, and the proximal term.

What workers hold is not in the file: a fit that goes on treats it as lost. (b, q) of each part remains a
valid bound, and pulls its worker to where it was; the part starts over from the true outputs, and training
has converged when nothing leans on the old points any more. The w that is sent, k and the centre are as
they were, so that the new points are near the old ones at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.checkpoint import CheckpointFile
from maxmargin.cluster.driver import ClusterRounds
from maxmargin.cluster.source import FilePart
from maxmargin.data.digest import digest_of
from maxmargin.io.fields import FieldError, count, number, table


class ClusterCheckpoint(CheckpointFile):
    """The driver's state in a file."""

    saved: float

    def open(self, svm: Any, rounds: ClusterRounds) -> None:
        """Know whose rounds these are; go on from the file, where that is asked for."""
        sizes = {
            "number of parts": len(rounds.pool),
            "numbers of examples": [own.n for own in rounds.facts],
            "number of weights": len(rounds.w),
        }
        checksums = [part_checksum(part, k) for k, part in enumerate(rounds.pool.parts)]
        if self.begin(svm, sizes | {"checksums of the parts": checksums}):
            self.stored(lambda header, arrays: go_on(rounds, header, arrays))
        self.saved = rounds.seconds

    def keep(self, rounds: ClusterRounds, ended: bool) -> None:
        """Replace the file, at the end or when it is time."""
        if not ended and rounds.seconds - self.saved < self.every:
            return
        points = [rounds.bundle.at(part) for part in range(len(rounds.pool))]
        header = {
            "round": rounds.round,
            "k": rounds.k,
            "oracle_calls": int(rounds.oracle_calls),
            "seconds": rounds.seconds,
        }
        arrays = {
            "offsets": np.array([b for b, _ in points]),
            "vectors": np.stack([q for _, q in points]),
            "w": rounds.w,
            "w_before": rounds.w_before,
        }
        self.store(header, arrays)
        self.saved = rounds.seconds


def part_checksum(part: Any, k: int) -> str:
    """Of files, as their first reader found it; of examples in memory, their own."""
    return part.checksum if isinstance(part, FilePart) else digest_of(list(part), f"source[{k}]")


def go_on(rounds: ClusterRounds, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Take over what ``ClusterCheckpoint.keep`` wrote, before the first round."""
    parts, d = len(rounds.pool), len(rounds.w)
    offsets = table(arrays, "offsets", np.float64, parts)
    vectors = table(arrays, "vectors", np.float64, parts, d)
    w, before = (table(arrays, name, np.float64, d) for name in ("w", "w_before"))
    k = number(header, "k")
    if k < 0:
        raise FieldError(f"k must not be negative, got {k}")
    rounds.bundle.freeze(offsets, vectors)
    rounds.k, rounds.w, rounds.w_before = k, w, before
    rounds.round = rounds.complete = count(header, "round")
    rounds.oracle_calls += count(header, "oracle_calls")
    rounds.started -= max(0.0, number(header, "seconds"))
