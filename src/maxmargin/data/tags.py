"""Read and write tags of spans, such as B-PER I-PER O, in the usual schemes.

    scheme           a span of one word     of three words       if two of a type touch
    iob1             I                      I I I                the second begins with B
    iob2             B                      B I I
    ioe1             I                      I I I                the first ends with E
    ioe2             E                      I I E
    iobes (bioes)    S                      B I E
    bilou            U                      B I L

Reading repairs invalid sequences of tags by the rules of conlleval. A tag that is not outside begins a span
if it is B or S, if it follows E, S or an outside tag, or if its type differs from the previous tag. The span
ends before the next span or the next outside tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from maxmargin.data.arrays import among
from maxmargin.io.quoting import short

Span = tuple[str, int, int]  # type, first position, position after the last


@dataclass(frozen=True)
class Scheme:
    """The letters of a scheme and their roles: B begins, I is inside, E ends, S is a whole span."""

    roles: dict[str, str]
    touching: bool = False  # whether B and E only mark spans that touch one of the same type

    def write(self, length: int, before: bool, after: bool) -> list[str]:
        """The letters of a span; `before` and `after` tell whether it touches a span of its type there."""
        letters = {role: letter for letter, role in self.roles.items()}
        if length == 1 and "S" in letters:
            return [letters["S"]]
        written = [letters["I"]] * length
        if "B" in letters and (before or not self.touching):
            written[0] = letters["B"]
        if "E" in letters and (after or not self.touching):
            written[-1] = letters["E"]
        return written


EVERY = Scheme({"B": "B", "I": "I", "E": "E", "S": "S"})
SCHEMES = {
    "iob1": Scheme({"B": "B", "I": "I"}, touching=True),
    "iob2": Scheme({"B": "B", "I": "I"}),
    "ioe1": Scheme({"I": "I", "E": "E"}, touching=True),
    "ioe2": Scheme({"I": "I", "E": "E"}),
    "iobes": EVERY,
    "bioes": EVERY,
    "bilou": Scheme({"B": "B", "I": "I", "L": "E", "U": "S"}),
}


def scheme_of(name: str) -> Scheme:
    """Return the scheme with this name; refuse an unknown name."""
    among(*SCHEMES).check("scheme", name)
    return SCHEMES[name]


def read_tag(tag: Any, scheme: str, outside: str = "O") -> tuple[str, str]:
    """Return the role of a tag (B, I, E, S or O) and its type: 'U-PER' in bilou is ('S', 'PER')."""
    roles = scheme_of(scheme).roles
    if tag == outside:
        return "O", ""
    letter, _, kind = tag.partition("-") if isinstance(tag, str) else ("", "", "")
    if letter not in roles:
        raise ValueError(
            f"the tag {short(tag)} does not belong to the scheme {short(scheme)}, whose tags are "
            f"{short(outside)} and {', '.join(letter + '-...' for letter in roles)}"
        )
    return roles[letter], str(kind)


SCHEMES_OF_TAGS = ("iob2", "ioe2", "iobes", "bilou")


def scheme_of_tags(
    tags: Iterable[Any], outside: str = "O", names: Sequence[str] = SCHEMES_OF_TAGS
) -> str | None:
    """Return the first named scheme that has all letters of the tags, or None."""
    kinds = set(tags) - {outside}
    for name in names if kinds else ():
        with suppress(ValueError):
            for tag in kinds:
                read_tag(tag, name, outside)
            return name
    return None


def spans_of(
    tags: Sequence[Any], scheme: str = "iob2", outside: str = "O", strict: bool = False
) -> list[Span]:
    """Return the spans (type, start, end) of a sequence of tags, in their order.

    strict: return only spans whose tags are exactly the tags that the scheme writes, without repairs.
    """
    known = {tag: read_tag(tag, scheme, outside) for tag in set(tags)}
    found: list[Span] = []
    last, kind, start = "O", "", 0
    for t, tag in enumerate([*tags, outside]):
        role, own = known.get(tag, ("O", ""))
        begins = role in "BS" or last in "OES" or own != kind
        if last != "O" and (role == "O" or begins):
            found.append((kind, start, t))
        if role != "O" and begins:
            start = t
        last, kind = role, own
    if not strict:
        return found
    written = tags_of(found, len(tags), scheme, outside)
    return [span for span in found if written[span[1] : span[2]] == list(tags[span[1] : span[2]])]


def tags_of(
    spans: Sequence[Span], length: int, scheme: str = "iob2", outside: str = "O"
) -> list[str]:
    """Return the tags of a sequence of this length with these spans, which must not overlap."""
    style, tags = scheme_of(scheme), [outside] * length
    ordered = sorted(spans, key=lambda span: span[1])
    ends = {(kind, end) for kind, _, end in ordered}
    begins = {(kind, start) for kind, start, _ in ordered}
    free = 0
    for kind, start, end in ordered:
        if not free <= start < end <= length:
            raise ValueError(
                f"the span {(kind, start, end)} is empty, overlaps the one before, or is not within "
                f"{length} positions"
            )
        letters = style.write(end - start, (kind, start) in ends, (kind, end) in begins)
        tags[start:end] = [f"{letter}-{kind}" if kind else letter for letter in letters]
        free = end
    return tags
