"""python -m benchmarks.command_line [--sentences N] [--limit SECONDS] [--tol T ...] [--small]

CoNLL-2000 from the command line, with one command to train and one to evaluate:

    maxmargin train train.conll chunks.model
    maxmargin evaluate chunks.model test.conll

CRFsuite's L-BFGS runs beside it with its defaults, in the same run, on the attributes that
`maxmargin convert` wrote.

Our CPU seconds cover the whole process: start, reading, attributes, training, writing.
CRFsuite's cover its training
call alone. It is stopped after `--limit` CPU seconds, since
the ratio is then known to be at least that large. `iterations` says how far it came. A model that
was stopped has no F1.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import datasets
from benchmarks.timing import write_csv
from maxmargin.data.read_file import read_file
from maxmargin.metrics import entity_f1_score

Row = dict[str, Any]
ROOT = Path(__file__).parents[2]


def write_text(part: str, path: Path, most: int | None, small: bool) -> None:
    """Write sentences as columns: word, tag, chunk."""
    sentences, Y = datasets.chunked(part, small)
    with path.open("w", encoding="utf-8") as file:
        for (words, tags), chunks in list(zip(sentences, Y, strict=True))[:most]:
            rows = zip(words, tags, chunks, strict=True)
            file.write("".join(" ".join(row) + "\n" for row in rows) + "\n")


def command(*words: Any) -> tuple[str, float]:
    """Run one of our commands; return its output and the CPU seconds of its process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "maxmargin", *map(str, words)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"maxmargin {words[0]} ended with status {status}")
    return said, used.ru_utime + used.ru_stime


def ours(folder: Path, tol: float | None) -> Row:
    """Train and evaluate with two commands."""
    more = [] if tol is None else ["--tol", tol]
    said, train_cpu = command("train", folder / "train.conll", folder / "m", "--json", *more)
    found = json.loads(said)
    said, test_cpu = command("evaluate", folder / "m", folder / "test.conll", "--json")
    return {
        "learner": "maxmargin" if tol is None else f"maxmargin --tol {tol:g}",
        "train_cpu": train_cpu,
        "test_cpu": test_cpu,
        "iterations": found["passes"],
        "gap": found["gap"],
        "f1": json.loads(said)["entity F1"],
    }


def peer(folder: Path, limit: int) -> Row:
    """Train CRFsuite in its own process, for at most this many CPU seconds."""
    command("convert", folder / "train.conll", folder / "train.crfsuite")
    command("convert", folder / "test.conll", folder / "test.crfsuite")
    child = [sys.executable, "-m", "benchmarks.command_line", "--peer", str(folder)]
    found = subprocess.run(
        [*child, "--limit", str(limit)], capture_output=True, text=True, cwd=ROOT
    )
    lines = [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"CRFsuite: {found.stderr[-2000:]}")
    row = lines[-1]
    return {"learner": "crfsuite-lbfgs", "stopped": "f1" not in row, **row}


def train_peer(folder: Path, limit: int) -> None:
    """Train, and print the progress after each iteration; then tag the test part."""
    import pycrfsuite

    class Trainer(pycrfsuite.Trainer):
        def on_iteration(self, log: Any, info: Any) -> None:
            said = {"train_cpu": time.process_time() - began, "iterations": info["num"]}
            print(json.dumps(said), flush=True)

    trainer = Trainer("lbfgs")
    for x, y in zip(*read(folder / "train.crfsuite"), strict=True):
        trainer.append(x, y)
    began = time.process_time()
    endless = resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_CPU, (int(began) + limit, endless))
    trainer.train(str(folder / "peer"))
    last = trainer.logparser.last_iteration["num"]
    said = {"train_cpu": time.process_time() - began, "iterations": last}
    resource.setrlimit(resource.RLIMIT_CPU, (endless, endless))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(folder / "peer"))
    X, Y = read(folder / "test.crfsuite")
    print(json.dumps({**said, "f1": entity_f1_score(Y, [tagger.tag(x) for x in X])}), flush=True)


def read(path: Path) -> tuple[Any, Any]:
    """Return the attributes and labels of a file."""
    found = read_file(str(path))
    return found.X, found.Y


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sentences", type=int, default=None, help="of training; all by default")
    parser.add_argument("--limit", type=int, default=360, help="CPU seconds of CRFsuite")
    parser.add_argument("--tol", type=float, nargs="*", default=[], help="besides the default")
    parser.add_argument("--small", action="store_true", help="a tiny stand-in, without data")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--peer", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    given = parse_options(arguments)
    if given.peer is not None:
        train_peer(given.peer, given.limit)
        return []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_text("train", folder / "train.conll", given.sentences, given.small)
        write_text("test", folder / "test.conll", None, given.small)
        rows = [ours(folder, tol) for tol in [None, *given.tol]]
        if find_spec("pycrfsuite") is not None:
            rows.append(peer(folder, given.limit))
    for row in rows:
        row["ratio"] = rows[-1]["train_cpu"] / row["train_cpu"]
        shown = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
        print("  ".join(shown))
    write_csv(given.out / "command_line.csv", rows)
    return rows


if __name__ == "__main__":
    main()
