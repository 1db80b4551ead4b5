"""Simulate how many rounds this design and other schemes need to reach a gap, in one process.

A scheme defines the problem of a part and how its proposal is used. All schemes have the same driver and the
same workers:

    design              the best mixture of all points, with a proximal term (``maxmargin.cluster``)
    adding              every part moves to its proposal; its problem is safe with s = K (CoCoA+)
    adding-proximal     the same with the proximal term
    averaging           every part moves 1/K of the way to its proposal; s = 1 (CoCoA)
    one-slack           cutting planes with a proximal term, for any K: each cut takes a pass over all data
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
    """A data set with its model, and `strength`, which is lambda = 1 / (C n)."""

    name: str
    strength: float

    def examples(self, small: bool) -> tuple[Any, Any, Any]:
        """Return the model, X and Y."""
        if self.name == "usps":
            data = datasets.usps(small=small)
            return models.Multiclass(), data.X_train, data.Y_train
        data = datasets.ocr_letters(small=small)
        return models.Chain(loss="mean-hamming"), data.X_train, data.Y_train

    def svm(self, model: Any, n: int, tol: float, **options: Any) -> Any:
        """Return the estimator."""
        C = 1 / (self.strength * n)
        return mm.StructuralSVM(model, C=C, tol=tol, max_passes=1e6, random_state=0, **options)


def parts_of(X: Any, Y: Any, n_parts: int) -> list[tuple[Any, Any]]:
    """Divide the examples into random parts."""
    groups = np.array_split(np.random.default_rng(0).permutation(len(Y)), n_parts)
    if hasattr(X, "shape"):
        return [(X[group], Y[group]) for group in groups]
    return [([X[i] for i in group], [Y[i] for i in group]) for group in groups]


class Stepwise(Bundle):
    """A bundle without the best mixture: each part moves a share of the way to its proposal."""

    share: float

    def solve(self, parts: list[int], k: float, z: np.ndarray, tolerance: float) -> None:
        for part in parts:
            newest = int(self.numbers[part].max())  # of the cut, made just after the proposal
            self.beta[part] = 0.0
            self.beta[part, self.numbers[part] == newest - 1] = self.share
            self.beta[part, 0] += 1 - self.share


class Averaged(ClusterRounds):
    """Rounds in which each part solves only its own problem (s = 1)."""

    @property
    def stretch(self) -> float:
        return 1 / (1 + self.k)


class Timing(Callback):
    """Records the rounds to each gap; ends the fit after `most` rounds or when all gaps are reached."""

    def __init__(self, most: int, gaps: Sequence[float]):
        self.most, self.reached = most, dict.fromkeys(gaps, 0)

    def on_step(self, info: Any) -> bool:
        gap = min(info.gap, info.estimate)
        for asked in self.reached:
            if gap <= asked and not self.reached[asked]:
                self.reached[asked] = info.step
        return info.step >= self.most or all(self.reached.values())


def changed(rounds: ClusterRounds, scheme: str) -> None:
    """Change the rounds of this design to another scheme, in place."""
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
    """Return the rounds of a scheme to the gaps, and bytes, memory and seconds of a round."""
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
    """Return the number of rounds to each gap, or 0 if the gap was not reached."""
    return {f"rounds_{gap:g}": reached for gap, reached in watch.reached.items()}


def bytes_of(bundle: Bundle) -> int:
    """Return the bytes of the driver's points and of their inner products."""
    arrays = [
        array
        for vector in bundle.vectors
        for array in ([vector] if isinstance(vector, np.ndarray) else [vector.data, vector.indices])
    ]
    return sum(array.nbytes for array in [*arrays, bundle.gram])


def timed(bundle: Bundle) -> list[float]:
    """Return a list that receives the CPU seconds of each mixture from now on."""
    seconds: list[float] = []
    solve = bundle.solve

    def spy(*args: Any) -> None:
        began = time.process_time()
        solve(*args)
        seconds.append(time.process_time() - began)

    bundle.solve = spy  # type: ignore[method-assign]
    return seconds
