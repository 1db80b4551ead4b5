"""Tests of the references: hand-solved problems, other solvers, and each other."""

import numpy as np
import pytest
from scipy.optimize import minimize

from reference import twins, twins_batch
from reference.cases import chain_case, fresh, multiclass_case
from reference.dense_qp import dual_objective, primal_objective, solve, weights_of
from reference.enumerate import (
    ChainTruth,
    MulticlassTruth,
    argmax,
    augmented_scores,
    enumerate_blocks,
    k_best,
    loss_augmented_argmax,
    scores,
)
from reference.problems import CASES, make_case
from reference.python_chain import BatchPythonChain, PythonChain, PythonMulticlass

TWINS = {
    "sda": twins.sda,
    "sdm": twins.sdm,
    "fasole": twins_batch.fasole,
    "proximal": twins_batch.proximal,
}


def test_multiclass_vector_puts_x_in_the_row_of_its_class():
    truth = MulticlassTruth(["a", "b", "c"], 2, bias=5.0)
    vector = truth.joint_feature(np.array([1.0, 2.0]), "b")
    assert vector.tolist() == [0, 0, 0, 1, 2, 5, 0, 0, 0]


def test_chain_vector_has_unary_transitions_start_end_in_that_order():
    truth = ChainTruth(["a", "b"], 1, start=True, end=True)
    x = np.array([[10.0], [20.0], [40.0]])
    vector = truth.joint_feature(x, ["a", "b", "b"])
    unary, transitions, start, end = [10, 60], [0, 1, 0, 1], [1, 0], [0, 1]
    assert vector.tolist() == unary + transitions + start + end
    assert len(vector) == truth.size_joint_feature


def test_chain_loss_counts_or_averages_with_costs_and_node_weights():
    costs = np.array([[0.0, 3.0], [5.0, 0.0]])
    assert ChainTruth([0, 1], 1, costs).loss([0, 1, 1], [1, 0, 1]) == 8.0
    assert ChainTruth([0, 1], 1, costs, mean=True).loss([0, 1, 1], [1, 0, 1]) == 8.0 / 3
    assert ChainTruth([0, 1], 1, costs).loss([0, 1], [1, 0], node_weight=[2.0, 0.0]) == 6.0


def test_enumeration_lists_every_sequence_once():
    outputs = ChainTruth("xyz", 1).outputs(np.zeros((4, 1)))
    assert len(outputs) == len(set(outputs)) == 3**4


@pytest.mark.parametrize("options", [{}, {"start": True, "end": True}, {"mean": True}])
@pytest.mark.parametrize("with_costs", [False, True])
def test_python_chain_agrees_with_enumeration(generator, options, with_costs):
    case = chain_case(generator, n=6, lengths=(1, 2, 4), costs=with_costs, **options)
    model = PythonChain(3, case.options["costs"], **options)
    model.initialize(case.X, case.Y)
    w = generator.normal(size=model.size_joint_feature)
    for x, y in zip(case.X, case.Y, strict=True):
        feature = model.joint_feature(x, y)
        np.testing.assert_allclose(feature, case.truth.joint_feature(x, y), atol=1e-12)
        best = model.inference(x, w)
        assert tuple(best) == argmax(case.truth, x, w)
        worst = model.loss_augmented_inference(x, y, w)
        value = model.joint_feature(x, worst) @ w + model.loss(y, worst)
        assert value == pytest.approx(augmented_scores(case.truth, x, y, w).max(), rel=1e-12)


def test_batch_python_chain_answers_one_per_example(generator):
    case = chain_case(generator)
    model = BatchPythonChain(3)
    model.initialize(case.X, case.Y)
    w = generator.normal(size=model.size_joint_feature)
    answers = model.batch_loss_augmented_inference(case.X, case.Y, w)
    assert [len(answer) for answer in answers] == [len(y) for y in case.Y]
    assert model.batches == 1


def test_python_multiclass_agrees_with_enumeration(generator):
    case = multiclass_case(generator, costs=True)
    model = PythonMulticlass(case.options["costs"])
    model.initialize(case.X, case.Y)
    w = generator.normal(size=model.size_joint_feature)
    for x, y in zip(case.X, case.Y, strict=True):
        assert model.inference(x, w) == argmax(case.truth, x, w)
        assert model.loss_augmented_inference(x, y, w) == loss_augmented_argmax(case.truth, x, y, w)
        np.testing.assert_array_equal(model.joint_feature(x, y), case.truth.joint_feature(x, y))


def test_k_best_is_sorted_distinct_and_complete(generator):
    truth = ChainTruth([0, 1, 2], 2)
    x, w = generator.normal(size=(3, 2)), generator.normal(size=truth.size_joint_feature)
    found = k_best(truth, x, w, 100)
    values = [value for _, value in found]
    assert len({output for output, _ in found}) == 27
    assert values == sorted(values, reverse=True)
    assert values[0] == scores(truth, x, w).max()


@pytest.mark.parametrize("C", [0.1, 0.5, 3.0])
def test_two_classes_one_example_by_hand(C):
    # P = 1/2 |w|^2 + C max(0, 1 + <w, psi>) with |psi|^2 = 2 x^2: a = min(C, 1 / |psi|^2).
    x = np.array([[1.5]])
    blocks = enumerate_blocks(MulticlassTruth([0, 1], 1), x, [0])
    a = min(C, 1 / (2 * 1.5**2))
    found = solve(blocks, C)
    assert found.value == pytest.approx(a - 0.5 * a * a * 2 * 1.5**2, rel=1e-10)
    np.testing.assert_allclose(found.w, [a * 1.5, -a * 1.5], rtol=1e-5)


