"""What a stream keeps: examples at hand with their multipliers, and the plane of those that are gone.

When the examples at hand were optimised, each is one of

    kept      example and multipliers stay in memory, and move on
    dropped   it found no room, and its multipliers are all on its true output: it gives nothing to w nor to
              the dual, and goes
    frozen    it found no room, but has other multipliers: its part of w and of the dual stays, fixed; it goes

The next examples are optimised together with the kept ones, above the plane of the frozen ones (see
``problem.past``), so D(a) bounds the optimum of all examples. Frozen multipliers can be written to a file:
an example that is met again then takes its own up again, and its part leaves the plane.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from maxmargin.data.scratch import Blobs, PlaneFile, ScratchArray, ranges
from maxmargin.data.source import RUN
from maxmargin.data.store import Store
from maxmargin.problem import Past, Support
from maxmargin.problem.streamed import StreamSupport, plane_of
from maxmargin.solvers.dual_state import DualState

KEPT = 0.7  # of the budget, at most, for what is kept: the rest is for new examples and new outputs
TWICE = 2  # planes are held once more while they are taken over
NOTHING = np.empty(0, np.int64)


def no_support(outputs: Any = None) -> Support:
    """No multipliers."""
    return Support(NOTHING, np.empty(0), [] if outputs is None else outputs, partial=True)


@dataclass(frozen=True)
class Memory:
    """What is known after some examples; replaced as a whole, so that an interrupt leaves no half of it."""

    past: Past
    w: np.ndarray
    dual: float = 0.0
    index: np.ndarray = field(default_factory=lambda: NOTHING)  # of the kept examples in the stream
    weights: np.ndarray = field(default_factory=lambda: np.empty(0))
    gaps: np.ndarray = field(default_factory=lambda: np.empty(0))  # g_i as last seen
    support: Support = field(default_factory=no_support)  # numbered as the examples are kept
    sizes: np.ndarray = field(
        default_factory=lambda: NOTHING
    )  # entries of the output of each plane
    n_seen: int = 0
    n_frozen: int = 0
    seen: float = 0.0  # mass of all examples seen
    records: tuple[np.ndarray, np.ndarray] | None = (
        None  # frozen, where the file does not know it yet
    )

    @property
    def n_gone(self) -> int:
        """Examples that are dropped or frozen."""
        return self.n_seen - len(self.index)


def empty_memory(dimension: int) -> Memory:
    """Before the first example."""
    nothing = np.zeros(dimension)
    return Memory(Past(0.0, nothing, 0.0), nothing)


def joined_support(first: Support, second: Support, shift: int) -> Support:
    """Multipliers of examples, and of others that are numbered after them."""
    if not len(first) or not len(second):
        some = second if len(second) else first
        return replace(some, blocks=some.blocks + (shift if len(second) else 0), partial=True)
    outputs = (
        [*first.outputs, *second.outputs]
        if isinstance(first.outputs, list)
        else np.concatenate([first.outputs, second.outputs])
    )
    return Support(
        np.concatenate([first.blocks, second.blocks + shift]),
        np.concatenate([first.multipliers, second.multipliers]),
        outputs,
        partial=True,
    )


def support_of(dual: DualState, blocks: np.ndarray) -> Support:
    """The multipliers of some blocks, which are numbered anew, in their order."""
    found, multipliers, outputs = dual.core.support_of(blocks)
    if dual.problem.examples.core is None:
        planes = map(dual.core.plane, outputs.tolist())
        outputs = [(offset, (index, value)) for offset, index, value in planes]
    place = np.full(dual.problem.n_blocks, -1)
    place[blocks] = np.arange(len(blocks))
    return Support(place[found], multipliers, outputs, partial=True)


@dataclass(frozen=True)
class Sorting:
    """Which of the examples at hand stay, and which go."""

    kept: np.ndarray
    frozen: np.ndarray
    gone: np.ndarray  # frozen or dropped


def sort_out(dual: DualState, sizes: np.ndarray, most_bytes: float) -> Sorting:
    """Keep as many of the examples as fit, the most useful first.

    Useful are those whose multipliers are on several outputs: they lie on the margin and will move. Then
    those with all of their mass on a wrong one, then the others; among these those with the larger share
    of the gap, and the newer.
    """
    bytes_each, spread, moved = dual.core.usage()
    number = np.arange(len(moved))
    gaps = dual.known_violations()
    order = np.lexsort((number, gaps, moved, spread > 1))[::-1]
    fits = np.cumsum((sizes + TWICE * bytes_each)[order]) <= most_bytes
    kept, gone = np.sort(order[fits]), np.sort(order[~fits])
    return Sorting(kept, gone[moved[gone] > 0], gone)


def remember(
    memory: Memory, dual: DualState, index: np.ndarray, sizes: np.ndarray, most_bytes: float
) -> tuple[Memory, Sorting, Support]:
    """What to keep of the examples at hand; also the multipliers of those that are frozen."""
    problem: Any = dual.problem
    past = problem.past
    w = q = dual.weights()
    if dual.core.proximity > 0:  # it ends here: in the next window w is the weighted sum alone
        dual.core.recenter(0.0, 0.0)
        q = dual.weights()
    value = past.offset + dual.core.offset() - problem.regularizer.conjugate(q)
    sorting = sort_out(dual, sizes, most_bytes)
    frozen = support_of(dual, sorting.frozen)
    if len(sorting.frozen):
        whole = replace(frozen, blocks=sorting.frozen[frozen.blocks])
        b, v = plane_of(problem, whole)
        past = replace(past, offset=past.offset + b, vector=past.vector - v)
    gone = float(problem.mass[sorting.gone].sum())
    kept = support_of(dual, sorting.kept)
    later = replace(
        memory,
        past=replace(past, mass=past.mass + gone),
        w=w,
        dual=value,
        index=index[sorting.kept],
        weights=problem.mass[sorting.kept] / problem.C,
        gaps=dual.known_violations()[sorting.kept],
        support=kept,
        sizes=problem.examples.output_sizes(sorting.kept[kept.blocks]),
        n_frozen=memory.n_frozen + len(sorting.frozen),
    )
    return later, sorting, frozen


# Multipliers in a file


def blobs_of(outputs: Any, sizes: np.ndarray) -> Blobs:
    """Outputs as bytes; ``sizes`` are the entries of each."""
    if not isinstance(outputs, list):
        return Blobs(np.ascontiguousarray(outputs).view(np.uint8), sizes * outputs.itemsize)
    texts = [
        np.float64(offset).tobytes() + np.asarray(index, np.int32).tobytes() + value.tobytes()
        for offset, (index, value) in outputs
    ]
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    return Blobs(np.frombuffer(b"".join(texts), np.uint8), lengths)


def outputs_of(blobs: Blobs, dtype: Any) -> Any:
    """Outputs from bytes; dtype is None for those of a model written in Python."""
    if dtype is not None:
        return blobs.data.view(dtype)
    ends = np.cumsum(blobs.lengths)
    return [
        plane(blobs.data[b - n : b].tobytes()) for b, n in zip(ends, blobs.lengths, strict=True)
    ]


def plane(text: bytes) -> tuple[float, tuple[np.ndarray, np.ndarray]]:
    """Offset, indices and values of a plane."""
    n = (len(text) - 8) // 12
    index = np.frombuffer(text, np.int32, n, 8)
    return float(np.frombuffer(text, np.float64, 1)[0]), (
        index,
        np.frombuffer(text[8 + 4 * n :], np.float64),
    )


def support_in(found: tuple[np.ndarray, np.ndarray, Blobs], dtype: Any) -> Support:
    """Multipliers as a file has them, of examples that are numbered from zero."""
    counts, multipliers, blobs = found
    if not len(multipliers):
        return no_support(None if dtype is None else np.empty(0, dtype))
    return Support(
        np.repeat(np.arange(len(counts)), counts),
        multipliers,
        outputs_of(blobs, dtype),
        partial=True,
    )


def file_frozen(
    file: PlaneFile, met: np.ndarray, frozen: np.ndarray, support: Support, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Write the frozen multipliers; returns the records of all examples concerned, which are not yet valid.

    ``met`` had records before; those that are not frozen again have none from now on.
    """
    counts = np.bincount(support.blocks, minlength=len(frozen))
    places = file.write(counts, support.multipliers, blobs_of(support.outputs, sizes))
    without = np.setdiff1d(met, frozen, assume_unique=True)
    empty = np.zeros(len(without), dtype=file.PLACE)
    return np.concatenate([without, frozen]), np.concatenate([empty, places])


