"""True and predicted outputs side by side: checked, and flattened to their nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from maxmargin.data.arrays import count_of


def is_label(y: Any) -> bool:
    """Whether an output is one label, and not a sequence of them; a string is one."""
    return (
        isinstance(y, str | bytes) or not hasattr(y, "__len__") or getattr(y, "shape", None) == ()
    )


def pairs(Y: Any, P: Any) -> Iterator[tuple[int, Any, Any]]:
    """Example by example the true and the predicted output."""
    n, found = count_of(Y, "Y"), count_of(P, "P")
    if n != found:
        raise ValueError(f"Y has {n} true outputs, but P has {found} predicted ones")
    yield from zip(range(n), Y, P, strict=True)


def sequence_pairs(Y: Any, P: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    """Pairs of sequences of labels, of equal lengths; a single label is a sequence of one."""
    for i, true, predicted in pairs(Y, P):
        y, p = output_labels(true, f"Y[{i}]"), output_labels(predicted, f"P[{i}]")
        if len(y) != len(p):
            raise ValueError(f"Y[{i}] has {len(y)} labels, but P[{i}] has {len(p)}")
        yield y, p


def output_labels(y: Any, name: str) -> list[Any]:
    """The labels of one output, as Python's own values."""
    if isinstance(y, set | frozenset | dict):
        raise ValueError(f"{name} is a {type(y).__name__}, not a sequence of labels")
    if is_label(y):
        return [y.item() if isinstance(y, np.generic | np.ndarray) else y]
    return y.tolist() if isinstance(y, np.ndarray) else list(y)


def flat(Y: Any, P: Any) -> tuple[list[Any], list[Any]]:
    """All labels of all sequences, true and predicted, one after the other."""
    true: list[Any] = []
    predicted: list[Any] = []
    for y, p in sequence_pairs(Y, P):
        true += y
        predicted += p
    return true, predicted
