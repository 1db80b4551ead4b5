"""Count the instructions of the core's kernels on small data, and compare with stored counts.

    python tools/count_instructions.py [--write] [--most SHARE] [task ...]

A few rounds or visits run under ``valgrind --tool=callgrind``. The tool counts only the
instructions inside
the library of the core, without Python, NumPy and the allocator. So a busy machine, another version
of
Python or an import changes nothing. The seed is fixed: a different count means that the code, the
compiler
or the path of an algorithm has changed.

``instructions.json`` holds the counts for each core (instruction set) and compiler. The exit status
is 1 if
a count is more than SHARE above the stored count. If there is none for this core and compiler,
counts are
only shown; ``--write`` stores them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

STORED = Path(__file__).with_name("instructions.json")
MOST = 0.1  # the largest accepted increase; a larger value would hide slow changes
# Import the core alone, without the rest of the package: imports are slow under valgrind.
START = """
import numpy as np
from maxmargin._core import core
rng = np.random.default_rng(0)
def features(X):
    return core.dense64([X], X.shape[1], 0.0, False, 1)
def rounds(data, n):
    state = data.coordinate(False, np.full(n, 0.1))
    state.set_proximity(0.1)
    state.rounds(1, 1e-4, 30, 1, 0.4, 0.4, 1.3, 5, 2**40, 0.0, 0.0, 0.0, 1.0)
def visits(data, n):
    state = data.ascent("margin", True, np.full(n, 0.1), False)
    for oracle in (True, False, False, True, False):
        state.visit(rng.permutation(n), 0, oracle, True, False, True, 0.0, 10, 1, -1)
"""
TASKS = {
    "two classes": """
X = rng.normal(size=(300, 40)); y = (X[:, 0] + rng.normal(size=300) > 0).astype(np.int32)
held = features(X)
rounds(core.BinaryData(held.rows, y, np.ones(2)), 300)
""",
    "classes": """
X = rng.normal(size=(300, 40)); y = rng.integers(0, 6, 300).astype(np.int32)
held = features(X)
rounds(core.MulticlassData(held.rows, 6, y, np.ones(6)), 300)
""",
    "chain": """
X = rng.normal(size=(600, 20)); y = rng.integers(0, 8, 600).astype(np.int32)
held, none = features(X), np.empty(0, np.int64)
first = np.arange(0, 601, 6)
visits(core.ChainData(held.rows, 8, True, True, first, y, np.ones(600), np.ones(8), False, none, None), 100)
""",
    "sets of labels": """
X = rng.normal(size=(80, 10)); Y = (X @ rng.normal(size=(10, 20)) > 2).astype(np.int32)
held, data = features(X), core.FactorGraphData()
pairs = np.argwhere(np.triu(np.ones((20, 20), bool), 1)).astype(np.int32)
data.add_bank(held.rows, 20)
data.add_bank(None, len(pairs))
for v in range(20):
    data.add_node_type(0, np.array([-1, v], np.int32), np.ones(2))
for p, (a, b) in enumerate(pairs.tolist()):
    data.add_edge_type(a, b, 1, np.array([-1, -1, -1, p], np.int32))
data.add_shape(np.arange(20, dtype=np.int32), pairs, np.arange(len(pairs), dtype=np.int32))
row = np.repeat(np.arange(80), 20)
data.set_examples(np.zeros(80, np.int32), row, Y.ravel(), np.ones(1600), np.empty(0, np.int64))
data.set_argmax(0, 100, None)
visits(data, 80)
""",
}


def core_file() -> Path:
    """The library of the core that Python loads."""
    from maxmargin._core import core

    return Path(core.__file__)


def compiler_of(core: Path) -> str:
    """Return the name of the compiler as stored in the library, or "unknown"."""
    found = re.search(rb"(GCC: \([^)]*\) [\d.]+|clang version [\d.]+)", core.read_bytes())
    return found[1].decode() if found else "unknown"


def count(code: str, core: Path) -> int:
    """Count the instructions inside the core in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        env = os.environ | {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        ran = [*tool, sys.executable, "-c", START + code]
        subprocess.run(ran, check=True, capture_output=True, env=env)
        return own_cost(out.read_text(), core.name)


def own_cost(profile: str, library: str) -> int:
    """Sum the cost of one library's functions in a callgrind profile, without their calls."""
    names: dict[str, str] = {}
    inside, total, skip = False, 0, False
    for line in profile.splitlines():
        if line.startswith("ob="):
            number, _, name = line[3:].partition(" ")
            name = names.setdefault(number, name)
            inside = name.endswith(library)
        elif line.startswith("cob="):
            number, _, name = line[4:].partition(" ")
            names.setdefault(number, name)
        elif line.startswith("calls="):
            skip = True  # the next line holds the cost of the call
        elif line[:1].isdigit() or line[:1] in "+-*":
            cost = line.split()[1:]  # after the position; empty if nothing was counted
            total += int(cost[0]) if inside and not skip and cost else 0
            skip = False
    return total


def judged(counts: dict[str, int], stored: dict[str, int], most: float) -> list[str]:
    """Return a line for each task, with "MORE" if a count is too far above the stored one."""
    lines = []
    for task, now in counts.items():
        before = stored.get(task)
        change = "" if before is None else f"  {now / before - 1:+.1%} of {before:,}"
        too_many = before is not None and now > (1 + most) * before
        lines.append(f"{task:>16} {now:>14,}{change}{'  MORE' if too_many else ''}")
    return lines


def main(arguments: list[str] | None = None, stored: Path = STORED) -> int:
    """Count, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--most", type=float, default=MOST)
    parser.add_argument("tasks", nargs="*", help=f"of {', '.join(TASKS)}; all if none is named")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.tasks) - set(TASKS)):
        parser.error(f"no such task: {unknown[0]!r}")
    core = core_file()
    key = f"{core.name.split('.')[0]}, {compiler_of(core)}"
    known = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else {}
    counts = {task: count(TASKS[task], core) for task in options.tasks or TASKS}
    lines = judged(counts, known.get(key, {}), options.most)
    print(key, *lines, sep="\n")
    if options.write:
        known[key] = known.get(key, {}) | counts
        stored.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
        return 0
    return int(any(line.endswith("MORE") for line in lines))


if __name__ == "__main__":
    raise SystemExit(main())
