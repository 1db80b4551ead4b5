"""All fuzzers, one after the other: `python -m fuzz --seconds 60 --seed 1`, seconds for each of them."""

from __future__ import annotations

import importlib
import sys

from fuzz.common import run

FUZZERS = [
    "command_lines",
    "disk",
    "extremes",
    "files",
    "inputs",
    "interrupts",
    "model_files",
    "oracles",
    "problems",
    "shards",
]


def main() -> int:
    """How many fuzzers have found something."""
    found = 0
    for name in FUZZERS:
        module = importlib.import_module(f"fuzz.{name}")
        found += bool(run(name, module.attempt, sys.argv[1:]).finds)
    return found


if __name__ == "__main__":
    sys.exit(main())
