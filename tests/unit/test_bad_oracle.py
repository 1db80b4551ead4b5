"""Oracles are checked during training; the error tells the author of a model what is wrong with it."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from helpers import EVERY, assert_truthful, quietly, refusal
from reference.cases import chain_case
from reference.python_chain import PythonChain

PROBLEM = (ValueError, RuntimeError, TypeError)


class Lazy(PythonChain):
    """Right at first; later it returns the true output, although cached outputs score higher."""

    calls = 0

    def loss_augmented_inference(self, x, y, w):
        self.calls += 1
        return super().loss_augmented_inference(x, y, w) if self.calls < 30 else np.asarray(y)


class LazyBatch(Lazy):
    """The same fault in the batch form."""

    def batch_loss_augmented_inference(self, X, Y, w):
        return [self.loss_augmented_inference(x, y, w) for x, y in zip(X, Y, strict=True)]


class LateLie(PythonChain):
    """Right for the first `honest` calls, then always the true output."""

    calls = 0

    def __init__(self, n_states, honest):
        super().__init__(n_states)
        self.honest = honest

    def loss_augmented_inference(self, x, y, w):
        self.calls += 1
        right = super().loss_augmented_inference(x, y, w)
        return right if self.calls <= self.honest else np.asarray(y)


class Worst(PythonChain):
    """Minimises instead of maximising, so the true output beats its answers."""

    def loss_augmented_inference(self, x, y, w):
        return super().loss_augmented_inference(x, y, -np.asarray(w))


class NegativeLoss(PythonChain):
    """The loss is negative."""

    def loss(self, y, y_hat):
        return -super().loss(y, y_hat)


class SelfLoss(PythonChain):
    """The loss is not zero at the truth."""

    def loss(self, y, y_hat):
        return super().loss(y, y_hat) + 0.5


class ShortFeatures(PythonChain):
    """Joint features are shorter than announced."""

    def joint_feature(self, x, y):
        return super().joint_feature(x, y)[:-1]


class NanFeatures(PythonChain):
    """Joint features are NaN for some outputs."""

    def joint_feature(self, x, y):
        vector = super().joint_feature(x, y)
        vector[0] = np.nan if y[0] == 2 else vector[0]
        return vector


class OtherFeatures(PythonChain):
    """The features give scores that differ from the ones that inference maximises."""

    def joint_feature(self, x, y):
        return -super().joint_feature(x, y)


@pytest.fixture
def case(generator):
    return chain_case(generator, n=6, lengths=(2, 3), n_classes=3)


@pytest.mark.parametrize("solver", ["proximal", "fasole", "sda", "sdm", "bcfw"])
def test_oracle_beaten_by_a_cached_output_is_never_certified(case, solver):
    svm = mm.StructuralSVM(Lazy(3), solver=solver, tol=1e-6, max_passes=200)
    with refusal(r"\b[0-5]\b", "loss_augmented_inference|oracle", kinds=PROBLEM):
        svm.fit(case.X, case.Y)


@pytest.mark.parametrize("n_jobs, model", [(None, LazyBatch), (2, Lazy), (2, LazyBatch)])
def test_oracle_beaten_by_a_cached_output_is_found_in_batches_too(case, n_jobs, model):
    svm = mm.StructuralSVM(model(3), solver="sda", tol=1e-6, max_passes=200, n_jobs=n_jobs)
    with refusal(r"\b[0-5]\b", "loss_augmented_inference|oracle", kinds=PROBLEM):
        svm.fit(case.X, case.Y)


@pytest.mark.parametrize("honest", range(12, 90, 3))
def test_no_lie_is_ever_certified(case, honest):
    # Wherever the lies begin, in a step or in an exact pass, the result is an error or a true certificate.
    svm = mm.StructuralSVM(LateLie(3, honest), solver="sda", tol=1e-3, max_passes=12)
    try:
        quietly(lambda: svm.fit(case.X, case.Y))
    except ValueError:
        return
    assert_truthful(case, svm)


@pytest.mark.parametrize("solver", EVERY)
def test_oracle_beaten_by_the_true_output_is_refused(case, solver):
    svm = mm.StructuralSVM(Worst(3), solver=EVERY[solver](), tol=1e-6, max_passes=50)
    with refusal(r"\b[0-5]\b", "loss_augmented_inference|oracle", kinds=PROBLEM):
        svm.fit(case.X, case.Y)


@pytest.mark.parametrize(
    "model, patterns",
    [
        (NegativeLoss, ["loss", "negative|>= 0"]),
        (SelfLoss, ["loss", "0.5"]),
        (ShortFeatures, ["joint_feature", r"\b18\b", r"\b17\b"]),
        (NanFeatures, ["joint_feature", "nan|finite"]),
    ],
)
def test_wrong_losses_and_features_are_refused_in_training(case, model, patterns):
    with refusal(*patterns, kinds=PROBLEM):
        mm.StructuralSVM(model(3), solver="sda", tol=1e-6, max_passes=50).fit(case.X, case.Y)


@pytest.mark.parametrize(
    "model, patterns",
    [
        (Worst, ["loss_augmented_inference"]),
        (NegativeLoss, ["loss", "negative|>= 0"]),
        (SelfLoss, ["loss"]),
        (ShortFeatures, ["joint_feature", r"\b18\b", r"\b17\b"]),
        (NanFeatures, ["joint_feature"]),
        (OtherFeatures, ["inference"]),
    ],
)
def test_check_model_tells_the_author(case, model, patterns):
    with refusal(*patterns, kinds=(*PROBLEM, AssertionError)):
        mm.check_model(model(3), case.X, case.Y)


def test_error_of_the_users_model_comes_through_unchanged(case):
    class Broken(PythonChain):
        def loss_augmented_inference(self, x, y, w):
            raise ZeroDivisionError("my own mistake")

    with pytest.raises(ZeroDivisionError, match="my own mistake"):
        mm.StructuralSVM(Broken(3), tol=1e-6).fit(case.X, case.Y)


def test_interrupt_keeps_the_best_weights_and_a_truthful_certificate(case):
    class Impatient(PythonChain):
        calls = 0

        def loss_augmented_inference(self, x, y, w):
            Impatient.calls += 1
            if Impatient.calls == 40:
                raise KeyboardInterrupt
            return super().loss_augmented_inference(x, y, w)

    svm = mm.StructuralSVM(Impatient(3), solver="sda", tol=1e-9, max_passes=10_000)
    with pytest.warns(ConvergenceWarning):
        svm.fit(case.X, case.Y)
    assert "interrupt" in str(svm.certificate_.status).lower()
    assert not svm.certificate_.converged
    assert np.linalg.norm(svm.coef_) > 0
    assert_truthful(case, svm)


def test_time_budget_is_kept_and_said(case):
    svm = mm.StructuralSVM(PythonChain(3), solver="bcfw", tol=1e-12, max_seconds=0.05)
    svm.set_params(max_passes=10**9)
    with pytest.warns(ConvergenceWarning, match="gap"):
        svm.fit(case.X, case.Y)
    assert "time" in str(svm.certificate_.status).lower()
    assert svm.certificate_.seconds < 2.0


@pytest.mark.parametrize("solver, advice", [("sda", "max_passes"), ("bcfw", "solver='auto'")])
def test_convergence_warning_gives_gap_tolerance_and_advice(case, solver, advice):
    svm = mm.StructuralSVM(PythonChain(3), solver=solver, tol=1.5e-9, max_passes=2)
    with pytest.warns(ConvergenceWarning) as caught:
        svm.fit(case.X, case.Y)
    message = str(caught[0].message)
    assert f"gap {svm.certificate_.gap:.3g}" in message
    assert "1.5e-09" in message
    assert advice in message
