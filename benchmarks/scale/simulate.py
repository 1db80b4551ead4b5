"""Rounds to a gap, of this design and of others, with workers that are simulated in one process.

A scheme says what a part's problem is and what becomes of its answer. All run on the same driver, the same
workers and the same proposals:

    design              the best mixture of all points, with a proximal term (``maxmargin.cluster``)
    adding              every part takes its proposal; s = K is the safe problem (CoCoA+)
    adding-proximal     the same with the proximal term
    averaging           every part goes 1/K of the way to its proposal; s = 1 (CoCoA)
    one-slack           cutting planes with a proximal term, any K: a pass over all data for each cut
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import maxmargin as mm
from benchmarks import datasets
from benchmarks.scale.in_process import InProcess, prepare
from maxmargin import models, solvers
from maxmargin.callbacks import Callback
from maxmargin.cluster.bundle import Bundle
from maxmargin.cluster.driver import ClusterRounds, play

GAPS = (0.01, 0.001)
SCHEMES = ("design", "adding", "adding-proximal", "averaging", "one-slack")


@dataclass(frozen=True)
class Task:
    """Examples, their model, and lambda = 1 / (C n)."""

    name: str
    strength: float

    def examples(self, small: bool) -> tuple[Any, Any, Any]:
        """Model, X and Y."""
        if self.name == "usps":
            data = datasets.usps(small=small)
            return models.Multiclass(), data.X_train, data.Y_train
        data = datasets.ocr_letters(small=small)
        return models.Chain(loss="mean-hamming"), data.X_train, data.Y_train

    def svm(self, model: Any, n: int, tol: float, **options: Any) -> Any:
        """The estimator."""
        C = 1 / (self.strength * n)
        return mm.StructuralSVM(model, C=C, tol=tol, max_passes=1e6, random_state=0, **options)


def parts_of(X: Any, Y: Any, n_parts: int) -> list[tuple[Any, Any]]:
    """The examples in random parts."""
    groups = np.array_split(np.random.default_rng(0).permutation(len(Y)), n_parts)
    if hasattr(X, "shape"):
        return [(X[group], Y[group]) for group in groups]
    return [([X[i] for i in group], [Y[i] for i in group]) for group in groups]


class Stepwise(Bundle):
    """A bundle that does not look for the best mixture: each part goes a share of the way to its proposal."""

    share: float

    def solve(self, parts: list[int], k: float, z: np.ndarray, tolerance: float) -> None:
        for part in parts:
            newest = int(self.numbers[part].max())  # of the cut; the proposal came before it
            self.beta[part] = 0.0
            self.beta[part, self.numbers[part] == newest - 1] = self.share
            self.beta[part, 0] += 1 - self.share


class Averaged(ClusterRounds):
    """Rounds whose parts look at their own problem alone."""

    @property
    def stretch(self) -> float:
        return 1 / (1 + self.k)


class Timing(Callback):
    """Ends after some rounds; rounds to each gap, and the CPU time of the driver in each."""

    def __init__(self, most: int, gaps: Sequence[float]):
        self.most, self.reached = most, dict.fromkeys(gaps, 0)

    def on_step(self, info: Any) -> bool:
        gap = min(info.gap, info.estimate)
        for asked in self.reached:
            if gap <= asked and not self.reached[asked]:
                self.reached[asked] = info.step
        return info.step >= self.most or all(self.reached.values())


def changed(rounds: ClusterRounds, scheme: str) -> None:
    """The rounds of another scheme."""
    if scheme == "design":
        return
    rounds.bundle.__class__ = Stepwise
    rounds.bundle.share = 1 / len(rounds.pool) if scheme == "averaging" else 1.0  # type: ignore
    if scheme != "adding-proximal":
        rounds.k = 0.0
    if scheme == "averaging":
        rounds.__class__ = Averaged


def simulate(
    task: Task, n_parts: int, scheme: str = "design", most: int = 100, **options: Any
) -> dict[str, Any]:
    """Rounds of a scheme to the gaps; bytes, memory and seconds of a round."""
    small, gaps = options.pop("small", False), options.pop("gaps", GAPS)
    model, X, Y = task.examples(small)
    watch = Timing(most, gaps)
    row = {"task": task.name, "lambda": task.strength, "scheme": scheme, "parts": n_parts}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if scheme == "one-slack":
            solver = solvers.OneSlack(proximal=True, cache=0)
            task.svm(model, len(Y), min(gaps) / 2, solver=solver).fit(X, Y, callbacks=[watch])
            return row | named(watch)
        svm = task.svm(model, len(Y), min(gaps) / 2)
        pool = InProcess(parts_of(X, Y, n_parts))
        try:
            rounds = prepare(svm, pool, callbacks=[watch], **options)
            changed(rounds, scheme)
            mixing = timed(rounds.bundle)
            began = time.process_time()
            play(rounds)
        finally:
            pool.close()
    n = rounds.round
    return (
        row
        | named(watch)
        | {
            "weights": len(rounds.w),
            "examples": len(Y),
            "bytes_to_part": pool.to_workers / n / n_parts,
            "bytes_from_part": pool.from_workers / n / n_parts,
            "bundle_bytes": bytes_of(rounds.bundle),
            "mixing_seconds": sum(mixing) / n,
            "round_seconds": (time.process_time() - began) / n,
        }
    )


def named(watch: Timing) -> dict[str, Any]:
    """Rounds to each gap; 0 where it was not reached."""
    return {f"rounds_{gap:g}": reached for gap, reached in watch.reached.items()}


def bytes_of(bundle: Bundle) -> int:
    """Bytes of the points that the driver keeps and of their inner products."""
    arrays = [
        array
        for vector in bundle.vectors
        for array in ([vector] if isinstance(vector, np.ndarray) else [vector.data, vector.indices])
    ]
    return sum(array.nbytes for array in [*arrays, bundle.gram])


def timed(bundle: Bundle) -> list[float]:
    """CPU seconds of each mixture from now on."""
    seconds: list[float] = []
    solve = bundle.solve

    def spy(*args: Any) -> None:
        began = time.process_time()
        solve(*args)
        seconds.append(time.process_time() - began)

    bundle.solve = spy  # type: ignore[method-assign]
    return seconds