@pytest.mark.parametrize("maker", [multiclass_case, chain_case])
def test_dense_qp_agrees_with_a_primal_solver_of_scipy(generator, maker):
    case = maker(generator, n=3, n_classes=2, n_features=2, costs=True, C=0.7)
    blocks, dimension = case.blocks, case.truth.size_joint_feature
    constraints = [
        {
            "type": "ineq",
            "fun": lambda v, i=i, b=b: v[dimension + i] - b.offsets - b.vectors @ v[:dimension],
        }
        for i, b in enumerate(blocks)
    ]
    start = np.concatenate([np.zeros(dimension), [b.offsets.max() for b in blocks]])
    judged = minimize(
        lambda v: 0.5 * v[:dimension] @ v[:dimension] + case.C * v[dimension:].sum(),
        start,
        constraints=constraints,
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert judged.fun == pytest.approx(case.optimum.value, rel=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_dense_qp_proves_its_own_optimum(seed, name):
    case = make_case(name, seed)
    found = case.optimum
    budgets = case.budgets
    assert found.primal == primal_objective(case.blocks, budgets, found.w)
    assert found.dual == pytest.approx(dual_objective(case.blocks, found.multipliers), rel=1e-13)
    assert 0 <= found.primal - found.dual + 1e-12 * found.primal <= 1e-10 * found.primal
    for a, c in zip(found.multipliers, budgets, strict=True):
        assert (a >= 0).all()
        assert a.sum() == pytest.approx(c, rel=1e-12)
    np.testing.assert_allclose(weights_of(case.blocks, found.multipliers), found.w, atol=1e-12)


def test_dense_qp_refuses_an_answer_it_cannot_prove(generator):
    case = multiclass_case(generator)
    with pytest.raises(RuntimeError, match="relative gap"):
        solve(case.blocks, case.C, max_iterations=2)


@pytest.mark.parametrize("weight", [0.0, 2.0])
def test_dense_qp_weights_are_copies(generator, weight):
    case = multiclass_case(generator, n=6, costs=True)
    weights = np.ones(6)
    weights[2] = weight
    copies = [i for i in range(6) for _ in range(int(weights[i]))]
    repeated = solve([case.blocks[i] for i in copies], case.C)
    weighted = solve(case.blocks, case.C, weights)
    assert weighted.value == pytest.approx(repeated.value, rel=1e-9)
    np.testing.assert_allclose(weighted.w, repeated.w, atol=1e-4)


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("name", ["multiclass-cost-csr-weights", "chain-1to4-csr-ends"])
def test_twins_reach_the_optimum(seed, twin, name):
    case = make_case(name, seed)
    problem = twins.EnumeratedBlocks(case.truth, case.X, case.Y, case.C, case.sample_weight)
    tol = 1e-7 * case.optimum.value / case.budgets.sum()
    trace = TWINS[twin](problem, tol=tol, max_passes=3000)
    assert trace.converged
    assert trace.dual[-1] <= case.optimum.primal * (1 + 1e-12)
    assert trace.primal[-1] >= case.optimum.dual * (1 - 1e-12)
    assert trace.primal[-1] == pytest.approx(case.optimum.value, rel=2e-7)
    assert trace.dual[-1] == pytest.approx(case.optimum.value, rel=2e-7)
    if twin != "proximal":
        assert np.diff(trace.dual).min(initial=0.0) >= -1e-12 * case.optimum.value


def test_frank_wolfe_twin_rises_towards_the_optimum_and_stays_below(seed):
    case = make_case("multiclass-cost-dense", seed)
    problem = twins.EnumeratedBlocks(case.truth, case.X, case.Y, case.C)
    trace = twins.bcfw(problem, tol=0.0, max_passes=100)
    assert np.diff(trace.dual).min() >= -1e-12
    assert trace.dual[-1] <= case.optimum.primal * (1 + 1e-12) <= trace.primal[-1] * (1 + 2e-12)
    assert trace.dual[-1] >= 0.95 * case.optimum.value
    assert trace.oracle_calls[-1] == 100 * len(case.Y)


def test_twins_run_a_user_model(generator):
    case = chain_case(generator, mean=True, start=True)
    model = PythonChain(3, mean=True, start=True)
    problem = twins.ModelBlocks(model, case.X, case.Y, case.C)
    trace = twins.sda(problem, tol=1e-8, max_passes=3000)
    assert trace.converged
    assert trace.primal[-1] == pytest.approx(case.optimum.value, rel=1e-6)


def test_wss2_gain_is_the_increase_of_the_dual(generator):
    # The corrected equation (9) of the gain, for clipped and unclipped steps.
    problem = twins.EnumeratedBlocks(
        (case := multiclass_case(generator, costs=True)).truth, case.X, case.Y, case.C
    )
    state = twins.State(problem)
    clipped = 0
    for _ in range(3):
        for i in range(len(case.Y)):
            u, _ = twins.violator(state, i)
            v = twins.choose_wss2(state, i, u)
            if v is None:
                continue
            gain, before = twins.wss2_gain(state, i, u, v), state.dual()
            twins.pair_step(state, i, u, twins.choose_wss2)
            clipped += state.alpha[i][v] == 0.0
            assert state.dual() - before == pytest.approx(gain, rel=1e-7, abs=1e-12)
    assert clipped > 0


def test_proximal_gap_formula_is_the_gap_of_the_original_problem(seed):
    case = chain_case(fresh(seed, 99), costs=True)
    problem = twins.EnumeratedBlocks(case.truth, case.X, case.Y, case.C)
    run = twins_batch.ProximalRun(problem, 0.0, np.random.default_rng(seed))
    for _ in range(4):
        run.oracle_pass()
        state = run.state
        direct = state.primal(state.w) - state.dual()
        assert sum(run.gap_terms()) == pytest.approx(direct, rel=1e-9)
        run.move_centre(weaken=True)
