"""Grammar against brute force over all trees, and with every feature of built-in models."""

import warnings

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

import maxmargin as mm
from helpers import (
    built_in,
    fit,
    loss_units,
    prepared,
    refusal,
)
from maxmargin import models
from maxmargin.data.spans import bracket_f1
from maxmargin.data.synthetic import random_treebank
from maxmargin.data.trees import ParseTree, as_tree
from maxmargin.models.lexicon import UNKNOWN, Lexicon, signatures
from maxmargin.models.rules import derive
from reference import enumerate as truths
from reference.cases import random_tree
from reference.problems import SHAPES, TREES, make_case
from reference.trees import GrammarTruth, spans_of


@pytest.fixture(params=SHAPES)
def case(request, seed):
    return make_case(request.param, seed)


# The oracle.


def test_the_oracle_at_the_truth_is_the_second_best_tree(case):
    # These weights make the true trees the best, so the zero-one oracle must find the second best.
    model, truth = prepared(case), case.truth
    for x, y in zip(case.X, case.Y, strict=True):
        w = 0.3 * truth.joint_feature(x, y)
        values = truths.augmented_scores(truth, x, y, w)
        found = model.loss_augmented_inference(x, y, w)
        value = truth.joint_feature(x, found) @ w + truth.loss(y, found)
        assert value == pytest.approx(values.max(), rel=1e-12)


def test_loss_is_the_definition_in_both_worlds(case):
    model, truth = prepared(case), case.truth
    examples = model.bind(case.X, case.Y)
    for i, (x, y) in enumerate(zip(case.X, case.Y, strict=True)):
        assert model.loss(y, y) == 0.0
        for output in truth.outputs(x)[::5]:
            expected = truth.loss(y, output)
            assert model.loss(y, output) == expected
            codes = np.array(model.encode(output, x), dtype=np.int32)
            one = np.array([1.0])
            offset, vector = examples.combine(np.array([i]), one, codes)
            assert offset == expected
            psi = truth.joint_feature(x, output) - truth.joint_feature(x, y)
            np.testing.assert_array_equal(vector, psi)


def test_derivations_and_trees_are_one_to_one(case):
    model, truth = prepared(case), case.truth
    expected = {"binary": truth.binary, "unary": truth.unary, "lexical": truth.lexical}
    assert model.rules_ == expected
    for x in case.X:
        codes = set()
        for tree in truth.outputs(x):
            code = model.encode(tree, x)
            assert model.rule_table_.decode(code, x) == tree
            codes.add(tuple(code))
        assert len(codes) == len(truth.outputs(x))


def test_only_derivations_are_known(case):
    model = prepared(case)
    examples = model.bind(case.X, case.Y)
    i = int(np.argmax([len(x) for x in case.X]))
    good = np.array(model.encode(case.Y[i], case.X[i]), dtype=np.int32)
    here = np.array([i])
    assert examples.knows(good, here)
    assert not examples.knows(good[:-3], here)
    assert not examples.knows(good, np.array([len(case.X)]))
    for place in range(len(good)):
        for value in (-1, 10**6):
            bad = good.copy()
            bad[place] = value
            assert not examples.knows(bad, here)
            with refusal("label that the model does not have"):
                examples.combine(here, np.ones(1), bad)


# Solvers, and operations on a fit.


@pytest.mark.parametrize("solver", ["proximal", "one-slack", "n-slack"])
def test_warm_start_goes_on_and_refuses_other_trees(seed, solver):
    case = make_case("grammar-spans", seed)
    svm = fit(case, solver, relative=1e-3, warm_start=True)
    first = svm.certificate_
    svm.fit(case.X, case.Y)
    assert svm.certificate_.primal == pytest.approx(first.primal, rel=1e-3)
    assert svm.certificate_.oracle_calls < first.oracle_calls
    others = [
        as_tree(str(y).replace("(A", "(Q").replace("(B", "(A").replace("(x", "(R")) for y in case.Y
    ]
    with refusal("labels differ from those|does not have"):
        svm.fit(case.X, others)


