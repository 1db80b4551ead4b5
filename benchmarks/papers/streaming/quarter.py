"""python -m benchmarks.papers.streaming.quarter [--small] [--mib 102] [--tol 0.02]

A tagger in a quarter of the memory. It learns tags of the Brown corpus, with weights for the pairs
of
attributes and tags that occur. It is trained in memory and in cyclic passes over shards, each in a
fresh
process. The results are the peak of anonymous memory above the value before the data were opened,
and
the CPU time of ``fit``. Mapped pages of the shards do not count: the system takes them back when it
needs them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.papers.streaming.memory import PeakMemory
from benchmarks.tagging import tags
from maxmargin import StructuralSVM, data, models, solvers

Row = dict[str, Any]
RARE = 50  # attributes that occur less often are left out
WEIGHT = 500.0  # C', the weight of the mean slack
CHILD = "from benchmarks.papers.streaming import quarter; quarter.child({!r}, {!r}, {!r})"


def rows(small: bool, mib: float, tol: float) -> list[Row]:
    """Return the row of the fit in memory, and the row of the fit over shards with the ratios."""
    given = tags("brown", rare=1 if small else RARE, small=small)
    with tempfile.TemporaryDirectory() as folder:
        data.write_shards(folder, given.X_train, given.Y_train)
        del given
        found = [_run(folder, cache, tol) for cache in (0.0, mib)]
    for name in ("peak_mb", "cpu_s"):
        found[1][f"{name}_ratio"] = found[1][name] / found[0][name]
    return found


def _run(folder: str, mib: float, tol: float) -> Row:
    command = [sys.executable, "-c", CHILD.format(folder, mib, tol)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def child(folder: str, mib: float, tol: float) -> None:
    """Fit once and print the row as JSON: over the shards, or over arrays in memory if `mib` is 0."""
    with PeakMemory() as watch:
        opened = data.open_shards(folder, verify=False)
        settings: Row = {"C": WEIGHT / len(opened.Y), "tol": tol, "random_state": 0}
        X, Y = opened.X, opened.Y
        if mib:
            cache = int(mib * 2**20)
            settings["solver"] = solvers.Streaming(passes=None, cache_bytes=cache)
        else:
            X, Y = [x.copy() for x in X], [np.array(y) for y in Y]
        svm = StructuralSVM(models.Chain(features="observed"), **settings)
        began = time.process_time()
        svm.fit(X, Y)
        seconds = time.process_time() - began
    c = svm.certificate_
    row: Row = {"cache_mib": mib or "in memory", "examples": len(Y), "weights": svm.coef_.size}
    row |= {"peak_mb": watch.peak / 1e6, "cpu_s": seconds, "oracle_passes": c.passes}
    print(json.dumps(row | {"primal": c.primal, "gap": c.gap, "status": c.status}))


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Print both rows."""
    parser = argparse.ArgumentParser(prog="benchmarks.papers.streaming.quarter")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--mib", type=float, default=102.0, help="of the cache")
    parser.add_argument("--tol", type=float, default=0.02)
    asked = parser.parse_args(arguments)
    found = rows(asked.small, asked.mib, asked.tol)
    for row in found:
        print(row, flush=True)
    return found


if __name__ == "__main__":
    main()
