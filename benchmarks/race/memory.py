"""Peak memory of `fit`, with each learner in its own process.

    data    MB of the user's arrays: dense rows, or the values, indices and pointers of sparse rows
    w       MB of the weights in double precision, like `coef_`
    peak    MB of the process's peak during training, minus its memory before
    share   peak divided by (data + 2 w)

The core keeps its own rows beside the user's, in single precision, or as indices alone if all
values are
one. CRFsuite starts from items that were handed over before, LIBLINEAR from the same arrays. Only
Linux can
reset the peak of a process.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import datasets
from benchmarks.papers.dual_coordinate.__main__ import Task, rcv1_binary, small_tasks, theirs
from benchmarks.race import ours, peers

Row = dict[str, Any]
Fit = Callable[[], Any]
MB = 2**20
# name: options of the data set, lambda, tol
CHAINS: dict[str, tuple[str, dict[str, Any], float, float]] = {
    "ocr": ("ocr", {}, 0.01, 0.001),
    "conll2000": ("conll2000", {}, 0.001, 0.1),
    "conll2000-rich": ("conll2000", {"rich": True}, 0.001, 0.1),
}
PASSES = 3  # passes of CRFsuite; its memory does not depend on them
CHILD = "from benchmarks.race import memory; memory.child({!r}, {!r}, {!r})"
PROCESS = Path("/proc/self")


def rows(small: bool, repeats: int) -> list[Row]:
    """Return a row for each data set and learner; no rows if the peak of a process cannot be reset."""
    if not (PROCESS / "clear_refs").exists():
        return []
    found = []
    for name in [*CHAINS, "rcv1"]:
        peer = "liblinear" if name == "rcv1" else "crfsuite-ap"
        for learner in ["auto", *[peer] * peers.available(peer)]:
            ran = [sys.executable, "-c", CHILD.format(name, learner, small)]
            done = subprocess.run(ran, capture_output=True, text=True, check=True)
            found.append(json.loads(done.stdout.splitlines()[-1]))
    return found


def child(name: str, learner: str, small: bool) -> None:
    """Fit once and print the row as JSON."""
    data, fit = (of_text if name == "rcv1" else of_chain)(name, learner, small)
    (PROCESS / "clear_refs").write_text("5")  # reset the peak to the current memory
    before = memory("VmRSS")
    fitted = fit()
    more = memory("VmHWM") - before
    w = getattr(fitted, "coef_", None)
    size = math.nan if w is None else float(w.nbytes)  # CRFsuite keeps its weights in a file
    row: Row = {"data": name, "learner": learner, "data MB": data / MB, "w MB": size / MB}
    print(json.dumps(row | {"peak MB": more / MB, "share": more / (data + 2 * size)}))


def memory(name: str) -> int:
    """Return bytes of this process: VmRSS is the current value, VmHWM the peak."""
    lines = (PROCESS / "status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


def size_of(x: Any) -> int:
    """Return the bytes of a dense or a sparse matrix."""
    if hasattr(x, "indptr"):
        return int(x.data.nbytes + x.indices.nbytes + x.indptr.nbytes)
    return int(x.nbytes)


def of_chain(name: str, learner: str, small: bool) -> tuple[int, Fit]:
    """Return the bytes of the sequences, and a function that trains on them."""
    kind, options, regularization, tol = CHAINS[name]
    data = datasets.load(kind, small=small, **options)
    size = sum(size_of(x) for x in data.X_train)
    if learner == "auto":
        svm = ours.estimator(data, "auto", regularization, tol=tol)
        return size, lambda: svm.fit(data.X_train, data.Y_train)
    import pycrfsuite

    trainer = pycrfsuite.Trainer("ap", {"max_iterations": PASSES}, verbose=False)
    for tokens, labels in zip(peers.tokens(data, "train"), data.Y_train, strict=True):
        trainer.append(pycrfsuite.ItemSequence(tokens), [str(label) for label in labels])
    path = Path(tempfile.mkdtemp()) / "model"
    return size, lambda: trainer.train(str(path))


def of_text(name: str, learner: str, small: bool) -> tuple[int, Fit]:
    """Return the same for two classes of documents."""
    import maxmargin as mm

    task: Task = small_tasks()[0] if small else rcv1_binary()
    svm = mm.BinarySVC(1.0, fit_intercept=False) if learner == "auto" else theirs(task, 1.0, 0.01)
    warnings.simplefilter("ignore")
    return size_of(task.X), lambda: svm.fit(task.X, task.y)
