"""maxmargin check: describe the content of a file in one walk through it."""

from __future__ import annotations

from argparse import Namespace
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from maxmargin.cli.show import show
from maxmargin.cli.train import source_of
from maxmargin.data.file_labels import Summary
from maxmargin.data.from_file import FromFile, Reading
from maxmargin.data.read_file import Source
from maxmargin.data.tags import SCHEMES_OF_TAGS, scheme_of_tags, spans_of

SLOW_PASS = 3e9  # steps of a pass above which the report warns; this many take some seconds


def check(given: Namespace) -> None:
    """Print facts about a file before training on it."""
    found = Findings(source_of(given))
    facts = found.facts()
    if given.test:
        known = np.unique(found.keys)
        other = Source(given.test, Reading(**found.reading.state())).pieces()
        keys = np.array([key for read in other for key in fingerprints(read)])
        facts["examples of the test file that are here"] = int(np.isin(keys, known).sum())
    show(facts, given.json)


class Findings:
    """Counts collected in one walk through a file."""

    examples: int = 0
    positions: int = 0
    longest: int = 0
    cubes: int = 0

    def __init__(self, source: Source):
        self.reading: Reading = source.reading
        self.summary: Summary = Summary(source.path, source.reading)
        self.labels: Counter[Any] = Counter()
        self.keys: array[int] = array("q")  # fingerprints of the examples
        # Number of ill-formed sequences under each scheme.
        self.illegal: dict[str, int] = dict.fromkeys(SCHEMES_OF_TAGS, 0)
        for read in source.pieces():
            self.summary.add(read)
            self.add(read)
        self.summary.settle()

    def add(self, read: FromFile) -> None:
        """Count the examples and labels of a batch."""
        self.examples += len(read)
        self.keys.extend(fingerprints(read))
        if read.reading.format == "brackets" or read.reading.task == "parsing":
            self.cubes += sum(len(words) ** 3 for words in read.X)
            return
        for y in map(plain_labels, read.Y):
            self.labels.update(y)
        if read.reading.format in ("svmlight", "csv", "tsv", "parquet", "npz"):
            return
        for y in map(plain_labels, read.Y):
            self.positions += len(y)
            self.longest = max(self.longest, len(y))
            for scheme in list(self.illegal):
                try:
                    self.illegal[scheme] += spans_of(y, scheme) != spans_of(y, scheme, strict=True)
                except ValueError:  # some tags do not belong to this scheme
                    del self.illegal[scheme]

    def facts(self) -> dict[str, Any]:
        """The facts, in the order in which they are printed."""
        task = self.reading.task
        facts: dict[str, Any] = {"format": self.reading.format, "task": task}
        facts["examples"] = self.examples
        if task == "tagging":
            facts |= {"positions": self.positions, "longest": self.longest}
        if task not in ("regression", "parsing"):
            counts = Counter[str]()
            for label, times in self.labels.items():
                counts[str(self.summary.label(label))] += times
            facts["labels"] = len(counts)
            facts["most frequent"] = ", ".join(f"{k} {v}" for k, v in counts.most_common(8))
            facts["rarest"] = ", ".join(f"{k} {v}" for k, v in counts.most_common()[:-4:-1])
        facts |= self.costs(int(facts.get("labels", 1)))
        facts["duplicates"] = len(self.keys) - len(np.unique(self.keys))
        scheme = scheme_of_tags(self.labels) if task == "tagging" else None
        if scheme is not None:
            facts[f"sequences that are not {scheme}"] = self.illegal[scheme]
        return facts

    def costs(self, labels: int) -> dict[str, Any]:
        """The number of steps of one pass, with a note if a pass is slow."""
        if self.reading.task == "parsing":
            steps, formula = self.cubes, "words^3, for each rule"
        elif self.reading.task == "tagging":
            steps, formula = self.positions * labels**2, "positions x labels^2"
        else:
            steps, formula = self.examples * labels, "examples x labels, for each feature"
        facts: dict[str, Any] = {"steps of a pass": f"{steps:.3g} ({formula})"}
        if steps > SLOW_PASS:
            facts["slow"] = "one pass takes long; train on a part first, or give --max-seconds"
        return facts


def plain_labels(y: Any) -> list[Any]:
    """The labels of one example as a list."""
    if isinstance(y, tuple | list):
        return list(y)
    return y.tolist() if isinstance(y, np.ndarray) else [y]


def fingerprints(read: FromFile) -> Iterator[int]:
    """A hash of the input of each example, independent of its labels."""
    if read.tokens:
        return (hash(tuple(inputs_of(lines, read.reading))) for lines in read.tokens)
    if hasattr(read.X, "indptr"):
        return csr_fingerprints(read.X)
    if isinstance(read.X, list) and isinstance(read.X[0], dict):
        return (hash(frozenset(row.items())) for row in read.X)
    return (hash(repr(x)) for x in read.X)


def inputs_of(lines: Iterable[str], reading: Reading) -> Iterator[str]:
    """Yield lines of text without their labels."""
    if reading.format == "crfsuite":
        return (line.partition("\t")[2] for line in lines)
    if reading.format == "conllu":
        return (line.split("\t")[1] for line in lines)
    at = int(reading.label)
    return (" ".join(v for j, v in enumerate(line.split()) if j != at) for line in lines)


def csr_fingerprints(X: Any) -> Iterator[int]:
    for a, b in pairwise(X.indptr.tolist()):
        yield hash((X.indices[a:b].astype(np.int64).tobytes(), X.data[a:b].tobytes()))
