"""A deadline or Ctrl-C can end a pass in the middle, and training keeps the progress."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest

import maxmargin as mm
from helpers import EVERY, quietly
from maxmargin import models, solvers
from maxmargin._core import core
from maxmargin.data.synthetic import random_chains
from maxmargin.problem import Problem
from maxmargin.runtime.deadline import TimeUp, deadline
from maxmargin.runtime.executor import Threads
from maxmargin.solvers.dual_state import open_state
from reference.python_chain import PythonMulticlass

PROJECTION = """
import numpy as np, maxmargin as mm
for seed in range({seed}, {seed} + 300):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 2, size=(24, 1)).astype(float), np.arange(24) % 3
    mm.MulticlassSVC(C=22.7, solver="dual-coordinate", max_passes=30).fit(X, y)
"""


def test_the_projection_onto_the_simplex_ends(seed):
    """Regression: rounding made the projection drop an entry and add it again, forever."""
    code = "import warnings; warnings.simplefilter('ignore')" + PROJECTION.format(seed=seed)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


@cache
def long_chains(n=400):
    """Return chains whose passes take much longer than one check of the clock."""
    return random_chains(n, 20, 60, min_length=40, max_length=60, random_state=0)


def started(n=400, copies=1):
    """Return a problem and its state before the first pass."""
    model = models.Chain()
    X, Y = (copies * part for part in long_chains(n))
    model.initialize(X, Y)
    problem = Problem(model.bind(X, Y), C=1.0)
    return problem, open_state(problem, 1e-3, np.random.default_rng(0))


def visited(state):
    """Return the number of blocks that store more than their true output."""
    return int((state.core.usage()[0] > 0).sum())


@pytest.mark.parametrize("threads", [1, 2])
def test_a_deadline_ends_a_pass_between_two_visits(threads):
    problem, state = started()
    with pytest.raises(TimeUp), deadline(1e-3):
        state.visit(problem.active, threads=threads)
    # Completed visits count: the law holds (threads may lose updates), and the state can continue.
    # The length of the first pass depends on the machine; a whole pass leaves about a fifth of the
    # blocks satisfied.
    if threads == 1:
        np.testing.assert_allclose(state.core.weights(False), state.core.weights(True), atol=1e-9)
    state.visit(problem.active, threads=threads)
    assert visited(state) > problem.n_blocks / 2


def test_a_deadline_is_over_when_its_block_is():
    with deadline(0.0):
        pass
    problem, state = started(20)
    state.visit(problem.active)
    with pytest.raises(TimeUp), deadline(0.0), deadline(1000.0):  # the earlier deadline applies
        state.visit(problem.active)


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_pass_between_two_visits(threads):
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread alone")
    problem, state = started(4000, copies=10)  # the pass checks for signals every 50 ms
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyboardInterrupt):
            state.visit(problem.active, threads=threads)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert visited(state) < problem.n_blocks  # the receiving thread may be late


@pytest.mark.parametrize("name", sorted(EVERY))
def test_the_time_limit_holds_inside_a_step_of_every_solver(name):
    X, Y = long_chains(300)
    svm = mm.StructuralSVM(models.Chain(), C=1.0, solver=EVERY[name](), max_seconds=1e-3, tol=1e-6)
    certificate = quietly(lambda: svm.fit(X, Y)).certificate_
    assert certificate.status == "time limit" and not certificate.converged
    assert certificate.passes <= 1.5  # the exact pass, and less than one pass before it
    again = mm.certify(svm, X, Y)
    assert certificate.primal == pytest.approx(again.primal, rel=1e-9)
    assert certificate.dual == pytest.approx(again.dual, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("solver", ["dual-coordinate", "sdcd", "one-slack", "n-slack"])
@pytest.mark.parametrize("hinge", ["max", "sum"])
def test_the_time_limit_holds_for_flat_outputs(solver, hinge, generator):
    if (solver == "sdcd") != (hinge == "sum") and solver in ("sdcd", "dual-coordinate"):
        pytest.skip("not this hinge")
    X, y = generator.normal(size=(30_000, 30)), np.arange(30_000) % 50
    svm = mm.StructuralSVM(
        models.Multiclass(), hinge=hinge, solver=solver, max_seconds=1e-3, tol=1e-6
    )
    certificate = quietly(lambda: svm.fit(X, y)).certificate_
    assert certificate.status == "time limit"
    assert certificate.primal == pytest.approx(mm.certify(svm, X, y).primal, rel=1e-9)


class Slow(PythonMulticlass):
    """A slow oracle that counts its calls."""

    calls, pause = 0, 0.005

    def loss_augmented_inference(self, x, y, w):
        type(self).calls += 1
        time.sleep(type(self).pause)
        return super().loss_augmented_inference(x, y, w)


@pytest.mark.parametrize("solver", ["auto", "one-slack", "subgradient"])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_the_time_limit_holds_between_two_calls_of_an_own_oracle(solver, n_jobs, generator):
    X, y = generator.normal(size=(400, 3)), np.arange(400) % 3
    Slow.calls, Slow.pause = 0, 0.005

    class Quick(mm.callbacks.Callback):
        """Removes the pause soon after the start, so that the exact pass is short."""

        def on_start(self, progress):
            threading.Timer(0.12, lambda: setattr(Slow, "pause", 0.0)).start()

    svm = mm.StructuralSVM(Slow(1.0 - np.eye(3)), solver=solver, max_seconds=0.03, n_jobs=n_jobs)
    quietly(lambda: svm.fit(X, y, callbacks=[Quick()]))
    assert svm.certificate_.status == "time limit"
    assert svm.certificate_.oracle_calls < 500  # an exact pass, and a trial at the start


def test_no_poll_without_a_deadline_ends_anything():
    for _ in range(1000):
        core.poll()


def test_solvers_with_options_of_their_own_stop_as_well():
    X, Y = long_chains(300)
    for solver in (solvers.Gdmm(), solvers.Fasole(reduced="sweeps"), solvers.BCFW(averaging=True)):
        svm = mm.StructuralSVM(models.Chain(), solver=solver, max_seconds=1e-3, tol=1e-6)
        assert quietly(lambda s=svm: s.fit(X, Y)).certificate_.status == "time limit"


class Interrupted(ThreadPoolExecutor):
    """Raises Ctrl-C while work is submitted; asking it again would deadlock."""

    asked = 0

    def submit(self, *work):
        self.asked += 1
        if self.asked == 15:
            raise KeyboardInterrupt
        assert self.asked < 15, "asked again"
        return super().submit(*work)


@pytest.mark.parametrize("solver", ["auto", "one-slack"])
def test_an_executor_that_was_interrupted_is_not_asked_again(solver, generator):
    X, y = generator.normal(size=(60, 3)), np.arange(60) % 3
    with Interrupted(2) as pool:
        model = PythonMulticlass(1.0 - np.eye(3))
        svm = mm.StructuralSVM(model, solver=solver, n_jobs=pool, tol=1e-9)
        quietly(lambda: svm.fit(X, y))
    assert svm.certificate_.status == "interrupted" and pool.asked == 15
    assert svm.certificate_.primal == pytest.approx(mm.certify(svm, X, y).primal)


def test_threads_answer_in_order_and_tell_errors():
    threads = Threads(3)
    try:
        assert threads.map(lambda k: k * k, [(k,) for k in range(50)]) == [k * k for k in range(50)]
        with pytest.raises(ZeroDivisionError):
            threads.map(lambda k: 1 // k, [(1,), (0,), (2,)])
        with pytest.raises(TimeUp), deadline(0.01):
            threads.map(time.sleep, [(0.5,)])
        assert threads.map(str, [(1,)]) == ["1"]
    finally:
        threads.close()
