"""tol="auto": the gap scales with the objective, for every solver, every C and every scale of the losses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maxmargin as mm
from helpers import EXACT, built_in, quietly, refusal
from maxmargin import models
from maxmargin.data.synthetic import random_chains, random_multiclass
from maxmargin.problem import Tolerance
from maxmargin.problem.certificate import LEAST_OF_LOSS, PROGRESS, RELATIVE
from reference.strategies import cases


def assert_kept(svm, optimum):
    """Assert that the certificate is true and meets both conditions of tol="auto"."""
    c = svm.certificate_
    assert c.converged and c.status == "solved"
    assert c.dual <= optimum * (1 + 1e-9) and optimum <= c.primal * (1 + 1e-9)
    assert c.gap <= c.tol
    assert c.relative_gap <= RELATIVE * (1 + 1e-9) or c.gap <= 2 * LEAST_OF_LOSS


@pytest.mark.parametrize("solver", EXACT)
@settings(max_examples=6)
@given(case=cases(), times=st.sampled_from([1e-3, 1.0, 1e2]))
def test_every_solver_ends_at_a_hundredth_of_the_objective(solver, case, times):
    case = case.replace(C=times * case.C)
    svm = mm.StructuralSVM(built_in(case), C=case.C, solver=EXACT[solver](), random_state=0)
    svm.set_params(max_passes=200_000, max_seconds=60).fit(
        case.X, case.Y, sample_weight=case.sample_weight
    )
    assert svm.tol == "auto"
    assert_kept(svm, case.optimum.value)
    zero = mm.objective(svm, np.zeros_like(svm.coef_), case.X, case.Y, None, case.sample_weight)
    done = zero - svm.certificate_.primal
    if svm.certificate_.primal > 0.9 * zero and done > 100 * LEAST_OF_LOSS * zero:
        # P - D <= PROGRESS (P(0) - D), where P(0) is close
        left = svm.certificate_.primal - svm.certificate_.dual
        assert left <= PROGRESS * (done + left) * (1 + 1e-6)


@pytest.mark.parametrize("solver", ["auto", "fasole", "sda", "dual-coordinate", "one-slack"])
@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1.0, 1e6])
def test_the_unit_of_the_losses_does_not_matter(unit, solver):
    X, y = random_multiclass(60, random_state=0)
    costs = unit * (1 - np.eye(3))
    svm = mm.StructuralSVM(models.Multiclass(loss=costs), C=unit, solver=solver, random_state=0)
    svm.fit(X, y)
    plain = mm.StructuralSVM(models.Multiclass(), C=1.0, random_state=0).fit(X, y)
    assert svm.certificate_.relative_gap <= RELATIVE
    # With losses u Delta and with u C the solution is u w, and P is multiplied by u^2.
    primal = svm.certificate_.primal / unit**2
    assert primal == pytest.approx(plain.certificate_.primal, rel=2 * RELATIVE)


def test_separable_data_and_a_large_c_are_solved_where_a_number_is_too_loose():
    X = np.vstack([np.eye(6), -np.eye(6)]) + 0.05 * np.random.default_rng(0).normal(size=(12, 6))
    y = np.repeat([1, 0], 6)
    C = 1e5
    exact = mm.StructuralSVM(models.Binary(), C=C, tol=1e-12, max_passes=10**5).fit(X, y)
    svm = mm.StructuralSVM(models.Binary(), C=C, random_state=0, max_passes=10**5).fit(X, y)
    assert_kept(svm, exact.certificate_.primal)
    assert svm.certificate_.relative_gap <= RELATIVE and svm.certificate_.gap < 1e-7


def test_degenerate_problems_end():
    X, y = random_multiclass(30, random_state=0)
    without = mm.StructuralSVM(models.Multiclass(loss=np.zeros((3, 3)))).fit(X, y)
    assert without.certificate_.converged and without.certificate_.relative_gap == 0
    nothing = mm.StructuralSVM(models.Multiclass()).fit(0 * X, y)  # no w lowers the loss
    assert nothing.certificate_.converged
    tiny = quietly(lambda: mm.StructuralSVM(models.Multiclass(), C=1e-12).fit(X, y))
    assert tiny.certificate_.converged
    free = mm.RegressionSVR(penalized_intercept=False).fit(X, np.full(30, 7.0))
    assert free.certificate_.converged and free.intercept_ == pytest.approx(7, abs=0.11)


def test_numbers_keep_their_meaning():
    tolerance = Tolerance(0.01, total=100.0)
    assert tolerance.at(1e9, 1.0) == tolerance.at(-1.0, -2.0) == 0.01
    X, Y = random_chains(40, random_state=0)
    svm = mm.StructuralSVM(models.Chain(), tol=0.05, random_state=0).fit(X, Y)
    assert svm.certificate_.tol == 0.05 and svm.certificate_.gap <= 0.05


def test_streams_partial_fit_and_hidden_parts():
    X, y = random_multiclass(80, random_state=0)
    model = models.Multiclass()
    streamed = mm.StructuralSVM(model, solver=mm.solvers.Streaming(passes=None)).fit(X, y)
    assert streamed.certificate_.relative_gap <= RELATIVE
    chunks = [(X[:40], y[:40]), (X[40:], y[40:])]
    read = mm.StructuralSVM(model, solver=mm.solvers.Streaming(passes=None)).fit(chunks)
    assert read.certificate_.converged and read.certificate_.relative_gap <= RELATIVE
    parts = mm.StructuralSVM(model)
    for some in chunks:
        parts.partial_fit(*some, classes=np.unique(y))
    assert parts.certificate_.converged
    hidden = mm.LatentSVM(models.Latent(models.Multiclass(), 2), random_state=0).fit(X, y)
    assert hidden.certificate_.relative_gap <= RELATIVE
    falls = -np.diff(hidden.objective_path_)
    assert (
        falls[:-1] > RELATIVE * hidden.objective_path_[1:-1]
    ).all()  # only the last round may fall less


def test_files_parameters_and_certify(tmp_path):
    X, y = random_multiclass(60, random_state=0)
    svm = mm.MulticlassSVC().fit(X, y)
    svm.save(tmp_path / "m.safetensors")
    loaded = mm.load(tmp_path / "m.safetensors")
    assert loaded.tol == svm.get_params()["tol"] == "auto"
    assert loaded.certificate_ == svm.certificate_
    again = mm.certify(svm, X, y)
    assert again.tol == svm.certificate_.tol and again.converged
    said = str(svm.certificate_)
    assert "% of the primal" in said and "tol" in said
    for wrong in ("tight", 0, -1, None, np.nan, True):
        with refusal("tol"):
            mm.MulticlassSVC(tol=wrong).fit(X, y)