@pytest.mark.parametrize("name", TREES)
def test_save_and_load_are_the_same_to_the_bit(seed, name, tmp_path):
    case = make_case(name, seed)
    svm = fit(case, relative=1e-3)
    svm.save(tmp_path / "parser.safetensors")
    back = mm.load(tmp_path / "parser.safetensors")
    X = [*case.X, ["never", "seen"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert back.predict(X) == svm.predict(X)
    np.testing.assert_array_equal(back.coef_, svm.coef_)
    assert back.model_.rules_ == svm.model_.rules_
    assert back.model_.get_params() == svm.model_.get_params()
    w = np.arange(len(svm.coef_), dtype=float)
    found = mm.objective(back, w, case.X, case.Y)
    assert found == mm.objective(svm, w, case.X, case.Y)


def test_score_is_labelled_bracket_f1(seed):
    case = make_case("grammar-spans", seed)
    svm = fit(case, relative=1e-2)
    predicted = svm.predict(case.X)
    assert svm.score(case.X, case.Y) == pytest.approx(bracket_f1(case.Y, predicted), rel=1e-12)
    spans = [(spans_of(y), spans_of(p)) for y, p in zip(case.Y, predicted, strict=True)]
    matched = sum((a & b).total() for a, b in spans)
    f1 = 2 * matched / sum(a.total() + b.total() for a, b in spans)
    assert svm.score(case.X, case.Y) == pytest.approx(f1, rel=1e-12)
    mean = np.mean([case.truth.loss(y, p) for y, p in zip(case.Y, predicted, strict=True)])
    assert svm.loss(case.X, case.Y) == pytest.approx(mean)
    weights = np.arange(len(case.Y))
    repeated = [i for i in range(len(case.Y)) for _ in range(i)]
    X, Y = [case.X[i] for i in repeated], [case.Y[i] for i in repeated]
    assert svm.score(case.X, case.Y, weights) == pytest.approx(svm.score(X, Y))


@pytest.mark.filterwarnings("ignore:.*no parse:UserWarning")
def test_grid_search_over_sentences():
    X, Y = random_treebank(30, random_state=0)
    svm = mm.StructuralSVM(models.Grammar(), C=0.1, tol=0.5, random_state=0)
    search = GridSearchCV(svm, {"model__horizontal": [None, 0], "C": [0.01, 0.1]}, cv=3)
    search.fit(X, Y)
    means = search.cv_results_["mean_test_score"]
    assert len(means) == 4 and (means > 0.3).all() and (means <= 1).all()
    assert search.best_estimator_.score(X, Y) > 0.5


def test_trees_may_come_in_any_form(seed):
    case = make_case("grammar-spans", seed)
    expected = fit(case).certificate_.primal

    def nested(node):
        return node if isinstance(node, str) else (node.label(), *map(nested, node))

    class Other:
        def __init__(self, node):
            self.node = node

        def label(self):
            return self.node.label()

        def __iter__(self):
            return (c if isinstance(c, str) else Other(c) for c in self.node)

    for form in (str, nested, Other):
        svm = mm.StructuralSVM(built_in(case), C=case.C, tol=loss_units(case, 1e-7))
        primal = svm.set_params(max_passes=9999).fit(case.X, [form(y) for y in case.Y])
        assert primal.certificate_.primal == pytest.approx(expected, rel=1e-6)


def test_long_sentences_and_deep_trees(generator):
    words = [str(word) for word in generator.choice(list("abc"), 40)]
    deep = ParseTree("x", words[-1:])
    for word in words[-2::-1]:
        deep = ParseTree("S", [ParseTree("x", [word]), deep])
    wide = ParseTree("S", [ParseTree("x", [word]) for word in words])
    mixed = random_tree(generator, words, "AB", "xy")
    Y = [deep, wide, mixed]
    svm = mm.StructuralSVM(models.Grammar(rare=0), C=1.0, tol=0.5, max_passes=200)
    svm.fit([words] * 3, Y)
    bounds = svm.certificate_
    assert 0 < bounds.dual <= bounds.primal <= mm.objective(svm, 0 * svm.coef_, [words] * 3, Y)
    (tree,) = svm.predict([words])
    assert tree.leaves() == words
    with refusal("weights"):
        svm.model_.inference(words, np.zeros(3))


def test_horizontal_none_derives_exactly_the_phrases_seen():
    Y = ["(S (a 1) (b 2) (c 3))", "(S (a 1) (c 3) (b 2) (c 3))"]
    X = [as_tree(y).leaves() for y in Y]
    exact, loose = models.Grammar(rare=0), models.Grammar(rare=0, horizontal=0)
    for model in (exact, loose):
        model.initialize(X, Y)
    long = ["1", "2", "2", "3"]
    assert exact.inference_k_best(long, np.zeros(exact.size_joint_feature), 5) == []
    found = loose.inference_k_best(long, np.zeros(loose.size_joint_feature), 5)
    assert [str(tree) for tree, _ in found] == ["(S (a 1) (b 2) (b 2) (c 3))"]


# Binarisation and words.


def test_binarisation_by_hand():
    tree = as_tree("(S (N (A (t a) (t b) (u c) (t d))) (t e))")
    steps = derive(tree, None)
    assert [step.rule for step in steps] == [
        ("S", "N", "t"),
        ("A", "@A t t u", "t"),
        ("@A t t u", "@A t t", "u"),
        ("@A t t", "t", "t"),
        *[("t",), ("t",), ("u",), ("t",), ("t",)],
    ]
    assert [step.chain for step in steps] == [(), ("N", "A"), *[()] * 7]
    assert [step.split for step in steps] == [4, 3, 2, 1, 0, 0, 0, 0, 0]
    assert derive(tree, 1)[1].rule == ("A", "@A u", "t")
    assert derive(tree, 0)[2].rule == ("@A", "@A", "u")


def test_signatures_go_from_fine_to_coarse():
    assert signatures("well-being", False) == [
        "<lower hyphen ~ing>",
        "<lower hyphen ~ng>",
        "<lower hyphen>",
        "<lower>",
        UNKNOWN,
    ]
    assert signatures("Paris", True)[-2:] == ["<first-capital>", UNKNOWN]
    assert signatures("Paris", False)[-2] == "<capital>"
    assert signatures("IBM", False)[-2] == "<upper>"
    assert signatures("1,000", False) == ["<number>", UNKNOWN]
    assert signatures("4th", False)[-2] == "<mixed>"
    assert signatures("%", False) == ["<symbol>", UNKNOWN]


def test_rare_words_share_signatures_and_unknown_words_fall_back():
    sentences = [["the", "walking", "man"], ["the", "talking", "man"], ["the", "dog", "19"]]
    lexicon = Lexicon.learn(sentences, rare=1)
    names = lexicon.names()
    assert list(lexicon.words) == ["man", "the"]
    assert names[lexicon.terminal("walking", False)] == "<lower ~ing>"
    assert names[lexicon.terminal("singing", False)] == "<lower ~ing>"  # not in the training data
    # its finer classes were seen only once
    assert names[lexicon.terminal("dog", False)] == "<lower>"
    assert names[lexicon.terminal("19", False)] == UNKNOWN
    tagged = [[(w, w[0].upper()) for w in sentence] for sentence in sentences]
    rules = lexicon.lexical_rules(tagged)
    tags = {tag for t, tag in rules if t == lexicon.terminal("Zoe", False)}
    assert tags == {"W", "T", "D", "1"}  # the tags of all rare words
    assert ("W" in {tag for t, tag in rules if names[t] == "<lower>"}) and len(lexicon) == len(
        names
    )


def test_unknown_words_without_rare_ones_take_the_tags_of_words_seen_once():
    truth = GrammarTruth([as_tree("(S (x a) (y b) (x a))")], "spans")
    model = models.Grammar(rare=0)
    model.initialize([["a", "b", "a"]], ["(S (x a) (y b) (x a))"])
    assert [rule for rule in model.rules_["lexical"] if rule[1] == UNKNOWN] == [("y", UNKNOWN)]
    assert model.rules_["lexical"] == truth.lexical
