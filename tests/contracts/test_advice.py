"""Warnings if training learns nothing at C, with a better C; early stopping by a validation score."""

import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from helpers import quietly, refusal
from maxmargin import models
from maxmargin.callbacks import Callback, EarlyStopping
from maxmargin.data.synthetic import random_chains, random_multiclass
from maxmargin.problem import Problem

UNEVEN = 1.0 - np.eye(3) + np.array([[0, 3, 0], [0, 0, 0.5], [2, 0, 0]])


def proposed(call):
    """Return the C that a warning proposes."""
    with pytest.warns(ConvergenceWarning, match="try C=") as seen:
        call()
    said = next(str(w.message) for w in seen if "try C=" in str(w.message))
    return float(re.search(r"try C=([0-9.e+-]+)", said).group(1).rstrip("."))


def rare(scale, share, seed):
    """Return data of two classes, one of them rare."""
    X, y = make_classification(
        600, 20, n_informative=6, weights=[1 - share], flip_y=0.02, random_state=seed
    )
    return scale * X, y


@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("share", [0.05, 0.3])
def test_the_proposed_c_learns_where_the_given_one_did_not(scale, share):
    X, y = rare(scale, share, 0)
    svm = mm.BinarySVC(C=1e-6 / scale**2, loss="f1", random_state=0)
    svm.set_params(C=proposed(lambda: svm.fit(X, y)))
    quietly(lambda: svm.fit(X, y))
    assert set(svm.predict(X)) == {0, 1}
    wrong = (svm.predict(X) != y).mean()
    assert wrong < 0.5


@pytest.mark.parametrize("kind", [mm.BinarySVC, mm.MulticlassSVC])
def test_one_class_alone_is_worth_a_warning(kind):
    X, y = rare(1.0, 0.05, 0)
    svm = kind(C=0.01, random_state=0)
    svm.set_params(C=proposed(lambda: svm.fit(X, y)))
    quietly(lambda: svm.fit(X, y))
    assert set(svm.predict(X)) == {0, 1}


