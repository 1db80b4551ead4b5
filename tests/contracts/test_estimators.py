"""The contract of scikit-learn, and the same problem through both estimators."""

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import maxmargin as mm
from helpers import assert_no_chunks, built_in, loss_units
from maxmargin import models
from reference.cases import chain_case, multiclass_case
from reference.problems import make_case

NAMES = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]


@parametrize_with_checks(
    [
        mm.MulticlassSVC(),
        mm.BinarySVC(),
        mm.RegressionSVR(),
        mm.RegressionSVR(solver="dual-coordinate"),
    ]
)
def test_flat_front_ends_pass_every_check_of_scikit_learn(estimator, check):
    check(estimator)


OPTIONS = [
    (mm.MulticlassSVC(penalized_intercept=False), "penalized_intercept=False"),
    (mm.RegressionSVR(penalized_intercept=False), "penalized_intercept=False"),
    (mm.MulticlassSVC(class_weight="balanced"), "class_weight"),
    (mm.MulticlassSVC(solver="sda"), "'sda'"),
    (mm.BinarySVC(loss="f1"), "loss='f1'"),
]
CHUNK_CHECKS = (
    "check_fit_score_takes_y",
    "check_n_features_in_after_fitting",
    "check_estimators_partial_fit_n_features",
)


@pytest.mark.parametrize(("estimator", "reason"), OPTIONS)
def test_options_that_refuse_chunks_leave_no_partial_fit(estimator, reason):
    assert_no_chunks(estimator, reason)
    for name in CHUNK_CHECKS:  # of scikit-learn, which call partial_fit if there is one
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator))


def test_choosing_c_weighs_classes_as_training_does():
    svc = mm.MulticlassSVCCV(cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator_checks.check_class_weight_classifiers("MulticlassSVCCV", svc)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("solver", ["auto", "sda", "fasole"])
def test_weights_are_repetitions_to_seven_digits_when_asked(name, solver):
    svc = mm.MulticlassSVC(tol=1e-12, max_passes=20_000, solver=solver)
    getattr(estimator_checks, name)("MulticlassSVC", svc)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_multiclass_svc_is_the_structural_svm(generator, intercept, layout):
    bias = 1.0 if intercept else None
    case = multiclass_case(generator, n=15, layout=layout, bias=bias, weighted=True)
    tol = loss_units(case, 1e-8)
    svc = mm.MulticlassSVC(C=case.C, fit_intercept=intercept, tol=tol, max_passes=50_000)
    svc.fit(case.X, case.Y, sample_weight=case.sample_weight)
    assert svc.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-6)
    weights = case.optimum.w.reshape(3, -1)
    np.testing.assert_allclose(svc.coef_, weights[:, :4], atol=2e-3)
    expected = weights[:, 4] if intercept else np.zeros(3)
    np.testing.assert_allclose(svc.intercept_, expected, atol=2e-3)
    values = svc.decision_function(case.X)
    direct = case.truth.examples(case.X) @ svc.coef_.T + svc.intercept_
    np.testing.assert_allclose(values, direct, atol=1e-9)
    chosen = direct[np.arange(15), svc.predict(case.X)]  # scores may tie up to rounding
    np.testing.assert_allclose(chosen, direct.max(axis=1), atol=1e-9)


def test_class_weight_is_a_sample_weight(generator):
    case = multiclass_case(generator, n=12)
    by_class = {0: 1.0, 1: 2.5, 2: 0.5}
    weights = np.array([by_class[y] for y in case.Y])
    expected = case.replace(sample_weight=weights).optimum.value
    settings = {"fit_intercept": False, "tol": 1e-9, "max_passes": 50_000}
    left = mm.MulticlassSVC(class_weight=by_class, **settings).fit(case.X, case.Y)
    right = mm.MulticlassSVC(**settings).fit(case.X, case.Y, sample_weight=weights)
    assert left.certificate_.primal == pytest.approx(expected, rel=1e-6)
    assert right.certificate_.primal == pytest.approx(expected, rel=1e-6)
    counts = np.bincount(case.Y)
    balanced = len(case.Y) / (3 * counts[case.Y])
    left = mm.MulticlassSVC(class_weight="balanced", **settings).fit(case.X, case.Y)
    expected = case.replace(sample_weight=balanced).optimum.value
    assert left.certificate_.primal == pytest.approx(expected, rel=1e-6)


def test_cost_matrix_through_the_flat_front_end(generator):
    case = multiclass_case(generator, costs=True)
    svc = mm.MulticlassSVC(loss=case.options["costs"], fit_intercept=False, tol=1e-9)
    svc.set_params(max_passes=50_000).fit(case.X, case.Y)
    assert svc.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-6)


@pytest.mark.parametrize("name", ["multiclass-cost-dense", "chain-1to4-csr-ends"])
def test_clone_and_parameters(seed, name):
    case = make_case(name, seed)
    svm = mm.StructuralSVM(built_in(case), C=0.5, solver="sda", tol=1e-2)
    copied = clone(svm)
    assert copied.get_params(deep=False).keys() == svm.get_params(deep=False).keys()
    svm.fit(case.X, case.Y)
    assert not hasattr(copied, "coef_")
    copied.fit(case.X, case.Y)
    assert copied.C == 0.5


