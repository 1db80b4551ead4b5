"""Bags of candidates: a positive bag chooses one candidate, a negative bag pushes all of them down."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import maxmargin as mm
from helpers import quietly, refusal
from maxmargin import models
from reference.primal_qp import solve_primal


def bags(seed, n=40, d=4, candidates=5, layout=np.asarray):
    """Return bags; each positive bag has one shifted candidate, at an unknown position."""
    generator = np.random.default_rng(seed)
    X, y = [], []
    for i in range(n):
        bag = generator.normal(size=(generator.integers(1, candidates + 1), d))
        positive = i % 2 == 0
        if positive:
            bag[generator.integers(len(bag)), :2] += 3.0
        X.append(layout(bag))
        y.append("thing" if positive else "background")
    return X, y


def machine(C=0.3, bias=1.0, start="means", **settings):
    model = models.Bags(bias=bias, start=start)
    return mm.LatentSVM(model, **{"C": C, "tol": 1e-5, "round_tol": 1e-7, **settings})


def with_bias(x):
    dense = x.toarray() if sp.issparse(x) else np.asarray(x)
    return np.hstack([dense, np.ones((len(dense), 1))])


def objective_by_definition(w, X, y, C):
    scores = [float(np.max(with_bias(x) @ w)) for x in X]
    signs = [1.0 if label == "thing" else -1.0 for label in y]
    slacks = [max(0.0, 1 - s * f) for s, f in zip(signs, scores, strict=True)]
    return 0.5 * w @ w + C * sum(slacks)


def dense_optimum(X, y, chosen, C):
    """Return the optimum of the convex problem of some choices, by the independent QP."""
    blocks = []
    for x, label, (_, z) in zip(X, y, chosen, strict=True):
        rows = with_bias(x)
        vectors = -rows[z : z + 1] if label == "thing" else rows
        vectors = np.vstack([np.zeros(rows.shape[1]), vectors])
        blocks.append(
            SimpleNamespace(vectors=vectors, offsets=np.r_[0.0, np.ones(len(vectors) - 1)])
        )
    d = vectors.shape[1]
    return solve_primal(blocks, np.full(len(X), C), np.zeros(d), np.eye(d))[0]


@pytest.mark.parametrize("start", ["means", "first", "random"])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix, np.float32])
def test_the_objective_never_rises_and_is_the_definition(seed, layout, start):
    X, y = bags(seed, layout=layout)
    svm = machine(start=start, random_state=0).fit(X, y)
    path = svm.objective_path_
    assert (np.diff(path) <= 1e-9 * path[0]).all()
    assert path[-1] == pytest.approx(objective_by_definition(svm.coef_, X, y, 0.3), rel=1e-6)
    assert mm.objective(svm, svm.coef_, X, y) == pytest.approx(path[-1])
    again = mm.certify(svm, X, y)
    assert again.dual == pytest.approx(svm.certificate_.dual, rel=1e-9)


@pytest.mark.parametrize("solver", ["auto", "sda", "dual-coordinate", "one-slack", "n-slack"])
def test_a_round_meets_the_dense_optimum(seed, solver):
    X, y = bags(seed, n=12, d=2, candidates=3)
    svm = quietly(lambda: machine(solver=solver, tol=1e-9, max_rounds=1).fit(X, y))
    value = dense_optimum(X, y, svm.completions_, 0.3)
    assert svm.certificate_.converged
    assert svm.certificate_.primal == pytest.approx(value, rel=1e-6)
    assert svm.certificate_.dual == pytest.approx(value, rel=1e-6)


def test_tiny_data_end_at_a_fixed_point_that_enumeration_confirms(seed):
    """The result is a fixed point: each positive bag has its best candidate, and the QP confirms F."""
    X, y = bags(seed, n=8, d=2, candidates=3)
    svm = machine(tol=1e-9, round_tol=1e-10).fit(X, y)
    best = [int(np.argmax(with_bias(x) @ svm.coef_)) for x in X]
    expected = [(1, z) if label == "thing" else (0, -1) for z, label in zip(best, y, strict=True)]
    for n_jobs in (1, 3):
        assert svm.model_.completions(X, y, svm.coef_, n_jobs) == expected
    value = dense_optimum(X, y, expected, 0.3)
    assert svm.objective_path_[-1] == pytest.approx(value, rel=1e-6)


def test_it_finds_the_hidden_candidate_where_a_flat_one_cannot(seed):
    X, y = bags(seed, n=160, candidates=8)
    X_test, y_test = bags(seed + 1000, n=160, candidates=8)
    svm = machine().fit(X, y)
    means = [np.stack([x.mean(axis=0) for x in part]) for part in (X, X_test)]
    flat = mm.BinarySVC(C=0.3).fit(means[0], y)
    assert svm.score(X_test, y_test) > flat.score(means[1], y_test)
    assert svm.score(X_test, y_test) > 0.85
    labels, places = svm.predict(X_test), svm.predict_complete(X_test)
    scores = svm.model_.scores(X_test, svm.coef_)
    for x, label, (code, z), f in zip(X_test, labels, places, scores, strict=True):
        own = with_bias(x) @ svm.coef_
        assert f == pytest.approx(own.max()) and z == np.argmax(own)
        assert label == svm.classes_[code] and code == (f > 0)
    assert svm.loss(X_test, y_test) == pytest.approx(1 - svm.score(X_test, y_test))


def test_bags_of_one_are_the_binary_machine(seed):
    X, y = bags(seed, candidates=1)
    svm = machine(tol=1e-9).fit(X, y)
    flat = mm.BinarySVC(C=0.3).fit(np.vstack(X), y)
    np.testing.assert_allclose(svm.coef_[:-1], flat.coef_[0], atol=1e-3)
    assert svm.objective_path_[-1] == pytest.approx(flat.certificate_.primal, rel=1e-6)


def test_files_clones_weights_and_priors(seed, tmp_path):
    X, y = bags(seed)
    svm = machine(prior=(0, [1, 1, 1, 1, np.inf]), nonnegative=[0]).fit(X, y)
    assert svm.certificate_.converged and svm.coef_[0] >= 0
    svm.save(tmp_path / "m")
    loaded = mm.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(X), svm.predict(X))
    assert clone(svm).model.bias == 1.0
    assert set(svm.model_.unpack(svm.coef_)) == {"weights", "bias"}
    twice = machine(C=0.3).fit(X, y, sample_weight=np.full(len(y), 2.0))
    doubled = machine(C=0.6).fit(X, y)
    assert twice.objective_path_[-1] == pytest.approx(doubled.objective_path_[-1], rel=1e-3)


def test_bad_use_is_refused(seed):
    X, y = bags(seed)
    with refusal("start", "middle"):
        machine(start="middle").fit(X, y)
    with refusal("2 classes"):
        machine().fit(X, ["a"] * len(X))
    with refusal(r"X\[1\]", "empty bag"):
        machine().fit([X[0], X[1][:0], *X[2:]], y)
    with refusal("slack rescaling"):
        machine(rescaling="slack").fit(X, y)
    with refusal("LatentSVM", "hidden"):
        mm.StructuralSVM(models.Bags()).fit(X, y)
    svm = machine().fit(X, y)
    with refusal("X", "features"):
        svm.predict([np.ones((2, 3))])
    with refusal(r"Y\[0\]", "cat"):
        mm.objective(svm, svm.coef_, X, ["cat", *y[1:]])
