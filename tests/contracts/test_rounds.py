"""Compiled rounds of the proximal method, for problems whose constraints are all written down."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import StandardScaler

import maxmargin as mm
from maxmargin import models, solvers
from maxmargin.problem import Formulation
from maxmargin.runtime.deadline import TimeUp, deadline
from maxmargin.solvers import coordinate_state
from maxmargin.solvers.coordinate_state import CoordinateState
from maxmargin.solvers.dual_state import PROBED
from maxmargin.solvers.proximal import LAGGING, ProximalState, ProximalTerm
from reference.cases import fresh

SEARCHED = solvers.Proximal(keep=9)  # another `keep` than the default


def flat_data(seed: int, classes: int, n: int = 120, d: int = 9) -> tuple[np.ndarray, np.ndarray]:
    rng = fresh(seed, classes)
    y = rng.integers(0, classes, n)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    return X + rng.normal(size=(classes, d))[y], y


def problem_of(classes: int, seed: int, C: float = 1.0, **options) -> mm.Problem:
    X, y = flat_data(seed, classes)
    model = models.Binary(bias=1.0) if classes == 2 else models.Multiclass(bias=1.0)
    model.initialize(X, y)
    return mm.Problem(model.bind(X, y), C, **options)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("C", [1e-3, 0.1, 10.0, 1e3])
def test_rounds_end_where_searched_outputs_do(seed, classes, C):
    problem = problem_of(classes, seed, C, sample_weight=fresh(seed, 3).integers(0, 4, 120))
    options = {"tol": 1e-9, "max_passes": 20_000, "random_state": seed}
    compiled = mm.train(problem, solvers.Proximal(), **options)
    searched = mm.train(problem, SEARCHED, **options)
    assert compiled.certificate.converged
    close = pytest.approx(searched.certificate.primal, abs=2e-9 * problem.total)
    assert compiled.certificate.primal == close
    assert compiled.certificate.dual <= compiled.certificate.primal * (1 + 1e-12)  # one rounding


def test_the_way_follows_from_the_options(seed):
    problem = problem_of(3, seed)
    start = {"problem": problem, "tol": 1e-3, "rng": fresh(seed)}
    assert isinstance(solvers.Proximal().start(**start), CoordinateState)
    for solver in (SEARCHED, solvers.Proximal(rule="mvp")):
        assert isinstance(solver.start(**start), ProximalState)
    slack = mm.Problem(problem.examples, 1.0, formulation=Formulation("max", "slack"))
    assert isinstance(solvers.Proximal().start(slack, 1e-3, fresh(seed)), ProximalState)


@pytest.mark.parametrize("kind", [mm.BinarySVC, mm.MulticlassSVC])
def test_the_same_seed_gives_the_same_bits_whatever_the_threads(seed, kind):
    X, y = flat_data(seed, 2, n=400)
    fits = [kind(0.3, random_state=seed, n_jobs=jobs).fit(X, y) for jobs in (1, 1, 2)]
    for other in fits[1:]:
        assert (fits[0].coef_ == other.coef_).all()
        assert (fits[0].support_.multipliers == other.support_.multipliers).all()


@pytest.mark.parametrize("tol", [1e-3, 1e-9])
@pytest.mark.parametrize("d", [9, 200])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_first_k_follows_from_blocks_and_weights(seed, classes, d, tol):
    X, y = flat_data(seed, classes, n=120, d=d)
    model = models.Binary() if classes == 2 else models.Multiclass()
    model.initialize(X, y)
    problem, solver = mm.Problem(model.bind(X, y), 0.3), solvers.Proximal()
    state = solver.start(problem, tol, fresh(seed))
    square, loss = state.core.probe(problem.active)  # w = 0 still
    whole = solver.first_k(problem.C, problem.dimension, state.unit, square, loss)
    share = 1.0 if problem.n_blocks > problem.dimension and tol > 1e-6 else 0.1
    assert state.core.proximity == pytest.approx(share * whole)


@pytest.mark.parametrize("tol", [1e-2, 1e-8])
@pytest.mark.parametrize("classes", [2, 3, 10, 20])  # weights in one, two or several SIMD vectors
def test_dense_sparse_single_and_double_rows_meet(seed, classes, tol):
    kind = mm.BinarySVC if classes == 2 else mm.MulticlassSVC
    X, y = flat_data(seed, classes, n=2000 if classes == 2 else 400)
    primals = [
        kind(0.1, tol=tol, random_state=0).fit(make(X), y).certificate_.primal
        for make in (
            np.asarray,
            sparse.csr_matrix,
            lambda x: x.astype(np.float32),
            lambda x: sparse.csr_matrix(x.astype(np.float32)),
        )
    ]
    np.testing.assert_allclose(primals, primals[0], atol=2 * tol * 0.1 * len(y), rtol=1e-6)


@pytest.mark.parametrize("classes", [2, 3])
def test_rounds_end_at_their_budget_and_go_on_from_a_snapshot(seed, classes):
    problem, solver = problem_of(classes, seed, 100.0), solvers.Proximal()
    for most in (1, 5, 40):
        ended = mm.train(problem, solver, tol=1e-15, max_passes=most)
        found = ended.certificate  # the last step, and the exact pass
        assert found.passes <= 1.5 * most + 6
        assert found.status == "rounding" or most <= found.passes
    state = solver.start(problem, 1e-12, fresh(seed))
    for _ in range(6):
        before = solver.step(problem, state).dual
    again = solver.resume(problem, 1e-12, fresh(seed), solver.snapshot(problem, state))
    assert again.core.dual() == pytest.approx(before, rel=1e-9)
    assert again.core.proximity == pytest.approx(state.core.proximity)


def test_estimates_meet_the_certified_gap_at_rest(seed):
    # At the solution nothing moves any more: the running estimate is the gap of the definition.
    problem, solver = problem_of(3, seed, 0.5), solvers.Proximal()
    state = solver.start(problem, 1e-10, fresh(seed))
    for _ in range(60):
        report = solver.step(problem, state)
    bounds = problem.certify(*solver.solution(problem, state))
    assert report.dual == pytest.approx(bounds.dual, rel=1e-9)
    assert bounds.primal - bounds.dual <= 2 * (report.estimate + 1e-10) * problem.total


@pytest.mark.parametrize("kind", [mm.BinarySVC, mm.MulticlassSVC, mm.RegressionSVR])
@pytest.mark.parametrize("C", [0.1, 1.0])
def test_climbs_of_the_face_keep_the_optimum_and_cost_few_passes(seed, kind, C, monkeypatch):
    # Every row twice: the multipliers of the optimum are many, and faces are flat in some directions.
    X, y = flat_data(seed, 2 if kind is mm.BinarySVC else 4, n=400)
    X, y = np.vstack([X, X]), np.hstack([y, y])
    options = {"tol": 1e-9, "max_passes": 2000, "random_state": seed, "solver": "proximal"}
    climbed = kind(C, **options).fit(X, y).certificate_
    monkeypatch.setattr(coordinate_state, "PRECISE", 0.0)
    crept = kind(C, **options).fit(X, y).certificate_
    assert climbed.converged
    close = 1e-12 * climbed.primal
    assert crept.dual <= climbed.primal + close and climbed.dual <= crept.primal + close
    assert climbed.passes < 1.5 * crept.passes


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_small_problems_are_solved_to_rounding_in_few_passes(seed, C):
    found = mm.MulticlassSVC(C, random_state=seed).fit(*load_iris(return_X_y=True)).certificate_
    assert found.gap - found.rounding_gap <= 1e-13
    assert found.passes < 150  # 1000 or more without climbs at the end


def test_an_interrupted_climb_leaves_a_dual_point(seed):
    problem, solver = problem_of(3, seed, 1e3), solvers.Proximal()
    state = solver.start(problem, 1e-14, fresh(seed))
    for steps in range(200):
        try:
            with deadline(2e-5 * (1 + steps % 7)):
                solver.step(problem, state)
        except TimeUp:
            pass
        w, support = solver.solution(problem, state)
        assert problem.feasible(support)
        bounds = problem.certify(w, support)
        assert state.core.dual() == pytest.approx(bounds.dual, rel=1e-9)
        assert bounds.dual <= bounds.primal


@pytest.mark.parametrize("classes", [2, 4])
def test_the_first_estimates_are_not_far_below_the_gap(seed, classes):
    # w overshoots in the first round. Blocks that were satisfied then count with their gaps in the second.
    X, y = flat_data(seed, classes, n=20_000, d=30)
    model = models.Multiclass()
    model.initialize(X, y)
    problem, solver = mm.Problem(model.bind(X, y), 0.0003), solvers.Proximal()
    state = solver.start(problem, 1e-3, fresh(seed))
    for _ in range(2):
        report = solver.step(problem, state)
    bounds = problem.certify(*solver.solution(problem, state))
    assert bounds.primal - bounds.dual <= 4 * (report.estimate + 1e-3) * problem.total


@pytest.mark.parametrize("C", [0.01, 0.03])
def test_an_estimate_is_believed_once_all_blocks_were_seen(C):
    # In the second round most rows rest, and what they saw in the first says nothing: w overshoots there.
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    svm = mm.BinarySVC(C, fit_intercept=False, tol=1e-3, random_state=0).fit(X, y)
    certified = np.isfinite(svm.history_["gap"])
    assert certified.sum() == 1 and svm.certificate_.converged


def test_rows_that_lie_in_another_order_keep_their_names(seed):
    # In single precision the core has a copy of the rows in a random order. Masses, multipliers and outputs
    # still follow the order of the caller's rows.
    weights = fresh(seed, 4).integers(0, 4, 120)
    problem, solver = (
        problem_of(2, seed, 0.3, sample_weight=weights),
        solvers.Proximal(proximity=0.0),
    )
    state = solver.start(problem, 1e-2, fresh(seed))
    for _ in range(5):
        report = solver.step(problem, state)
    assert state.single
    w, support = solver.solution(problem, state)
    assert (np.diff(support.blocks) >= 0).all() and problem.feasible(support)
    assert problem.certify(w, support).dual == pytest.approx(report.dual, rel=1e-5)
    again = solver.start(problem, 1e-2, fresh(seed), support)
    np.testing.assert_allclose(again.weights(), w, atol=1e-5 * np.abs(w).max())
    for given, found in zip(support.blocks, again.support().blocks, strict=True):
        assert given == found


@pytest.mark.parametrize("most", [20, 50, 100])
def test_rounds_of_a_small_problem_end_with_the_budget(seed, most):
    X, y = flat_data(seed, 4, 40)
    svm = mm.MulticlassSVC(C=500.0, tol=1e-12, max_passes=most, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svm.fit(X, y)
    # A round visits all blocks at most twice, and an exact pass comes after the last.
    assert svm.certificate_.passes <= most + 3


def test_a_sample_of_many_blocks_shows_the_gap(seed):
    rng = fresh(seed)
    X, y = rng.normal(size=(3000, 6)), rng.integers(0, 2, 3000)
    model = models.Binary()
    model.initialize(X, y)
    problem = mm.Problem(model.bind(X, y), 1e-2)
    solver = solvers.Proximal(cached_passes=5)
    state = solver.start(problem, 0.2, fresh(seed))
    report = solver.step(problem, state)
    bounds = problem.certify(*state.solution())
    gap = (bounds.primal - bounds.dual) / problem.total
    assert report.oracle_calls == problem.n_blocks + PROBED  # resting blocks are not visited again
    assert gap <= report.estimate + 1e-9 <= 0.2


@pytest.mark.parametrize("bias", [None, 2.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("as_csr", [False, True])
def test_slacks_and_a_plane_in_one_walk(seed, as_csr, dtype, bias):
    X, y = flat_data(seed, 2)
    X, model = X.astype(dtype), models.Binary(bias=bias)
    model.initialize(X, y)
    examples = model.bind(sparse.csr_matrix(X) if as_csr else X, y)
    rng = fresh(seed, 2)
    w = rng.normal(size=examples.dimension)
    # Some blocks have no plane, some have several, and some have the plane of their true output.
    blocks = np.sort(rng.integers(0, len(y), 150))
    outputs = rng.integers(0, 2, 150).astype(np.int32)
    c = rng.random(150)
    slacks, (offset, vector) = examples.slacks_and_plane(w, blocks, c, outputs)
    assert slacks == pytest.approx(examples.slacks(w)[0], rel=1e-12, abs=1e-12)
    expected = examples.combine(blocks, c, outputs)
    assert offset == pytest.approx(expected[0], rel=1e-12)
    assert vector == pytest.approx(expected[1], rel=1e-10, abs=1e-12)
    assert examples.slacks_and_plane(w, blocks[::-1].copy(), c, outputs) is None  # not in order
    w[:] = np.nan
    assert np.isnan(examples.slacks_and_plane(w, blocks, c, outputs)[0]).all()


def test_k_falls_at_less_of_a_lag_where_the_gap_has_grown():
    """Else steps that overshoot may go round in a circle, in which both terms of the gap are equal."""
    term = ProximalTerm()
    term.k, term.least, term.stalled = 1.0, 1.0, 0
    term.balance(1.9, 0.9, 1.0, decay=1.3, lagging=LAGGING)
    assert term.k == 1.0
    term.balance(2.1, 1.0, 1.1, decay=1.3, lagging=LAGGING)
    assert term.k == pytest.approx(1 / 1.3)
    term.balance(2.1, 1.5, 0.6, decay=1.3, lagging=LAGGING)
    assert term.k == pytest.approx(1 / 1.3)
