"""Checkpoints of the solvers of the log loss."""

import numpy as np
import pytest

import maxmargin as mm
from contracts.test_checkpoints import killed_again_and_again, rows
from helpers import SOFT, quietly
from maxmargin import models, solvers
from maxmargin.formulation import Formulation
from maxmargin.problem import Problem


@pytest.mark.parametrize("solver", SOFT)
def test_solvers_of_the_log_loss(solver, tmp_path, seed):
    X, y = rows(seed=seed)
    exact = solver != "sgd"

    def make():
        settings = {"tol": 1e-6 if exact else 1e-4, "max_passes": 400, "random_state": 0}
        return mm.CRF(models.Multiclass(), C=0.3, solver=solver, **settings)

    whole = quietly(lambda: make().fit(X, y)).certificate_
    svm, saved = killed_again_and_again(make, X, y, tmp_path / "fit", np.random.default_rng(seed))
    found = svm.certificate_
    assert found.dual <= whole.primal * (1 + 1e-9) and whole.dual <= found.primal * (1 + 1e-9)
    assert saved and svm.history_["passes"][0] > saved[-1].passes
    assert found.converged if exact else found.gap <= 2 * whole.gap + 1e-4


def test_stochastic_gradient_goes_on_at_its_time(seed):
    X, y = rows(seed=seed)
    model = models.Multiclass()
    model.initialize(X, y)
    problem = Problem(model.bind(X, y), C=0.3, formulation=Formulation("log"))
    solver = solvers.SGD()
    state = solver.start(problem, 1e-3, np.random.default_rng(0))
    for _ in range(2):
        solver.step(problem, state)
    again = solver.resume(problem, 1e-3, np.random.default_rng(1), solver.snapshot(problem, state))
    state.rng = np.random.default_rng(1)
    for _ in range(2):
        assert again.core.time == state.core.time
        np.testing.assert_allclose(
            again.core.weights(), state.core.weights(), rtol=1e-12, atol=1e-15
        )
        solver.step(problem, state), solver.step(problem, again)
    with pytest.raises(ValueError, match="time must be above 0"):
        again.core.go_on(0.0, again.core.weights())
