"""CRF with unknown labels: sums over completions, tangents and rounds against enumeration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import maxmargin as mm
from helpers import built_in, quietly, refusal
from maxmargin import models, solvers
from maxmargin.problem import Formulation, Problem
from maxmargin.problem.regularizer import Prior
from reference import partial
from reference.cases import fresh
from reference.partial import hide, known_blocks, turning_chains
from reference.problems import make_case

SOFT = ("log", "softmax-margin")
NAMES = [
    "chain-1to4-dense",
    "chain-1to4-csr-ends",
    "chain-cost-four-labels",
    "edges-dense",
    "second-order",
    "graph-forest-symmetric",
    "multilabel-path-bias",
]
SOLVERS = ("exponentiated", "lbfgs")
FAR = {"tol": 1e-9, "round_tol": 1e-10, "max_passes": 50_000, "max_rounds": 2000}


def budgets_of(case, Y):
    """C v_i; an example without known labels has weight 0."""
    return np.array([case.C if any(k is not None for k in y) else 0.0 for y in Y])


def posed(case, Y, formulation, at, **options):
    """Return the convex problem of the completions at the weights `at`."""
    model = models.Partial(built_in(case))
    model.initialize(case.X, Y)
    examples = model.summed(case.X, Y).under(Formulation(formulation))
    examples.soft_truth = type(examples.soft_truth)(examples.soft_truth.examples, at)
    return Problem(examples, case.C, budgets_of(case, Y) / case.C, **options)


@pytest.mark.parametrize("formulation", SOFT)
@pytest.mark.parametrize("name", NAMES)
@given(st.integers(0, 50))
def test_sums_and_tangents_are_those_of_the_enumeration(name, formulation, seed):
    case = make_case(name, seed % 3)
    Y = hide(case, seed)
    blocks, budgets = known_blocks(case, Y), budgets_of(case, Y)
    d, g = blocks[0][0].vectors.shape[1], fresh(seed, 703)
    u, w = g.normal(size=(2, d)) * 10.0 ** (seed % 4 - 2)
    problem = posed(case, Y, formulation, u)
    every, known = partial.sums(blocks, w, formulation)
    found = problem.slacks(w) - problem.examples.soft_truth.log_sums(w, 1 + seed % 3)
    assert found == pytest.approx(every - known, rel=1e-9, abs=1e-9)
    there = partial.convex(blocks, budgets, w, u, formulation)
    assert problem.objective(w) == pytest.approx(there, rel=1e-9, abs=1e-9)
    assert there >= partial.objective(blocks, budgets, w, formulation) - 1e-9 * abs(there)
    assert problem.objective(u) == pytest.approx(
        partial.objective(blocks, budgets, u, formulation), rel=1e-9, abs=1e-9
    )
    risk, slope = problem.tilt(w)
    assert risk + 0.5 * w @ w == pytest.approx(there, rel=1e-9, abs=1e-9)
    truth = partial.gradient(blocks, budgets, w, formulation, at=u)
    assert slope + w == pytest.approx(truth, rel=1e-7, abs=1e-8 * (1 + np.abs(truth).max()))


@pytest.mark.parametrize("formulation", SOFT)
@pytest.mark.parametrize("name", NAMES)
def test_rounds_lower_the_objective_to_a_stationary_point(seed, name, formulation):
    case = make_case(name, seed)
    Y = hide(case, seed, share=0.3)
    blocks, budgets = known_blocks(case, Y), budgets_of(case, Y)

    def value(w):
        return partial.objective(blocks, budgets, w, formulation)

    crf = mm.CRF(built_in(case), case.C, formulation, random_state=seed, **FAR)
    quietly(lambda: crf.fit(case.X, Y))
    path, w = crf.objective_path_, crf.coef_
    assert (np.diff(path) <= 1e-12 * path[:-1]).all()
    assert path[-1] == pytest.approx(value(w), rel=1e-9)
    assert mm.objective(crf, w, case.X, Y) == pytest.approx(value(w), rel=1e-9)
    slope = partial.gradient(blocks, budgets, w, formulation)
    assert np.abs(slope).max() <= 1e-3 * (1 + case.C)
    better = minimize(
        value, w, jac=lambda w: partial.gradient(blocks, budgets, w, formulation), method="BFGS"
    )
    assert better.fun >= value(w) * (1 - 1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("formulation", SOFT)
def test_the_certificate_is_that_of_the_last_convex_problem(seed, solver, formulation):
    case = make_case("chain-1to4-csr-ends", seed)
    Y = hide(case, seed)
    blocks, budgets = known_blocks(case, Y), budgets_of(case, Y)
    crf = mm.CRF(built_in(case), case.C, formulation, solver, tol=1e-6, max_rounds=3)
    quietly(lambda: crf.fit(case.X, Y))
    found, at = crf.certificate_, crf.completed_at_
    best = minimize(
        lambda w: partial.convex(blocks, budgets, w, at, formulation),
        crf.coef_,
        jac=lambda w: partial.gradient(blocks, budgets, w, formulation, at),
        method="BFGS",
        options={"gtol": 1e-9},
    ).fun
    assert found.converged and found.exact
    assert found.dual <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= found.primal
    assert found.primal == pytest.approx(
        partial.convex(blocks, budgets, crf.coef_, at, formulation), rel=1e-9
    )
    again = mm.certify(crf, case.X, Y)
    assert again.primal == pytest.approx(found.primal, rel=1e-12)
    assert again.dual == pytest.approx(found.dual, rel=1e-9)
    assert len(crf.history_["round"]) == len(crf.history_["dual"])


@pytest.mark.parametrize("mean", [False, True])
def test_every_solver_solves_the_convex_problem_of_a_round(seed, mean):
    case = make_case("chain-1to4-dense", seed)
    Y = hide(case, seed)
    g = fresh(seed, 704)
    size = known_blocks(case, Y)[0][0].vectors.shape[1]
    prior = Prior(0.1 * g.normal(size=size), 0.7) if mean else None
    problem = posed(case, Y, "log", g.normal(size=size), regularizer=prior)
    options = {"tol": 1e-9, "max_passes": 50_000, "random_state": seed}
    found = [
        mm.train(problem, kind, **options).certificate
        for kind in (solvers.Exponentiated(), solvers.LBFGS())
    ]
    assert found[0].converged and found[1].converged
    assert found[0].primal == pytest.approx(found[1].primal, abs=3e-9 * problem.total)
    # The dual reported by a step equals the dual of the exact pass.
    run = mm.train(problem, solvers.Exponentiated(), tol=1e-9, certify_every=1, max_passes=40)
    assert run.history.arrays()["dual"][-1] == pytest.approx(
        run.certificate.dual, abs=1e-6 * problem.total
    )
    if not mean:
        slow = quietly(lambda: mm.train(problem, solvers.SGD(), tol=1e-3, max_passes=3000))
        assert slow.certificate.primal == pytest.approx(found[0].primal, abs=2e-3 * problem.total)


@pytest.mark.parametrize("solver", [*SOLVERS, "sgd"])
def test_every_solver_ends_near_the_same_objective(seed, solver):
    case = make_case("chain-1to4-dense", seed)
    Y = hide(case, seed, share=0.3)
    crf = mm.CRF(built_in(case), case.C, solver=solver, tol=1e-3, round_tol=1e-4, random_state=1)
    quietly(lambda: crf.set_params(max_passes=4000).fit(case.X, Y))
    blocks, budgets = known_blocks(case, Y), budgets_of(case, Y)
    slope = partial.gradient(blocks, budgets, crf.coef_)
    assert crf.objective_path_[-1] < partial.objective(blocks, budgets, np.zeros(len(crf.coef_)))
    # For a convex function as curved as 1/2 |w|^2, this bounds the gap.
    assert 0.5 * slope @ slope / budgets.sum() <= 0.02


def test_weights_of_examples_and_nodes(seed):
    case = make_case("chain-1to4-dense", seed)
    Y = hide(case, seed)
    g = fresh(seed, 705)
    v = g.integers(1, 4, len(Y))
    own = [g.random(len(y)) for y in Y]
    blocks = known_blocks(case, Y, own)
    crf = mm.CRF(built_in(case), case.C, "softmax-margin", **FAR)
    quietly(lambda: crf.fit(case.X, Y, sample_weight=v, node_weight=own))
    value = partial.objective(blocks, case.C * v, crf.coef_, "softmax-margin")
    assert crf.objective_path_[-1] == pytest.approx(value, rel=1e-9)
    again = mm.certify(crf, case.X, Y, sample_weight=v, node_weight=own)
    assert again.gap == pytest.approx(crf.certificate_.gap, abs=1e-8)
    copies = [i for i, count in enumerate(v) for _ in range(count)]
    more = mm.CRF(built_in(case), case.C, "softmax-margin", **FAR)
    X, Y, own = ([part[i] for i in copies] for part in (case.X, Y, own))
    quietly(lambda: more.fit(X, Y, node_weight=own))
    assert more.objective_path_[-1] == pytest.approx(value, rel=1e-4)
    with refusal("node_weight weighs the task loss"):
        mm.CRF(built_in(case)).fit(X, Y, node_weight=own)
    with refusal(r"node_weight\[0\] has shape"):
        more.fit(X, Y, node_weight=[np.ones(9), *own[1:]])


@pytest.mark.parametrize("name", ["chain-1to4-dense", "graph-forest-symmetric"])
def test_nothing_unknown_is_the_ordinary_problem(seed, name):
    case = make_case(name, seed)
    model = models.Partial(built_in(case))
    model.initialize(case.X, case.Y)
    examples = model.summed(case.X, case.Y).under(Formulation("log"))
    w = fresh(seed, 706).normal(size=examples.dimension)
    assert np.abs(examples.soft_truth.log_sums(w)).max() <= 1e-12
    offset, vector = type(examples.soft_truth)(examples.soft_truth.examples, w).plane(
        np.ones(examples.n)
    )
    assert abs(offset) <= 1e-9 and np.abs(vector).max() <= 1e-9
    plain, again = (mm.CRF(built_in(case), random_state=0).fit(case.X, case.Y) for _ in range(2))
    assert plain.objective_path_ is None and plain.completed_at_ is None
    assert (plain.coef_ == again.coef_).all()
    # All labels are known except in one example, which adds nothing; one round suffices.
    X, Y = [*case.X, case.X[0]], [*case.Y, [None] * len(case.Y[0])]
    tight = {"tol": 1e-8, "max_passes": 20_000}
    some = mm.CRF(built_in(case), **tight).fit(X, Y)
    whole = mm.CRF(built_in(case), **tight).fit(case.X, case.Y)
    assert some.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=1e-6)
    assert len(some.objective_path_) <= 2


@pytest.mark.parametrize("name", ["multiclass-cost-dense", "binary-cost-weights"])
@pytest.mark.parametrize("formulation", SOFT)
def test_where_an_output_is_one_label_what_is_unknown_adds_nothing(
    seed, name, formulation, tmp_path
):
    case = make_case(name, seed)
    extra = fresh(seed, 702).normal(size=(5, case.X.shape[1]))
    X, Y = np.vstack([case.X, extra]), [*case.Y, *[None] * 5]
    options = {"C": case.C, "formulation": formulation, "tol": 1e-8, "max_passes": 20_000}
    crf, known = mm.CRF(built_in(case), **options), mm.CRF(built_in(case), **options)
    crf.fit(X, Y, checkpoint=tmp_path / "fit")
    known.fit(case.X, case.Y)
    assert crf.certificate_.primal == pytest.approx(known.certificate_.primal, rel=1e-6)
    assert mm.certify(crf, X, Y).gap == pytest.approx(crf.certificate_.gap, abs=1e-9)
    logs = crf.log_likelihood(X, Y)
    assert logs[:-5] == pytest.approx(crf.log_likelihood(case.X, case.Y), rel=1e-9)
    assert (logs[-5:] == 0).all()
    assert crf.objective_path_ is None
    path = mm.regularization_path(crf, X, Y, [0.1, 1.0])
    assert len(path.estimators) == 2


def test_a_warm_start_a_checkpoint_a_file_and_threads(seed, tmp_path):
    case = make_case("chain-1to4-dense", seed)
    Y = hide(case, seed)
    options = {"tol": 1e-7, "round_tol": 1e-7, "max_passes": 20_000, "random_state": 0}
    crf = mm.CRF(built_in(case), case.C, **options).fit(case.X, Y)
    warm = mm.CRF(built_in(case), case.C, warm_start=True, **options).fit(case.X, Y)
    first = warm.certificate_.passes
    warm.fit(case.X, Y)
    assert warm.certificate_.passes < first
    assert warm.objective_path_[-1] <= crf.objective_path_[-1] * (1 + 1e-12)
    threads = mm.CRF(built_in(case), case.C, n_jobs=2, **options).fit(case.X, Y)
    assert threads.objective_path_[-1] == pytest.approx(crf.objective_path_[-1], rel=1e-5)
    crf.save(tmp_path / "model")
    loaded = mm.load(tmp_path / "model")
    assert type(loaded.model_) is type(crf.model_)
    assert (loaded.log_likelihood(case.X, Y) == crf.log_likelihood(case.X, Y)).all()
    file = tmp_path / "rounds"
    short = mm.CRF(built_in(case), case.C, **options | {"max_rounds": 1})
    quietly(lambda: short.fit(case.X, Y, checkpoint=file))
    longer = mm.CRF(built_in(case), case.C, **options)
    longer.fit(case.X, Y, checkpoint=file, resume=True)
    assert longer.objective_path_[0] == short.objective_path_[-1]
    assert longer.objective_path_[-1] == pytest.approx(crf.objective_path_[-1], rel=1e-4)
    with refusal("checkpoint of another fit"):
        longer.fit(case.X, case.Y, checkpoint=file, resume=True)


def test_the_likelihood_of_what_is_known(seed):
    case = make_case("edges-dense", seed)
    Y = hide(case, seed)
    crf = mm.CRF(built_in(case), case.C).fit(case.X, case.Y)
    every, known = partial.sums(known_blocks(case, Y), crf.coef_)
    assert crf.log_likelihood(case.X, Y) == pytest.approx(known - every, rel=1e-9, abs=1e-12)
    outputs = crf.predict(case.X)
    pairs = list(zip(Y, outputs, strict=True))
    losses = [partial.partial_loss(case.truth, k, tuple(p)) for k, p in pairs]
    assert crf.loss(case.X, Y) == pytest.approx(np.mean(losses))
    right = [a == b for k, p in pairs for a, b in zip(k, p, strict=True) if a is not None]
    assert crf.score(case.X, Y) == pytest.approx(np.mean(right))


def test_known_labels_teach_the_unknown_ones():
    """As for the hinge loss: the score is better than with the known parts alone."""
    X, hidden, X_test, Y_test = turning_chains()
    crf = mm.CRF(models.Chain(), C=0.3, tol=1e-3, round_tol=1e-3).fit(X, hidden)
    known = mm.CRF(models.Chain(), C=0.3).fit(*models.Partial(models.Chain()).known_part(X, hidden))
    assert crf.score(X_test, Y_test) > known.score(X_test, Y_test) + 0.03
    assert crf.log_likelihood(X_test, Y_test).sum() > known.log_likelihood(X_test, Y_test).sum()


@pytest.mark.parametrize("solver", SOLVERS)
def test_legal_labellings_alone_complete_what_is_known(seed, solver):
    """I is illegal after O, so sums run over legal completions only."""
    g, tags = fresh(seed, 707), ["B-X", "I-X", "O"]
    legal = [["O", "B-X", "I-X", "O"], ["B-X", "I-X", "I-X", "O"], ["O", "O", "B-X", "O"]] * 4
    X = [np.eye(3)[[tags.index(t) for t in y]] + g.normal(scale=0.5, size=(4, 3)) for y in legal]
    Y = [[label if g.random() < 0.5 else None for label in y] for y in legal]
    Y[0] = [None, None, "I-X", None]
    model = models.Chain(transitions="iob2", classes=tags)
    crf = mm.CRF(model, solver=solver, tol=1e-6, round_tol=1e-6).fit(X, Y)
    assert (np.diff(crf.objective_path_) <= 1e-12).all()
    known = crf.log_likelihood(X[:1], Y[:1])[0]
    before = [(a, b) for a in tags for b in ("B-X", "I-X") if (a, b) != ("O", "I-X") and a != "I-X"]
    each = [[a, b, "I-X", c] for a, b in before for c in tags]
    logs = [crf.log_likelihood(X[:1], [y])[0] for y in each]
    assert known == pytest.approx(np.log(np.sum(np.exp(logs))), rel=1e-9)
    Y[1] = ["O", "I-X", None, None]
    with refusal(r"X\[1\]: no labelling of .* is legal", r"Y\[1\]"):
        crf.fit(X, Y)


def test_what_cannot_be_is_refused(seed):
    X, Y = [np.ones((2, 1))] * 2, [[0, None], [1, 0]]
    with refusal("no known label"):
        mm.CRF(models.Chain()).fit(X, [[None, None]] * 2)
    with refusal(r"Y\[1\] must have 2 labels"):
        mm.CRF(models.Chain()).fit(X, [[0, 1], [None]])
    with refusal("a path needs a convex problem", "unknown labels"):
        mm.regularization_path(mm.CRF(models.Chain()), X, Y, [0.1, 1.0])
    with refusal("warm_start: the last fit had"):
        crf = mm.CRF(models.Chain(), warm_start=True).fit(X, Y)
        crf.fit([np.ones((2, 3))] * 2, Y)
    cycle = (np.ones((3, 1)), [(0, 1), (1, 2), (2, 0)])
    with refusal("sum over all outputs"):
        mm.CRF(models.FactorGraph()).fit([cycle] * 2, [[0, 1, None], [1, 0, 1]])
