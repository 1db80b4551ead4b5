"""Tiny synthetic data in the shape of the real sets, so that every benchmark runs anywhere."""

from __future__ import annotations

import numpy as np

from benchmarks.text_features import Sentence
from maxmargin.data.synthetic import random_treebank
from maxmargin.data.trees import ParseTree

_PHRASES = {
    "NP": [("DT", "the a every"), ("JJ", "red small old"), ("NN", "dog house river stone")],
    "VP": [("MD", "will may"), ("VB", "see find cross leave")],
    "PP": [("IN", "of in over")],
}


def letters(
    seed: int = 0, words: int = 60
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Words over 26 letters with 128 binary pixels per letter, in ten folds."""
    rng = np.random.default_rng(seed)
    bitmaps = rng.random((26, 128)) < 0.4
    texts = [rng.integers(0, 26, rng.integers(3, 8)) for _ in range(12)]
    Y = [texts[rng.integers(len(texts))] for _ in range(words)]
    X = [(bitmaps[y] ^ (rng.random((len(y), 128)) < 0.15)).astype(np.float64) for y in Y]
    return X, Y, np.arange(words) % 10


def digits(seed: int = 0, examples: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Ten classes of 256 intensities in [-1, 1]."""
    rng = np.random.default_rng(seed)
    prototypes = rng.uniform(-1, 1, (10, 256))
    y = rng.permutation(np.arange(examples) % 10)
    X = np.clip(prototypes[y] + rng.normal(0, 1.0, (examples, 256)), -1, 1)
    return X, y


def sentences(seed: int = 0, count: int = 40) -> tuple[list[Sentence], list[list[str]]]:
    """Sentences of noun, verb and prepositional phrases with IOB2 tags."""
    rng = np.random.default_rng(seed)
    texts: list[Sentence] = []
    labels: list[list[str]] = []
    for _ in range(count):
        words, tags, chunk_tags = [], [], []
        for kind in ["NP", "VP", *rng.choice(["NP", "PP"], rng.integers(1, 4))]:
            # Dropping leading words gives phrases of different lengths.
            parts = _PHRASES[kind][rng.integers(len(_PHRASES[kind])) :]
            for number, (tag, lexicon) in enumerate(parts):
                words.append(str(rng.choice(lexicon.split())))
                tags.append(tag)
                chunk_tags.append(("I-" if number else "B-") + kind)
        texts.append(([*words, "."], [*tags, "."]))
        labels.append([*chunk_tags, "O"])
    return texts, labels


def trees(seed: int = 0, count: int = 40) -> list[ParseTree]:
    """Trees of a small grammar of English."""
    return random_treebank(count, random_state=seed)[1]
