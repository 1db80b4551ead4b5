"""Kernels: the linear one is the linear machine, the dense QP judges the others, a full basis is exact."""

import copy
import pickle
import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_circles
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV

import maxmargin as mm
from helpers import built_in, quietly, refusal
from maxmargin import models, solvers
from maxmargin.io.model_file import read, write
from maxmargin.models.kernel_examples import GramRows
from maxmargin.models.kernel_function import (
    KERNELS,
    KernelFunction,
    choose_basis,
    pivoted_cholesky,
)
from maxmargin.problem import Problem
from maxmargin.solvers.dual_state import open_state
from reference.dense_qp import dual_objective, primal_objective
from reference.enumerate import dense_rows, with_bias
from reference.problems import binary_case, chain_case, fresh, multiclass_case

EXACT = {
    "auto": lambda: "auto",
    "fasole": lambda: "fasole",
    "sda": lambda: "sda",
    "one-slack": lambda: "one-slack",
    "n-slack": lambda: "n-slack",
    "bcfw-pairwise": lambda: solvers.BCFW(pairwise=True),
}
RATED = {
    "bcfw": lambda: "bcfw",
    "bcfw-average": lambda: solvers.BCFW(averaging=True),
    "subgradient": lambda: "subgradient",
}
CASES = {
    "multiclass": lambda g: multiclass_case(g, costs=True, bias=1.0, weighted=True),
    "multiclass-csr32": lambda g: multiclass_case(g, layout="csr", dtype=np.float32, C=0.5),
    "binary": lambda g: binary_case(g, bias=1.0),
    "chain": lambda g: chain_case(g, n=5, lengths=(3, 1, 4), n_classes=2, start=True, bias=2.0),
    "chain-csr": lambda g: chain_case(g, n=5, lengths=(2, 3), layout="csr", end=True, mean=True),
}


@pytest.fixture(params=CASES)
def case(request, seed):
    return CASES[request.param](fresh(seed, 70 + list(CASES).index(request.param)))


def fitted(case, model, relative=1e-7, solver="auto", **settings):
    """A machine with this model on the data of a case; tol is relative to what the case allows."""
    tol = relative * case.optimum.value / float(case.budgets.sum())
    defaults = {"tol": tol, "max_passes": 100_000, "max_seconds": 120.0, "random_state": 0}
    defaults |= {"rescaling": case.rescaling}
    svm = mm.StructuralSVM(model, C=case.C, solver=solver, **(defaults | settings))
    return svm.fit(case.X, case.Y, sample_weight=case.sample_weight)


def same_outputs(a, b):
    return all(np.array_equal(u, v) for u, v in zip(a, b, strict=True))


def agree(case, a, b):
    """Two machines predict the same, or what is as good but for the tolerance: rows of zeros tie."""
    for i, (u, v) in enumerate(zip(a.predict(case.X), b.predict(case.X), strict=True)):
        x = case.X[i]
        best, other = (a.model_.joint_feature(x, y) @ a.coef_ for y in (u, v))
        if not (np.array_equal(u, v) or abs(best - other) <= 1e-3 * (1 + abs(best))):
            return False
    return True


# The truth: an explicit feature map from the whole kernel matrix


def feature_map(K):
    """Rows whose inner products are K, by eigenvalues: nothing in common with a Cholesky factor."""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def explicit(case, kernel):
    """The case with x replaced by an explicit phi(x), for the kernel as a function of dense rows."""
    parts = case.truth.examples(case.X)
    rows = np.concatenate([np.atleast_2d(x) for x in parts])
    phi = feature_map(kernel(rows, rows))
    truth = copy.copy(case.truth)
    truth.n_features, truth.bias = phi.shape[1], case.truth.bias
    width = phi.shape[1] + (truth.bias is not None)
    scores = 1 if case.kind == "binary" else len(truth.classes)
    rest = case.truth.size_joint_feature - scores * (
        case.truth.n_features + (truth.bias is not None)
    )
    truth.size_joint_feature = scores * width + rest
    ends = np.cumsum([len(x) for x in parts])[:-1]
    X = np.split(phi, ends) if case.kind == "chain" else phi
    return case.replace(X=X, truth=truth)


