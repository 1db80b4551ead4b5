"""Attributes as features: the compiled encoder against its slow twin, and scikit-learn's conventions."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.feature_extraction import DictVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import maxmargin as mm
from attribute_cases import (
    BAD_NODES,
    OLD_NODES,
    STRING_NODES,
    TEXTS,
    VALUES,
    assert_same,
    sentences,
)
from maxmargin.data import AttributeEncoder
from maxmargin.io.quoting import short
from reference.attributes import Vocabulary, hashed


@given(sentences(OLD_NODES), sentences(OLD_NODES))
def test_the_matrix_is_that_of_the_plain_reading(X, new):
    truth, encoder = Vocabulary(), AttributeEncoder(sequences=True)
    assert_same(encoder.fit_transform(X), truth.transform(X, grow=True))
    assert list(encoder.get_feature_names_out()) == list(truth.index)
    assert_same(encoder.transform(X), truth.transform(X))
    assert_same(encoder.transform(new), truth.transform(new))


@given(sentences(st.dictionaries(TEXTS | st.integers(0, 3), VALUES, max_size=5)), st.integers(1, 4))
def test_lists_dicts_and_none_as_values_and_rare_names(X, least):
    truth = Vocabulary()
    truth.transform(X, grow=True)
    truth = truth.frequent(least) if least > 1 else truth
    encoder = AttributeEncoder(min_count=least, sequences=True)
    assert_same(encoder.fit_transform(X), truth.transform(X))
    assert list(encoder.get_feature_names_out()) == list(truth.index)
    assert_same(encoder.transform(X), truth.transform(X))


def test_long_rows_of_names_of_every_length():
    """There are more names than one lookup handles; a key that is not a string gets its column in turn."""
    names = [text * k for text in ("a", "ab", "\N{GREEK SMALL LETTER ALPHA}b") for k in range(20)]
    first = dict.fromkeys([*names[:25], 7, *names[25:], 2.5], 1.0)
    encoder = AttributeEncoder().fit([[first, names[::-1]]])
    assert encoder.get_feature_names_out().tolist() == list(first)
    found = encoder.transform([[["new", *names, "new", *names]]])[0].toarray()[0]
    counts = {name: 2.0 * names.count(name) for name in names}
    assert found.tolist() == [counts.get(name, 0.0) for name in first]


@given(sentences(STRING_NODES), st.integers(1, 50))
def test_hashed_columns(X, width):
    encoder = AttributeEncoder(n_features=width, sequences=True).fit([])
    assert_same(encoder.transform(X), hashed(X, width))


@given(sentences(OLD_NODES))
def test_copies_read_alike(X):
    encoder = AttributeEncoder(sequences=True)
    expected = encoder.fit_transform(X)
    again = pickle.loads(pickle.dumps(encoder))
    assert again.same_columns(encoder) and encoder.same_columns(again)
    assert_same(again.transform(X), list(expected))


@given(sentences(STRING_NODES))
def test_the_state_of_a_file_reads_alike(X):
    encoder = AttributeEncoder(sequences=True)
    expected = encoder.fit_transform(X)
    again = AttributeEncoder.from_state(encoder.state(), sequences=True)
    assert_same(again.transform(X), list(expected))
    # Older files store only the names.
    again = AttributeEncoder.from_state(encoder.state()["names"], sequences=True)
    assert_same(again.transform(X), list(expected))


# Unreadable nodes.


class Crooked:
    def __float__(self):
        raise KeyError("crooked")


@pytest.mark.parametrize("node", BAD_NODES.values(), ids=BAD_NODES.keys())
@pytest.mark.parametrize("width", [None, 8])
def test_a_node_that_cannot_be_read_is_named(node, width):
    encoder = AttributeEncoder(n_features=width, sequences=True).fit([["a"]])
    for read in (encoder.transform, encoder.fit):
        with pytest.raises(ValueError, match=r"^X\[1\], token 2: expected a string.*got") as error:
            read([["a"], ["b", {"c": 1}, node]])
        assert str(error.value).endswith(short(node))


def test_flat_nodes_are_named_by_their_number():
    with pytest.raises(ValueError, match=r"^X\[1\]: expected a string"):
        AttributeEncoder().fit([{"a": 1}, {"b": 1j}])


def test_an_error_of_the_users_own_passes():
    with pytest.raises(KeyError, match="crooked"):
        AttributeEncoder(sequences=True).fit([[{"a": Crooked()}]])


def test_names_that_are_no_strings_have_no_hash():
    with pytest.raises(ValueError, match=r"X\[0\], token 0"):
        AttributeEncoder(n_features=8, sequences=True).fit_transform([[{5: 1.0}]])


@pytest.mark.parametrize(
    "params, text",
    [
        ({"min_count": 0}, "min_count"),
        ({"n_features": 0}, "n_features"),
        ({"n_features": 2**31}, "n_features"),
        ({"n_features": 4, "min_count": 2}, "min_count"),
        ({"sequences": "yes"}, "sequences"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_parameters_are_checked(params, text):
    with pytest.raises(ValueError, match=text):
        AttributeEncoder(**params).fit([["a"]])


@pytest.mark.parametrize("X", ["abc", {"a": 1}, 3])
def test_what_is_no_list_is_refused(X):
    with pytest.raises(ValueError, match="X must be a sequence"):
        AttributeEncoder(sequences=False).fit(X)


def test_a_dict_that_changes_while_it_is_read():
    class Growing:
        def __float__(self):
            node.update({f"k{i}": float(i) for i in range(1000)})
            return 1.0

    node = {"a": Growing(), "b": 2.0}
    encoder = AttributeEncoder(sequences=True).fit([[node]])
    assert encoder.get_feature_names_out()[0] == "a"


# Conventions of scikit-learn.


def test_manners_of_scikit_learn():
    encoder = AttributeEncoder(min_count=2)
    assert encoder.get_params() == {
        "min_count": 2,
        "n_features": None,
        "sequences": None,
        "n_jobs": None,
    }
    fitted = clone(encoder).fit([{"a": 1.0, "b": "x"}, {"a": 2.0}])
    assert fitted.get_feature_names_out().tolist() == ["a"] and fitted.n_features_ == 1
    with pytest.raises(ValueError, match="not fitted"):
        encoder.transform([{"a": 1.0}])
    with pytest.raises(ValueError, match="not fitted"):
        encoder.get_feature_names_out()
    hashing = AttributeEncoder(n_features=3).fit([])
    assert hashing.get_feature_names_out().tolist() == ["hash0", "hash1", "hash2"]


def test_flat_nodes_are_a_matrix_as_scikit_learn_reads_them():
    X = [{"a": 1.0, "b": "x"}, {"b": "y", "c": True}, {}]
    mine, theirs = AttributeEncoder(), DictVectorizer()
    matrix = mine.fit_transform(X)
    assert isinstance(matrix, sp.csr_matrix)
    order = [mine.get_feature_names_out().tolist().index(n) for n in theirs.fit(X).feature_names_]
    assert (matrix.toarray()[:, order] == theirs.transform(X).toarray()).all()
    y = [0, 1, 1]
    assert make_pipeline(AttributeEncoder(), LinearSVC()).fit(X, y).predict(X).tolist() == y
    assert make_pipeline(AttributeEncoder(), mm.MulticlassSVC()).fit(X, y).predict(X).tolist() == y


def test_hashes_are_the_same_in_every_process():
    code = (
        "from maxmargin.data import AttributeEncoder as E;"
        "print(E(n_features=1000).fit([]).transform([{'a': 'b', 'é': 2}, ['c', 'd']]).indices.tolist())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1 and found.pop().startswith("[")


def test_encoded_sequences_are_indexed_by_numbers():
    X = [["a", "b"], ["c"], [], ["a", "d", "a"]]
    encoded = AttributeEncoder(sequences=True).fit_transform(X)
    assert len(encoded) == 4 and [x.shape[0] for x in encoded] == [2, 1, 0, 3]
    for key in ([3, 0], np.array([3, 0]), slice(None, None, -3), (np.array([3, 0]), ...)):
        some = encoded[key]
        assert some.encoder is encoded.encoder and len(some) == 2
        assert_same(some, [encoded[3], encoded[0]])
    mask = np.array([True, False, False, True])
    assert_same(encoded[mask], [encoded[0], encoded[3]])
    with pytest.raises(ValueError, match="already encoded"):
        encoded.encoder.transform(encoded)


@pytest.mark.parametrize("X", [np.eye(2), [np.eye(2)], sp.eye(2, format="csr")], ids=str)
def test_numbers_are_refused(X):
    with pytest.raises(ValueError, match="X holds numbers"):
        AttributeEncoder().fit(X)
