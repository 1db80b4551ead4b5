"""Scores of entities, tags, trees and sets, against slow references, scikit-learn and values by hand."""

import pickle
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    LeaveOneOut,
    cross_val_predict,
    cross_val_score,
)

import maxmargin as mm
from maxmargin import metrics, models
from maxmargin.data.spans import bracket_f1
from maxmargin.data.synthetic import random_chains
from maxmargin.data.tags import SCHEMES, read_tag, scheme_of_tags, spans_of, tags_of
from maxmargin.metrics.scores import entity_counts
from reference.conlleval import conlleval

KINDS = ["PER", "LOC", "a-b"]


def taggings(scheme):
    """Draw pairs of any tags of a scheme, sentence by sentence."""
    letters = list(SCHEMES[scheme].roles)
    tag = st.sampled_from(["O", *(f"{a}-{kind}" for a in letters for kind in KINDS)])
    pair = st.tuples(tag, tag)
    return st.lists(st.lists(pair, max_size=9), min_size=1, max_size=4)


def chunkings(length=8):
    """Draw spans that do not overlap, within `length` positions."""
    cuts = st.lists(st.integers(0, length), unique=True, max_size=6).map(sorted)
    kinds = st.lists(st.sampled_from([*KINDS, None]), min_size=6, max_size=6)

    def spans(made):
        bounds, names = made
        pairs = zip(names, bounds, bounds[1:], strict=False)
        return [(kind, a, b) for kind, a, b in pairs if kind]

    return st.tuples(cuts, kinds).map(spans)


# Tags and spans.


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.data())
def test_entities_are_those_of_conlleval(scheme, data):
    both = data.draw(taggings(scheme))
    Y, P = ([[pair[side] for pair in pairs] for pairs in both] for side in (0, 1))
    correct, true, guessed = conlleval(Y, P)
    counts = entity_counts(Y, P, scheme, "O", False)
    assert (counts.matched, counts.true, counts.predicted) == (correct, true, guessed)
    matched, total = correct.total(), true.total() + guessed.total()
    expected = 2 * matched / total if total else 0.0
    assert metrics.entity_f1_score(Y, P, scheme) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(spans=chunkings())
def test_what_a_scheme_writes_is_read_back(scheme, spans):
    tags = tags_of(spans, 8, scheme)
    assert spans_of(tags, scheme) == spans_of(tags, scheme, strict=True) == spans


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.data())
def test_strict_entities_are_the_well_formed_ones(scheme, data):
    for pairs in data.draw(taggings(scheme)):
        tags = [tag for tag, _ in pairs]
        strict, repaired = spans_of(tags, scheme, strict=True), spans_of(tags, scheme)
        assert set(strict) <= set(repaired)
        assert (strict == repaired) == (tags_of(repaired, len(tags), scheme) == tags)


def test_schemes_by_hand():
    assert tags_of([("X", 0, 1), ("X", 1, 3)], 4, "iob1") == ["I-X", "B-X", "I-X", "O"]
    assert tags_of([("X", 0, 2), ("X", 2, 3)], 4, "ioe1") == ["I-X", "E-X", "I-X", "O"]
    assert tags_of([("X", 0, 1), ("Y", 1, 4)], 4, "bilou") == ["U-X", "B-Y", "I-Y", "L-Y"]
    assert metrics.entity_spans(["I-X", "B-X", "I-Y"]) == [("X", 0, 1), ("X", 1, 2), ("Y", 2, 3)]
    assert metrics.entity_spans(["I-X", "B-X", "I-Y"], strict=True) == [("X", 1, 2)]
    assert metrics.entity_spans(np.array(["B", "I", "O", "B"])) == [("", 0, 2), ("", 3, 4)]
    assert metrics.entity_spans(["-", "B-X"], outside="-") == [("X", 1, 2)]
    assert read_tag("U-PER", "bilou") == ("S", "PER")


