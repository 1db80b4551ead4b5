"""The core refuses offsets that do not rise from 0 to the number of items, whichever class takes them."""

import numpy as np
import pytest

from maxmargin._core import core

ROWS = 5
WRONG = {
    "none": [],
    "first": [1, 3, ROWS],
    "negative": [-2, 3, ROWS],
    "falls": [0, 4, 2, ROWS],
    "beyond": [0, 99, ROWS],
    "below zero": [0, -3, ROWS],
    "largest": [0, 2**63 - 1, -(2**63), ROWS],
    "last": [0, 3],
    "last beyond": [0, 3, 99],
}
EMPTY = [0, 3, 3, ROWS]  # a range without items


def rows():
    return core.dense64([np.arange(2.0 * ROWS).reshape(ROWS, 2)], 2, 0.0, True, 1).rows


def chain(offsets):
    none = np.empty(0)
    codes, illegal = np.zeros(ROWS, np.int32), np.empty(0, np.int64)
    costs = 1 - np.eye(2)
    return core.ChainData(
        rows(), 2, False, False, offsets, codes, none, costs.ravel(), False, illegal, None
    )


def ranking(offsets):
    return core.RankingData(rows(), offsets, np.arange(float(ROWS)))


def groups(offsets):
    return core.GroupsData(rows(), offsets, np.arange(ROWS), np.ones(ROWS), np.ones(ROWS))


def pairs(offsets):
    return core.Pairs(offsets, np.arange(ROWS, dtype=np.uint16), ROWS)


def grammar(offsets):
    code = np.zeros(1, np.int32)
    none = np.empty(0, np.int32)
    starts = np.zeros(1, np.int32)
    root = np.ones(1, np.uint8)
    rules = core.GrammarRules(1, 1, root, none, none, none, none, none, starts, none, code, code)
    return core.GrammarData(rules, offsets, np.zeros(ROWS, np.int32), none, False)


KINDS = {"chain": chain, "ranking": ranking, "groups": groups, "pairs": pairs, "grammar": grammar}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("kind", KINDS)
def test_wrong_offsets_are_refused(kind, wrong):
    with pytest.raises(ValueError, match=rf"offsets of .* must rise from 0 to {ROWS}, got"):
        KINDS[kind](np.array(WRONG[wrong], dtype=np.int64))


@pytest.mark.parametrize("kind", KINDS)
def test_right_offsets_are_taken(kind):
    KINDS[kind](np.array([0, 2, ROWS]))


@pytest.mark.parametrize("kind", KINDS)
def test_only_some_kinds_take_empty_ranges(kind):
    if kind in ("chain", "grammar"):
        with pytest.raises(ValueError, match="got 3 after 3"):
            KINDS[kind](np.array(EMPTY))
    else:
        KINDS[kind](np.array(EMPTY))
