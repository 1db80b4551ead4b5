"""An oracle that contradicts the model's own inference is refused, and w is passed to it read-only."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import maxmargin as mm
from helpers import EVERY, quietly, refusal
from maxmargin import models
from maxmargin.models.python import PythonExamples
from reference.cases import chain_case
from reference.python_chain import PythonChain, PythonMulticlass


@pytest.fixture
def case(generator):
    return chain_case(generator, n=6, lengths=(2, 3), n_classes=3)


class Truth(PythonChain):
    """Always returns the true output, so no slack is ever found."""

    def loss_augmented_inference(self, x, y, w):
        return np.asarray(y)


class TruthInBatches(PythonChain):
    """The same fault in the batch form."""

    def batch_loss_augmented_inference(self, X, Y, w):
        return [np.asarray(y) for y in Y]


class Least(PythonMulticlass):
    """Returns the class with the smallest sum instead of the largest."""

    def loss_augmented_inference(self, x, y, w):
        return int(np.argmin(self.class_scores(x, w) + self.cost_table[y]))


class Forgetful(PythonChain):
    """Plain inference, without the loss."""

    def loss_augmented_inference(self, x, y, w):
        return self.inference(x, w)


class TruthBySlack(PythonChain):
    """Wrong only for slack rescaling."""

    def slack_rescaled_inference(self, x, y, w):
        return np.asarray(y)


@pytest.mark.parametrize("solver", EVERY)
@pytest.mark.parametrize("model", [Truth, TruthInBatches, Forgetful])
def test_an_oracle_below_inference_is_refused(case, model, solver):
    svm = mm.StructuralSVM(model(3), solver=EVERY[solver](), max_passes=20)
    with refusal("example [0-5]", "loss_augmented_inference", "check_model", kinds=mm.OracleError):
        quietly(lambda: svm.fit(case.X, case.Y))


@pytest.mark.parametrize("n_classes", [2, 5])
def test_an_argmin_is_refused(generator, n_classes):
    X, y = generator.normal(size=(30, 4)), np.arange(30) % n_classes
    with refusal("example", "loss_augmented_inference", kinds=mm.OracleError):
        mm.StructuralSVM(Least()).fit(X, y.tolist())


@pytest.mark.parametrize("solver", EVERY)
def test_the_slacks_are_held_against_inference_at_the_end(case, solver, monkeypatch):
    monkeypatch.setattr(PythonExamples, "try_argmax", lambda self: 0)
    svm = mm.StructuralSVM(Truth(3), solver=EVERY[solver](), max_passes=3)
    with refusal("example [0-5]", "loss_augmented_inference", kinds=mm.OracleError):
        quietly(lambda: svm.fit(case.X, case.Y))


def test_slack_rescaling_has_the_same_trial(case):
    svm = mm.StructuralSVM(TruthBySlack(3), rescaling="slack")
    with refusal("example [0-5]", "slack_rescaled_inference", kinds=mm.OracleError):
        svm.fit(case.X, case.Y)
    quietly(lambda: svm.set_params(rescaling="margin").fit(case.X, case.Y))
    # Without its own method, the search calls the margin oracle and has upper bounds.
    with refusal("loss_augmented_inference", kinds=mm.OracleError):
        mm.StructuralSVM(Truth(3), rescaling="slack").fit(case.X, case.Y)
    assert quietly(
        lambda: mm.StructuralSVM(PythonChain(3), rescaling="slack", tol=0.1).fit(case.X, case.Y)
    ).certificate_.exact


def test_an_argmax_that_says_it_is_approximate_is_left_alone(case):
    model = Truth(3)
    model.exact = False
    svm = quietly(lambda: mm.StructuralSVM(model).fit(case.X, case.Y))
    assert not svm.certificate_.exact


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_workers_are_tried_too(case, kind):
    with kind(2) as pool:
        with refusal("example [0-5]", kinds=mm.OracleError):
            mm.StructuralSVM(Truth(3), n_jobs=pool).fit(case.X, case.Y)
        mm.StructuralSVM(PythonChain(3), n_jobs=pool, tol=0.1).fit(case.X, case.Y)


def test_a_stream_is_held_against_inference(case):
    with refusal("loss_augmented_inference", kinds=mm.OracleError):
        mm.StructuralSVM(Truth(3), solver="streaming").fit([(case.X, case.Y)])


def test_certify_holds_the_slacks_against_inference(case):
    svm = mm.StructuralSVM(PythonChain(3), tol=0.1).fit(case.X, case.Y)
    assert mm.certify(svm, case.X, case.Y).converged
    svm.model_.loss_augmented_inference = lambda x, y, w: np.asarray(y)
    svm.support_ = svm.support_.__class__(
        np.arange(6), np.ones(6), [(0.0, (np.empty(0, np.int32), np.empty(0)))] * 6
    )
    svm.coef_ = -svm.coef_
    with refusal("loss_augmented_inference", kinds=mm.OracleError):
        mm.certify(svm, case.X, case.Y)


@pytest.mark.parametrize("size", [None, 2.5, -1, "18", True])
def test_the_length_of_w_is_checked(case, size):
    class Sized(PythonChain):
        def initialize(self, X, Y):
            super().initialize(X, Y)
            self.size_joint_feature = size

    for call in (
        lambda: mm.StructuralSVM(Sized(3)).fit(case.X, case.Y),
        lambda: mm.check_model(Sized(3), case.X, case.Y),
    ):
        with refusal("size_joint_feature", "whole number", str(size), kinds=mm.OracleError):
            call()


# --- w is read-only for the model -------------------------------------------------------------


def spoils(name):
    """Return a model with a method that writes into w."""

    class Spoils(PythonChain):
        pass

    def method(self, *arguments):
        arguments[-1 if name != "inference_k_best" else -2][0] = 1.0

    setattr(Spoils, name, method)
    return Spoils(3)


@pytest.mark.parametrize(
    "name, rescaling",
    [
        ("loss_augmented_inference", "margin"),
        ("batch_loss_augmented_inference", "margin"),
        ("inference", "margin"),
        ("slack_rescaled_inference", "slack"),
        ("loss_augmented_inference", "slack"),
    ],
)
def test_a_method_that_writes_into_w_is_named(case, name, rescaling):
    with refusal(name, "read-only", "copy", kinds=mm.OracleError):
        mm.StructuralSVM(spoils(name), rescaling=rescaling).fit(case.X, case.Y)


def test_prediction_lends_w_too(case):
    svm = mm.StructuralSVM(PythonChain(3), tol=0.1).fit(case.X, case.Y)
    before = svm.coef_.copy()
    size = svm.model_.size_joint_feature
    svm.model_ = spoils("inference")
    svm.model_.size_joint_feature = size
    with refusal("inference", "read-only", kinds=mm.OracleError):
        svm.predict(case.X)
    svm.model_ = spoils("inference_k_best")
    with refusal("inference_k_best", "read-only", kinds=mm.OracleError):
        svm.predict_k_best(case.X, 2)
    np.testing.assert_array_equal(svm.coef_, before)


@pytest.mark.parametrize("name", ["inference", "loss_augmented_inference", "inference_k_best"])
def test_check_model_lends_w_too(case, name):
    with refusal(name, "read-only", kinds=mm.OracleError):
        mm.check_model(spoils(name), case.X, case.Y)


def test_completions_lend_w_too(case):
    class Hidden(PythonChain):
        def complete(self, x, y, w):
            w[0] = 1.0
            return y

        def observed(self, z):
            return z

    with refusal("complete", "read-only", kinds=mm.OracleError):
        mm.LatentSVM(models.Latent(Hidden(3))).fit(case.X, case.Y)
