"""A child made by fork() does not have the threads of its parent, and must not wait for them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

WATCHDOG = 300  # seconds: kills a process that waits for ever, and is no limit of speed

COMMON = """
import os, signal, threading, traceback, warnings
import numpy as np
import maxmargin as mm
from maxmargin import models
from maxmargin.data.synthetic import random_chains, random_multiclass
warnings.simplefilter("ignore")

def forked(work):
    # The exit status of a child that does this work.
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

X, Y = random_chains(200, 5, 6, max_length=8, random_state=0)

def chain(**options):
    settings = {"tol": 1e-3, "n_jobs": 4, "random_state": 0} | options
    return mm.StructuralSVM(models.Chain(), **settings)

def fit_and_use():
    svm = chain().fit(X, Y)
    assert svm.certificate_.converged
    svm.predict(X)
    mm.certify(svm, X, Y)

fit_and_use()  # imports what is needed: a child may not import what another thread was importing
"""


def ends(code):
    """Run a script in a process group of its own, and kill the group if the script does not end."""
    process = subprocess.Popen(
        [sys.executable, "-c", COMMON + code],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "MAXMARGIN_CORES": "4"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        told, errors = process.communicate(timeout=WATCHDOG)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail(f"a process waits for ever: {process.communicate()[1]}")
    assert process.returncode == 0, errors
    return told.split()


def test_a_child_forked_during_a_fit_in_another_thread_fits_too():
    assert (
        ends("""
stop = threading.Event()
def train():
    while not stop.is_set():
        chain(tol=1e-9, max_passes=20).fit(X, Y)
other = threading.Thread(target=train)
other.start()
print(*[forked(fit_and_use) for _ in range(4)])
stop.set()
other.join()
""")
        == ["0"] * 4
    )


CALLBACK = """
class Forks(mm.callbacks.Callback):
    child = None
    def on_step(self, info):
        if self.child is None:
            self.child = os.fork()
forks = Forks()

def tell(svm):
    line = f"{svm.certificate_.status} {svm.certificate_.primal}\\n"
    os.write(1, line.encode())  # at once: parent and child write to one pipe
    if forks.child == 0:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(forks.child, 0)[1]) == 0
"""


def test_parent_and_child_go_on_with_a_fit_that_was_forked_between_two_passes():
    said = ends(CALLBACK + "tell(chain(tol=1e-6).fit(X, Y, callbacks=[forks]))")
    assert said[:2] == said[2:] and said[0] == "solved"


def test_parent_and_child_go_on_with_an_oracle_in_python():
    said = ends(
        CALLBACK
        + """
from tests.reference.python_chain import PythonMulticlass
rows, labels = random_multiclass(60, 3, 4, random_state=0)
model = PythonMulticlass(1.0 - np.eye(3))
tell(mm.StructuralSVM(model, n_jobs=3, random_state=0).fit(rows, labels, callbacks=[forks]))
"""
    )
    assert said[:2] == said[2:] and said[0] == "solved"


def test_a_child_goes_on_from_the_solution_of_its_parent():
    code = """
svm = chain(warm_start=True).fit(X, Y)
again = lambda: svm.set_params(C=2.0).fit(X, Y)
print(forked(again), forked(again))
again()
"""
    assert ends(code) == ["0", "0"]


def test_a_pass_ends_with_an_error_in_a_child_that_a_signal_handler_forks():
    code = """
rows = np.random.default_rng(0).normal(size=(10_000, 200)).astype(np.float32)
svm = mm.StructuralSVM(models.Multiclass(), tol=1e9, n_jobs=4)
svm.fit(rows[:1000], np.arange(1000))
parent, children, statuses = os.getpid(), [], []
signal.signal(signal.SIGALRM, lambda *_: children.append(os.fork()))
while 7 not in statuses and len(statuses) < 20:
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    children.clear()
    while not children:
        try:
            svm.predict(rows)
        except RuntimeError as error:
            assert os.getpid() != parent and "forked inside a pass" in str(error)
            os._exit(7)
    if os.getpid() != parent:
        os._exit(0)  # the handler ran between two passes
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
print(*set(statuses) - {0})
"""
    assert ends(code) == ["7"]


def test_a_fit_ends_with_an_error_in_a_child_that_a_signal_handler_forks():
    code = """
rows = np.random.default_rng(0).normal(size=(10_000, 200))
y = np.arange(10_000) % 200
settings = {"solver": "sda", "C": 1e-3, "max_passes": 2, "n_jobs": 4}
parent, children, statuses = os.getpid(), [], []
signal.signal(signal.SIGALRM, lambda *_: children.append(os.fork()))
while 7 not in statuses and len(statuses) < 20:
    children.clear()
    signal.setitimer(signal.ITIMER_REAL, 0.1 + 0.02 * len(statuses))
    while not children:
        try:
            mm.StructuralSVM(models.Multiclass(), **settings).fit(rows, y)
        except RuntimeError as error:
            assert os.getpid() != parent and "forked inside a pass" in str(error)
            os._exit(7)
    if os.getpid() != parent:
        os._exit(0)  # the handler ran between two passes
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
print(*set(statuses) - {0})
"""
    assert ends(code) == ["7"]
