"""python -m benchmarks.micro [--data usps ocr conll2000] [--repeats N] [--out DIR] [--small]

Measure the CPU time of one pass over the training set, per example and node, for each way to store
the inputs:

    oracle      `mm.objective`: taking in X and Y, then one exact pass with w fixed
    ascent      one oracle pass that also moves w: a round without cached passes
    cached      one pass over cached outputs: the cost of each further cached pass in a round
    predict     `predict` on one thread, including the time to take in X
    prepare     the share of `fit` outside the training loop
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import maxmargin as mm
from benchmarks import datasets
from benchmarks.datasets import Dataset
from benchmarks.race import ours
from benchmarks.timing import best_of, write_csv
from maxmargin import solvers

Row = dict[str, Any]
LAMBDA = 0.01
ROUNDS = 5
CACHED = 3


def representations(data: Dataset) -> dict[str, Dataset]:
    """Return the same inputs as dense or CSR, float32 or float64; wide text features only as CSR."""
    found: dict[str, Dataset] = {}
    for layout in ("csr",) if data.sentences else ("dense", "csr"):
        for dtype in (np.float32, np.float64):
            stored = _storage(layout, dtype)
            name = f"{layout} {np.dtype(dtype).name}"
            if data.kind == "multiclass":
                found[name] = replace(data, X_train=stored(data.X_train))
            else:
                found[name] = replace(data, X_train=[stored(x) for x in data.X_train])
    return found


def _storage(layout: str, dtype: type) -> Callable[[Any], Any]:
    if layout == "dense":
        return lambda x: np.ascontiguousarray(x, dtype=dtype)
    return lambda x: sparse.csr_matrix(x, dtype=dtype)


def measure(data: Dataset, repeats: int) -> dict[str, float]:
    """Return the seconds of each kind of pass."""
    plain = ours.fit(data, lambda: _rounds(data, 0), repeats)
    cached = ours.fit(data, lambda: _rounds(data, CACHED), repeats)
    svm = plain.result
    svm_seconds = [_training(timed) for timed in (plain, cached)]
    X, Y = data.X_train, data.Y_train
    return {
        "oracle": best_of(repeats, lambda: mm.objective(svm, _weights(svm), X, Y)).cpu,
        "ascent": svm_seconds[0] / _passes(plain.result, data),
        "cached": max(
            svm_seconds[1] / _passes(cached.result, data)
            - svm_seconds[0] / _passes(plain.result, data),
            0.0,
        )
        / CACHED,
        "predict": best_of(repeats, lambda: svm.predict(X)).cpu,
        "prepare": max(plain.cpu - svm_seconds[0], 0.0),
    }


def _rounds(data: Dataset, cached_passes: int) -> Any:
    # The tolerance is out of reach, so the limit on passes fixes the number of rounds.
    solver = solvers.Proximal(cached_passes=cached_passes)
    return ours.estimator(data, solver, LAMBDA, tol=1e-9, max_passes=ROUNDS)


def _training(timed: Any) -> float:
    return timed.result.certificate_.seconds * min(timed.cpu / timed.wall, 1.0)


def _passes(svm: Any, data: Dataset) -> float:
    return svm.certificate_.oracle_calls / data.size


def _weights(svm: Any) -> np.ndarray:
    if hasattr(svm, "intercept_"):
        return np.column_stack([svm.coef_, svm.intercept_]).ravel()
    return svm.coef_


def run(names: Sequence[str], repeats: int, small: bool) -> list[Row]:
    """Return a row per data set, representation and kind of pass."""
    rows = []
    for name in names:
        for stored, data in representations(datasets.load(name, small=small)).items():
            nodes = data.size if data.kind == "multiclass" else sum(map(len, data.Y_train))
            for kind, seconds in measure(data, repeats).items():
                row = {"data": name, "inputs": stored, "pass": kind, "cpu": seconds}
                row |= {"us_example": 1e6 * seconds / data.size, "us_node": 1e6 * seconds / nodes}
                rows.append(row)
                print(
                    f"{name:>10} {stored:>13} {kind:>8} {1e3 * seconds:9.2f} ms "
                    f"{row['us_example']:8.2f} us/example {row['us_node']:7.3f} us/node",
                    flush=True,
                )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write the CSV."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.micro")
    parser.add_argument("--data", nargs="+", default=["usps", "ocr", "conll2000"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/micro"))
    parser.add_argument("--small", action="store_true", help="synthetic stand-in, no data needed")
    chosen = parser.parse_args(arguments)
    rows = run(chosen.data, chosen.repeats, chosen.small)
    write_csv(chosen.out / "passes.csv", rows)
    print("written:", chosen.out / "passes.csv")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
