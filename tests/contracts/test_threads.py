"""Threads with a replica of w each: reproducible bits, no lost update, the optimum of one thread."""

import os

import numpy as np
import pytest
import scipy.sparse as sp

import maxmargin as mm
from maxmargin import models, solvers
from maxmargin.problem import Problem
from maxmargin.runtime.deadline import TimeUp, deadline
from maxmargin.solvers import dual_state
from maxmargin.solvers.dual_state import open_state
from reference.cases import fresh
from reference.strategies import SEED


@pytest.fixture(autouse=True)
def many_cores(monkeypatch):
    """Let a machine of few cores run the passes of a large one."""
    monkeypatch.setattr(dual_state.core, "usable_cores", lambda: 64)


def sequences(generator, n, d=30, labels=8):
    """Return chains whose labels the inputs determine only in part."""
    directions = generator.normal(size=(labels, d))
    Y = [generator.integers(labels, size=int(generator.integers(2, 7))) for _ in range(n)]
    return [directions[y] + generator.normal(size=(len(y), d)) for y in Y], Y


def rows(generator, n, d=150, labels=8):
    """Return rows with the given number of classes."""
    y = generator.integers(labels, size=n)
    return generator.normal(size=(labels, d))[y] + generator.normal(size=(n, d)), y


def tasks(n=160):
    """Return models with compiled states of their own, and one that uses virtual calls."""
    generator = fresh(SEED, 11)
    X, Y = sequences(generator, n)
    flat, y = rows(generator, n)
    sets = (generator.random((n, 3)) < 0.4).astype(int)
    return {
        "chain": (models.Chain(), X, Y),
        "chain-sparse": (models.Chain(start=True), [sp.csr_matrix(x) for x in X], Y),
        "multiclass": (models.Multiclass(), flat, y),
        "multilabel": (models.MultiLabel(), flat, sets),
    }


TASKS = list(tasks(8))
SOLVERS = {
    "proximal": solvers.Proximal,
    "proximal-double": lambda: solvers.Proximal(precision="double"),
    "sda": solvers.SDA,
    "bcfw": solvers.BCFW,
}


@pytest.fixture(scope="module")
def given():
    return tasks()


def fitted(task, solver, n_jobs, tol):
    model, X, Y = task
    settings = {"C": 0.05, "tol": tol, "random_state": 0, "max_passes": 2000}
    return mm.StructuralSVM(model, solver=SOLVERS[solver](), n_jobs=n_jobs, **settings).fit(X, Y)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", TASKS)
def test_the_same_bits_for_as_many_threads_and_the_optimum_of_one(given, name, solver):
    tol = 5e-3 if solver == "bcfw" else 1e-4  # BCFW converges slowly
    one = fitted(given[name], solver, 1, tol).certificate_
    for n_jobs in (2, 3):
        left, right = (fitted(given[name], solver, n_jobs, tol) for _ in range(2))
        assert left.coef_.tobytes() == right.coef_.tobytes()
        found = left.certificate_
        assert found.converged
        assert found.dual <= found.primal
        assert found.dual <= one.primal * (1 + 1e-9) and one.dual <= found.primal * (1 + 1e-9)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
@pytest.mark.parametrize("name", ["chain", "multiclass"])
def test_threads_that_share_a_core_stand_in_for_each_other(given, name):
    """The result does not depend on which thread runs a worker."""
    before = os.sched_getaffinity(0)
    free = fitted(given[name], "proximal", 3, 1e-4)
    try:
        os.sched_setaffinity(0, {min(before)})
        bound = fitted(given[name], "proximal", 3, 1e-4)
    finally:
        os.sched_setaffinity(0, before)
    assert free.coef_.tobytes() == bound.coef_.tobytes()
    assert free.certificate_.oracle_calls == bound.certificate_.oracle_calls


