"""Weights without a regulariser: every solver reaches and proves an independent optimum."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import SVC, SVR

import maxmargin as mm
from helpers import EXACT, as_python, built_in, quietly
from maxmargin import models, solvers
from maxmargin.problem import make_regularizer
from maxmargin.problem.regularizer import Prior
from maxmargin.solvers.cut_state import CutState
from maxmargin.solvers.free import balance
from reference.cases import binary_case, chain_case, fresh, multiclass_case
from reference.primal_qp import primal_value, solve_primal

CASES = {
    "multiclass": lambda g: multiclass_case(g, n=9, n_features=3, weighted=True, bias=1.0, C=0.6),
    "chain": lambda g: chain_case(g, n=4, lengths=(1, 2), n_classes=2, n_features=2, C=0.5),
    "binary": lambda g: binary_case(g, n=9, C=1.5),
}


def small(name, seed, rescaling="margin"):
    return CASES[name](fresh(seed, 170 + list(CASES).index(name))).replace(rescaling=rescaling)


def free_prior(d, free, mean=0.0):
    scale = np.ones(d)
    scale[free] = np.inf
    return (mean, scale), np.diag(scale**2)


def train(case, tol=1e-9, python=False, **settings):
    model, X = as_python(case) if python else (built_in(case), case.X)
    defaults = {"tol": tol, "max_passes": 100_000, "max_seconds": 120.0, "random_state": 0}
    defaults |= {"rescaling": case.rescaling, "C": case.C}
    return mm.StructuralSVM(model, **(defaults | settings)).fit(
        X, case.Y, sample_weight=case.sample_weight
    )


def assert_solved(svm, case, value, mean, covariance):
    certificate = svm.certificate_
    assert certificate.converged and certificate.exact
    own = primal_value(case.blocks, case.budgets, svm.coef_, mean, covariance)
    assert certificate.primal == pytest.approx(own, rel=1e-8)
    assert certificate.primal == pytest.approx(value, rel=1e-6)
    assert certificate.dual == pytest.approx(value, rel=1e-6)
    assert certificate.dual <= certificate.primal * (1 + 1e-12)


@pytest.mark.parametrize("solver", [name for name in EXACT if not name.startswith("streaming")])
def test_every_solver_meets_the_optimum(seed, solver):
    case = small("multiclass", seed)
    d = case.truth.size_joint_feature
    free = np.arange(3, d, 4)  # the bias of each class
    prior, covariance = free_prior(d, free)
    value, _ = solve_primal(case.blocks, case.budgets, np.zeros(d), covariance)
    svm = train(case, prior=prior, solver=EXACT[solver](), tol=1e-8)
    assert_solved(svm, case, value, np.zeros(d), covariance)


@pytest.mark.parametrize(
    "rescaling, python",
    [
        ("margin", False),
        ("slack", False),
        pytest.param("margin", True, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", CASES)
def test_every_model_meets_the_optimum(seed, name, rescaling, python):
    case = small(name, seed, rescaling)
    d = case.truth.size_joint_feature
    mean = np.where(np.arange(d) == 1, 0.4, 0.0)
    prior, covariance = free_prior(d, [0, d - 1], mean)
    value, _ = solve_primal(case.blocks, case.budgets, mean, covariance)
    svm = train(case, prior=prior, python=python)
    assert_solved(svm, case, value, mean, covariance)
    X = as_python(case)[1] if python else case.X
    again = mm.certify(svm, X, case.Y, sample_weight=case.sample_weight)
    assert again.dual == pytest.approx(svm.certificate_.dual, rel=1e-9)
    assert again.primal == pytest.approx(svm.certificate_.primal, rel=1e-9)


def test_free_weights_beside_bound_ones_and_warm_starts(seed):
    case = small("multiclass", seed)
    d = case.truth.size_joint_feature
    prior, covariance = free_prior(d, [3, 7, 11])
    bound = np.arange(d) % 4 == 1
    value, _ = solve_primal(case.blocks, case.budgets, np.zeros(d), covariance, bound)
    svm = train(case, prior=prior, nonnegative=bound, warm_start=True)
    assert_solved(svm, case, value, np.zeros(d), covariance)
    assert (svm.coef_[bound] >= 0).all()
    svm.fit(case.X, case.Y, sample_weight=case.sample_weight)
    assert_solved(svm, case, value, np.zeros(d), covariance)


def test_the_bounds_hold_at_every_step(seed):
    case = small("multiclass", seed)
    d = case.truth.size_joint_feature
    prior, covariance = free_prior(d, [3, 7, 11])
    value, _ = solve_primal(case.blocks, case.budgets, np.zeros(d), covariance)
    for passes in (1, 2, 5, 20):
        for solver in ("sda", "proximal", "one-slack", "bcfw"):
            svm = quietly(
                lambda p=passes, s=solver: train(case, prior=prior, max_passes=p, solver=s)
            )
            assert svm.certificate_.dual <= value * (1 + 1e-7)
            assert svm.certificate_.primal >= value * (1 - 1e-7)
            assert (svm.history_["dual"] <= value * (1 + 1e-7)).all()


def test_multipliers_that_miss_the_condition_prove_nothing(generator):
    X, y = generator.normal(size=(6, 2)), np.arange(6) % 2
    model = models.Binary()
    model.initialize(X, y)
    examples = model.bind(X, y)
    prior, _ = free_prior(2, [1])
    problem = mm.Problem(examples, 1.0, regularizer=make_regularizer(prior, None, examples))
    plain = mm.Problem(examples, 1.0)
    support = mm.train(plain, solvers.SDA(), tol=1e-6).support
    assert problem.dual_objective(support) == -np.inf
    mended = mm.train(problem, solvers.SDA(), tol=1e-6).support
    assert np.isfinite(problem.dual_objective(mended))


def test_factors_balance_or_say_that_they_cannot(generator):
    rows, a = generator.normal(size=(30, 3)), generator.uniform(size=30)
    rows[:4] = 0
    factors = balance(rows, a)
    assert (factors >= 0).all() and (factors[:4] == 1).all()
    np.testing.assert_allclose((a * factors) @ rows, 0, atol=1e-12)
    # both rows have the same sign, so they cannot cancel
    lonely = balance(np.array([[1.0], [2.0]]), np.ones(2))
    assert lonely is None or not lonely.any()


# --- front ends compared with LIBSVM -----------------------------------------------------------


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("solver", ["auto", "dual-coordinate"])
def test_binary_svc_is_that_of_libsvm(generator, layout, solver):
    X = generator.normal(size=(80, 4)) + 1.0
    y = np.where(X @ [1, -1, 2, 0] + generator.normal(size=80) > 2.5, "b", "a")
    settings = {"penalized_intercept": False, "tol": 1e-9, "max_passes": 50_000}
    svm = mm.BinarySVC(C=0.7, solver=solver, **settings).fit(layout(X), y)
    peer = SVC(kernel="linear", C=0.7, tol=1e-9).fit(X, y)
    assert svm.certificate_.converged
    np.testing.assert_allclose(svm.coef_, peer.coef_, atol=1e-5)
    np.testing.assert_allclose(svm.intercept_, peer.intercept_, atol=1e-5)
    held = mm.BinarySVC(C=0.7).fit(X, y)
    assert abs(held.intercept_[0]) < abs(svm.intercept_[0])


@pytest.mark.parametrize("solver", ["auto", "dual-coordinate", "sda"])
def test_regression_is_that_of_libsvm(generator, solver):
    X = generator.normal(size=(60, 3))
    y = X @ [1.0, 0.5, -1.0] + 7.0 + 0.3 * generator.normal(size=60)
    settings = {"penalized_intercept": False, "tol": 1e-9, "max_passes": 50_000}
    svm = mm.RegressionSVR(C=0.4, solver=solver, **settings).fit(X, y)
    peer = SVR(kernel="linear", C=0.4, epsilon=0.1, tol=1e-9).fit(X, y)
    assert svm.certificate_.converged
    np.testing.assert_allclose(svm.coef_, peer.coef_[0], atol=1e-5)
    np.testing.assert_allclose(svm.intercept_, peer.intercept_[0], atol=1e-5)


def test_explicit_constraints_with_a_free_bias_are_the_binary_problem(generator):
    X, y = generator.normal(size=(50, 3)) + 0.5, np.arange(50) % 2
    signs = np.where(y == 1, 1.0, -1.0)[:, None]
    rows = signs * np.hstack([X, np.ones((50, 1))])
    settings = {"C": 0.5, "tol": 1e-10, "max_passes": 50_000}
    left = mm.GeneralizedSVM(prior=(0, [1.0, 1.0, 1.0, np.inf]), **settings).fit(rows, 1.0)
    right = mm.BinarySVC(penalized_intercept=False, **settings).fit(X, y)
    assert left.certificate_.primal == pytest.approx(right.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(left.coef_[:3], right.coef_[0], atol=1e-4)
    bound = mm.GeneralizedSVM(C=0.5, nonnegative=[0, 1]).fit(rows, 1.0)
    assert (bound.coef_[:2] >= 0).all() and bound.certificate_.gap <= 1e-9


def test_multiclass_intercepts_follow_a_shift_of_the_features(generator):
    X = generator.normal(size=(40, 3))
    y = (X + 0.3 * generator.normal(size=X.shape)).argmax(axis=1)
    settings = {"C": 0.3, "penalized_intercept": False, "tol": 1e-9, "max_passes": 50_000}
    left = mm.MulticlassSVC(**settings).fit(X, y)
    right = mm.MulticlassSVC(**settings).fit(X + 2.0, y)
    np.testing.assert_allclose(left.coef_, right.coef_, atol=1e-4)
    shift = right.intercept_ + 2.0 * right.coef_.sum(axis=1) - left.intercept_
    np.testing.assert_allclose(shift, shift[0], atol=1e-3)  # a common shift changes no prediction
    ranked = np.sort(X @ left.coef_.T + left.intercept_, axis=1)
    clear = ranked[:, -1] - ranked[:, -2] > 1e-2  # the rest may tie, within the tolerance
    assert clear.sum() > 20
    np.testing.assert_array_equal(left.predict(X)[clear], right.predict(X + 2.0)[clear])


def test_a_loss_of_the_whole_sample_takes_free_weights(generator):
    X = generator.normal(size=(20, 2)) + 1.0
    y = (X[:, 0] > 1.2).astype(int)
    left = mm.BinarySVC(loss="f1", C=5.0, penalized_intercept=False, tol=1e-6).fit(X, y)
    right = mm.BinarySVC(loss="f1", C=5.0, penalized_intercept=False, tol=1e-6).fit(X + 1.0, y)
    assert left.certificate_.primal == pytest.approx(right.certificate_.primal, abs=2e-5)
    # With one block few multipliers can be repaired, so the dual may lag behind the optimum.
    assert left.certificate_.dual <= right.certificate_.primal + 1e-9
    assert right.certificate_.dual <= left.certificate_.primal + 1e-9


def test_penalized_intercept_is_checked(generator):
    X, y = generator.normal(size=(10, 2)), np.arange(10) % 2
    for kind in (mm.BinarySVC, mm.MulticlassSVC, mm.RegressionSVR):
        with pytest.raises(ValueError, match="penalized_intercept"):
            kind(penalized_intercept="no").fit(X, y)
    nothing = mm.BinarySVC(penalized_intercept=False, fit_intercept=False).fit(X, y)
    assert nothing.intercept_ == 0


def test_cuts_under_another_mean_keep_what_they_say(generator):
    """Offsets and pulls are recomputed from the new mean: b + <g, m> and <g, center - m>."""
    d = 4
    before, after = (Prior(generator.normal(size=d), np.ones(d)) for _ in range(2))
    cuts, center = generator.normal(size=(3, d)), generator.normal(size=d)
    state = CutState(1e-3, np.zeros(d), np.arange(2), center=center)
    plane = SimpleNamespace(regularizer=before)
    for b, g in enumerate(cuts):
        state.add(plane, float(b), g, None)
    assert state.take_prior(before, after)
    np.testing.assert_allclose(state.cuts.offsets, np.arange(3) + cuts @ after.mean)
    np.testing.assert_allclose(state.cuts.pulls, cuts @ (center - after.mean))
    assert not state.take_prior(after, Prior(after.mean, 2 * np.ones(d)))
