"""Templates of CRF++ and patterns of wapiti: texts of which each line is an attribute of every token.

    U01:%x[-1,0]/%x[0,1]   that text, with a column of a token in place of each %x[row,column]; rows count
                           from the token, columns from 0; before the sentence there are _B-1, _B-2, ...,
                           and after it _B+1, _B+2, ...
    B01:%x[0,1]            the same, an attribute of the edge from the token before
    B                      the transition from the label before, which a chain has anyway

It is one of wapiti's where a line begins with u, b or *, or holds what CRF++ does not have:

    *:%x[0,0]              of the token and of the edge; the first letter becomes small
    %t[0,0,"^\\u"]          true or false: whether the expression matches the column of that token
    %m[0,0,"^.?.?"]        what it matches, first of all; nothing where it does not
    %X, %M                 the same in small letters
    %x[@1,0], %x[@-1,0]    rows counted from the first token, or from the last one
    %x[*2,0]               the row is in column 2, counted from the token

From # on a line is a comment, and outside of the sentence there are _x-1 to _x-4 and _x-#, _x+1 to _x+4 and
_x+#. Expressions know . for any character, \\a letters, \\d digits, \\w both, \\l small and \\u capital
letters, \\p punctuation, \\s space, and capital letters for all but these; ^ at the beginning and $ at the
end; * for any number of the character before, as few as will do, and ? for one or none. Letters are those
of Unicode.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from maxmargin.io.quoting import short

Rows = Sequence[Sequence[str]]
MACRO = re.compile(
    r"%([xXtTmM])\[\s*([@*]?)\s*([+-]?\d{1,3})\s*,\s*(\d{1,3})\s*"
    r'(?:,\s*"((?:\\.|[^"\\])*)"\s*)?\]'
)
CLASSES: dict[str, Callable[[str], bool]] = {
    "a": str.isalpha,
    "d": str.isdigit,
    "l": str.islower,
    "p": lambda c: c in string.punctuation or unicodedata.category(c)[0] in "PS",
    "s": str.isspace,
    "u": str.isupper,
    "w": str.isalnum,
}
FARTHEST = 4  # of wapiti's names for places outside of a sentence


class Expression:
    """A regular expression of wapiti; it is matched in time proportional to its length and the text's."""

    def __init__(self, text: str):
        self.start: bool = text.startswith("^")
        self.end: bool = re.search(r"(?<!\\)(?:\\\\)*\$\Z", text) is not None
        self.items: list[tuple[Callable[[str], bool], str]] = []  # a character, and how often
        position, stop = int(self.start), len(text) - self.end
        while position < stop:
            width = 2 if text[position] == "\\" else 1
            char = text[position : position + width]
            if char in ("*", "?", "\\") or position + width > stop:
                raise ValueError(f"{short(char)} has nothing to belong to in {short(text)}")
            position += width
            often = text[position : position + 1] if position < stop else ""
            often = often if often in ("*", "?") else ""
            position += len(often)
            self.items.append((test_of(char), often))

    def search(self, text: str) -> str | None:
        """What it matches first; None where it does not match."""
        seen: set[tuple[int, int]] = set()  # from where there is no match
        for first in range(1 if self.start else len(text) + 1):
            last = self._match(text, first, seen)
            if last is not None:
                return text[first:last]
        return None

    def _match(self, text: str, first: int, seen: set[tuple[int, int]]) -> int | None:
        stack = [(0, first)]
        while stack:
            k, j = stack.pop()
            if (k, j) in seen:
                continue
            seen.add((k, j))
            if k == len(self.items):
                if not self.end or j == len(text):
                    return j
                continue
            fits, often = j < len(text) and self.items[k][0](text[j]), self.items[k][1]
            # What is tried first comes last.
            if often == "*":
                stack += [(k, j + 1)] * fits + [(k + 1, j)]
            else:
                stack += [(k + 1, j)] * (often == "?") + [(k + 1, j + 1)] * fits
        return None


def test_of(char: str) -> Callable[[str], bool]:
    """Whether a character is meant."""
    if char == ".":
        return lambda c: True
    own = CLASSES.get(char[-1].lower()) if char[0] == "\\" else None
    if own is None:
        return char[-1].__eq__
    return own if char[-1].islower() else lambda c: not own(c)


@dataclass(frozen=True)
class Macro:
    """What stands for a column of a token."""

    row: int
    column: int
    counted: str = ""  # rows from the token; "@": from the ends of the sentence; "*": by a column
    lower: bool = False
    tests: bool = False
    expression: Expression | None = None

    def value(self, rows: Rows, t: int, outside: Callable[[int, int], str]) -> str:
        """Its text at position t."""
        at = t + self.row
        if self.counted == "@":
            at = self.row + len(rows) if self.row < 0 else self.row - 1
        elif self.counted == "*":
            at = t + leading_number(rows[t][self.row])
        inside = 0 <= at < len(rows)
        found = rows[at][self.column] if inside else outside(at, len(rows))
        if self.expression is not None:
            matched = match(self.expression, found)
            found = str(matched is not None).lower() if self.tests else matched or ""
        return found.lower() if self.lower else found


