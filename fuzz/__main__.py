"""All fuzzers, one after the other: `python -m fuzz --seconds 60 --seed 1`, seconds for each of them."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import fuzz
from fuzz.common import run

NAMES = sorted(
    found.name
    for found in pkgutil.iter_modules(fuzz.__path__)
    if found.name not in ("__main__", "common")
)


def main() -> int:
    """How many fuzzers have found something."""
    found = 0
    for name in NAMES:
        module = importlib.import_module(f"fuzz.{name}")
        found += bool(run(name, module.attempt, sys.argv[1:]).finds)
    return found


if __name__ == "__main__":
    sys.exit(main())
