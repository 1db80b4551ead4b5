"""What is said of a token of text by its columns: the word, then what else is known of it, such as a tag.

words    columns at -2..2, pairs of words around the token, pairs and triples of the other columns; of the
         word lower case, prefixes and suffixes of one to four letters, shape (Aa00-) and kinds (Aa0-, the
         shape without repetitions); and a bias
window   columns at -1..1, and a bias

or a template of CRF++ or wapiti, as text: see ``data.patterns``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

from maxmargin.data.patterns import template_of

REACH = 2
PADDING = "<pad>"
AROUND = [(place,) for place in range(-REACH, REACH + 1)]
WORD_PAIRS = [(-1, 0), (0, 1)]
TAG_PAIRS = [(-2, -1), (-1, 0), (0, 1), (1, 2)]
TAG_TRIPLES = [(-2, -1, 0), (-1, 0, 1), (0, 1, 2)]
AFFIX = 4  # letters of an affix, at most


def describe_columns(rows: Sequence[Sequence[str]], templates: str = "words") -> Any:
    """The attributes of every token of a sentence; ``rows`` are the columns of each.

    templates : "words", "window", or the text of a template of CRF++ or wapiti; where that has features of
        edges, they come beside those of tokens, a pair for ``Chain(edges=True)``
    """
    return TEMPLATES[templates](rows) if templates in TEMPLATES else template_of(templates)(rows)


def window(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Columns of the token before, of the token itself and of the one after it."""
    described = []
    for t in range(len(rows)):
        names = ["bias"]
        for place in (-1, 0, 1):
            if 0 <= t + place < len(rows):
                names += [f"{j}[{place}]={v}" for j, v in enumerate(rows[t + place])]
            else:
                names.append(f"end[{place}]")
        described.append(names)
    return described


def words(rows: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Columns around each token, runs of them, and the spelling of the word."""
    columns = list(zip(*rows, strict=True))
    runs = [
        (f"{j}[{','.join(map(str, run))}]", [PADDING] * REACH + [*column] + [PADDING] * REACH, run)
        for j, column in enumerate(columns)
        for run in AROUND + (TAG_PAIRS + TAG_TRIPLES if j else WORD_PAIRS)
    ]
    described = []
    for t, word in enumerate(columns[0], REACH):
        item: dict[str, Any] = {"bias": 1.0}
        for name, column, run in runs:
            item[name] = "|".join([column[t + place] for place in run])
        described.append(item | spelling(word))
    return described


@lru_cache(2**16)
def spelling(word: str) -> dict[str, Any]:
    """What the letters of a word tell."""
    lower, form = word.lower(), letter_shape(word)
    lengths = range(1, min(AFFIX, len(lower)) + 1)
    return {
        "lower": lower,
        "prefix": tuple(lower[:k] for k in lengths),
        "suffix": tuple(lower[-k:] for k in lengths),
        "shape": form,
        "kinds": "".join(kind for kind, _ in groupby(form)),
    }


def letter_shape(word: str) -> str:
    """Digits as 0, capitals as A, other letters as a."""
    return "".join(
        "0" if c.isdigit() else "A" if c.isupper() else "a" if c.isalpha() else c for c in word
    )


TEMPLATES: dict[str, Callable[[Sequence[Sequence[str]]], list[Any]]] = {
    "words": words,
    "window": window,
}
