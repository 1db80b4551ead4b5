"""Views of weights: their terms add up to the score of every output, for every model."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import maxmargin as mm
from maxmargin import metrics, models
from maxmargin.data.synthetic import random_chains, random_multiclass, random_treebank
from reference.python_chain import PythonChain

WORDS = [
    [{"w": "Kim", "cap": 1}, {"w": "saw"}, {"w": "Oslo", "cap": 1}],
    [{"w": "the"}, {"w": "dog", "len": 0.5}, {"w": "saw"}, {"w": "Kim", "cap": 1}],
]
TAGS = [["B-PER", "O", "B-LOC"], ["O", "O", "O", "B-PER"]]
EDGES = [(x, [{"gap": t} for t in range(len(x) - 1)]) for x in WORDS]


def sparse_chains():
    X, Y = random_chains(5, n_labels=3, n_features=4, random_state=1)
    return [sp.csr_matrix(np.where(x > 0.5, x, 0)) for x in X], Y


def sets():
    generator = np.random.default_rng(3)
    return generator.normal(size=(6, 3)), [("a", "b"), ("b",), (), ("a", "c"), ("c",), ("a", "b")]


CASES = {
    "chain": (models.Chain(), random_chains(5, n_labels=3, n_features=4, random_state=0)),
    "bias": (models.Chain(bias=2.0, start=True, end=True), sparse_chains()),
    "attributes": (models.Chain(start=True), (WORDS, TAGS)),
    "observed": (models.Chain(bias=1.0, features="observed"), (WORDS, TAGS)),
    "edges": (models.Chain(edges=True, order=2, bias=1.0), (EDGES, TAGS)),
    "multiclass": (models.Multiclass(bias=1.0), random_multiclass(6, 3, 4, random_state=0)),
    "rows": (models.Multiclass(), (WORDS[1], list("abca"))),
    "labels": (models.MultiLabel(bias=1.0), sets()),
    "matrix": (models.MultiLabel("none"), (sets()[0], np.eye(3, dtype=int)[[0, 1, 2, 0, 1, 2]])),
}


@pytest.fixture(params=CASES)
def case(request, seed):
    model, (X, Y) = CASES[request.param]
    svm = mm.StructuralSVM(model, C=1.0, random_state=0).fit(X, Y)
    svm.coef_ = np.random.default_rng([seed, 5]).normal(size=len(svm.coef_))
    return svm, X, Y


def test_contributions_add_up_to_the_score(case):
    svm, X, Y = case
    for x, y in zip(X, Y, strict=True):
        for given, output in ((y, y), (None, svm.model_.inference(x, svm.coef_))):
            tables = svm.explain(x, given)
            total = sum(table["contribution"].sum() for table in tables)
            assert total == pytest.approx(svm.model_.joint_feature(x, output) @ svm.coef_)
        for table in tables:
            np.testing.assert_allclose(table["value"] * table["weight"], table["contribution"])
            sizes = np.abs(table["contribution"])
            assert (sizes[:-1] >= sizes[1:]).all()


def test_errors_are_those_examples_whose_truth_is_beaten(case):
    svm, X, Y = case
    table = svm.errors(X, Y, k=None)
    found = dict(zip(table.rows, table["margin"], strict=True))
    features = svm.model_.joint_feature
    for i, (x, y, p) in enumerate(zip(X, Y, svm.predict(X), strict=True)):
        margin = (features(x, p) - features(x, y)) @ svm.coef_
        assert (i in found) == (svm.model_.loss(y, p) > 0)
        assert found.get(i, 0.0) == pytest.approx(margin, abs=1e-9)
    assert (np.diff(table["margin"]) <= 0).all()
    assert svm.errors(X, Y, k=1).rows == table.rows[:1]
    assert f"{len(table)} of {len(Y)}" in str(table)


def test_top_features_are_the_largest_weights(case):
    svm, _, _ = case
    parts = svm.model_.unpack(svm.coef_)
    table = parts.get("unary", parts.get("weights"))
    table = table.toarray() if sp.issparse(table) else table
    for code, label in enumerate(svm.classes_):
        weights = dict(zip(svm.feature_names_, table[code], strict=True))
        up, down = svm.top_features(label, 3), svm.top_features(label, 3, against=True)
        assert up["weight"].tolist() == sorted((v for v in table[code] if v > 0), reverse=True)[:3]
        assert down["weight"].tolist() == sorted(v for v in table[code] if v < 0)[:3]
        assert all(weights[name] == up[name, "weight"] for name in up.rows)


def test_transitions_of_a_chain():
    svm = mm.StructuralSVM(models.Chain(start=True, end=True), C=1.0).fit(WORDS, TAGS)
    parts, table = svm.model_.unpack(svm.coef_), svm.transitions()
    assert table.rows == ["B-LOC", "B-PER", "O", "(start)"]
    assert table.columns == ["B-LOC", "B-PER", "O", "(end)"]
    assert table["B-PER", "O"] == parts["transitions"][1, 2]
    assert table["(start)", "O"] == parts["start"][2] and table["O", "(end)"] == parts["end"][2]
    assert np.isnan(table["(start)", "(end)"])
    plain = mm.StructuralSVM(models.Chain(), C=1.0).fit(WORDS, TAGS).transitions()
    assert plain.rows == plain.columns == ["B-LOC", "B-PER", "O"]


def test_transitions_that_are_not_legal():
    Y = [["B-PER", "I-PER", "O"], ["O", "O", "O", "B-PER"]]
    table = mm.StructuralSVM(models.Chain(transitions="iob2")).fit(WORDS, Y).transitions()
    assert table["O", "I-PER"] == table["(start)", "I-PER"] == -np.inf
    assert np.isfinite(table["B-PER"]).all() and "(end)" not in table.columns
    ends = models.Transitions(ends=["O"], forbidden=[("O", "B-PER")])
    Y = [["B-PER", "O", "I-PER"], ["O", "O", "I-PER", "B-PER"]]
    table = mm.StructuralSVM(models.Chain(transitions=ends)).fit(WORDS, Y).transitions()
    assert table["O", "(end)"] == table["O", "B-PER"] == -np.inf
    assert table["I-PER", "(end)"] == 0 and "(start)" not in table.rows


def test_pairs_of_labels():
    svm = mm.StructuralSVM(models.MultiLabel(pairs=[("a", "c")]), C=1.0).fit(*sets())
    table = svm.transitions()
    assert table["a", "c"] == table["c", "a"] == svm.model_.unpack(svm.coef_)["pairs"][0]
    assert np.isnan(table["a", "b"])


@pytest.mark.parametrize("loss", ["zero-one", "f1"])
def test_two_classes(loss, generator):
    X = pd.DataFrame(generator.normal(size=(30, 3)), columns=["age", "size", "price"])
    y = np.where(X["age"] + 0.3 * generator.normal(size=30) > 0, "yes", "no")
    svc = mm.BinarySVC(loss=loss, C=10.0, tol=0.01).fit(X, y)
    assert svc.feature_names_.tolist() == ["age", "size", "price"]
    assert svc.top_features("yes", 1)["age", "weight"] == svc.coef_[0, 0]
    assert svc.top_features("no", 1, against=True)["age", "weight"] == -svc.coef_[0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (table,) = svc.explain(X.iloc[0])
        errors = svc.errors(X, y, k=None)
    decision = svc.decision_function(X)
    assert table["contribution"].sum() == pytest.approx(abs(decision[0]))
    expected = np.sort(np.abs(decision[svc.predict(X) != y]))[::-1]
    np.testing.assert_allclose(errors["margin"], expected)
    assert not hasattr(svc, "transitions")
    one_label = mm.StructuralSVM(models.Multiclass(), tol=1.0).fit(X.to_numpy(), y)
    with pytest.raises(ValueError, match="no transitions"):
        one_label.transitions()


def test_several_classes_with_an_intercept():
    X, y = random_multiclass(60, 3, 4, random_state=0)
    for table in (X, sp.csr_matrix(X)):
        svc = mm.MulticlassSVC(C=0.1).fit(table, y)
        (terms,) = svc.explain(table[[0]] if sp.issparse(table) else table[0])
        assert terms["contribution"].sum() == pytest.approx(svc.decision_function(X)[0].max())
        assert terms["(bias)", "weight"] in svc.intercept_
        scores, errors = svc.decision_function(X), svc.errors(table, y, k=None)
        gaps = scores.max(axis=1) - scores[np.arange(60), np.searchsorted(svc.classes_, y)]
        np.testing.assert_allclose(errors["margin"], np.sort(gaps[gaps > 0])[::-1])
    assert svc.feature_names_.tolist() == ["x0", "x1", "x2", "x3"]


def test_labels_that_the_model_does_not_know():
    svm = mm.StructuralSVM(models.Chain(), C=1.0).fit(WORDS, TAGS)
    table = svm.errors(WORDS, [["B-ORG", "O", "B-LOC"], TAGS[1]])
    assert table.rows == [0] and table[0, "margin"] == np.inf
    assert table[0, "which"] == "0: B-PER for B-ORG"
    labels = mm.StructuralSVM(models.MultiLabel(), C=1.0).fit(*sets())
    assert labels.errors(sets()[0][:1], [("z",)])[0, "margin"] == np.inf
    flat = mm.MulticlassSVC().fit(np.eye(2), ["a", "b"])
    assert flat.errors(np.eye(2), ["a", "z"])["margin"].tolist() == [np.inf]
    with pytest.raises(ValueError, match="label must be one of"):
        svm.top_features("B-ORG")


def test_names_of_edges_and_of_terms():
    svm = mm.StructuralSVM(models.Chain(edges=True, order=2), C=1.0).fit(EDGES, TAGS)
    last = svm.explain(EDGES[0], TAGS[0])[2]
    assert {"O -> B-LOC", "O -> B-LOC, gap", "B-PER -> O -> B-LOC", "w=Oslo"} <= set(last.rows)
    assert last.title.startswith("position 2: B-LOC, score ")
    assert (
        "position 0" in str(svm.explain(EDGES[0]))
        and "<table>" in svm.explain(EDGES[0])._repr_html_()
    )


def test_unknown_labels_in_training_have_views_of_their_model():
    Y = [["B-PER", None, "B-LOC"], TAGS[1]]
    svm = mm.LatentSVM(models.Partial(models.Chain()), C=1.0).fit(WORDS, Y)
    assert svm.transitions().rows == ["B-LOC", "B-PER", "O"]
    assert len(svm.explain(WORDS[0])) == 3


def test_accuracy_on_unknown_words():
    svm = mm.StructuralSVM(models.Chain(), C=1.0).fit(WORDS, TAGS)
    X = [[{"w": "Lee", "cap": 1}, {"w": "saw"}, {"w": "her"}]]
    scorer = metrics.get_scorer("unknown_accuracy", attribute="w")
    truth = svm.predict(X)[0].tolist()
    assert scorer(svm, X, [truth]) == 1.0
    assert scorer(svm, X, [["X", truth[1], truth[2]]]) == 0.5
    assert scorer(svm, X, [[truth[0], "X", truth[2]]]) == 1.0
    assert np.isnan(scorer(svm, WORDS, TAGS))
    lists = mm.StructuralSVM(models.Chain(), C=1.0).fit([[["w=a", "b"], ["w=c"]]], [["x", "y"]])
    assert metrics.get_scorer("unknown_accuracy", attribute="w")(
        lists, [[["b", "w=z"], ["w=a"]]], [["x", "q"]]
    ) in (0.0, 1.0)
    with pytest.raises(ValueError, match="no attribute 'form'"):
        metrics.get_scorer("unknown_accuracy", attribute="form")(svm, X, [truth])


def test_other_models_refuse_in_words():
    X, Y = random_treebank(8, random_state=0)
    parser = mm.StructuralSVM(models.Grammar(), C=0.1, tol=1.0).fit(X, Y)
    with pytest.raises(ValueError, match="Grammar cannot show its weights"):
        parser.top_features("NP")
    assert not hasattr(parser, "feature_names_")
    X, Y = random_chains(5, n_labels=3, n_features=4, random_state=0)
    own = mm.StructuralSVM(PythonChain(3), C=0.1, tol=1.0).fit(X, Y)
    with pytest.raises(ValueError, match="written in Python"):
        own.explain(X[0])
    with pytest.raises(ValueError, match="not fitted"):
        mm.StructuralSVM(models.Chain()).transitions()


def test_estimators_show_themselves():
    svm = mm.StructuralSVM(models.Chain(loss="entity"), C=0.5)
    assert repr(svm).startswith("StructuralSVM(C=0.5,") and "loss='entity'" in repr(svm)
    assert "Chain" in svm._repr_html_()
    assert "Chain" in svm.fit(WORDS, TAGS)._repr_html_()
