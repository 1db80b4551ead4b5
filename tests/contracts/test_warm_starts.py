"""Warm starts for another C or other weights begin near the last w; one that leads nowhere is dropped."""

import copy
import logging
import math

import numpy as np
import pytest
from scipy import sparse

import maxmargin as mm
from helpers import quietly
from maxmargin import models, solvers
from maxmargin.problem import Formulation, Problem, Status
from maxmargin.solvers import StepReport
from maxmargin.train import PATIENCE, train


def sentences(n=200, words=2000, seed=0):
    """Text with attributes of 0 and 1: few words are frequent, most are seen once, and all share a bias."""
    g = np.random.default_rng(seed)
    kind = g.choice(3, words, p=[0.7, 0.15, 0.15])
    X, Y = [], []
    for _ in range(n):
        length = g.integers(5, 20)
        w = np.minimum(g.zipf(1.3, length) - 1, words - 1)
        noise = g.random(length) < 0.1
        Y.append(["OBI"[k] for k in np.where(noise, g.integers(0, 3, length), kind[w])])
        X.append([[f"w={i}", f"suffix={i % 7}", f"prefix={i % 50}", "bias"] for i in w])
    return X, Y


def documents(n=1000, words=300, K=10, seed=0):
    """Bags of words: frequent ones, and three of the topic."""
    g = np.random.default_rng(seed)
    topic, y = g.integers(0, K, words), g.integers(0, K, n)
    X = np.zeros((n, words))
    for row, label in zip(X, y, strict=True):
        row[np.minimum(g.zipf(1.3, 20) - 1, words - 1)] = 1
        row[g.choice(np.flatnonzero(topic == label), 3)] = 1
    return sparse.csr_matrix(X), y


def tagger(C, solver="exponentiated", formulation="log"):
    return mm.CRF(
        models.Chain(start=True), C=C, solver=solver, formulation=formulation, random_state=0
    )


def posed(X, Y, C=1.0, formulation="log"):
    """The problem of a tagger."""
    model = models.Chain(start=True)
    model.initialize(X, Y)
    return Problem(model.bind(X, Y), C, formulation=Formulation(formulation))


@pytest.mark.parametrize("formulation", ["log", "softmax-margin"])
@pytest.mark.parametrize("before, after", [(1.0, 10.0), (10.0, 1.0), (0.1, 1.0), (0.01, 10.0)])
def test_text_is_solved_from_another_c(before, after, formulation):
    X, Y = sentences()
    crf = tagger(before, formulation=formulation).set_params(warm_start=True).fit(X, Y)
    crf.set_params(C=after).fit(X, Y)
    cold = tagger(after, formulation=formulation).fit(X, Y).certificate_
    assert crf.certificate_.converged
    near = max(before, after) / min(before, after) <= 10
    assert crf.certificate_.passes <= (1 if near else 2) * cold.passes


def test_text_is_solved_from_other_weights():
    X, Y = sentences()
    crf = tagger(1.0).set_params(warm_start=True).fit(X, Y)
    weights = np.where(np.arange(len(Y)) % 2, 10.0, 0.3)
    weights[:5] = 0
    crf.fit(X, Y, sample_weight=weights)
    cold = tagger(1.0).fit(X, Y, sample_weight=weights).certificate_
    assert crf.certificate_.converged
    assert crf.certificate_.passes <= 1.5 * cold.passes


@pytest.mark.parametrize("first, then", [("exponentiated", "lbfgs"), ("lbfgs", "exponentiated")])
def test_a_solver_goes_on_from_the_distributions_of_the_other(first, then):
    X, Y = sentences(60)
    crf = tagger(1.0, first).set_params(warm_start=True).fit(X, Y)
    crf.set_params(solver=then, C=3.0).fit(X, Y)
    cold = tagger(3.0, then).fit(X, Y).certificate_
    assert crf.certificate_.converged
    assert crf.certificate_.passes <= 0.8 * cold.passes


