"""Typing by ear: 2,000 characters share 100 syllables, and only the neighbours distinguish them.

The exact argmax follows only the transitions that training has touched, instead of all
2,000 x 2,000 transitions at every position. You need not set anything for that.

Run: python examples/large_alphabet.py
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

import maxmargin as mm
from maxmargin import models

CHARACTERS, SYLLABLES = 2000, 100


def texts(n: int, rng: np.random.Generator, words: list[np.ndarray]) -> list[np.ndarray]:
    """Return n texts of three words from a dictionary, in which frequent words come first."""
    ranks = np.minimum(rng.zipf(1.3, size=(n, 3)) - 1, len(words) - 1)
    return [np.concatenate([words[rank] for rank in row]) for row in ranks]


def typed(text: np.ndarray) -> sparse.csr_matrix:
    """Return one indicator row per character, which names its syllable."""
    ones = np.ones(len(text), dtype=np.float32)
    starts = np.arange(len(text) + 1)
    return sparse.csr_matrix((ones, text % SYLLABLES, starts), shape=(len(text), SYLLABLES))


def main() -> None:
    rng = np.random.default_rng(0)
    words = [rng.integers(CHARACTERS, size=rng.integers(2, 5)) for _ in range(1500)]
    train, test = texts(1500, rng, words), texts(300, rng, words)
    X, X_test = [typed(text) for text in train], [typed(text) for text in test]

    svm = mm.StructuralSVM(models.Chain(classes=range(CHARACTERS)), C=1.0, tol=0.05, random_state=0)
    svm.fit(X, train)
    print(svm.certificate_)

    transitions = svm.model_.unpack(svm.coef_)["transitions"]
    share = np.count_nonzero(transitions) / transitions.size
    print(f"transitions with a weight: {100 * share:.2f} % of {transitions.size:,}")
    print(f"characters right in texts that were not seen: {svm.score(X_test, test):.3f}")


if __name__ == "__main__":
    main()
