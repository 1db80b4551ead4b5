"""The regularisation path and the estimators that choose C: certified solutions equal to single fits."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import maxmargin as mm
from helpers import as_python, built_in, quietly, refusal
from maxmargin import metrics, models, solvers
from maxmargin.data.synthetic import random_chains, random_multiclass
from reference.problems import CASES, make_case

CS = [0.05, 0.4, 3.0]


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_solution_at_each_c_is_that_of_a_single_fit(name, seed):
    case = make_case(name, seed)
    svm = mm.StructuralSVM(built_in(case), rescaling=case.rescaling, max_passes=10**5)
    svm.set_params(tol=1e-6, random_state=0)
    path = mm.regularization_path(svm, case.X, case.Y, CS, sample_weight=case.sample_weight)
    np.testing.assert_array_equal(path.Cs, CS)
    for C, fitted in zip(CS, path.estimators, strict=True):
        best = case.replace(C=C).optimum.value
        certificate = fitted.certificate_
        assert certificate.converged and fitted.C == C
        assert certificate.dual <= best * (1 + 1e-9) and best <= certificate.primal * (1 + 1e-9)
        again = mm.certify(fitted, case.X, case.Y, case.sample_weight)
        assert again.primal == pytest.approx(certificate.primal, rel=1e-9)
        assert again.dual == pytest.approx(certificate.dual, rel=1e-9)


@pytest.mark.parametrize(
    "solver",
    ["proximal", "sda", "fasole", "dual-coordinate", "one-slack", "n-slack", "subgradient"],
)
def test_every_solver_walks_the_path(solver):
    X, y = random_multiclass(40, random_state=1)
    svm = mm.StructuralSVM(models.Multiclass(), solver=solver, tol=0.05, max_passes=3000)
    path = quietly(lambda: mm.regularization_path(svm, X, y, [0.01, 0.1, 1.0]))
    for C, certificate in zip(path.Cs, path.certificates, strict=True):
        best = mm.StructuralSVM(models.Multiclass(), C=C, tol=1e-7).fit(X, y).certificate_
        assert certificate.dual <= best.primal * (1 + 1e-9)
        assert certificate.primal >= best.dual * (1 - 1e-9)
        assert certificate.converged or solver == "subgradient"


def test_a_python_model_walks_the_path(seed):
    case = make_case("multiclass-cost-dense", seed)
    model, X = as_python(case)
    svm = mm.StructuralSVM(model, tol=1e-6, max_passes=10**5)
    path = mm.regularization_path(svm, X, case.Y, CS, sample_weight=case.sample_weight)
    for C, certificate in zip(CS, path.certificates, strict=True):
        assert certificate.primal == pytest.approx(case.replace(C=C).optimum.value, rel=1e-4)


def test_flat_front_ends_walk_the_path(generator):
    X, y = random_multiclass(60, random_state=0)
    two, target = y == y[0], generator.normal(size=60)
    for svm, goal in ((mm.MulticlassSVC(), y), (mm.BinarySVC(), two), (mm.RegressionSVR(), target)):
        path = mm.regularization_path(svm, X, goal, [0.1, 1.0])
        for fitted in path.estimators:
            alone = clone(svm).set_params(C=fitted.C).fit(X, goal)
            np.testing.assert_allclose(fitted.coef_, alone.coef_, atol=1e-5)
            assert fitted.n_features_in_ == X.shape[1]
    path = mm.regularization_path(mm.GeneralizedSVM(), X, 1.0, [0.1, 1.0], groups=[0, 30, 60])
    assert all(certificate.converged for certificate in path.certificates)


def test_the_path_is_scored_on_validation_data():
    X, Y = random_chains(60, random_state=0)
    svm = mm.StructuralSVM(models.Chain(), tol=1e-3, random_state=0)
    path = mm.regularization_path(
        svm, X[:40], Y[:40], [1.0, 0.01, 0.1], validation=(X[40:], Y[40:])
    )
    np.testing.assert_array_equal(path.Cs, [0.01, 0.1, 1.0])
    expected = [fitted.score(X[40:], Y[40:]) for fitted in path.estimators]
    np.testing.assert_array_equal(path.scores, expected)
    assert path.best is path.estimators[int(np.argmax(expected))]
    wrong = mm.regularization_path(
        svm, X, Y, [0.1], validation=(X, Y), scoring=lambda svm, X, Y: -svm.loss(X, Y)
    )
    assert wrong.scores[0] == -wrong.best.loss(X, Y)
    for name in ("tag_accuracy", "f1_macro"):
        named = mm.regularization_path(svm, X, Y, [0.1], validation=(X, Y), scoring=name)
        assert named.scores[0] == metrics.get_scorer(name)(named.best, X, Y)


def test_a_path_saves_passes():
    X, Y = random_chains(150, random_state=0)
    svm = mm.StructuralSVM(models.Chain(), tol=0.02, random_state=0)
    path = mm.regularization_path(svm, X, Y, np.geomspace(0.01, 10, 10))
    cold = [clone(svm).set_params(C=C).fit(X, Y).certificate_.passes for C in path.Cs]
    warm = [certificate.passes for certificate in path.certificates]
    assert sum(warm) < 0.9 * sum(cold)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_range_of_c_follows_the_scale_of_the_features(scale):
    X, y = random_multiclass(80, random_state=0)
    svm = mm.MulticlassSVC(fit_intercept=False, random_state=0)
    path = mm.regularization_path(svm, scale * X, y, 3)
    same = mm.regularization_path(svm, X, y, 3)
    np.testing.assert_allclose(path.Cs * scale**2, same.Cs, rtol=0.03)  # rounded to two digits
    assert path.Cs[-1] / path.Cs[0] == pytest.approx(1e4)


def test_below_the_first_useful_c_nothing_can_be_learnt():
    X, Y = random_chains(60, random_state=0)
    model = models.Chain()
    model.initialize(X, Y)
    problem = mm.Problem(model.bind(X, Y), 1.0)
    loss = problem.objective(np.zeros(problem.dimension))
    C = problem.first_c()
    for part in (0.01, 0.1, 1.0):
        result = mm.train(problem.at(part * C), solvers.SDA(), tol=1e-6 * loss / problem.total)
        # P*(C) >= D of the worst outputs at w = 0 >= P_C(0) (1 - C / (2 first))
        assert result.certificate.primal >= part * C * loss * (1 - part / 2) * (1 - 1e-9)
    small = mm.train(problem.at(0.1 * C), solvers.SDA(), tol=1e-6)
    assert problem.at(0.1 * C).useful_c(small.support) >= C * (1 - 1e-6)


def test_without_a_loss_the_range_is_arbitrary_and_w_is_zero():
    X, y = random_multiclass(20, random_state=0)
    svm = mm.StructuralSVM(models.Multiclass(loss=np.zeros((3, 3))))
    path = mm.regularization_path(svm, X, y, 2)
    assert all(not fitted.coef_.any() for fitted in path.estimators)


# Estimators that choose C.


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_cross_validation_picks_what_a_plain_loop_picks(n_jobs):
    X, Y = random_chains(60, random_state=3)
    svm = mm.StructuralSVM(models.Chain(), tol=1e-5, random_state=0)
    scores = np.array(
        [cross_val_score(clone(svm).set_params(C=C), X, Y, cv=KFold(3)) for C in CS]
    ).T
    search = mm.StructuralSVMCV(
        models.Chain(), Cs=CS, cv=KFold(3), tol=1e-5, random_state=0, n_jobs=n_jobs
    )
    search.fit(X, Y)
    np.testing.assert_allclose(
        search.scores_, scores, atol=0.02
    )  # the optima agree within their gaps
    assert CS[int(np.argmax(search.scores_.mean(axis=0)))] == search.C_
    assert search.best_score_ == search.scores_.mean(axis=0).max()
    assert [len(row) for row in search.certificates_] == [3, 3, 3]
    assert all(certificate.converged for row in search.certificates_ for certificate in row)
    alone = clone(svm).set_params(C=search.C_).fit(X, Y)
    primal = search.certificate_.primal
    # with threads the bits may differ
    assert primal == pytest.approx(alone.certificate_.primal, rel=1e-4)
    assert search.score(X, Y) == pytest.approx(alone.score(X, Y), abs=0.02)
    assert mm.certify(search, X, Y).primal == pytest.approx(primal, rel=1e-9)
    assert mm.objective(search, search.coef_, X, Y) == pytest.approx(primal, rel=1e-9)


def test_a_dev_set_is_walked_once_and_nothing_is_fitted_again():
    X, Y = random_chains(60, random_state=0)
    search = mm.StructuralSVMCV(models.Chain(), Cs=CS, tol=1e-4, random_state=0)
    search.fit(X[:40], Y[:40], validation=(X[40:], Y[40:]))
    svm = mm.StructuralSVM(models.Chain(), tol=1e-4, random_state=0)
    path = mm.regularization_path(svm, X[:40], Y[:40], CS, validation=(X[40:], Y[40:]))
    np.testing.assert_array_equal(search.scores_, [path.scores])
    np.testing.assert_array_equal(search.coef_, path.best.coef_)
    assert search.C_ == path.best.C and search.best_estimator_.C == search.C_


def test_manners_of_scikit_learn(tmp_path):
    X, y = random_multiclass(90, random_state=0)
    search = mm.MulticlassSVCCV(Cs=3, cv=2, random_state=0)
    assert clone(search).get_params() == search.get_params()
    assert "C" not in search.get_params() and not hasattr(search, "partial_fit")
    grid = GridSearchCV(search, {"class_weight": [None, "balanced"]}, cv=2).fit(X, y)
    assert grid.best_estimator_.C_ in grid.best_estimator_.Cs_
    search.fit(X, y, sample_weight=np.ones(90))
    search.save(tmp_path / "m.safetensors")
    loaded = mm.load(tmp_path / "m.safetensors")
    assert isinstance(loaded, mm.MulticlassSVC) and loaded.C == search.C_
    np.testing.assert_array_equal(loaded.predict(X), search.predict(X))
    only = mm.MulticlassSVCCV(Cs=[0.1, 1], cv=2, refit=False).fit(X, y)
    assert only.C_ in (0.1, 1) and not hasattr(only, "coef_")
    groups = np.arange(90) // 10
    folds = mm.MulticlassSVCCV(Cs=[0.1], cv=GroupKFold(3), scoring="f1_macro")
    assert folds.fit(X, y, groups=groups).scores_.shape == (3, 1)


@parametrize_with_checks([mm.MulticlassSVCCV(Cs=[0.1, 1.0], cv=2)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_search_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_refusals():
    X, Y = random_chains(20, random_state=0)
    svm = mm.StructuralSVM(models.Chain())
    for Cs in (0, -1, [], [0.1, -1], [[0.1]], "many", [np.inf]):
        with refusal("Cs"):
            mm.regularization_path(svm, X, Y, Cs)
        with refusal("Cs"):
            mm.StructuralSVMCV(models.Chain(), Cs=Cs).fit(X, Y)
    with refusal("unknown argument 'weights'"):
        mm.regularization_path(svm, X, Y, [1], weights=1)
    with refusal("validation"):
        _ = mm.regularization_path(svm, X, Y, [1.0]).best
    with refusal("LatentSVM"):
        mm.regularization_path(mm.LatentSVM(models.Latent(models.Multiclass(), 2)), X, Y, [1])
    with refusal("memory"):
        chunks = [(X, Y)]
        mm.regularization_path(mm.StructuralSVM(models.Chain(), solver="streaming"), chunks, None)
    with refusal("all scores are NaN"):
        mm.StructuralSVMCV(models.Chain(), Cs=[1], cv=2, scoring=lambda *_: np.nan).fit(X, Y)
    with refusal("refit"):
        mm.StructuralSVMCV(models.Chain(), refit="yes").fit(X, Y)
