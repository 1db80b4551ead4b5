"""Kernels: a linear kernel equals the linear machine, the dense QP checks others, a full basis is exact."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import pairwise_kernels

import maxmargin as mm
from helpers import built_in, quietly, refusal
from kernel_cases import CASES, NONLINEAR, agree, case_of, circles_of, fitted
from maxmargin import models, solvers
from maxmargin.models.kernel_function import (
    KERNELS,
    KernelFunction,
)
from maxmargin.problem import Problem
from maxmargin.solvers.dual_state import open_state
from reference.cases import chain_case, fresh, multiclass_case
from reference.dense_qp import dual_objective, primal_objective
from reference.enumerate import with_bias


@pytest.fixture(params=CASES)
def case(request, seed):
    return case_of(request.param, seed)


@pytest.fixture(params=["margin", "slack"])
def circles(request, seed):
    return circles_of(request.param, seed)


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


# The reference: an explicit feature map from the whole kernel matrix.


def feature_map(K):
    """Return rows whose inner products are K, by eigenvalues, independently of Cholesky factors."""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def explicit(case, kernel):
    """Return the case with x replaced by an explicit phi(x); the kernel is a function of dense rows."""
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


def by_name(options):
    return lambda A, B: pairwise_kernels(
        A, B, metric=options["kernel"], filter_params=True, **{**options, "kernel": None}
    )


# A linear kernel equals the linear machine.


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


# Other kernels against the dense QP.


@pytest.mark.parametrize("name", NONLINEAR)
def test_exact_kernel_reaches_the_optimum_of_the_dense_program(case, name):
    options = NONLINEAR[name]
    truth = explicit(case, by_name(options))
    svm = fitted(truth.replace(X=case.X), models.Kernel(built_in(case), **options), 1e-7)
    assert svm.certificate_.converged
    assert svm.certificate_.primal == pytest.approx(truth.optimum.value, rel=1e-6)
    assert svm.certificate_.dual == pytest.approx(truth.optimum.value, rel=1e-6)


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


# The certificate by definition.


def expanded(case, svm):
    """Return the explicit weights of a fitted exact kernel, in the space of `explicit`."""
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
    # kernels use double precision, because coefficients and scores must agree exactly
    assert not state.single
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
