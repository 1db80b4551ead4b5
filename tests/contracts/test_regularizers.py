"""Gaussian priors and non-negative weights: every solver that claims them meets an independent optimum."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import maxmargin as mm
from helpers import EXACT, RATED, as_python, quietly, refusal
from maxmargin import models
from maxmargin.data.synthetic import random_chains
from maxmargin.problem import make_regularizer
from reference.primal_qp import primal_value, solve_primal
from reference.priors import CASES, KINDS, draw, small, train

CLIPPING = [name for name in EXACT if name not in ("one-slack", "streaming-cyclic")]


def assert_solved(svm, case, value, mean, covariance, relative=1e-6):
    certificate = svm.certificate_
    assert certificate.converged
    own = primal_value(case.blocks, case.budgets, svm.coef_, mean, covariance)
    assert certificate.primal == pytest.approx(own, rel=1e-8)
    assert certificate.primal == pytest.approx(value, rel=relative)
    assert certificate.dual == pytest.approx(value, rel=relative)
    total = case.budgets.sum()
    gap = (certificate.primal - certificate.dual) / total
    assert certificate.gap == pytest.approx(max(gap, 0), abs=1e-12)


# --- the optimum ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", [name for name in EXACT if not name.startswith("streaming")])
def test_every_solver_meets_the_optimum_with_a_prior(seed, generator, solver, kind):
    case = small("multiclass", seed)
    prior, mean, covariance = draw(kind, generator, case.truth.size_joint_feature)
    value, _ = solve_primal(case.blocks, case.budgets, mean, covariance)
    svm = train(case, prior=prior, solver=EXACT[solver]())
    assert_solved(svm, case, value, mean, covariance)


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("kind", ["mean-scalar", "vector", "matrix"])
@pytest.mark.parametrize("name", CASES)
def test_every_model_meets_the_optimum_with_a_prior(seed, generator, name, kind, rescaling):
    case = small(name, seed, rescaling)
    prior, mean, covariance = draw(kind, generator, case.truth.size_joint_feature)
    value, _ = solve_primal(case.blocks, case.budgets, mean, covariance)
    for solver in ("auto", "one-slack"):
        svm = train(case, prior=prior, solver=solver)
        assert_solved(svm, case, value, mean, covariance)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_in_python_meets_the_optimum_with_a_prior(seed, generator, kind):
    case = small("chain", seed)
    prior, mean, covariance = draw(kind, generator, case.truth.size_joint_feature)
    value, _ = solve_primal(case.blocks, case.budgets, mean, covariance)
    for solver in ("proximal", "sda"):
        svm = train(case, prior=prior, solver=solver, python=True)
        assert_solved(svm, case, value, mean, covariance)


@pytest.mark.parametrize("kind", ["mean-scalar", "vector"])
@pytest.mark.parametrize("solver", [name for name in RATED if not name.startswith("streaming")])
def test_rated_solvers_bracket_the_optimum_with_a_prior(seed, generator, solver, kind):
    case = small("multiclass", seed)
    prior, mean, covariance = draw(kind, generator, case.truth.size_joint_feature)
    value, _ = solve_primal(case.blocks, case.budgets, mean, covariance)
    settings = {"prior": prior, "solver": RATED[solver](), "tol": 1e-13}
    short = quietly(lambda: train(case, max_passes=2, **settings))
    long = quietly(lambda: train(case, max_passes=600, **settings))
    for svm in (short, long):
        own = primal_value(case.blocks, case.budgets, svm.coef_, mean, covariance)
        assert svm.certificate_.primal == pytest.approx(own, rel=1e-8)
        assert svm.certificate_.dual <= value * (1 + 1e-6) and own >= value * (1 - 1e-6)
    start = primal_value(case.blocks, case.budgets, mean, mean, covariance)
    assert long.certificate_.primal - value <= 0.3 * (start - value)
    assert long.certificate_.gap < short.certificate_.gap


@pytest.mark.parametrize("python", [False, True])
@pytest.mark.parametrize("with_prior", ["", "scalar", "mean-scalar", "vector"])
@pytest.mark.parametrize("solver", [*CLIPPING, "bcfw"])
def test_every_solver_that_claims_it_meets_the_non_negative_optimum(
    seed, generator, solver, with_prior, python
):
    case = small("multiclass", seed)
    d = case.truth.size_joint_feature
    prior, mean, covariance = (
        draw(with_prior, generator, d) if with_prior else (None, np.zeros(d), np.eye(d))
    )
    bound = generator.uniform(size=d) < 0.6
    value, _ = solve_primal(case.blocks, case.budgets, mean, covariance, bound)
    settings = {"nonnegative": bound, "prior": prior, "python": python}
    if solver == "bcfw":
        svm = train(case, solver="bcfw", tol=1e-3, **settings)
        assert_solved(svm, case, value, mean, covariance, relative=0.02)
    else:
        svm = train(case, solver=EXACT[solver](), **settings)
        assert_solved(svm, case, value, mean, covariance)
    assert (svm.coef_[bound] >= 0).all()
    assert (svm.coef_[bound] == 0).any() or not (
        solve_free(case, mean, covariance)[bound] < 0
    ).any()


def solve_free(case, mean, covariance):
    return solve_primal(case.blocks, case.budgets, mean, covariance)[1]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rescaling", ["margin", "slack"])
def test_every_model_meets_the_non_negative_optimum(seed, generator, name, rescaling):
    case = small(name, seed, rescaling)
    d = case.truth.size_joint_feature
    bound = np.arange(d) % 2 == 0
    value, _ = solve_primal(case.blocks, case.budgets, np.zeros(d), np.eye(d), bound)
    svm = train(case, nonnegative=np.flatnonzero(bound))
    assert svm.solver_ == "proximal"
    assert_solved(svm, case, value, np.zeros(d), np.eye(d))
    assert (svm.coef_[bound] >= 0).all()


def test_the_dual_of_every_step_is_below_the_optimum_and_grows(seed, generator):
    case = small("multiclass", seed)
    d = case.truth.size_joint_feature
    prior, mean, covariance = draw("vector", generator, d)
    bound = np.ones(d, dtype=bool)
    value, _ = solve_primal(case.blocks, case.budgets, mean, covariance, bound)
    for settings in ({"prior": prior, "nonnegative": bound}, {"prior": (mean, 0.8)}):
        svm = train(case, solver="sda", tol=1e-8, **settings)
        duals = svm.history_["dual"]
        assert (np.diff(duals) >= -1e-9 * abs(value)).all()
        assert duals[-1] == pytest.approx(svm.certificate_.dual, rel=1e-6)


# --- laws ----------------------------------------------------------------------------------------


def test_value_conjugate_and_law_are_those_of_the_definition(generator):
    d = 4
    examples = bound_examples(generator, d)
    for kind in KINDS:
        for bound in (None, [0, 2]):
            prior, mean, covariance = draw(kind, generator, d)
            if kind == "matrix" and bound:
                continue
            made = make_regularizer(prior, bound, examples)
            q = generator.normal(size=d) * 2
            w = made.law(q)
            r = w - mean
            assert made.value(w) == pytest.approx(0.5 * r @ np.linalg.solve(covariance, r))
            assert made.conjugate(q) == pytest.approx(q @ w - made.value(w))
            for _ in range(50):  # no other w gives more
                other = w + generator.normal(size=d) * 0.1
                assert q @ other - made.value(other) <= made.conjugate(q) + 1e-12


def bound_examples(generator, d):
    model = models.Binary()
    X, y = generator.normal(size=(6, d)), np.arange(6) % 2
    model.initialize(X, y)
    return model.bind(X, y)


@pytest.mark.parametrize("scale", [1.0, 0.3, np.linspace(0.5, 2.0, 9)], ids=["one", "s", "vector"])
def test_a_prior_without_any_slack_stays(generator, scale):
    y = np.repeat([0, 1, 2], 6)
    X = 6 * np.eye(3)[y] + generator.normal(size=(18, 3)) * 0.3
    mean = np.eye(3).ravel()
    svm = mm.StructuralSVM(models.Multiclass(), prior=(mean, scale)).fit(X, y)
    np.testing.assert_array_equal(svm.coef_, mean)
    assert svm.certificate_.primal == svm.certificate_.rounding < 1e-11
    assert svm.certificate_.dual == 0


@pytest.mark.parametrize("kind", ["mean-scalar", "vector", "matrix"])
def test_a_small_c_gives_the_mean(seed, generator, kind):
    case = small("chain", seed).replace(C=1e-9)
    prior, mean, _ = draw(kind, generator, case.truth.size_joint_feature)
    np.testing.assert_allclose(train(case, prior=prior, tol=1e-6).coef_, mean, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_scale_s_is_c_times_s_squared(seed, name):
    case = small(name, seed)
    left = train(case, prior=(0, 0.6))
    right = train(case, C=case.C * 0.36)
    np.testing.assert_allclose(left.coef_, right.coef_, atol=1e-3)
    expected = right.certificate_.primal / 0.36
    assert left.certificate_.primal == pytest.approx(expected, rel=1e-7)


def test_a_scale_for_each_feature_is_a_scaling_of_the_features(generator):
    X, y = generator.normal(size=(20, 4)), np.arange(20) % 3
    s = generator.uniform(0.3, 2.0, size=4)
    settings = {"tol": 1e-9, "max_passes": 50_000, "C": 0.3}
    left = mm.StructuralSVM(models.Multiclass(), prior=(0, np.tile(s, 3)), **settings).fit(X, y)
    right = mm.StructuralSVM(models.Multiclass(), **settings).fit(X * s, y)
    assert left.certificate_.primal == pytest.approx(right.certificate_.primal, rel=1e-6)
    np.testing.assert_allclose(left.coef_, right.coef_ * np.tile(s, 3), atol=1e-3)


def test_a_covariance_that_is_diagonal_is_a_vector_of_scales(seed, generator):
    case = small("chain", seed)
    (mean, scale), _, covariance = draw("vector", generator, case.truth.size_joint_feature)
    left, right = train(case, prior=(mean, scale)), train(case, prior=(mean, covariance))
    assert left.certificate_.primal == pytest.approx(right.certificate_.primal, rel=1e-7)
    np.testing.assert_allclose(left.coef_, right.coef_, atol=1e-3)


def test_bounds_that_hold_already_change_nothing(seed):
    case = small("multiclass", seed)
    free = train(case)
    positive = free.coef_ > 1e-3
    assert positive.any()
    bound = train(case, nonnegative=positive)
    assert bound.certificate_.primal == pytest.approx(free.certificate_.primal, rel=1e-7)
    nothing = train(case, nonnegative=np.zeros(len(positive), dtype=bool))
    assert nothing.certificate_.primal == pytest.approx(free.certificate_.primal, rel=1e-7)


def test_a_prior_of_zero_and_one_is_no_prior(seed):
    case = small("multiclass", seed)
    left, right = train(case, prior=(0, 1.0), tol=1e-3), train(case, tol=1e-3)
    np.testing.assert_array_equal(left.coef_, right.coef_)


def test_a_sample_loss_and_a_kernel_take_what_they_can(generator):
    X, y = generator.normal(size=(12, 3)), np.arange(12) % 2
    mean, settings = generator.normal(size=3), {"tol": 1e-8, "max_passes": 50_000}
    svm = mm.StructuralSVM(models.Binary("f1"), prior=(mean, 0.5), C=3.0, **settings).fit(X, y)
    assert svm.certificate_.converged
    again = mm.certify(svm, X, y)
    assert again.dual == pytest.approx(svm.certificate_.dual, rel=1e-9)
    kernel = models.Kernel(models.Multiclass(), kernel="rbf")
    left = mm.StructuralSVM(kernel, prior=(0, 0.5), **settings).fit(X, y)
    right = mm.StructuralSVM(kernel, C=0.25, **settings).fit(X, y)
    assert left.certificate_.primal == pytest.approx(4 * right.certificate_.primal, rel=1e-6)
    for given in ({"prior": (0.5, 1.0)}, {"prior": (0, np.ones(24))}, {"nonnegative": [0]}):
        with refusal("kernel", "prior", "nonnegative"):
            mm.StructuralSVM(kernel, **given).fit(X, y)


# --- certificates, warm starts, files, searches --------------------------------------------------


@pytest.mark.parametrize("python", [False, True])
@pytest.mark.parametrize("kind", ["mean-scalar", "vector", "matrix", "bound"])
def test_certify_objective_and_warm_start(seed, generator, kind, python):
    case = small("multiclass", seed)
    d = case.truth.size_joint_feature
    settings = (
        {"nonnegative": [0, 3]} if kind == "bound" else {"prior": draw(kind, generator, d)[0]}
    )
    svm = train(case, tol=1e-6, python=python, **settings)
    X = as_python(case)[1] if python else case.X
    again = mm.certify(svm, X, case.Y, sample_weight=case.sample_weight)
    assert again.primal == pytest.approx(svm.certificate_.primal, rel=1e-9)
    assert again.dual == pytest.approx(svm.certificate_.dual, rel=1e-9)
    value = mm.objective(svm, svm.coef_, X, case.Y, sample_weight=case.sample_weight)
    assert value == pytest.approx(again.primal, rel=1e-9)
    svm.set_params(warm_start=True)
    first = svm.certificate_
    svm.fit(X, case.Y, sample_weight=case.sample_weight)
    assert svm.certificate_.passes <= max(3, 0.7 * first.passes)
    assert svm.certificate_.dual == pytest.approx(first.dual, rel=1e-6)
    svm.set_params(C=1.3 * case.C).fit(X, case.Y, sample_weight=case.sample_weight)
    cold = train(case, tol=1e-6, python=python, C=1.3 * case.C, **settings)
    assert svm.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=1e-4)


def test_a_violated_bound_has_an_infinite_objective(seed):
    case = small("multiclass", seed)
    svm = train(case, nonnegative=[1], tol=1e-3)
    w = svm.coef_.copy()
    w[1] = -0.1
    assert mm.objective(svm, w, case.X, case.Y, sample_weight=case.sample_weight) == np.inf


def test_files_hold_the_regulariser(seed, generator, tmp_path):
    case = small("multiclass", seed)
    d = case.truth.size_joint_feature
    for prior, bound in (((0.5, 2.0), [0, 2]), (draw("matrix", generator, d)[0], None)):
        svm = train(case, prior=prior, nonnegative=bound, tol=1e-3)
        svm.save(tmp_path / "m")
        loaded = mm.load(tmp_path / "m")
        np.testing.assert_array_equal(loaded.coef_, svm.coef_)
        weights = {"sample_weight": case.sample_weight}
        value = mm.objective(loaded, loaded.coef_, case.X, case.Y, **weights)
        assert value == pytest.approx(svm.certificate_.primal, rel=1e-9)
        loaded.fit(case.X, case.Y, **weights)
        assert loaded.certificate_.primal == pytest.approx(svm.certificate_.primal, rel=1e-2)


def test_clones_and_grid_search_carry_the_regulariser(seed):
    case = small("multiclass", seed)
    mean = np.arange(9.0)
    svm = mm.StructuralSVM(models.Multiclass(classes=[0, 1, 2]), prior=(mean, 0.1), C=0.01)
    np.testing.assert_array_equal(clone(svm).prior[0], mean)
    grid = {"prior": [None, (mean, 1.0)], "nonnegative": [None, [0]]}
    search = GridSearchCV(svm, grid, cv=2, error_score="raise").fit(case.X, case.Y)
    assert len(search.cv_results_["params"]) == 4


def test_the_users_arrays_are_left_alone(seed):
    case = small("multiclass", seed)
    mean, bound = np.ones(9), np.ones(9, dtype=bool)
    train(case, prior=(mean, np.ones(9)), nonnegative=bound, tol=1e-2)
    assert (mean == 1).all() and bound.all()


def test_threads_and_long_data_with_a_mean(generator):
    X, Y = random_chains(40, random_state=0)
    plain = mm.StructuralSVM(models.Chain(), C=0.1, tol=1e-4).fit(X, Y)
    settings = {"C": 0.1, "tol": 1e-4, "prior": (plain.coef_, 0.5)}
    one = mm.StructuralSVM(models.Chain(), **settings).fit(X, Y)
    two = mm.StructuralSVM(models.Chain(), n_jobs=2, **settings).fit(X, Y)
    assert one.certificate_.converged and two.certificate_.converged
    assert one.certificate_.dual <= two.certificate_.primal + 1e-9
    assert two.certificate_.dual <= one.certificate_.primal + 1e-9
    settings["prior"] = (plain.coef_, generator.uniform(0.2, 1.0, size=len(plain.coef_)))
    cuts = [
        mm.StructuralSVM(models.Chain(), solver="one-slack", n_jobs=n_jobs, **settings).fit(X, Y)
        for n_jobs in (1, 2)
    ]
    assert max(cut.certificate_.dual for cut in cuts) <= (
        min(cut.certificate_.primal for cut in cuts) + 1e-9
    )
    for given in (settings, settings | {"prior": None, "nonnegative": np.arange(0, 24, 2)}):
        one, two = (mm.StructuralSVM(models.Chain(), n_jobs=n, **given).fit(X, Y) for n in (1, 2))
        assert one.certificate_.converged and two.certificate_.converged
        assert max(one.certificate_.dual, two.certificate_.dual) <= (
            min(one.certificate_.primal, two.certificate_.primal) + 1e-9
        )
