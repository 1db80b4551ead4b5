"""Priors and bounds inside the core's dual states, and in streams of chunks."""

import numpy as np
import pytest

import maxmargin as mm
from helpers import built_in, quietly, refusal
from maxmargin import models, solvers
from maxmargin.models.base import CompiledExamples
from maxmargin.problem import certify_state, make_regularizer
from maxmargin.solvers.dual_state import open_state
from reference.primal_qp import solve_primal
from reference.priors import CASES, draw, small, train


@pytest.mark.parametrize("kind", ["mean-scalar", "vector", "matrix", "bound"])
@pytest.mark.parametrize("name", ["multiclass", "chain"])
def test_outputs_and_vectors_lead_to_the_same_optimum(seed, generator, monkeypatch, name, kind):
    """A structure whose core takes no metric keeps planes as vectors."""
    case = small(name, seed)
    d = case.truth.size_joint_feature
    settings = {"nonnegative": np.arange(0, d, 2)} if kind == "bound" else {}
    settings |= {} if kind == "bound" else {"prior": draw(kind, generator, d)[0]}
    outputs = train(case, **settings)
    monkeypatch.setattr(CompiledExamples, "takes_metric", False)
    vectors = train(case, **settings)
    if kind != "mean-scalar":  # which is a shift
        assert isinstance(outputs.support_.outputs, np.ndarray)
        assert isinstance(vectors.support_.outputs, list)
    assert outputs.certificate_.primal == pytest.approx(vectors.certificate_.primal, rel=1e-7)
    np.testing.assert_allclose(outputs.coef_, vectors.coef_, atol=1e-3)


@pytest.mark.parametrize("kind", ["mean-scalar", "vector", "matrix", "bound"])
@pytest.mark.parametrize("name", CASES)
def test_the_running_dual_and_gap_are_those_of_the_definition(seed, generator, name, kind):
    """In the middle of training, with the proximal term on."""
    case = small(name, seed)
    model = built_in(case)
    model.initialize(case.X, case.Y)
    examples = model.bind(case.X, case.Y)
    d = examples.dimension
    bound = np.arange(0, d, 2) if kind == "bound" else None
    prior = None if bound is not None else draw(kind, generator, d)[0]
    regularizer = make_regularizer(prior, bound, examples)
    problem = mm.Problem(examples, case.C, regularizer=regularizer)
    state = open_state(problem, 1e-6, np.random.default_rng(0))
    everything = np.arange(problem.n_blocks)
    for proximity in (0.0, 0.0, 2.0, 0.7):
        if proximity and kind != "matrix":
            state.core.recenter(0.3, proximity)
        visit = state.visit(everything, update=False)
        bounds = certify_state(problem, state.weights(), state.support())
        assert state.dual() == pytest.approx(bounds.dual, abs=1e-9)
        seen = visit.violation + state.lag() if kind != "matrix" else visit.violation
        assert seen == pytest.approx(bounds.primal - bounds.dual, abs=1e-9)
        state.visit(everything)


# --- streams -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mean-scalar", "vector", "matrix", "bound"])
@pytest.mark.parametrize("name", ["multiclass", "chain"])
def test_partial_fit_meets_the_optimum_of_all_chunks(seed, generator, name, kind):
    case = small(name, seed).replace(sample_weight=None)
    d = case.truth.size_joint_feature
    bound = np.arange(d) % 2 == 0 if kind == "bound" else None
    prior, mean, covariance = None, np.zeros(d), np.eye(d)
    if bound is None:
        prior, mean, covariance = draw(kind, generator, d)
    value, _ = solve_primal(case.blocks, np.full(len(case.Y), case.C), mean, covariance, bound)
    model = built_in(case).set_params(classes=np.unique(np.concatenate([*map(np.ravel, case.Y)])))
    svm = mm.StructuralSVM(
        model, C=case.C, prior=prior, nonnegative=bound, tol=1e-8, max_passes=100_000
    )
    half = len(case.Y) // 2
    quietly(lambda: svm.partial_fit(case.X[:half], case.Y[:half]))
    quietly(lambda: svm.partial_fit(case.X[half:], case.Y[half:]))
    # Examples that went without a multiplier may be missed; the dual bound is one for all in any case.
    assert svm.certificate_.dual <= value * (1 + 1e-6)
    again = mm.certify(svm, case.X, case.Y)
    assert again.dual == pytest.approx(svm.certificate_.dual, rel=1e-9)
    assert again.primal >= value * (1 - 1e-6)
    if svm.memory_.n_gone == 0:
        assert again.primal == pytest.approx(value, rel=1e-5)


def test_partial_fit_of_nothing_but_the_mean(generator):
    """Chunks that violate nothing leave the weights where the prior has them."""
    y = np.repeat([0, 1, 2], 6)
    X = 6 * np.eye(3)[y] + generator.normal(size=(18, 3)) * 0.3
    mean = np.eye(3).ravel()
    svm = mm.StructuralSVM(models.Multiclass(), prior=(mean, 0.5))
    for part in (slice(None, None, 2), slice(1, None, 2)):
        svm.partial_fit(X[part], y[part])
    np.testing.assert_array_equal(svm.coef_, mean)


def test_partial_fit_freezes_examples_with_a_prior(generator):
    """A budget too small for all: the dual bound still holds for all examples."""
    X, y = generator.normal(size=(60, 4)), generator.integers(3, size=60)
    prior = (generator.normal(size=12) * 0.1, generator.uniform(0.5, 1.5, size=12))
    settings = {"C": 0.5, "prior": prior, "nonnegative": [1, 5], "tol": 1e-4}
    whole = mm.StructuralSVM(models.Multiclass(), **settings).fit(X, y)
    stream = mm.StructuralSVM(
        models.Multiclass(), solver=solvers.Streaming(cache_bytes=6000, passes=None), **settings
    )
    for first in range(0, 60, 15):
        part = slice(first, first + 15)
        quietly(
            lambda p=part: stream.partial_fit(
                X[p], y[p], classes=[0, 1, 2] if p.start == 0 else None
            )
        )
        assert stream.certificate_.dual <= whole.certificate_.primal + 1e-9
    assert stream.memory_.n_frozen > 0
    assert mm.objective(stream, stream.coef_, X, y) >= whole.certificate_.dual - 1e-9


def test_partial_fit_refuses_free_weights(generator):
    X, y = generator.normal(size=(12, 2)), np.arange(12) % 2
    with refusal("partial_fit", "infinite", "fit"):
        mm.StructuralSVM(models.Binary(), prior=(0, [1.0, np.inf])).partial_fit(X, y)
    with refusal("partial_fit", "penalized_intercept"):
        mm.BinarySVC(penalized_intercept=False).partial_fit(X, y)
