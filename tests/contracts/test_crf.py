"""The log loss against the enumeration of all outputs: sums, gradients, duals, optima."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import helpers
import maxmargin as mm
from helpers import built_in, prepared, quietly, refusal
from maxmargin import models, solvers
from maxmargin.models.examples import Examples
from maxmargin.problem import Formulation, Problem, Support
from maxmargin.problem.regularizer import Prior
from reference import soft
from reference.cases import (
    chain_case,
    edge_chain_case,
    fresh,
    graph_case,
    multiclass_case,
)
from reference.soft_cases import ASCENT, CASES, ILLEGAL, fitted

SOFT = ("log", "softmax-margin")
EVERY = [("lbfgs", name) for name in CASES] + [("exponentiated", name) for name in ASCENT]


@pytest.fixture(params=CASES)
def case(request, generator):
    return CASES[request.param](generator)


def bound(case, formulation="log") -> Examples:
    """The examples of a case in a soft formulation."""
    return prepared(case).bind(case.X, case.Y).under(Formulation(formulation))


def assert_truthful(case, crf):
    """Check the certificate by definition, and that the optimum lies between its bounds."""
    found, kind = crf.certificate_, crf.formulation
    assert found.exact
    assert found.primal == pytest.approx(
        soft.primal(case.blocks, case.budgets, crf.coef_, kind), rel=1e-9
    )
    _, best = soft.optimum(case.blocks, case.budgets, kind)
    assert found.dual <= best * (1 + 1e-9)
    assert found.primal >= best * (1 - 1e-9)
    gap = (found.primal - found.dual) / case.budgets.sum()
    assert found.gap == pytest.approx(max(gap, 0.0), rel=1e-8, abs=1e-14)
    again = mm.certify(crf, case.X, case.Y, sample_weight=case.sample_weight)
    assert again.dual == pytest.approx(found.dual, rel=1e-9)


@pytest.mark.parametrize("formulation", SOFT)
def test_sums_and_gradients_are_those_of_the_enumeration(case, generator, formulation):
    examples = bound(case, formulation)
    for size in (0.0, 1.0, 30.0):
        w = size * generator.normal(size=examples.dimension)
        sums = soft.log_sums(case.blocks, w, formulation)
        assert examples.slacks(w)[0] == pytest.approx(sums, rel=1e-10, abs=1e-10)
        risk, gradient = examples.tilt(w, case.budgets)
        assert risk == pytest.approx(case.budgets @ sums, rel=1e-10, abs=1e-10)
        truth = soft.risk_gradient(case.blocks, case.budgets, w, formulation)
        assert gradient == pytest.approx(truth, rel=1e-8, abs=1e-9 * (1 + np.abs(truth).max()))


@pytest.mark.parametrize("formulation", SOFT)
def test_distributions_by_potentials_are_those_at_weights(request, case, generator, formulation):
    """Potentials give the same distributions as weights; a file may store potentials for any model."""
    examples = bound(case, formulation)
    w = generator.normal(size=examples.dimension)
    augmented = float(formulation == "softmax-margin")
    potentials = examples.answers.list_potentials(w, 1, augmented)
    assert potentials.dtype == np.float32
    if not np.isfinite(potentials).all():  # illegal neighbours together with edge features
        assert any(name in request.node.name for name in ("edges-rules", "second-order-edges"))
        return
    if augmented and "grammar" in request.node.name:
        with pytest.raises(RuntimeError, match="expected loss"):
            examples.mixture(case.budgets, potentials, 1)
        return
    offset, vector = examples.mixture(case.budgets, potentials, 1)
    expected, direction = examples.mixture(case.budgets, w, 1)
    assert offset == pytest.approx(expected, rel=1e-4, abs=1e-4)
    assert vector == pytest.approx(direction, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("formulation", SOFT)
def test_the_dual_of_the_distributions_at_weights(case, generator, formulation):
    problem = Problem(bound(case, formulation), case.C, case.sample_weight)
    w = generator.normal(size=problem.dimension)
    cut = problem.cut(w)
    p = soft.distributions(case.blocks, w, formulation)
    value = cut.offset - problem.regularizer.conjugate(-cut.vector)
    assert value == pytest.approx(soft.dual(case.blocks, case.budgets, p, formulation), rel=1e-9)
    # The gap at a = p_w is half of the squared gradient.
    gradient = w + cut.vector
    assert problem.objective(w) - value == pytest.approx(0.5 * gradient @ gradient, rel=1e-9)


@pytest.mark.parametrize("formulation", SOFT)
@pytest.mark.parametrize("mean", [False, True])
def test_distributions_bound_the_objective_of_zero_from_below(case, generator, formulation, mean):
    examples = bound(case, formulation)
    w = generator.normal(size=examples.dimension)
    prior = Prior(mean=generator.normal(size=w.size)) if mean else None
    problem = Problem(examples, case.C, case.sample_weight, regularizer=prior)
    support = Support(np.arange(problem.n_blocks), problem.mass, w, kind="distributions")
    assert problem.floor_at_zero(support) <= problem.at_zero() * (1 + 1e-12)


@pytest.mark.parametrize("solver", [solvers.Exponentiated(), solvers.Exponentiated(proximity=0.1)])
def test_long_features_and_wrong_labels_do_not_keep_blocks_where_they_are(seed, solver):
    """Blocks still progress with steps far below the usual minimum, and with a k that starts too small."""
    g, K = fresh(seed, 40), 4
    y = g.integers(0, K, 300)
    X = 2 * np.abs(g.normal(size=(300, 20)) + 0.6 * g.normal(size=(K, 20))[y])
    y = np.where(g.random(300) < 0.1, g.integers(0, K, 300), y)
    crf = mm.CRF(models.Multiclass(), C=30.0, solver=solver, max_passes=600, random_state=seed)
    found, other = crf.fit(X, y).certificate_, mm.CRF(models.Multiclass(), C=30.0, solver="lbfgs")
    best = other.set_params(tol=1e-7).fit(X, y).certificate_
    assert found.converged
    assert found.dual <= best.primal
    assert best.dual <= found.primal


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_add_up_to_the_same(generator, threads):
    case = chain_case(generator, n=7, start=True)
    examples = bound(case)
    w = generator.normal(size=examples.dimension)
    one, several = examples.tilt(w, case.budgets, 1), examples.tilt(w, case.budgets, threads)
    assert one[0] == pytest.approx(several[0], rel=1e-12)
    assert one[1] == pytest.approx(several[1], rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("name", ASCENT)
def test_one_thread_gives_the_same_bits_and_several_the_same_optimum(generator, name):
    case = CASES[name](generator)
    one, again, several = (
        fitted(case, solver="exponentiated", n_jobs=n_jobs) for n_jobs in (1, 1, 3)
    )
    assert (one.coef_ == again.coef_).all()
    assert one.certificate_.dual == again.certificate_.dual
    assert several.coef_ == pytest.approx(one.coef_, abs=1e-3)
    assert_truthful(case, several)
    warm = mm.CRF(built_in(case), C=2 * case.C, n_jobs=3, warm_start=True, solver="exponentiated")
    warm.fit(case.X, case.Y, case.sample_weight)
    warm.set_params(C=case.C).fit(case.X, case.Y, case.sample_weight)
    assert warm.certificate_.primal >= one.certificate_.dual


def test_numbers_far_apart_are_summed_in_logarithms():
    X = [np.array([[1.0], [2.0], [-1.0], [3.0]])]
    model = models.Chain(classes=[0, 1, 2], start=True)
    model.initialize(X, [[0, 1, 2, 0]])
    examples = model.bind(X, [[0, 1, 2, 0]]).under(Formulation("log"))
    w = 900.0 * np.random.default_rng(3).normal(size=examples.dimension)
    scores = np.array([w @ model.joint_feature(X[0], y) for y in product(range(3), repeat=4)])
    own = w @ model.joint_feature(X[0], [0, 1, 2, 0])
    assert examples.slacks(w)[0][0] == pytest.approx(np.logaddexp.reduce(scores) - own, rel=1e-12)
    _, gradient = examples.tilt(w, np.ones(1))
    p = np.exp(scores - np.logaddexp.reduce(scores))
    rows = [model.joint_feature(X[0], y) for y in product(range(3), repeat=4)]
    truth = p @ np.array(rows) - model.joint_feature(X[0], [0, 1, 2, 0])
    assert gradient == pytest.approx(truth, abs=1e-9)


@pytest.mark.parametrize("formulation", SOFT)
@pytest.mark.parametrize(("solver", "name"), EVERY)
def test_the_optimum_is_found_and_certified(generator, name, solver, formulation):
    case = CASES[name](generator)
    crf = fitted(case, solver=solver, formulation=formulation)
    assert crf.certificate_.converged
    assert_truthful(case, crf)
    _, best = soft.optimum(case.blocks, case.budgets, formulation)
    assert crf.certificate_.primal == pytest.approx(best, rel=1e-6)
    assert crf.certificate_.dual == pytest.approx(best, rel=1e-6)


def test_every_solver_of_the_log_loss_is_walked_here():
    assert {solver for solver, _ in EVERY} | {"sgd"} == set(helpers.SOFT)


@pytest.mark.parametrize("formulation", SOFT)
@pytest.mark.parametrize("name", ASCENT)
def test_stochastic_gradient_is_truthful_and_goes_as_far_as_its_rate_allows(
    generator, name, formulation
):
    case = CASES[name](generator)
    crf = quietly(
        lambda: fitted(case, solver="sgd", formulation=formulation, tol=1e-3, max_passes=300)
    )
    assert_truthful(case, crf)
    _, best = soft.optimum(case.blocks, case.budgets, formulation)
    zero = soft.primal(case.blocks, case.budgets, np.zeros_like(crf.coef_), formulation)
    assert crf.certificate_.primal - best <= 0.05 * (zero - best)


@settings(max_examples=30)
@given(
    salt=st.integers(0, 10**6),
    walk=st.sampled_from(EVERY),
    C=st.sampled_from([1e-3, 0.1, 1.0, 100.0]),
    formulation=st.sampled_from(SOFT),
    passes=st.sampled_from([1, 3, 300]),
)
def test_bounds_hold_wherever_training_ends(salt, walk, C, formulation, passes):
    solver, name = walk
    case = CASES[name](fresh(0, salt)).replace(C=C)
    options = {"solver": solver, "formulation": formulation, "max_passes": passes, "tol": 1e-6}
    crf = quietly(lambda: fitted(case, **options))
    assert_truthful(case, crf)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("name", ASCENT)
def test_the_dual_never_falls(generator, name, precision):
    case = CASES[name](generator)
    problem = Problem(bound(case), case.C, case.sample_weight)
    solver = solvers.Exponentiated(proximity=0.0, precision=precision)
    state = solver.start(problem, 1e-9, np.random.default_rng(0))
    rounding = {"single": 1e-5, "double": 1e-11}[precision] * problem.total
    last = problem.dual_objective(solver.solution(problem, state)[1])
    _, best = soft.optimum(case.blocks, case.budgets)
    for _ in range(25):
        report = solver.step(problem, state)
        w, support = solver.solution(problem, state)
        dual = problem.dual_objective(support)
        assert dual >= last - rounding
        assert dual == pytest.approx(report.dual, abs=10 * rounding + 1e-6)
        assert dual <= best * (1 + 1e-9) <= problem.objective(w) * (1 + 1e-8)
        last = dual


def test_the_dual_of_potentials_is_that_of_their_distributions(generator):
    case = chain_case(generator, n=4, lengths=(1, 3), start=True, illegal=ILLEGAL)
    for formulation in SOFT:
        examples = bound(case, formulation)
        problem = Problem(examples, case.C)
        theta = generator.normal(size=examples.answers.potentials).astype(np.float32)
        a, place, K = [], 0, len(case.truth.classes)
        for y, block in zip(case.Y, case.blocks, strict=True):
            T = len(y)
            nodes = theta[place : place + T * K].reshape(T, K).astype(float)
            pairs = theta[place + T * K : place + (T + K) * K].reshape(K, K).astype(float)
            place += (T + K) * K
            s = [
                sum(nodes[t, k] for t, k in enumerate(u)) + sum(pairs[p] for p in pairwise(u))
                for u in block.outputs
            ]
            a.append(np.exp(s - np.logaddexp.reduce(s)))
        support = Support(np.arange(4), problem.mass, theta, kind="distributions")
        truth = soft.dual(case.blocks, case.budgets, a, formulation)
        assert problem.dual_objective(support) == pytest.approx(truth, rel=1e-6)


def test_relative_tolerance_is_the_default(generator):
    case = chain_case(generator, n=20)
    crf = mm.CRF(models.Chain(), C=1.0).fit(case.X, case.Y)
    assert crf.certificate_.converged
    assert crf.certificate_.relative_gap <= 0.0100001


@pytest.mark.parametrize("scale", [0.5, "vector", "matrix"])
def test_a_prior_is_the_problem_in_other_coordinates(generator, scale):
    case = multiclass_case(generator)
    d = case.blocks[0].vectors.shape[1]
    mean = generator.normal(size=d)
    L = np.tril(generator.normal(size=(d, d))) + 3 * np.eye(d)
    made = {0.5: (0.5, 0.5 * np.eye(d)), "matrix": (L @ L.T, L)}
    vector = generator.uniform(0.3, 2.0, size=d)
    given, factor = made.get(scale, (vector, np.diag(vector)))
    crf = fitted(case, solver="lbfgs", prior=(mean, given))
    w = crf.coef_
    gradient = np.linalg.solve(factor @ factor.T, w - mean)
    gradient += soft.risk_gradient(case.blocks, case.budgets, w)
    assert np.abs(gradient).max() < 1e-3
    assert crf.certificate_.gap <= 1e-9


def test_weights_of_examples_are_copies(generator):
    case = chain_case(generator, n=4)
    twice = mm.CRF(models.Chain(), tol=1e-10).fit(case.X, case.Y, sample_weight=[2, 1, 1, 0.0])
    order = [0, 0, 1, 2]
    copies = mm.CRF(models.Chain(), tol=1e-10).fit(
        [case.X[i] for i in order], [case.Y[i] for i in order]
    )
    assert twice.coef_ == pytest.approx(copies.coef_, abs=1e-3)


def test_it_is_an_estimator_of_scikit_learn(generator, tmp_path):
    case = chain_case(generator, n=12, lengths=(2, 3))
    crf = mm.CRF(models.Chain(start=True), C=0.5, formulation="softmax-margin", tol=1e-4)
    assert clone(crf).get_params()["formulation"] == "softmax-margin"
    search = GridSearchCV(crf, {"C": [0.1, 1.0]}, cv=2).fit(case.X, case.Y)
    best = search.best_estimator_
    best.save(tmp_path / "crf.model")
    again = mm.load(tmp_path / "crf.model")
    assert isinstance(again, mm.CRF)
    assert again.formulation == "softmax-margin"
    assert again.certificate_ == best.certificate_
    for a, b in zip(again.predict_marginals(case.X), best.predict_marginals(case.X), strict=True):
        assert (a == b).all()


def test_a_warm_start_and_a_path_begin_at_the_last_solution(generator):
    case = chain_case(generator, n=20, lengths=(2, 3))
    crf = mm.CRF(models.Chain(), C=1.0, tol=1e-7, warm_start=True).fit(case.X, case.Y)
    before = crf.certificate_.passes
    crf.fit(case.X, case.Y)
    assert crf.certificate_.passes <= 0.5 * before
    path = mm.regularization_path(mm.CRF(models.Chain(), tol=1e-7), case.X, case.Y, [0.1, 1, 2])
    for C, own in zip(path.Cs, path.estimators, strict=True):
        assert own.certificate_.converged
        _, best = soft.optimum(case.blocks, C * np.ones(len(case.Y)))
        assert own.certificate_.primal == pytest.approx(best, rel=1e-5)
    ranged = mm.regularization_path(mm.CRF(models.Chain(), tol=1e-5), case.X, case.Y, 3)
    assert all(found.converged for found in ranged.certificates)


def test_what_has_no_sums_is_refused_with_a_reason(generator):
    case = chain_case(generator)
    X, Y = case.X, case.Y
    with refusal("softmax-margin", "node_weight"):
        mm.CRF(models.Chain()).fit(X, Y, node_weight=[np.ones(len(y)) for y in Y])
    with refusal("sum over all outputs", "kernel"):
        mm.CRF(models.Kernel(models.Chain())).fit(X, Y)
    graph = graph_case(generator, shape="cycle")
    with refusal("sum over all outputs", "forests"):
        mm.CRF(built_in(graph)).fit(graph.X, graph.Y)
    with refusal("labels and neighbours"):
        edges = edge_chain_case(generator)
        mm.CRF(built_in(edges), solver="exponentiated").fit(edges.X, edges.Y)
    with refusal("formulation must be one of"):
        mm.CRF(models.Chain(), formulation="max").fit(X, Y)
    with refusal("hinge must be one of"):
        mm.StructuralSVM(models.Chain(), hinge="log").fit(X, Y)
    with refusal("does not support formulation='log'", "lbfgs"):
        mm.CRF(models.Chain(), solver="proximal").fit(X, Y)
    with refusal("log loss needs a regulariser on every weight"):
        d = mm.CRF(models.Chain()).fit(X, Y).coef_.size
        mm.CRF(models.Chain(), prior=(0.0, np.r_[np.inf, np.ones(d - 1)])).fit(X, Y)


def test_node_weights_scale_the_loss_of_a_position(generator):
    case = chain_case(generator, n=8, lengths=(2, 3))
    weights = [generator.uniform(0.5, 2.0, size=len(y)) for y in case.Y]
    crf = mm.CRF(models.Chain(), formulation="softmax-margin", tol=1e-9)
    crf.fit(case.X, case.Y, node_weight=weights)
    plain = mm.CRF(models.Chain(), formulation="softmax-margin", tol=1e-9).fit(case.X, case.Y)
    assert np.abs(crf.coef_ - plain.coef_).max() > 1e-4
    ones = mm.CRF(models.Chain(), formulation="softmax-margin", tol=1e-9)
    ones.fit(case.X, case.Y, node_weight=[np.ones(len(y)) for y in case.Y])
    assert ones.coef_ == pytest.approx(plain.coef_, abs=1e-3)