def test_nobody_waits_for_a_proposal_that_is_not_shown(monkeypatch):
    X, y = rare(1.0, 0.05, 0)
    monkeypatch.setattr("maxmargin.estimators.advice.better_c", lambda *_: pytest.fail("a trial"))
    svm = mm.BinarySVC(C=0.01, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        svm.fit(X, y)
    shown = {"action": "ignore", "category": ConvergenceWarning, "message": "not converged"}
    with warnings.catch_warnings(), pytest.raises(pytest.fail.Exception, match="a trial"):
        warnings.simplefilter("always")
        warnings.filterwarnings(**shown)  # other warnings are still shown
        svm.fit(X, y)


@pytest.mark.parametrize("names", [["O", "B"], [0, 7], [False, True]])
def test_a_tagger_that_finds_nothing_is_told_a_larger_c(names):
    generator = np.random.default_rng(0)
    codes = [(generator.random(8) < 0.04).astype(int) for _ in range(300)]
    X = [np.c_[y, np.ones(8)] + 0.1 * generator.normal(size=(8, 2)) for y in codes]
    Y = [[names[label] for label in y] for y in codes]
    svm = mm.StructuralSVM(models.Chain(), C=1e-4, random_state=0)
    with pytest.warns(ConvergenceWarning, match=f"all labels are predicted to be {names[0]!r}"):
        svm.fit(X, Y)
    svm.set_params(C=proposed(lambda: svm.fit(X, Y)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svm.fit(X, Y)
    assert {label for y in svm.predict(X) for label in y} == set(names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no other warning is expected here
        mm.StructuralSVM(models.Chain(classes=names), C=1.0).fit(X[:2], [[names[0]] * 8] * 2)


@pytest.mark.parametrize("loss", ["hamming", "mean-hamming", UNEVEN])
@pytest.mark.parametrize("weighted", [False, True])
def test_several_labels_are_predicted_where_one_would_cost_more(loss, weighted, monkeypatch):
    generator = np.random.default_rng(0)
    codes = [generator.integers(3, size=int(generator.integers(1, 6))) for _ in range(60)]
    X = [np.eye(3)[y] + 0.1 * generator.normal(size=(len(y), 3)) for y in codes]
    Y = [["abc"[label] for label in y] for y in codes]
    weights = generator.random(len(Y)) if weighted else np.ones(len(Y))
    model = models.Chain(loss=loss)
    model.initialize(X, Y)
    problem = Problem(model.bind(X, Y), C=100.0, sample_weight=weights)
    costs = [
        sum(100.0 * v * model.loss(y, [k] * len(y)) for v, y in zip(weights, Y, strict=True))
        for k in "abc"
    ]
    assert problem.floor_of_constant() == pytest.approx(min(costs))
    w = np.zeros(problem.dimension)
    # w predicts the first label everywhere, since the feature is constant
    w[: X[0].shape[1]] = 1e-3
    ones = Problem(model.bind([np.ones_like(x) for x in X], Y), C=100.0, sample_weight=weights)
    assert {label for y in ones.examples.predict(w) for label in y} == {"a"}
    assert ones.objective(w) >= ones.floor_of_constant()
    monkeypatch.setattr("maxmargin.estimators.advice.lone_label", lambda *_: pytest.fail("a look"))
    with warnings.catch_warnings():
        warnings.simplefilter("always")  # the check only runs if its warning would be shown
        svm = mm.StructuralSVM(model, C=100.0).fit(X, Y, sample_weight=weights)
    assert svm.certificate_.primal < problem.floor_of_constant()


def test_where_no_c_helps_none_is_proposed():
    X, y = make_classification(
        400, 10, n_informative=5, weights=[0.95], random_state=0, flip_y=0.01
    )
    with pytest.warns(ConvergenceWarning, match="larger values of C were tried, but do not help"):
        mm.BinarySVC(C=1.0, loss="f1").fit(X, y)  # the optimum is w = 0 for every C


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_chains_at_a_tiny_c_are_told_a_larger_one(scale):
    X, Y = random_chains(60, random_state=0)
    X = [scale * x for x in X]
    svm = mm.StructuralSVM(models.Chain(), C=1e-7 / scale**2, random_state=0)
    C = proposed(lambda: svm.fit(X, Y))
    before = svm.score(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # this C is not too small
        svm.set_params(C=10 * C).fit(X, Y)
    zero = mm.objective(svm, np.zeros_like(svm.coef_), X, Y)
    assert svm.certificate_.primal < 0.9 * zero
    assert svm.score(X, Y) >= before


def test_no_warning_where_something_is_learnt_or_nothing_can_be():
    X, y = random_multiclass(60, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mm.MulticlassSVC(C=1.0).fit(X, y)
        mm.StructuralSVM(models.Multiclass(loss=np.zeros((3, 3)))).fit(X, y)
        # the first C is too small on purpose
        mm.regularization_path(mm.MulticlassSVC(), X, y, [1e-7, 1.0])


# Early stopping on a validation score.


def noisy(seed):
    """Return chains, half of them for validation."""
    X, Y = random_chains(80, random_state=seed)
    return (X[:40], Y[:40]), (X[40:], Y[40:])


@pytest.mark.parametrize("solver", ["auto", "sda", "one-slack", "subgradient"])
def test_the_weights_of_the_best_score_are_returned_and_certified(solver, seed):
    train, dev = noisy(seed)
    stop = EarlyStopping(*dev, patience=3)
    svm = mm.StructuralSVM(models.Chain(), C=30.0, solver=solver, tol=1e-9, random_state=0)
    svm.set_params(max_passes=300)
    quietly(lambda: svm.fit(*train, callbacks=[stop]))
    assert svm.score(*dev) == stop.best_score_ == max(score for _, score in stop.scores_)
    again = mm.certify(svm, *train)
    assert again.primal == pytest.approx(svm.certificate_.primal, rel=1e-9)
    assert again.dual == pytest.approx(svm.certificate_.dual, rel=1e-9)
    assert svm.certificate_.gap == pytest.approx(again.gap, rel=1e-6)
    assert not svm.certificate_.converged
    assert svm.history_["primal"][-1] == svm.certificate_.primal


def test_status_patience_and_the_end_of_training(seed):
    train, dev = noisy(seed)
    svm = mm.StructuralSVM(models.Chain(), C=30.0, solver="sda", tol=1e-9, random_state=0)
    stop = EarlyStopping(*dev, patience=2, min_delta=1.0, keep_best=False)  # no score improves by 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # stopping was requested, so it is no reason to warn
        svm.fit(*train, callbacks=[stop])
    assert svm.certificate_.status == "stopped by a callback"
    assert len(stop.scores_) == 3
    assert stop.kept() is None
    every = EarlyStopping(*dev, patience=2, min_delta=1.0, every=4)
    svm.fit(*train, callbacks=[every])
    assert len(every.scores_) == 3 and every.scores_[1][0] - every.scores_[0][0] >= 4
    # Training converges before patience ends. The weights have the best score, so the gap may exceed tol.
    patient = EarlyStopping(*dev, patience=10**6)
    svm.set_params(tol=1e-4, solver="auto").fit(*train, callbacks=[patient])
    assert svm.score(*dev) == patient.best_score_
    assert svm.certificate_.converged == (svm.certificate_.gap <= 1e-4)
    assert (svm.certificate_.status == "solved") == svm.certificate_.converged


def test_flat_estimators_and_any_scorer(seed):
    X, y = random_multiclass(120, random_state=seed)
    for scoring in (None, "f1_macro", lambda svm, X, y: -float(np.abs(svm.coef_).sum())):
        stop = EarlyStopping(X[60:], y[60:], scoring=scoring, patience=2)
        svm = mm.MulticlassSVC(C=100.0, solver="sda", random_state=0)
        quietly(lambda svm=svm, stop=stop: svm.fit(X[:60], y[:60], callbacks=[stop]))
        assert stop.best_score_ == max(score for _, score in stop.scores_)


def test_callbacks_see_the_weights(seed):
    seen = []

    class Looks(Callback):
        """Record what a callback receives."""

        def on_step(self, info):
            seen.append(info.weights())

    train, _ = noisy(seed)
    svm = mm.StructuralSVM(models.Chain(), solver="sda", tol=1e-4, random_state=0)
    svm.fit(*train, callbacks=[Looks()])
    np.testing.assert_array_equal(seen[-1], svm.coef_)
    assert len(seen) == len(svm.history_["dual"])


def test_refusals():
    for wrong in ({"patience": 0}, {"every": 1.5}, {"min_delta": -1}, {"patience": True}):
        with refusal("EarlyStopping", next(iter(wrong))):
            EarlyStopping([], [], **wrong)
    X, Y = random_chains(10, random_state=0)
    model = models.Chain()
    model.initialize(X, Y)
    with refusal("callbacks="):
        mm.train(mm.Problem(model.bind(X, Y)), mm.solvers.SDA(), callbacks=[EarlyStopping(X, Y)])
    with refusal("stream"):
        mm.StructuralSVM(models.Chain(), solver="streaming").fit(
            [(X, Y)], callbacks=[EarlyStopping(X, Y)]
        )
