"""The path of ``fit`` stays short: how often it leads from one file of the package into another."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import count_crossings

# These limits include 12 and 20 crossings for budgets, rounding, encoders of rows and packed weights,
# and one for the two names of the outputs.
MOST = {"chain": 79, "streaming": 125}


@pytest.mark.parametrize("name", MOST)
def test_the_path_of_fit_crosses_few_files(name):
    found = count_crossings.count(count_crossings.SCENARIOS[name])
    assert 0 < len(found) <= MOST[name], "\n".join(f"{a} -> {b}" for a, b in found)


def test_crossings_are_between_files_of_the_package():
    found = count_crossings.count(count_crossings.chain)
    assert all(caller[0] != callee[0] for caller, callee in found)
    assert (("estimators/base.py", "BaseSVM._train"), ("train.py", "train")) in found
    assert len(set(found)) == len(found)
