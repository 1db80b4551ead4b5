"""Models that read attributes: chains, classes, graphs, streams and searches."""

import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import maxmargin as mm
from attribute_cases import assert_same
from maxmargin import models
from maxmargin.data import AttributeEncoder


def test_what_was_encoded_keeps_its_names_when_the_encoder_learns_again():
    encoder = AttributeEncoder()
    X = encoder.fit_transform(SENTENCES)
    svm = tagger().fit(X, TAGS)
    before = svm.predict(SENTENCES)
    encoder.fit([[{"other": "names"}], [{"w": "dog"}]])
    assert len(X.encoder.get_feature_names_out()) == X.n_features > encoder.n_features_
    assert same(svm.predict(SENTENCES), before)
    names = encoder.get_feature_names_out().tolist()
    with pytest.raises(ValueError, match="token 0"):  # a fit that fails changes no state
        encoder.fit([[3]])
    assert encoder.get_feature_names_out().tolist() == names


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


# Models.


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
    with pytest.raises(ValueError, match="a different encoder"):
        svm.predict(AttributeEncoder().fit_transform(SENTENCES[1:]))
    with pytest.raises(ValueError, match="holds attributes, but the model was trained on arrays"):
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
    assert (expected.predict(FLAT) == svm.predict(FLAT)).all()  # the matrix carries its encoder
    plain = kind(random_state=0).fit(matrix.copy(), y)
    with pytest.raises(ValueError, match="trained on arrays"):
        plain.predict(FLAT)
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
    assert svm._memory.layout.kind == "sequences"
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
    svm.model_.initialize(X[1:], TAGS[1:])  # repeated on other data
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
