"""Dual coordinate ascent over written constraints; groups that share a slack; regression."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC, LinearSVR

import maxmargin as mm
from helpers import EXACT, RATED, fit, quietly, refusal
from maxmargin import models, solvers
from maxmargin._core import core
from maxmargin.models.groups import Groups, Regression
from reference.dense_qp import primal_objective, solve
from reference.enumerate import Block
from reference.problems import make_case

TIGHT = {"tol": 1e-10, "max_passes": 50_000, "max_seconds": 120.0}


def random_groups(generator, sizes, d=5, layout="dense", dtype=np.float64):
    """Rows, margins of both signs, offsets, and the blocks of the dense QP."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = generator.normal(size=(offsets[-1], d)).astype(dtype)
    if layout == "csr":
        X[generator.uniform(size=X.shape) < 0.4] = 0
    margins = generator.normal(size=len(X)) + 0.5
    blocks = []
    for a, b in pairwise(offsets):
        vectors = np.vstack([np.zeros(d), -X[a:b].astype(np.float64)])
        blocks.append(Block(list(range(b - a + 1)), np.append(0.0, margins[a:b]), vectors))
    return (sparse.csr_matrix(X) if layout == "csr" else X), margins, offsets, blocks


def regression_blocks(X, y, epsilon):
    return [
        Block([0, 1, 2], np.array([0, t - epsilon, -t - epsilon]), np.array([0 * x, -x, x]))
        for x, t in zip(X, y, strict=True)
    ]


def states(problem, seed=0, **options):
    """A solver and its state."""
    solver = solvers.DualCoordinate(**options)
    return solver, solver.start(problem, 1e-9, np.random.default_rng(seed))


def bound(model, X, Y, C=1.0, sample_weight=None):
    model.initialize(X, Y)
    return mm.Problem(model.bind(X, Y), C, sample_weight)


# Groups against the dense QP


@pytest.mark.parametrize("solver", EXACT)
def test_every_solver_solves_groups(generator, solver):
    X, margins, offsets, blocks = random_groups(generator, [1, 3, 0, 2, 5, 1, 4])
    weights = generator.uniform(0.2, 2.0, size=7)
    best = solve(blocks, 0.7, weights)
    svm = mm.GeneralizedSVM(C=0.7, solver=EXACT[solver](), **TIGHT)
    svm.fit(X, margins, offsets, sample_weight=weights)
    assert svm.certificate_.converged
    assert svm.certificate_.primal == pytest.approx(best.value, rel=1e-6)
    np.testing.assert_allclose(svm.coef_, best.w, atol=1e-4)
    by_hand = primal_objective(blocks, 0.7 * weights, svm.coef_)
    assert svm.certificate_.primal == pytest.approx(by_hand, rel=1e-9)
    again = mm.certify(svm, X, margins, sample_weight=weights)
    assert again.dual == pytest.approx(svm.certificate_.dual, rel=1e-9)


@pytest.mark.parametrize("solver", RATED)
def test_rated_solvers_bracket_the_optimum_of_groups(generator, solver):
    X, margins, offsets, blocks = random_groups(generator, [1, 3, 0, 2, 5, 1, 4])
    best = solve(blocks, 0.7)
    svm = mm.GeneralizedSVM(C=0.7, solver=RATED[solver](), tol=1e-12, max_passes=100)
    bounds = quietly(lambda: svm.fit(X, margins, offsets)).certificate_
    assert bounds.primal == pytest.approx(primal_objective(blocks, np.full(7, 0.7), svm.coef_))
    assert bounds.dual <= best.primal * (1 + 1e-9) and best.dual * (1 - 1e-9) <= bounds.primal
    assert bounds.primal <= 1.2 * best.value


