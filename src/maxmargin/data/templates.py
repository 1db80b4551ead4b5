"""What is said of a token of text by its columns: the word, then what else is known of it, such as a tag.

words    columns at -2..2, pairs of neighbouring words and tags, three tags in a row, prefixes and
         suffixes of one to four letters, the shape of the word (Aa00-), and a bias
window   columns at -1..1, and a bias
"""

from __future__ import annotations

from collections.abc import Sequence

REACH = 2
PADDING = "<pad>"
PAIRS = ((-2, -1), (-1, 0), (0, 1), (1, 2))
TRIPLES = ((-2, -1, 0), (-1, 0, 1), (0, 1, 2))
AFFIX = 4  # letters of an affix, at most


def describe_columns(rows: Sequence[Sequence[str]], templates: str = "words") -> list[list[str]]:
    """The attributes of every token of a sentence; ``rows`` are the columns of each."""
    if templates not in TEMPLATES:
        raise ValueError(f"templates must be one of {sorted(TEMPLATES)}, got {templates!r}")
    return TEMPLATES[templates](rows)


def padded(rows: Sequence[Sequence[str]], column: int) -> list[str]:
    """A column with what stands beyond the ends of the sentence."""
    return [PADDING] * REACH + [row[column] for row in rows] + [PADDING] * REACH


def window(rows: Sequence[Sequence[str]], reach: int = 1) -> list[list[str]]:
    """Columns around each token."""
    columns = [padded(rows, j) for j in range(len(rows[0]))]
    places = range(-reach, reach + 1)
    return [
        [f"{j}[{p}]={column[t + p]}" for j, column in enumerate(columns) for p in places] + ["bias"]
        for t in range(REACH, len(rows) + REACH)
    ]


def words(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Columns around each token, runs of them, and the spelling of the word."""
    found = window(rows, REACH)
    columns = [padded(rows, j) for j in range(len(rows[0]))]
    for t, names in enumerate(found, REACH):
        for j, column in enumerate(columns):
            for run in PAIRS if j == 0 else PAIRS + TRIPLES:
                names.append(f"{j}{run}={'|'.join(column[t + p] for p in run)}")
        names += spelling(columns[0][t])
    return found


def spelling(word: str) -> list[str]:
    """Prefixes, suffixes and shape."""
    lower = word.lower()
    lengths = range(1, min(AFFIX, len(lower)) + 1)
    return [
        *(f"prefix={lower[:k]}" for k in lengths),
        *(f"suffix={lower[-k:]}" for k in lengths),
        f"shape={shape(word)}",
    ]


def shape(word: str) -> str:
    """Digits as 0, capitals as A, other letters as a."""
    return "".join(
        "0" if c.isdigit() else "A" if c.isupper() else "a" if c.isalpha() else c for c in word
    )


TEMPLATES = {"words": words, "window": window}
