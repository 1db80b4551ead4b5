"""Part-of-speech tagging with affixes, as in Section 5 of Joachims, Finley and Yu (2009).

The features of a word are binary: its length, and the prefixes and suffixes of the word itself, of
the word before it and of the word after it.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from benchmarks import stand_ins
from benchmarks.datasets import Dataset, data_file
from benchmarks.text_features import PADDING, Vocabulary

Tagged = tuple[list[str], list[str]]  # words, tags
LONGEST = 5  # most letters of an affix
BROWN_SUFFIXES = ("-hl", "-tl", "-nc")


def affix_attributes(words: list[str]) -> list[list[str]]:
    """Return the affixes at -1, 0 and 1, the length and a bias, for every word."""
    padded = [PADDING, *words, PADDING]
    affixes = [_affixes(word) for word in padded]
    return [
        [f"{offset}{name}" for offset in (-1, 0, 1) for name in affixes[position + offset]]
        + [f"length={min(len(padded[position]), 15)}", "bias"]
        for position in range(1, len(padded) - 1)
    ]


def _affixes(word: str) -> list[str]:
    if word == PADDING:
        return [PADDING]
    lengths = range(1, min(LONGEST, len(word)) + 1)
    return [*(f"<{word[:k]}" for k in lengths), *(f">{word[-k:]}" for k in lengths), f"={word}"]


def brown_sentences() -> Iterator[tuple[str, Tagged]]:
    """Yield the file and the sentence of the Brown corpus, for every sentence.

    Marks of headlines, titles and citations are removed from the tags.
    """
    with gzip.open(data_file("brown", "brown.tsv.gz"), "rt", encoding="utf-8") as lines:
        for line in lines:
            file, _, text = line.rstrip("\n").split("\t")
            pairs = [token.rsplit("/", 1) for token in text.split()]
            yield file, ([word for word, _ in pairs], [_plain_tag(tag) for _, tag in pairs])


def _plain_tag(tag: str) -> str:
    for suffix in BROWN_SUFFIXES:
        tag = tag.removesuffix(suffix)
    return tag


def treebank_sentences() -> list[Tagged]:
    """The sentences of the treebank sample."""
    with gzip.open(data_file("treebank", "treebank.dep.gz"), "rt", encoding="utf-8") as lines:
        rows = [line.split("\t") for line in lines.read().split("\n")]
    ends = [-1, *(i for i, row in enumerate(rows) if row == [""]), len(rows)]
    parts = [rows[a + 1 : b] for a, b in pairwise(ends) if b > a + 1]
    return [([row[0] for row in part], [row[1] for row in part]) for part in parts]


def split(corpus: str, small: bool) -> tuple[list[Tagged], list[Tagged]]:
    """Return sentences for training and for testing.

    Every tenth file of Brown, or the last tenth of the treebank, is for testing.
    """
    if small:
        pairs = stand_ins.sentences()[0]
        return pairs[:30], pairs[30:]
    if corpus == "treebank":
        sentences = treebank_sentences()
        cut = len(sentences) * 9 // 10
        return sentences[:cut], sentences[cut:]
    files = sorted({file for file, _ in brown_sentences()})
    tests = set(files[::10])
    parts: tuple[list[Tagged], list[Tagged]] = ([], [])
    for file, sentence in brown_sentences():
        parts[file in tests].append(sentence)
    return parts


def tags(
    corpus: str, most: int | None = None, rare: int = 2, seed: int = 0, small: bool = False
) -> Dataset:
    """Return the tags of "brown" or "treebank".

    The set has at most `most` training sentences, and attributes that occur at least `rare` times.
    """
    train, test = split(corpus, small)
    order = np.random.default_rng(seed).permutation(len(train))[:most]
    train = [train[i] for i in order]
    vocabulary = Vocabulary()
    # Attributes are computed twice: a whole corpus of them would take gigabytes of memory.
    names = _frequent((affix_attributes(words) for words, _ in train), rare)
    vocabulary.numbers = {name: j for j, name in enumerate(names)}
    return Dataset(
        name=f"{corpus}-tags",
        kind="chain",
        X_train=vocabulary.encode(
            (affix_attributes(words) for words, _ in train), np.float32, False
        ),
        Y_train=[tags for _, tags in train],
        X_test=vocabulary.encode((affix_attributes(words) for words, _ in test), np.float32, False),
        Y_test=[tags for _, tags in test],
    )


def _frequent(described: Iterable[list[list[str]]], least: int) -> list[str]:
    counts: dict[str, int] = {}
    for tokens in described:
        for attributes in tokens:
            for name in attributes:
                counts[name] = counts.get(name, 0) + 1
    return [name for name, count in counts.items() if count >= least]