def leading_number(text: str) -> int:
    """The whole number that a text begins with; 0 where there is none."""
    found = re.match(r"\s*[+-]?\d{1,9}", text)
    return int(found[0]) if found else 0


@lru_cache(2**16)
def match(expression: Expression, text: str) -> str | None:
    return expression.search(text)


def outside_crf(t: int, length: int) -> str:
    """CRF++'s name of a place outside of the sentence."""
    return f"_B{t}" if t < 0 else f"_B+{t - length + 1}"


def outside_wapiti(t: int, length: int) -> str:
    """That of wapiti."""
    far = -t if t < 0 else t - length + 1
    return f"_x{'-' if t < 0 else '+'}{far if far <= FARTHEST else '#'}"


@dataclass(frozen=True)
class Line:
    """A line of a template: texts, and what stands between them."""

    texts: tuple[str, ...]
    macros: tuple[Macro, ...]

    def expand(self, rows: Rows, t: int, outside: Callable[[int, int], str]) -> str:
        """The attribute at position t."""
        found = [self.texts[0]]
        for macro, text in zip(self.macros, self.texts[1:], strict=True):
            found += [macro.value(rows, t, outside), text]
        return "".join(found)


@dataclass(frozen=True)
class Template:
    """The lines for tokens, those for edges, how many columns they need, and names for what is outside."""

    tokens: tuple[Line, ...]
    edges: tuple[Line, ...]
    width: int
    outside: Callable[[int, int], str]

    def __call__(self, rows: Rows) -> Any:
        if len(rows[0]) < self.width:
            raise ValueError(
                f"templates: the template has column {self.width - 1}, but besides the label there are "
                f"only {len(rows[0])}, from 0 on"
            )
        nodes = [
            [line.expand(rows, t, self.outside) for line in self.tokens] for t in range(len(rows))
        ]
        if not self.edges:
            return nodes
        return nodes, [
            [line.expand(rows, t, self.outside) for line in self.edges] for t in range(1, len(rows))
        ]


@lru_cache(16)
def template_of(text: str) -> Template:
    """The template of a text; refuses what neither CRF++ nor wapiti would read, with the line."""
    numbered = [(number, raw.strip()) for number, raw in enumerate(text.splitlines(), 1)]
    wapiti = any(is_wapiti(line) for _, line in numbered)
    tokens, edges = list[Line](), list[Line]()
    for number, raw in numbered:
        line = raw.partition("#")[0].strip() if wapiti else raw
        if not line or line[0] == "#":
            continue
        kind = line[0].upper()
        own = line_of(kind.lower() + line[1:] if wapiti else line, number)
        if kind in "U*":
            tokens.append(own)
        if kind in "B*" and own.macros:
            edges.append(own)
    if not tokens:
        raise ValueError("templates: a template has at least one line that begins with U, u or *")
    columns = [
        max(macro.column, macro.row if macro.counted == "*" else 0)
        for line in (*tokens, *edges)
        for macro in line.macros
    ]
    outside = outside_wapiti if wapiti else outside_crf
    return Template(tuple(tokens), tuple(edges), 1 + max(columns, default=-1), outside)


def is_wapiti(line: str) -> bool:
    """Whether a line is in a form that CRF++ does not have."""
    if not line or line[0] == "#":
        return False
    forms = (found[1] != "x" or found[2] or found[5] is not None for found in MACRO.finditer(line))
    return line[0] in "ub*" or any(forms)


def line_of(line: str, number: int) -> Line:
    """One line; refuses what is none."""
    if line[0] not in "UBub*" or "%" in MACRO.sub("", line):
        raise ValueError(
            'templates must be "words", "window", or lines such as U00:%x[-1,0], u:%m[0,0,"^.?.?"] and B; '
            f"got {short(line)} in line {number}"
        )
    texts, macros, done = list[str](), list[Macro](), 0
    for found in MACRO.finditer(line):
        texts.append(line[done : found.start()])
        done = found.end()
        try:
            macros.append(macro_of(found))
        except ValueError as error:
            raise ValueError(f"templates: {error}, in line {number}") from None
    return Line((*texts, line[done:]), tuple(macros))


def macro_of(found: re.Match[str]) -> Macro:
    """What a command says."""
    name, counted, row, column, expression = found.groups()
    tested = name.lower() in "tm"
    if tested != (expression is not None):
        raise ValueError(f"{short(found[0])}: %t and %m have an expression in quotes, %x has none")
    if counted == "*" and int(row) < 0:
        raise ValueError(f"{short(found[0])}: columns count from 0")
    return Macro(
        int(row),
        int(column),
        counted,
        name.isupper(),
        name.lower() == "t",
        Expression(expression) if tested else None,
    )
