"""Shared fixtures: the seed, the Hypothesis profile, and the path to the slow references.

MAXMARGIN_TEST_SEED (default 0) varies every random problem of the suite; Hypothesis itself is
derandomised, so that a failure is reproduced by the seed alone.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile(
    "maxmargin",
    deadline=None,
    derandomize=True,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("maxmargin")


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of this run, from the environment."""
    return int(os.environ.get("MAXMARGIN_TEST_SEED", "0"))


@pytest.fixture
def generator(seed: int) -> np.random.Generator:
    """A fresh generator per test, so that tests do not depend on each other's order."""
    return np.random.default_rng(seed)
