"""Run all fuzzers in turn: `python -m fuzz --seconds 60 --seed 1` gives each of them 60 seconds."""

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
    """Run all fuzzers; return how many of them found something."""
    found = 0
    for name in FUZZERS:
        module = importlib.import_module(f"fuzz.{name}")
        found += bool(run(name, module.attempt, sys.argv[1:]).finds)
    return found


if __name__ == "__main__":
    sys.exit(main())
