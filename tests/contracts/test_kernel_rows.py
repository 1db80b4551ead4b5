"""Rows of a kernel, in a cache of limited size or for a basis."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import maxmargin as mm
from helpers import built_in, refusal
from kernel_cases import CASES, NONLINEAR, agree, case_of, fitted
from maxmargin import models
from maxmargin.models.kernel_examples import GramRows
from maxmargin.models.kernel_function import (
    KernelFunction,
    choose_basis,
    pivoted_cholesky,
)
from maxmargin.problem import Problem
from maxmargin.solvers.dual_state import open_state
from reference.cases import chain_case, fresh


@pytest.fixture(params=CASES)
def case(request, seed):
    return case_of(request.param, seed)


# The cache.


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
    assert rows.core.computed > 7  # some rows were dropped and recomputed
    exact = problem.dual_objective(state.support())
    state.refresh()
    assert state.dual() == pytest.approx(exact, rel=1e-9)


def test_passes_in_random_order_hit_what_is_cached(generator):
    # A least-recently-used policy would recompute almost all rows.
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
            if len(A) <= 7 and len(B) == 50:  # the cache asks for such blocks
                self.calls += 1
                if self.calls > 3:
                    return np.full((len(A), len(B)), np.nan)
            return A @ B.T

    for jobs in (1, 2):
        model = models.Kernel(models.Multiclass(), Failing(), cache_bytes=8 * 50 * 7)
        with refusal("returned NaN or infinity"):
            mm.StructuralSVM(model, n_jobs=jobs, tol=1e-6).fit(X, y)


# Rank k.


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
    # The projection on the span of the basis, by least squares.
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
