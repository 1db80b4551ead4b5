"""Shared fixtures: the seed, the Hypothesis profile, and the path to the slow references.

MAXMARGIN_TEST_SEED (default 0) varies every random problem of the suite; Hypothesis itself is
derandomised, so that a failure is reproduced by the seed alone.
"""

import os
import signal
import sys
from pathlib import Path

# Every worker of the suite has a core: threads of BLAS and OpenMP would only wait for each other.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

# Threads of the core start on a machine with one core, too: tests look at what they do together.
os.environ.setdefault("MAXMARGIN_CORES", "4")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

from tiers import SLOW, TESTS, is_slow, representatives

# A shell starts background jobs with Ctrl-C ignored, and child processes inherit this. Some tests send
# Ctrl-C, so restore the default.
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


def is_fast_tier(config: pytest.Config) -> bool:
    """Whether this is `make check`."""
    return config.option.markexpr == "not slow"


def pytest_configure(config: pytest.Config) -> None:
    """A few random examples are enough for the inner loop."""
    if is_fast_tier(config):
        settings.load_profile("few")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The fast tier does not even import files whose tests are all slow."""
    whole = [str(TESTS / name) for name in SLOW if "::" not in name]
    slow = any(f"{collection_path}/".startswith(name) for name in whole)
    return True if slow and is_fast_tier(config) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests: the longest tests, and most cases of every parametrised test."""
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        if is_slow(item.nodeid):
            item.add_marker(pytest.mark.slow)
        elif hasattr(item, "callspec") and item.get_closest_marker("slow") is None:
            families.setdefault(item.nodeid.split("[")[0], []).append(item)
    for family in families.values():
        for item in set(family) - representatives(family):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of this run, from the environment."""
    return int(os.environ.get("MAXMARGIN_TEST_SEED", "0"))


@pytest.fixture
def generator(seed: int) -> np.random.Generator:
    """A fresh generator per test, so that tests do not depend on each other's order."""
    return np.random.default_rng(seed)