@pytest.mark.parametrize("labels, alike", [(4, True), (70, False)])
def test_one_thread_visits_where_updates_touch_as_much_as_visits(labels, alike):
    """Passes use one thread for few classes if w exceeds a cache, but not for long rows of many classes."""
    generator = fresh(SEED, 14)
    n, d = 200, 400_000 if alike else 5000
    X = sp.random(n, d, 40 / d, "csr", dtype=np.float32, random_state=generator)
    y = np.concatenate([np.arange(labels), generator.integers(labels, size=n - labels)])
    # The rule "mvp" avoids the compiled rounds, which have one thread and need wss2.
    settings = {"C": 1.0, "tol": 1e-3, "solver": solvers.Proximal(rule="mvp"), "random_state": 0}
    one, two = (mm.MulticlassSVC(n_jobs=k, **settings).fit(X, y) for k in (1, 2))
    assert (one.coef_.tobytes() == two.coef_.tobytes()) == alike
    assert two.certificate_.converged and one.certificate_.dual <= two.certificate_.primal


def state_of(task, C=0.05, single=False):
    model, X, Y = task
    model.initialize(X, Y)
    problem = Problem(model.bind(X, Y), C=C)
    return problem, open_state(problem, 1e-6, np.random.default_rng(0), single=single)


@pytest.mark.parametrize("rule", ["wss2", "mvp", "frank-wolfe"])
@pytest.mark.parametrize("threads", [2, 3, 5])
@pytest.mark.parametrize("name", TASKS)
def test_no_update_is_lost(given, name, threads, rule):
    problem, state = state_of(given[name])
    order = np.random.default_rng(1).permutation(problem.active)
    for oracle in (True, False, True, False, False):
        state.visit(order, rule=rule, oracle=oracle, threads=threads)
        np.testing.assert_allclose(
            state.core.weights(False), state.core.weights(True), rtol=1e-9, atol=1e-10
        )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_copy_of_the_process_goes_on_without_the_helpers(given):
    """The helper threads wait in the process that started them; a forked copy has none of them."""
    problem, state = state_of(given["chain"])
    order = np.random.default_rng(1).permutation(problem.active)
    state.visit(order, threads=3)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        state.visit(order, threads=3)
        os.write(writer, state.core.weights(False)[:8].tobytes())
        os._exit(0)
    os.close(writer)
    state.visit(order, threads=3)
    with os.fdopen(reader, "rb") as stream:
        assert stream.read() == state.core.weights(False)[:8].tobytes()
    assert os.waitpid(child, 0)[1] == 0


def test_helpers_serve_passes_of_any_number_of_threads(given):
    """More helpers start if more threads are requested; surplus helpers stay idle."""
    problem, state = state_of(given["chain"])
    other = state_of(given["chain"])[1]
    order = np.random.default_rng(1).permutation(problem.active)
    for threads in (2, 5, 3, 1, 2, 4):
        for one in (state, other):
            one.visit(order, threads=threads)
        assert state.core.weights(False).tobytes() == other.core.weights(False).tobytes()
        np.testing.assert_allclose(
            state.core.weights(False), state.core.weights(True), rtol=1e-9, atol=1e-10
        )


def test_threads_do_change_the_order_of_updates(given):
    """If threads did not change the order, the tests above would show nothing."""
    found = []
    for threads in (1, 2, 3):
        problem, state = state_of(given["chain"])
        state.visit(problem.active, threads=threads)
        found.append(state.weights())
    assert not np.array_equal(found[0], found[1]) and not np.array_equal(found[1], found[2])


@pytest.mark.parametrize("threads", [2, 4])
def test_a_pass_that_ends_at_its_deadline_leaves_a_whole_state(threads):
    generator = fresh(SEED, 12)
    X, Y = sequences(generator, 20_000)
    problem, state = state_of((models.Chain(), X, Y))
    for attempt in range(12):  # a busy machine may not even start in a short time
        with pytest.raises(TimeUp), deadline(2e-3 * 2**attempt):
            while True:
                state.visit(problem.active, threads=threads)
        running = state.core.weights(False)
        np.testing.assert_allclose(running, state.core.weights(True), rtol=1e-8, atol=1e-9)
        if running.any():
            break
    assert running.any()
    before = problem.dual_objective(state.support())
    state.visit(problem.active)
    assert problem.dual_objective(state.support()) >= before


