"""Chains with many labels: the argmax over stored transitions equals the full one, for every solver."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import maxmargin as mm
from helpers import assert_optimal, assert_truthful, fit, quietly
from maxmargin import losses, models, solvers
from maxmargin.models import chain as chain_module
from maxmargin.problem import Problem
from maxmargin.solvers.dual_state import open_state
from reference.cases import chain_case, fresh
from reference.enumerate import ChainTruth
from reference.primal_qp import solve_primal
from reference.strategies import SEED

# thresholds on the number of labels for the search over stored transitions
ALWAYS, NEVER = 1, 10**9


@pytest.fixture
def many(monkeypatch):
    """Make every chain use the code for many labels."""
    monkeypatch.setattr(chain_module, "MANY_LABELS", ALWAYS)


def weights_of(draw, model, generator):
    """Draw random weights: transitions mostly zero, some ties, unary scores large or small."""
    w = generator.normal(size=model.size_joint_feature)
    parts = model.unpack(w)  # views of w
    parts["transitions"] *= draw(st.sampled_from([0.1, 1.0, 4.0]))
    share = draw(st.sampled_from([0.0, 0.3, 0.9, 0.98, 1.0]))
    parts["transitions"][generator.uniform(size=parts["transitions"].shape) < share] = 0.0
    parts["unary"] *= draw(st.sampled_from([0.0, 0.1, 1.0]))
    return np.round(w) if draw(st.booleans()) else w


def random_model(draw, K, generator):
    cost = draw(st.sampled_from(["count", "mean", "label", "matrix"]))
    loss = losses.Hamming(mean=cost == "mean")
    if cost == "label":
        loss = losses.Hamming(costs=generator.uniform(0.3, 2.0, K))
    if cost == "matrix":
        table = generator.uniform(0.3, 2.0, (K, K))
        np.fill_diagonal(table, 0.0)
        loss = losses.Hamming(costs=table)
    ends = {"start": draw(st.booleans()), "end": draw(st.booleans())}
    return models.Chain(loss, draw(st.sampled_from([None, 1.0])), classes=range(K), **ends)


def bound(model, X, Y, threshold, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(chain_module, "MANY_LABELS", threshold)
        return model.bind(X, Y)


@given(data=st.data())
def test_argmax_of_many_labels_is_the_full_one(data, monkeypatch):
    generator = fresh(SEED, data.draw(st.integers(0, 10**6)))
    # Few labels; enough labels to form groups; sequences long enough to raise bounds on the way.
    for labels, longest, repeats in ((40, 9, 5), (600, 9, 1), (20, 400, 1)):
        assert_same_argmax(data.draw, generator, (labels, longest), repeats, monkeypatch)


def assert_same_argmax(draw, generator, sizes, repeats, monkeypatch):
    labels, longest = sizes
    for _ in range(repeats):
        K, d = int(generator.integers(2, labels)), int(generator.integers(1, 5))
        model = random_model(draw, K, generator)
        X = [generator.normal(size=(int(generator.integers(1, longest)), d)) for _ in range(4)]
        Y = [generator.integers(K, size=len(x)) for x in X]
        model.initialize(X, Y)
        w = weights_of(draw, model, generator)
        full, large = (bound(model, X, Y, limit, monkeypatch) for limit in (NEVER, ALWAYS))
        assert large.core.many and not full.core.many
        slacks, outputs = large.worst(w)
        np.testing.assert_allclose(slacks, full.slacks(w)[0], rtol=1e-12, atol=1e-10)
        offsets, vectors = large.combine(np.arange(4), np.ones(4), outputs)
        assert offsets + w @ vectors == pytest.approx(slacks.sum(), abs=1e-9)
        for x, y, z in zip(X, large.predict(w, 2), full.predict(w, 1), strict=True):
            best = w @ model.joint_feature(x, z)
            assert w @ model.joint_feature(x, y) == pytest.approx(best, abs=1e-10)


@given(data=st.data())
def test_argmax_of_many_labels_is_that_of_all_outputs(data, monkeypatch):
    generator = fresh(SEED, data.draw(st.integers(0, 10**6)))
    K, d = data.draw(st.integers(2, 5)), 2
    options = {"start": data.draw(st.booleans()), "end": data.draw(st.booleans())}
    model = models.Chain(classes=range(K), **options)
    X = [generator.normal(size=(length, d)) for length in (1, 2, 4)]
    Y = [generator.integers(K, size=len(x)) for x in X]
    model.initialize(X, Y)
    truth = ChainTruth(range(K), d, **options)
    w = weights_of(data.draw, model, generator)
    slacks = bound(model, X, Y, ALWAYS, monkeypatch).slacks(w)[0]
    for x, y, slack in zip(X, Y, slacks, strict=True):
        own = w @ truth.joint_feature(x, y)
        scores = [
            sum(a != b for a, b in zip(u, y, strict=True)) + w @ truth.joint_feature(x, u) - own
            for u in truth.outputs(x)
        ]
        assert slack == pytest.approx(max(scores), abs=1e-10)


def sparse_problem(generator, K=60, n=25, long=6, C=0.5):
    """Return a problem whose labels follow each other by a rule; a one-hot input allows three labels."""
    X, Y = [], []
    for _ in range(n):
        length = int(generator.integers(1, long))
        y = (int(generator.integers(K)) + 7 * np.arange(length)) % K
        X.append(np.eye(K // 3)[y % (K // 3)])
        Y.append(y)
    model = models.Chain(classes=range(K))
    model.initialize(X, Y)
    return Problem(model.bind(X, Y), C=C)


@pytest.mark.parametrize("single", [False, True])
def test_index_of_a_state_follows_its_updates(many, generator, single):
    problem = sparse_problem(generator)
    state = open_state(problem, 1e-3, generator, single)
    for turn in range(6):
        state.visit(generator.permutation(problem.active), tolerance=0.0)
        state.visit(problem.active, oracle=False, tolerance=0.0)
        if turn % 2:
            state.core.recenter(0.4, 2.0 / turn)
        seen = state.visit(problem.active, update=False, slacks=True).slacks
        exact = problem.slacks(state.core.weights(False))
        np.testing.assert_allclose(seen, exact, atol=1e-4 if single else 1e-9)


@pytest.mark.parametrize("long", [4, 60])  # short and long moves
def test_gain_of_a_pass_is_the_rise_of_the_dual(many, generator, long):
    problem = sparse_problem(generator, n=8, long=long)
    state = open_state(problem, 1e-3, generator)
    for rule in ("wss2", "frank-wolfe"):
        for _ in range(3):
            before = state.dual()
            report = state.visit(problem.active, rule=rule, tolerance=0.0)
            assert state.dual() - before == pytest.approx(report.gain, rel=1e-6, abs=1e-9)
    support = state.support()
    assert problem.dual_objective(support) == pytest.approx(state.dual(), rel=1e-9)


SOLVERS = {
    "proximal": lambda: "proximal",
    "sda": lambda: "sda",
    "bcfw-pairwise": lambda: solvers.BCFW(pairwise=True),
    "fasole": lambda: "fasole",
    "one-slack": lambda: "one-slack",
}
CASES = {
    "ends": {"n_classes": 3, "lengths": (1, 2, 3), "start": True, "end": True, "bias": 1.0},
    "costs-csr": {"n_classes": 4, "lengths": (3, 2), "costs": True, "layout": "csr"},
    "mean-weights": {"n_classes": 3, "lengths": (3, 1), "mean": True, "weighted": True, "C": 4.0},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers_reach_the_optimum_with_many_labels(many, seed, solver, case):
    problem = chain_case(fresh(seed, 77), **CASES[case])
    svm = fit(problem, SOLVERS[solver](), relative=1e-7)
    assert_optimal(problem, svm)
    assert_truthful(problem, svm)


@pytest.mark.parametrize("prior", [False, True])
def test_subgradient_is_truthful_with_many_labels(many, seed, prior):
    case = chain_case(fresh(seed, 78))
    size = case.truth.size_joint_feature
    settings = {"prior": (np.full(size, 0.1), 1.0)} if prior else {}
    svm = quietly(lambda: fit(case, "subgradient", relative=1e-13, max_passes=300, **settings))
    if not prior:
        assert_truthful(case, svm)
    assert mm.certify(svm, case.X, case.Y).gap == pytest.approx(svm.certificate_.gap, abs=1e-9)
    assert svm.certificate_.gap < 0.5


def test_bounds_on_transitions_with_many_labels(many, seed):
    """Clipping changes weights that no step has touched, so the index of stored transitions must follow."""
    case = chain_case(fresh(seed, 81), n_classes=3, lengths=(3, 2, 4), C=2.0)
    d = case.truth.size_joint_feature
    bound = np.arange(d) >= d - 9
    value, _ = solve_primal(case.blocks, case.budgets, np.zeros(d), np.eye(d), bound)
    for solver in ("proximal", "sda"):
        svm = fit(case, solver, relative=1e-7, nonnegative=bound)
        assert svm.model_.bind(case.X, case.Y).core.many and (svm.coef_[bound] == 0).any()
        assert svm.certificate_.primal == pytest.approx(value, rel=1e-6)
        assert svm.certificate_.dual == pytest.approx(value, rel=1e-6)


def test_many_labels_are_noticed_and_keep_no_table_of_costs(generator, tmp_path):
    K = 300
    X = [np.eye(5)[generator.integers(5, size=4)] for _ in range(80)]
    Y = [generator.integers(K, size=4) for _ in X]
    model = models.Chain(classes=range(K))
    svm = quietly(lambda: mm.StructuralSVM(model, C=0.1, tol=0.05, random_state=0).fit(X, Y))
    assert svm.model_.bind(X, Y).core.many
    assert svm.model_.cost_.shape == (K,)
    assert svm.certificate_.converged
    svm.save(tmp_path / "model")
    again = mm.load(tmp_path / "model")
    for y, z in zip(svm.predict(X), again.predict(X), strict=True):
        np.testing.assert_array_equal(y, z)
    few = models.Chain(classes=range(chain_module.MANY_LABELS))
    few.initialize(X, [y % 200 for y in Y])
    assert not few.bind(X).core.many


def test_best_k_and_slack_rescaling_of_many_labels(many, seed):
    case = chain_case(fresh(seed, 79), n_classes=3, lengths=(2, 3))
    svm = fit(case, relative=1e-4)
    found = svm.model_.inference_k_best(case.X[0], svm.coef_, 3)
    scores = [
        svm.coef_ @ case.truth.joint_feature(case.X[0], u) for u in case.truth.outputs(case.X[0])
    ]
    np.testing.assert_allclose([score for _, score in found], np.sort(scores)[::-1][:3])
    rescaled = case.replace(rescaling="slack")
    assert_optimal(rescaled, fit(rescaled, "sda", relative=1e-6), relative=1e-5)


def trained_ahead(problem, solver, batch, passes):
    """Return w and the gap after some passes; searches are at most `batch` examples ahead of the updates."""
    state = solver.start(problem, 1e-6, np.random.default_rng(0))
    held = state if hasattr(state, "core") else state.dual
    held.core.ahead = batch
    for _ in range(passes):
        solver.step(problem, state)
    w, support = solver.solution(problem, state)
    bounds = problem.certify(w, support)
    return w, (bounds.primal - bounds.dual) / problem.total


@pytest.mark.parametrize("solver", [solvers.SDA(), solvers.BCFW(), solvers.Proximal()])
def test_threads_seek_ahead_and_agree(many, solver):
    """Two and three threads give the same weights; every number of threads brings the gap down."""
    generator = fresh(SEED, 5)
    X = [generator.normal(size=(int(generator.integers(1, 4)), 2)) for _ in range(200)]
    Y = [generator.integers(4, size=len(x)) for x in X]
    model = models.Chain(start=True)
    model.initialize(X, Y)
    found = {}
    for jobs, batch in ((2, 7), (3, 7), (1, 7), (2, 0)):
        problem = Problem(model.bind(X, Y), C=0.3, n_jobs=jobs)
        found[jobs, batch], gap = trained_ahead(problem, solver, batch, 40)
        assert 0 <= gap < 0.05
    np.testing.assert_array_equal(found[2, 7], found[3, 7])
    assert not np.array_equal(found[2, 7], found[1, 7])  # else no search ran ahead
    np.testing.assert_array_equal(found[1, 7], found[2, 0])  # one thread does so little work alone


def test_much_work_is_sought_ahead():
    """With many labels and examples, searches run ahead as soon as there are two threads."""
    generator = fresh(SEED, 6)
    X = [generator.normal(size=(8, 2)) for _ in range(6000)]
    Y = [generator.integers(1100, size=8) for _ in X]
    model = models.Chain(classes=range(1100))
    model.initialize(X, Y)
    weights = []
    for jobs in (1, 2, 3):
        problem = Problem(model.bind(X, Y), C=1e-4, n_jobs=jobs)
        weights.append(trained_ahead(problem, solvers.SDA(), 0, 1)[0])
    np.testing.assert_array_equal(weights[1], weights[2])
    assert not np.array_equal(weights[0], weights[1])
