"""Cutting planes: the inner program, the iteration bound, few cuts, warm starts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import maxmargin as mm
from helpers import assert_optimal, built_in, fit, loss_units, quietly
from maxmargin import models, solvers
from maxmargin._core import core
from maxmargin.data.synthetic import random_multiclass
from maxmargin.problem import Problem
from reference.problems import chain_case, multiclass_case


@given(seed=st.integers(0, 10_000), n=st.integers(1, 8), rank=st.integers(1, 6))
def test_simplex_program_agrees_with_a_general_solver(seed, n, rank):
    generator = np.random.default_rng(seed)
    G, b = generator.normal(size=(n, rank)), generator.normal(size=n)
    H = np.ascontiguousarray(G @ G.T)
    beta = np.full(n, 1.0 / n)
    gap = core.simplex_qp(H, b, beta, 1e-12, 1_000_000)
    assert gap <= 1e-12
    assert (beta >= 0).all()
    assert beta.sum() == pytest.approx(1.0)
    found = b @ beta - 0.5 * beta @ H @ beta
    other = minimize(
        lambda x: 0.5 * x @ H @ x - b @ x,
        np.full(n, 1.0 / n),
        jac=lambda x: H @ x - b,
        bounds=[(0, None)] * n,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1, "jac": lambda x: np.ones(n)},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found >= -other.fun - 1e-7 * (1 + abs(found))


def test_grown_hessian_equals_one_built_fresh(generator):
    case = chain_case(generator, n=5, lengths=(2, 3), n_classes=3)
    model = built_in(case)
    model.initialize(case.X, case.Y)
    problem = Problem(model.bind(case.X, case.Y), case.C)
    solver = solvers.OneSlack(keep=2)
    state = solver.start(problem, 1e-9, generator)
    for _ in range(12):
        solver.step(problem, state)
        G = np.array(state.vectors)
        np.testing.assert_allclose(state.hessian, G @ G.T, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(state.w, -G.T @ state.beta, atol=1e-12)
    assert len(state.beta) < 13  # some were forgotten


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("C", [0.01, 0.1, 1.0])
def test_iterations_stay_below_the_bound_of_theorem_5(rescaling, C, generator):
    # In the paper's scale: 1/2 |w|^2 + C' / n sum xi, at most log2(Delta / (4 R^2 C')) + 16 R^2 C' / eps
    # cuts, with R the norm of the longest plane (for slack rescaling Delta R).
    case = multiclass_case(generator, n=12, n_classes=3, n_features=3).replace(
        C=C, rescaling=rescaling
    )
    eps = 0.01
    svm = fit(case, "one-slack", tol=eps)
    n = len(case.Y)
    longest = max(np.square(block.vectors).sum(axis=1).max() for block in case.blocks)
    loss = max(block.offsets.max() for block in case.blocks)
    scaled = C * n
    bound = np.ceil(np.log2(max(2.0, loss / (4 * longest * scaled)))) + np.ceil(
        16 * longest * scaled / eps
    )
    assert len(svm.history_["gap"]) <= bound


@pytest.mark.parametrize("solver", ["one-slack", "n-slack"])
def test_warm_start_continues(solver, generator):
    case = multiclass_case(generator, n=10, n_classes=3, n_features=4)
    svm = fit(case, solver, relative=1e-6)
    cold = svm.certificate_.passes
    svm.set_params(warm_start=True, tol=loss_units(case, 1e-7))
    svm.fit(case.X, case.Y)
    assert_optimal(case, svm)
    assert svm.certificate_.passes <= cold + 20


def test_cuts_do_not_grow_with_the_number_of_examples():
    counts = []
    for n in (200, 2000):
        X, y = random_multiclass(n, 4, 6, random_state=0)
        svm = mm.StructuralSVM(models.Multiclass(), C=1.0 / n, solver="one-slack", tol=1e-3).fit(
            X, y
        )
        counts.append(svm.history_["planes"][-1])
    assert counts[1] <= 2 * counts[0] + 5


@pytest.mark.parametrize("make", [solvers.OneSlack, solvers.NSlack])
def test_more_threads_find_the_same_optimum(make, generator):
    case = chain_case(generator, n=6, lengths=(1, 4), n_classes=3)
    assert_optimal(case, fit(case, make(), relative=5e-7, n_jobs=2))


def test_pass_limit_is_truthful(generator):
    case = multiclass_case(generator, n=10, n_classes=3, n_features=4)
    svm = quietly(lambda: fit(case, "one-slack", relative=1e-9, max_passes=4))
    assert not svm.certificate_.converged
    assert svm.certificate_.dual <= case.optimum.primal
    assert svm.certificate_.primal >= case.optimum.dual
