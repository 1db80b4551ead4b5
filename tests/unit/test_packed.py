"""Weights are packed once for predictions and are never stale."""

import copy
import pickle

import numpy as np
import pytest

import maxmargin as mm
from helpers import built_in, quietly
from maxmargin import models
from reference.problems import make_case

NAMES = [
    "multiclass-cost-dense",
    "binary-bias-csr32",
    "chain-1to4-csr-ends",
    "grammar-spans",
    "tree-three-parts",
    "graph-edge-features",
    "ranking-three-grades",
]


def outputs(found):
    return [y.tolist() if hasattr(y, "tolist") else y for y in found]


def fitted(name, seed, **settings):
    case = make_case(name, seed)
    svm = mm.StructuralSVM(built_in(case), C=case.C, tol=0.1, random_state=0, **settings)
    return quietly(lambda: svm.fit(case.X, case.Y)), case


@pytest.mark.parametrize("name", NAMES)
def test_packed_weights_predict_as_plain_ones(name, seed, generator):
    svm, case = fitted(name, seed, n_jobs=2)
    for w in (svm.coef_, generator.normal(size=svm.coef_.shape)):
        svm.coef_ = w.copy()
        examples = svm.model_.bind(case.X)
        for _ in range(2):
            assert outputs(svm.predict(case.X)) == outputs(examples.predict(w))
        assert outputs(examples.predict(examples.ready(w))) == outputs(examples.predict(w))


@pytest.mark.parametrize("many", [False, True])
def test_what_changes_the_weights_changes_predictions(many, generator, monkeypatch):
    if many:  # the argmax that uses an index of the transitions
        monkeypatch.setattr("maxmargin.models.chain.MANY_LABELS", 2)
    X = [generator.normal(size=(4, 3)) for _ in range(10)]
    Y = [generator.integers(4, size=4) for _ in X]
    svm = mm.StructuralSVM(models.Chain(classes=range(4)), C=0.1).fit(X, Y)
    assert svm.model_.bind(X).core.many == many
    first = outputs(svm.predict(X))
    with pytest.raises(ValueError, match="read-only"):
        svm.coef_[0] = 1.0
    svm.coef_ = -svm.coef_
    assert outputs(svm.predict(X)) == outputs(svm.model_.bind(X).predict(svm.coef_)) != first
    svm.fit(X, [(y + 1) % 4 for y in Y])
    assert outputs(svm.predict(X)) == outputs(svm.model_.bind(X).predict(svm.coef_))
    svm.partial_fit(X, Y)
    assert outputs(svm.predict(X)) == outputs(svm.model_.bind(X).predict(svm.coef_))


def test_copies_files_and_pickles_pack_their_own(seed, tmp_path):
    svm, case = fitted("chain-1to4-dense", seed)
    wanted = outputs(svm.predict(case.X))
    svm.save(tmp_path / "model")
    twins = [pickle.loads(pickle.dumps(svm)), copy.deepcopy(svm), mm.load(tmp_path / "model")]
    for twin in twins:
        assert "_packed" not in vars(twin)
        assert outputs(twin.predict(case.X)) == wanted
        twin.coef_ = np.zeros_like(twin.coef_)
        twin.predict(case.X)
    assert outputs(svm.predict(case.X)) == wanted


def test_weights_packed_for_another_model_are_refused(seed):
    small, case = fitted("chain-1to4-dense", seed)
    other, others = fitted("chain-cost-four-labels", seed)
    packed = other.model_.bind(others.X).ready(other.coef_)
    with pytest.raises(ValueError, match="another model"):
        small.model_.bind(case.X).predict(packed)