NONLINEAR = {
    "rbf": {"kernel": "rbf", "gamma": 0.4},
    "poly": {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0},
    "laplacian": {"kernel": "laplacian", "gamma": 0.3},
}


def by_name(options):
    return lambda A, B: pairwise_kernels(
        A, B, metric=options["kernel"], filter_params=True, **{**options, "kernel": None}
    )


# A linear kernel is the linear machine


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("solver", EXACT)
def test_linear_kernel_equals_the_linear_machine(case, solver, rescaling):
    case = case.replace(rescaling=rescaling)
    kernel = fitted(case, models.Kernel(built_in(case), "linear"), solver=EXACT[solver]())
    linear = fitted(case, built_in(case), solver=EXACT[solver]())
    assert kernel.certificate_.converged and kernel.certificate_.exact
    assert kernel.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-6)
    assert kernel.certificate_.dual == pytest.approx(case.optimum.value, rel=1e-6)
    assert kernel.certificate_.primal == pytest.approx(linear.certificate_.primal, rel=1e-6)
    assert agree(case, kernel, linear)


@pytest.mark.parametrize("solver", RATED)
def test_linear_kernel_takes_the_steps_of_the_linear_machine(case, solver):
    def run(model):
        svm = quietly(lambda: fitted(case, model, 1e-13, RATED[solver](), max_passes=20))
        return svm.certificate_

    kernel, linear = run(models.Kernel(built_in(case), "linear")), run(built_in(case))
    assert kernel.passes == linear.passes
    assert kernel.primal == pytest.approx(linear.primal, rel=1e-8)
    assert kernel.dual == pytest.approx(linear.dual, rel=1e-8)


def test_weights_of_a_linear_kernel_are_those_of_its_expansion(seed):
    case = multiclass_case(fresh(seed, 75), n=12)
    kernel = fitted(case, models.Kernel(built_in(case), "linear"), 1e-9)
    linear = fitted(case, built_in(case), 1e-9)
    A = kernel.model_.unpack(kernel.coef_)["weights"]
    np.testing.assert_allclose((A @ case.X).ravel(), linear.coef_, atol=1e-4)


# Other kernels against the dense QP


@pytest.mark.parametrize("name", NONLINEAR)
def test_exact_kernel_reaches_the_optimum_of_the_dense_program(case, name):
    options = NONLINEAR[name]
    truth = explicit(case, by_name(options))
    svm = fitted(truth.replace(X=case.X), models.Kernel(built_in(case), **options), 1e-7)
    assert svm.certificate_.converged
    assert svm.certificate_.primal == pytest.approx(truth.optimum.value, rel=1e-6)
    assert svm.certificate_.dual == pytest.approx(truth.optimum.value, rel=1e-6)


@pytest.fixture(params=["margin", "slack"])
def circles(request, seed):
    X, y = make_circles(40, noise=0.1, factor=0.4, random_state=seed)
    case = multiclass_case(fresh(seed, 76), n=40, n_features=2, n_classes=2, C=2.0)
    return case.replace(X=X, Y=y.tolist(), rescaling=request.param)


@pytest.mark.parametrize("solver", EXACT)
def test_every_solver_reaches_it(circles, solver):
    truth = explicit(circles, by_name(NONLINEAR["rbf"]))
    model = models.Kernel(built_in(circles), **NONLINEAR["rbf"])
    svm = fitted(truth.replace(X=circles.X), model, 1e-7, EXACT[solver]())
    assert svm.certificate_.primal == pytest.approx(truth.optimum.value, rel=1e-6)
    assert svm.certificate_.dual == pytest.approx(truth.optimum.value, rel=1e-6)


