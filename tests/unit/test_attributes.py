"""Attributes as features: the compiled encoder against its slow twin, its manners, and models that use it."""

import os
import pickle
import subprocess
import sys
from collections import OrderedDict, UserDict
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.feature_extraction import DictVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import maxmargin as mm
from maxmargin import models
from maxmargin.data import AttributeEncoder
from reference.attributes import Vocabulary, hashed

# Few and short ones, so that names meet: "a=b" is also {"a": "b"}.
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


def assert_same(found, expected):
    """The same matrices; zeros that the twin stores are left out."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        other.eliminate_zeros()
        assert one.shape == other.shape and one.dtype == other.dtype
        for part in ("data", "indices", "indptr"):
            left, right = getattr(one, part), getattr(other, part)
            assert left.dtype == right.dtype and left.tobytes() == right.tobytes()


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
    """More names than are looked up at once; what is no string takes its number in its turn."""
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
    # files of before hold the names alone
    again = AttributeEncoder.from_state(encoder.state()["names"], sequences=True)
    assert_same(again.transform(X), list(expected))


# What cannot be read


class Crooked:
    def __float__(self):
        raise KeyError("crooked")


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


@pytest.mark.parametrize("node", BAD_NODES.values(), ids=BAD_NODES.keys())
@pytest.mark.parametrize("width", [None, 8])
def test_a_node_that_cannot_be_read_is_named(node, width):
    encoder = AttributeEncoder(n_features=width, sequences=True).fit([["a"]])
    for read in (encoder.transform, encoder.fit):
        with pytest.raises(ValueError, match=r"^X\[1\], token 2: expected a string.*got") as error:
            read([["a"], ["b", {"c": 1}, node]])
        assert str(error.value).endswith(repr(node))


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


# Manners


def test_manners_of_scikit_learn():
    encoder = AttributeEncoder(min_count=2)
    assert encoder.get_params() == {"min_count": 2, "n_features": None, "sequences": None}
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
    with pytest.raises(ValueError, match="encoded already"):
        encoded.encoder.transform(encoded)


def test_what_was_encoded_keeps_its_names_when_the_encoder_learns_again():
    encoder = AttributeEncoder()
    X = encoder.fit_transform(SENTENCES)
    svm = tagger().fit(X, TAGS)
    before = svm.predict(SENTENCES)
    encoder.fit([[{"other": "names"}], [{"w": "dog"}]])
    assert len(X.encoder.get_feature_names_out()) == X.n_features > encoder.n_features_
    assert same(svm.predict(SENTENCES), before)
    names = encoder.get_feature_names_out().tolist()
    with pytest.raises(ValueError, match="token 0"):  # a fit that fails changes nothing
        encoder.fit([[3]])
    assert encoder.get_feature_names_out().tolist() == names


@pytest.mark.parametrize("X", [np.eye(2), [np.eye(2)], sp.eye(2, format="csr")], ids=str)
def test_numbers_are_refused(X):
    with pytest.raises(ValueError, match="holds numbers"):
        AttributeEncoder().fit(X)


def test_data_frames():
    frames = [
        pd.DataFrame({"w": ["the", "dog"], "len": [3, 3], "tag": ["DT", None]}),
        pd.DataFrame({"w": ["runs"], "len": [np.nan], "tag": pd.Categorical(["VB"])}),
    ]
    dicts = [
        [{"w": "the", "len": 3, "tag": "DT"}, {"w": "dog", "len": 3}],
        [{"w": "runs", "tag": "VB"}],
    ]
    assert_same(
        AttributeEncoder().fit_transform(frames), list(AttributeEncoder().fit_transform(dicts))
    )
    rows = AttributeEncoder().fit_transform(frames[0])
    assert (rows.toarray() == AttributeEncoder().fit_transform(dicts[0]).toarray()).all()
    Y = [["D", "N"], ["V"]]
    left, right = (tagger().fit(X, Y) for X in (frames, dicts))
    assert left.coef_.tobytes() == right.coef_.tobytes()
    assert [list(y) for y in left.predict(frames)] == [list(y) for y in right.predict(dicts)]


# Models


def tagger(**params):
    return mm.StructuralSVM(models.Chain(), tol=1e-4, random_state=0, **params)


WORDS = [["the", "dog", "runs"], ["a", "cat"], ["dogs", "run"], ["the", "cats"]] * 3
SENTENCES = [[{"w": w, "end": w[-1], "len": len(w) / 9} for w in words] for words in WORDS]
TAGS = [["D", "N", "V"], ["D", "N"], ["N", "V"], ["D", "N"]] * 3


def test_attributes_are_read_once_in_a_fit(monkeypatch):
    calls = []
    encode = AttributeEncoder.encode
    monkeypatch.setattr(
        AttributeEncoder, "encode", lambda self, *a, **k: calls.append(1) or encode(self, *a, **k)
    )
    tagger().fit(SENTENCES, TAGS)
    assert len(calls) == 1
    mm.MulticlassSVC().fit(SENTENCES[0], TAGS[0])
    assert len(calls) == 2
    graph = [(x, [[t, t + 1] for t in range(len(x) - 1)]) for x in SENTENCES]
    mm.StructuralSVM(models.FactorGraph(), tol=0.1).fit(graph, TAGS)
    assert len(calls) == 3
    mm.StructuralSVM(models.MultiLabel(), tol=0.1).fit(SENTENCES[0], [["x"], ["x", "y"], []])
    assert len(calls) == 4
    mm.StructuralSVM(models.Kernel(models.Chain(), gamma=0.5), tol=0.1).fit(SENTENCES, TAGS)
    assert len(calls) == 5


def test_encoded_data_train_the_same_model_which_reads_attributes():
    expected = tagger().fit(SENTENCES, TAGS)
    encoder = AttributeEncoder()
    X = encoder.fit_transform(SENTENCES)
    svm = tagger().fit(X, TAGS)
    assert svm.coef_.tobytes() == expected.coef_.tobytes()
    assert (svm.model_.feature_names_ == encoder.get_feature_names_out()).all()
    new = [[{"w": "dog", "never": 1.0}]]
    for data in (SENTENCES, new, X, [X[0], X[1]]):
        assert same(svm.predict(data), expected.predict(data))
    assert svm.score(X, TAGS) == expected.score(SENTENCES, TAGS)
    assert mm.certify(svm, X, TAGS).converged
    assert svm.predict_k_best(X[:1], 2)[0][0][1] == svm.predict_k_best(SENTENCES[:1], 2)[0][0][1]


def same(left, right):
    return [list(y) for y in left] == [list(y) for y in right]


def test_search_over_encoded_data_keeps_the_names():
    X = AttributeEncoder(min_count=2).fit_transform(SENTENCES)
    search = GridSearchCV(tagger(), {"C": [0.1, 1.0]}, cv=3, error_score="raise").fit(X, TAGS)
    best = search.best_estimator_
    assert best.model_.encoder_ is X.encoder
    assert same(search.predict(SENTENCES), best.predict(X))


def test_a_pipeline_reads_attributes():
    pipeline = make_pipeline(AttributeEncoder(n_features=64), tagger()).fit(SENTENCES, TAGS)
    assert pipeline.score(SENTENCES, TAGS) > 0.9


def test_another_encoder_is_refused():
    svm = tagger().fit(SENTENCES, TAGS)
    with pytest.raises(ValueError, match="another encoder"):
        svm.predict(AttributeEncoder().fit_transform(SENTENCES[1:]))
    with pytest.raises(ValueError, match="trained on arrays, but got attributes"):
        tagger().fit([np.eye(2)] * 2, [["x", "y"]] * 2).predict(SENTENCES)
    again = AttributeEncoder().fit_transform(SENTENCES)
    assert same(svm.predict(again), svm.predict(SENTENCES))


@pytest.mark.parametrize("options", [{}, {"min_count": 3}, {"n_features": 50}], ids=str)
def test_models_and_encoders_round_trip_through_files(tmp_path, options):
    X = AttributeEncoder(**options).fit_transform(SENTENCES)
    svm = tagger().fit(X, TAGS)
    svm.save(tmp_path / "tagger")
    loaded = mm.load(tmp_path / "tagger")
    assert loaded.model_.encoder_.same_columns(X.encoder)
    assert loaded.model_.encoder_.get_params() | {"sequences": None} == X.encoder.get_params()
    assert same(loaded.predict(SENTENCES), svm.predict(X))
    again = pickle.loads(pickle.dumps(svm))
    assert same(again.predict(SENTENCES), svm.predict(X))


FLAT = [{"w": w, "end": w[-1]} for words in WORDS for w in words]
LABELS = [tag for tags in TAGS for tag in tags]


@pytest.mark.parametrize("kind", [mm.MulticlassSVC, mm.BinarySVC], ids=lambda kind: kind.__name__)
def test_classifiers_take_dicts(tmp_path, kind):
    y = [label == "N" for label in LABELS] if kind is mm.BinarySVC else LABELS
    matrix = AttributeEncoder().fit_transform(FLAT)
    expected = kind(random_state=0).fit(matrix, y)
    svm = kind(random_state=0).fit(FLAT, y)
    assert np.allclose(svm.coef_, expected.coef_, atol=1e-9)
    assert (svm.predict(FLAT) == expected.predict(matrix)).all()
    assert svm.score(FLAT, y) == expected.score(matrix, y)
    assert svm.predict([{"w": "dog", "never": 1}]).shape == (1,)
    assert svm.n_features_in_ == matrix.shape[1] == len(svm.model_.feature_names_)
    svm.save(tmp_path / "svc")
    assert (mm.load(tmp_path / "svc").predict(FLAT) == svm.predict(FLAT)).all()
    with pytest.raises(ValueError, match="trained on arrays"):
        expected.predict(FLAT)
    rows = AttributeEncoder(sequences=False).encode(FLAT, learn=True)
    search = GridSearchCV(kind(), {"C": [0.1, 1.0]}, cv=2, error_score="raise").fit(rows, y)
    assert (search.predict(FLAT) == search.predict(rows)).all()


def test_structural_models_take_dicts_as_rows(tmp_path):
    sets = [["noun"] if label == "N" else ["other", "short"] for label in LABELS]
    cases = [(models.Multiclass(bias=1.0), LABELS), (models.MultiLabel(bias=1.0), sets)]
    matrix = AttributeEncoder().fit_transform(FLAT)
    for model, Y in cases:
        expected = mm.StructuralSVM(model, tol=1e-3, random_state=0).fit(matrix, Y)
        svm = mm.StructuralSVM(model, tol=1e-3, random_state=0).fit(FLAT, Y)
        assert np.allclose(svm.coef_, expected.coef_)
        assert list(svm.predict(FLAT)) == list(expected.predict(matrix))
        psi = svm.model_.joint_feature(FLAT[0], Y[0])
        assert (psi == expected.model_.joint_feature(matrix[0], Y[0])).all()
        assert svm.model_.inference(FLAT[0], svm.coef_) == svm.predict(FLAT[:1])[0]
        svm.save(tmp_path / "model")
        assert list(mm.load(tmp_path / "model").predict(FLAT)) == list(svm.predict(FLAT))


def test_graphs_take_dicts_as_nodes(tmp_path):
    edges = [[[t, t + 1] for t in range(len(x) - 1)] for x in SENTENCES]
    X = list(zip(SENTENCES, edges, strict=True))
    rows = AttributeEncoder().fit_transform(SENTENCES)
    expected = mm.StructuralSVM(models.FactorGraph(), tol=1e-4, random_state=0)
    expected.fit([(x, e) for x, e in zip(rows, edges, strict=True)], TAGS)
    svm = mm.StructuralSVM(models.FactorGraph(), tol=1e-4, random_state=0).fit(X, TAGS)
    assert svm.coef_.tobytes() == expected.coef_.tobytes()
    assert list(svm.model_.feature_names_) == list(rows.encoder.get_feature_names_out())
    svm.save(tmp_path / "graph")
    assert same(mm.load(tmp_path / "graph").predict(X), svm.predict(X))
    encoded = models.FactorGraph().convert(X)
    assert same(svm.predict(encoded), svm.predict(X))
    search = GridSearchCV(svm, {"C": [0.1, 1.0]}, cv=2, error_score="raise").fit(encoded, TAGS)
    assert same(search.predict(X), search.predict(encoded))
    with pytest.raises(ValueError, match=r"X\[1\]\[0\], node 1: expected"):
        svm.predict([X[0], ([{"a": 1}, {"b": 1j}], [])])


def test_graphs_with_types_take_dicts_as_nodes(tmp_path):
    types = [["u" if t % 2 else "v" for t in range(len(x))] for x in SENTENCES]
    edges = [[[t, t + 1] for t in range(len(x) - 1)] for x in SENTENCES]
    mixed = list(zip(SENTENCES, edges, [None] * len(edges), types, strict=True))
    split = [
        ({k: [n for n, t in zip(x, own, strict=True) if t == k] for k in set(own)}, e, None, own)
        for x, e, _, own in mixed
    ]
    Y = [["abc"[ord(w[-1]) % 3] for w in words] for words in WORDS]
    svm = mm.StructuralSVM(models.FactorGraph(), tol=1e-4, random_state=0).fit(mixed, Y)
    assert same(svm.predict(split), svm.predict(mixed))
    svm.save(tmp_path / "graph")
    assert same(mm.load(tmp_path / "graph").predict(split), svm.predict(mixed))


def test_chunks_of_attributes():
    svm = tagger()
    for k in range(0, 12, 4):
        svm.partial_fit(SENTENCES[k : k + 4], TAGS[k : k + 4])
    assert svm.memory_.layout.kind == "sequences"
    assert same(svm.predict(SENTENCES), TAGS)
    chunks = [(SENTENCES[k : k + 4], TAGS[k : k + 4]) for k in range(0, 12, 4)]
    stream = mm.StructuralSVM(models.Chain(), solver="streaming", tol=1e-3, random_state=0)
    assert same(stream.fit(chunks).predict(SENTENCES), TAGS)
    whole = tagger().fit(SENTENCES, TAGS)
    assert stream.certificate_.primal == pytest.approx(whole.certificate_.primal, abs=0.02)
    svc = mm.MulticlassSVC()
    svc.partial_fit(FLAT, LABELS)
    svc.partial_fit(FLAT, LABELS)
    assert svc.predict(FLAT).tolist() == LABELS


def test_edges_of_a_chain_take_attributes(tmp_path):
    between = [
        [{"same": a[0] == b[0], "ends": a[-1] + b[-1]} for a, b in pairwise(words)]
        for words in WORDS
    ]
    X = list(zip(SENTENCES, between, strict=True))
    model = models.Chain(edges=True)
    rows = [AttributeEncoder().fit_transform(part) for part in (SENTENCES, between)]
    expected = mm.StructuralSVM(model, tol=1e-4, random_state=0)
    expected.fit(list(zip(*rows, strict=True)), TAGS)
    svm = mm.StructuralSVM(model, tol=1e-4, random_state=0).fit(X, TAGS)
    assert svm.coef_.tobytes() == expected.coef_.tobytes()
    svm.save(tmp_path / "edges")
    assert same(mm.load(tmp_path / "edges").predict(X), svm.predict(X))
    encoded = models.Chain(edges=True).convert(X)
    search = GridSearchCV(svm, {"C": [0.1, 1.0]}, cv=2, error_score="raise").fit(encoded, TAGS)
    assert same(search.predict(X), search.predict(encoded))
    psi = svm.model_.joint_feature(X[0], TAGS[0])
    assert (psi == svm.model_.joint_feature(encoded[0], TAGS[0])).all()
    with pytest.raises(ValueError, match=r"X\[0\]\[1\], edge 1: expected"):
        svm.predict([(SENTENCES[0], [{"ends": "ab"}, {"ends": 1j}])])
    svm.model_.initialize(X[1:], TAGS[1:])  # again, on other data
    assert svm.model_.edges_.encoder is not None


def test_unknown_labels_keep_the_names_of_all_nodes():
    Y = [list(tags) for tags in TAGS]
    Y[0][1], Y[5][0] = None, None
    svm = mm.LatentSVM(models.Chain(), tol=1e-3, random_state=0).fit(SENTENCES, Y)
    names = svm.model_.inner_.feature_names_
    assert list(names) == list(tagger().fit(SENTENCES, TAGS).model_.feature_names_)
    assert same(svm.predict(SENTENCES), TAGS)


def test_searches_for_a_c_read_attributes_once(monkeypatch):
    learnt = []
    encode = AttributeEncoder.encode

    def counted(self, X, learn=False, **options):
        learnt.append(learn)
        return encode(self, X, learn, **options)

    monkeypatch.setattr(AttributeEncoder, "encode", counted)
    mm.regularization_path(tagger(), SENTENCES, TAGS, Cs=[0.1, 1.0])
    assert learnt == [True]
    search = mm.StructuralSVMCV(models.Chain(), Cs=[0.1, 1.0], cv=3, tol=0.1).fit(SENTENCES, TAGS)
    assert learnt == [True] * 2
    assert same(search.predict(SENTENCES), TAGS)
    flat = mm.MulticlassSVCCV(Cs=[0.1, 1.0], cv=2).fit(FLAT, LABELS)
    assert learnt == [True, True, False, True]
    assert flat.predict(FLAT).tolist() == LABELS


def test_a_scorer_of_the_user_sees_the_attributes():
    seen = []

    def score(svm, X, Y):
        seen.append(X)
        return svm.score(X, Y)

    mm.StructuralSVMCV(models.Chain(), Cs=[0.1], cv=3, tol=0.1, scoring=score).fit(SENTENCES, TAGS)
    assert sorted(map(str, SENTENCES)) == sorted(str(x) for part in seen for x in part)
