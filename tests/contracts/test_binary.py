"""Two classes: the hinge loss of other tools, the laws of costs and weights, and BinarySVC."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC

import maxmargin as mm
from helpers import refusal
from maxmargin import losses, models
from maxmargin._core import core
from maxmargin.data.memory import feature_rows
from reference.cases import binary_case

TIGHT = {"tol": 1e-9, "max_passes": 50_000}


def hinge_objective(w, X, y, C):
    """1/2 |w|^2 + C sum max(0, 1 - y <w, x>), in NumPy."""
    signs = 2 * np.asarray(y) - 1
    return 0.5 * w @ w + C * np.maximum(0, 1 - signs * (X @ w)).sum()


def breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


def random_problem(generator, n=60, d=7):
    X = generator.normal(size=(n, d))
    y = (X[:, 0] + generator.normal(size=n) > 0.3).astype(int)
    return X, y


@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("data", ["random", "breast-cancer"])
def test_it_is_the_linear_svm_of_liblinear(generator, data, C):
    X, y = random_problem(generator) if data == "random" else breast_cancer()
    svm = mm.StructuralSVM(models.Binary(), C=C, **TIGHT | {"tol": 1e-8}).fit(X, y)
    peer = LinearSVC(loss="hinge", C=C, fit_intercept=False, dual=True, tol=1e-9, max_iter=10**6)
    theirs = hinge_objective(peer.fit(X, y).coef_.ravel(), X, y, C)
    assert svm.certificate_.primal == pytest.approx(hinge_objective(svm.coef_, X, y, C), rel=1e-9)
    assert svm.certificate_.primal == pytest.approx(theirs, rel=1e-6)


def test_multiclass_with_two_classes_is_half_the_problem_with_twice_c(generator):
    # W = (-u/2, u/2) makes |W|^2 = |u|^2 / 2 and the difference of scores <u, x>.
    X, y = random_problem(generator)
    two = mm.StructuralSVM(models.Multiclass(bias=1.0), C=0.2, **TIGHT).fit(X, y)
    one = mm.StructuralSVM(models.Binary(bias=1.0), C=0.4, **TIGHT).fit(X, y)
    assert one.certificate_.primal == pytest.approx(2 * two.certificate_.primal, rel=1e-6)
    W = two.coef_.reshape(2, -1)
    np.testing.assert_allclose(one.coef_, W[1] - W[0], atol=1e-3)


@pytest.mark.parametrize("form", ["dict", "vector", "matrix"])
def test_costs_with_slack_rescaling_are_weights_of_examples(generator, form):
    X, y = random_problem(generator)
    costs = {
        "dict": {0: 0.5, 1: 3.0},
        "vector": [0.5, 3.0],
        "matrix": np.array([[0.0, 0.5], [3.0, 0.0]]),
    }[form]
    costly = mm.StructuralSVM(models.Binary(costs), rescaling="slack", **TIGHT).fit(X, y)
    weights = np.where(y == 1, 3.0, 0.5)
    weighted = mm.StructuralSVM(models.Binary(), **TIGHT).fit(X, y, sample_weight=weights)
    classes = mm.BinarySVC(fit_intercept=False, class_weight={0: 0.5, 1: 3.0}, **TIGHT).fit(X, y)
    for other in (weighted, classes):
        assert costly.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-6)
    shifted = mm.StructuralSVM(models.Binary(costs), **TIGHT).fit(X, y)
    hinge = np.maximum(0, weights - (2 * y - 1) * (X @ shifted.coef_)).sum()
    by_hand = 0.5 * shifted.coef_ @ shifted.coef_ + hinge
    assert shifted.certificate_.primal == pytest.approx(by_hand, rel=1e-9)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("intercept", [True, False])
def test_binary_svc_is_the_structural_svm(generator, layout, intercept):
    case = binary_case(generator, n=15, layout=layout, bias=1.0 if intercept else None)
    names = np.array(["ham", "spam"])[case.Y]
    svc = mm.BinarySVC(C=case.C, fit_intercept=intercept, **TIGHT).fit(case.X, names)
    assert svc.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-6)
    assert svc.coef_.shape == (1, 4) and svc.intercept_.shape == (1,)
    assert list(svc.classes_) == ["ham", "spam"]
    scores = svc.decision_function(case.X)
    direct = np.array(case.truth.examples(case.X)) @ svc.coef_[0] + svc.intercept_[0]
    np.testing.assert_allclose(scores, direct, atol=1e-12)
    np.testing.assert_array_equal(svc.predict(case.X), np.where(direct > 0, "spam", "ham"))
    again = mm.certify(svc, case.X, names)
    assert again.gap == pytest.approx(svc.certificate_.gap, abs=1e-9)
    assert mm.objective(svc, svc.w_, case.X, names) == pytest.approx(again.primal, rel=1e-12)


@pytest.mark.parametrize("loss", ["f1", "roc-area", losses.PrecisionAt(0.2), [1.0, 4.0]])
def test_binary_svc_takes_every_loss(generator, loss):
    X, y = random_problem(generator)
    svc = mm.BinarySVC(C=5.0, loss=loss, tol=1e-4)
    svc = pickle.loads(pickle.dumps(clone(svc).fit(X, y)))
    svm = mm.StructuralSVM(models.Binary(loss, bias=1.0), C=5.0, tol=1e-6).fit(X, y)
    assert svc.certificate_.primal == pytest.approx(svm.certificate_.primal, rel=2e-3)
    assert mm.certify(svc, X, y).gap <= 1e-4
    search = GridSearchCV(mm.BinarySVC(loss=loss), {"C": [1.0, 5.0]}, scoring="f1", cv=2)
    assert np.isfinite(search.fit(X, y).cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("flat", [mm.BinarySVC, mm.MulticlassSVC])
def test_flat_front_ends_are_public_and_picklable(generator, flat):
    assert flat.__module__ == "maxmargin.estimators.flat"
    X, y = random_problem(generator)
    svc = flat().fit(X, y)
    again = pickle.loads(pickle.dumps(svc))
    assert (again.decision_function(X) == svc.decision_function(X)).all()


def test_wrong_numbers_of_classes_are_refused(generator):
    X, y = random_problem(generator)
    with refusal("2 classes", "has only one class"):
        mm.StructuralSVM(models.Binary()).fit(X, np.zeros(60))
    with refusal("2 classes", "there are 3", "Multiclass"):
        mm.StructuralSVM(models.Binary()).fit(X, np.arange(60) % 3)
    with refusal("Only binary", "multiclass", "MulticlassSVC"):
        mm.BinarySVC().fit(X, np.arange(60) % 3)
    with refusal("costs must have shape"):
        mm.StructuralSVM(models.Binary([1.0, 2.0, 3.0])).fit(X, y)
    with refusal("NaN"):
        mm.StructuralSVM(models.Binary()).fit(np.where(X > 2, np.nan, X), y)
    with refusal("not among the classes"):
        mm.StructuralSVM(models.Binary(classes=[0, 2])).fit(X, y)
    with refusal("node_weight"):
        mm.StructuralSVM(models.Binary()).fit(X, y, node_weight=[1.0] * 60)


# Kernels for one weight per feature.


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 70])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", ["dense", "csr", "binary"])
def test_scores_and_sums_of_rows(generator, d, dtype, form):
    X = generator.normal(size=(6, d)).astype(dtype)
    if form != "dense":
        X[generator.uniform(size=X.shape) < 0.5] = 0
        X = (X != 0).astype(dtype) if form == "binary" else X
    data = sparse.csr_matrix(X) if form == "csr" else X
    rows = feature_rows([data], d, bias=1.5, names="X").core.rows
    dense = np.column_stack([X.astype(np.float64), np.full(6, 1.5)])
    w, c = generator.normal(size=d + 1), generator.normal(size=6)
    for threads in (1, 2):
        np.testing.assert_allclose(rows.scores(w, threads), dense @ w, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(rows.combine(c), dense.T @ c, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="weights"):
        rows.scores(w[1:], 1)
    with pytest.raises(ValueError, match="factors"):
        rows.combine(c[1:])


def test_the_core_refuses_labels_that_are_not_two(generator):
    rows = feature_rows([generator.normal(size=(3, 2))], 2, names="X").core.rows
    ones = np.ones(2)
    with pytest.raises(ValueError, match="0 or 1"):
        core.BinaryData(rows, np.array([0, 1, 2], np.int32), ones)
    with pytest.raises(ValueError, match="do not fit"):
        core.BinaryData(rows, np.array([0, 1], np.int32), ones)


@pytest.mark.parametrize("solver", ["auto", "sda", "bcfw", "fasole"])
def test_single_precision_and_threads_end_at_the_same_optimum(generator, solver):
    X, y = random_problem(generator, n=200, d=20)
    best = mm.StructuralSVM(models.Binary(), C=0.1, **TIGHT).fit(X, y).certificate_.primal
    svm = mm.StructuralSVM(models.Binary(), C=0.1, solver=solver, tol=1e-4, n_jobs=2)
    found = svm.fit(X.astype(np.float32), y).certificate_
    assert found.converged
    assert found.primal == pytest.approx(best, rel=1e-3)