def test_a_function_is_the_kernel_of_its_values(case):
    named = models.Kernel(built_in(case), "rbf", gamma=0.4)
    given_ = models.Kernel(built_in(case), by_name(NONLINEAR["rbf"]))
    a, b = fitted(case, named), fitted(case, given_)
    assert a.certificate_.primal == pytest.approx(b.certificate_.primal, rel=1e-6)
    assert agree(case, a, b)


@pytest.mark.parametrize("name", KERNELS)
def test_named_kernels_are_those_of_scikit_learn(generator, name):
    A, B = generator.normal(size=(9, 4)), generator.normal(size=(5, 4))
    options = {"gamma": 0.3, "degree": 2, "coef0": 0.7}
    expected = pairwise_kernels(A, B, metric=name, filter_params=True, **options)
    kernel = KernelFunction(name, **options)
    np.testing.assert_allclose(kernel(A, B), expected, rtol=1e-12, atol=1e-14)
    found = kernel(sp.csr_matrix(A), sp.csr_matrix(B))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    if name != "sigmoid":
        np.testing.assert_allclose(kernel.diagonal(A), np.diagonal(kernel(A, A)), rtol=1e-12)


def test_kernels_of_gaussian_processes_are_functions(circles):
    from sklearn.gaussian_process.kernels import RBF

    given_ = fitted(circles, models.Kernel(built_in(circles), RBF(1.0)), 1e-6)
    named = fitted(circles, models.Kernel(built_in(circles), "rbf", gamma=0.5), 1e-6)
    assert given_.certificate_.primal == pytest.approx(named.certificate_.primal, rel=1e-5)


def test_threads_reach_the_same_optimum(seed):
    case = chain_case(fresh(seed, 77), n=30, lengths=(4, 3, 2), n_classes=3, n_features=4)
    truth = explicit(case, by_name(NONLINEAR["rbf"]))
    one, two = (
        mm.StructuralSVM(
            models.Kernel(built_in(case), **NONLINEAR["rbf"]), tol=1e-5, n_jobs=jobs, random_state=0
        ).fit(case.X, case.Y)
        for jobs in (1, 2)
    )
    assert len(truth.X) == 30
    assert one.certificate_.converged and two.certificate_.converged
    assert two.certificate_.dual <= one.certificate_.primal
    assert one.certificate_.dual <= two.certificate_.primal


def test_warm_start_goes_on_from_the_multipliers(circles):
    model = models.Kernel(built_in(circles), "rbf")
    svm = fitted(circles, model, 1e-4, warm_start=True)
    passes = svm.certificate_.passes
    svm.fit(circles.X, circles.Y)
    assert svm.certificate_.converged and svm.certificate_.passes < passes


# The certificate by definition


def expanded(case, svm):
    """The explicit weights of a fitted exact kernel, in the space of `explicit`."""
    truth = explicit(case, lambda A, B: svm.model_.kernel_(A, B) - svm.model_.kernel_.constant)
    A, rest = svm.model_.split(svm.coef_)
    rows = np.concatenate([np.atleast_2d(x) for x in truth.truth.examples(truth.X)])
    return truth, np.concatenate([(A @ with_bias(rows, truth.truth.bias)).ravel(), rest])


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
def test_certificate_follows_the_definition(case, rescaling):
    case = case.replace(rescaling=rescaling)
    svm = quietly(
        lambda: fitted(case, models.Kernel(built_in(case), "rbf", gamma=0.4), max_passes=6)
    )
    truth, w = expanded(case, svm)
    primal = primal_objective(truth.blocks, truth.budgets, w)
    assert svm.certificate_.primal == pytest.approx(primal, rel=1e-9)
    multipliers = [np.zeros(len(block.offsets)) for block in truth.blocks]
    labels, place = np.asarray(svm.support_.outputs).tolist(), 0
    for i, a in zip(svm.support_.blocks, svm.support_.multipliers, strict=True):
        length = 1 if case.kind != "chain" else len(case.Y[i])
        output = tuple(truth.truth.classes[code] for code in labels[place : place + length])
        output = output[0] if case.kind != "chain" else output
        multipliers[i][truth.blocks[i].outputs.index(output)] += a
        place += length
    assert svm.certificate_.dual == pytest.approx(
        dual_objective(truth.blocks, multipliers), rel=1e-9
    )
    again = mm.certify(svm, case.X, case.Y, sample_weight=case.sample_weight)
    assert again.primal == pytest.approx(svm.certificate_.primal, rel=1e-12)
    assert again.dual == pytest.approx(svm.certificate_.dual, rel=1e-12)


