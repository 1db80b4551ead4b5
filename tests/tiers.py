"""The two tiers of the suite: `make check` skips the tests marked slow, `make test` runs all.

Folders, files and tests that take long are slow. A parametrised test keeps only a few cases in the
fast tier; together they contain every value of every parameter.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent
# Folders, files and tests that are slow as a whole.
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
# Tests and cases that took long, as recorded by ``tools/record_slow_tests.py``.
RECORDED = frozenset((TESTS / "slow.txt").read_text().splitlines())


def is_slow(name: str) -> bool:
    """Return whether the name of a test marks it as slow."""
    listed = any(f"tests/{part}" in name for part in SLOW)
    return listed or name in RECORDED or name.split("[")[0] in RECORDED


def identity(value: Any) -> Hashable:
    """Return a key that identifies a parameter's value: the value, or its id if it has no hash."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def representatives(family: Sequence[Any]) -> set[Any]:
    """Select cases of a test that contain every value of every parameter: every model, solver, seed.

    First take the cases in which all values are new (a diagonal), then those with one new value.
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
