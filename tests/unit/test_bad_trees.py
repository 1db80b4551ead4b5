"""Bad sentences and trees for a Grammar; each message names the example and the fault."""

import warnings

import numpy as np
import pytest

import maxmargin as mm
from helpers import refusal
from maxmargin import models
from maxmargin.data.spans import labelled_spans
from maxmargin.data.trees import as_tree

X = [["the", "dog", "barks"], ["a", "cat", "sees", "the", "dog"], ["Kim", "barks"]]
Y = [
    "(S (NP (D the) (N dog)) (VP (V barks)))",
    "(S (NP (D a) (N cat)) (VP (V sees) (NP (D the) (N dog))))",
    "(S (NP (N Kim)) (VP (V barks)))",
]


@pytest.fixture
def parser():
    return mm.StructuralSVM(models.Grammar(rare=0), C=1.0, tol=1e-3).fit(X, Y)


def fitted(X, Y, **options):
    return mm.StructuralSVM(models.Grammar(**options), C=1.0).fit(X, Y)


@pytest.mark.parametrize(
    "sentence, words",
    [
        ("the dog barks", ["one string", "split"]),
        ([], ["empty sentence"]),
        (["the", 3, "barks"], [r"X\[1\]\[1\]", "word", "3"]),
        (["the", "", "barks"], [r"X\[1\]\[1\]", "word"]),
        (7, ["sequence of words", "7"]),
    ],
)
def test_bad_sentences(parser, sentence, words):
    with refusal(r"X\[1\]", *words):
        fitted([X[0], sentence], [Y[0], Y[0]])
    with refusal(r"X\[1\]", *words):
        parser.predict([X[0], sentence])


@pytest.mark.parametrize(
    "tree, words",
    [
        ("(S (NP (D the) (N dog)) (VP (V bark)))", ["leaves", "'the dog bark'", "'the dog barks'"]),
        (
            "(S (NP (D the) (N dog)) (VP (V barks))",
            ["line 1", "closing bracket", "end of the text"],
        ),
        ("(S (NP the (N dog)) (VP (V barks)))", ["'the' under 'NP' has no tag"]),
        ("(S (NP (NP (D the) (N dog))) (VP (V barks)))", ["NP -> NP", "label twice", "drop_loops"]),
        ("(S (@NP (D the) (N dog)) (VP (V barks)))", ["label", "'@NP'"]),
        (("S", ("N P", ("D", "the"), ("N", "dog")), ("V", "barks")), ["label", "'N P'"]),
        (3, ["expected a tree", "3"]),
        (("S",), ["expected a tree"]),
    ],
)
def test_bad_trees(tree, words):
    with refusal(r"Y\[1\]", *words):
        fitted([X[2], X[0]], [Y[2], tree])


@pytest.mark.parametrize(
    "tree, rule",
    [
        ("(S (NP (D the) (N dog)) (NP (N barks)))", "S -> NP NP"),
        ("(S (NP (D the) (D dog)) (VP (V barks)))", "NP -> D D"),
        ("(S (NP (D the) (N dog)) (VP (N barks)))", "VP -> N"),
        ("(S (NP (D the) (Q dog)) (VP (V barks)))", "NP -> D Q"),
        ("(S (VP (D the) (N dog)) (VP (V barks)))", "S -> VP VP"),
        ("(NP (NP (D the) (N dog)) (VP (V barks)))", "root NP"),
        ("(S (NP (N the) (N dog)) (VP (V barks)))", "NP -> N N"),
    ],
)
def test_a_rule_that_training_has_not_seen_is_named(parser, tree, rule):
    w = np.zeros(parser.model_.size_joint_feature)
    for call in (
        lambda: mm.objective(parser, w, [X[2], X[0]], [Y[2], tree]),
        lambda: mm.certify(parser, [X[2], X[0]], [Y[2], tree]),
    ):
        with refusal(r"Y\[1\]", rule, "training data"):
            call()
    # Comparing trees needs no rules, and tags do not count as spans.
    same = labelled_spans(as_tree(tree)) == labelled_spans(as_tree(Y[0]))
    assert (parser.loss([X[0]], [tree]) == 0) == same
    assert (parser.score([X[0]], [tree]) == 1) == same


def test_a_tag_that_a_word_did_not_have_is_named(parser):
    w = np.zeros(parser.model_.size_joint_feature)
    with refusal(r"Y\[0\]", "N -> 'the'"):
        mm.objective(parser, w, [["the", "barks"]], ["(S (NP (N the)) (VP (V barks)))"])


def test_other_words_in_score_and_loss_name_the_example(parser):
    for call in (parser.loss, parser.score):
        with refusal(r"Y\[1\]", "different words", "Kim"):
            call(X[:2], [Y[0], Y[2]])
    with refusal("3 examples", "1"):
        parser.score(X, Y[:1])


@pytest.mark.parametrize(
    "options, words",
    [
        ({"loss": "hamming"}, ["loss", "spans", "zero-one", "hamming"]),
        ({"loss": None}, ["loss", "spans"]),
        ({"horizontal": -1}, ["horizontal", "at least 0", "-1"]),
        ({"horizontal": 1.5}, ["horizontal", "whole number"]),
        ({"rare": None}, ["rare", "None"]),
        ({"rare": True}, ["rare", "True"]),
        ({"top": 3}, ["top", "3"]),
        ({"top": "TOP"}, [r"Y\[0\]", "root", "'TOP'", "'S'"]),
    ],
)
def test_bad_parameters(options, words):
    with refusal(*words):
        fitted(X, Y, **options)


def test_node_weight_is_refused():
    with refusal("node_weight", "sample_weight"):
        mm.StructuralSVM(models.Grammar()).fit(X, Y, node_weight=[[1.0]] * 3)


@pytest.mark.parametrize("top, root", [(None, "S"), ("S", "S")])
def test_a_sentence_without_a_parse_gets_a_flat_tree_and_a_warning(top, root):
    svm = mm.StructuralSVM(models.Grammar(rare=0, top=top), C=1.0, tol=1e-3).fit(X, Y)
    lost = ["barks", "the", "the", "dog"]
    with pytest.warns(UserWarning, match=r"1 of 2 sentences have no parse.*X\[1\]"):
        whole, flat = svm.predict([X[0], lost])
    assert whole == as_tree(Y[0])
    assert str(flat) == f"({root} (V barks) (D the) (D the) (N dog))"
    assert svm.predict_k_best([lost], 2) == [[]]
    with pytest.warns(UserWarning, match="no parse"):
        assert svm.score([lost], ["(S (VP (V barks)) (NP (D the) (D the) (N dog)))"]) < 1


def test_unknown_words_are_parsed(parser):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (tree,) = parser.predict([["the", "wug", "barks"]])
    assert tree.leaves() == ["the", "wug", "barks"]


def test_a_tampered_state_is_refused(parser):
    state, arrays = parser.model_.state()
    models.Grammar.from_state(state, arrays)
    wrong = {
        "binary": np.full_like(arrays["binary"], 999),
        "lexical": arrays["lexical"] - 1,
        "chains": arrays["chains"] + 50,
        "chain_lengths": arrays["chain_lengths"] - 1,
        "roots": arrays["roots"][:-1],
    }
    for name, array in wrong.items():
        with pytest.raises((ValueError, IndexError, TypeError, KeyError)):
            models.Grammar.from_state(state, {**arrays, name: array})
    for change in ({"signatures": []}, {"symbols": ["S"] * len(state["symbols"])}, {"rare": -1}):
        with pytest.raises((ValueError, IndexError, TypeError, KeyError)):
            models.Grammar.from_state({**state, **change}, arrays)