def test_fitting_leaves_the_users_model_and_data_alone(generator):
    case = chain_case(generator)
    model = models.Chain()
    copies = [x.copy() for x in case.X]
    mm.StructuralSVM(model, tol=1e-2).fit(case.X, case.Y)
    assert not hasattr(model, "classes_")
    assert all((x == y).all() for x, y in zip(case.X, copies, strict=True))
    assert model.get_params() == models.Chain().get_params()


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_grid_search_and_cross_validation_of_chains(generator, layout):
    case = chain_case(generator, n=12, lengths=(2, 3), n_classes=2, layout=layout)
    svm = mm.StructuralSVM(models.Chain(classes=[0, 1]), tol=1e-2, random_state=0)
    scores = cross_val_score(svm, case.X, case.Y, cv=3, error_score="raise")
    assert np.isfinite(scores).all()
    search = GridSearchCV(svm, {"C": [0.1, 1.0]}, cv=3, error_score="raise")
    search.fit(case.X, case.Y)
    assert search.best_params_["C"] in (0.1, 1.0)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(search.predict(case.X)) == 12


def test_pipeline_and_string_labels(generator):
    X = generator.normal(size=(30, 4))
    y = np.where(X[:, 0] > 0, "right", "left")
    pipe = make_pipeline(StandardScaler(), mm.MulticlassSVC(tol=1e-3)).fit(X, y)
    assert pipe.score(X, y) > 0.9
    assert list(pipe[-1].classes_) == ["left", "right"]


def test_separable_data_are_separated(generator):
    centres = 6 * np.eye(3)
    y = np.repeat([0, 1, 2], 20)
    X = sparse.csr_matrix(centres[y] + generator.normal(size=(60, 3)) * 0.3)
    svc = mm.MulticlassSVC().fit(X, y)
    assert svc.score(X, y) == 1.0


def test_callbacks_of_fit_see_every_step_and_can_stop(generator):
    class Third(mm.callbacks.Callback):
        seen = 0

        def on_step(self, info):
            self.seen += 1
            return self.seen == 3

    X = generator.normal(size=(40, 5))
    y = generator.integers(0, 3, 40)
    third = Third()
    svm = mm.StructuralSVM(models.Multiclass(), solver="bcfw", tol=1e-9)
    with pytest.warns(ConvergenceWarning, match="callback"):
        svm.fit(X, y, callbacks=[third])
    assert third.seen == 3
    assert len(svm.history_["gap"]) == 3


def test_warm_start_refuses_other_labels(generator):
    X = generator.normal(size=(20, 3))
    svm = mm.StructuralSVM(models.Multiclass(), warm_start=True).fit(X, np.arange(20) % 4)
    with pytest.raises(ValueError, match="warm_start"):
        svm.fit(X, np.arange(20) % 2)


EVERY = [
    lambda **settings: mm.StructuralSVM(models.Multiclass(), **settings),
    lambda **settings: mm.LatentSVM(models.Latent(models.Multiclass(), parts=2), **settings),
    mm.MulticlassSVC,
    mm.BinarySVC,
    mm.RegressionSVR,
    mm.GeneralizedSVM,
]


def test_parameters_keep_their_places():
    first = {
        mm.StructuralSVM: ["model", "C", "hinge", "rescaling", "solver", "tol", "max_passes"],
        mm.LatentSVM: ["model", "C", "hinge", "rescaling", "solver", "tol", "max_passes"],
        mm.MulticlassSVC: ["C", "loss", "fit_intercept", "class_weight", "solver", "tol"],
        mm.BinarySVC: ["C", "loss", "fit_intercept", "class_weight", "solver", "tol"],
        mm.RegressionSVR: ["C", "epsilon", "fit_intercept", "solver", "tol", "max_passes"],
        mm.GeneralizedSVM: ["C", "solver", "tol", "max_passes", "max_seconds", "warm_start"],
    }
    for kind, names in first.items():
        values = [object() for _ in names]
        svm = kind(*values)
        assert [getattr(svm, name) for name in names] == values
        assert set(names) < set(svm.get_params(deep=False))
    assert mm.MulticlassSVC() != mm.MulticlassSVC()  # equality is identity, as for all estimators
    assert repr(mm.MulticlassSVC(C=2.0)) == "MulticlassSVC(C=2.0)"


@pytest.mark.parametrize("make", EVERY)
def test_clones_share_an_executor_and_pickles_leave_it(generator, make):
    X, y = generator.normal(size=(12, 3)), np.arange(12) % 2
    with ThreadPoolExecutor(1) as executor, config_context(enable_metadata_routing=True):
        svm = make(n_jobs=executor, tol=0.5).set_fit_request(sample_weight=True).fit(X, y)
        twin = clone(svm)
        assert twin.n_jobs is executor and not hasattr(twin, "coef_")
        assert twin.get_metadata_routing().fit.requests["sample_weight"] is True
        copied = pickle.loads(pickle.dumps(svm))
    assert copied.n_jobs is None
    np.testing.assert_array_equal(copied.coef_, svm.coef_)


@pytest.mark.parametrize(
    ("make", "method"),
    [*((make, "fit") for make in EVERY), *((EVERY[i], "partial_fit") for i in (0, 2, 3))],
)
def test_warnings_name_the_line_of_the_user(generator, make, method):
    X, y = generator.normal(size=(60, 3)), generator.integers(0, 2, 60)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        getattr(make(C=1e4, tol=1e-12, max_passes=1), method)(X, y)
    seen = [warning for warning in seen if warning.category is ConvergenceWarning]
    assert seen
    assert all(warning.filename == __file__ for warning in seen)


def test_a_failed_warm_start_leaves_the_last_fit(generator):
    class Fails(mm.callbacks.Callback):
        def on_start(self, info):
            raise RuntimeError("no")

    X, y = generator.normal(size=(20, 3)), np.arange(20) % 2
    svm = mm.StructuralSVM(models.Binary("f1"), warm_start=True).fit(X, y)
    with pytest.raises(RuntimeError):
        svm.set_params(warm_start=False).fit(2 * X, y, callbacks=[Fails()])
    with pytest.raises(ValueError, match="same examples"):  # the planes belong to X
        svm.set_params(warm_start=True).fit(2 * X, y)
    assert svm.fit(X, y).certificate_.converged
