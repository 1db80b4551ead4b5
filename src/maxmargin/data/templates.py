"""Templates that describe tokens by attributes; the columns of a token are its word and, say, its tag.

words    columns at -2..2; pairs of words around the token; pairs and triples of the other columns; the
         word in lower case, its prefixes and suffixes of one to four letters, its shape (Aa00-) and its
         kinds (Aa0-, the shape without repetitions); and a bias
window   columns at -1..1, and a bias

A template may also be the text of a template of CRF++ or wapiti: see ``data.patterns``.
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
AFFIX = 4  # largest number of letters in a prefix or suffix


def describe_columns(rows: Sequence[Sequence[str]], templates: str = "words") -> Any:
    """Return the attributes of every token of a sentence; each row holds the columns of a token.

    templates : "words", "window", or the text of a template of CRF++ or wapiti. If that has features of
        edges, the result is a pair for ``Chain(edges=True)``: attributes of tokens, attributes of edges.
    """
    return TEMPLATES[templates](rows) if templates in TEMPLATES else template_of(templates)(rows)


def window(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Describe each token by its own columns and by the columns of its two neighbours."""
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
    """Describe each token by the columns around it, runs of these, and the spelling of the word."""
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
    """The attributes of a word that depend on its letters."""
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
    """Replace digits by 0, capitals by A and other letters by a."""
    return "".join(
        "0" if c.isdigit() else "A" if c.isupper() else "a" if c.isalpha() else c for c in word
    )


TEMPLATES: dict[str, Callable[[Sequence[Sequence[str]]], list[Any]]] = {
    "words": words,
    "window": window,
}
