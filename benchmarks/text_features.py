"""Attributes of tokens for chunking, and their encoding as CSR matrices.

A token is described by strings such as "w-1=the" (the word to its left) or "t0=NN" (its own tag).
Positions beyond the ends of a sentence carry the symbol PADDING.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
from scipy import sparse

PADDING = "<pad>"
REACH = 2
WINDOW = range(-REACH, REACH + 1)
BIGRAMS: list[tuple[int, ...]] = [(-2, -1), (-1, 0), (0, 1), (1, 2)]
TRIGRAMS: list[tuple[int, ...]] = [(-2, -1, 0), (-1, 0, 1), (0, 1, 2)]
AFFIX_LENGTHS = (1, 2, 3, 4)

Sentence = tuple[list[str], list[str]]  # words, tags
_DIGIT, _UPPER, _LOWER = re.compile("[0-9]"), re.compile("[A-Z]"), re.compile("[a-z]")


def window_attributes(sentence: Sentence) -> list[list[str]]:
    """Word and tag at -2..2 and a bias: 11 attributes for every token."""
    words, tags = (_padded(column) for column in sentence)
    return [
        [f"w{offset}={words[position + offset]}" for offset in WINDOW]
        + [f"t{offset}={tags[position + offset]}" for offset in WINDOW]
        + ["bias"]
        for position in range(REACH, len(words) - REACH)
    ]


def rich_attributes(sentence: Sentence) -> list[list[str]]:
    """The window, word and tag bigrams, tag trigrams, affixes and shape of the word."""
    words, tags = (_padded(column) for column in sentence)
    tokens = window_attributes(sentence)
    for position, attributes in enumerate(tokens, start=REACH):
        attributes += _n_grams("w", words, position, BIGRAMS)
        attributes += _n_grams("t", tags, position, BIGRAMS + TRIGRAMS)
        attributes += _spelling(words[position])
    return tokens


def _padded(column: list[str]) -> list[str]:
    return [PADDING] * REACH + column + [PADDING] * REACH


def _n_grams(
    name: str, column: list[str], position: int, spans: Iterable[tuple[int, ...]]
) -> list[str]:
    return [
        f"{name}{span[0]}..{span[-1]}=" + "|".join(column[position + offset] for offset in span)
        for span in spans
    ]


def _spelling(word: str) -> list[str]:
    lower = word.lower()
    lengths = [length for length in AFFIX_LENGTHS if length <= len(lower)]
    shape = _LOWER.sub("a", _UPPER.sub("A", _DIGIT.sub("0", word)))
    prefixes = [f"prefix={lower[:length]}" for length in lengths]
    suffixes = [f"suffix={lower[-length:]}" for length in lengths]
    return [*prefixes, *suffixes, f"shape={shape}"]


class Vocabulary:
    """Numbers for the attributes of the training sentences, in order of first appearance."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.numbers)

    def encode(
        self, sequences: Iterable[Sequence[Sequence[str]]], dtype: type, grow: bool
    ) -> list[sparse.csr_matrix]:
        """Return one CSR matrix per sequence; unknown attributes are numbered (`grow`) or dropped."""
        numbers = self.numbers
        rows: list[list[int]] = []
        lengths = []
        for tokens in sequences:
            lengths.append(len(tokens))
            for attributes in tokens:
                if grow:
                    known = [numbers.setdefault(name, len(numbers)) for name in attributes]
                else:
                    known = [numbers[name] for name in attributes if name in numbers]
                rows.append(sorted(known))
        return _split_rows(rows, lengths, len(numbers), dtype)


def _split_rows(
    rows: list[list[int]], lengths: list[int], width: int, dtype: type
) -> list[sparse.csr_matrix]:
    starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    indices = np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=starts[-1])
    ends = np.cumsum(lengths)
    return [
        _rows_as_matrix(indices, starts[end - length : end + 1], width, dtype)
        for length, end in zip(lengths, ends, strict=True)
    ]


def _rows_as_matrix(
    indices: np.ndarray, starts: np.ndarray, width: int, dtype: type
) -> sparse.csr_matrix:
    own = indices[starts[0] : starts[-1]].copy()
    pointers = (starts - starts[0]).astype(np.int32)
    matrix = sparse.csr_matrix(
        (np.ones(len(own), dtype), own, pointers), shape=(len(starts) - 1, width)
    )
    matrix.has_sorted_indices = True
    matrix.has_canonical_format = True
    return matrix


def iterate_attributes(sentences: Iterable[Sentence], rich: bool) -> Iterator[list[list[str]]]:
    describe = rich_attributes if rich else window_attributes
    return (describe(sentence) for sentence in sentences)
