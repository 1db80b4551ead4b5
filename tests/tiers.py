"""The two tiers of the suite: `make check` runs what is not marked slow, `make test` all.

Slow are folders, files and tests that take long, and of every parametrised test all cases but some in which
every value of every parameter appears.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent
# Slow as a whole.
SLOW = (
    "contracts/test_cluster",
    "contracts/test_estimators.py::test_flat_front_ends_pass_every_check_of_scikit_learn",
    "contracts/test_logistic.py::test_it_passes_the_checks_of_scikit_learn",
    "contracts/test_path.py::test_the_search_passes_the_checks_of_scikit_learn",
    "laws/",
    "unit/test_benchmark_data.py",
    "unit/test_benchmarks.py",
    "unit/test_examples.py",
    "unit/test_fuzz.py",
    "unit/test_paper_benchmarks.py",
)
# Tests and cases that took long, as ``tools/record_slow_tests.py`` found.
RECORDED = frozenset((TESTS / "slow.txt").read_text().splitlines())


def is_slow(name: str) -> bool:
    """Whether a test is slow by its name."""
    listed = any(f"tests/{part}" in name for part in SLOW)
    return listed or name in RECORDED or name.split("[")[0] in RECORDED


def identity(value: Any) -> Hashable:
    """What tells a value of a parameter from others: itself, or where it is, if it has no hash."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def representatives(family: Sequence[Any]) -> set[Any]:
    """Cases of a test in which every value of every parameter appears: every model, every solver, every seed.

    First those that are new in all parameters, along a diagonal, then those that are new in one.
    """
    seen: set[tuple[str, Hashable]] = set()
    found: set[Any] = set()
    for enough in (all, any):
        for item in family:
            given = item.callspec.params.items()
            values = {(name, identity(value)) for name, value in given}
            if enough(value not in seen for value in values):
                seen |= values
                found.add(item)
    return found
