"""How close are exact passes to the limits of the machine? A part of `benchmarks.race.evidence`.

A pass computes the slack of every example at a fixed w, with one thread and in double precision.
Certificates consist of such passes, and they are the larger part of an oracle pass. The operations
and
bytes of a pass follow from the data:

    operations   2 z K for the scores, z the non-zero inputs and K the labels; 2 K^2 a position of a chain
    bytes        an index and a value of each non-zero input, and the K weights that it takes

Weights in a cache are read from there, so a pass may use more bytes per second than memory
delivers. Then
the share of the bandwidth shows that memory is not the bottleneck. Bandwidth is measured by a copy
of arrays
larger than the caches, counting reads and writes. The peak is measured by a product of matrices
that fit
into the caches, on one thread. Both are measured in the same run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from benchmarks import datasets
from benchmarks.race import ours
from benchmarks.timing import best_of

Row = dict[str, Any]
DATA = ("usps", "ocr", "conll2000")
COPIED = 1 << 27  # bytes; must exceed the caches
INSIDE = 256  # rows of matrices that fit into the caches


def bandwidth(repeats: int, size: int) -> float:
    """Return the bytes per second of a copy, read and written."""
    source, target = np.ones(size // 8), np.zeros(size // 8)
    return 2 * source.nbytes / best_of(max(repeats, 3), lambda: np.copyto(target, source)).cpu


def peak(repeats: int) -> float:
    """Return the operations per second of a product of matrices."""
    a, times = np.ones((INSIDE, INSIDE)), 20

    def products() -> None:
        for _ in range(times):
            a @ a

    return 2 * times * INSIDE**3 / best_of(max(repeats, 3), products).cpu


def work(data: datasets.Dataset, labels: int) -> tuple[float, float]:
    """Return the operations and bytes of a pass."""
    items = [data.X_train] if data.kind == "multiclass" else data.X_train
    inputs = sum(x.nnz if sparse.issparse(x) else np.count_nonzero(x) for x in items)
    value = items[0].dtype.itemsize
    positions = 0 if data.kind == "multiclass" else sum(len(y) for y in data.Y_train)
    return 2 * inputs * labels + 2 * positions * labels**2, inputs * (4 + value + 8 * labels)


def rows(small: bool, repeats: int) -> list[Row]:
    """Return the rows of the machine, then a row for each data set."""
    with threadpool_limits(1):
        copied, most = bandwidth(repeats, COPIED // (64 if small else 1)), peak(repeats)
        found: list[Row] = [{"pass": "a copy", "GB/s": copied / 1e9}]
        found.append({"pass": "a product of matrices", "Gop/s": most / 1e9})
        for name in DATA:
            data = datasets.load(name, small=small)
            model = ours.model_of(data)
            model.initialize(data.X_train, data.Y_train)
            examples = model.bind(data.X_train, data.Y_train)
            w = np.random.default_rng(0).normal(size=model.size_joint_feature)
            cpu = best_of(repeats, lambda e=examples, w=w: e.slacks(w)).cpu
            operations, moved = work(data, len(model.classes_))
            row = {
                "pass": name,
                "ms": 1e3 * cpu,
                "GB/s": moved / cpu / 1e9,
                "Gop/s": operations / cpu / 1e9,
            }
            found.append(
                row | {"of copy": moved / cpu / copied, "of peak": operations / cpu / most}
            )
    return found
