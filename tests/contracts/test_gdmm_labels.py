"""GDMM on sets of labels: optimum of the linear relaxation, joint oracle, step of a link, kept outputs."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

import maxmargin as mm
from helpers import quietly
from label_cases import attractive, independent, problem_of
from maxmargin import models, solvers
from maxmargin._core import core
from maxmargin.problem import Problem
from maxmargin.solvers.gdmm_graph import GraphState
from maxmargin.solvers.gdmm_labels import LabelState
from reference import twins_labels
from reference.cases import fresh
from reference.relaxed import relaxed_optimum


def triples(g):
    return attractive(g, together=3)


def exclusive(g, n=12, labels=5):
    """Return examples with exactly one label each, so that pairs of labels repel."""
    X = g.normal(size=(n, 4))
    return X, np.eye(labels, dtype=int)[(X @ g.normal(size=(4, labels))).argmax(axis=1)]


DATA = [independent, attractive, triples, exclusive]


def trained(problem, passes, seed=0, tol=1e-6, **options):
    solver = solvers.Gdmm(**options)
    state = solver.start(problem, tol, np.random.default_rng(seed))
    for _ in range(passes):
        solver.step(problem, state)
    return solver, state


@pytest.mark.parametrize("make", DATA)
@pytest.mark.parametrize("C", [0.05, 0.5, 3.0])
def test_optimum_of_the_linear_relaxation(seed, make, C):
    X, Y = make(fresh(seed, 51))
    problem = problem_of(X, Y, C, bias=1.0)
    optimum = relaxed_optimum(problem.examples.factors, problem.mass)
    solver = solvers.Gdmm()
    state = solver.start(problem, 1e-6, np.random.default_rng(seed))
    assert isinstance(state, LabelState)
    for number in range(1500):
        report = solver.step(problem, state)
        # holds at every step, for the dual of the support
        assert report.dual <= optimum * (1 + 1e-6)
        if number % 300 == 0:
            _, support = solver.solution(problem, state)
            assert problem.dual_objective(support) == pytest.approx(report.dual, rel=1e-9, abs=1e-9)
    w, support = solver.solution(problem, state)
    assert problem.dual_objective(support) == pytest.approx(optimum, rel=1e-4)
    found, ceilings = problem.relaxed_bounds(w)
    assert problem.objective(w, np.maximum(found, ceilings)) >= optimum * (1 - 1e-6)


@pytest.mark.parametrize("make", DATA)
@pytest.mark.parametrize("passes", [0, 1, 4, 40])
def test_ceilings_are_a_proof_in_every_state(seed, make, passes):
    """The bounds from messages of active pairs and payments for the others hold; an LP checks them."""
    problem = problem_of(*make(fresh(seed, 69)), 0.7, bias=1.0)
    _, state = trained(problem, passes, seed, inner=1)
    w = state.core.weights()
    ceilings = state.core.ceilings()
    found, exact = problem.relaxed_bounds(w)
    assert (np.maximum(found, exact) <= ceilings + 1e-9).all()
    again = core.label_ceilings(problem.examples.core, w, *state.core.prices())
    np.testing.assert_allclose(again, ceilings, atol=1e-8)


@pytest.mark.parametrize("make", DATA)
@pytest.mark.parametrize("passes", [0, 1, 4, 40])
def test_the_audit_is_that_of_the_twin(seed, make, passes):
    X, Y = make(fresh(seed, 69))
    problem = problem_of(X, Y, 0.7, bias=1.0)
    _, state = trained(problem, passes, seed, inner=1)
    labels, stored = Y.shape[1], state.core.prices()
    ends = np.transpose(np.triu_indices(labels, 1))  # the ends of the pairs, in the order of coef_
    w = state.core.weights() + 0.1 * fresh(seed, 72).normal(size=problem.dimension)
    weights = w[: -len(ends)].reshape(labels, -1)
    pairs = np.zeros((labels, labels))
    pairs[tuple(ends.T)] = w[-len(ends) :]
    found = core.label_ceilings(problem.examples.core, w, *stored)
    for i in range(len(Y)):
        own = {tuple(ends[k]): (a, b) for j, k, a, b in zip(*stored, strict=True) if j == i}
        g, p = twins_labels.gains(np.append(X[i], 1.0), Y[i], weights, pairs + pairs.T)
        assert found[i] == pytest.approx(twins_labels.ceiling(g, p, own), abs=1e-9)


@pytest.mark.parametrize("make", DATA)
@pytest.mark.parametrize("options", [{}, {"partitions": 3}, {"search": "exhaustive"}, {"grow": 1}])
def test_audits_leave_nothing_out(seed, make, options):
    """The bound covers all pairs and labels: if it meets the dual, no inactive pair or label gains."""
    problem = problem_of(*make(fresh(seed, 70)), 0.7, bias=1.0)
    solver, state = trained(problem, 1500, seed, **options)
    w, support = solver.solution(problem, state)
    bound = problem.objective(w, state.core.ceilings())
    dual = problem.dual_objective(support)
    assert dual <= bound * (1 + 1e-9) and bound - dual <= 2e-4 * dual
    # A bound without any prices is valid too, but looser.
    none = [np.empty(0, kind) for kind in (np.int64, np.int32, float, float)]
    loose = core.label_ceilings(problem.examples.core, w, *none)
    assert (loose >= problem.relaxed_bounds(w)[1] - 1e-9).all()


def test_sets_of_many_labels_are_certified_by_prices(seed, monkeypatch):
    X, Y = attractive(fresh(seed, 71), n=12)
    svm = mm.StructuralSVM(models.MultiLabel(bias=1.0), C=0.5, solver="gdmm", tol=1e-3)
    svm.set_params(max_passes=5000, random_state=0).fit(X, Y)
    monkeypatch.setattr("maxmargin.models.factors.PRICED_LABELS", 2)
    proven = mm.StructuralSVM(models.MultiLabel(bias=1.0), C=0.5, solver="gdmm", tol=1e-3)
    proven.set_params(max_passes=5000, random_state=0).fit(X, Y)
    assert proven.certificate_.converged and proven.certificate_.exact
    assert proven.certificate_.dual <= svm.certificate_.primal
    assert proven.certificate_.primal >= svm.certificate_.dual
    with pytest.raises(ValueError, match="not there"):
        prices = (np.array([0]), np.array([99], np.int32), np.ones(1), np.ones(1))
        core.label_ceilings(proven.model_.bind(X, Y).core, proven.coef_, *prices)


def test_options_of_the_model_and_weights_of_examples(seed):
    g = fresh(seed, 52)
    X, Y = attractive(g)
    weight = g.integers(3, size=len(Y)).astype(float)
    pairs = [(0, 1), (2, 3), (1, 4), (4, 5), (0, 5)]
    problem = problem_of(X, Y, 0.7, weight, pairs=pairs, loss=[1.0, 3.0])
    optimum = relaxed_optimum(problem.examples.factors, problem.mass)
    solver, state = trained(problem, 1500, seed)
    _, support = solver.solution(problem, state)
    assert problem.dual_objective(support) == pytest.approx(optimum, rel=1e-4)


def test_trees_of_pairs_and_no_pairs_are_solved_exactly(seed):
    X, Y = attractive(fresh(seed, 53))
    for pairs in ("none", [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]):
        svm = mm.StructuralSVM(models.MultiLabel(pairs, bias=1.0), C=0.5, solver="gdmm", tol=1e-5)
        svm.set_params(max_passes=5000, random_state=0).fit(X, Y)
        other = mm.StructuralSVM(models.MultiLabel(pairs, bias=1.0), C=0.5, solver="sda", tol=1e-5)
        other.fit(X, Y)
        assert svm.certificate_.exact and not svm.certificate_.relaxed
        assert svm.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-4)


def test_only_a_joint_move_gains(seed):
    """Neither of two labels gains by leaving the truth alone; the joint oracle moves them together."""
    for number in range(20):
        X, Y = attractive(fresh(seed + number, 54), n=30)
        if moved_together(problem_of(X, Y, 0.5), seed):
            return
    pytest.fail("no such labels were found")


def moved_together(problem, seed):
    """Return whether a pair left the truth although both of its labels lose by leaving alone."""
    solver, state = trained(problem, 600, seed)
    w, support = solver.solution(problem, state)
    marginals, factors = support.outputs, problem.examples.factors
    rows = marginals.link_values.reshape(-1, 4)
    for block, link, q in zip(marginals.link_blocks, marginals.links, rows, strict=True):
        y = factors.truth[6 * block : 6 * block + 6]
        a, b = factors.shapes[0].edges[link]
        left = q[2 * (1 - y[a]) + 1 - y[b]]
        if left > 1e-3 and max(gain_alone(factors, w, block, y, v) for v in (a, b)) < -1e-3:
            return True
    return False


def gain_alone(factors, w, block, y, label):
    """Return the loss and score that a label gains by leaving the truth alone."""
    other = np.array(y)
    other[label] = 1 - other[label]
    scores = [w @ factors.joint_feature(int(block), labels) for labels in (other, y)]
    return factors.loss(int(block), other) + scores[0] - scores[1]


@pytest.mark.parametrize("make", DATA)
def test_the_joint_oracle_equals_a_search_of_all_pairs(seed, make):
    """The oracle is right in every state, both with an outdated order of the rows and with sorted rows."""
    problem = problem_of(*make(fresh(seed, 55)), 0.5, bias=1.0)
    solver = solvers.Gdmm(inner=1)
    state = solver.start(problem, 1e-3, np.random.default_rng(seed))
    some = 0
    for _ in range(12):
        solver.step(problem, state)
        for block in range(problem.examples.n):
            for wanted in (1, 3):
                found, _ = state.core.joint_gains(block, wanted, False)
                every, looks = state.core.joint_gains(block, wanted, True)
                assert looks == 15 or make not in (attractive, triples)
                np.testing.assert_allclose([x[0] for x in found], [x[0] for x in every])
                some += bool(found)
    assert some > 0 or make not in (attractive, triples)


def test_the_joint_oracle_looks_at_few_pairs(seed):
    g = fresh(seed, 56)
    labels, n = 120, 150
    X = g.normal(size=(n, 40)) / np.sqrt(40)
    Y = (X @ g.normal(size=(40, labels)) > 2).astype(int)
    problem = problem_of(X, Y, 1.0, bias=1.0)
    _, state = trained(problem, 20, seed, tol=1e-3)
    looks = [state.core.joint_gains(i, 3, False)[1] for i in range(n)]
    assert np.mean(looks) < 0.3 * labels * (labels - 1) / 2
    for i in range(0, n, 10):
        found, every = (state.core.joint_gains(i, 3, exhaustive)[0] for exhaustive in (False, True))
        np.testing.assert_allclose([x[0] for x in found], [x[0] for x in every])


def test_the_step_of_a_link_is_exact(seed):
    """The step agrees with a general solver over the four masses of a link."""
    g = fresh(seed, 57)
    for _ in range(60):
        m, rho = g.uniform(0.1, 3), 10 ** g.uniform(-2, 2)
        A, B, target = g.uniform(-2 * m, 3 * m, size=3)

        def cost(alpha, beta, c, A=A, B=B, target=target, rho=rho):
            return 0.5 * (c - target) ** 2 + 0.5 * rho * ((alpha - A) ** 2 + (beta - B) ** 2)

        alpha, beta, c = core.joint_move(A, B, target, rho, m)
        low = min(c, alpha - c, beta - c, m - alpha - beta + c)
        assert low >= -1e-12 * m
        best = minimize(
            lambda q, cost=cost: cost(q[1] + q[3], q[2] + q[3], q[3]),
            np.full(4, m / 4),
            bounds=[(0, m)] * 4,
            constraints={"type": "eq", "fun": lambda q, m=m: q.sum() - m},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert cost(alpha, beta, c) <= best.fun * (1 + 1e-7) + 1e-9


def test_links_that_say_nothing_are_not_kept(seed):
    """Labels that leave the truth one at a time need no link, although every pair has a weight."""
    g = fresh(seed, 58)
    X = g.normal(size=(40, 6))
    Y = (X @ g.normal(size=(6, 10)) > 1).astype(int)
    problem = problem_of(X, Y, 5.0, bias=1.0)
    _, state = trained(problem, 200, seed)
    nodes, _, _, blocks, links, shares = state.core.repaired()
    assert len(nodes) > 40  # some labels have left
    assert len(links) <= state.core.active_links < 0.5 * 40 * 45
    assert (shares.reshape(-1, 4) >= 0).all() and len(shares) == 4 * len(blocks)


def test_weights_are_those_of_the_point_and_refresh_removes_rounding(seed):
    problem = problem_of(*attractive(fresh(seed, 59)), 0.5)
    _, state = trained(problem, 50, seed)
    before = state.core.weights()
    state.refresh()
    np.testing.assert_allclose(state.core.weights(), before, atol=1e-9)


def test_warm_start_goes_on(seed):
    X, Y = attractive(fresh(seed, 60))
    svm = mm.StructuralSVM(models.MultiLabel(), C=0.5, solver="gdmm", tol=1e-9, max_passes=300)
    svm.set_params(warm_start=True, random_state=0)
    quietly(lambda: svm.fit(X, Y))
    first = svm.certificate_.dual
    again = mm.certify(svm, X, Y)
    assert again.dual == pytest.approx(first, rel=1e-9) and again.relaxed
    svm.set_params(max_passes=1)
    quietly(lambda: svm.fit(X, Y))
    assert svm.certificate_.dual >= first * (1 - 1e-6)


def test_inputs_agree(seed):
    """Dense and sparse rows, in single and double precision, give the same dual."""
    X, Y = independent(fresh(seed, 61), n=20)
    X = np.round(X, 2)
    duals = []
    for own in (X, sp.csr_matrix(X), X.astype(np.float32), sp.csr_matrix(X.astype(np.float32))):
        _, state = trained(problem_of(own, Y, 0.5, bias=1.0), 40, seed)
        duals.append(state.core.dual())
    np.testing.assert_allclose(duals, duals[0], rtol=1e-5)


def test_rows_without_features_and_labels_without_loss(seed):
    X, Y = independent(fresh(seed, 68))
    X[::2], Y[1] = 0, 0
    weight = np.ones(Y.shape)
    weight[:, 0], weight[3] = 0, 0
    model = models.MultiLabel()
    model.initialize(X, Y)
    problem = Problem(model.bind(X, Y, weight), C=0.5)
    solver, state = trained(problem, 800, seed)
    _, support = solver.solution(problem, state)
    optimum = relaxed_optimum(problem.examples.factors, problem.mass)
    assert problem.dual_objective(support) == pytest.approx(optimum, rel=1e-4)


def test_grow_limits_the_labels_of_a_visit(seed):
    X, Y = independent(fresh(seed, 62), n=30, labels=8)
    problem = problem_of(X, Y, 1e-3)
    _, state = trained(problem, 3, seed, tol=1e-3, grow=1)
    assert np.bincount(state.core.repaired()[0], minlength=30).max() <= 3  # at most one per pass


def test_soft_constraints_are_another_problem(seed):
    """Without steps of the multipliers only the penalty holds factors together: Soft-BCFW."""
    problem = problem_of(*attractive(fresh(seed, 63), n=20), 0.5)
    optimum = relaxed_optimum(problem.examples.factors, problem.mass)
    duals = {rho: trained(problem, 800, seed, rho=rho, eta=0.0)[1].core.dual() for rho in (0.03, 3)}
    assert duals[0.03] < duals[3] <= optimum * (1 + 1e-6)
    assert duals[0.03] < optimum * (1 - 1e-4)


def test_too_many_labels_are_taken_as_a_graph(seed, monkeypatch):
    problem = problem_of(*independent(fresh(seed, 67)), 0.5)
    monkeypatch.setattr("maxmargin.solvers.gdmm_labels.MOST_TABLE_LABELS", 4)
    _, state = trained(problem, 2, seed)
    assert isinstance(state, GraphState)


def test_other_graphs_are_not_label_sets(seed):
    g = fresh(seed, 64)
    X = [(g.normal(size=(3, 2)), np.array([(0, 1), (1, 2)])) for _ in range(4)]
    Y = [g.integers(2, size=3).tolist() for _ in range(4)]
    Y[0] = [0, 1, 0]
    model = models.FactorGraph()
    model.initialize(X, Y)
    examples = model.bind(X, Y)
    assert not core.are_label_sets(examples.core)
    with pytest.raises(ValueError, match="not sets of labels"):
        core.LabelGdmm(examples.core, np.ones(4), np.ones(4), 1.0, 4, 8)
