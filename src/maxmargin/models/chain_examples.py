"""Sequences in the core: a chain bound to data."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from maxmargin.data.labels import LabelSet
from maxmargin.data.memory import FeatureRows
from maxmargin.models.beliefs import Beliefs, even_beliefs
from maxmargin.models.chain_edges import MOST_LABELS_OF_K_BEST
from maxmargin.models.examples import CompiledExamples
from maxmargin.models.extent import Extent, extent_of_chains
from maxmargin.models.registry import FACTORS, POTENTIALS, SUMS
from maxmargin.models.transitions import FREE, TransitionRules, read_fixed

# Limit on the labels in all k best labellings of a sequence; more may not fit in memory.
MOST_KEPT = 2**28
# longest sequence with a table of inner products; must agree with cpp/models/chain.hpp
LONGEST_TABLE = 128


def table_bytes(lengths: np.ndarray) -> np.ndarray:
    """Return the bytes that the core's table of inner products takes for each sequence."""
    return np.where(lengths <= LONGEST_TABLE, 2 * lengths * (lengths - 1), 0)


@dataclass(eq=False, repr=False)
class ChainExamples(CompiledExamples):
    """Sequences; some of their transitions may be forbidden, and some of their labels fixed."""

    rows: FeatureRows
    labels: LabelSet
    chain: Any
    rules: TransitionRules | None
    data: Any = None  # the data set that the core answers for, if it is more than the chain
    between: Any = None  # the rows of the edges, which the core reads

    powers: tuple[str, ...] = field(default=(FACTORS, SUMS, POTENTIALS), init=False)
    brackets_sums = True

    def __post_init__(self) -> None:
        # A broadcast view stores a single number for all positions.
        self.fixed: np.ndarray = np.broadcast_to(np.int32(FREE), int(self.rows.offsets[-1]))
        if self.rules is not None:
            # A dual over factors cannot express forbidden pairs.
            self.powers = tuple(p for p in self.powers if p != FACTORS)
        self.take(self.chain if self.data is None else self.data)

    def output_sizes(self, blocks: np.ndarray) -> np.ndarray:
        return np.diff(self.rows.offsets)[blocks]

    def all_sizes(self) -> np.ndarray:
        return np.diff(self.rows.offsets)

    def extent(self) -> Extent:
        K, pairs = len(self.labels.classes), self.data is not None
        return extent_of_chains(self.rows, K, self.between, pairs)

    def least_constant_loss(self, mass: np.ndarray) -> float:
        return self.chain.least_constant_loss(mass)

    def table_bytes(self) -> int:
        return int(table_bytes(np.diff(self.rows.offsets)).sum())

    def decode(self, codes: np.ndarray) -> list[np.ndarray]:
        return self.split(self.labels.decode(codes))

    def split(self, rows: np.ndarray) -> list[np.ndarray]:
        """Split values of all positions by sequence."""
        bounds = self.rows.offsets.tolist()
        return [rows[a:b] for a, b in pairwise(bounds)]

    def around(self, fixed: Any) -> ChainExamples:
        self.fixed = read_fixed(fixed, self.labels, self.rows.offsets)
        self.chain.hold(self.fixed)
        return self

    def predict(self, w: Any, n_jobs: int = 1) -> list[np.ndarray]:
        codes = self.answers.predict(w, n_jobs)
        if self.rules is not None:
            self.rules.check_prediction(codes, self.rows.offsets, self.fixed)
        return self.decode(codes)

    def decide(self, w: Any, n_jobs: int = 1) -> np.ndarray:
        scores = np.zeros(len(self.rows.offsets) - 1)
        scores[np.diff(self.rows.offsets) > 0] = super().decide(w, n_jobs)
        return scores

    def check_listed(self) -> None:
        """Raise ValueError if there are too many labels for a table of all pairs of pairs of labels."""

    def margins(self, w: Any, n_jobs: int = 1) -> list[np.ndarray]:
        self.check_listed()
        return self.split(self.legal(self.answers.margins(self.packed(w), n_jobs)))

    def beliefs(self, w: Any, temperature: float, n_jobs: int = 1) -> Beliefs:
        self.check_listed()
        values = self.answers.beliefs(self.packed(w), temperature, n_jobs)
        rows = values.reshape(-1, len(self.labels))
        self.legal(rows.max(axis=1, initial=-np.inf))
        return even_beliefs(rows, self.labels.classes, self.rows.offsets, temperature)

    def legal(self, found: np.ndarray) -> np.ndarray:
        """Return the values of all positions; raise an error if a sequence has no legal labelling."""
        wrong = np.isnan(found) | np.isneginf(found)
        if self.rules is not None and wrong.any():
            i = int(np.searchsorted(self.rows.offsets, np.argmax(wrong), side="right")) - 1
            raise self.rules.impossible(i, self.split(self.fixed)[i])
        return found

    def best_k(self, w: np.ndarray, i: int, k: int) -> list[tuple[np.ndarray, float]]:
        """Return the k best labellings of sequence i with their scores."""
        self.check_listed()
        first, last = self.rows.offsets[i : i + 2].tolist()
        length = last - first
        if length == 0:
            return [(self.labels.decode(np.empty(0, np.int32)), 0.0)]
        k = min(k, len(self.labels) ** min(length, 64))  # no more labellings exist
        if k * length > MOST_KEPT:
            raise ValueError(
                f"k must be at most {MOST_KEPT // length} for a sequence of {length} positions, got {k}"
            )
        codes, scores = self.core.best_k(w, i, k)
        if self.rules is not None and len(scores) == 0:
            raise self.rules.impossible(i, self.fixed[first:last])
        labels = self.labels.decode(codes).reshape(len(scores), -1)
        return [(y, float(s)) for y, s in zip(labels, scores, strict=True)]


class EdgeChainExamples(ChainExamples):
    """Sequences whose edges have features, or whose triples of labels have weights."""

    powers: tuple[str, ...] = (SUMS,)
    brackets_sums = False

    def check_listed(self) -> None:
        if len(self.labels) > MOST_LABELS_OF_K_BEST:
            raise ValueError(
                "the k best labellings and marginals of a chain with edges or order=2 are listed for "
                f"at most {MOST_LABELS_OF_K_BEST} labels, got {len(self.labels)}"
            )
