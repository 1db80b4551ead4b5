"""The time limit leaves room for the last exact pass: a clock that an own model's calls move."""

import math
import sys
from contextlib import contextmanager

import numpy as np
import pytest

import maxmargin as mm
from helpers import quietly
from maxmargin import models, solvers
from maxmargin._core import core
from maxmargin.budget import UNSEEN_SHARE, Budget
from maxmargin.data.synthetic import random_multiclass
from maxmargin.models.python import bind_model
from maxmargin.problem import Problem, Status
from maxmargin.train import train
from reference.python_chain import PythonMulticlass

N = 20  # examples: an exact pass takes so many seconds, as long as a step


class Clock:
    """Seconds that pass with calls of a model; deadlines are met at its next call."""

    def __init__(self, monkeypatch):
        self.now, self.limit = 0.0, math.inf
        monkeypatch.setattr(sys.modules["maxmargin.budget"], "clock", lambda: self.now)
        monkeypatch.setattr(sys.modules["maxmargin.train"], "deadline", self.deadline)

    @contextmanager
    def deadline(self, seconds):
        before, self.limit = self.limit, self.now + seconds
        self.look()
        try:
            yield
        finally:
            self.limit = before
            core.set_deadline(math.inf)

    def look(self):
        if self.now >= self.limit:
            core.set_deadline(-math.inf)

    def tick(self):
        self.now += 1
        self.look()


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def slow(clock):
    """A model each of whose calls takes a second."""

    class Slow(PythonMulticlass):
        def loss_augmented_inference(self, x, y, w):
            clock.tick()
            return super().loss_augmented_inference(x, y, w)

    return Slow(1.0 - np.eye(3))


def fitted(clock, limit, solver="bcfw", **options):
    X, y = random_multiclass(N, 3, random_state=0)
    svm = mm.StructuralSVM(slow(clock), solver=solver, tol=1e-9, max_seconds=limit, **options)
    return quietly(lambda: svm.fit(X, y))


@pytest.mark.parametrize("solver", ["bcfw", "proximal", "sda", "one-slack", "subgradient"])
@pytest.mark.parametrize("limit", [3 * N, 4.5 * N, 10 * N])
def test_the_last_exact_pass_ends_within_the_limit(clock, solver, limit):
    found = fitted(clock, limit, solver).certificate_
    assert found.status == Status.TIME_LIMIT.value
    assert math.isfinite(found.gap)
    assert found.seconds <= limit + 1  # the call that was under way
    assert found.seconds >= limit - 2 * N


def test_a_first_step_is_ended_in_the_middle(clock):
    """Half of the time is reserved for the first exact pass, whose duration is unknown."""
    found = fitted(clock, N).certificate_
    assert found.status == Status.TIME_LIMIT.value
    assert math.isfinite(found.gap)
    assert found.oracle_calls < 2 * N  # a part of a step, and the exact pass


def test_a_last_exact_pass_is_given_up_if_a_point_has_one(clock):
    class Sleep(mm.callbacks.Callback):
        """The third step is followed by a long wait, of which the budget cannot know."""

        def on_step(self, progress):
            clock.now += 50 * N * (progress.step == 3)

    X, y = random_multiclass(N, 3, random_state=0)
    model = slow(clock)
    model.initialize(X, y)
    problem = mm.Problem(bind_model(model, X, y))

    def fit(certify_every):
        clock.now = 0.0
        options = {"max_seconds": 50.0 * N, "callbacks": [Sleep()]}
        return train(problem, solvers.BCFW(), tol=1e-9, certify_every=certify_every, **options)

    known, unknown = fit(2).certificate, fit(None).certificate
    assert known.status == unknown.status == Status.TIME_LIMIT.value
    assert math.isfinite(known.gap) and math.isfinite(unknown.gap)
    assert known.passes < 5 + 1  # the trial, three steps, the exact pass after the second


def test_what_is_left_for_the_last_exact_pass(clock):
    X, y = random_multiclass(N, 3, random_state=0)
    model = models.Multiclass()
    model.initialize(X, y)
    problem = mm.Problem(model.bind(X, y))
    budget = Budget(problem, math.inf, 100.0)
    assert budget.reserve == 100 * UNSEEN_SHARE
    with budget.timed("step"):
        clock.now += 7
    assert budget.reserve == 7
    for seconds in (5, 3):
        with budget.timed("exact"):
            clock.now += seconds
    assert budget.reserve == 5
    assert budget.seconds_left == 100 - 15 - 5
    clock.now += 80
    assert budget.spent() is Status.TIME_LIMIT
    assert Budget(problem, math.inf, 100.0, proves=False).reserve == 0
    assert Budget(problem, math.inf, math.inf).seconds_left == math.inf
    assert Budget(problem, math.inf, 100.0, earlier_seconds=90).seconds_left == 5


@pytest.mark.parametrize("pairs", ["all", [(0, 1), (1, 2), (2, 0), (3, 1)]])
@pytest.mark.parametrize("labels", [5, 30])
def test_hurried_ceilings_are_above_all_outputs(generator, labels, pairs):
    """Once the time is over, an upper bound of each slack must cost next to nothing."""
    X = generator.normal(size=(12, 6))
    Y = generator.integers(2, size=(12, labels))
    model = models.MultiLabel(pairs=pairs)
    model.initialize(X, Y)
    examples = Problem(model.bind(X, Y), C=1.0).examples
    w = generator.normal(size=model.size_joint_feature)
    found, ceilings = examples.slacks(w, 1, math.inf)
    proven, tight = examples.slacks(w, 1, 0.0)
    assert (found <= tight + 1e-9).all() and (ceilings >= proven - 1e-9).all()
    assert np.isfinite(ceilings).all()
