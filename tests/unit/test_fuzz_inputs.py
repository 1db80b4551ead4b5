"""The fuzzers of inputs and of oracles in Python, a few cases each; `python -m fuzz.inputs` runs longer."""

import pytest
from fuzz import inputs, oracles
from fuzz.common import run

from reference.strategies import SEED


@pytest.mark.parametrize(
    "name, attempt", [("inputs", inputs.attempt), ("oracles", oracles.attempt)]
)
def test_nothing_is_found(name, attempt):
    tally = run(name, attempt, ["--cases", "150", "--seed", str(SEED)])
    assert tally.cases == 150
    assert not tally.finds
