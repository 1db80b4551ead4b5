"""Combinations of priors, non-negative weights, the summed error, graphs and GDMM reach their optimum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import maxmargin as mm
from helpers import as_python, quietly, refusal
from maxmargin import models, solvers
from maxmargin.data.synthetic import random_chains
from maxmargin.formulation import Formulation
from maxmargin.problem import make_regularizer
from reference.cases import fresh
from reference.enumerate import Block
from reference.primal_qp import primal_value, solve_primal
from reference.priors import CASES as SMALL
from reference.priors import KINDS, draw, small, train
from reference.problems import GRAPHS, SETS, make_case
from reference.python_chain import PythonMulticlass
from reference.relaxed import relaxed_optimum
from reference.strategies import SEED

SUMMED = ("sdcd", "one-slack", "n-slack")


def one_by_one(case):
    """Turn the summed error into maxima: each wrong output gets an example, with the true output beside
    it."""
    blocks, budgets = [], []
    for block, budget in zip(case.blocks, case.budgets, strict=True):
        for offset, vector in zip(block.offsets, block.vectors, strict=True):
            two = np.array([0.0, offset]), np.array([np.zeros_like(vector), vector])
            blocks.append(Block((None, None), *two))
            budgets.append(budget)
    return blocks, np.array(budgets)


def assert_summed(case, svm, mean, covariance, bound=None, relative=1e-5):
    blocks, budgets = one_by_one(case)
    value, _ = solve_primal(blocks, budgets, mean, covariance, bound)
    assert svm.certificate_.converged
    own = primal_value(blocks, budgets, svm.coef_, mean, covariance)
    assert svm.certificate_.primal == pytest.approx(own, rel=1e-7)
    assert svm.certificate_.primal == pytest.approx(value, rel=relative)
    assert svm.certificate_.dual == pytest.approx(value, rel=relative)


# --- priors with the summed error ----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", SUMMED)
@pytest.mark.parametrize("name", SMALL)
def test_priors_with_the_summed_error(seed, generator, name, solver, kind):
    case = small(name, seed)
    prior, mean, covariance = draw(kind, generator, case.truth.size_joint_feature)
    svm = train(case, tol=1e-7, hinge="sum", prior=prior, solver=solver)
    assert_summed(case, svm, mean, covariance)


@pytest.mark.parametrize("solver", ["sdcd", "n-slack"])
@pytest.mark.parametrize("scales", [False, True])
def test_nonnegative_weights_with_the_summed_error(seed, generator, solver, scales):
    case = small("multiclass", seed)
    d = case.truth.size_joint_feature
    prior, mean, covariance = draw("vector" if scales else "mean", generator, d)
    bound = generator.uniform(size=d) < 0.5
    svm = train(case, tol=1e-7, hinge="sum", prior=prior, nonnegative=bound, solver=solver)
    assert (svm.coef_[bound] >= 0).all()
    assert_summed(case, svm, mean, covariance, bound)


@pytest.mark.parametrize("kind", ["mean-scalar", "vector", "matrix"])
def test_priors_with_the_summed_error_and_slack_rescaling(seed, generator, kind):
    case = small("multiclass", seed, "slack")
    prior, mean, covariance = draw(kind, generator, case.truth.size_joint_feature)
    svm = train(case, tol=1e-7, hinge="sum", prior=prior)
    assert_summed(case, svm, mean, covariance)


@pytest.mark.parametrize("kind", ["mean-scalar", "vector", "matrix"])
def test_priors_with_the_summed_error_of_a_model_in_python(seed, generator, kind):
    case = small("multiclass", seed)
    prior, mean, covariance = draw(kind, generator, case.truth.size_joint_feature)

    class Listed(PythonMulticlass):
        def outputs(self, x):
            return list(range(len(case.truth.classes)))

    model, X = Listed(case.truth.costs), as_python(case)[1]
    svm = mm.StructuralSVM(model, hinge="sum", prior=prior, C=case.C, tol=1e-7, random_state=0)
    svm.fit(X, case.Y, sample_weight=case.sample_weight)
    assert_summed(case, svm, mean, covariance)


@pytest.mark.parametrize("solver", SUMMED)
def test_free_weights_with_the_summed_error(seed, solver):
    case = small("multiclass", seed)
    d = case.truth.size_joint_feature
    scale = np.ones(d)
    scale[[0, d - 1]] = np.inf
    svm = train(case, tol=1e-6, hinge="sum", prior=(0, scale), solver=solver)
    assert_summed(case, svm, np.zeros(d), np.diag(scale**2), relative=1e-4)


def test_threads_and_a_warm_start_under_a_prior(seed, generator):
    case = small("multiclass", seed)
    prior, mean, covariance = draw("mean-scalar", generator, case.truth.size_joint_feature)
    svm = train(case, tol=1e-7, hinge="sum", prior=prior, n_jobs=2, warm_start=True)
    assert_summed(case, svm, mean, covariance)
    first = svm.certificate_.dual
    svm.set_params(n_jobs=1).fit(case.X, case.Y, sample_weight=case.sample_weight)
    assert svm.certificate_.passes <= 3 and svm.certificate_.dual >= first * (1 - 1e-9)


# --- the summed error on graphs ------------------------------------------------------------------


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("name", [*GRAPHS, *SETS])
def test_the_summed_error_on_graphs(seed, name, rescaling):
    case = make_case(name, seed).replace(rescaling=rescaling)
    d = case.truth.size_joint_feature
    blocks, budgets = one_by_one(case)
    total = case.budgets.sum()
    svm = quietly(lambda: train(case, tol=1e-4, hinge="sum", max_passes=3000, solver="sdcd"))
    own = primal_value(blocks, budgets, svm.coef_, np.zeros(d), np.eye(d))
    assert svm.certificate_.primal == pytest.approx(own, rel=1e-7)  # the sum lists every violator
    assert svm.certificate_.converged and svm.certificate_.gap <= 1e-4
    assert own - svm.certificate_.dual <= 1e-4 * total * (1 + 1e-6)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.3, 3.0]),
    st.sampled_from(["margin", "slack"]),
    st.booleans(),
)
def test_sums_over_labellings_of_a_graph(number, scale, rescaling, loops):
    """The sums equal enumeration, on forests and with cycles."""
    g = fresh(SEED, number)
    X, Y = [], []
    for _ in range(3):
        n = int(g.integers(1, 6))
        pairs = [(a, b) for b in range(n) for a in range(b) if loops or a == (b - 1) // 2]
        edges = [pair for pair in pairs if g.uniform() < 0.8]
        X.append((g.normal(size=(n, 2)), np.array(edges, dtype=int).reshape(-1, 2)))
        Y.append(g.integers(2, size=n).tolist())
    Y[0][0] = 1 - Y[1][0]
    model = models.FactorGraph()
    model.initialize(X, Y)
    examples = model.bind(X, Y).under(Formulation("sum", rescaling))
    w = scale * g.normal(size=examples.dimension)
    floors, ceilings = examples.slacks(w)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        total, n = 0.0, len(y)
        for code in np.ndindex(*[2] * n):
            other = [model.classes_[k] for k in code]
            loss = model.loss(y, other)
            margin = w @ (model.joint_feature(x, other) - model.joint_feature(x, y))
            total += max(0.0, loss + margin if rescaling == "margin" else loss * (1 + margin))
        assert floors[i] == pytest.approx(total, rel=1e-9, abs=1e-9)
        assert ceilings[i] == pytest.approx(total, rel=1e-9, abs=1e-9)


def test_sums_that_are_too_long_have_a_ceiling(seed):
    """All 2^40 labellings violate at w = 0: the upper bound is finite and above the exact sum."""
    g = fresh(seed, 301)
    n = 40
    X = [(g.normal(size=(n, 1)), np.array([(k, k + 1) for k in range(n - 1)] + [(0, n - 1)]))]
    Y = [g.integers(2, size=n).tolist()]
    model = models.FactorGraph()
    model.initialize(X, Y)
    floors, ceilings = model.bind(X, Y).under(Formulation("sum", "margin")).slacks(np.zeros(6))
    exact = n * 2.0 ** (n - 1)  # sum over all labellings of the number of mistakes
    assert floors[0] <= exact <= ceilings[0] < np.inf


# --- GDMM with priors ----------------------------------------------------------------------------


def under_prior(svm, case, prior, **more):
    found = train(case, tol=2e-5, solver=svm, prior=prior, max_passes=20_000, **more)
    assert found.certificate_.converged
    return found


@pytest.mark.parametrize("kind", ["scalar", "mean", "mean-scalar", "vector"])
def test_gdmm_on_chains_with_a_prior(seed, generator, kind):
    case = small("chain", seed)
    prior, mean, covariance = draw(kind, generator, case.truth.size_joint_feature)
    value, _ = solve_primal(case.blocks, case.budgets, mean, covariance)
    svm = under_prior("gdmm", case, prior)
    own = primal_value(case.blocks, case.budgets, svm.coef_, mean, covariance)
    assert svm.certificate_.primal == pytest.approx(own, rel=1e-8)
    assert svm.certificate_.dual == pytest.approx(value, rel=1e-3)
    assert svm.certificate_.dual <= value + 1e-6 * abs(value) <= own * (1 + 2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_gdmm_on_forests_with_a_prior(seed, generator, kind):
    case = make_case("graph-forest-symmetric", seed)
    prior, mean, covariance = draw(kind, generator, case.truth.size_joint_feature)
    value, _ = solve_primal(case.blocks, case.budgets, mean, covariance)
    svm = under_prior("gdmm", case, prior)
    own = primal_value(case.blocks, case.budgets, svm.coef_, mean, covariance)
    assert svm.certificate_.primal == pytest.approx(own, rel=1e-8)
    assert svm.certificate_.primal == pytest.approx(value, rel=1e-3)
    assert svm.certificate_.dual == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize("name", ["chain", "graph"])
def test_gdmm_with_nonnegative_weights(seed, generator, name):
    case = small("chain", seed) if name == "chain" else make_case("graph-forest-symmetric", seed)
    d = case.truth.size_joint_feature
    prior, mean, covariance = draw("vector", generator, d)
    bound = generator.uniform(size=d) < 0.5
    value, _ = solve_primal(case.blocks, case.budgets, mean, covariance, bound)
    svm = under_prior("gdmm", case, prior, nonnegative=bound)
    assert (svm.coef_[bound] >= 0).all()
    assert svm.certificate_.primal == pytest.approx(value, rel=1e-3)
    assert svm.certificate_.dual == pytest.approx(value, rel=1e-3)


def label_problem(seed, prior, nonnegative=None):
    g = fresh(seed, 302)
    X = g.normal(size=(10, 3))
    Y = (X @ g.normal(size=(3, 4)) + g.normal(size=(10, 4)) > 0.3).astype(int)
    Y[0] = 1
    model = models.MultiLabel(bias=1.0)
    model.initialize(X, Y)
    examples = model.bind(X, Y)
    regularizer = make_regularizer(prior, nonnegative, examples)
    return mm.Problem(examples, 0.5, regularizer=regularizer)


@pytest.mark.parametrize("kind", KINDS)
def test_gdmm_on_sets_of_labels_with_a_prior(seed, generator, kind):
    """With one scale GDMM uses its form for sets of labels, with several scales its form for graphs."""
    prior, mean, covariance = draw(kind, generator, label_problem(seed, None).dimension)
    problem = label_problem(seed, prior)
    optimum = relaxed_optimum(problem.examples.factors, problem.mass, mean, covariance)
    result = quietly(
        lambda: mm.train(problem, solvers.Gdmm(), tol=1e-5, max_passes=3000, random_state=0)
    )
    scale = problem.total
    assert result.certificate.dual == pytest.approx(optimum, abs=1e-4 * scale)
    assert result.certificate.dual <= optimum + 1e-6 * scale
    assert result.certificate.primal >= optimum - 1e-6 * scale


def test_what_gdmm_refuses_has_a_reason():
    X, Y = random_chains(5, random_state=0)
    d = mm.StructuralSVM(models.Chain(), max_passes=2)
    d = len(quietly(lambda: d.fit(X, Y)).coef_)
    with refusal("gdmm", "covariance matrix", "order"):
        mm.StructuralSVM(models.Chain(), solver="gdmm", prior=(0, np.eye(d))).fit(X, Y)
    free = np.ones(d)
    free[0] = np.inf
    with refusal("gdmm", "infinite scales"):
        mm.StructuralSVM(models.Chain(), solver="gdmm", prior=(0, free)).fit(X, Y)