@pytest.mark.parametrize("shrinking", [True, False])
@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("layout, dtype", [("dense", np.float32), ("csr", np.float64)])
@pytest.mark.parametrize("sizes", [[1] * 20, [3] * 8, [40, 1, 37, 2]], ids=["one", "3", "large"])
def test_groups_of_every_size_reach_the_optimum(generator, sizes, layout, dtype, C, shrinking):
    X, margins, offsets, blocks = random_groups(generator, sizes, 4, layout, dtype)
    best = solve(blocks, C, None)
    svm = mm.GeneralizedSVM(C, solvers.DualCoordinate(shrinking=shrinking), **TIGHT)
    assert svm.fit(X, margins, offsets).certificate_.converged
    assert svm.certificate_.primal == pytest.approx(best.value, rel=1e-6)
    assert svm.certificate_.dual == pytest.approx(best.value, rel=1e-6)


def test_rows_of_zeros_and_no_violated_row(generator):
    X = np.vstack([np.zeros(3), generator.normal(size=(2, 3)), np.zeros(3)])
    svm = mm.GeneralizedSVM(C=2.0, **TIGHT).fit(X, [1.0, -1.0, -2.0, -0.5])
    assert svm.certificate_.primal == pytest.approx(2.0)  # the first row costs its margin
    assert (svm.coef_ == 0).all()
    pairs = mm.GeneralizedSVM(C=2.0, **TIGHT).fit(
        np.zeros((4, 3)), [1.0, 3.0, 2.0, -1.0], [0, 2, 4]
    )
    assert pairs.certificate_.primal == pytest.approx(2.0 * (3.0 + 2.0))


# The papers' special cases, and other tools


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_two_classes_are_groups_of_one_and_linear_svc(C):
    X, y = load_breast_cancer(return_X_y=True)
    X, signs = scale(X), 2.0 * y - 1
    svc = mm.BinarySVC(C, fit_intercept=False, solver="dual-coordinate", tol=1e-8)
    svc.set_params(max_passes=50_000).fit(X, y)
    rows = mm.GeneralizedSVM(C, tol=1e-8, max_passes=50_000).fit(signs[:, None] * X, 1.0)
    peer = LinearSVC(C=C, loss="hinge", fit_intercept=False, dual=True, tol=1e-9, max_iter=10**6)
    w = peer.fit(X, y).coef_.ravel()
    theirs = 0.5 * w @ w + C * np.maximum(0, 1 - signs * (X @ w)).sum()
    for found in (svc.certificate_, rows.certificate_):
        assert found.converged
        assert found.primal == pytest.approx(theirs, rel=1e-6)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_classes_are_crammer_and_singer():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400] / 16, y[:400]
    svc = mm.MulticlassSVC(0.5, solver="dual-coordinate", tol=1e-8, max_passes=50_000).fit(X, y)
    peer = LinearSVC(C=0.5, multi_class="crammer_singer", tol=1e-8, max_iter=10**6).fit(X, y)
    W = np.column_stack([peer.coef_, peer.intercept_])
    theirs = mm.objective(svc, W, X, y)
    assert svc.certificate_.converged
    assert svc.certificate_.primal == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_regression_is_linear_svr(C, epsilon):
    X, y = load_diabetes(return_X_y=True)
    X, y = scale(X), scale(y)
    # The features are nearly collinear: without an epsilon some orders need thirty times the passes.
    svr = mm.RegressionSVR(
        C, epsilon, False, "dual-coordinate", tol=1e-9, max_passes=50_000, random_state=1
    ).fit(X, y)
    options = {"fit_intercept": False, "dual": True, "max_iter": 5_000, "random_state": 0}
    peer = LinearSVR(C=C, epsilon=epsilon, tol=1e-9, **options)
    w = quietly(lambda: peer.fit(X, y)).coef_
    theirs = 0.5 * w @ w + C * np.maximum(0, np.abs(y - X @ w) - epsilon).sum()
    assert svr.certificate_.converged
    # LIBLINEAR may end before its optimum: never below ours, and close.
    assert svr.certificate_.dual * (1 - 1e-6) <= theirs <= svr.certificate_.primal * (1 + 1e-4)
    assert mm.objective(svr, svr.w_, X, y) == pytest.approx(svr.certificate_.primal, rel=1e-11)
    assert mm.certify(svr, X, y).gap == pytest.approx(svr.certificate_.gap, abs=1e-9)


