"""Contracts for a fit of every model: kernels, hidden parts, constraints, a user's models, front ends."""

import pickle
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import maxmargin as mm
from fits import FITS
from helpers import refusal
from maxmargin import models
from maxmargin.persistence import MODELS

# Exceptions from a contract: the error message and the reason.
NOT_SAVED = {
    "own": ("save: model PythonMulticlass", "code is not data"),
    "joint-kernel": ("save: model JointKernel", "its kernel is code"),
}
NOT_WEIGHTED = {"whole-sample": ("loss of the whole sample", "there is one slack")}
NOT_CONVEX = {
    "latent": "rounds end at a local optimum, which another order of steps may change",
    "latent-chain": "as for latent",
    "latent-tree": "as for latent",
    "bags": "as for latent",
    "partial": "as for latent",
}
NOT_IN_CHUNKS = {
    "grammar": ("does not occur in the training data", "rules are those of the first chunk"),
    "whole-sample": ("one slack", "examples are one block"),
    "kernel": ("cannot train on chunks", "w is a sum over all of them"),
    "joint-kernel": ("cannot train on chunks", "the basis spans all pairs"),
}
NO_INFERENCE = {
    "groups": "a row has no outputs",
    "regression": "numbers are not searched",
    "whole-sample": "the input of the protocol is the whole sample: test_multivariate.py",
}
NO_PREDICTION = {"groups": "constraints have no output: decision_function alone"}

every = pytest.mark.parametrize("name", FITS)


def trained(name, seed, **settings):
    """Return (estimator, X, Y) of a fresh fit."""
    fit = FITS[name](seed)
    return clone(fit.svm).set_params(**settings).fit(fit.X, fit.Y), fit.X, fit.Y


once = cache(trained)  # for tests that do not change the estimator


def predicted(svm, X):
    """Return outputs as values that can be compared."""
    answers = svm.decision_function(X) if not hasattr(svm, "predict") else svm.predict(X)
    return [y.tolist() if hasattr(y, "tolist") else y for y in answers]


def weights_of(svm):
    return svm._weights()


def settings_of(svm):
    """Return the parameters without model and loss, whose form may change in a file."""
    return {k: v for k, v in svm.get_params(deep=False).items() if k not in ("model", "loss")}


def test_every_model_is_here(seed):
    fitted = {type(once(name, seed)[0].model_).__name__ for name in FITS}
    public = set(models.__all__) - {"Model", "Transitions"}
    assert public | set(MODELS) <= fitted


@every
def test_the_certificate_is_that_of_the_definition(name, seed):
    svm, X, Y = once(name, seed)
    certificate = svm.certificate_
    assert certificate.converged and certificate.exact
    assert certificate.dual <= certificate.primal
    again = mm.certify(svm, X, Y)
    assert again.primal == pytest.approx(certificate.primal, rel=1e-9)
    assert again.dual == pytest.approx(certificate.dual, rel=1e-9)
    value = mm.objective(svm, weights_of(svm), X, Y)
    assert value == pytest.approx(certificate.primal, rel=1e-9)


@every
def test_the_seed_decides_everything_and_data_are_left_alone(name, seed):
    svm, X, Y = once(name, seed)
    before = pickle.dumps((X, Y))
    again = clone(svm).fit(X, Y)
    assert pickle.dumps((X, Y)) == before
    np.testing.assert_array_equal(weights_of(again), weights_of(svm))
    assert again.certificate_.oracle_calls == svm.certificate_.oracle_calls


@every
def test_copies_are_the_same_estimator(name, seed):
    svm, X, _ = once(name, seed)
    copy = pickle.loads(pickle.dumps(svm))
    np.testing.assert_array_equal(weights_of(copy), weights_of(svm))
    assert copy.certificate_ == svm.certificate_
    assert predicted(copy, X) == predicted(svm, X)
    assert clone(svm).get_params(deep=False).keys() == svm.get_params(deep=False).keys()
    with pytest.raises(NotFittedError):
        predicted(clone(svm), X)