def test_other_data_have_an_objective_and_no_dual(case, generator):
    svm = fitted(case, models.Kernel(built_in(case), "rbf", gamma=0.4), 1e-4)
    if case.kind != "chain":
        X, Y = case.X[:4], case.Y[:4]
    else:
        X, Y = case.X[:3], case.Y[:3]
    with refusal("training rows", "mm.objective"):
        mm.certify(svm, X, Y)
    truth, w = expanded(case, svm)
    few = truth.replace(X=truth.X[: len(Y)], Y=Y, sample_weight=None)
    expected = primal_objective(few.blocks, few.budgets, w)
    assert mm.objective(svm, svm.coef_, X, Y) == pytest.approx(expected, rel=1e-9)
    assert svm.loss(X, Y) >= 0 and 0 <= svm.score(X, Y) <= 1


def test_dual_of_the_state_is_the_dual_of_the_definition(case):
    model = models.Kernel(built_in(case), "rbf", gamma=0.4)
    model.initialize(case.X, case.Y)
    problem = Problem(model.bind(case.X, case.Y), case.C)
    state = open_state(problem, 1e-9, np.random.default_rng(0), single=True)
    assert not state.single  # coefficients and values must fit to the last digits
    state.core.recenter(0.4, 2.0)
    for _ in range(3):
        state.visit(problem.active)
    assert state.dual() == pytest.approx(problem.dual_objective(state.support()), rel=1e-9)
    w = state.weights()
    state.core.recenter(0.0, 1.0)
    assert state.core.squared_distance() >= 0
    moved = state.core.weights(False) - w
    assert state.core.squared_distance() == pytest.approx(
        float(moved @ problem.examples.metric(moved)), rel=1e-6, abs=1e-12
    )


# The cache


@pytest.mark.parametrize("rows", [1, 4, 17])
def test_small_cache_gives_the_same_machine_within_its_bytes(seed, rows):
    case = chain_case(fresh(seed, 78), n=6, lengths=(3, 4, 2), n_classes=3)
    n = sum(len(y) for y in case.Y)
    budget = 8 * n * rows
    assert budget < 8 * n * n
    large = fitted(case, models.Kernel(built_in(case), "rbf"), 1e-5)
    small = fitted(case, models.Kernel(built_in(case), "rbf", cache_bytes=budget), 1e-5)
    assert small.certificate_.converged
    assert small.certificate_.primal == pytest.approx(large.certificate_.primal, rel=1e-5)
    assert small.certificate_.dual == pytest.approx(large.certificate_.dual, rel=1e-5)
    again = mm.certify(small, case.X, case.Y)
    assert again.dual == pytest.approx(small.certificate_.dual, rel=1e-12)


@pytest.mark.parametrize("threads", [1, 2])
def test_cache_never_holds_more_than_its_bytes(generator, threads):
    X, y = generator.normal(size=(60, 3)), generator.integers(3, size=60)
    budget = 8 * 60 * 7
    model = models.Kernel(models.Multiclass(), "rbf", cache_bytes=budget)
    model.initialize(X, y)
    problem = Problem(model.bind(X, y), 1.0, n_jobs=threads)
    state = open_state(problem, 1e-9, generator)
    for _ in range(5):
        state.visit(generator.permutation(60), threads=threads)
    rows = problem.examples.gram
    assert rows.whole is None
    assert 0 < rows.core.most_bytes <= budget
    assert rows.core.computed > 7  # some were forgotten and made anew
    exact = problem.dual_objective(state.support())
    state.refresh()
    assert state.dual() == pytest.approx(exact, rel=1e-9)


