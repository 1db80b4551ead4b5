"""The learning problems of Joachims, Finley and Yu, each with C and epsilon on the paper's scale.

The paper minimises 1/2 |w|^2 + C'/n sum xi with a zero-one loss of 100. Here that loss is one, so
for
classes and parses C' and epsilon are the paper's values divided by 100. The tagger counts mistakes
in
both.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks import datasets, stand_ins
from benchmarks.datasets import Dataset, data_file
from benchmarks.tagging import tags
from maxmargin import models


@dataclass(frozen=True)
class Task:
    """Examples, a model, and the setting of the paper."""

    name: str
    model: Callable[[], Any]
    X: Any
    Y: Any
    X_test: Any
    Y_test: Any
    weight: float  # C', the weight of the mean slack
    eps: float

    @property
    def size(self) -> int:
        """The number of training examples."""
        return len(self.Y)

    def first(self, n: int | None) -> Task:
        """Return the same task on the first n training examples, or on all if n is None."""
        return replace(self, X=self.X[:n], Y=self.Y[:n])


@cache
def covertype() -> tuple[np.ndarray, np.ndarray]:
    """Return all 581,012 examples in random order.

    Each feature is scaled to a largest absolute value of one.
    """
    with gzip.open(data_file("covtype", "covtype.csv.gz"), "rt") as lines:
        table = np.loadtxt(lines, delimiter=",", skiprows=1)
    table = np.random.default_rng(0).permutation(table)
    X, y = np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)
    return X / np.maximum(np.abs(X).max(axis=0), 1e-12), y


def multiclass(small: bool, most: int | None = None) -> Task:
    """Return covertype; the last tenth is the test set."""
    X, y = stand_ins.digits(examples=150) if small else covertype()
    cut = 9 * len(y) // 10
    model = lambda: models.Multiclass(bias=1.0)  # noqa: E731
    weight, eps = (10.0, 0.05) if small else (1e5, 1e-3)
    return Task("covertype", model, X[:cut], y[:cut], X[cut:], y[cut:], weight, eps).first(most)


def from_dataset(name: str, model: Callable[[], Any], data: Dataset, *setting: float) -> Task:
    """Return a task on a set that is already split; the setting is C' and epsilon."""
    return Task(
        name, model, data.X_train, data.Y_train, data.X_test, data.Y_test, setting[0], setting[1]
    )


def tagger(corpus: str, small: bool, most: int | None = None) -> Task:
    """Return tags of a corpus with affix features, with at most `most` sentences."""
    data = tags(corpus, most or (None if corpus == "treebank" else 10_000), small=small)
    return from_dataset(data.name, models.Chain, data, *((10.0, 0.5) if small else (5000.0, 0.1)))


def parser(small: bool, most: int | None = None) -> Task:
    """Return trees of sentences of at most 15 words, with a zero-one loss for the whole tree."""
    model = lambda: models.Grammar(loss="zero-one")  # noqa: E731
    data = datasets.treebank(15, small=small)
    setting = (1.0, 0.1) if small else (200.0, 1e-3)
    return from_dataset("treebank-parses", model, data, *setting).first(most)


TASKS: dict[str, Callable[..., Task]] = {  # called with `small` and, to limit the examples, `most`
    "covertype": multiclass,
    "treebank-tags": partial(tagger, "treebank"),
    "brown-tags": partial(tagger, "brown"),
    "treebank-parses": parser,
}
