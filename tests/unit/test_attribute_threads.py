"""Several threads read attributes as one thread does, for any input and with other readers present."""

import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import maxmargin as mm
from attribute_cases import BAD_NODES, OLD_NODES, STRING_NODES, assert_same, sentences
from maxmargin import models
from maxmargin.data import AttributeEncoder

# Threads start only for enough names: here 24,000. Every part has new names, and one name is long.
MANY = [
    [[f"w={i * 7 % 4001}", "b", f"{t}", f"n{i}"] for t in range(20)] + ["a" * (i == 200) * 2**20]
    for i in range(300)
]
JOBS = st.sampled_from([2, 3, 5])


def spread(X):
    """Return these sentences at the beginning, in the middle and at the end of many."""
    return [*X, *MANY[:150], *X, *MANY[150:], *X]


def read(X, **options):
    encoder = AttributeEncoder(sequences=True, **options)
    return encoder, encoder.fit_transform(X)


def assert_same_whole(found, expected):
    assert found.offsets.tobytes() == expected.offsets.tobytes()
    assert_same(found.parts, expected.parts)


@given(sentences(OLD_NODES), sentences(OLD_NODES), JOBS, st.integers(1, 3))
def test_the_same_columns_and_rows_for_any_number_of_threads(X, new, n_jobs, least):
    one, expected = read(spread(X), min_count=least)
    several, found = read(spread(X), min_count=least, n_jobs=n_jobs)
    assert_same_whole(found, expected)
    assert several.same_columns(one)
    assert list(several.get_feature_names_out()) == list(one.get_feature_names_out())
    assert_same_whole(several.transform(spread(new)), one.transform(spread(new)))
    assert_same_whole(several.extend(spread(new)), one.extend(spread(new)))
    assert several.same_columns(one)


@given(sentences(STRING_NODES), JOBS)
def test_the_same_hashed_columns(X, n_jobs):
    expected = read(spread(X), n_features=1000)[1]
    assert_same_whole(read(spread(X), n_features=1000, n_jobs=n_jobs)[1], expected)


@pytest.mark.parametrize("node", BAD_NODES.values(), ids=BAD_NODES.keys())
@pytest.mark.parametrize("place", [0, 140, 300])
def test_the_same_error_for_the_same_node(node, place):
    X = [
        *MANY[:place],
        ["a", {"new": 1.0, 7: 2.0}, ["newer", 8, "newest"], node, "b"],
        *MANY[place:],
    ]
    messages, names = set(), set()
    for n_jobs in (1, 2, 4):
        encoder = AttributeEncoder(sequences=True, n_jobs=n_jobs).fit([["b", "a"]])
        for call in (encoder.transform, encoder.extend):
            with pytest.raises(ValueError, match=rf"^X\[{place}\], token 3: expected") as error:
                call(X)
            messages.add(str(error.value))
        names.add(tuple(encoder.get_feature_names_out()))
    assert len(messages) == len(names) == 1
    assert names.pop()[-5:] == ("new", 7, "newer", 8, "newest")


class Raising:
    def __float__(self):
        raise KeyError("crooked")


def test_an_error_of_the_users_own_ends_all_threads():
    before = threading.active_count()
    with pytest.raises(KeyError, match="crooked"):
        read([*MANY, [{"a": Raising()}]], n_jobs=4)
    assert threading.active_count() == before


def test_what_changes_while_it_is_read():
    """Conversions to float may change the lists around them and let other Python threads run."""

    class Changing:
        def __float__(self):
            sentence[:] = sentence[:2]
            node.clear()
            node.update({f"k{k}": 1.0 for k in range(100)})
            X.append(["later"])
            time.sleep(0)
            return 1.0

    names = set()
    for n_jobs in (1, 3):
        node = {"a": Changing(), "b": 2.0}
        sentence = [["x"], node, ["never"]]
        X = [*MANY, sentence]
        names.add(tuple(read(X, n_jobs=n_jobs)[0].get_feature_names_out()))
    assert len(names) == 1
    found = names.pop()
    assert "a" in found and "later" in found and "never" not in found