def test_passes_in_random_order_hit_what_is_cached(generator):
    # to forget the least recently used row would make almost all of them anew
    X, y = generator.normal(size=(90, 8)), generator.integers(3, size=90)
    model = models.Kernel(models.Multiclass(), "rbf", cache_bytes=8 * 90 * 30)
    model.initialize(X, y)
    examples = model.bind(X, y)
    state = open_state(Problem(examples, 10.0), 1e-9, generator)
    updates, passes = 0, 40
    for _ in range(passes):
        updates += state.visit(generator.permutation(90)).updates
    assert updates > 0.8 * 90 * passes
    assert examples.gram.core.computed < 0.8 * updates


def test_rows_that_no_step_needs_are_not_computed(generator):
    X = np.vstack([generator.normal(size=(40, 2)) + 9, generator.normal(size=(40, 2)) - 9])
    y = np.repeat([0, 1], 40)
    model = models.Kernel(models.Multiclass(), "rbf", cache_bytes=8 * 80 * 79)
    svm = mm.StructuralSVM(model, C=1e-3, solver="one-slack").fit(X, y)
    assert svm.certificate_.converged
    gram = GramRows(svm.model_.kernel_, X, 8 * 80 * 79)
    assert gram.core.computed == 0
    np.testing.assert_allclose(gram.products(np.eye(80)), svm.model_.kernel_(X, X), atol=1e-12)


def test_error_in_a_kernel_function_stops_training_in_any_thread(generator):
    X, y = generator.normal(size=(50, 2)), generator.integers(3, size=50)

    class Failing:
        calls = 0

        def __call__(self, A, B):
            if len(A) <= 7 and len(B) == 50:  # a block of the cache
                self.calls += 1
                if self.calls > 3:
                    return np.full((len(A), len(B)), np.nan)
            return A @ B.T

    for jobs in (1, 2):
        model = models.Kernel(models.Multiclass(), Failing(), cache_bytes=8 * 50 * 7)
        with refusal("gave NaN or infinity"):
            mm.StructuralSVM(model, n_jobs=jobs, tol=1e-6).fit(X, y)


# Rank k


@pytest.mark.parametrize("choice", ["greedy", "random"])
@pytest.mark.parametrize("name", NONLINEAR)
def test_all_points_as_basis_are_the_exact_kernel(case, name, choice):
    rows = sum(np.atleast_2d(x).shape[0] for x in case.truth.examples(case.X))
    options = NONLINEAR[name]
    exact = fitted(case, models.Kernel(built_in(case), **options), 1e-8)
    model = models.Kernel(built_in(case), **options, rank=rows, basis=choice, random_state=1)
    basis = fitted(case, model, 1e-8)
    assert basis.certificate_.primal == pytest.approx(exact.certificate_.primal, rel=1e-6)
    assert basis.certificate_.dual == pytest.approx(exact.certificate_.dual, rel=1e-6)
    assert basis.model_.basis_.residual <= 1e-8
    assert agree(case, basis, exact)
    again = mm.certify(basis, case.X, case.Y, sample_weight=case.sample_weight)
    assert again.primal == pytest.approx(basis.certificate_.primal, rel=1e-9)
    assert again.dual == pytest.approx(basis.certificate_.dual, rel=1e-9)


def test_greedy_basis_of_full_rank_is_exact(generator):
    X = generator.normal(size=(40, 3))  # a quadratic kernel of 3 features has rank 10
    y = generator.integers(3, size=40)
    options = {"kernel": "poly", "degree": 2, "gamma": 1.0}
    settings = {"C": 0.1, "tol": 1e-7, "max_passes": 20_000, "random_state": 0}
    exact, basis = (
        mm.StructuralSVM(models.Kernel(models.Multiclass(), **options, rank=rank), **settings)
        for rank in (None, 15)
    )
    exact.fit(X, y)
    basis.fit(X, y)
    assert len(basis.model_.basis_.factor) == 10
    assert basis.certificate_.primal == pytest.approx(exact.certificate_.primal, rel=1e-5)