@pytest.mark.parametrize("solver", ["auto", "dual-coordinate", "sda", "one-slack"])
@pytest.mark.parametrize("intercept", [True, False])
def test_regression_meets_the_dense_qp_and_copies_no_row(generator, solver, intercept):
    X, y = generator.normal(size=(20, 3)), generator.normal(size=20) + 1
    wide = np.column_stack([X, np.ones(20)]) if intercept else X
    best = solve(regression_blocks(wide, y, 0.2), 0.5, None)
    svr = mm.RegressionSVR(0.5, 0.2, intercept, solver, **TIGHT).fit(sparse.csr_matrix(X), y)
    assert svr.certificate_.primal == pytest.approx(best.value, rel=1e-6)
    np.testing.assert_allclose(svr.predict(X), wide @ best.w, atol=1e-4)
    rows = Regression(0.2)
    assert bound(rows, X, y).examples.rows.keep[0] is X


# Laws


@pytest.mark.parametrize("kind", ["groups", "binary", "multiclass", "regression", "chain"])
def test_dual_rises_with_every_step_and_meets_the_primal(generator, kind):
    if kind == "groups":
        X, Y, offsets, _ = random_groups(generator, [1, 3, 2, 4, 1, 2, 35])
        model = Groups(offsets)
    elif kind == "chain":
        case = make_case("chain-1to4-dense", 0)
        model, X, Y = models.Chain(), case.X, case.Y
    else:
        X = generator.normal(size=(30, 4))
        Y = generator.integers(0, 3 if kind == "multiclass" else 2, 30)
        names = {"binary": models.Binary, "multiclass": models.Multiclass}
        model = names[kind]() if kind in names else Regression()
    problem = bound(model, X, Y, 2.0)
    solver, state = states(problem)
    duals = [0.0]
    for _ in range(60):
        duals.append(solver.step(problem, state).dual)
        w, support = solver.solution(problem, state)
        assert problem.dual_objective(support) == pytest.approx(duals[-1], rel=1e-9, abs=1e-12)
    assert np.diff(duals).min() >= -1e-12 * duals[-1]
    assert problem.objective(w) >= duals[-1] * (1 - 1e-12)
    assert duals[1] > 0


def test_estimate_is_the_gap_where_nothing_moves(generator):
    case = make_case("multiclass-cost-dense", 3)
    problem = bound(models.Multiclass(case.options["costs"]), case.X, case.Y)
    _, state = states(problem)
    for _ in range(3):
        state.epoch(False)
    w, dual = state.weights(), state.core.dual()
    violation = state.core.epoch(5, False, np.inf)[3]
    assert violation == pytest.approx(problem.objective(w) - dual, rel=1e-9)
    assert (state.weights() == w).all()


def test_shrinking_puts_blocks_aside_and_sees_them_again(generator):
    X = generator.normal(size=(300, 5))
    y = (X[:, 0] + 0.5 * generator.normal(size=300) > 0).astype(int)
    problem = bound(models.Binary(), X, y, 5.0)
    solver, state = states(problem)
    visits = [solver.step(problem, state).oracle_calls for _ in range(60)]
    assert visits[0] == 300 and visits[-1] < 300
    solver.learn(problem, state, problem.slacks(state.weights()))
    assert solver.step(problem, state).oracle_calls == 300
    plain, other = states(problem, shrinking=False)
    assert {plain.step(problem, other).oracle_calls for _ in range(60)} == {300}
    results = [
        mm.train(problem, solvers.DualCoordinate(shrinking=s), tol=1e-9, max_passes=1e5)
        for s in (True, False)
    ]
    assert results[0].certificate.primal == pytest.approx(results[1].certificate.primal, rel=1e-8)
    assert results[0].certificate.converged and results[1].certificate.converged


