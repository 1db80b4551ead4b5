"""Record the slow tests in ``tests/slow.txt``, which `make check` leaves out.

    python tools/record_slow_tests.py [pytest options]

The tool runs the suite in one process. It records tests and cases that took more than LIMIT seconds
of CPU
time, children included. If all cases of a test are slow, it records the test without its cases.
Folders and
files that are slow as a whole are listed in ``tests/tiers.py``. Earlier records of tests that do
not run
this time are kept.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LIMIT = 0.1
ROOT = Path(__file__).parents[1]
NAMES = ROOT / "tests/slow.txt"


def cpu_seconds() -> float:
    """CPU seconds of this process and of all children it has waited for."""
    return sum(os.times()[:4])


class Stopwatch:
    """A pytest plugin that times each test."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        """Time a test from the start of its fixtures to their end."""
        before = cpu_seconds()
        answer = yield
        self.seconds[item.nodeid] = cpu_seconds() - before
        return answer


def family_of(name: str) -> str:
    """Return the name of a test without its case."""
    return name.split("[")[0]


def slow_names(seconds: dict[str, float], limit: float = LIMIT) -> set[str]:
    """Return tests and cases above the limit; a test without its cases if all of them are slow."""
    fast = {family_of(name) for name, spent in seconds.items() if spent <= limit}
    slow = (name for name, spent in seconds.items() if spent > limit)
    return {name if family_of(name) in fast else family_of(name) for name in slow}


def merged(known: set[str], seconds: dict[str, float]) -> list[str]:
    """Merge earlier records of other tests with the tests that are slow now."""
    met = {family_of(name) for name in seconds} | set(seconds)
    others = {name for name in known if name not in met and family_of(name) not in met}
    return sorted(others | slow_names(seconds))


def main() -> int:
    """Time the tests and write the list."""
    stopwatch = Stopwatch()
    code = pytest.main(["-p", "no:xdist", "-q", *sys.argv[1:]], plugins=[stopwatch])
    known = set(NAMES.read_text().splitlines()) if NAMES.exists() else set()
    NAMES.write_text("".join(f"{name}\n" for name in merged(known, stopwatch.seconds)))
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
