"""python -m benchmarks.scale [rounds parts loopback extrapolate ...] [--small] [--out FOLDER]

rounds       simulate the number of rounds of this design and of other schemes -> rounds.csv
parts        simulate rounds, bytes, memory and time of this design, by the number of parts -> parts.csv
loopback     measure the same on a real cluster of processes, beside the simulation -> loopback.csv
extrapolate  estimate the cost of a billion examples on up to 1,000 workers -> extrapolated.csv
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.scale.loopback import measure
from benchmarks.scale.model import Cluster, extrapolated
from benchmarks.scale.simulate import SCHEMES, Task, simulate
from benchmarks.timing import write_csv

Rows = list[dict[str, Any]]
USPS, WEAK, OCR = Task("usps", 0.01), Task("usps", 0.001), Task("ocr", 0.01)
TABLE = ((USPS, 8), (USPS, 32), (WEAK, 8), (OCR, 2), (OCR, 8))
MOST = {"design": 100, "one-slack": 600}  # maximum number of rounds; 60 for other schemes
PARTS = (2, 4, 8, 16, 32, 64)
LARGE = (
    *((32, 5_000), (100, 5_000), (1_000, 5_000)),
    *((100, 1_000_000), (1_000, 100_000), (1_000, 1_000_000)),
)  # K, d


def rounds(small: bool) -> Rows:
    """Return the table of the schemes."""
    cells = [(scheme, *cell) for scheme in SCHEMES for cell in (TABLE[:1] if small else TABLE)]
    found: Rows = []
    for scheme, task, n_parts in cells:
        if scheme == "one-slack" and any(
            row["scheme"] == scheme and (row["task"], row["lambda"]) == (task.name, task.strength)
            for row in found
        ):
            continue  # the one-slack scheme does not depend on the number of parts
        most = 20 if small else MOST.get(scheme, 60)
        options = {} if scheme == "one-slack" else {"passes": 4, "older": 15}
        found.append(simulate(task, n_parts, scheme, most, small=small, **options))
        print(found[-1], flush=True)
    return found


def parts(small: bool) -> Rows:
    """Simulate this design with its defaults, by the number of parts."""
    found: Rows = []
    for n_parts in PARTS[:3] if small else PARTS:
        found.append(simulate(USPS, n_parts, most=200, small=small, gaps=(0.01,)))
        print(found[-1], flush=True)
    return found


def loopback(small: bool) -> Rows:
    """Measure real clusters, beside the simulation of the same fits."""
    found: Rows = []
    for task, n_workers in ((USPS, 2),) if small else ((USPS, 2), (USPS, 4), (OCR, 2)):
        real = measure(task, n_workers, small=small, gaps=(0.01,))
        model = Cluster(n_workers, real["weights"], real["examples"], 0.0)
        expected = {
            "simulated": simulate(task, n_workers, small=small, gaps=(0.01,))["rounds_0.01"]
        }
        expected["scheduler_expected"] = model.through_scheduler
        expected["driver_expected"] = 8 * model.weights + n_workers * (
            model.to_worker - 8 * model.weights
        )
        found.append(real | expected)
        print(found[-1], flush=True)
    return found


def extrapolate(small: bool) -> Rows:
    """Estimate the cost of a billion examples on many workers, from simulations of few."""
    known = parts(small)
    few = known[0]  # the row with the fewest parts, which are large
    # A round of the simulation consists of three passes over all examples, and the mixture.
    seconds = (few["round_seconds"] - few["mixing_seconds"]) / 3 / few["examples"]
    found = [extrapolated(known, Cluster(K, d, 1e9, seconds)) for K, d in LARGE]
    for row in found:
        row["example_seconds"] = seconds
        print({name: round(v, 6) if isinstance(v, float) else v for name, v in row.items()})
    return found


PIECES = {"rounds": rounds, "parts": parts, "loopback": loopback, "extrapolate": extrapolate}


def main(argv: Sequence[str] | None = None) -> dict[str, Rows]:
    """Simulate, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pieces", nargs="*", choices=[[], *PIECES], default=[])
    parser.add_argument("--small", action="store_true", help="made-up digits")
    parser.add_argument("--out", type=Path, default=Path("."))
    given = parser.parse_args(argv)
    found = {name: PIECES[name](given.small) for name in given.pieces or PIECES}
    for name, rows in found.items():
        write_csv(given.out / f"{'extrapolated' if name == 'extrapolate' else name}.csv", rows)
    return found


if __name__ == "__main__":
    main()