@every
def test_a_file_brings_it_back_to_the_bit(name, seed, tmp_path):
    svm, X, Y = once(name, seed)
    path = tmp_path / "model"
    if name in NOT_SAVED:
        with refusal(NOT_SAVED[name][0]):
            svm.save(path)
        assert not path.exists()
        return
    svm.save(path)
    loaded = mm.load(path)
    assert type(loaded) is type(svm)
    assert loaded.certificate_ == svm.certificate_
    assert settings_of(loaded) == settings_of(svm)
    assert predicted(loaded, X) == predicted(svm, X)
    if name != "kernel":  # a kernel's file stores only the rows with coefficients
        np.testing.assert_array_equal(weights_of(loaded), weights_of(svm))
    value = mm.objective(loaded, weights_of(loaded), X, Y)
    assert value == pytest.approx(svm.certificate_.primal, rel=1e-9)


@every
def test_an_example_is_predicted_as_among_others(name, seed):
    svm, X, _ = once(name, seed)
    together = predicted(svm, X)
    for i in range(len(together)):
        (alone,) = predicted(svm, X[i : i + 1])
        if name in NO_PREDICTION:
            assert alone == pytest.approx(together[i], rel=1e-12)
        else:
            assert np.all(
                np.isclose(alone, together[i]) if name == "regression" else alone == together[i]
            )


@pytest.mark.parametrize("name", [name for name in FITS if name not in NO_INFERENCE])
def test_inference_of_one_input_is_its_prediction(name, seed):
    svm, X, _ = once(name, seed)
    for x, y in zip(X, predicted(svm, X), strict=True):
        found = svm.model_.inference(x, weights_of(svm))
        assert (found.tolist() if hasattr(found, "tolist") else found) == y


@every
def test_threads_reach_the_same_optimum(name, seed):
    one = once(name, seed)[0].certificate_
    two = trained(name, seed, n_jobs=2)[0].certificate_
    assert two.converged
    if name not in NOT_CONVEX:
        assert max(one.dual, two.dual) <= min(one.primal, two.primal) * (1 + 1e-12)


@every
def test_a_warm_start_goes_on(name, seed):
    svm, X, Y = trained(name, seed, warm_start=True)
    first = svm.certificate_
    again = svm.fit(X, Y).certificate_
    if name in NOT_CONVEX:
        assert again.primal <= first.primal * (1 + 1e-3)
        return
    assert again.passes < first.passes
    assert max(first.dual, again.dual) <= min(first.primal, again.primal) * (1 + 1e-12)
    other = svm.set_params(C=1.5 * svm.C).fit(X, Y).certificate_
    cold = trained(name, seed, C=svm.C)[0].certificate_
    assert max(other.dual, cold.dual) <= min(other.primal, cold.primal) * (1 + 1e-12)


@every
def test_twice_the_weight_is_twice_c(name, seed):
    svm, X, Y = once(name, seed)
    twice = clone(svm)
    if name in NOT_WEIGHTED:
        with refusal(NOT_WEIGHTED[name][0]):
            twice.fit(X, Y, sample_weight=np.full(len(Y), 2.0))
        return
    left = twice.fit(X, Y, sample_weight=np.full(len(Y), 2.0)).certificate_
    right = trained(name, seed, C=2 * svm.C)[0].certificate_
    open_still = max(left.primal - left.dual, right.primal - right.dual)
    assert left.primal == pytest.approx(right.primal, rel=1e-3, abs=open_still)
    if name not in NOT_CONVEX:
        assert max(left.dual, right.dual) <= min(left.primal, right.primal) * (1 + 1e-12)


@every
def test_chunks_end_with_a_bound(name, seed):
    """The dual over all chunks is below the objective of all data, at any w."""
    svm, X, Y = once(name, seed)
    half, chunks = len(Y) // 2, clone(svm)

    def fit():
        return chunks.partial_fit(X[:half], Y[:half]).partial_fit(X[half:], Y[half:])

    if name in NOT_IN_CHUNKS:
        with refusal(NOT_IN_CHUNKS[name][0]):
            fit()
        return
    value = mm.objective(fit(), weights_of(chunks), X, Y)
    if name in NOT_CONVEX:  # the certificate is for fixed completions
        assert value < mm.objective(chunks, 0 * weights_of(chunks), X, Y)
        return
    assert 0 < chunks.certificate_.dual <= value * (1 + 1e-9)