def test_what_a_basis_leaves_out_falls_with_its_size(generator):
    X, y = generator.normal(size=(60, 4)), generator.integers(3, size=60)
    for choice in ("greedy", "random"):
        found = []
        for rank in (2, 5, 12, 30, 60):
            model = models.Kernel(
                models.Multiclass(), "rbf", rank=rank, basis=choice, random_state=0
            )
            model.initialize(X, y)
            found.append(model.basis_.residual)
        assert all(a > b for a, b in pairwise(found)), choice
        assert found[-1] <= 1e-8 and found[0] > 0.1


@given(seed=st.integers(0, 10_000), n=st.integers(1, 12), rank=st.integers(1, 12))
def test_pivoted_cholesky_factorises_the_matrix(seed, n, rank):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, 2))
    kernel = KernelFunction("rbf", 0.7)
    pivots, factor, residual = pivoted_cholesky(kernel, X, min(rank, n))
    K = kernel(X, X)
    assert len(set(pivots.tolist())) == len(pivots) == factor.shape[1]
    np.testing.assert_allclose(np.diagonal(K - factor @ factor.T), residual, atol=1e-9)
    np.testing.assert_allclose((factor @ factor.T)[pivots], K[pivots], atol=1e-7)
    # the projection on the span of the basis, by least squares
    P = K[:, pivots] @ np.linalg.pinv(K[np.ix_(pivots, pivots)], rcond=1e-13) @ K[pivots]
    np.testing.assert_allclose(factor @ factor.T, P, atol=1e-5)


def test_features_of_a_basis_have_the_kernel_as_product(generator):
    X, Z = generator.normal(size=(20, 3)), generator.normal(size=(7, 3))
    kernel = KernelFunction("rbf", 0.3)
    basis = choose_basis(kernel, X, 20, "greedy", np.random.RandomState(0))
    phi, psi = basis.features(kernel, X), basis.features(kernel, Z)
    np.testing.assert_allclose(phi @ phi.T, kernel(X, X), atol=1e-7)
    np.testing.assert_allclose(psi @ phi.T, kernel(Z, X), atol=1e-6)
    weights = generator.normal(size=(4, phi.shape[1]))
    np.testing.assert_allclose(
        basis.fold(weights) @ kernel(basis.rows, Z), weights @ psi.T, rtol=1e-5, atol=1e-5
    )


# Prediction and files


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
    np.testing.assert_array_equal(theirs, one.bind(case.X).values(svm.coef_))  # to the bit
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
    with refusal("holds no multipliers"):
        mm.certify(loaded, X, y)


def test_machine_can_be_fitted_again_after_loading(circles, tmp_path):
    svm = fitted(circles, models.Kernel(built_in(circles), "rbf"), 1e-6)
    svm.save(tmp_path / "m.safetensors")
    again = mm.load(tmp_path / "m.safetensors").fit(circles.X, circles.Y)
    assert again.certificate_.primal == pytest.approx(svm.certificate_.primal, rel=1e-5)


def tampered(header, arrays):
    """Ways in which a file may be whole and yet not that of a kernel machine."""
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
    # at w = 0 all 60 labels are wrong: the linear model adds up so long a move in a table
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


# Manners


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


# Bad kernels and bad parameters


def indefinite(A, B):
    return A @ np.diag([1.0, -1.0]) @ B.T


def hidden(A, B):
    """Minus the linear kernel, with a diagonal that hides it on rows of length 1."""
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
    X /= np.linalg.norm(X, axis=1)[:, None]  # on a circle, where its diagonal is 1
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
    """Labels of two bytes, whose transitions are kept by an index."""
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
