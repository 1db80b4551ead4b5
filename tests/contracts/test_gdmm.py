"""The greedy direction method of multipliers: its searches, steps, feasible points and optimum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import maxmargin as mm
from helpers import assert_truthful, built_in, fit, loss_units, refusal
from maxmargin import models, solvers
from maxmargin.data.synthetic import random_chains
from maxmargin.solvers.gdmm_chain import DIRECTIONS
from reference.cases import chain_case, fresh
from reference.problems import CASES, make_case
from reference.strategies import SEED
from reference.twins_gdmm import GdmmTwin

CHAINS = [name for name in CASES if name.startswith("chain") and "illegal" not in name]
VARIANTS = {
    "default": solvers.Gdmm(),
    "exhaustive": solvers.Gdmm(search="exhaustive"),
    "away": solvers.Gdmm(direction="away"),
    "frank-wolfe": solvers.Gdmm(direction="frank-wolfe"),
    "partitions": solvers.Gdmm(partitions=2),
    "cautious": solvers.Gdmm(rho=2.0, eta=0.5, inner=1),
    "as in the paper": solvers.Gdmm(rho=1.0, sweeps=0, proximity=0),
    "stiff": solvers.Gdmm(proximity=10),
    "away in sweeps": solvers.Gdmm(direction="away", sweeps=20),
}


def problem_of(case):
    model = built_in(case)
    model.initialize(case.X, case.Y)
    return mm.Problem(model.bind(case.X, case.Y), case.C, case.sample_weight)


@pytest.mark.parametrize("name", CHAINS)
def test_optimum_is_that_of_the_dense_program(seed, name):
    case = make_case(name, seed)
    svm = fit(case, "gdmm", relative=5e-5, max_passes=20_000)
    assert svm.certificate_.converged
    assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-4)
    assert svm.certificate_.dual == pytest.approx(case.optimum.value, rel=1e-4)
    assert_truthful(case, svm)
    other = fit(case, solvers.BCFW(pairwise=True), relative=5e-5)
    assert svm.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_reach_the_optimum(seed, variant):
    case = make_case("chain-1to4-csr-ends", seed)
    svm = fit(case, VARIANTS[variant], relative=1e-3, max_passes=20_000)
    assert svm.certificate_.converged
    assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-3)


@pytest.mark.parametrize(
    ("direction", "sweeps", "k"),
    [
        ("pairwise", 0, 0.0),
        ("away", 0, 0.0),
        ("frank-wolfe", 0, 0.0),
        ("pairwise", 3, 0.0),
        ("pairwise", 0, 0.6),
        ("pairwise", 5, 0.6),
        ("away", 2, 0.6),
    ],
)
@pytest.mark.parametrize(
    "options",
    [
        {"lengths": (1, 3, 2), "costs": True, "start": True, "end": True},
        {"lengths": (3, 2), "costs": True, "mean": True, "weighted": True, "C": 3.0},
    ],
)
def test_steps_are_those_of_the_twin(seed, options, direction, sweeps, k):
    if sweeps > 0:  # a position without neighbours would make sweeps start at a tie
        options = options | {"lengths": (3, 2)}
    case = chain_case(fresh(seed, 21), n=5, **options)
    problem = problem_of(case)
    # an exact step makes two scores tie, so a second step would be ambiguous
    rho, eta, inner = 0.7, 0.8, 1
    twin = GdmmTwin(case, rho, eta, inner, direction, sweeps)
    number = DIRECTIONS.index(direction)
    state = solvers.Gdmm().start(problem, 1e-3, fresh(seed))
    twin.origin = 0.1 * fresh(seed, 22).normal(size=problem.dimension)  # so that no two labels tie
    state.core.set_origin(twin.origin)
    for _ in range(4):
        if k > 0:
            twin.recenter(0.4, k)
            state.core.recenter(0.4, k)
        twin.step(problem.active)
        state.core.greedy_pass(problem.active, rho, inner, 1, True, number, 1, sweeps, eta)
        state.core.update_multipliers(eta)
        np.testing.assert_allclose(state.core.weights(), twin.weights(), atol=2e-5)


def drawn_messages(draw, K, generator):
    size = draw(st.integers(0, min(K, 4)))
    labels = generator.choice(K, size=size, replace=False).astype(np.int32)
    return labels, generator.normal(size=size) * draw(st.sampled_from([0.1, 1.0, 5.0]))


@given(data=st.data())
def test_best_pair_is_that_of_all_pairs(data):
    generator = fresh(SEED, data.draw(st.integers(0, 10**6)))
    K = data.draw(st.sampled_from([2, 3, 7, 30]))
    X, Y = [np.ones((2, 1))], [np.arange(2)]
    model = models.Chain(classes=range(K))
    model.initialize(X, Y)
    state = solvers.Gdmm().start(mm.Problem(model.bind(X, Y)), 1e-3, generator).core
    if data.draw(st.booleans()):  # else it compares all pairs of few labels, with vectors
        state.order_pairs()
    for _ in range(10):
        w = generator.normal(size=model.size_joint_feature)
        A = model.unpack(w)["transitions"]  # a view of w
        A[generator.uniform(size=A.shape) < data.draw(st.sampled_from([0.0, 0.5, 0.97]))] = 0.0
        # positive and negative, or only negative
        A -= data.draw(st.sampled_from([0.0, 3.0])) * (A != 0)
        (left, m), (right, n) = (drawn_messages(data.draw, K, generator) for _ in range(2))
        table, rho = A.copy(), 0.5
        table[left] -= rho * m[:, None]
        table[:, right] -= rho * n
        for exhaustive in (False, True):
            score, y, z = state.best_pair(w, left, m, right, n, rho, exhaustive)
            assert score == pytest.approx(table.max(), abs=1e-12)
            assert table[y, z] == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize("K", [20, 80])  # the search by vectors; the sorted search
def test_searches_find_what_a_look_at_all_pairs_finds(seed, K):
    generator = fresh(seed, 23)
    X = [generator.normal(size=(5, 4)) for _ in range(15)]
    Y = [generator.integers(K, size=5) for _ in X]
    model = models.Chain(classes=range(K))
    model.initialize(X, Y)
    problem = mm.Problem(model.bind(X, Y), 0.3)
    solver = solvers.Gdmm()
    state = solver.start(problem, 1e-3, generator)
    for _ in range(8):
        solver.step(problem, state)
        ordered, every = (state.core.seek(problem.active, state.rho, way) for way in (False, True))
        assert ordered == pytest.approx(every, abs=1e-9)


@pytest.mark.parametrize("name", ["chain-1to4-dense", "chain-mean-weights"])
def test_every_feasible_point_is_below_the_optimum(seed, name):
    case = make_case(name, seed)
    problem = problem_of(case)
    solver = solvers.Gdmm(rho=0.3)
    state = solver.start(problem, 1e-6, fresh(seed))
    for _ in range(12):
        solver.step(problem, state)
        w, support = solver.solution(problem, state)
        # dual_objective raises if multipliers are negative or do not sum to the mass.
        assert problem.dual_objective(support) <= case.optimum.value * (1 + 1e-9)
        assert problem.objective(w) >= case.optimum.value * (1 - 1e-9)
        assert state.dual <= case.optimum.value * (1 + 1e-9)


def test_sweeps_do_not_come_to_rest_far_from_the_optimum(seed):
    """Regression: with full steps of the multipliers between sweeps the gap stalled at ten times tol."""
    generator, K, symbols = fresh(seed, 24), 200, 12
    after, shown = generator.permutation(K), generator.integers(0, symbols, K)
    X, Y = [], []
    for _ in range(60):
        y = [int(generator.integers(K))]
        for _ in range(int(generator.integers(3, 12))):
            y.append(int(after[y[-1]] if generator.random() < 0.5 else generator.integers(K)))
        X.append(np.eye(symbols)[shown[y]])
        Y.append(y)
    svm = mm.StructuralSVM(models.Chain(classes=range(K)), solver="gdmm", tol=0.01, max_passes=350)
    assert svm.fit(X, Y).certificate_.converged


def test_marginals_that_agree_are_split_without_a_change(seed):
    case = make_case("chain-1to4-dense", seed)
    problem = problem_of(case)
    known = fit(case, "sda", relative=1e-6).support_
    state = solvers.Gdmm().start(problem, 1e-3, fresh(seed), known)
    _, again = state.solution(problem)
    for support in (known, again):
        problem.check_feasible(support)
    vectors = [problem.examples.combine(s.blocks, s.multipliers, s.outputs) for s in (known, again)]
    assert vectors[0][0] == pytest.approx(vectors[1][0], rel=1e-9)
    np.testing.assert_allclose(vectors[0][1], vectors[1][1], atol=1e-9)
    np.testing.assert_allclose(state.core.weights(), -vectors[0][1], atol=1e-9)


def test_warm_start_certify_and_files(tmp_path):
    X, Y = random_chains(30, random_state=0)
    svm = mm.StructuralSVM(
        models.Chain(), C=0.1, solver="gdmm", tol=0.005, random_state=0, warm_start=True
    ).fit(X, Y)
    assert svm.certificate_.converged and svm.solver_ == "gdmm"
    assert mm.certify(svm, X, Y).gap == pytest.approx(svm.certificate_.gap, abs=1e-9)
    first = svm.certificate_.oracle_calls
    svm.fit(X, Y)
    assert svm.certificate_.converged and svm.certificate_.oracle_calls <= first / 2
    svm.save(tmp_path / "model")
    assert mm.load(tmp_path / "model").predict(X[:1])[0].tolist() == svm.predict(X[:1])[0].tolist()


def test_many_labels(generator):
    K = 300
    X = [np.eye(30)[generator.integers(30, size=3)] for _ in range(60)]
    Y = [generator.integers(K, size=3) for _ in X]
    settings = {"C": 0.2, "tol": 0.05, "random_state": 0}
    one, other = (
        mm.StructuralSVM(models.Chain(classes=range(K)), solver=solver, **settings).fit(X, Y)
        for solver in ("gdmm", "proximal")
    )
    assert one.certificate_.dual <= other.certificate_.primal
    assert other.certificate_.dual <= one.certificate_.primal


def test_what_it_cannot_solve_is_refused(generator):
    X, Y = random_chains(5, random_state=0)
    flat = (generator.normal(size=(6, 2)), [0, 1, 0, 1, 0, 1])
    with refusal("gdmm", "Chain"):
        mm.StructuralSVM(models.Multiclass(), solver="gdmm").fit(*flat)
    with refusal("gdmm", "kernel"):
        mm.StructuralSVM(models.Kernel(models.Chain()), solver="gdmm").fit(X, Y)
    with refusal("gdmm", "slack"):
        mm.StructuralSVM(models.Chain(), solver="gdmm", rescaling="slack").fit(X, Y)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rho", 0),
        ("rho", np.inf),
        ("eta", 1.5),
        ("eta", -1),
        ("inner", 0),
        ("partitions", 0.5),
        ("sweeps", -1),
        ("proximity", -0.5),
        ("search", "quick"),
    ],
)
def test_bad_options_are_refused(name, value):
    with refusal("Gdmm", name, str(value)):
        solvers.Gdmm(**{name: value})


def test_tolerance_of_a_loose_fit_is_kept(seed):
    case = make_case("chain-1to4-dense", seed)
    svm = fit(case, "gdmm", relative=0.05, max_passes=5000)
    assert svm.certificate_.gap <= loss_units(case, 0.05)
