"""A number of jobs far above the cores: no more threads than cores, the same result, nothing left behind."""

import _thread
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import maxmargin as mm
from helpers import quietly
from maxmargin import models
from maxmargin.data.synthetic import random_chains
from maxmargin.runtime import executor
from maxmargin.runtime.executor import Threads

FITS = """
import os, resource, warnings
import numpy as np
import maxmargin as mm
from maxmargin import models
from maxmargin.data.synthetic import random_chains
from tests.reference.python_chain import PythonMulticlass
warnings.simplefilter("ignore")
resource.setrlimit(resource.RLIMIT_AS, (2_500_000_000, 2_500_000_000))
X, Y = random_chains(200, 5, 6, random_state=0)
svm = mm.StructuralSVM(models.Chain(), solver="one-slack", n_jobs=500, max_passes=9).fit(X, Y)
svm.predict(X)
rows = np.random.default_rng(0).normal(size=(60, 3))
own = PythonMulticlass(1.0 - np.eye(3))
mm.StructuralSVM(own, n_jobs=500, max_passes=9).fit(rows, np.arange(60) % 3)
print("fitted")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs the limit of address space of Linux")
def test_five_hundred_jobs_fit_into_little_address_space():
    environment = {**os.environ, "MAXMARGIN_CORES": "2"}
    told = subprocess.run(
        [sys.executable, "-c", FITS],
        cwd=Path(__file__).parents[2],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0 and told.stdout == "fitted\n", told.stderr


@pytest.mark.parametrize("given", [0, 1, 3])
def test_what_the_system_gives_of_threads_is_enough(given, monkeypatch):
    started = []

    def start(*task):
        if len(started) == given:
            raise RuntimeError("can't start new thread")
        started.append(_thread.start_new_thread(*task))

    monkeypatch.setattr(executor, "start_new_thread", start)
    monkeypatch.setattr(executor, "usable_cores", lambda: 8)
    threads = Threads(5000)
    try:
        assert threads.started == given and threads.count == 5000
        assert threads.map(lambda k: k * k, [(k,) for k in range(50)]) == [k * k for k in range(50)]
        with pytest.raises(ZeroDivisionError):
            threads.map(lambda k: 1 // k, [(1,), (0,), (2,)])
    finally:
        threads.close()


def test_no_thread_stays_if_starting_them_is_interrupted(monkeypatch):
    before = _thread._count()
    started = []

    def start(*task):
        if len(started) == 3:
            raise KeyboardInterrupt
        started.append(_thread.start_new_thread(*task))

    monkeypatch.setattr(executor, "start_new_thread", start)
    monkeypatch.setattr(executor, "usable_cores", lambda: 8)
    with pytest.raises(KeyboardInterrupt):
        Threads(5000)
    while _thread._count() > before:  # a thread that waits for work never ends
        time.sleep(0.01)


def test_sums_of_exact_passes_depend_on_the_jobs_and_not_on_the_cores():
    code = """
import warnings
import maxmargin as mm
from maxmargin import models
from maxmargin.data.synthetic import random_chains
warnings.simplefilter("ignore")
X, Y = random_chains(80, 5, 6, random_state=0)
options = {"n_jobs": 7, "max_passes": 5, "random_state": 0}
for hinge, solver in (("max", "one-slack"), ("sum", "one-slack")):
    svm = mm.StructuralSVM(models.Chain(), solver=solver, hinge=hinge, **options).fit(X, Y)
    print(svm.coef_.tobytes().hex(), svm.certificate_.primal.hex())
for solver in ("lbfgs", "exponentiated"):
    crf = mm.CRF(models.Chain(), solver=solver, **options).fit(X, Y)
    print(crf.coef_.tobytes().hex(), crf.certificate_.primal.hex())
"""
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "MAXMARGIN_CORES": cores},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for cores in ("1", "5")
    }
    assert len(told) == 1


@pytest.mark.parametrize("answer", ["predict", "predict_marginals", "predict_margins"])
def test_exact_passes_do_not_depend_on_the_jobs(answer):
    X, Y = random_chains(50, 5, 6, random_state=0)
    svm = quietly(lambda: mm.StructuralSVM(models.Chain(), max_passes=5).fit(X, Y))
    found = []
    for n_jobs in (1, 2, 8, 64):
        svm.set_params(n_jobs=n_jobs)
        found.append(np.concatenate([np.ravel(x) for x in getattr(svm, answer)(X)]).tobytes())
    assert len(set(found)) == 1