@pytest.mark.parametrize(
    "name", ["binary-cost-weights", "multiclass-cost-dense", "chain-1to4-dense"]
)
def test_a_hot_start_goes_on(seed, name):
    case = make_case(name, seed)
    loose = fit(case, "dual-coordinate", relative=1e-2)
    loose.set_params(warm_start=True, tol=loose.tol * 1e-5)
    before = loose.certificate_.dual
    loose.fit(case.X, case.Y, sample_weight=case.sample_weight)
    assert loose.history_["dual"][0] >= before - 1e-9 * abs(before)
    assert loose.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-6)
    passes = loose.certificate_.passes
    loose.fit(case.X, case.Y, sample_weight=case.sample_weight)
    assert loose.certificate_.passes <= min(1, passes)  # one look, and it is done


def test_a_hot_start_at_another_c_and_refused_outputs(generator):
    X, margins, offsets, blocks = random_groups(generator, [2, 3, 1, 4])
    svm = mm.GeneralizedSVM(C=1.0, warm_start=True, **TIGHT).fit(X, margins, offsets)
    svm.set_params(C=3.0).fit(X, margins, offsets)
    assert svm.certificate_.primal == pytest.approx(solve(blocks, 3.0, None).value, rel=1e-6)
    with refusal("warm_start"):
        svm.fit(X, margins, [0, 1, 2, 3, 10])


def test_weights_are_copies_and_the_order_of_rows_is_nothing(generator):
    X, margins, offsets, _ = random_groups(generator, [2, 3, 1])
    rows = np.concatenate([np.arange(0, 2), np.arange(0, 2), [4, 2, 3], [5]])
    once = mm.GeneralizedSVM(**TIGHT).fit(X, margins, offsets, sample_weight=[2.0, 1.0, 1.0])
    twice = mm.GeneralizedSVM(**TIGHT).fit(X[rows], margins[rows], [0, 2, 4, 7, 8])
    np.testing.assert_allclose(once.coef_, twice.coef_, atol=1e-6)


def test_regression_of_mirrored_targets_is_mirrored(generator):
    X, y = generator.normal(size=(25, 3)), generator.normal(size=25)
    one, other = (mm.RegressionSVR(**TIGHT).fit(X, t) for t in (y, -y))
    np.testing.assert_allclose(one.coef_, -other.coef_, atol=1e-6)
    assert one.intercept_ == pytest.approx(-other.intercept_, abs=1e-6)


@pytest.mark.parametrize("precision", ["single", "double", "auto"])
def test_precisions_end_at_the_same_optimum(generator, precision):
    X, y = generator.normal(size=(80, 6)), generator.integers(0, 3, 80)
    best = mm.StructuralSVM(models.Multiclass(), C=0.2, **TIGHT).fit(X, y).certificate_.primal
    for Y in (y, np.minimum(y, 1)):
        model = models.Multiclass() if Y is y else models.Binary()
        svm = mm.StructuralSVM(model, C=0.2, solver=solvers.DualCoordinate(precision=precision))
        certificate = svm.set_params(tol=1e-4).fit(X, Y).certificate_
        assert certificate.converged
        if Y is y:
            assert certificate.primal == pytest.approx(best, rel=1e-3)


def test_the_seed_decides_everything(generator):
    X, y = generator.normal(size=(200, 6)), generator.integers(0, 3, 200)

    def weights(seed):
        svm = mm.StructuralSVM(models.Multiclass(), solver="dual-coordinate", random_state=seed)
        return svm.fit(X, y).coef_

    assert (weights(1) == weights(1)).all()
    assert (weights(1) != weights(2)).any()


# Manners


def test_regression_in_a_grid_search(generator):
    X = generator.normal(size=(60, 3))
    y = X @ [1.0, -2.0, 0.5] + 3
    search = GridSearchCV(mm.RegressionSVR(), {"C": [0.1, 10.0], "epsilon": [0.0, 0.1]}, cv=3)
    assert search.fit(sparse.csr_matrix(X), y).best_score_ > 0.99