def whole_support(file: PlaneFile, memory: Memory, n: int, dtype: Any) -> StreamSupport:
    """All multipliers in the order of the examples: of the frozen ones, and of those in memory.

    They are as long as the data may be: the arrays are in unnamed files.
    """
    own = PlaneFile(file.folder)
    counts = np.bincount(memory.support.blocks, minlength=len(memory.index))
    blobs = blobs_of(memory.support.outputs, memory.sizes)
    own.take(memory.index, own.write(counts, memory.support.multipliers, blobs))
    blocks, multipliers = (ScratchArray(kind, file.folder) for kind in (np.int64, np.float64))
    outputs: Any = [] if dtype is None else ScratchArray(dtype, file.folder)
    for first in range(0, n, RUN):
        some = np.arange(first, min(first + RUN, n))
        found = support_in(merged(file.read(some), own.read(some)), dtype)
        blocks.append(found.blocks + first)
        multipliers.append(found.multipliers)
        outputs.extend(found.outputs) if dtype is None else outputs.append(found.outputs)
    outputs = outputs if dtype is None else outputs.array()
    return StreamSupport(
        blocks.array(), multipliers.array(), outputs, partial=True, dual=memory.dual
    )


def merged(
    first: tuple[np.ndarray, np.ndarray, Blobs], second: tuple[np.ndarray, np.ndarray, Blobs]
) -> tuple[np.ndarray, np.ndarray, Blobs]:
    """Records of the same examples from two files; no example has planes in both."""
    owner = np.concatenate([np.repeat(np.arange(len(c)), c) for c, _, _ in (first, second)])
    order = np.argsort(owner, kind="stable")
    multipliers = np.concatenate([first[1], second[1]])[order]
    lengths = np.concatenate([first[2].lengths, second[2].lengths])
    data = np.concatenate([first[2].data, second[2].data])
    firsts = np.cumsum(lengths) - lengths
    blobs = Blobs(data[ranges(firsts[order], lengths[order])], lengths[order])
    return first[0] + second[0], multipliers, blobs


def forgotten(store: Store, kept: np.ndarray) -> None:
    """Leave out of the store what is not kept."""
    mask = np.zeros(len(store), dtype=bool)
    mask[kept] = True
    store.keep(mask)
