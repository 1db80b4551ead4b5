"""Priors and bounds inside the core's dual states, and in streams of chunks."""

import numpy as np
import pytest

import maxmargin as mm
from helpers import built_in, refusal
from maxmargin import models
from maxmargin.models.base import CompiledExamples
from maxmargin.problem import certify_state, make_regularizer
from maxmargin.solvers.dual_state import open_state
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


def test_streams_refuse_priors(generator):
    X, y = generator.normal(size=(12, 2)), np.arange(12) % 2
    for given in ({"prior": (0, [1.0, np.inf])}, {"prior": (0, 2.0)}, {"nonnegative": [0]}):
        with refusal("partial_fit", "must be None", "fit"):
            mm.StructuralSVM(models.Binary(), **given).partial_fit(X, y)
        with refusal("Streaming", "does not honour"):
            mm.StructuralSVM(models.Binary(), solver="streaming", **given).fit(X, y)
    with refusal("partial_fit", "prior"):
        mm.BinarySVC(penalized_intercept=False).partial_fit(X, y)
