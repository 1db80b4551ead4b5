"""Bad input is refused, and nothing is silently fixed, dropped or ignored.

The message names the parameter or the example, the expected value and the given one."""

import numpy as np
import pytest
from scipy import sparse

import maxmargin as mm
from helpers import refusal
from maxmargin import models


@pytest.fixture
def flat(generator):
    """A good multiclass problem."""
    return generator.normal(size=(8, 3)), np.array([0, 1, 2, 0, 1, 2, 0, 1])


@pytest.fixture
def chains(generator):
    """A good chain problem: six sequences of lengths 2 and 3."""
    X = [generator.normal(size=(2 + i % 2, 3)) for i in range(6)]
    return X, [list("abc" if i % 3 else "cab")[: len(x)] for i, x in enumerate(X)]


def multiclass(**settings):
    return mm.StructuralSVM(models.Multiclass(), **settings)


def chain(**settings):
    return mm.StructuralSVM(models.Chain(), **settings)


# --- values of X ---------------------------------------------------------------------------------


@pytest.mark.parametrize("value, word", [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "inf")])
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_not_finite_in_multiclass_names_the_example(flat, value, word, layout, dtype):
    X, y = flat
    X = X.astype(dtype)
    X[5, 1] = value
    X = sparse.csr_matrix(X) if layout == "csr" else X
    with refusal(r"\bX\b", word, r"\b5\b"):
        multiclass().fit(X, y)


@pytest.mark.parametrize("value, word", [(np.nan, "nan"), (np.inf, "inf")])
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_not_finite_in_chain_names_the_example(chains, value, word, layout):
    X, Y = chains
    X[4][1, 0] = value
    X = [sparse.csr_matrix(x) for x in X] if layout == "csr" else X
    with refusal(r"\bX\b", word, r"\b4\b"):
        chain().fit(X, Y)


def test_not_finite_at_prediction_names_the_example(flat, chains):
    X, y = flat
    svm = multiclass().fit(X, y)
    X[2, 0] = np.nan
    with refusal("nan", r"\b2\b"):
        svm.predict(X)
    X, Y = chains
    svm = chain().fit(X, Y)
    X[3][0, 0] = np.inf
    with refusal("inf", r"\b3\b"):
        svm.predict(X)


def test_not_finite_attribute_names_the_example():
    X = [[{"a": 1.0}], [{"a": float("nan")}]]
    with refusal("nan", r"\b1\b"):
        chain().fit(X, [["x"], ["y"]])


# --- shapes --------------------------------------------------------------------------------------


def test_ragged_features_name_the_example_and_both_counts(chains):
    X, Y = chains
    X[3] = X[3][:, :2]
    with refusal(r"\b3\b", "features", r"\b2\b"):
        chain().fit(X, Y)


def test_wrong_number_of_features_at_prediction(flat, chains):
    X, y = flat
    with refusal("features", r"\b3\b", r"\b2\b"):
        multiclass().fit(X, y).predict(X[:, :2])
    X, Y = chains
    svm = chain().fit(X, Y)
    with refusal("features", r"\b3\b", r"\b4\b"):
        svm.predict([np.ones((2, 4))])


@pytest.mark.parametrize("extra", [-1, 1])
def test_different_numbers_of_examples(flat, chains, extra):
    X, y = flat
    with refusal(r"\bX\b", r"\bY\b", r"\b8\b", rf"\b{8 + extra}\b"):
        multiclass().fit(X, np.resize(y, 8 + extra))
    X, Y = chains
    Y = Y[:extra] if extra < 0 else [*Y, ["a"]]
    with refusal(r"\bX\b", r"\bY\b", r"\b6\b", rf"\b{6 + extra}\b"):
        chain().fit(X, Y)


def test_sequence_and_labels_of_different_length_name_the_example(chains):
    X, Y = chains
    Y[2] = [*Y[2], "a"]
    with refusal(r"\b2\b", "label", rf"\b{len(X[2])}\b", rf"\b{len(Y[2])}\b"):
        chain().fit(X, Y)


def test_lengths_are_checked_at_score_and_loss_too(chains):
    X, Y = chains
    svm = chain().fit(X, Y)
    for call in (svm.score, svm.loss):
        with refusal(r"\b6\b", r"\b5\b"):
            call(X, Y[:5])
        with refusal(r"\b2\b", rf"\b{len(X[2])}\b"):
            call(X, [*Y[:2], [*Y[2], "a"], *Y[3:]])


def test_one_dimensional_x_says_what_shape_was_expected(flat):
    X, y = flat
    with refusal(r"\bX\b", "2", "1"):
        multiclass().fit(X[:, 0], y)


