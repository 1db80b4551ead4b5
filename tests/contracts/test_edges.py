"""Chains with edge features, and of second order, against enumeration."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import maxmargin as mm
from helpers import built_in, prepared, refusal
from maxmargin import models
from reference.cases import edge_chain_case, fresh
from reference.problems import EDGES, make_case


def random_case(seed, **options):
    """Return a case with random options, three labels and up to five positions."""
    g = fresh(seed, 900)
    drawn = {
        "start": bool(g.integers(2)),
        "end": bool(g.integers(2)),
        "bias": 1.0 if g.integers(2) else None,
        "layout": ("dense", "csr")[g.integers(2)],
        "lengths": tuple(g.integers(1, 6, size=3).tolist()),
        "order": int(g.integers(1, 3)),
        "n_edges": int(g.integers(0, 3)),
    }
    drawn.update(options)
    if not drawn["n_edges"]:
        drawn["order"] = 2
    return edge_chain_case(g, n=3, **drawn)


def scores_of(case, x, w):
    """Return all labellings and their scores."""
    outputs = case.truth.outputs(x)
    return outputs, np.array([w @ case.truth.joint_feature(x, y) for y in outputs])


@given(st.integers(0, 10_000))
def test_argmax_and_the_k_best_are_those_of_enumeration(seed):
    case = random_case(seed)
    model = prepared(case)
    w = fresh(seed, 901).normal(size=model.size_joint_feature)
    predicted = model.bind(case.X).predict(w)
    for i, x in enumerate(case.truth.examples(case.X)):
        outputs, scores = scores_of(case, x, w)
        best = np.sort(scores)[::-1]
        assert scores[outputs.index(tuple(predicted[i]))] == pytest.approx(best[0])
        found = model.inference_k_best(case.X[i], w, 6)
        assert [score for _, score in found] == pytest.approx(best[:6].tolist())
        for y, score in found:
            assert scores[outputs.index(tuple(y))] == pytest.approx(score)


@given(st.integers(0, 10_000))
def test_joint_features_are_those_of_the_truth(seed):
    case = random_case(seed)
    model = prepared(case)
    for x, dense, y in zip(case.X, case.truth.examples(case.X), case.Y, strict=True):
        assert model.joint_feature(x, y) == pytest.approx(case.truth.joint_feature(dense, y))
    parts = model.unpack(np.arange(model.size_joint_feature))
    assert sum(part.size for part in parts.values()) == model.size_joint_feature


@pytest.mark.parametrize("name", EDGES)
def test_threads_files_and_parts_change_nothing(seed, name, tmp_path):
    case = make_case(name, seed)
    svm = mm.StructuralSVM(built_in(case), C=case.C, tol=1e-5, n_jobs=2).fit(case.X, case.Y)
    svm.save(tmp_path / "model")
    again = mm.load(tmp_path / "model")
    for found, expected in zip(again.predict(case.X), svm.predict(case.X), strict=True):
        assert list(found) == list(expected)
    chunks = mm.StructuralSVM(built_in(case), C=case.C, tol=1e-5)
    chunks.partial_fit(case.X[:2], case.Y[:2], classes=case.truth.classes)
    chunks.partial_fit(case.X[2:], case.Y[2:])
    assert np.isfinite(chunks.certificate_.gap)


def test_a_constant_feature_on_edges_stands_beside_transitions(seed):
    """Constant edge features a get the weights of the transitions, multiplied by a."""
    g = fresh(seed, 902)
    X = [g.normal(size=(t, 3)) for t in (1, 2, 4, 3)]
    Y = [g.integers(2, size=len(x)).tolist() for x in X]
    pairs = [(x, np.full((len(x) - 1, 1), 2.0)) for x in X]
    svm = mm.StructuralSVM(models.Chain(edges=True), tol=1e-8).fit(pairs, Y)
    parts = svm.model_.unpack(svm.coef_)
    assert parts["edges"][:, :, 0] == pytest.approx(2.0 * parts["transitions"], abs=1e-3)


def test_attributes_on_edges(tmp_path):
    words = [["the", "dog", "barks"], ["dogs", "bark"], ["a", "dog", "bites", "a", "dog"]] * 3
    Y = [["D", "N", "V"], ["N", "V"], ["D", "N", "V", "D", "N"]] * 3
    X = [
        (
            [{"w": word} for word in s],
            [{"pair": f"{a} {b}"} for a, b in pairwise(s)],
        )
        for s in words
    ]
    svm = mm.StructuralSVM(models.Chain(edges=True, order=2), C=10.0).fit(X, Y)
    assert [list(y) for y in svm.predict(X)] == Y
    svm.save(tmp_path / "model")
    unseen = [([{"w": "dog"}, {"w": "sits"}], [{"pair": "dog sits"}])]
    assert list(mm.load(tmp_path / "model").predict(unseen)[0]) == list(svm.predict(unseen)[0])
    assert list(svm.predict([([{"w": "dog"}], [])])[0]) == ["N"]


def test_second_order_learns_what_first_order_cannot():
    """In a a b a a b ... a label depends on the last two; only the first two nodes have features."""
    Y = [list("aab" * 4)[k : k + 9] for k in range(3)] * 4
    X = [np.eye(2)[[int(k == "b") for k in y]] * (np.arange(9) < 2)[:, None] for y in Y]
    first, second = (
        mm.StructuralSVM(models.Chain(order=order), C=10.0, tol=1e-4).fit(X, Y) for order in (1, 2)
    )
    assert second.certificate_.primal < 0.5 * first.certificate_.primal


WRONG = {
    r"order must be one of \[1, 2\]": lambda: models.Chain(order=3),
    "edges must be": lambda: models.Chain(edges="yes"),
    r"X\[0\] must be a pair \(nodes, edges\)": lambda: models.Chain(edges=True),
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_options_are_refused(words):
    with refusal(words):
        mm.StructuralSVM(WRONG[words]()).fit([np.ones((3, 2))], [[0, 1, 0]])


def test_wrong_edges_are_refused():
    nodes, Y = np.ones((3, 2)), [[0, 1, 0], [1]]
    svm = mm.StructuralSVM(models.Chain(edges=True))
    with refusal(r"X\[0\] has 3 positions, so 2 edges, but features for 3"):
        svm.fit([(nodes, np.ones((3, 1))), (nodes[:1], [])], Y)
    with refusal(r"X\[0\]\[1\] must have two dimensions"):
        svm.fit([(nodes, np.ones(2)), (nodes[:1], [])], Y)
    with refusal(r"X\[0\]\[1\], row 1, contains NaN"):
        svm.fit([(nodes, np.array([[1.0], [np.nan]])), (nodes[:1], [])], Y)
    with refusal("a kernel works on features of positions"):
        kernel = models.Kernel(models.Chain(order=2), "rbf")
        mm.StructuralSVM(kernel).fit([nodes, nodes[:1]], Y)
    with refusal("at most 256 labels"):
        wide = [np.ones((300, 1))]
        mm.StructuralSVM(models.Chain(order=2)).fit(wide, [list(range(300))])
    with refusal("listed for at most 48 labels"):
        many = mm.StructuralSVM(models.Chain(order=2), max_passes=1, tol=1e3)
        many.fit([sparse.csr_matrix(np.eye(50))], [list(range(50))])
        many.model_.inference_k_best(np.eye(50), many.coef_, 2)