@pytest.mark.parametrize("factor", [0.1, 0.5, 2.0, 10.0, 1000.0])
def test_the_first_w_is_on_the_ray_of_the_last_and_not_far_from_it(factor):
    X, Y = sentences(60)
    problem = posed(X, Y)
    result = train(problem, solvers.Exponentiated(), tol=0.01, random_state=0)
    other, rng = problem.at(factor), np.random.default_rng(0)
    _, vector = problem.plane(result.support)  # the last w by the law
    w = solvers.LBFGS().start(other, 1.0, rng, result.support)
    np.testing.assert_allclose(w.v, -vector)
    state = solvers.Exponentiated().start(other, 1.0, rng, result.support)
    found = state.solution()[0]
    along = -(found @ vector) / (vector @ vector)
    np.testing.assert_allclose(found, -along * vector, atol=1e-4 * np.abs(vector).max())
    assert min(1.0, factor) <= along * (1 + 1e-4) and along <= max(1.0, min(factor, 2.0)) + 1e-4


@pytest.mark.parametrize("kind", ["crf", "hinge", "logistic", "classes"])
def test_a_path_takes_less_than_its_single_fits(kind):
    X, Y = sentences(80) if kind in ("crf", "hinge") else documents()
    svm = {
        "crf": tagger(1.0),
        "hinge": mm.StructuralSVM(models.Chain(start=True), random_state=0),
        "logistic": mm.MulticlassLogistic(random_state=0),
        "classes": mm.MulticlassSVC(random_state=0),
    }[kind]
    Cs = np.geomspace(0.03, 10, 6)
    path = mm.regularization_path(svm, X, Y, Cs)
    cold = [copy.copy(svm).set_params(C=C).fit(X, Y).certificate_.passes for C in Cs]
    assert all(found.converged for found in path.certificates)
    most = 0.8 if kind == "hinge" else 0.7  # fewer passes would cost more CPU on chains
    assert sum(found.passes for found in path.certificates) <= most * sum(cold)


class Lost(solvers.LBFGS):
    """From a warm start it gets nowhere: its bounds stay bad, or its numbers overflow."""

    overflow = False
    starts: list[bool]

    def start(self, problem, tol, rng, warm=None):
        state = super().start(problem, tol, rng)
        state.lost = warm is not None
        self.starts.append(state.lost)
        if state.lost:
            state.v = state.v + (1e200 if self.overflow else 0)
        return state

    def step(self, problem, state):
        if state.lost and not self.overflow:
            return StepReport(problem.n_blocks, 1e6, -1e6, problem.n_blocks)
        return super().step(problem, state)


class Overflowing(Lost):
    overflow = True


@pytest.mark.parametrize("kind, steps", [(Lost, PATIENCE), (Overflowing, 0)])
def test_a_warm_start_that_leads_nowhere_is_dropped_with_a_word(kind, steps, caplog):
    X, Y = sentences(20)
    kind.starts = []
    crf = tagger(1.0, kind()).set_params(warm_start=True).fit(X, Y)
    cold = crf.certificate_
    with caplog.at_level(logging.INFO, logger="maxmargin"):
        quietly(lambda: crf.set_params(C=2.0).fit(X, Y))
    assert kind.starts == [False, True, False]
    assert crf.certificate_.converged and math.isfinite(crf.certificate_.gap)
    assert "warm start" in caplog.text
    assert crf.certificate_.passes >= steps + cold.passes / 2  # all that was spent is counted


def test_a_path_never_ends_in_overflow_without_a_cold_start():
    X, Y = sentences(20)
    Overflowing.starts = []
    path = quietly(lambda: mm.regularization_path(tagger(1.0, Overflowing()), X, Y, [0.1, 1.0]))
    assert [found.status for found in path.certificates] == [Status.SOLVED.value] * 2
    assert Overflowing.starts == [False, True, False]


def test_a_good_warm_start_is_kept():
    X, Y = sentences(20)
    problem = posed(X, Y)
    result = train(problem, solvers.Exponentiated(), random_state=0)
    assert not result.dropped_warm
    assert not train(problem.at(3.0), solvers.Exponentiated(), warm=result.support).dropped_warm


def test_p_at_zero_is_computed_once_for_all_c():
    X, Y = sentences(20)
    problem = posed(X, Y)
    assert not problem.zero_known()
    zero, other = problem.at_zero(), problem.at(7.0)
    assert other.zero_known() and other.at_zero() == pytest.approx(7 * zero, rel=1e-14)
    assert posed(X, Y, 7.0).at_zero() == pytest.approx(other.at_zero(), rel=1e-12)
