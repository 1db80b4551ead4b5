"""The cost of searches against the number of labels, each beside an exhaustive search.

The exact argmax of a chain either follows the stored transitions or is full Viterbi. The search for
the
best pair of labels of a bigram factor of GDMM uses ordered weights, or looks at all pairs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.datasets import Dataset
from benchmarks.papers.gdmm.tasks import frequent_pinyin, stand_in
from benchmarks.timing import best_of
from maxmargin import models, solvers
from maxmargin.problem import Problem

Row = dict[str, Any]
SIZES = (100, 200, 400, 800, 1600, 3000, 4500)
FULL_WORK = 2e9  # most transitions that full Viterbi may look at in one measurement


def cost_of_domains(small: bool, most: int = 20_000) -> list[Row]:
    """Return one row per number of labels, at the weights after three passes of dual ascent."""
    rows = []
    for labels in (20, 60) if small else SIZES:
        data, classes = stand_in("small", labels, 40), None
        if not small:
            data, classes = frequent_pinyin(labels, most)
        rows.append(cost_of(data, classes, C=0.1))
        print(rows[-1], flush=True)
    return rows


def searching(data: Any, many: bool) -> Any:
    """Return exact answers for chains, which follow stored transitions or run full Viterbi."""
    data.many = many
    return data.exact("margin")


def cost_of(data: Dataset, classes: list[str] | None, C: float) -> Row:
    """Measure microseconds per position of a whole pass, and of full Viterbi on the first sequences."""
    model = models.Chain(classes=classes)
    model.initialize(data.X_train, data.Y_train)
    examples = model.bind(data.X_train, data.Y_train)
    problem = Problem(examples, C=C)
    solver, rng = solvers.SDA(), np.random.default_rng(0)
    state = solver.start(problem, 1e-3, rng)
    passes = [timed(lambda: solver.step(problem, state)) for _ in range(3)]
    w, labels = state.weights(), len(model.classes_)
    positions = int(examples.rows.offsets[-1])
    large = searching(examples.core, many=True)
    found = best_of(3, lambda: large.slacks(w, 1, False)[0])
    few = first_sequences(examples.rows.offsets, FULL_WORK / labels**2)
    part = model.bind(data.X_train[:few], data.Y_train[:few])
    full = searching(part.core, many=False)
    every = best_of(3, lambda: full.slacks(w, 1, False)[0])
    some = best_of(3, lambda: searching(part.core, many=True).slacks(w, 1, False)[0])
    np.testing.assert_allclose(some.result, every.result, atol=1e-8)
    count = int(part.rows.offsets[-1])
    transitions = model.unpack(w)["transitions"]
    followed, whole = 1e6 * found.cpu / positions, 1e6 * every.cpu / count
    ordered, exhaustive = cost_of_pairs(problem, FULL_WORK / labels**2)
    return {
        "labels": labels,
        "sequences": len(data.Y_train),
        "positions": positions,
        "stored_transitions": int(np.count_nonzero(transitions)),
        "pass_s": passes[-1],
        "followed_us": followed,
        "full_us": whole,
        "full_positions": count,
        "ratio": whole / followed,
        "ordered_us": ordered,
        "exhaustive_us": exhaustive,
        "pair_ratio": exhaustive / ordered,
    }


def cost_of_pairs(problem: Problem, most: float) -> tuple[float, float]:
    """Measure microseconds per search for the best pair of labels, after three passes of GDMM.

    Return the time of the ordered search and of the exhaustive search.
    """
    solver = solvers.Gdmm()
    state = solver.start(problem, 1e-3, np.random.default_rng(0))
    for _ in range(3):
        solver.step(problem, state)
    offsets = problem.examples.rows.offsets  # type: ignore[attr-defined]
    blocks = np.arange(len(offsets) - 1)
    few = blocks[: first_sequences(offsets, most)]
    ordered = best_of(3, lambda: state.core.seek(blocks, state.rho, False))
    some, every = (
        best_of(3, lambda way=way: state.core.seek(few, state.rho, way)) for way in (False, True)
    )
    np.testing.assert_allclose(some.result, every.result, rtol=1e-9, atol=1e-8)
    pairs = [int(offsets[len(part)]) - len(part) for part in (blocks, few)]
    return 1e6 * ordered.cpu / max(1, pairs[0]), 1e6 * every.cpu / max(1, pairs[1])


def timed(call: Callable[[], Any]) -> float:
    """Return the CPU seconds of a call."""
    began = time.process_time()
    call()
    return time.process_time() - began


def first_sequences(offsets: np.ndarray, positions: float) -> int:
    """Return how many sequences have at most this many positions; at least one."""
    return max(1, int(np.searchsorted(offsets, positions, side="right")) - 1)
