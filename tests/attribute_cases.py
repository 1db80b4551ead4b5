"""Strategies that draw described nodes of every kind and nodes that cannot be read; a comparison of
matrices."""

from collections import OrderedDict, UserDict

import numpy as np
from hypothesis import strategies as st

# The names are few and short, so that different descriptions collide: "a=b" is also {"a": "b"}.
TEXTS = st.text("ab=:é日\ud800😀", max_size=4)
NUMBERS = st.one_of(
    st.floats(-1e9, 1e9), st.booleans(), st.integers(-5, 5), st.sampled_from([np.float32(0.5)])
)
OLD_VALUES = TEXTS | NUMBERS | TEXTS.map(np.str_)
OLD_DICTS = st.dictionaries(TEXTS | st.integers(0, 3), OLD_VALUES, max_size=5)
OLD_NODES = st.one_of(
    TEXTS,
    st.lists(TEXTS, max_size=5),
    st.lists(TEXTS | st.integers(0, 2) | st.tuples(TEXTS), max_size=5),
    st.lists(TEXTS, max_size=3).map(tuple),
    st.frozensets(TEXTS, max_size=4),
    OLD_DICTS,
    OLD_DICTS.map(OrderedDict),
    OLD_DICTS.map(UserDict),
)
VALUES = st.recursive(
    OLD_VALUES | st.none() | st.lists(TEXTS, max_size=3) | st.frozensets(TEXTS, max_size=3),
    lambda inner: st.dictionaries(TEXTS | st.integers(0, 3), inner, max_size=3),
    max_leaves=4,
)
STRING_NODES = TEXTS | st.lists(TEXTS, max_size=5) | st.dictionaries(TEXTS, VALUES, max_size=5)


def sentences(nodes):
    return st.lists(st.lists(nodes, max_size=4), max_size=5)


LOOP: dict = {}
LOOP["self"] = LOOP
BAD_NODES = {
    "a number": 3,
    "numbers in a list": {"colour": [1, 2]},
    "a list in a list": {"colour": [["red"]]},
    "no hash": [["red"]],
    "a complex number": {"z": 1j},
    "a number that no float holds": {"n": 10**400},
    "bytes": {"n": b"three"},
    "a dict in itself": LOOP,
    "nothing": None,
}


def assert_same(found, expected):
    """Assert that the matrices are equal; zeros that the twin stores are dropped first."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        other.eliminate_zeros()
        assert one.shape == other.shape and one.dtype == other.dtype
        for part in ("data", "indices", "indptr"):
            left, right = getattr(one, part), getattr(other, part)
            assert left.dtype == right.dtype and left.tobytes() == right.tobytes()
