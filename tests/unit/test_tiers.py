"""The fast tier of the suite: the tests of `make check`, and the list of slow tests."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import tiers

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import record_slow_tests


def cases(*values):
    """Return cases of a test with these values of its parameters a, b, ..."""
    return [Case(dict(zip("abc", own, strict=False))) for own in values]


class Case:
    """The attributes of a collected case."""

    def __init__(self, params):
        self.callspec = SimpleNamespace(params=params)


def test_every_value_of_every_parameter_appears():
    family = cases(*[(i, j) for i in range(3) for j in range(5)])
    found = [tuple(case.callspec.params.values()) for case in tiers.representatives(family)]
    assert len(found) == 5
    assert {i for i, _ in found} == set(range(3)) and {j for _, j in found} == set(range(5))


def test_values_without_a_hash_differ_by_where_they_are():
    lists = [[1], [1]]
    family = cases((lists[0],), (lists[1],), (lists[0],))
    assert len(tiers.representatives(family)) == 2


def test_single_parameters_lose_no_case():
    family = cases(("x",), ("y",), ("z",))
    assert len(tiers.representatives(family)) == 3


def test_the_list_names_cases_or_whole_tests():
    seconds = {"a::t[1]": 0.5, "a::t[2]": 0.01, "a::u[1]": 0.5, "a::u[2]": 0.6, "a::v": 0.01}
    assert record_slow_tests.slow_names(seconds, 0.1) == {"a::t[1]", "a::u"}


def test_what_did_not_run_stays_in_the_list():
    known = {"b::w[3]", "a::t[9]", "a::v", "a::u"}
    seconds = {"a::t[1]": 9.0, "a::t[2]": 0.0, "a::v": 0.0}
    assert record_slow_tests.merged(known, seconds) == ["a::t[1]", "a::u", "b::w[3]"]


def test_recorded_names_are_tests_that_exist():
    root = Path(__file__).parents[2]
    for name in tiers.RECORDED:
        file, test = name.split("[")[0].split("::")
        assert f"def {test}(" in (root / file).read_text(), name


@pytest.mark.parametrize(
    "name", ["tests/laws/test_run_laws.py::test_a", "tests/unit/test_fuzz.py::test_b[1]"]
)
def test_whole_folders_are_slow(name):
    assert tiers.is_slow(name)