def test_the_scheme_of_tags():
    assert scheme_of_tags(["O", "B-X", "I-X"]) == scheme_of_tags(["I-X"]) == "iob2"
    assert (
        scheme_of_tags(["O", "S-X", "E-Y"]) == "iobes" and scheme_of_tags(["E-X", "I-X"]) == "ioe2"
    )
    assert scheme_of_tags(["U-X", "O"]) == "bilou"
    for tags in (["O"], [], ["NN", "O"], ["U-X", "E-X"], [1, 2], ["B-X", None]):
        assert scheme_of_tags(tags) is None


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O B-NP I-NP O", [("NP", 1, 3)]),
        ("B-NP B-NP I-NP", [("NP", 0, 1), ("NP", 1, 3)]),
        ("I-NP I-VP", [("NP", 0, 1), ("VP", 1, 2)]),
        ("B-NP I-VP I-VP O I-PP", [("NP", 0, 1), ("VP", 1, 3), ("PP", 4, 5)]),
        ("O O", []),
        ("", []),
    ],
)
def test_repaired_spans_by_hand(tags, expected):
    assert metrics.entity_spans(tags.split()) == expected


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            lambda: metrics.entity_f1_score([["E-X"]], [["O"]]),
            r"Y\[0\] or P\[0\].*'E-X' does not belong to",
        ),
        (lambda: metrics.entity_f1_score([[3]], [["O"]]), "the tag 3"),
        (lambda: metrics.entity_spans(["O"], scheme="iob"), "scheme must be one of"),
        (lambda: metrics.entity_f1_score([["O"]], [["O", "O"]]), r"Y\[0\] has 1 labels, but P"),
        (lambda: metrics.entity_f1_score([["O"]], []), "Y has 1 true outputs, but P has 0"),
        (lambda: metrics.entity_f1_score([{"O"}], [["O"]]), r"Y\[0\] is a set"),
        (lambda: metrics.entity_f1_score([["O"]], [["O"]], average="all"), "average must be one"),
        (lambda: tags_of([("X", 0, 2), ("X", 1, 3)], 4), "overlaps"),
        (lambda: metrics.multilabel_f1_score(["ab"], [("a",)]), r"Y\[0\] must be a set"),
        (lambda: metrics.bracket_report(["(N dog)"], ["(N cat)"]), "different words"),
        (lambda: metrics.get_scorer("f2"), "one of scikit-learn's, got 'f2'"),
        (lambda: metrics.get_scorer("f1_macro", scheme="iob2"), "takes no options"),
        (
            lambda: metrics.unknown_accuracy_score([["a"]], [["a"]], [["x", "y"]], {"x"}),
            r"words\[0\] has 2 words",
        ),
    ],
)
def test_what_cannot_be_scored_is_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()


# Reports.


Y = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-PER"]]
P = [["B-PER", "I-PER", "O", "O"], ["B-LOC", "B-PER"]]


def test_entity_scores_by_hand():
    assert metrics.entity_f1_score(Y, P) == pytest.approx(2 / 3)
    assert metrics.entity_precision_score(Y, P) == metrics.entity_recall_score(Y, P) == 2 / 3
    assert metrics.entity_f1_score(Y, P, average="macro") == 0.5
    report = metrics.entity_report(Y, P)
    assert report.rows == ["LOC", "PER", "(micro)", "(macro)"]
    assert report["PER", "f1"] == 1.0 and report["LOC", "recall"] == 0.0
    assert report["true"].tolist() == [1, 2, 3, 3]
    lines = str(report).splitlines()
    assert lines[0].split() == ["entity", *report.columns]
    assert lines[2].split() == ["PER", *["1.000"] * 3, *"222"]


def test_a_tagger_that_finds_nothing_scores_nothing():
    nothing = [["O"] * len(y) for y in Y]
    assert metrics.tag_accuracy_score(Y, nothing) > 0
    assert metrics.entity_f1_score(Y, nothing) == metrics.entity_f1_score(nothing, nothing) == 0


def test_tags_and_sequences():
    assert metrics.tag_accuracy_score(Y, P) == 4 / 6
    assert metrics.sequence_accuracy_score(Y, P) == 0 and metrics.sequence_accuracy_score(P, P) == 1
    words = [["Kim", "Lee", "saw", "Oslo"], ["the", "Kim"]]
    assert metrics.unknown_accuracy_score(Y, P, words, ["Kim", "saw", "the"]) == 0.5
    assert np.isnan(metrics.unknown_accuracy_score(Y, P, words, words[0] + words[1]))
    assert metrics.tag_accuracy_score([0, 1], [0, 2]) == 0.5
    assert metrics.tag_accuracy_score(["ab", "c"], np.array(["ab", "d"])) == 0.5
    assert metrics.tag_accuracy_score([], []) == metrics.sequence_accuracy_score([], []) == 0


