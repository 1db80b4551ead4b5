"""The driver's small problem, and steps that are asked for twice or in the wrong place."""

import pickle
import tracemalloc

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import maxmargin as mm
from maxmargin import models
from maxmargin.cluster import worker
from maxmargin.cluster.bundle import Bundle, mixture
from maxmargin.cluster.worker import CURRENT, FROZEN, Answer, Job, Missing, Order, Point
from maxmargin.problem.plane import compact, with_zeros
from maxmargin.problem.regularizer import Prior, SquaredNorm
from maxmargin.solvers import Proximal

D = 4


def answer(rng, version=1, fresh=False):
    points = [Point(float(rng.random()), rng.normal(size=D)) for _ in range(3)]
    return Answer(version, "", fresh, 0.0, 0.0, *points, 0, 0)


@pytest.mark.parametrize("n", [1, 3, 8])
@pytest.mark.parametrize("rank", [2, 30])
def test_the_best_mixture_is_that_of_a_dense_solver(n, rank, seed):
    import cvxpy

    rng = np.random.default_rng([seed, n, rank])
    sizes = rng.integers(1, 7, n)
    groups = np.split(np.arange(sizes.sum()), np.cumsum(sizes)[:-1])
    V, b = rng.normal(size=(sizes.sum(), rank)), rng.normal(size=sizes.sum())
    start = np.concatenate([np.eye(size)[0] for size in sizes])
    beta = mixture(V @ V.T, b, start.copy(), groups, 1e-10)
    x = cvxpy.Variable(len(b), nonneg=True)
    simplices = [cvxpy.sum(x[own]) == 1 for own in groups]
    best = cvxpy.Problem(cvxpy.Maximize(b @ x - cvxpy.sum_squares(V.T @ x) / 2), simplices).solve(
        solver="CLARABEL"
    )
    assert (beta >= 0).all()
    assert [beta[own].sum() for own in groups] == pytest.approx([1.0] * n)
    assert b @ beta - 0.5 * np.sum((V.T @ beta) ** 2) == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("prior", [False, True])
def test_what_a_part_is_at_does_not_change_when_it_is_mixed_or_lost(prior, seed):
    rng = np.random.default_rng(seed)
    regularizer = SquaredNorm(np.asarray)
    if prior:
        regularizer = Prior(rng.normal(size=D), rng.uniform(0.5, 2, D))
    bundle, z, duals = Bundle(regularizer, 2, D, older=3), rng.normal(size=D), []
    for version in range(1, 9):
        for part in range(2):
            at = bundle.at(part)
            shares, keep, pull = bundle.order(part)
            assert len(keep) <= 3 and sum(shares.values()) == pytest.approx(1.0)
            assert bundle.at(part)[1] == pytest.approx(at[1])
            assert (pull is None) == (bundle.beta[part, 1] == 0)
        lost = version == 5
        q, found = bundle.q(), bundle.dual(bundle.q())
        current = {k: with_zeros(bundle.vectors[k * bundle.width]) for k in range(2)}
        made = {k: answer(rng, version, fresh=lost and k == 0) for k in range(2)}
        made = {
            k: Answer(
                *(version, "", own.fresh, 0.0, 0.0),
                own.current if own.fresh else Point(bundle.offsets[k, 0], current[k]),
                *(own.proposal, own.cut, 0, 0),
            )
            for k, own in made.items()
        }
        bundle.receive(made)
        assert bundle.q() == pytest.approx(q) and bundle.dual(bundle.q()) == pytest.approx(found)
        assert bundle.frozen == (lost or (bundle.numbers[0, 1] == FROZEN and bundle.beta[0, 1] > 0))
        vectors = np.stack([with_zeros(v) for v in bundle.vectors])
        expected = vectors @ np.stack([regularizer.image(v) for v in vectors]).T
        used = np.flatnonzero(bundle.numbers.ravel() != -3)
        np.testing.assert_allclose(
            bundle.gram[np.ix_(used, used)], expected[np.ix_(used, used)], atol=1e-12
        )
        bundle.solve([0, 1], 0.0, z, 1e-10)
        duals.append(bundle.dual(bundle.q()))
    assert (np.diff(duals) >= -1e-9).all()  # without a proximal term the mixture never loses
    bundle.thaw()
    assert not bundle.frozen and bundle.beta.sum(axis=1) == pytest.approx([1.0, 1.0])


