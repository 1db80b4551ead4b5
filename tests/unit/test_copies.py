"""If most of w or of the sum of planes is zero, there is no copy besides the one in use."""

import weakref

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import models
from maxmargin.problem import Problem, Tolerance
from maxmargin.problem.certificate import Best
from maxmargin.problem.plane import CompactVector, compact, with_zeros
from maxmargin.solvers import Proximal
from maxmargin.train import train


def wide_rows(n=30, d=20_000, labels=5, seed=0):
    """Rows with few of many features."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=5 / d, format="csr", rng=rng) + sp.eye_array(n, d)
    return sp.csr_matrix(X), np.arange(n) % labels


def problem_of(X, y):
    model = models.Multiclass()
    model.initialize(X, y)
    return Problem(model.bind(X, y), C=1.0)


def bytes_of(vector: CompactVector) -> int:
    if isinstance(vector, np.ndarray):
        return vector.nbytes
    return vector.data.nbytes + vector.indices.nbytes


@pytest.mark.parametrize("share", [0.0, 0.01, 0.6, 0.7, 1.0])
def test_a_vector_comes_back_from_the_shorter_form(share, seed):
    rng = np.random.default_rng(seed)
    vector = rng.normal(size=1000) * (np.arange(1000) < 1000 * share)
    packed = compact(vector)
    np.testing.assert_array_equal(with_zeros(packed), vector)
    assert bytes_of(packed) <= 8 * 1000
    assert isinstance(packed, np.ndarray) == (share > 2 / 3)


def test_the_best_weights_take_the_bytes_of_their_entries_while_training_goes_on():
    problem = problem_of(*wide_rows())
    result = train(problem, Proximal(), tol=1e-3, random_state=0)
    best = Best(problem, Tolerance(1e-3, problem.total))
    best.take(result.w, result.support, problem.certify(result.w, result.support))
    assert best.kept is result.w
    best.go_on()
    assert bytes_of(best.kept) < 0.05 * result.w.nbytes
    np.testing.assert_array_equal(best.w, result.w)


def test_no_w_is_held_while_the_solver_learns(monkeypatch):
    """The solver makes w once more then: the first one, or the sum of planes, would be a second copy."""
    held, refs = [], []
    solution = Proximal.solution

    def spy(self, problem, state):
        w, support = solution(self, problem, state)
        w = w.copy()
        refs.append(weakref.ref(w))
        return w, support

    def learn(self, problem, state, slacks):
        held.append(refs[-1]() is not None or problem._plane is not None)

    monkeypatch.setattr(Proximal, "solution", spy)
    monkeypatch.setattr(Proximal, "learn", learn)
    X, y = wide_rows()
    problem = problem_of(X, y)
    train(problem, Proximal(), tol=1e-5, max_passes=40, random_state=0, certify_every=1)
    assert held and not any(held)
