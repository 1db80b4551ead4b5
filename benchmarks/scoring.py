"""Test scores: share of wrong nodes, and F1 of chunks under IOB2 tags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Chunk = tuple[int, int, str]  # first token, one past the last token, type


def node_error(truth: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Share of nodes predicted wrongly; for flat outputs, of examples."""
    wrong = total = 0
    for expected, got in zip(truth, predicted, strict=True):
        # A str is a flat label here, never a sequence of characters.
        flat = isinstance(expected, str) or not hasattr(expected, "__len__")
        pairs = [(expected, got)] if flat else list(zip(expected, got, strict=True))
        wrong += sum(first != second for first, second in pairs)
        total += len(pairs)
    return float(wrong / total)


def chunks(tags: Sequence[str]) -> Iterator[Chunk]:
    """Chunks of one sentence. As in conlleval, an I tag that continues nothing opens a chunk."""
    start, kind = 0, ""
    for position, tag in enumerate([*tags, "O"]):
        prefix, _, own = str(tag).partition("-")
        if kind and (prefix != "I" or own != kind):
            yield start, position, kind
            kind = ""
        if prefix in ("B", "I") and not kind:
            start, kind = position, own


def chunk_f1(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> float:
    """2 * correct / (true + predicted chunks); a chunk is right if extent and type are."""
    correct = total = 0
    for expected, got in zip(truth, predicted, strict=True):
        right, found = set(chunks(expected)), set(chunks(got))
        correct += len(right & found)
        total += len(right) + len(found)
    return 2.0 * correct / total if total else 1.0