@given(st.lists(st.lists(st.tuples(*[st.sampled_from("abc")] * 2), max_size=5), max_size=5))
@pytest.mark.filterwarnings("ignore:A single label was found")
def test_tag_report_and_confusion_are_those_of_scikit_learn(pairs):
    true, predicted = ([[p[side] for p in row] for row in pairs] for side in (0, 1))
    flat_true, flat_predicted = ([y for row in rows for y in row] for rows in (true, predicted))
    labels = sorted({*flat_true, *flat_predicted})
    if not labels:
        return
    table, report = metrics.confusion(true, predicted), metrics.tag_report(true, predicted)
    expected = sklearn.metrics.confusion_matrix(flat_true, flat_predicted, labels=labels)
    assert np.array_equal(table, expected) and table.rows == table.columns == labels
    scores = sklearn.metrics.precision_recall_fscore_support(
        flat_true, flat_predicted, labels=labels, zero_division=0
    )
    np.testing.assert_allclose(np.asarray(report)[: len(labels), :4].T, scores)
    assert report["(micro)", "f1"] == pytest.approx(metrics.tag_accuracy_score(true, predicted))


def test_confusion_of_chosen_labels():
    table = metrics.confusion([["a", "b"], ["c", "a"]], [["a", "a"], ["c", "b"]], labels=["b", "a"])
    assert np.asarray(table).tolist() == [[0, 1], [1, 1]]
    assert table["a", "b"] == 1 and table["b"].tolist() == [0, 1]


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_sets_of_labels_are_those_of_scikit_learn(average, generator):
    for _ in range(20):
        true, predicted = generator.integers(0, 2, size=(2, 6, 4))
        used = (true | predicted).any(axis=0)  # an unused column is not a label
        peer = sklearn.metrics.f1_score(
            true[:, used], predicted[:, used], average=average, zero_division=0
        )
        assert metrics.multilabel_f1_score(true, predicted, average) == pytest.approx(peer)
        sets = [[set(np.flatnonzero(row).tolist()) for row in Y] for Y in (true, predicted)]
        assert metrics.multilabel_f1_score(*sets, average) == pytest.approx(peer)
        sparse = sp.csr_matrix(true)
        assert metrics.multilabel_f1_score(sparse, predicted, average) == pytest.approx(peer)
    assert metrics.multilabel_report(*sets)["(micro)", "f1"] == pytest.approx(
        metrics.multilabel_f1_score(*sets)
    )


def test_brackets():
    gold = "(S (NP (D the) (N dog)) (VP (V saw) (NP (N Kim))))"
    found = "(S (NP (D the) (N dog)) (VP (V saw) (N Kim)))"
    assert metrics.bracket_f1_score([gold], [found]) == bracket_f1([gold], [found]) == 6 / 7
    report = metrics.bracket_report([gold], [found])
    assert report["NP", "recall"] == 0.5 and report["(micro)", "f1"] == pytest.approx(6 / 7)
    assert "S" not in metrics.bracket_report([gold], [found], root=False).rows


# In scikit-learn.


@pytest.fixture
def tagger():
    X, codes = random_chains(30, n_labels=3, n_features=4, random_state=0)
    names = np.array(["O", "B-X", "I-X"])
    chain = models.Chain(classes=names.tolist())
    return mm.StructuralSVM(chain, C=0.1, tol=0.1, random_state=0), X, [names[y] for y in codes]


def test_scorers_in_cross_validation(tagger):
    svm, X, Y = tagger
    scorer = metrics.get_scorer("entity_f1", scheme="iob2")
    scores = cross_val_score(svm, X, Y, scoring=scorer, cv=3)
    assert scores.shape == (3,) and (scores > 0).all()
    svm.fit(X, Y)
    assert scorer(svm, X, Y) == metrics.entity_f1_score(Y, svm.predict(X))
    assert pickle.loads(pickle.dumps(scorer))(svm, X, Y) == scorer(svm, X, Y)


def test_scorers_in_a_search(tagger):
    svm, X, Y = tagger
    scoring = {name: metrics.get_scorer(name) for name in ("entity_f1", "sequence_accuracy")}
    search = GridSearchCV(svm, {"C": [1e-6, 0.1]}, scoring=scoring, refit="entity_f1", cv=2)
    found = search.fit(X, Y).cv_results_
    assert search.best_params_["C"] == 0.1
    assert set(found) >= {"mean_test_entity_f1", "mean_test_sequence_accuracy"}


