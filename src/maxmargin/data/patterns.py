"""Templates of CRF++ and patterns of wapiti: each line of the text gives one attribute to every token.

    U01:%x[-1,0]/%x[0,1]   the line, with a cell in place of each %x[row,column]. Rows count from the
                           token, columns from 0. Rows outside the sentence are _B-1, _B-2, ... before
                           it and _B+1, _B+2, ... after it.
    B01:%x[0,1]            the same as an attribute of the edge from the previous token
    B                      the transition from the previous label, which a chain always has

A text counts as a pattern of wapiti if a line begins with u, b or *, or uses a form that CRF++ lacks:

    *:%x[0,0]              attribute of the token and of the edge
    %t[0,0,"^\\u"]          true or false: whether the expression matches the cell
    %m[0,0,"^.?.?"]        the first match of the expression in the cell; empty without a match
    %X, %T, %M             the same in lower case
    %x[@1,0], %x[@-1,0]    rows counted from the first token, or from the last one
    %x[*2,0]               column 2 of the token holds the row, counted from the token

In a pattern of wapiti # begins a comment, and the first letter of each line becomes small. Rows outside the
sentence are _x-1 to _x-4 and _x-# before it, and _x+1 to _x+4 and _x+# after it. Expressions have these
characters:

    .                      any character
    \\a \\d \\w               a letter, a digit, a letter or digit
    \\l \\u                  a small letter, a capital letter
    \\p \\s                  punctuation, space
    \\A \\D ...              any character outside that class
    ^ $                    the beginning, the end
    * ?                    any number of the previous character (the fewest that fit), one or none

Letters are letters of Unicode.
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
FARTHEST = 4  # wapiti numbers this many places outside a sentence, and names farther ones #


class Expression:
    """A regular expression of wapiti; matching takes time proportional to its length times the text's."""

    def __init__(self, text: str):
        self.start: bool = text.startswith("^")
        self.end: bool = re.search(r"(?<!\\)(?:\\\\)*\$\Z", text) is not None
        self.items: list[tuple[Callable[[str], bool], str]] = []  # test of a character, "*" or "?"
        position, stop = int(self.start), len(text) - self.end
        while position < stop:
            width = 2 if text[position] == "\\" else 1
            char = text[position : position + width]
            if char in ("*", "?", "\\") or position + width > stop:
                raise ValueError(
                    f"{short(char)} in {short(text)} needs a character before or after it"
                )
            position += width
            often = text[position : position + 1] if position < stop else ""
            often = often if often in ("*", "?") else ""
            position += len(often)
            self.items.append((test_of(char), often))

    def search(self, text: str) -> str | None:
        """Return the first match in a text; None without a match."""
        seen: set[tuple[int, int]] = set()  # (item, position) pairs that lead to no match
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
            # The last entry of the stack is tried first.
            if often == "*":
                stack += [(k, j + 1)] * fits + [(k + 1, j)]
            else:
                stack += [(k + 1, j)] * (often == "?") + [(k + 1, j + 1)] * fits
        return None


def test_of(char: str) -> Callable[[str], bool]:
    """Return the test for a character of an expression."""
    if char == ".":
        return lambda c: True
    own = CLASSES.get(char[-1].lower()) if char[0] == "\\" else None
    if own is None:
        return char[-1].__eq__
    return own if char[-1].islower() else lambda c: not own(c)


@dataclass(frozen=True)
class Macro:
    """A command such as %x[row,column], which stands for a cell."""

    row: int
    column: int
    counted: str = ""  # origin of rows: "" the token, "@" the ends, "*" a column
    lower: bool = False
    tests: bool = False
    expression: Expression | None = None

    def value(self, rows: Rows, t: int, outside: Callable[[int, int], str]) -> str:
        """Return the text of the command at position t."""
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
    """The whole number that a text begins with, or 0."""
    found = re.match(r"\s*[+-]?\d{1,9}", text)
    return int(found[0]) if found else 0


@lru_cache(2**16)
def match(expression: Expression, text: str) -> str | None:
    return expression.search(text)


def outside_crf(t: int, length: int) -> str:
    """CRF++'s name of a place outside the sentence."""
    return f"_B{t}" if t < 0 else f"_B+{t - length + 1}"


def outside_wapiti(t: int, length: int) -> str:
    """The name that wapiti gives to a place outside the sentence."""
    far = -t if t < 0 else t - length + 1
    return f"_x{'-' if t < 0 else '+'}{far if far <= FARTHEST else '#'}"


@dataclass(frozen=True)
class Line:
    """A line of a template: texts with a macro between each two of them."""

    texts: tuple[str, ...]
    macros: tuple[Macro, ...]

    def expand(self, rows: Rows, t: int, outside: Callable[[int, int], str]) -> str:
        """Return the attribute at position t."""
        found = [self.texts[0]]
        for macro, text in zip(self.macros, self.texts[1:], strict=True):
            found += [macro.value(rows, t, outside), text]
        return "".join(found)


@dataclass(frozen=True)
class Template:
    """Lines for tokens and for edges, the number of columns they need, and the names of outside rows."""

    tokens: tuple[Line, ...]
    edges: tuple[Line, ...]
    width: int
    outside: Callable[[int, int], str]

    def __call__(self, rows: Rows) -> Any:
        if len(rows[0]) < self.width:
            raise ValueError(
                f"templates: the template uses column {self.width - 1}, but besides the label "
                f"there are only {len(rows[0])} columns, numbered from 0"
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
    """Parse a template; refuse text that neither CRF++ nor wapiti would read, and name the line."""
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
    """Whether a line uses a form that CRF++ lacks."""
    if not line or line[0] == "#":
        return False
    forms = (found[1] != "x" or found[2] or found[5] is not None for found in MACRO.finditer(line))
    return line[0] in "ub*" or any(forms)


def line_of(line: str, number: int) -> Line:
    """Parse one line of a template; refuse an invalid one."""
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
    """Parse one command such as %x[0,1]."""
    name, counted, row, column, expression = found.groups()
    tested = name.lower() in "tm"
    if tested != (expression is not None):
        raise ValueError(
            f"{short(found[0])}: %t and %m need an expression in quotes, %x must not have one"
        )
    if counted == "*" and int(row) < 0:
        raise ValueError(f"{short(found[0])}: columns count from 0, so a column cannot be negative")
    return Macro(
        int(row),
        int(column),
        counted,
        name.isupper(),
        name.lower() == "t",
        Expression(expression) if tested else None,
    )
