"""What models over graphs read from a model file: each value is looked at before it is used."""

from __future__ import annotations

from typing import Any

from maxmargin.data.labels import LabelSet
from maxmargin.io.fields import (
    FieldError,
    choice,
    count,
    entries_of,
    field_of,
    is_whole,
    list_of,
    short,
)
from maxmargin.models.factors import METHODS


def saved_types(state: dict[str, Any], most: int) -> tuple[LabelSet, list[LabelSet]]:
    """Types of nodes and the labels of each, from a file."""
    types = LabelSet.from_state(entries_of(field_of(state, "types"), "types"))
    sets = [LabelSet.from_state(entries_of(own, "labels")) for own in list_of(state, "labels")]
    if not len(types) or len(sets) != len(types):
        raise FieldError(f"{len(types)} types of nodes, but {len(sets)} sets of labels")
    if not all(2 <= len(own) <= most for own in sets):
        raise FieldError(f"a type of nodes must have from 2 to {most} labels")
    return types, sets


def saved_pairs(
    state: dict[str, Any], types: int, kinds: tuple[str, ...]
) -> list[tuple[int, int, str]]:
    """Which types edges join, and the kind of their weights, from a file."""
    found = []
    for entry in list_of(state, "pairwise"):
        if not isinstance(entry, list) or len(entry) != 3:
            raise FieldError(f"pairwise must hold [type, type, kind], got {short(entry)}")
        a, b, kind = entry
        if not is_whole(a, 0, types - 1) or not is_whole(b, a, types - 1) or kind not in kinds:
            raise FieldError(f"pairwise must hold [type, type, kind], got {short(entry)}")
        found.append((a, b, kind))
    if len({pair[:2] for pair in found}) != len(found) or (types == 1 and not found):
        raise FieldError("pairwise must name each pair of types once")
    return found


def saved_method(state: dict[str, Any]) -> tuple[str, int]:
    """The method of the argmax and its budget, from a file."""
    return choice(state, "inference", tuple(METHODS)), count(state, "iterations", 1, 2**31 - 1)
