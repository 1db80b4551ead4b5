"""Numbers that overflow are refused or reported, and never yield a false certificate."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from helpers import SOFT, quietly, refusal
from maxmargin import models, solvers
from maxmargin.budget import Budget
from maxmargin.estimators import advice
from maxmargin.problem import (
    Certificate,
    Problem,
    Status,
    Support,
    Tolerance,
    gap_between,
    make_regularizer,
)
from maxmargin.problem.bounds import Bounds
from maxmargin.problem.certificate import Best
from maxmargin.problem.plane import FrozenPlane
from maxmargin.train import Run
from reference.python_chain import PythonMulticlass

NOT_FINITE = (np.nan, np.inf, -np.inf)
FLAT = [name for name in solvers.SOLVERS if name not in ("gdmm", "sdcd", *SOFT)]


def rows(generator, n=8, d=3, scale=1.0):
    return scale * generator.normal(size=(n, d)), np.arange(n) % 2


def assert_truthful(svm):
    """Assert that the certificate has no NaN, and finite bounds if it claims convergence."""
    certificate = svm.certificate_
    assert not np.isnan([certificate.primal, certificate.dual, certificate.gap]).any()
    if certificate.converged:
        assert np.isfinite([certificate.primal, certificate.dual, *svm.coef_.ravel()]).all()
        assert certificate.gap <= certificate.tol


# --- the certificate -----------------------------------------------------------------------------


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_a_gap_of_what_is_not_finite_is_infinite(bad):
    assert gap_between(bad, 1.0, 1.0) == gap_between(1.0, bad, 1.0) == np.inf
    assert gap_between(bad, bad, 1.0) == gap_between(1.0, 0.5, bad) == np.inf
    assert gap_between(1.0, 0.5, 0.0) == np.inf


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_a_certificate_with_a_bound_that_is_not_finite_cannot_be_converged(bad):
    good = Certificate(1.0, 1.0, 0.0, tol=1e-3, converged=True)
    for name in ("primal", "dual", "gap"):
        assert not replace(good, converged=False, **{name: bad}).converged
        with refusal("converged", "finite"):
            replace(good, **{name: bad})


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_bounds_that_overflowed_bound_nothing(bad):
    assert Bounds(bad, 0.0, np.empty(0), 1.0, np.empty(0)).primal == np.inf
    assert Bounds(1.0, bad, np.empty(0), 1.0, np.empty(0)).dual == -np.inf
    assert Bounds(1.0, bad, np.empty(0), 1.0, np.empty(0)).overflowed
    assert Bounds(1.0, 0.0, np.empty(0), bad, np.empty(0)).overflowed
    assert not Bounds(
        np.inf, 0.0, np.empty(0), 1.0, np.empty(0)
    ).overflowed  # a sum without an upper bound


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_weights_and_multipliers_that_are_not_finite_prove_nothing(generator, bad):
    X, y = rows(generator)
    svm = mm.BinarySVC().fit(X, y)
    assert mm.certify(svm, X, y).converged
    kept = svm.coef_
    svm.coef_ = np.where(np.arange(kept.size) == 1, bad, kept)
    certificate = mm.certify(svm, X, y)
    assert certificate.primal == np.inf and not certificate.converged
    svm.coef_, a = kept, svm.support_.multipliers.copy()
    a[0] = bad
    svm.support_ = replace(svm.support_, multipliers=a)
    certificate = mm.certify(svm, X, y)
    assert certificate.dual == -np.inf and not certificate.converged


# --- masses --------------------------------------------------------------------------------------


def test_masses_that_overflow_or_vanish_are_refused(generator):
    X, y = rows(generator)
    for C, weight in ((1e200, 1e200), (1e-200, 1e-200), (1e308, 1.0)):
        with refusal("C times sample_weight", "sum", "change C"):
            mm.BinarySVC(C=C).fit(X, y, sample_weight=np.full(len(y), weight))
    examples = mm.BinarySVC(C=1e300).fit(X, y).model_.bind(X, y)
    with refusal("C times sample_weight"):
        Problem(examples, 1.0, frozen=FrozenPlane(0.0, np.zeros(examples.dimension), np.inf))


def test_small_masses_are_still_told_apart(generator):
    X, y = rows(generator)
    problem = Problem(mm.BinarySVC().fit(X, y).model_.bind(X, y), 1e-300)
    a = np.full(len(y), 1.5e-300)
    point = Support(np.arange(len(y)), a, y.astype(np.int32))
    assert not problem.feasible(point)
    assert problem.dual_objective(point) == -np.inf


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_the_condition_of_free_weights_does_not_depend_on_their_scale(generator, scale):
    X, y = rows(generator)
    X[:, 1] = scale * (1 + 0.1 * X[:, 1])
    model = models.Binary()
    model.initialize(X, y)
    examples = model.bind(X, y)
    prior = make_regularizer((0.0, np.array([1.0, np.inf, 1.0])), None, examples)
    problem = Problem(examples, 1.0, regularizer=prior)
    wrong = Support(np.arange(len(y)), np.ones(len(y)), (1 - y).astype(np.int32))
    assert problem.dual_objective(wrong) == -np.inf
    svm = mm.StructuralSVM(models.Binary(), prior=(0.0, np.array([1.0, np.inf, 1.0])), tol=0.05)
    certificate = quietly(lambda: svm.fit(X, y)).certificate_
    assert np.isfinite([certificate.primal, certificate.dual]).all()


# --- training ------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["auto", "sda", "one-slack", "gdmm", "subgradient"])
def test_node_weights_that_overflow_are_not_solved(generator, solver):
    X = [generator.normal(size=(3, 2)) for _ in range(4)]
    Y = [[0, 1, 1], [1, 0, 0], [0, 0, 1], [1, 1, 1]]
    svm = mm.StructuralSVM(models.Chain(), solver=solver)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.warns(ConvergenceWarning, match="numerical trouble.*overflowed.*lower C"):
            svm.fit(X, Y, node_weight=[np.full(3, 1e308)] * 4)
    assert svm.certificate_.status == Status.NUMERICAL.value
    assert svm.certificate_.gap == np.inf and not svm.certificate_.converged
    assert svm.certificate_.passes < 100


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
@pytest.mark.parametrize("solver", FLAT)
def test_every_solver_is_truthful_for_every_c(generator, solver, scale, monkeypatch):
    monkeypatch.setattr(advice, "TRIALS", 0)  # so no better C is searched
    X, y = rows(generator, scale=scale)
    X[:, 2] = scale
    for C in (1e-300, 1e-40, 1e40, 1e100, 1e200, 1e300):
        svm = mm.BinarySVC(C=C, solver=solver, max_passes=20)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert_truthful(svm.fit(X, y))


@pytest.mark.parametrize("C", [1e-300, 1e100, 1e200, 1e300])
def test_gdmm_on_sets_of_labels_ends_for_every_c(generator, C):
    X, Y = generator.normal(size=(6, 2)), generator.integers(2, size=(6, 3))
    svm = mm.StructuralSVM(models.MultiLabel("all"), solver="gdmm", C=C, max_passes=200)
    assert_truthful(quietly(lambda: svm.fit(X, Y)))


@pytest.mark.parametrize("C", [1e20, 1e30, 1e60])
def test_one_slack_keeps_the_mass_of_the_true_outputs(generator, C):
    X, y = generator.normal(size=(20, 3)), np.arange(20) % 2
    svm = mm.BinarySVC(C=C, solver="one-slack", max_passes=30)
    assert_truthful(quietly(lambda: svm.fit(X, y)))
    sums = np.bincount(svm.support_.blocks, svm.support_.multipliers)
    np.testing.assert_allclose(sums, C)


def test_a_warm_start_keeps_the_mass_of_the_true_outputs(generator):
    X, y = generator.normal(size=(20, 3)), np.arange(20) % 2
    svm = mm.BinarySVC(C=1e30, solver="sda", max_passes=5, warm_start=True)
    for _ in range(2):
        assert_truthful(quietly(lambda: svm.fit(X, y)))


def test_single_precision_is_not_taken_where_it_overflows(generator):
    X, y = rows(generator, n=40)
    svm = quietly(lambda: mm.BinarySVC(C=1e80, max_passes=50).fit(X, y))
    assert svm.certificate_.status != Status.NUMERICAL.value
    chosen = solvers.Proximal(precision="single")
    with pytest.warns(ConvergenceWarning):
        svm = mm.BinarySVC(C=1e80, solver=chosen, max_passes=50).fit(X, y)
    assert_truthful(svm)


def test_hidden_parts_end_when_numbers_overflow(generator):
    X, y = rows(generator, scale=1e100)
    model = models.Latent(models.Multiclass(), parts=2)
    svm = mm.LatentSVM(model, C=1e200, max_rounds=5, max_passes=50)
    assert_truthful(quietly(lambda: svm.fit(X, y)))


def test_the_scale_of_a_kernel_that_overflows_is_refused(generator):
    X, y = rows(generator, scale=1e-157)
    with refusal("gamma='scale'", "variance of X", "scale the features"):
        mm.StructuralSVM(models.Kernel(models.Binary())).fit(X, y)


@pytest.mark.parametrize("layout", [np.asarray, scipy.sparse.csr_matrix])
def test_features_whose_squares_overflow_are_refused(generator, layout):
    X, y = rows(generator, scale=1.0)
    X[3, 1] = -1e151
    with refusal(r"X\[3\]|row 3", "above 1e150"):
        mm.StructuralSVM(models.Binary()).fit(layout(X), y)


def test_what_a_search_saw_does_not_hide_a_ceiling_that_overflowed(generator):
    X, y = rows(generator)
    model = models.Binary()
    model.initialize(X, y)
    problem = Problem(model.bind(X, y), C=1.0)
    best = Best(problem, Tolerance(0.1, problem.total), 0.1, seen=-2.0, dual=-1.0)
    run = Run(problem, solvers.SDA(), best, Budget(problem, 10.0, 10.0))
    run.status = Status.NUMERICAL  # the ceilings gave an infinite primal
    run.settle(0.1)
    assert run.status is Status.NUMERICAL


def test_own_features_whose_squares_overflow_are_refused(generator):
    X, y = rows(generator, scale=1e200)
    with refusal("joint_feature of example", "above 1e150", kinds=(mm.OracleError,)):
        mm.StructuralSVM(PythonMulticlass(1.0 - np.eye(2))).fit(X, (y == y[0]).astype(int))


# --- what overflows never comes back -------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e30, 1e149])
@pytest.mark.parametrize("solver", [*FLAT, "gdmm", solvers.Streaming(verify=False)])
def test_weights_are_finite_and_certified_whatever_overflowed(generator, solver, scale):
    X = [scale * generator.normal(size=(3, 2)) for _ in range(6)]
    Y = [generator.integers(3, size=3) for _ in X]
    svm = mm.StructuralSVM(models.Chain(), solver=solver, max_passes=20, random_state=0)
    certificate = quietly(lambda: svm.fit(X, Y)).certificate_
    assert np.isfinite(svm.coef_).all() and np.isfinite(svm.support_.multipliers).all()
    again = mm.certify(svm, X, Y)
    assert again.primal <= certificate.primal * (1 + 1e-9)
    assert again.dual >= certificate.dual - 1e-9 * abs(certificate.dual)


class LosesAll(solvers.Subgradient):
    """A solver whose numbers overflow at once."""

    def solution(self, problem, state):
        w, support = super().solution(problem, state)
        return w + np.nan, replace(support, multipliers=support.multipliers * np.inf)


def test_a_fit_whose_numbers_are_lost_ends_where_it_began(generator):
    X, y = rows(generator)
    svm = mm.BinarySVC(solver=LosesAll(), max_passes=5)
    with pytest.warns(ConvergenceWarning, match="numerical trouble.*last finite weights"):
        svm.fit(X, y)
    c = svm.certificate_
    assert c.status == Status.NUMERICAL.value and not svm.coef_.any() and not svm.intercept_.any()
    assert (c.primal, c.dual) == pytest.approx((8.0, 0.0))
    assert mm.certify(svm, X, y).primal == c.primal
