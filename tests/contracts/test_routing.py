"""Metadata of scikit-learn: weights reach every estimator through pipelines, searches and validation."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import get_scorer, make_scorer
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import maxmargin as mm
from maxmargin import metrics, models

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(60, 4))
CLASSES = (ROWS[:, 0] + 0.7 * RNG.normal(size=60) > 0).astype(int)
SEQUENCES = [RNG.normal(size=(RNG.integers(2, 6), 3)) for _ in range(36)]
TAGS = [(x[:, 0] + 0.7 * RNG.normal(size=len(x)) > 0).astype(int) for x in SEQUENCES]
FOLDS = KFold(3)

FLAT = {
    "multiclass": mm.MulticlassSVC(random_state=0),
    "binary": mm.BinarySVC(random_state=0),
    "logistic": mm.MulticlassLogistic(random_state=0),
    "regression": mm.RegressionSVR(random_state=0),
    "multiclass-cv": mm.MulticlassSVCCV(Cs=[0.1, 1.0], cv=2, random_state=0),
}
STRUCTURED = {
    "structural": mm.StructuralSVM(models.Chain(), random_state=0),
    "crf": mm.CRF(models.Chain(), random_state=0),
    "crf-margin": mm.CRF(models.Chain(), formulation="softmax-margin", random_state=0),
    "latent": mm.LatentSVM(models.Chain(), random_state=0),
    "structural-cv": mm.StructuralSVMCV(models.Chain(), Cs=[0.1, 1.0], cv=2, random_state=0),
}
ALL = FLAT | STRUCTURED
BY_NODE = ["structural", "crf-margin", "structural-cv"]


@pytest.fixture(autouse=True)
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def data_of(name):
    X, Y = (ROWS, CLASSES) if name in FLAT else (SEQUENCES, TAGS)
    weights = np.random.default_rng(1).uniform(0.1, 3.0, size=len(X))
    return X, Y, weights


def some(data, index):
    return data[index] if isinstance(data, np.ndarray) else [data[i] for i in index]


def by_hand(svm, X, Y, names, params, scored):
    """Return the scores of the folds; the weights go to ``fit``, and with `scored` also to ``score``."""
    scores = []
    for learnt, left in FOLDS.split(np.arange(len(X))):
        own = {name: some(params[name], learnt) for name in names}
        fitted = clone(svm).fit(some(X, learnt), some(Y, learnt), **own)
        given = {"sample_weight": some(params["sample_weight"], left)} if scored else {}
        scores.append(fitted.score(some(X, left), some(Y, left), **given))
    return scores


@pytest.mark.parametrize("name", ALL)
def test_sample_weight_reaches_fit_and_score(name):
    X, Y, weights = data_of(name)
    svm = clone(ALL[name]).set_fit_request(sample_weight=True)
    params = {"sample_weight": weights}
    for scored in (False, True):
        svm.set_score_request(sample_weight=scored)
        found = cross_validate(svm, X, Y, cv=FOLDS, params=params)["test_score"]
        expected = by_hand(ALL[name], X, Y, ["sample_weight"], params, scored)
        assert found == pytest.approx(expected)
    ignored = clone(ALL[name]).set_fit_request(sample_weight=False)
    ignored.set_score_request(sample_weight=True)
    found = cross_validate(ignored, X, Y, cv=FOLDS, params=params)["test_score"]
    assert found == pytest.approx(by_hand(ALL[name], X, Y, [], params, True))


@pytest.mark.parametrize("name", BY_NODE)
def test_node_weight_reaches_fit(name):
    X, Y, weights = data_of(name)
    rng = np.random.default_rng(2)
    nodes = [rng.uniform(0.1, 3.0, size=len(y)) for y in Y]
    svm = clone(ALL[name]).set_fit_request(sample_weight=True, node_weight=True)
    svm.set_score_request(sample_weight=False)
    params = {"sample_weight": weights, "node_weight": nodes}
    found = cross_validate(svm, X, Y, cv=FOLDS, params=params)["test_score"]
    expected = by_hand(ALL[name], X, Y, ["sample_weight", "node_weight"], params, False)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("name", ["structural", "crf", "multiclass", "binary", "logistic"])
def test_weights_reach_a_pipeline_within_a_search(name):
    X, Y, weights = data_of(name)
    svm = clone(ALL[name]).set_fit_request(sample_weight=True)
    svm.set_score_request(sample_weight=True)
    first = FunctionTransformer()
    if name in FLAT:
        first = StandardScaler().set_fit_request(sample_weight=False)
    pipeline = make_pipeline(first, svm)
    step = pipeline.steps[-1][0]
    search = GridSearchCV(pipeline, {f"{step}__C": [0.1, 1.0]}, cv=FOLDS, refit=True)
    search.fit(X, Y, sample_weight=weights)
    scaled = X if name not in FLAT else clone(first).fit_transform(X)
    direct = clone(ALL[name]).set_params(C=search.best_params_[f"{step}__C"])
    direct.fit(scaled, Y, sample_weight=weights)
    assert np.allclose(search.best_estimator_[-1].coef_, direct.coef_)
    assert search.score(X, Y, sample_weight=weights) == pytest.approx(
        direct.score(scaled, Y, sample_weight=weights)
    )


@pytest.mark.parametrize("name", ALL)
def test_a_request_that_was_not_made_is_told(name):
    X, Y, weights = data_of(name)
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        cross_validate(ALL[name], X, Y, cv=FOLDS, params={"sample_weight": weights})


@pytest.mark.parametrize("name", ALL)
def test_requests_survive_a_clone(name):
    svm = clone(ALL[name]).set_fit_request(sample_weight="trust")
    routed = clone(svm).get_metadata_routing()
    assert routed.fit.requests["sample_weight"] == "trust"


def test_weights_by_another_name():
    svm = mm.MulticlassSVC(random_state=0).set_fit_request(sample_weight="trust")
    weights = data_of("multiclass")[2]
    found = cross_validate(svm, ROWS, CLASSES, cv=FOLDS, params={"trust": weights})["test_score"]
    params = {"sample_weight": weights}
    expected = by_hand(
        mm.MulticlassSVC(random_state=0), ROWS, CLASSES, ["sample_weight"], params, False
    )
    assert found == pytest.approx(expected)


def test_scorers_of_flat_estimators_take_weights():
    weights = data_of("multiclass")[2]
    scorer = get_scorer("accuracy").set_score_request(sample_weight=True)
    svm = mm.MulticlassSVC(random_state=0).set_fit_request(sample_weight=True)
    params = {"sample_weight": weights}
    found = cross_validate(svm, ROWS, CLASSES, cv=FOLDS, scoring=scorer, params=params)[
        "test_score"
    ]
    expected = by_hand(
        mm.MulticlassSVC(random_state=0), ROWS, CLASSES, ["sample_weight"], params, True
    )
    assert found == pytest.approx(expected)


def test_scorers_of_sequences_leave_weights_alone():
    svm = clone(STRUCTURED["structural"]).set_fit_request(sample_weight=True)
    weights = data_of("structural")[2]
    for scorer in (metrics.get_scorer("tag_accuracy"), make_scorer(metrics.tag_accuracy_score)):
        found = cross_validate(
            svm, SEQUENCES, TAGS, cv=FOLDS, scoring=scorer, params={"sample_weight": weights}
        )
        assert np.isfinite(found["test_score"]).all()


def test_partial_fit_and_predict_have_requests():
    routed = mm.StructuralSVM(models.Chain()).get_metadata_routing()
    assert set(routed.partial_fit.requests) == {"classes", "sample_weight"}
    assert set(routed.predict.requests) == {"constraints", "fixed"}
    margins = mm.GeneralizedSVM().get_metadata_routing()
    assert "margins" not in margins.fit.requests  # margins take the place of y
