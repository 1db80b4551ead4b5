"""The scores and the report of each task, counted in batches, for the command line and for report pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxmargin.data.spans import BracketScores, bracket_scores
from maxmargin.data.table import Table
from maxmargin.data.tags import SCHEMES_OF_TAGS, scheme_of_tags
from maxmargin.metrics.counts import Counts
from maxmargin.metrics.scores import (
    bracket_counts,
    entity_counts,
    same_sequences,
    set_counts,
    tag_counts,
)


@dataclass
class Tally:
    """Scores of single labels, one per example."""

    counts: Counts = field(default_factory=Counts)

    def add(self, Y: Any, P: Any) -> None:
        """Count the true and predicted outputs of a batch of examples."""
        self.counts.update(tag_counts(Y, P))

    @property
    def accuracy(self) -> float:
        """The share of correct labels over all positions together."""
        total = self.counts.true.total()
        return self.counts.matched.total() / total if total else 0.0

    def scores(self) -> dict[str, float]:
        """The scores of all examples added so far, by name."""
        return {"accuracy": self.accuracy, "macro F1": float(self.counts.average("macro")[2])}

    def report(self) -> Table | None:
        """A table with one row for each label, or None if the task has no table."""
        return self.counts.report("label")


@dataclass
class TaggingTally(Tally):
    """Scores of label sequences, and of entities if the labels follow a tagging scheme."""

    right: int = 0
    sequences: int = 0
    # Entity counts under every tagging scheme that fits all tags seen so far.
    entities: dict[str, Counts] = field(
        default_factory=lambda: {name: Counts() for name in SCHEMES_OF_TAGS}
    )

    def add(self, Y: Any, P: Any) -> None:
        super().add(Y, P)
        self.right += sum(same_sequences(Y, P))
        self.sequences += len(Y)
        tags = {*self.counts.true, *self.counts.predicted}
        fitting = {n: c for n, c in self.entities.items() if scheme_of_tags(tags, names=(n,))}
        self.entities = fitting if tags - {"O"} else self.entities
        for name, counts in self.entities.items():
            counts.update(entity_counts(Y, P, name, "O", False))

    def scores(self) -> dict[str, float]:
        scores = {
            "tag accuracy": self.accuracy,
            "sequence accuracy": self.right / self.sequences if self.sequences else 0.0,
        }
        counts = self._of_entities()
        if counts is not None:
            for k, name in enumerate(("precision", "recall", "F1")):
                scores[f"entity {name}"] = float(counts.average("micro")[k])
        return scores

    def report(self) -> Table | None:
        """A table with one row for each entity type, or for each label if the tags mark no entities."""
        counts = self._of_entities()
        return super().report() if counts is None else counts.report("entity")

    def _of_entities(self) -> Counts | None:
        scheme = scheme_of_tags({*self.counts.true, *self.counts.predicted})
        return None if scheme is None else self.entities[scheme]


class SetTally(Tally):
    """Scores of label sets."""

    def add(self, Y: Any, P: Any) -> None:
        self.counts.update(set_counts(Y, P))

    def scores(self) -> dict[str, float]:
        return {f"{kind} F1": float(self.counts.average(kind)[2]) for kind in ("micro", "macro")}


@dataclass
class TreeTally(Tally):
    """Scores of trees."""

    brackets: BracketScores = field(default_factory=lambda: BracketScores(0, 0, 0, 0, 0))

    def add(self, Y: Any, P: Any) -> None:
        self.brackets += bracket_scores(Y, P)
        self.counts.update(bracket_counts(Y, P))

    def scores(self) -> dict[str, float]:
        return {"bracket F1": self.brackets.f1}

    def report(self) -> Table | None:
        return self.counts.report("phrase")


@dataclass
class NumberTally(Tally):
    """Scores of real numbers."""

    pairs: list[np.ndarray] = field(default_factory=list)

    def add(self, Y: Any, P: Any) -> None:
        self.pairs.append(np.array([np.asarray(Y, dtype=float), np.asarray(P, dtype=float)]))

    def scores(self) -> dict[str, float]:
        true, predicted = np.concatenate(self.pairs, axis=1)
        spread = float(((true - true.mean()) ** 2).sum())
        squares = float(((true - predicted) ** 2).sum())
        return {
            "mean absolute error": float(np.abs(true - predicted).mean()),
            "R2": 1.0 - squares / spread if spread else float("nan"),
        }

    def report(self) -> Table | None:
        return None


TALLIES: dict[str, Callable[[], Tally]] = {
    "multiclass": Tally,
    "binary": Tally,
    "tagging": TaggingTally,
    "multilabel": SetTally,
    "parsing": TreeTally,
    "regression": NumberTally,
}
