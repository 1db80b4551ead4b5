"""Base class of models over graphs, and functions that read them from a model file."""

from __future__ import annotations

from typing import Any, ClassVar

from maxmargin.data.arrays import Checks, Rule, among, is_whole
from maxmargin.data.labels import LabelSet
from maxmargin.io.fields import (
    MOST_FEATURES,
    FieldError,
    choice,
    count,
    entries_of,
    field_of,
    is_whole_in,
    list_of,
)
from maxmargin.io.quoting import short
from maxmargin.models.factors import METHODS
from maxmargin.models.graph_factors import PAIRWISE_KINDS
from maxmargin.models.protocol import Model
from maxmargin.models.registry import FACTORS, SUMS, UNKNOWN_LABELS


class GraphModel(Model):
    """Base of models over graphs: the method of the argmax, and its limit on iterations."""

    powers: ClassVar[tuple[str, ...]] = (FACTORS, SUMS, UNKNOWN_LABELS)
    stored: ClassVar[dict[str, str]] = {"loss": "task_loss", "inference": "inference_method"}
    checks: ClassVar[Checks] = Model.checks | {
        "inference": among(*METHODS),
        "iterations": Rule(
            "a whole number of at least 1 and below 2^31", lambda x: is_whole(x, 1) and x < 2**31
        ),
    }
    inference_method: str
    iterations: int

    @property
    def exact(self) -> bool:
        """Whether the argmax is exact for graphs such as the training graphs.

        If it is not exact, certificates use upper bounds.
        """
        forests = self.inference_method == "auto" and getattr(self, "forests_", False)
        return self.inference_method == "tree" or forests


def saved_types(state: dict[str, Any], most: int) -> tuple[LabelSet, list[LabelSet]]:
    """Read the types of nodes, and the labels of each, from a file."""
    types = LabelSet.from_state(entries_of(field_of(state, "types"), "types"))
    sets = [LabelSet.from_state(entries_of(own, "labels")) for own in list_of(state, "labels")]
    if not len(types) or len(sets) != len(types):
        raise FieldError(f"{len(types)} types of nodes, but {len(sets)} sets of labels")
    if not all(2 <= len(own) <= most for own in sets):
        raise FieldError(f"a type of nodes must have from 2 to {most} labels")
    return types, sets


def saved_widths(state: dict[str, Any], types: int) -> list[int]:
    """Read the number of features of each type of nodes from a file."""
    widths = list_of(state, "n_features")
    if len(widths) != types or not all(is_whole_in(d, 0, MOST_FEATURES) for d in widths):
        raise FieldError(f"n_features must be {types} whole numbers, got {short(widths)}")
    return widths


def saved_type_pairs(state: dict[str, Any], types: int) -> list[tuple[int, int, str]]:
    """Read the pairs of types that edges join, and the kind of their weights, from a file."""
    found = []
    for entry in list_of(state, "pairwise"):
        if not isinstance(entry, list) or len(entry) != 3:
            raise FieldError(f"pairwise must hold [type, type, kind], got {short(entry)}")
        a, b, kind = entry
        if (
            not is_whole_in(a, 0, types - 1)
            or not is_whole_in(b, a, types - 1)
            or kind not in PAIRWISE_KINDS
        ):
            raise FieldError(f"pairwise must hold [type, type, kind], got {short(entry)}")
        found.append((a, b, kind))
    if len({pair[:2] for pair in found}) != len(found) or (types == 1 and not found):
        raise FieldError("pairwise must name each pair of types once")
    return found


def saved_method(state: dict[str, Any]) -> tuple[str, int]:
    """Read the method of the argmax, and its limit on iterations, from a file."""
    return choice(state, "inference", tuple(METHODS)), count(state, "iterations", 1, 2**31 - 1)
