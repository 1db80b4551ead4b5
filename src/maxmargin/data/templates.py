"""What is said of a token of text by its columns: the word, then what else is known of it, such as a tag.

words    columns at -2..2, pairs of words around the token, pairs and triples of the other columns; of the
         word lower case, prefixes and suffixes of one to four letters, shape (Aa00-) and kinds (Aa0-, the
         shape without repetitions); and a bias
window   columns at -1..1, and a bias

or a template of CRF++, as text, of which each line is one attribute of every token:

    U01:%x[-1,0]/%x[0,1]   that text, with a column of a token in place of each %x[row,column]; rows count
                           from the token, columns from 0; before the sentence there are _B-1, _B-2, ...,
                           and after it _B+1, _B+2, ...
    B01:%x[0,1]            the same, an attribute of the edge from the token before
    B                      the transition from the label before, which a chain has anyway
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

REACH = 2
PADDING = "<pad>"
AROUND = [(place,) for place in range(-REACH, REACH + 1)]
WORD_PAIRS = [(-1, 0), (0, 1)]
PAIRS = [(-2, -1), (-1, 0), (0, 1), (1, 2)]
TRIPLES = [(-2, -1, 0), (-1, 0, 1), (0, 1, 2)]
AFFIX = 4  # letters of an affix, at most
MACRO = re.compile(r"%x\[\s*([+-]?\d{1,3})\s*,\s*(\d{1,3})\s*\]")


def describe_columns(rows: Sequence[Sequence[str]], templates: str = "words") -> Any:
    """The attributes of every token of a sentence; ``rows`` are the columns of each.

    templates : "words", "window", or the text of a template of CRF++; where that has features of edges,
        they come beside those of tokens, a pair for ``Chain(edges=True)``
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
        for run in AROUND + (PAIRS + TRIPLES if j else WORD_PAIRS)
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
    lower, form = word.lower(), shape(word)
    lengths = range(1, min(AFFIX, len(lower)) + 1)
    return {
        "lower": lower,
        "prefix": tuple(lower[:k] for k in lengths),
        "suffix": tuple(lower[-k:] for k in lengths),
        "shape": form,
        "kinds": "".join(kind for kind, _ in groupby(form)),
    }


def shape(word: str) -> str:
    """Digits as 0, capitals as A, other letters as a."""
    return "".join(
        "0" if c.isdigit() else "A" if c.isupper() else "a" if c.isalpha() else c for c in word
    )


@dataclass(frozen=True)
class Line:
    """A line of a template: texts, and the places (row, column) of what stands between them."""

    texts: tuple[str, ...]
    places: tuple[tuple[int, int], ...]

    def expand(self, rows: Sequence[Sequence[str]], t: int) -> str:
        """The attribute at position t."""
        found = [self.texts[0]]
        for (row, column), text in zip(self.places, self.texts[1:], strict=True):
            found += [cell_at(rows, t + row, column), text]
        return "".join(found)


def cell_at(rows: Sequence[Sequence[str]], t: int, column: int) -> str:
    """A column of a token, or the name of a place outside of the sentence."""
    if 0 <= t < len(rows):
        return rows[t][column]
    return f"_B{t}" if t < 0 else f"_B+{t - len(rows) + 1}"


@dataclass(frozen=True)
class Template:
    """The lines for tokens, those for edges, and how many columns they need."""

    tokens: tuple[Line, ...]
    edges: tuple[Line, ...]
    width: int

    def __call__(self, rows: Sequence[Sequence[str]]) -> Any:
        if len(rows[0]) < self.width:
            raise ValueError(
                f"templates: the template has column {self.width - 1}, but besides the label there are "
                f"only {len(rows[0])}, from 0 on"
            )
        nodes = [[line.expand(rows, t) for line in self.tokens] for t in range(len(rows))]
        if not self.edges:
            return nodes
        return nodes, [[line.expand(rows, t) for line in self.edges] for t in range(1, len(rows))]


@lru_cache(16)
def template_of(text: str) -> Template:
    """The template of a text; refuses what CRF++ would not read, with the line."""
    kinds: dict[str, list[Line]] = {"U": [], "B": []}
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line[0] == "#":
            continue
        if line[0] not in kinds or "%" in MACRO.sub("", line):
            raise ValueError(
                'templates must be "words", "window", or lines such as U00:%x[-1,0] and B; '
                f"got {line[:60]!r} in line {number}"
            )
        places = tuple((int(row), int(column)) for row, column in MACRO.findall(line))
        if places or line[0] == "U":
            kinds[line[0]].append(Line(tuple(MACRO.sub("\0", line).split("\0")), places))
    if not kinds["U"]:
        raise ValueError("templates: a template has at least one line that begins with U")
    columns = (column for lines in kinds.values() for own in lines for _, column in own.places)
    return Template(tuple(kinds["U"]), tuple(kinds["B"]), 1 + max(columns, default=-1))


TEMPLATES: dict[str, Callable[[Sequence[Sequence[str]]], list[Any]]] = {
    "words": words,
    "window": window,
}