def test_three_dimensional_example_is_refused(chains):
    X, Y = chains
    X[1] = X[1][None]
    with refusal(r"\b1\b", r"\b3\b|shape"):
        chain().fit(X, Y)


def test_empty_sequence_names_the_example(chains):
    X, Y = chains
    X[4], Y[4] = np.zeros((0, 3)), []
    with refusal(r"\b4\b", "empty"):
        chain().fit(X, Y)


def test_empty_sequence_of_attributes_names_the_example():
    with refusal(r"\b1\b", "empty"):
        chain().fit([[{"a": 1.0}, {"b": 1.0}], []], [["x", "y"], []])


def test_no_examples(flat):
    X, y = flat
    with refusal("0|no examples|empty"):
        multiclass().fit(X[:0], y[:0])
    with refusal("0|no examples|empty"):
        chain().fit([], [])
    with refusal("0|no examples|empty"):
        mm.MulticlassSVC().fit(X[:0], y[:0])


# --- types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        np.array([["a", "b", "c"]] * 8),
        np.array([["a", 1, None]] * 8, dtype=object),
        np.ones((8, 3), dtype=complex),
    ],
    ids=["strings", "objects", "complex"],
)
def test_features_that_are_not_real_numbers(flat, bad):
    _, y = flat
    with refusal(r"\bX\b", r"str|object|complex|<U"):
        multiclass().fit(bad, y)


def test_chain_example_of_objects_names_the_example(chains):
    X, Y = chains
    X[3] = X[3].astype(object)
    X[3][0, 0] = "word"
    with refusal(r"\b3\b", "object|str|word"):
        chain().fit(X, Y)


def test_mixed_kinds_of_examples_name_the_example(chains):
    X, Y = chains
    X[2] = [{"a": 1.0}] * len(Y[2])
    with refusal(r"\b2\b"):
        chain().fit(X, Y)


def test_attribute_that_is_not_a_number_names_example_and_attribute():
    with refusal(r"\b1\b", "colour|object|list"):
        chain().fit([[{"a": 1.0}], [{"colour": [1, 2]}]], [["x"], ["y"]])


def test_integer_features_are_numbers_and_are_accepted(flat):
    X, y = flat
    whole = np.round(3 * X).astype(int)
    left = multiclass(random_state=0, tol=1e-6).fit(whole, y)
    right = multiclass(random_state=0, tol=1e-6).fit(whole.astype(float), y)
    assert left.coef_.tobytes() == right.coef_.tobytes()


# --- labels --------------------------------------------------------------------------------------


def test_one_class_only(flat, chains):
    X, _ = flat
    with refusal("class", r"\b1\b|one"):
        multiclass().fit(X, np.zeros(8))
    with refusal("class", r"\b1\b|one"):
        mm.MulticlassSVC().fit(X, np.zeros(8))
    X, Y = chains
    with refusal("class|label", r"\b1\b|one"):
        chain().fit(X, [["a"] * len(y) for y in Y])


def test_label_outside_the_given_classes_names_label_and_example(flat, chains):
    X, y = flat
    with refusal(r"\b2\b", "classes"):
        mm.StructuralSVM(models.Multiclass(classes=[0, 1])).fit(X, y)
    X, Y = chains
    Y[5][1] = "zebra"
    with refusal("zebra", r"\b5\b", "classes"):
        mm.StructuralSVM(models.Chain(classes=["a", "b", "c"])).fit(X, Y)


def test_label_unseen_in_training_is_an_error_that_counts(flat, chains):
    # score counts the node as wrong and keeps the example; loss raises, because its cost is unknown.
    X, y = flat
    svm = multiclass(tol=1e-4).fit(X, y)
    right = np.sum(svm.predict(X)[1:] == y[1:])
    strange = y.copy()
    strange[0] = 99
    assert svm.score(X, strange) == pytest.approx(right / 8)
    X, Y = chains
    svm = chain(tol=1e-4).fit(X, Y)
    Y = [list(y) for y in Y]
    Y[2][0] = "zebra"
    true, predicted = (
        np.concatenate([np.asarray(y, dtype=object) for y in part]) for part in (Y, svm.predict(X))
    )
    assert svm.score(X, Y) == pytest.approx(np.mean(true == predicted))


def test_precision_of_later_examples_is_not_lost():
    # In float32, 10000.0003 is 10000, so the widest dtype among the examples must be used.
    X = [np.zeros((1, 2), np.float32), np.array([[1e4 + 3e-4, -1e4]]), np.zeros((1, 2))]
    model, w = models.Chain(), np.array([0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    model.initialize(X, [["a"], ["a"], ["b"]])
    found = mm.objective(model, w, X, [["a"], ["a"], ["b"]], C=1.0)
    assert found == pytest.approx(1.0 + 1.0 + (1.0 + 3e-4) + 1.0, rel=1e-6)
