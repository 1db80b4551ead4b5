"""Quote untrusted text in messages and on terminals: escape control characters and cut long text.

Labels, feature names, lines and file names may come from anybody. A message quotes them with ``short``. An
error about a file is a ``ForeignError``, whose message is printable and bounded.
"""

from __future__ import annotations

import re
from typing import Any

LONGEST_NUMBER = 2**53  # messages give only the number of bits of a larger whole number
MOST_QUOTED = 80  # largest number of characters in a quote
MOST_SAID = 2000  # largest number of characters in a message; a path may take most of them
# Control characters (C0 without tab and line feed, DEL, C1), marks that reorder a line, line separators other
# than line feeds, and surrogates, which no encoding can write.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escape_character(found: re.Match[str]) -> str:
    """The escape of one character, as Python writes it."""
    return found[0].encode("unicode_escape").decode("ascii")


def printable(text: str) -> str:
    r"""The text with escapes such as ``\x1b`` for characters that a terminal obeys."""
    return UNSAFE.sub(escape_character, text)


def on_one_line(text: str) -> str:
    """The printable text, with line feeds and tabs escaped as well."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def shortened(text: str, most: int = MOST_SAID) -> str:
    """Return the text; replace the middle of a long text by its length."""
    if len(text) <= most:
        return text
    said = f" ... ({len(text)} characters) ... "
    half = (most - len(said)) // 2
    return f"{text[:half]}{said}{text[-half:]}"


def short(value: Any) -> str:
    """Quote a value in a message; a long representation is cut and followed by its length."""
    if isinstance(value, int) and abs(value) > LONGEST_NUMBER:
        return f"a whole number of {value.bit_length()} bits"
    if isinstance(value, str | bytes):
        kind = "characters" if isinstance(value, str) else "bytes"
        whole = len(value) <= MOST_QUOTED
        return repr(value) if whole else f"{value[: MOST_QUOTED - 3]!r}... ({len(value)} {kind})"
    many = isinstance(value, list | tuple) and len(value) > MOST_QUOTED
    text = repr(value[:MOST_QUOTED] if many else value)
    if many:
        return f"{text[: MOST_QUOTED - 3]}... ({len(value)} items)"
    return (
        text
        if len(text) <= MOST_QUOTED
        else f"{text[: MOST_QUOTED - 3]}... ({len(text)} characters)"
    )


class ForeignError(ValueError):
    """An error about an untrusted file or text; its message is printable and bounded."""

    def __init__(self, said: object = ""):
        super().__init__(shortened(printable(str(said))))
