"""python -m benchmarks.faults.kills [--kills 50] [--solvers NAME ...] [--words N] [--small]

A fit of handwritten words in its own process writes a checkpoint after every pass. It is killed
(SIGKILL) at a random moment and started again, over and over. The time of an undisturbed fit is
measured first, so that kills can fall into its start, its passes and its writes. The next run must
be able to read every file that a kill leaves. Every optimum must agree with the optimum of the
undisturbed fit, within their certificates. A fit that ends before its kill starts over.

Needs POSIX.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

import maxmargin as mm
from benchmarks import datasets
from benchmarks.timing import write_csv
from maxmargin import models

SOLVERS = ("proximal", "fasole", "one-slack", "n-slack", "dual-coordinate", "bcfw")
Row = dict[str, Any]


def fit(path: Path, solver: str, data: tuple[Any, Any]) -> Row:
    """Fit, and resume from the checkpoint if there is one."""
    X, Y = data
    options = {"C": 1.0 / len(Y), "tol": 0.003, "max_passes": 2000, "random_state": 0}
    svm = mm.StructuralSVM(models.Chain(loss="mean-hamming"), solver=solver, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        svm.fit(X, Y, checkpoint=path, checkpoint_every=1e-9, resume=True)
    return {name: getattr(svm.certificate_, name) for name in ("primal", "dual", "converged")}


def victim(sender: Connection, *given: Any) -> None:
    """Fit in a process of its own; send a message at the start, and the result at the end."""
    sender.send("begun")
    try:
        sender.send(fit(*given))
    except BaseException as error:  # this benchmark looks for errors such as an unreadable file
        sender.send(repr(error))


def run(path: Path, solver: str, data: tuple[Any, Any], seconds: float | None) -> Row | None:
    """Fit in a process of its own; return the certificate, or None if it was killed after `seconds`."""
    system = get_context("fork")
    receiver, sender = system.Pipe(duplex=False)
    process = system.Process(target=victim, args=(sender, path, solver, data))
    process.start()
    sender.close()
    receiver.recv()
    found = receiver.recv() if receiver.poll(seconds) else None
    if found is None:
        process.kill()
    process.join()
    if isinstance(found, str):
        raise SystemExit(f"{solver}: a run after a kill failed: {found}")
    return found


def killed(solver: str, data: tuple[Any, Any], kills: int, rng: np.random.Generator) -> Row:
    """Kill fits of one solver; count the fits that did not end at the optimum."""
    with tempfile.TemporaryDirectory() as folder:
        path, began = Path(folder) / "fit", time.perf_counter()
        whole = run(path, solver, data, None)
        assert whole is not None
        usual = time.perf_counter() - began
        path.unlink()
        made = fits = wrong = files = 0
        while made < kills:
            found = run(path, solver, data, float(rng.uniform(0, usual)))
            if found is None:
                made, files = made + 1, files + path.is_file()
                if made < kills:
                    continue
                found = run(path, solver, data, None)  # the fit after the last kill runs to its end
            assert found is not None
            agree = found["dual"] <= whole["primal"] and whole["dual"] <= found["primal"]
            wrong += not (found["converged"] == whole["converged"] and agree)
            fits += 1
            path.unlink()
        left = len(list(Path(folder).iterdir()))
    row = {"solver": solver, "seconds": usual, "kills": made, "with_file": files}
    return row | {"fits": fits, "converged": whole["converged"], "wrong": wrong, "left_over": left}


def main(argv: Sequence[str] | None = None) -> list[Row]:
    """Kill, report, and fail if a fit did not end at its optimum."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="of each solver")
    parser.add_argument("--solvers", nargs="+", default=list(SOLVERS))
    parser.add_argument("--words", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="made-up words")
    parser.add_argument("--out", type=Path, default=Path("kills.csv"))
    given = parser.parse_args(argv)
    rng, rows = np.random.default_rng(given.seed), []
    data = datasets.ocr_letters(small=given.small)
    examples = data.X_train[: given.words], data.Y_train[: given.words]
    for solver in given.solvers:
        rows.append(killed(solver, examples, given.kills, rng))
        print(rows[-1], flush=True)
    write_csv(given.out, rows)
    if any(row["wrong"] or row["left_over"] for row in rows):
        raise SystemExit("a fit did not end at its optimum, or a kill left files behind")
    return rows


if __name__ == "__main__":
    main()