@pytest.mark.parametrize("name", ["f1_macro", "accuracy", "balanced_accuracy"])
def test_scorers_of_scikit_learn_over_nodes(tagger, name):
    svm, X, Y = tagger
    svm.fit(X, Y)
    expected = sklearn.metrics.get_scorer(name)._score_func
    true, predicted = np.concatenate(Y), np.concatenate(svm.predict(X))
    options = {"average": "macro"} if name == "f1_macro" else {}
    scorer = pickle.loads(pickle.dumps(metrics.get_scorer(name)))
    assert scorer(svm, X, Y) == pytest.approx(expected(true, predicted, **options))
    assert cross_val_score(svm, X, Y, scoring=scorer, cv=2).shape == (2,)


def test_predictions_of_folds_are_joined(tagger):
    svm, X, Y = tagger
    for splits in (3, LeaveOneOut()):
        found = cross_val_predict(svm, X, Y, cv=splits)
        assert found.shape == (30,) and [len(p) for p in found] == [len(y) for y in Y]
    assert 0 < metrics.entity_f1_score(Y, found) <= 1
    first, last = np.arange(15), np.arange(15, 30)
    halves = cross_val_predict(svm, X, Y, cv=[(first, last), (last, first)])
    expected = clone(svm).fit(X[15:], Y[15:]).predict(X[:15])
    assert all((a == b).all() for a, b in zip(halves, expected, strict=False))


def test_predictions_as_lists(tagger):
    svm, X, Y = tagger
    found = svm.fit(X, Y).predict(X)
    lists = found.tolist()
    assert isinstance(found, list) and isinstance(found[0], np.ndarray)
    assert {type(p) for p in lists} == {list} and {type(tag) for p in lists for tag in p} == {str}
    assert all(list(a) == b for a, b in zip(found, lists, strict=True))
    assert np.asarray(found).shape == (30,) and np.asarray(found[:0]).shape == (0,)
    even = np.ones((3, 2, 4))
    assert np.asarray(svm.predict(even)).shape == (3, 2)  # all rows of X have one length
    flat = mm.StructuralSVM(models.Multiclass(), C=0.1).fit(np.eye(4), list("abab"))
    assert cross_val_score(flat, np.eye(4), list("abab"), scoring="f1_macro", cv=2).shape == (2,)


def test_scorer_of_sets(generator):
    X = generator.normal(size=(40, 4))
    Y = (X[:, :3] + generator.normal(size=(40, 3)) > 0).astype(int)
    svm = mm.StructuralSVM(models.MultiLabel(pairs="none"), C=0.1).fit(X, Y)
    for average in ("micro", "macro"):
        scorer = metrics.get_scorer("multilabel_f1", average=average)
        expected = metrics.multilabel_f1_score(Y, svm.predict(X), average)
        assert scorer(svm, X, Y) == expected


def test_every_name_has_a_scorer():
    assert "entity_f1" in metrics.get_scorer_names()
    for name in metrics.get_scorer_names():
        assert callable(metrics.get_scorer(name))


# Tables.


def test_tables_read_well_and_become_frames():
    table = metrics.confusion([["<a>", "b"]], [["<a>", "<a>"]])
    assert str(table).splitlines()[0] == "true \\ predicted  <a>  b"
    assert "&lt;a&gt;" in table._repr_html_() and "<a>" not in table._repr_html_()
    frame = table.to_pandas()
    assert frame.loc["b", "<a>"] == 1 and frame.shape == (2, 2)
    assert len(table) == 2
    for key in ("c", ("c", "b"), ("b", "c")):
        with pytest.raises(KeyError, match="give a column"):
            table[key]


def test_a_large_table_says_what_it_leaves_out():
    labels = [f"x{i}" for i in range(100)]
    text = str(metrics.confusion([labels], [labels]))
    assert "40 more rows and 40 more columns" in text and "x99" not in text


def test_counts_of_the_reference():
    correct, true, guessed = conlleval([["B-X", "I-X", "O"]], [["B-X", "O", "I-X"]])
    assert (correct, true, guessed) == (Counter(), Counter(X=1), Counter(X=2))