def test_a_step_is_made_once(monkeypatch, seed):
    monkeypatch.setattr(worker, "here", lambda: "here")
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(12, 3)), np.arange(12) % 3
    svm = mm.StructuralSVM(models.Multiclass())
    svm.model_ = models.Multiclass()
    svm.model_.initialize(X, y)
    job, data, w = Job("run", svm, Proximal(), 2, 0), (X, y, None), rng.normal(size=9)
    try:
        worker.start(job, 0, data)
        first = worker.step(job, Order(0, 1, {CURRENT: 1.0}, (), 2.0, 1e-3), data, w)
        assert worker.step(job, Order(0, 1, {CURRENT: 1.0}, (), 2.0, 1e-3), data, w) is first
        # The one after the next cannot be made, nor one of a worker that has never seen the part.
        assert isinstance(
            worker.step(job, Order(0, 3, {CURRENT: 1.0}, (), 2.0, 1e-3), data, w), Missing
        )
        assert isinstance(
            worker.step(job, Order(1, 2, {CURRENT: 1.0}, (), 2.0, 1e-3), data, w), Missing
        )
        second = worker.step(job, Order(0, 2, {2: 0.5, 3: 0.5}, (2,), 2.0, 1e-3), data, w)
        middle = (first.proposal.dense + first.cut.dense) / 2
        np.testing.assert_allclose(second.current.dense, middle, atol=1e-12)
        assert second.current.offset == pytest.approx(
            (first.proposal.offset + first.cut.offset) / 2
        )
        again = worker.step(job, Order(0, 9, {4: 1.0}, (2,), 2.0, 1e-3, restart=True), data, w)
        assert again.fresh and not again.current.dense.any()
        # Each point bounds the risk from below, and the cut meets it.
        for point in (first.proposal, first.cut, second.current):
            assert point.offset - w @ point.dense <= first.risk + 1e-9
        assert first.cut.offset - w @ first.cut.dense == pytest.approx(first.risk)
    finally:
        worker.forget("run")
    assert not worker.STATES


def test_the_driver_keeps_sparse_points_sparse(seed):
    """A million weights, of which each point has few: no table of dense rows, and no dense w on the wire."""
    d, rng = 10**6, np.random.default_rng(seed)

    def point():
        q = np.zeros(d)
        q[rng.integers(0, d, 50)] = rng.normal(size=50)
        return Point(float(rng.random()), compact(q))

    tracemalloc.start()
    try:
        bundle = Bundle(SquaredNorm(np.asarray), 2, d, older=30)
        for version in range(1, 5):
            for part in range(2):
                bundle.order(part)
            made = {
                k: Answer(version, "", False, 0.0, 0.0, *(point() for _ in range(3)), 0, 0)
                for k in range(2)
            }
            bundle.receive(made)
            bundle.solve([0, 1], 1.0, np.zeros(d), 1e-10)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * 8 * d  # the table was of 68 rows
    assert len(pickle.dumps(compact(bundle.weights(1.0, np.zeros(d), bundle.q())))) < d


def test_steps_keep_blas_to_the_threads_of_the_estimator(monkeypatch):
    seen = []

    def spy(*args):
        seen.extend(own["num_threads"] for own in threadpool_info() if own["user_api"] == "blas")

    monkeypatch.setattr(worker, "obey", spy)
    svm = mm.StructuralSVM(models.Multiclass())
    job = Job("run", svm, Proximal(), 2, 0)
    worker.STATES["run", 0] = worker.WorkerPart(None)
    try:
        with threadpool_limits(2, user_api="blas"):
            worker.step(job, Order(0, 1, {CURRENT: 1.0}, (), 2.0, 1e-3), None, np.zeros(3))
    finally:
        worker.forget("run")
    assert set(seen) == {1}
