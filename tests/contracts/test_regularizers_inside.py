"""Priors and bounds inside the core's dual states, and in streams of chunks."""

import numpy as np
import pytest
from sklearn.base import clone

import maxmargin as mm
from helpers import assert_no_chunks, built_in, refusal
from maxmargin import models, solvers
from maxmargin.problem import make_regularizer
from maxmargin.solvers.dual_state import open_state
from reference.priors import CASES, draw, small

CYCLIC = solvers.Streaming(passes=None)


@pytest.mark.parametrize("kind", ["mean-scalar", "vector", "matrix", "bound"])
@pytest.mark.parametrize("name", CASES)
def test_the_running_dual_and_gap_are_those_of_the_definition(seed, generator, name, kind):
    """The running values are right in the middle of training, with the proximal term on."""
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
        bounds = problem.certify(state.weights(), state.support())
        assert state.dual() == pytest.approx(bounds.dual, abs=1e-9)
        seen = visit.violation + state.gap_terms()[1]
        assert seen == pytest.approx(bounds.primal - bounds.dual, abs=1e-9)
        state.visit(everything)


# --- streams -------------------------------------------------------------------------------------


def test_streams_take_priors_but_no_free_weights(generator):
    X, y = generator.normal(size=(12, 2)), np.arange(12) % 2
    for given in ({"prior": (0, 2.0)}, {"nonnegative": [0]}, {"prior": (0, [1.0, np.inf])}):
        svm = mm.StructuralSVM(models.Binary(), tol=1e-6, solver=CYCLIC, **given)
        best = clone(svm).set_params(solver="auto").fit(X, y).certificate_
        # Training on arrays supports all three; proximal points handle free weights, as in other solvers.
        own = clone(svm).fit(X, y).certificate_
        assert max(own.dual, best.dual) <= min(own.primal, best.primal) * (1 + 1e-9)
        if "nonnegative" in given or np.isfinite(given["prior"][1]).all():
            svm.partial_fit(X[:6], y[:6]).partial_fit(X[6:], y[6:])
            assert svm.certificate_.primal == pytest.approx(best.primal, rel=1e-5)
            continue
        with refusal("sum a psi = 0 over all examples"):
            svm.partial_fit(X, y)
        with refusal("sum a psi = 0 over all examples"):
            svm.fit([(X, y)])
    for svm in (
        mm.BinarySVC(penalized_intercept=False),
        mm.RegressionSVR(penalized_intercept=False),
    ):
        assert_no_chunks(svm, "sum a psi = 0 over all examples")
