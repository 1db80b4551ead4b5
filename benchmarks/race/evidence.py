"""python -m benchmarks.race.evidence [--parts NAME ...] [--repeats N] [--out DIR] [--small]

Measurements that a race does not show. Each part writes a table `evidence-<part>.csv`. CPU seconds
are the
least of N runs with one thread:

  import    processes that import nothing, the library, or make an estimator
  first     `fit` to a gap of a tenth of the mean loss, beside peers (`benchmarks.race.first`)
  sets      `fit` of sets of labels with all pairs, beside none (`benchmarks.race.sets`)
  predict   `predict` from the user's arrays: examples and nodes a second
  roofline  exact passes beside a copy of memory and a product of matrices (`benchmarks.race.roofline`)
  memory    peak memory of `fit`, beside the data, the weights and peers (`benchmarks.race.memory`)
  counts    instructions of one small fit (if valgrind is installed): the same on a busy machine

`benchmarks.race.flat` measures flat problems, `benchmarks.threads` threads, and
`benchmarks.footprint`
taggers from attributes to a file.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import datasets
from benchmarks.race import first, memory, ours, roofline, sets
from benchmarks.timing import best_of, write_csv

Row = dict[str, Any]
CHILDREN = {
    "nothing": "pass",
    "maxmargin": "import maxmargin",
    "an estimator": "import maxmargin as mm; mm.BinarySVC()",
}
# Code that makes some fits; runs with different numbers of fits are subtracted.
COUNTED = """
import numpy as np, maxmargin as mm
rng = np.random.default_rng(0)
X, y = rng.normal(size=(300, 20)), rng.integers(0, {classes}, 300)
fits = [mm.{kind}(0.1, tol=1e-3, random_state=0).fit(X, y) for _ in range({fits})]
"""
KINDS = {"BinarySVC": 2, "MulticlassSVC": 4}


def cpu_of_child(code: str, *before: str) -> float:
    """Return the CPU seconds of a new process that runs this code."""

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    started = spent()
    subprocess.run([*before, sys.executable, "-c", code], check=True, capture_output=True)
    return spent() - started


def slowest_imports(code: str, most: int = 3) -> str:
    """Return the modules with the longest own import time (`-X importtime`), in milliseconds."""
    ran = [sys.executable, "-X", "importtime", "-c", code]
    said = subprocess.run(ran, check=True, capture_output=True, text=True).stderr
    found = re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", said)
    longest = sorted(((int(own), name) for own, name in found), reverse=True)[:most]
    return ", ".join(f"{name} {own / 1000:.1f}" for own, name in longest)


def imports(small: bool, repeats: int) -> list[Row]:
    """Measure processes with and without the library."""
    rows = []
    for name, code in CHILDREN.items():
        cpu = min(cpu_of_child(code) for _ in range(repeats))
        rows.append({"imported": name, "cpu": cpu, "slowest ms": slowest_imports(code)})
    for row in rows:
        row["more"] = row["cpu"] - rows[0]["cpu"]
    return rows


def predict(small: bool, repeats: int) -> list[Row]:
    """Measure examples and nodes per second, with one thread."""
    rows = []
    for name in first.DATA:
        data = datasets.load(name, small=small)
        svm = ours.estimator(data, "auto", 0.01, tol=first.ROUGH * first.mean_loss(data))
        svm.fit(data.X_train, data.Y_train)
        cpu = best_of(repeats, lambda svm=svm, data=data: svm.predict(data.X_test)).cpu
        examples = len(data.Y_test)
        nodes = examples if data.kind == "multiclass" else sum(len(y) for y in data.Y_test)
        rows.append(
            {"data": name, "cpu": cpu, "examples/s": examples / cpu, "nodes/s": nodes / cpu}
        )
    return rows


def instructions(code: str) -> int:
    """Count the instructions of a new process with valgrind."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={folder}/out"]
        ran = ["valgrind", *options, sys.executable, "-c", code]
        env = os.environ | {"PYTHONHASHSEED": "0"}  # dicts are iterated in the same order each time
        said = subprocess.run(ran, check=True, capture_output=True, text=True, env=env).stderr
    found = re.search(r"I\s+refs:\s+([\d,]+)", said)
    assert found is not None
    return int(found[1].replace(",", ""))


def counts(small: bool, repeats: int) -> list[Row]:
    """Count the instructions of one fit.

    The count is half of the difference between a process with three fits and one with one fit.
    Without
    valgrind there are no rows.
    """
    if small or shutil.which("valgrind") is None:
        return []
    rows = []
    for kind, classes in KINDS.items():
        one, three = (
            instructions(COUNTED.format(kind=kind, classes=classes, fits=fits)) for fits in (1, 3)
        )
        rows.append({"fit": kind, "instructions": (three - one) // 2})
    return rows


PARTS: dict[str, Callable[[bool, int], list[Row]]] = {
    "import": imports,
    "first": first.rows,
    "sets": sets.rows,
    "predict": predict,
    "roofline": roofline.rows,
    "memory": memory.rows,
    "counts": counts,
}


def main(arguments: list[str] | None = None) -> dict[str, list[Row]]:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/race"))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
    found = {}
    for part in options.parts:
        found[part] = PARTS[part](options.small, options.repeats)
        write_csv(options.out / f"evidence-{part}.csv", found[part])
        for row in found[part]:
            shown = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
            print(f"{part}:", "  ".join(shown), flush=True)
    return found


if __name__ == "__main__":
    main()
