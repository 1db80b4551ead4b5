"""python -m benchmarks.race [--data ocr|usps|conll2000|conll2000-rich] [--solvers ...] ..."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.race import bars, report, runner
from benchmarks.race.config import Config
from benchmarks.race.ours import SOLVERS
from benchmarks.race.peers import PEERS

DEFAULT_RACES = ("usps", "ocr", "conll2000")


def parser() -> argparse.ArgumentParser:
    """Build the command line; the config supplies the values that are not given."""
    result = argparse.ArgumentParser(prog="python -m benchmarks.race", description=__doc__)
    result.add_argument("--data", nargs="+", default=DEFAULT_RACES, help="configs to run, by name")
    result.add_argument("--lambdas", nargs="+", type=float)
    result.add_argument("--tol", nargs="+", type=float, help="duality gaps, in units of the loss")
    result.add_argument("--solvers", nargs="+", choices=sorted(SOLVERS))
    result.add_argument("--peers", nargs="*", choices=sorted(PEERS))
    result.add_argument("--repeats", type=int, help="a time is the best of this many runs")
    result.add_argument("--max-passes", type=int)
    result.add_argument("--max-seconds", type=float)
    result.add_argument("--c2", type=float, help="L2 strength of CRFsuite's L-BFGS")
    result.add_argument("--out", type=Path, default=Path("benchmarks/results/race"))
    result.add_argument("--small", action="store_true", help="synthetic stand-in, no data needed")
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested races, write their files, print the ratios to the bars."""
    chosen = parser().parse_args(arguments)
    for name in chosen.data:
        config = Config.read(name).changed(
            lambdas=chosen.lambdas,
            tols=chosen.tol,
            solvers=chosen.solvers,
            peers=chosen.peers,
            repeats=chosen.repeats,
            max_passes=chosen.max_passes,
            max_seconds=chosen.max_seconds,
            c2=chosen.c2,
        )
        print(f"== {name}")
        outcome = runner.run(config.shrunk() if chosen.small else config)
        files = report.write(outcome, chosen.out, Path(name).stem)
        if not chosen.small:
            print(*bars.compare(config, outcome.rows), sep="\n")
        for peer in outcome.absent:
            print(f"{peer}: not installed, left out")
        print("written:", *files)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
