"""Kernel machines: files, conventions of scikit-learn, refused input."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_circles
from sklearn.model_selection import GridSearchCV

import maxmargin as mm
from helpers import built_in, quietly, refusal
from kernel_cases import CASES, case_of, circles_of, fitted
from maxmargin import models, solvers
from maxmargin.io.model_file import read, write
from maxmargin.models.kernel_function import (
    KERNELS,
    KernelFunction,
    pivoted_cholesky,
)
from maxmargin.problem import Problem
from maxmargin.solvers.dual_state import open_state
from reference.cases import chain_case
from reference.enumerate import dense_rows


@pytest.fixture(params=CASES)
def case(request, seed):
    return case_of(request.param, seed)


@pytest.fixture(params=["margin", "slack"])
def circles(request, seed):
    return circles_of(request.param, seed)


def same_outputs(a, b):
    return all(np.array_equal(u, v) for u, v in zip(a, b, strict=True))


# Prediction and files.


@pytest.mark.parametrize("rank", [None, 5])
@pytest.mark.parametrize("kernel", [name for name in KERNELS if name != "sigmoid"])
def test_prediction_save_and_load(case, tmp_path, generator, rank, kernel):
    model = models.Kernel(built_in(case), kernel, gamma=0.4, rank=rank)
    svm = quietly(lambda: fitted(case, model, 1e-3, max_passes=50))
    one = svm.model_
    for i, x in enumerate(case.X if case.kind == "chain" else case.X[:6]):
        predicted = svm.predict(case.X[i : i + 1])[0]
        assert np.array_equal(predicted, one.inference(x, svm.coef_))
        best, score = one.inference_k_best(x, svm.coef_, 2)[0]
        assert score == pytest.approx(float(one.joint_feature(x, best) @ svm.coef_), abs=1e-9)
        assert np.array_equal(best, predicted)
    svm.save(tmp_path / "m.safetensors")
    loaded = mm.load(tmp_path / "m.safetensors")
    assert same_outputs(loaded.predict(case.X), svm.predict(case.X))
    theirs = loaded.model_.bind(case.X).values(loaded.coef_)
    np.testing.assert_array_equal(theirs, one.bind(case.X).values(svm.coef_))  # bit for bit
    assert mm.objective(loaded, loaded.coef_, case.X, case.Y, C=1.0) == pytest.approx(
        mm.objective(svm, svm.coef_, case.X, case.Y, C=1.0), rel=1e-9
    )


def test_a_file_holds_the_support_rows_only(generator, tmp_path):
    X = np.vstack([generator.normal(size=(100, 2)) + 3, generator.normal(size=(100, 2)) - 3])
    y = np.repeat([0, 1], 100)
    svm = mm.StructuralSVM(models.Kernel(models.Multiclass(), "rbf"), C=10.0).fit(X, y)
    svm.save(tmp_path / "m.safetensors")
    loaded = mm.load(tmp_path / "m.safetensors")
    support = np.unique(svm.support_.blocks[svm.support_.outputs != y[svm.support_.blocks]])
    assert 0 < len(loaded.model_.centres_) < 100
    assert len(loaded.model_.centres_) >= 0.5 * len(support)
    assert len(svm.model_.centres_) == 200
    Z = generator.normal(size=(50, 2)) * 4
    np.testing.assert_array_equal(loaded.predict(Z), svm.predict(Z))
    with refusal("certify needs multipliers"):
        mm.certify(loaded, X, y)


def test_machine_can_be_fitted_again_after_loading(circles, tmp_path):
    svm = fitted(circles, models.Kernel(built_in(circles), "rbf"), 1e-6)
    svm.save(tmp_path / "m.safetensors")
    again = mm.load(tmp_path / "m.safetensors").fit(circles.X, circles.Y)
    assert again.certificate_.primal == pytest.approx(svm.certificate_.primal, rel=1e-5)


def tampered(header, arrays):
    """Yield changes that leave a file intact but make it invalid as a kernel machine."""
    yield header, {**arrays, "centres": arrays["centres"][:-1]}
    yield header, {**arrays, "centres": np.full_like(arrays["centres"], np.nan)}
    yield header, {name: array for name, array in arrays.items() if name != "centres"}
    yield header, {**arrays, "factor": -arrays["factor"]}
    yield header, {**arrays, "factor": arrays["factor"][:, :-1]}
    yield header, {name: array for name, array in arrays.items() if name != "factor"}
    for key, value in (("options", ["gauss", 1.0, 3, 1.0]), ("shape", [6, 3]), ("base", {})):
        yield {**header, "model": {**header["model"], key: value}}, arrays


def test_files_that_no_machine_wrote_are_refused(circles, tmp_path):
    path = tmp_path / "m.safetensors"
    svm = fitted(circles, models.Kernel(built_in(circles), "rbf", rank=6), 1e-2)
    svm.save(path)
    for header, arrays in tampered(*read(path)):
        write(path, header, arrays)
        with pytest.raises(mm.ModelFileError, match="damaged"):
            mm.load(path)


def test_attributes_take_a_kernel(tmp_path):
    X = [[{"word": "a"}, {"word": "b", "n": 2}], [{"word": "b"}], [{"word": "c"}, {"word": "a"}]]
    Y = [["x", "y"], ["y"], ["y", "x"]]
    for rank in (None, 3):
        model = models.Kernel(models.Chain(), "rbf", gamma=0.5, rank=rank)
        svm = mm.StructuralSVM(model, C=10.0).fit(X, Y)
        assert same_outputs(svm.predict(X), Y)
        svm.save(tmp_path / "m.safetensors")
        loaded = mm.load(tmp_path / "m.safetensors")
        new = [[{"word": "a"}, {"word": "unseen"}]]
        assert same_outputs(loaded.predict(new), svm.predict(new))


def test_long_sequences_measure_their_moves_by_the_kernel(generator):
    # At w = 0 all 60 labels are wrong: the linear model sums such a long move in a table.
    X = [generator.normal(size=(60, 2)) for _ in range(3)]
    Y = [(x[:, 0] ** 2 + x[:, 1] ** 2 > 1).astype(int).tolist() for x in X]
    found = []
    for model in (models.Chain(), models.Kernel(models.Chain(), "linear")):
        model.initialize(X, Y)
        state = open_state(Problem(model.bind(X, Y), 1.0), 1e-9, generator)
        found.append(state.probe(np.arange(3)))
    (square, loss), (same, other) = found
    assert loss == other == 60
    assert square == pytest.approx(same, rel=1e-5) and square > 100


# Conventions of scikit-learn.


def test_scikit_learn_protocol(circles):
    model = models.Kernel(models.Multiclass(bias=1.0), gamma=0.5)
    svm = mm.StructuralSVM(model, C=1.0, tol=1e-2)
    params = svm.get_params()
    assert params["model__gamma"] == 0.5 and params["model__model__bias"] == 1.0
    twin = clone(svm).set_params(model__gamma=2.0, model__model__bias=None)
    assert svm.model.gamma == 0.5 and twin.model.gamma == 2.0 and twin.model.model.bias is None
    with pytest.raises(ValueError, match="degre"):
        model.set_params(degre=2)
    search = GridSearchCV(svm, {"model__gamma": [1e-4, 1.0], "model__rank": [None, 10]}, cv=2)
    search.fit(circles.X, circles.Y)
    assert search.best_params_["model__gamma"] == 1.0
    restored = pickle.loads(pickle.dumps(search.best_estimator_))
    assert same_outputs(restored.predict(circles.X), search.predict(circles.X))


def test_gamma_scale_is_that_of_scikit_learn(generator):
    dense = generator.normal(size=(30, 4)) + 1
    for X in (dense, sp.csr_matrix(dense * (generator.uniform(size=dense.shape) < 0.5))):
        model = models.Kernel(models.Multiclass())
        model.initialize(X, generator.integers(2, size=30))
        full = dense_rows(X)
        assert model.kernel_.gamma == pytest.approx(1 / (4 * full.var()))
    model.set_params(gamma=None).initialize(dense, generator.integers(2, size=30))
    assert model.kernel_.gamma == 0.25


def test_training_rows_are_the_models_own(circles):
    X = np.array(circles.X)
    svm = fitted(circles.replace(X=X), models.Kernel(built_in(circles), "rbf"), 1e-3)
    before = svm.predict(circles.X)
    X[:] = 0.0
    np.testing.assert_array_equal(svm.predict(circles.X), before)


@pytest.mark.parametrize("rank", [None, 6])
def test_check_model_finds_nothing_wrong(case, rank):
    X = dense_rows(case.X) if case.kind != "chain" else case.X
    mm.check_model(models.Kernel(built_in(case), "rbf", rank=rank), X, case.Y, n_checks=3)


# Bad kernels and bad parameters.


def indefinite(A, B):
    return A @ np.diag([1.0, -1.0]) @ B.T


def hidden(A, B):
    """Return minus the linear kernel; its diagonal looks valid on rows of length 1."""
    return 2.0 * np.all(np.isclose(A[:, None], B[None]), axis=2) - A @ B.T


@pytest.mark.parametrize("rank", [None, 5])
def test_indefinite_kernels_are_refused(generator, rank):
    X, y = generator.normal(size=(30, 2)), generator.integers(2, size=30)
    for options in ({"kernel": indefinite}, {"kernel": "sigmoid", "gamma": 3.0, "coef0": -1.0}):
        with refusal("positive semidefinite", "rbf"):
            mm.StructuralSVM(models.Kernel(models.Multiclass(), **options, rank=rank)).fit(X, y)


def test_indefinite_kernel_that_a_sample_misses_is_found_in_training(monkeypatch, generator):
    from maxmargin.models import kernel

    monkeypatch.setattr(kernel, "check_kernel", lambda *_: None)
    X = generator.normal(size=(30, 2))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = (X[:, 0] > 0).astype(int)
    with refusal("positive semidefinite", r"\|w\|"):
        quietly(
            lambda: mm.StructuralSVM(
                models.Kernel(models.Multiclass(), hidden), C=10.0, max_passes=50
            ).fit(X, y)
        )


def test_negative_pivot_is_refused(generator):
    X = generator.normal(size=(12, 2))
    X /= np.linalg.norm(X, axis=1)[:, None]  # on the unit circle, where the kernel's diagonal is 1
    with refusal("positive semidefinite", "pivot"):
        pivoted_cholesky(KernelFunction(hidden), X, 12)


@pytest.mark.parametrize(
    ("kernel", "patterns"),
    [
        (lambda A, B: np.full((len(A), len(B)), np.nan), ["NaN or infinity"]),
        (lambda A, B: A @ B.T + np.arange(len(B)), ["not symmetric"]),
        (lambda A, B: (A @ B.T)[:, :-1], ["shape"]),
        (lambda A, B: A[:, 0], ["shape"]),
        (lambda A, B: (A @ B.T).astype(complex), ["real numbers"]),
        (lambda A, B: -(A @ B.T), ["positive semidefinite"]),
        ("poly", ["NaN or infinity"]),
        (lambda A, B: np.zeros((len(A), len(B))), ["zero on these data"]),
    ],
)
def test_bad_kernel_functions_are_refused(generator, kernel, patterns):
    X, y = generator.normal(size=(20, 2)), generator.integers(2, size=20)
    model = models.Kernel(models.Multiclass(), kernel, degree=1e6, rank=3)
    with warnings.catch_warnings(), refusal("kernel", *patterns):
        warnings.simplefilter("error")
        mm.StructuralSVM(model).fit(X, y)


@pytest.mark.parametrize(
    ("options", "patterns"),
    [
        ({"kernel": "gauss"}, ["kernel must be one of", "rbf", "'gauss'"]),
        ({"kernel": None}, ["kernel must be one of"]),
        ({"gamma": -1.0}, ["gamma", "-1.0"]),
        ({"gamma": "auto"}, ["gamma", "'auto'"]),
        ({"degree": "two"}, ["degree", "'two'"]),
        ({"coef0": np.inf}, ["coef0", "inf"]),
        ({"rank": 0}, ["rank", "at least 1"]),
        ({"rank": 2.5}, ["rank", "2.5"]),
        ({"rank": 21}, ["rank", "20", "21"]),
        ({"basis": "best"}, ["basis", "greedy", "'best'"]),
        ({"cache_bytes": 0}, ["cache_bytes", "0"]),
        ({"cache_bytes": 159}, ["cache_bytes", "160", "159"]),
    ],
)
def test_bad_parameters_are_refused(generator, options, patterns):
    X, y = generator.normal(size=(20, 2)), generator.integers(2, size=20)
    with refusal(*patterns):
        mm.StructuralSVM(models.Kernel(models.Multiclass(), **options)).fit(X, y)


def test_models_without_rows_are_refused(generator):
    X, y = generator.normal(size=(9, 2)), generator.integers(2, size=9)
    for wrong in (object(), models.Multiclass, models.Kernel(models.Multiclass())):
        with refusal("Kernel: model must be one of", "Chain", "Multiclass"):
            mm.StructuralSVM(models.Kernel(wrong)).fit(X, y)


def test_bad_data_are_refused_with_their_place(circles):
    svm = fitted(circles, models.Kernel(built_in(circles), "rbf"), 1e-2)
    with refusal("3 features", "expected 2"):
        svm.predict(np.zeros((4, 3)))
    with refusal("row 1", "NaN"):
        svm.predict(np.array([[0.0, 1.0], [np.nan, 0.0]]))
    with refusal(r"Y\[3\]", "not among the classes"):
        mm.objective(svm, svm.coef_, circles.X[:5], [0, 1, 0, 7, 1])


def test_functions_are_not_saved(circles, tmp_path):
    svm = fitted(circles, models.Kernel(built_in(circles), lambda A, B: A @ B.T), 1e-2)
    with refusal("save", "function", "named"):
        svm.save(tmp_path / "m.safetensors")


def test_losses_of_the_whole_sample_take_a_rank(generator):
    X, y = make_circles(60, noise=0.1, factor=0.4, random_state=0)
    with refusal("rank", "whole sample"):
        mm.StructuralSVM(models.Kernel(models.Binary(loss="f1"), gamma=1.0)).fit(X, y)
    model = models.Kernel(models.Binary(loss="f1"), gamma=1.0, rank=20)
    svm = mm.StructuralSVM(model, C=1e5, tol=0.01).fit(X, y)
    assert svm.certificate_.converged
    assert svm.score(X, y) > 0.95


def test_a_searched_slack_is_bounded_under_a_kernel(generator):
    case = chain_case(generator, n=4, lengths=(2, 3), n_classes=3, costs=True)
    case = case.replace(rescaling="slack")
    svm = quietly(lambda: fitted(case, models.Kernel(built_in(case), "linear"), 1e-3))
    assert svm.certificate_.exact
    assert svm.certificate_.primal >= case.optimum.dual * (1 - 1e-9)
    assert svm.certificate_.dual <= case.optimum.primal * (1 + 1e-9)


@pytest.mark.parametrize(
    "options", [{"cache": 5}, {"proximal": True}, {"cache": 3, "proximal": True}]
)
def test_variants_of_one_slack_under_a_kernel(case, options):
    linear = models.Kernel(built_in(case), "linear")
    svm = fitted(case, linear, 1e-6, solver=solvers.OneSlack(**options))
    assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=2e-6)


def test_more_labels_than_a_byte_counts(generator):
    """More than 256 labels take two bytes each, and an index stores their transitions."""
    X = [np.eye(3)[[i % 3, (i + 1) % 3]] for i in range(6)]
    Y = [[7 * i, 299 - i] for i in range(6)]
    settings = {"C": 10.0, "tol": 1e-5, "max_passes": 5000, "random_state": 0}
    svm, linear = (
        mm.StructuralSVM(model, **settings).fit(X, Y)
        for model in (
            models.Kernel(models.Chain(classes=range(300)), "linear"),
            models.Chain(classes=range(300)),
        )
    )
    assert svm.certificate_.converged
    assert svm.certificate_.primal == pytest.approx(linear.certificate_.primal, rel=1e-3)
    assert mm.certify(svm, X, Y).dual == pytest.approx(svm.certificate_.dual, rel=1e-9)