def test_bad_input_is_refused(generator):
    X, ones = generator.normal(size=(6, 2)), np.ones(6)
    svm = mm.GeneralizedSVM()
    with refusal("margins must have shape", r"\(6,\)", r"\(5,\)"):
        svm.fit(X, ones[:5])
    with refusal(r"margins\[2\]", "finite"):
        svm.fit(X, np.where(np.arange(6) == 2, np.nan, ones))
    with refusal("groups must rise", "6 rows", "0 to 5"):
        svm.fit(X, ones, [0, 2, 5])
    with refusal("groups must rise", "with a fall in between"):
        svm.fit(X, ones, [0, 4, 2, 6])
    with refusal("groups must be offsets", "whole numbers"):
        svm.fit(X, ones, [0.0, 2.0, 6.0])
    with refusal("sample_weight", r"\(2,\)"):
        svm.fit(X, ones, [0, 3, 6], sample_weight=np.ones(6))
    with refusal("NaN"):
        svm.fit(X * np.nan, ones)
    with refusal("epsilon", "at least 0", "-1"):
        mm.RegressionSVR(epsilon=-1).fit(X, ones)
    with refusal("rescaling", "slack"):
        mm.StructuralSVM(Regression(), rescaling="slack").fit(X, ones)
    with refusal("node_weight"):
        mm.StructuralSVM(Regression()).fit(X, ones, node_weight=[1.0])
    for option in ({"shrinking": "no"}, {"sweeps": -1}, {"inner": 1.0}, {"precision": "half"}):
        with refusal("DualCoordinate", next(iter(option))):
            solvers.DualCoordinate(**option)


def test_the_core_refuses_constraints_that_do_not_fit(generator):
    examples = bound(Groups([0, 2, 3]), generator.normal(size=(3, 2)), np.ones(3)).examples
    rows, two, three = examples.rows.core.rows, np.array([0, 2, 3]), np.arange(3)
    for first in (np.array([0, 2]), np.array([1, 3]), np.array([0, 4, 3])):
        with pytest.raises(ValueError, match=r"fit|overlap|must rise"):
            core.GroupsData(rows, first, three, np.ones(3), np.ones(3))
    with pytest.raises(ValueError, match="not there"):
        core.GroupsData(rows, two, three + 1, np.ones(3), np.ones(3))
    state = examples.core.coordinate(False, np.ones(2))
    with pytest.raises(ValueError, match="do not fit"):
        state.restore(np.array([1]), np.ones(1), np.array([2], np.int32))
    with pytest.raises(ValueError, match="as many"):
        state.restore(np.array([1]), np.ones(2), np.array([1], np.int32))
    with pytest.raises(ValueError, match="masses"):
        examples.core.coordinate(False, np.ones(3))


def test_a_budget_of_passes_is_told(generator):
    X, y = generator.normal(size=(300, 60)), generator.normal(size=300)
    svr = mm.RegressionSVR(C=100.0, solver="dual-coordinate", tol=1e-12, max_passes=3)
    found = quietly(lambda: svr.fit(X, y)).certificate_
    assert not found.converged and found.passes <= 6


@pytest.mark.parametrize("name", ["chain-1to4-dense", "multiclass-cost-dense", "tree-path"])
def test_pruning_keeps_what_carries_multipliers_and_the_optimum(seed, name):
    case = make_case(name, seed)
    pruned = fit(case, solvers.DualCoordinate(prune=True))
    whole = fit(case, solvers.DualCoordinate(keep=0, sweeps=30, order="cyclic"))
    for svm in (pruned, whole):
        assert svm.certificate_.converged
        assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-6)
        assert (np.diff(svm.history_["dual"]) >= -1e-9 * case.optimum.value).all()
    assert pruned.history_["planes"][-1] == len(pruned.support_.blocks)
    assert pruned.history_["planes"].max() <= whole.history_["planes"].max()


def test_the_order_of_the_examples_needs_no_seed(seed):
    case = make_case("chain-1to4-dense", seed)
    left, right = (
        fit(case, solvers.DualCoordinate(order="cyclic"), relative=1e-3, random_state=s)
        for s in (0, 1)
    )
    np.testing.assert_array_equal(left.coef_, right.coef_)
