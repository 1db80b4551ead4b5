"""Sequence labelling with few to thousands of labels.

    treebank  part-of-speech tags of newspaper sentences: 46 labels, affixes
    czech     positional tags of Czech: about 1,000 labels, affixes
    pinyin    the characters of clauses typed as syllables: 4,498 labels, one syllable a position

`small=True` gives a synthetic stand-in that needs no file.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator

import numpy as np
from scipy import sparse

from benchmarks.datasets import Dataset, data_file
from benchmarks.tagging import Tagged, _frequent, affix_attributes, tags
from benchmarks.text_features import Vocabulary

LONGEST = 100  # most syllables of a clause: the few longer clauses are lists and tables
CZECH = {
    "train": ("cac-ud-dev", "fictree-ud-dev", "cltt-ud-train", "cltt-ud-dev"),
    "test": ("cac-ud-test", "fictree-ud-test", "cltt-ud-test"),
}


def load(name: str, most: int | None = None, small: bool = False) -> Dataset:
    """Load the task called "treebank", "czech" or "pinyin", with at most `most` training sequences."""
    if small:
        return stand_in(name if most is None else f"{name}-{most}")
    if name == "treebank":
        return tags("treebank", most)
    return {"czech": czech, "pinyin": pinyin}[name](most)


def stand_in(name: str, labels: int = 300, n: int = 120, seed: int = 0) -> Dataset:
    """Make labels with favourite successors, typed as syllables that several labels share."""
    rng = np.random.default_rng(seed)
    successor = rng.permutation(labels)
    parts = []
    for size in (n, n // 3):
        Y = []
        for _ in range(size):
            y = [int(rng.integers(labels))]
            for _ in range(int(rng.integers(1, 8))):
                y.append(int(successor[y[-1]] if rng.random() < 0.8 else rng.integers(labels)))
            Y.append([str(label) for label in y])
        X = [one_hot([int(label) % (labels // 5) for label in y], labels // 5) for y in Y]
        parts.append((X, Y))
    (X, Y), (X_test, Y_test) = parts
    return Dataset(name, "chain", X, Y, X_test, Y_test)


def one_hot(codes: list[int], width: int) -> sparse.csr_matrix:
    """Return a row for each code; a code out of range has an empty row."""
    known = [code for code in codes if 0 <= code < width]
    starts = np.cumsum([0, *(0 <= code < width for code in codes)], dtype=np.int32)
    ones = np.ones(len(known), dtype=np.float32)
    shape = (len(codes), width)
    return sparse.csr_matrix((ones, np.array(known, dtype=np.int32), starts), shape=shape)


def clauses(part: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield syllables and characters of the clauses that are not too long."""
    with gzip.open(data_file("pinyin_pku", f"{part}.tsv.gz"), "rt", encoding="utf-8") as lines:
        for line in lines:
            characters, syllables = line.rstrip("\n").split("\t")
            if len(characters) <= LONGEST:
                yield syllables.split(), list(characters)


def pinyin(most: int | None = None) -> Dataset:
    """Return all clauses; the first `most` train, with the features of all training clauses."""
    train, test = list(clauses("train")), list(clauses("test"))
    number = {name: j for j, name in enumerate(sorted({s for x, _ in train for s in x}))}
    name = "pinyin" if most is None else f"pinyin-{most}"
    return encoded(name, train[:most], test, number)


def frequent_pinyin(labels: int, most: int) -> tuple[Dataset, list[str]]:
    """Return runs of the `labels` most frequent characters, and these characters."""
    counts = Counter(character for _, y in clauses("train") for character in y)
    kept = {character for character, _ in counts.most_common(labels)}
    runs: list[tuple[list[str], list[str]]] = []
    for x, y in clauses("train"):
        for run in runs_of(x, y, kept):
            runs.append(run)
        if len(runs) >= most:
            break
    number = {name: j for j, name in enumerate(sorted({s for x, _ in runs for s in x}))}
    return encoded(f"pinyin-{labels}", runs, runs[:10], number), sorted(kept)


def runs_of(x: list[str], y: list[str], kept: set[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the maximal runs of at least two positions whose labels are kept."""
    start = 0
    for t in range(len(y) + 1):
        if t < len(y) and y[t] in kept:
            continue
        if t - start >= 2:
            yield x[start:t], y[start:t]
        start = t + 1


def encoded(
    name: str,
    train: list[tuple[list[str], list[str]]],
    test: list[tuple[list[str], list[str]]],
    number: dict[str, int],
) -> Dataset:
    """Return syllables as one-hot rows; a syllable that training has not seen has no feature."""
    parts = [
        (
            [one_hot([number.get(s, -1) for s in x], len(number)) for x, _ in part],
            [y for _, y in part],
        )
        for part in (train, test)
    ]
    return Dataset(name, "chain", *parts[0], *parts[1])


def czech(most: int | None = None) -> Dataset:
    """Return sentences with their positional tags, and attributes seen at least twice."""
    parts = {part: [s for file in CZECH[part] for s in conllu(file)] for part in CZECH}
    train, test = parts["train"][:most], parts["test"]
    described = [affix_attributes(words) for words, _ in train]
    vocabulary = Vocabulary()
    vocabulary.numbers = {name: j for j, name in enumerate(_frequent(described, 2))}
    X = vocabulary.encode(described, np.float32, False)
    X_test = vocabulary.encode((affix_attributes(words) for words, _ in test), np.float32, False)
    return Dataset("czech", "chain", X, [y for _, y in train], X_test, [y for _, y in test])


def conllu(name: str) -> Iterator[Tagged]:
    """Yield words and positional tags (the fifth column) of a CoNLL-U file."""
    path = data_file("ud_czech", f"cs_{name}.conllu.gz")
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        for block in stream.read().split("\n\n"):
            rows = [line.split("\t") for line in block.splitlines() if not line.startswith("#")]
            rows = [row for row in rows if len(row) > 4 and row[0].isdigit()]
            if rows:
                yield [row[1] for row in rows], [row[4] for row in rows]