def proximal_dual(problem, state, center):
    """D(a) of the problem with the term k/2 |w - center|^2, from the multipliers alone."""
    k = state.core.proximity
    offset, vector = problem.plane(state.support())[:2]
    w = (k * center - vector) / (1 + k)
    return offset - (1 + k) / 2 * w @ w + k / 2 * center @ center


def overshooting():
    """Return blocks that share all features, so that steps made at one w add up in one direction."""
    generator = fresh(SEED, 15)
    n = 1500
    X, Y = sequences(generator, n, d=10, labels=16)
    positive = (models.Multiclass(), generator.random((n, 250)) + 1, generator.integers(4, size=n))
    same = (models.Multiclass(), np.ones((n, 250)), generator.integers(4, size=n))
    return {"chain": (models.Chain(), X, Y), "positive": positive, "same": same}


@pytest.fixture(scope="module")
def hard():
    return overshooting()


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("k", [0.0, 50.0])
@pytest.mark.parametrize("threads", [2, 8, 64])
@pytest.mark.parametrize("name", list(overshooting()))
def test_the_dual_never_falls_over_a_pass(hard, name, threads, k, single):
    """This also holds if outputs are dropped, or if the number of updates in flight changes."""
    problem, state = state_of(hard[name], C=1.0, single=single)
    generator, center = np.random.default_rng(1), np.zeros(problem.dimension)
    state.core.recenter(0.0, k)
    rounding = 1e-6 if single else 1e-12
    before = proximal_dual(problem, state, center)
    for number in range(9):
        order = generator.permutation(problem.active)
        rule = ("wss2", "mvp", "frank-wolfe")[number % 3]
        visit = state.visit(order, rule=rule, oracle=number % 4 != 3, threads=threads, keep=2)
        after = proximal_dual(problem, state, center)
        assert after >= before - rounding * abs(after)
        assert visit.gain == pytest.approx(after - before, rel=1e-4, abs=10 * rounding * after)
        sums = np.bincount(state.support().blocks, state.support().multipliers, problem.n_blocks)
        np.testing.assert_allclose(sums, problem.mass, rtol=1e-9)
        before = after
    running = state.core.weights(False)
    np.testing.assert_allclose(running, state.weights(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n_jobs", [2, 4, 8, 16, 64])
@pytest.mark.parametrize("solver", ["proximal", "sda", "fasole"])
def test_threads_take_few_more_passes_than_one(hard, solver, n_jobs):
    """The problem has few features, so without a limit on updates in flight many threads would diverge."""
    _, X, Y = hard["chain"]
    settings = {"C": 0.1, "tol": 2e-2, "solver": solver, "random_state": 0, "max_passes": 100}
    one, many = (
        mm.StructuralSVM(models.Chain(), n_jobs=k, **settings).fit(X, Y).certificate_
        for k in (1, n_jobs)
    )
    assert many.converged
    assert many.oracle_calls < 1.5 * one.oracle_calls


def test_short_visits_stay_on_one_thread():
    """A short visit takes less time than another core needs to read the update before it."""
    generator = fresh(SEED, 16)
    task = (models.Multiclass(), *rows(generator, 500, d=4, labels=4))
    (problem, one), (_, two) = state_of(task), state_of(task)
    one.visit(problem.active, threads=1)
    two.visit(problem.active, threads=2)
    assert one.weights().tobytes() == two.weights().tobytes()


def test_no_more_threads_than_cores(given, monkeypatch):
    problem, one = state_of(given["chain"])
    one.visit(problem.active, threads=1)
    monkeypatch.setattr(dual_state.core, "usable_cores", lambda: 1)
    bounded = state_of(given["chain"])[1]
    bounded.visit(problem.active, threads=64)
    assert one.weights().tobytes() == bounded.weights().tobytes()


@pytest.mark.parametrize("room, like", [(0, 1), (1, 2), (2, 3)])
def test_as_many_threads_as_copies_of_w_have_room(given, monkeypatch, room, like):
    problem, state = state_of(given["chain"])
    state.visit(problem.active, threads=like)
    monkeypatch.setattr(dual_state, "COPIES_BYTES", room * 8 * problem.dimension)
    problem, bounded = state_of(given["chain"])
    bounded.visit(problem.active, threads=3)
    assert state.weights().tobytes() == bounded.weights().tobytes()


def test_a_prior_is_for_one_thread(given):
    model, X, Y = given["multiclass"]
    model.initialize(X, Y)
    scale = np.linspace(0.5, 2.0, model.size_joint_feature)
    settings = {"tol": 1e-4, "random_state": 0, "prior": (0.0, scale), "solver": "proximal"}
    one, two = (mm.StructuralSVM(model, n_jobs=k, **settings).fit(X, Y) for k in (1, 2))
    assert one.coef_.tobytes() == two.coef_.tobytes()


def test_weights_that_threads_copy_are_the_same_bits():
    # Each of two threads owns some of the many weights, and the orders inside and outside the core differ.
    generator, labels, d = fresh(SEED, 12), 11, 50_000
    X = [sp.random(5, d, density=1e-3, format="csr", random_state=generator) for _ in range(40)]
    Y = [generator.integers(labels, size=5) for _ in X]
    model = models.Chain(start=True, end=True)
    model.initialize(X, Y)
    problem = Problem(model.bind(X, Y), C=1.0)
    examples, w = problem.examples, generator.normal(size=problem.dimension)
    state = open_state(problem, 1e-3, np.random.default_rng(0))
    state.visit(problem.active)
    support, one = state.support(), state.weights()
    state.visit(problem.active[:0], threads=2)  # operations on all of w use two threads from now on
    assert (state.weights() == one).all() and one.any()
    assert (examples.slacks(w, 1)[0] == examples.slacks(w, 2)[0]).all()
    sums = [
        examples.combine(support.blocks, support.multipliers, support.outputs, n) for n in (1, 2)
    ]
    assert sums[0][0] == sums[1][0] and (sums[0][1] == sums[1][1]).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_what_was_measured_of_w_is_measured_again_when_it_has_changed(given, threads):
    model, X, Y = given["chain"]
    model.initialize(X, Y)
    problem = Problem(model.bind(X, Y), C=1.0)
    state = open_state(problem, 1e-3, np.random.default_rng(0))
    changes = [
        lambda: state.visit(problem.active, threads=threads),
        lambda: state.core.recenter(0.4, 0.5),
        lambda: state.visit(problem.active[::2], oracle=False, threads=threads),
        lambda: state.core.recenter(0.4, 0.25),
        lambda: state.restore(state.support()),
        state.refresh,
    ]
    state.core.recenter(0.0, 1.0)
    for change in changes:
        state.lag(), state.dual()
        change()
        w = state.core.weights(False)
        k, q = state.core.proximity, -problem.plane(state.support())[1]
        assert state.dual() == pytest.approx(problem.dual_objective(state.support()), rel=1e-5)
        # w = (q + k z) / (1 + k), hence w - z = (q - w) / k
        assert state.core.squared_distance() == pytest.approx(
            float(((q - w) / k) @ ((q - w) / k)), rel=1e-4
        )


def test_replicas_of_a_large_w_have_all_moves():
    # Each worker copies its part of w; new centres and single-threaded passes make replicas stale.
    generator, labels, d = fresh(SEED, 13), 11, 100_000
    X = [sp.random(5, d, density=1e-3, format="csr", random_state=generator) for _ in range(60)]
    Y = [generator.integers(labels, size=5) for _ in X]
    model = models.Chain()
    model.initialize(X, Y)
    problem = Problem(model.bind(X, Y), C=1.0)
    ended = []
    for _ in range(2):
        state = open_state(problem, 1e-3, np.random.default_rng(0))
        for number in range(11):
            if number % 4 == 2:
                state.core.recenter(0.4, 0.5)
            state.visit(problem.active, oracle=number % 3 == 0, threads=1 if number == 7 else 2)
            np.testing.assert_allclose(state.core.weights(False), state.weights(), atol=1e-9)
        ended.append(state.core.weights(False))
    assert (ended[0] == ended[1]).all() and ended[0].any()