def test_readers_of_one_table_while_it_grows():
    """Some threads look up names while others add names; known names keep their columns."""

    class Yielding:
        def __float__(self):
            time.sleep(0.001)
            return 1.0

    encoder = AttributeEncoder(sequences=True, n_jobs=3).fit(MANY)
    known = list(encoder.get_feature_names_out())
    expected = encoder.transform(MANY).parts[0]
    failed = []

    def work(k):
        try:
            X = [
                x
                for i, own in enumerate(MANY)
                for x in (own, [{"pause": Yielding()}])[: 1 + (i % 50 == 0)]
            ]
            if k % 2:
                encoder.extend([*X, [[f"own{k}_{j}" for j in range(9000)]]])
            found = encoder.transform(MANY).parts[0]
            assert np.array_equal(found.indices, expected.indices)
            assert np.array_equal(found.data, expected.data)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    names = list(encoder.get_feature_names_out())
    assert names[: len(known)] == known and len(set(names)) == len(names)
    assert {f"own{k}_{j}" for k in (1, 3) for j in range(9000)} <= set(names)


# From the estimators to the encoder.

SENTENCES = [[["a", "b"], ["c"]], [["b"], ["a"]], [["c"], ["a", "c"]]]
TAGS = [["N", "V"], ["V", "N"], ["V", "N"]]
NODES, CLASSES = [{"a": 1.0}, {"b": "x"}, {"a": 2.0, "c": 1.0}], [0, 1, 0]
GRAPHS = [(x, np.array([[0, 1]])) for x in SENTENCES]
EDGED = [(x, [["same"]]) for x in SENTENCES]


def calls():
    """Yield names of estimators, and the data for fit and predict."""
    chain = models.Chain
    yield "chain", mm.StructuralSVM(chain()), SENTENCES, TAGS
    yield "edges", mm.StructuralSVM(chain(edges=True)), EDGED, TAGS
    yield "graph", mm.StructuralSVM(models.FactorGraph()), GRAPHS, TAGS
    yield "kernel", mm.StructuralSVM(models.Kernel(chain())), SENTENCES, TAGS
    yield "crf", mm.CRF(chain()), SENTENCES, TAGS
    yield "latent", mm.LatentSVM(models.Latent(chain(), parts=2)), SENTENCES, TAGS
    yield "multiclass", mm.MulticlassSVC(), NODES, CLASSES
    yield "binary", mm.BinarySVC(), NODES, CLASSES


@pytest.fixture
def used(monkeypatch):
    """Record the numbers of threads that encoders were asked to use."""
    found, encode = [], AttributeEncoder.encode

    def spy(self, X, **options):
        found.append(options.get("n_jobs"))
        return encode(self, X, **options)

    monkeypatch.setattr(AttributeEncoder, "encode", spy)
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("svm, X, Y", [pytest.param(*rest, id=name) for name, *rest in calls()])
def test_threads_of_an_estimator_read_its_attributes(svm, X, Y, used):
    svm.set_params(n_jobs=2, max_passes=2, random_state=0).fit(X, Y)
    assert used and set(used) == {2}
    for call in (svm.predict, getattr(svm, "decision_function", svm.predict)):
        used.clear()
        call(X)
        assert used and set(used) == {2}
    used.clear()
    found = svm.set_params(n_jobs=None).predict(X)
    assert used and set(used) == {1}
    assert str(found) == str(svm.set_params(n_jobs=2).predict(X))


@pytest.mark.filterwarnings("ignore")
def test_threads_of_an_estimator_read_chunks(used):
    svm = mm.StructuralSVM(models.Chain(), solver="streaming", n_jobs=2, max_passes=2)
    svm.fit([(SENTENCES, TAGS), (SENTENCES, TAGS)])
    assert used and set(used) == {2}
