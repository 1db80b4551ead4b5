"""Examples whose planes are made in Python, stored as sparse vectors."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.models.checks import NOISE, beaten
from maxmargin.models.examples import Examples
from maxmargin.models.extent import Extent

Vector = tuple[np.ndarray, np.ndarray]  # sorted indices (int32) and values of a sparse vector


def plane_key(plane: tuple[float, Vector]) -> tuple[float, bytes, bytes]:
    """Return a hashable key of a plane."""
    offset, (index, value) = plane
    return offset, index.tobytes(), value.tobytes()


class PlaneExamples(Examples):
    """Examples whose planes are made in Python; an output is stored as (offset, (index, value))."""

    checked = True

    @cached_property
    def seen(self) -> dict[int, tuple[float, int, float]]:
        """For each block the longest vector, most entries and largest offset of its planes so far."""
        return {}

    @abstractmethod
    def planes(self, w: np.ndarray, n_jobs: int) -> list[tuple[float, Vector]]:
        """Return offset and vector of the worst plane of every block."""

    @abstractmethod
    def oracle(self, blocks: Sequence[int], w: np.ndarray) -> list[tuple[float, Vector]]:
        """Return offset and vector of the worst plane of each of these blocks."""

    def note(self, blocks: Iterable[int], outputs: list[tuple[float, Vector]]) -> None:
        """Record the lengths of the vectors of planes, for a bound on rounding."""
        for i, (offset, (_, value)) in zip(blocks, outputs, strict=True):
            known = self.seen.get(int(i), (0.0, 0, 0.0))
            own = (float(np.linalg.norm(value)), len(value), abs(offset))
            self.seen[int(i)] = tuple(map(max, known, own))  # type: ignore[assignment]

    def extent(self) -> Extent:
        """Return the extent of the planes seen so far, because no others are known."""
        found = np.zeros((self.n, 3))
        for i, own in self.seen.items():
            found[i] = own
        terms = int(found[:, 1].max(initial=0))
        return Extent(found[:, 0], terms, outputs=self.most_planes(), offsets=found[:, 2])

    def most_planes(self) -> Any:
        """Return the number of planes that a sum over the outputs of each block adds up."""
        return 1

    def every_plane(self, i: int) -> list[tuple[float, Vector]]:
        """Return the planes of all outputs of an example except the true one, if a sum is ``exact``."""
        raise NotImplementedError

    def distinct(self, blocks: np.ndarray, outputs: Any) -> bool:
        """Whether each plane of a block appears at most once for each output that has this plane.

        If the outputs are not all known, each plane may appear only once.
        """
        seen = Counter(zip(blocks.tolist(), map(plane_key, outputs), strict=True))
        again = {block for (block, _), times in seen.items() if times > 1}
        if again and not self.exact:
            return False
        known = Counter((i, plane_key(p)) for i in again for p in self.every_plane(i))
        return all(seen[k] <= known[k] for k in seen if k[0] in again)

    def worst(
        self, w: np.ndarray, n_jobs: int = 1
    ) -> tuple[np.ndarray, list[tuple[float, Vector]]]:
        outputs = self.planes(w, n_jobs)
        return self.measure(outputs, w), outputs

    def measure(self, outputs: list[tuple[float, Vector]], w: np.ndarray) -> np.ndarray:
        """Return the slacks that the worst planes give; raise an error if one is below the truth."""
        self.note(range(len(outputs)), outputs)
        xi = np.array([offset + float(w[index] @ value) for offset, (index, value) in outputs])
        wrong = xi < -NOISE * (1 + np.abs([offset for offset, _ in outputs]))
        if self.argmax_exact and wrong.any():
            raise beaten(int(np.argmax(wrong)), -float(xi[np.argmax(wrong)]))
        return np.maximum(xi, 0.0)

    def cache(self, capacity: int) -> PlaneCache:
        return PlaneCache(self.n, capacity)

    def try_argmax(self) -> int:
        """Try the argmax before training; return the number of calls."""
        return 0

    def check_ceilings(self, w: np.ndarray, ceilings: np.ndarray) -> None:
        """Compare upper bounds on slacks with predictions at w."""

    def check_slacks(
        self, w: np.ndarray, slacks: np.ndarray, blocks: np.ndarray, outputs: Any
    ) -> None:
        """Compare the slacks of an exact pass with cached outputs."""
        self.note(blocks, outputs)
        for i, (loss, (index, value)) in zip(blocks, outputs, strict=True):
            kept = loss + float(w[index] @ value)
            if self.exact and slacks[i] < kept - NOISE * (1 + abs(kept)):
                raise beaten(int(i), kept - slacks[i])
            slacks[i] = max(slacks[i], kept)  # an approximate oracle must not hide a known output

    def combine(
        self, blocks: np.ndarray, multipliers: np.ndarray, outputs: Any, n_jobs: int = 1
    ) -> tuple[float, np.ndarray]:
        total, offset = np.zeros(self.dimension), 0.0
        for a, (loss, (index, value)) in zip(multipliers, outputs, strict=True):
            offset += a * loss
            total[index] += a * value
        return float(offset), total

    def select(self, blocks: np.ndarray, outputs: Any, columns: np.ndarray) -> np.ndarray:
        rows, dense = np.zeros((len(blocks), len(columns))), np.zeros(self.dimension)
        for row, (_, (index, value)) in zip(rows, outputs, strict=True):
            dense[index] = value
            row[:] = dense[columns]
            dense[index] = 0.0
        return rows


class PlaneCache:
    """The last planes of each example, most recently used first; the compiled twin stores outputs."""

    def __init__(self, n: int, capacity: int):
        self.capacity = capacity
        nothing: Vector = (np.empty(0, np.int32), np.empty(0))
        self.truth: Any = (0.0, nothing)
        self.kept: list[list[tuple[float, Vector]]] = [[] for _ in range(n)]

    def add(self, planes: list[tuple[float, Vector]]) -> None:
        """Add one plane for each example."""
        for kept, plane in zip(self.kept, planes, strict=True):
            self._touch(kept, plane)

    def _touch(self, kept: list[tuple[float, Vector]], plane: tuple[float, Vector]) -> None:
        loss, (index, value) = plane
        if len(index) == 0 and loss == 0:
            return
        for j, (other, (places, values)) in enumerate(kept):
            same = other == loss and np.array_equal(places, index) and np.array_equal(values, value)
            if same:
                del kept[j]
                break
        kept.insert(0, plane)
        del kept[self.capacity :]

    def best(self, w: np.ndarray, n_jobs: int) -> tuple[np.ndarray, list[tuple[float, Vector]]]:
        """Return, for each example, the slack that the cached planes give, and the plane that gives it."""
        found, slacks = [], np.zeros(len(self.kept))
        for i, kept in enumerate(self.kept):
            values = [0.0, *(loss + float(w[index] @ value) for loss, (index, value) in kept)]
            j = int(np.argmax(values))
            slacks[i] = values[j]
            found.append(kept[j - 1] if j > 0 else self.truth)
            if j > 1:
                kept.insert(0, kept.pop(j - 1))
        return slacks, found


class PlaneTable:
    """All planes of all blocks as one sparse matrix."""

    def __init__(self, planes: list[list[tuple[float, Vector]]], dimension: int):
        self.n: int = len(planes)
        self.owner: np.ndarray = np.repeat(np.arange(self.n), [len(own) for own in planes])
        flat = [plane for own in planes for plane in own]
        self.offsets: np.ndarray = np.array([offset for offset, _ in flat], dtype=np.float64)
        ends = np.concatenate([[0], np.cumsum([len(index) for _, (index, _) in flat])])
        index = np.concatenate([i for _, (i, _) in flat] or [np.empty(0, np.int32)])
        value = np.concatenate([v for _, (_, v) in flat] or [np.empty(0)])
        self.vectors: Any = sp.csr_matrix((value, index, ends), shape=(len(flat), dimension))

    def sums(self, w: np.ndarray) -> np.ndarray:
        """Return sum_y max(0, s_i(y)) of every block."""
        violations = np.maximum(self.offsets + self.vectors @ w, 0.0)
        return np.bincount(self.owner, violations, minlength=self.n)
