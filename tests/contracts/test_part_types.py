"""Trees of parts with hidden types and unknown places, against enumeration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import maxmargin as mm
from helpers import quietly, refusal
from maxmargin import models
from reference.cases import fresh
from reference.parts import TypedTreeTruth

EDGES = [(1, 0), (1, 2)]  # part 1 is the root
GRIDS = [(2, 2), (1, 3), (3, 1)]
TYPES = [[2, 2, 1], [1, 2, 2], [2, 1, 2], [1, 1, 1], [3, 1, 1]]


def typed_case(seed, unknown=0.3, n=4):
    """Return maps, places (some of them NaN), the model, the reference and the number of types."""
    g = fresh(seed, 720)
    shapes = [GRIDS[i % len(GRIDS)] for i in range(n)]
    dtype = (np.float64, np.float32)[seed % 2]
    X = [g.normal(size=(*shape, 2)).astype(dtype) for shape in shapes]
    Y = [g.integers(shape, size=(3, 2)).astype(float) for shape in shapes]
    for i, y in enumerate(Y[1:]):
        y[g.random(3) < unknown * (i != 0)] = np.nan
    types = TYPES[seed % len(TYPES)]
    model = models.Latent(models.Tree(EDGES), dict(enumerate(types)))
    return X, Y, model, TypedTreeTruth(EDGES, Y, 2, types), types


def agrees(z, y):
    """Return whether an output has the known places."""
    return all(np.isnan(b[0]) or (a[0] == b[0] and a[1] == b[1]) for a, b in zip(z, y, strict=True))


def as_output(z):
    return tuple(tuple(int(v) for v in row[:3]) for row in z)


def objective(truth, X, Y, w, C):
    """F by its definition."""
    total = 0.5 * w @ w
    for x, y in zip(truth.examples(X), Y, strict=True):
        outputs = truth.outputs(x)
        scores = np.array([w @ truth.joint_feature(x, z) for z in outputs])
        losses = np.array([truth.known_loss(y, z) for z in outputs])
        best = max(s for s, z in zip(scores, outputs, strict=True) if agrees(z, y))
        total += C * (np.max(scores + losses) - best)
    return total


@given(seed=st.integers(0, 10**6))
def test_completions_and_both_argmaxima_are_those_of_enumeration(seed):
    X, Y, model, truth, types = typed_case(seed)
    model.initialize(X, Y)
    w = fresh(seed, 721).normal(size=model.size_joint_feature) * 10.0 ** (seed % 5 - 2)
    found = model.completions(X, Y, w)
    predicted, augmented = model.over(X).predict(w), model.over(X, found).augmented(w)
    for i, (x, y) in enumerate(zip(truth.examples(X), Y, strict=True)):
        outputs = truth.outputs(x)
        scores = np.array([w @ truth.joint_feature(x, z) for z in outputs])
        own = [as_output(z) for z in (found[i], predicted[i], augmented[i])]
        values = [w @ truth.joint_feature(x, z) for z in own]
        best = max(s for s, z in zip(scores, outputs, strict=True) if agrees(z, y))
        near = {"rel": 1e-9, "abs": 1e-9}
        assert agrees(own[0], y)
        assert values[0] == pytest.approx(best, **near)
        assert values[1] == pytest.approx(scores.max(), **near)
        losses = np.array([truth.known_loss(y, z) for z in outputs])
        assert values[2] + truth.known_loss(y, own[2]) == pytest.approx(
            (scores + losses).max(), **near
        )
        np.testing.assert_allclose(
            model.inner_.joint_feature(X[i], found[i]), truth.joint_feature(x, own[0])
        )
        assert model.loss(y, predicted[i][:, :2]) == pytest.approx(truth.known_loss(y, own[1]))
    assert model.unpack(w)["parts"].shape == (sum(types), 2)


@pytest.mark.parametrize("solver", ["auto", "sda", "one-slack", "fasole"])
def test_the_objective_falls_and_is_that_of_the_definition(seed, solver, tmp_path):
    X, Y, model, truth, _ = typed_case(seed)
    svm = mm.LatentSVM(
        model, C=0.5, tol=1e-4, round_tol=1e-7, solver=solver, random_state=seed, max_rounds=8
    )
    quietly(lambda: svm.fit(X, Y))
    path = svm.objective_path_
    assert (np.diff(path) <= 1e-9 * path[0]).all()
    assert path[-1] == pytest.approx(objective(truth, X, Y, svm.coef_, 0.5), rel=1e-6)
    assert mm.certify(svm, X, Y).gap == pytest.approx(svm.certificate_.gap, abs=1e-9)
    svm.save(tmp_path / "model")
    loaded = mm.load(tmp_path / "model")
    for a, b in zip(loaded.predict_complete(X), svm.predict_complete(X), strict=True):
        np.testing.assert_array_equal(a, b)
    assert loaded.score(X, Y) == svm.score(X, Y)
    assert loaded.loss(X, Y) == svm.loss(X, Y)


def test_one_type_and_all_places_known_is_the_plain_tree(seed):
    X, Y, _, _, _ = typed_case(seed, unknown=0.0, n=6)
    plain = mm.StructuralSVM(models.Tree(EDGES), C=0.5, tol=1e-6).fit(X, Y)
    one = mm.LatentSVM(models.Latent(models.Tree(EDGES), parts=1), C=0.5, tol=1e-6).fit(X, Y)
    assert one.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-4)
    assert len(one.objective_path_) == 1
    for a, b in zip(one.model_.over(X).predict(plain.coef_), plain.predict(X), strict=True):
        np.testing.assert_array_equal(a[:, :2], b)


def hands(n, seed):
    """An elbow, with a hand above or below it, and on the opposite side a decoy that looks like a hand."""
    g = np.random.default_rng(seed)
    X, Y = 0.3 * g.normal(size=(n, 11, 8, 3)), []
    for x in X:
        row, column, side = g.integers(4, 7), g.integers(8), g.choice([-1, 1])
        x[row, column, 0] += 2
        x[[row + 3 * side, row - 3 * side], column, 1 if side > 0 else 2] += 2
        Y.append(np.array([[row, column], [row + 3 * side, column]]))
    return list(X), Y


def test_types_win_where_a_part_has_two_poses(seed):
    (X, Y), (X_test, Y_test) = hands(80, seed), hands(80, seed + 1)
    settings = {"C": 0.5, "tol": 0.02, "random_state": 0}
    plain = mm.StructuralSVM(models.Tree([(0, 1)]), **settings).fit(X, Y)
    svm = mm.LatentSVM(models.Latent(models.Tree([(0, 1)]), {1: 2}), **settings).fit(X, Y)
    assert plain.score(X_test, Y_test) < 0.85
    assert svm.score(X_test, Y_test) > 0.95
    types = np.array([z[1, 2] for z in svm.predict_complete(X_test)])
    up = np.array([y[1, 0] < y[0, 0] for y in Y_test])
    assert max(np.mean(types == up), np.mean(types != up)) > 0.9
    assert clone(svm).model.parts == {1: 2}


def test_what_cannot_be_is_refused(seed):
    X, Y, _, _, _ = typed_case(seed)
    with refusal("parts names 7"):
        mm.LatentSVM(models.Latent(models.Tree(EDGES), {7: 2})).fit(X, Y)
    with refusal("whole cells"):
        mm.LatentSVM(models.Latent(models.Tree(EDGES), 2)).fit(X, [y + 0.5 for y in Y])
    lost = [np.vstack([y[:2], [[np.nan, np.nan]]]) for y in Y]
    with refusal("no example with places for both parts"):
        mm.LatentSVM(models.Latent(models.Tree(EDGES), 2)).fit(X, lost)
    with refusal("whole cells"):
        mm.StructuralSVM(models.Tree(EDGES)).fit(X, lost)
