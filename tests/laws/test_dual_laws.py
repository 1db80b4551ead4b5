"""Weak duality and ascent hold at every step of every solver."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import EVERY, EXACT, assert_truthful, fit, prepared, quietly
from maxmargin import solvers
from maxmargin.problem import Formulation, Problem
from maxmargin.train import train
from reference import soft_cases
from reference.cases import fresh
from reference.strategies import cases

# Solvers whose every step raises the dual of the problem itself.
ASCENDING = [
    "sda",
    "sda-cyclic",
    "sdm",
    "dual-coordinate",
    "dual-coordinate-all",
    "fasole",
    "fasole-sweeps",
    "fasole-plain",
    "bcfw",
    "bcfw-gap",
    "bcfw-pairwise",
    "bcfw-pairwise-gap",
]


@pytest.mark.parametrize("solver", EVERY)
@given(case=cases(), passes=st.integers(1, 12))
def test_dual_and_primal_bracket_the_optimum_at_any_stop(solver, case, passes):
    svm = quietly(lambda: fit(case, EVERY[solver](), relative=1e-13, max_passes=passes))
    assert_truthful(case, svm)
    history, optimum = svm.history_, case.optimum
    primal = np.asarray(history["primal"])
    assert (np.asarray(history["dual"]) <= optimum.primal * (1 + 1e-9)).all()
    assert (primal[np.isfinite(primal)] >= optimum.dual * (1 - 1e-9)).all()


@pytest.mark.parametrize("n_jobs", [1, 16])
@pytest.mark.parametrize("solver", ASCENDING)
@given(case=cases())
def test_dual_never_decreases(solver, n_jobs, case):
    settings = {"relative": 1e-10, "max_passes": 25, "n_jobs": n_jobs}
    svm = quietly(lambda: fit(case, EVERY[solver](), **settings))
    dual = np.asarray(svm.history_["dual"], dtype=float)
    assert len(dual) >= 2
    assert np.diff(dual).min() >= -1e-11 * case.optimum.value
    assert dual[0] >= -1e-12


@pytest.mark.parametrize("solver", [name for name in EVERY if name.startswith("bcfw")])
@given(case=cases())
def test_frank_wolfe_gap_is_never_negative(solver, case):
    svm = quietly(lambda: fit(case, EVERY[solver](), relative=1e-13, max_passes=15))
    rounding = 1e-12 * case.optimum.value / case.budgets.sum()
    for key in ("gap", "estimate"):
        values = np.asarray(svm.history_[key], dtype=float)
        assert values[np.isfinite(values)].min(initial=np.inf) >= -rounding, key
    assert svm.certificate_.gap >= -rounding


@pytest.mark.parametrize("solver", EXACT)
@given(case=cases())
def test_converged_means_within_tol_of_the_optimum(solver, case):
    svm = fit(case, EXACT[solver](), relative=1e-3)
    assert svm.certificate_.converged
    assert_truthful(case, svm)
    assert svm.certificate_.primal <= case.optimum.value * (1 + 1.01e-3)
    assert svm.certificate_.dual >= case.optimum.value * (1 - 1.01e-3)


@pytest.mark.parametrize("proximity", [0.0, 1.0])
@settings(max_examples=20)
@given(
    salt=st.integers(0, 10**6),
    name=st.sampled_from(soft_cases.ASCENT),
    C=st.sampled_from([0.01, 0.3, 3.0, 100.0]),
    weigh=st.booleans(),
)
def test_the_dual_of_the_log_loss_never_falls_over_a_pass_of_a_warm_start(
    proximity, salt, name, C, weigh
):
    """With a centre z it is the dual of P(w) + k/2 |w - z|^2 that rises."""
    case = soft_cases.CASES[name](fresh(0, salt))
    examples = prepared(case).bind(case.X, case.Y).under(Formulation("log"))
    solver = solvers.Exponentiated(proximity=proximity, precision="double")
    first = train(Problem(examples, case.C), solver, tol=1e-3, random_state=0)
    weights = fresh(1, salt).uniform(0.1, 10, len(case.Y)) if weigh else None
    problem, rng = Problem(examples, C, weights), np.random.default_rng(0)
    state = solver.start(problem, 1e-9, rng, first.support)

    def dual(k, z):
        entropy, vector = problem.plane(state.solution()[1])
        q = k * z - vector
        return entropy - 0.5 * q @ q / (1 + k) + 0.5 * k * z @ z

    for _ in range(6):
        k, z = state.k, state.core.weights()
        state.core.recenter(0.0, k)
        before = dual(k, z)
        state.visit(problem.active, 0)
        assert dual(k, z) >= before - 1e-5 * (problem.total + abs(before))  # potentials are single


@pytest.mark.parametrize("C", [0.01, 0.3, 3.0, 100.0])
def test_the_objective_never_rises_over_a_step_of_lbfgs_from_a_warm_start(C, generator):
    case = soft_cases.CASES["chain"](generator)
    examples = prepared(case).bind(case.X, case.Y).under(Formulation("log"))
    for before in (solvers.Exponentiated(), solvers.LBFGS()):
        first = train(Problem(examples, 1.0), before, tol=1e-3, random_state=0)
        problem, solver = Problem(examples, C), solvers.LBFGS()
        state = solver.start(problem, 1e-9, np.random.default_rng(0), first.support)
        last = problem.objective(state.weights(state.v))
        for _ in range(10):
            solver.step(problem, state)
            value = problem.objective(state.weights(state.v))
            assert value <= last * (1 + 1e-12)
            last = value
