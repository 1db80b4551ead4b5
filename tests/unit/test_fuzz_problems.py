"""The fuzzers of training, for a moment."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from fuzz import extremes, problems
from fuzz.common import run


@pytest.mark.parametrize("fuzzer", [problems, extremes], ids=["problems", "extremes"])
def test_nothing_is_found(seed, fuzzer):
    tally = run(fuzzer.__name__, fuzzer.attempt, ["--cases", "60", "--seed", str(seed)])
    assert tally.cases == 60
    assert not tally.finds
