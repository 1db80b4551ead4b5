"""Shared fixtures: the seed, the Hypothesis profile, and the path to the slow references.

MAXMARGIN_TEST_SEED (default 0) varies every random problem of the suite; Hypothesis itself is
derandomised, so that a failure is reproduced by the seed alone.
"""

import os
import signal
import sys
from collections.abc import Hashable
from pathlib import Path
from typing import Any

# Every worker of the suite has a core: threads of BLAS and OpenMP would only wait for each other.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS))

# A shell starts what runs in the background deaf to Ctrl-C, which tests press; their processes inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "maxmargin",
    deadline=None,
    derandomize=True,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("few", settings.get_profile("maxmargin"), max_examples=4)
settings.load_profile("maxmargin")


# What takes longest: `make check` leaves these out (-m "not slow"), `make test` runs all.
SLOW = (
    "contracts/test_checkpoints.py::test_killed_processes_go_on",
    "contracts/test_cluster",
    "contracts/test_estimators.py::test_flat_front_ends_pass_every_check_of_scikit_learn",
    "contracts/test_every_solver.py::test_float32_input_meets_the_optimum_of_its_own_values",
    "contracts/test_every_solver.py::test_pair_steps_reach",
    "contracts/test_every_solver.py::test_rated_solvers_get_somewhere",
    "contracts/test_gdmm_graphs.py::test_relaxed_and_exact_optimum_differ_somewhere",
    "contracts/test_gdmm_labels.py::test_optimum_of_the_linear_relaxation",
    "contracts/test_kernels.py::test_linear_kernel_equals_the_linear_machine",
    "contracts/test_large_domains.py::test_much_work_is_sought_ahead",
    "contracts/test_many_classes.py::test_twenty_thousand_classes_in_two_gigabytes",
    "contracts/test_stream_source.py::test_one_pass_over_a_tagger_ends_near_the_batch_optimum",
    "laws/",
    "unit/test_benchmarks.py",
    "unit/test_examples.py",
    "unit/test_fuzz.py",
    "unit/test_interrupt.py::test_the_projection_onto_the_simplex_ends",
)


def is_fast_tier(config: pytest.Config) -> bool:
    """Whether this is `make check`."""
    return config.option.markexpr == "not slow"


def pytest_configure(config: pytest.Config) -> None:
    """A few random examples are enough for the inner loop."""
    if is_fast_tier(config):
        settings.load_profile("few")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of slow tests alone are not even imported by the fast tier."""
    whole = [str(TESTS / name) for name in SLOW if "::" not in name]
    slow = any(f"{collection_path}/".startswith(name) for name in whole)
    return True if slow and is_fast_tier(config) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow: what takes longest, and of every parametrised test all but some cases."""
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        if any(f"tests/{name}" in item.nodeid for name in SLOW):
            item.add_marker(pytest.mark.slow)
        elif hasattr(item, "callspec") and item.get_closest_marker("slow") is None:
            families.setdefault(item.nodeid.split("[")[0], []).append(item)
    for family in families.values():
        for item in set(family) - representatives(family):
            item.add_marker(pytest.mark.slow)


def identity(value: Any) -> Hashable:
    """What tells a value of a parameter from others: itself, or where it is, if it has no hash."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def representatives(family: list[pytest.Item]) -> set[pytest.Item]:
    """Cases of a test in which every value of every parameter appears: every model, every solver, every seed.

    First those that are new in all parameters, along a diagonal, then those that are new in one.
    """
    seen: set[tuple[str, Hashable]] = set()
    found: set[pytest.Item] = set()
    for enough in (all, any):
        for item in family:
            given = item.callspec.params.items()  # type: ignore[attr-defined]
            values = {(name, identity(value)) for name, value in given}
            if enough(value not in seen for value in values):
                seen |= values
                found.add(item)
    return found


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of this run, from the environment."""
    return int(os.environ.get("MAXMARGIN_TEST_SEED", "0"))


@pytest.fixture
def generator(seed: int) -> np.random.Generator:
    """A fresh generator per test, so that tests do not depend on each other's order."""
    return np.random.default_rng(seed)
