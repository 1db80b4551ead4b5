"""What weak duality and ascent promise, at every step and for every solver."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import EVERY, EXACT, assert_truthful, fit, quietly
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
