"""Symmetries of the objective: two routes to the same problem reach one optimum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import maxmargin as mm
from helpers import EXACT, built_in, fit, loss_units
from reference.dense_qp import solve
from reference.enumerate import MulticlassTruth, enumerate_blocks
from reference.strategies import cases, chain_cases, multiclass_cases

SOLVERS = ["proximal", "fasole", "sda", "sdm", "bcfw-pairwise", "dual-coordinate"]
few = settings(max_examples=8)


def taken(case, index):
    """Return the case with these examples, in this order; repeats are allowed."""
    X = [case.X[i] for i in index] if case.kind == "chain" else case.X[list(index)]
    weight = None if case.sample_weight is None else case.sample_weight[list(index)]
    return case.replace(X=X, Y=[case.Y[i] for i in index], sample_weight=weight)


def optimum_of(case, solver):
    """Return the certified optimum, to about eight digits."""
    certificate = fit(case, EXACT[solver](), relative=1e-8).certificate_
    assert certificate.converged
    return certificate.primal


@pytest.mark.parametrize("solver", SOLVERS)
@few
@given(case=cases(weighted=False), repeats=st.lists(st.integers(0, 3), min_size=12, max_size=12))
def test_weight_k_is_k_copies(solver, case, repeats):
    counts = np.array(repeats[: len(case.Y)])
    present = {label for i in np.flatnonzero(counts) for label in np.ravel(case.Y[i])}
    counts[counts == 0] = 0 if len(present) == len(case.truth.classes) else 1
    weighted = case.replace(sample_weight=counts.astype(float))
    copied = taken(case, np.repeat(np.arange(len(counts)), counts))
    left, right = optimum_of(weighted, solver), optimum_of(copied, solver)
    assert left == pytest.approx(right, rel=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@few
@given(case=cases(weighted=False))
def test_an_example_of_weight_zero_is_absent(solver, case):
    last = len(case.Y) - 1
    doubled = taken(case, [*range(len(case.Y)), last])  # so that no label disappears
    weights = np.ones(last + 2)
    weights[-1] = 0.0
    without = optimum_of(case, solver)
    assert optimum_of(doubled.replace(sample_weight=weights), solver) == pytest.approx(
        without, rel=1e-6
    )


@pytest.mark.parametrize("solver", SOLVERS)
@few
@given(case=cases())
def test_twice_the_examples_at_half_c_is_the_same_problem(solver, case):
    index = np.arange(len(case.Y))
    doubled = taken(case, np.concatenate([index, index])).replace(C=case.C / 2)
    assert optimum_of(doubled, solver) == pytest.approx(optimum_of(case, solver), rel=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@few
@given(case=cases(weighted=False))
def test_twice_the_weights_is_twice_c(solver, case):
    heavy = case.replace(sample_weight=np.full(len(case.Y), 2.0))
    strict = case.replace(C=2 * case.C)
    assert optimum_of(heavy, solver) == pytest.approx(optimum_of(strict, solver), rel=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@few
@given(case=multiclass_cases(weighted=False))
def test_scaled_features_and_c_scale_the_optimum(solver, case):
    # P(w / 2) with 2 X and C / 4 is a quarter of P(w); a bias would have to be scaled too.
    plain = case.replace(options=dict(case.options, bias=None))
    truth = MulticlassTruth(case.truth.classes, case.X.shape[1], case.truth.costs)
    plain = plain.replace(truth=truth)
    scaled = plain.replace(X=plain.X * plain.X.dtype.type(2), C=case.C / 4)
    assert 4 * optimum_of(scaled, solver) == pytest.approx(optimum_of(plain, solver), rel=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@few
@given(case=cases(), data=st.data())
def test_renaming_the_labels_changes_nothing(solver, case, data):
    K = len(case.truth.classes)
    order = data.draw(st.permutations(range(K)))
    names = [f"label-{order[k]}" for k in range(K)]
    rename = lambda y: names[y] if np.ndim(y) == 0 else [names[t] for t in y]  # noqa: E731
    back = np.argsort(order)
    costs = case.options["costs"]
    options = dict(case.options, costs=None if costs is None else costs[np.ix_(back, back)])
    tol = loss_units(case, 1e-8)
    model = built_in(case.replace(options=options))
    svm = mm.StructuralSVM(model, C=case.C, solver=EXACT[solver](), tol=tol, max_passes=50_000)
    svm.fit(case.X, [rename(y) for y in case.Y], sample_weight=case.sample_weight)
    assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-6)
    plain = fit(case, EXACT[solver](), relative=1e-8)
    if case.kind == "multiclass":
        left = svm.coef_.reshape(K, -1)[order]
        np.testing.assert_allclose(left, plain.coef_.reshape(K, -1), atol=2e-3)
    if case.kind == "binary":
        sign = 1 if order[0] < order[1] else -1
        np.testing.assert_allclose(sign * svm.coef_, plain.coef_, atol=2e-3)


@pytest.mark.parametrize("solver", SOLVERS)
@few
@given(case=cases())
def test_shuffled_examples_are_the_same_problem(solver, case):
    order = np.random.default_rng(0).permutation(len(case.Y))
    left, right = optimum_of(taken(case, order), solver), optimum_of(case, solver)
    assert left == pytest.approx(right, rel=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@few
@given(case=cases())
def test_vanishing_c_gives_vanishing_weights(solver, case):
    tiny = case.replace(C=1e-8)
    svm = fit(tiny, EXACT[solver](), relative=1e-6)
    reach = [np.linalg.norm(block.vectors, axis=1).max() for block in case.blocks]
    assert np.linalg.norm(svm.coef_) <= np.dot(tiny.budgets, reach) * (1 + 1e-9)
    worst = np.dot(tiny.budgets, [block.offsets.max() for block in case.blocks])
    assert svm.certificate_.primal == pytest.approx(worst, rel=1e-5)


@pytest.mark.parametrize("solver", SOLVERS)
@few
@given(case=multiclass_cases())
def test_a_feature_that_is_always_zero_gets_no_weight(solver, case):
    extra = np.zeros((len(case.Y), 1), dtype=case.X.dtype)
    stack = sparse.hstack if sparse.issparse(case.X) else np.hstack
    wider = stack([extra, case.X])
    wider = sparse.csr_matrix(wider) if sparse.issparse(wider) else wider
    tol = loss_units(case, 1e-8)
    svm = mm.StructuralSVM(built_in(case), C=case.C, solver=EXACT[solver](), tol=tol)
    svm.set_params(max_passes=50_000).fit(wider, case.Y, sample_weight=case.sample_weight)
    weights = svm.coef_.reshape(len(case.truth.classes), -1)
    assert (weights[:, 0] == 0).all()
    assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-6)


@few
@given(case=chain_cases(), weights=st.data())
def test_node_weights_scale_the_loss_of_their_nodes(case, weights):
    nodes = [
        np.array([weights.draw(st.sampled_from([0.0, 0.5, 1.0, 3.0])) for _ in y]) for y in case.Y
    ]
    nodes[0][:] = 1.0  # at least one loss must remain
    blocks = enumerate_blocks(case.truth, case.X, case.Y, nodes)
    expected = solve(blocks, case.C, case.sample_weight)
    tol = 1e-8 * expected.value / case.budgets.sum()
    svm = mm.StructuralSVM(built_in(case), C=case.C, tol=tol, max_passes=50_000)
    svm.fit(case.X, case.Y, sample_weight=case.sample_weight, node_weight=nodes)
    assert svm.certificate_.primal == pytest.approx(expected.value, rel=1e-6)
