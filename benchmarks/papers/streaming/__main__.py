"""python -m benchmarks.papers.streaming [--gigabytes 2] [--out DIR] [--small] [--parts memory
objective ...]

Online dual ascent with a cache (Ramanan, Algorithm 2) on data that stay on a disk.

  memory      shards of made-up rows, in an eighth of the size and in the whole size. A fresh
              process trains in one pass with a budget for the cache. The result is its peak of
              anonymous memory (RssAnon) above the value before the data were opened. Mapped
              pages of files do not count, since the system takes them back when it needs them.
  objective   P after one pass over shards, and after cyclic passes to tol, relative to the
              batch optimum.
  cyclic      CPU time of cyclic passes to tol with a small cache, relative to the default
              solver in memory.

Shards are written to a temporary folder and removed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.papers.cutting_plane.tasks import TASKS, Task, covertype
from benchmarks.papers.streaming.memory import PeakMemory
from benchmarks.timing import CpuLimit, write_csv
from maxmargin import StructuralSVM, data, models, solvers

Row = dict[str, Any]
FEATURES, CLASSES, CHUNK = 500, 5, 20_000
# Memory beside the cache, for any number of examples: code and buffers, and some vectors as long as
# w.
FIXED_BYTES, VECTORS = 48 * 2**20, 8
# C' and tol of the tasks; tol is a few thousandths of the mean loss at the optimum.
SETTINGS: dict[str, list[tuple[float, float]]] = {
    "covertype": [(1e3, 1e-3), (1e5, 1e-3)],
    "treebank-tags": [(50.0, 0.01), (500.0, 0.005), (5000.0, 0.001)],
    "brown-tags": [(500.0, 0.01), (5000.0, 0.003)],
}
SMALL = [(10.0, 0.002)]
KEEPS = ("outputs", "examples")
# Cyclic passes: C', tol, and caches in MiB that can hold the outputs, but not the features.
CYCLIC: dict[str, tuple[float, float, list[tuple[float, str]]]] = {
    "treebank-tags": (500.0, 0.01, [(16.0, "outputs"), (11.0, "outputs"), (16.0, "examples")]),
    "brown-tags": (500.0, 0.01, [(36.0, "outputs"), (26.0, "outputs")]),
}


def made_up(n: int, seed: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield chunks of rows with noisy labels."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(CLASSES, FEATURES)).astype(np.float32)
    for first in range(0, n, CHUNK):
        X = rng.normal(size=(min(CHUNK, n - first), FEATURES)).astype(np.float32)
        noise = rng.normal(size=(len(X), CLASSES)) * FEATURES**0.5
        yield X / FEATURES**0.5, (X @ W.T + noise).argmax(axis=1)


def memory(gigabytes: float, cache_bytes: int) -> list[Row]:
    """Train over shards of an eighth of this size and of this size, each in a fresh process."""
    rows = []
    for size in (gigabytes / 8, gigabytes):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(_memory(size, cache_bytes, Path(folder)))
            print(rows[-1], flush=True)
    return rows


def _memory(gigabytes: float, cache_bytes: int, folder: Path) -> Row:
    n = max(100, int(gigabytes * 2**30 / (4 * FEATURES)))
    began = time.perf_counter()
    data.write_shards(folder, made_up(n), kind="rows")
    writing = time.perf_counter() - began
    command = [sys.executable, "-m", "benchmarks.papers.streaming"]
    command += ["--child", str(folder), str(cache_bytes)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(run.stderr)
    allowed = cache_bytes + FIXED_BYTES + VECTORS * 8 * FEATURES * CLASSES
    row = {"examples": n, "gigabytes": gigabytes, "cache_bytes": cache_bytes, "write_s": writing}
    row |= json.loads(run.stdout.splitlines()[-1])
    return row | {"allowed_bytes": allowed, "within": row["peak_bytes"] <= allowed}


def child(folder: str, cache_bytes: int) -> Row:
    """Run one pass over shards, and record the peak memory."""
    with PeakMemory() as watch:
        opened = data.open_shards(folder, verify=False)
        solver = solvers.Streaming(cache_bytes=cache_bytes)
        svm = StructuralSVM(models.Multiclass(), C=1e-3, solver=solver, random_state=0)
        began = time.perf_counter()
        svm.fit(opened.X, opened.Y)
        seconds = time.perf_counter() - began
    c = svm.certificate_
    found = {"peak_bytes": watch.peak, "data_bytes": opened.n_bytes, "fit_s": seconds}
    return found | {"primal": c.primal, "dual": c.dual, "gap": c.gap, "status": c.status}


def objective(
    small: bool, tasks: Sequence[str], weights: Sequence[float], seconds: float
) -> list[Row]:
    """Run one pass and cyclic passes over shards, and compare with the batch optimum."""
    rows = []
    for name in tasks:
        task = whole_covertype() if name == "covertype" and not small else TASKS[name](small)
        with tempfile.TemporaryDirectory() as folder:
            data.write_shards(folder, task.X, task.Y)
            opened = data.open_shards(folder, verify=False)
            for weight, tol in SMALL if small else SETTINGS[name]:
                if weights and weight not in weights:
                    continue
                settings = {"C": weight / task.size, "tol": tol, "random_state": 0}
                batch = StructuralSVM(task.model(), **settings).fit(task.X, task.Y)
                for passes in (1, None):
                    svm = StructuralSVM(
                        task.model(),
                        solver=solvers.Streaming(passes=passes),
                        **settings,
                    )
                    svm.fit(opened.X, opened.Y, callbacks=[CpuLimit(seconds)])
                    rows.append(_compared(task, weight, passes, svm, batch))
                    print(rows[-1], flush=True)
    return rows


def cyclic(small: bool, kinds: Sequence[str], tasks: Sequence[str], seconds: float) -> list[Row]:
    """Run cyclic passes of taggers whose features do not fit into the cache.

    `kinds` lists what the cache keeps: outputs or whole examples.
    """
    return [row for name in tasks if name in CYCLIC for row in _cyclic(name, small, kinds, seconds)]


def _cyclic(name: str, small: bool, kinds: Sequence[str], seconds: float) -> list[Row]:
    task, (weight, tol, caches) = TASKS[name](small), CYCLIC[name]
    if small:
        (weight, tol), caches = SMALL[0], [(1.0, "examples")]
    settings = {"C": weight / task.size, "tol": tol, "random_state": 0}
    batch, whole = _timed(StructuralSVM(task.model(), **settings), task.X, task.Y, seconds)
    rows: list[Row] = [{"task": name, "cache_mib": "in memory", **whole}]
    print(rows[0], flush=True)
    with tempfile.TemporaryDirectory() as folder:
        data.write_shards(folder, task.X, task.Y)
        opened = data.open_shards(folder, verify=False)
        for mib, keeps in caches:
            if keeps not in kinds:
                continue
            solver = solvers.Streaming(passes=None, cache_bytes=int(mib * 2**20), keeps=keeps)
            svm = StructuralSVM(task.model(), solver=solver, **settings)
            _, row = _timed(svm, opened.X, opened.Y, seconds)
            above = row["primal"] / batch.certificate_.primal - 1
            ratio = row["cpu_s"] / whole["cpu_s"]
            given = {"task": name, "cache_mib": mib, "keeps": keeps}
            rows.append(given | {"ratio": ratio, "above": above} | row)
            print(rows[-1], flush=True)
    return rows


def _timed(svm: Any, X: Any, Y: Any, most: float) -> tuple[Any, Row]:
    """Fit; return the estimator and its row."""
    began = time.process_time()
    svm.fit(X, Y, callbacks=[CpuLimit(most)])
    c, seconds = svm.certificate_, time.process_time() - began
    row = {"cpu_s": seconds, "oracle_passes": c.passes, "primal": c.primal, "gap": c.gap}
    return svm, row | {"status": c.status}


def whole_covertype() -> Task:
    """Return all 581,012 examples for training; the last tenth is also the test part."""
    X, y = covertype()
    task = TASKS["covertype"](True)
    cut = 9 * len(y) // 10
    return replace(task, X=X, Y=y, X_test=X[cut:], Y_test=y[cut:])


def _compared(task: Any, weight: float, passes: int | None, svm: Any, batch: Any) -> Row:
    own, best = svm.certificate_, batch.certificate_
    return {
        "task": task.name,
        "weight": weight,
        "passes": "to tol" if passes is None else passes,
        # an upper bound, as the dual is below the optimum
        "above_optimum": own.primal / best.dual - 1,
        "above_batch": own.primal / best.primal - 1,
        "gap": own.gap,
        "tol": own.tol,
        "converged": own.converged,
        "oracle_passes": own.passes,
        "seconds": own.seconds,
        "batch_oracle_passes": best.passes,
        "batch_seconds": best.seconds,
        "score": svm.score(task.X_test, task.Y_test),
        "batch_score": batch.score(task.X_test, task.Y_test),
    }


def main(arguments: Sequence[str] | None = None) -> dict[str, list[Row]]:
    """Run the parts, and write a table of each."""
    parser = argparse.ArgumentParser(prog="benchmarks.papers.streaming")
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--cache-bytes", type=int, default=64 * 2**20)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/streaming"))
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--parts", nargs="+", default=["memory", "objective", "cyclic"])
    parser.add_argument("--tasks", nargs="+", default=list(SETTINGS))
    parser.add_argument("--weights", nargs="+", type=float, default=[], help="C', of the objective")
    parser.add_argument(
        "--keeps", nargs="+", choices=KEEPS, default=KEEPS, help="of the cyclic passes"
    )
    parser.add_argument("--seconds", type=float, default=200, help="of CPU for a fit, at most")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ConvergenceWarning)
    if asked.child:
        print(json.dumps(child(asked.child[0], int(asked.child[1]))))
        return {}
    results = {}
    if "memory" in asked.parts:
        results["memory"] = memory(0.02 if asked.small else asked.gigabytes, asked.cache_bytes)
    if "objective" in asked.parts:
        results["objective"] = objective(asked.small, asked.tasks, asked.weights, asked.seconds)
    if "cyclic" in asked.parts:
        results["cyclic"] = cyclic(asked.small, asked.keeps, asked.tasks, asked.seconds)
    asked.out.mkdir(parents=True, exist_ok=True)
    for name, rows in results.items():
        write_csv(asked.out / f"{name}.csv", rows)
    return results


if __name__ == "__main__":
    main()
