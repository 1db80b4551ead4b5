"""The names of every estimator: outputs are ``y`` or ``Y``, and public names are documented."""

import inspect
import pickle
import re
import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import maxmargin as mm
from maxmargin import models
from maxmargin.data.synthetic import random_chains, random_multiclass
from maxmargin.estimators.base import BaseSVM
from maxmargin.estimators.hooks import learnt
from maxmargin.estimators.reporting import STATE

ROWS, CLASSES = random_multiclass(n=30, n_classes=2, random_state=0)
SEQUENCES, TAGS = random_chains(n=12, random_state=0)
QUICK = {"tol": 0.1, "random_state": 0}
CHAIN = models.Chain()
# Every estimator with its data.
ESTIMATORS = [
    (mm.StructuralSVM(CHAIN, **QUICK), SEQUENCES, TAGS),
    (mm.StructuralSVMCV(CHAIN, Cs=[0.1, 1.0], cv=2, **QUICK), SEQUENCES, TAGS),
    (mm.LatentSVM(CHAIN, **QUICK), SEQUENCES, TAGS),
    (mm.CRF(CHAIN, **QUICK), SEQUENCES, TAGS),
    (mm.MulticlassLogistic(**QUICK), ROWS, CLASSES),
    (mm.MulticlassSVC(**QUICK), ROWS, CLASSES),
    (mm.MulticlassSVCCV(Cs=[0.1, 1.0], cv=2, **QUICK), ROWS, CLASSES),
    (mm.BinarySVC(**QUICK), ROWS, CLASSES),
    (mm.RegressionSVR(**QUICK), ROWS, ROWS[:, 0] + 0.5),
    (mm.GeneralizedSVM(**QUICK), ROWS, np.ones(len(ROWS))),
]
# Methods that take X and outputs. An estimator without a method skips it.
METHODS = (
    "fit",
    "partial_fit",
    "score",
    "loss",
    "log_likelihood",
    "errors",
    "calibrate",
    "reliability",
    "conformal",
)
WORK = ("fit", "score", "loss")  # these methods work on all data above
NAMED = pytest.mark.parametrize(
    ("svm", "X", "Y"), ESTIMATORS, ids=[type(svm).__name__ for svm, _, _ in ESTIMATORS]
)


def quiet(call, *args, **options):
    """Return the result of a call, or the text of its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(*args, **options)
        except (TypeError, ValueError) as error:
            return str(error)


def same(one, other):
    """Return True if two results of a method are equal; fitted estimators have equal weights."""
    if isinstance(one, BaseSVM):
        return np.array_equal(one.coef_, other.coef_)
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else str(one) == str(other)


def test_the_list_names_every_estimator():
    public = {getattr(mm, name) for name in mm.__all__}
    kinds = {kind for kind in public if isinstance(kind, type) and issubclass(kind, BaseSVM)}
    assert kinds == {type(svm) for svm, _, _ in ESTIMATORS}


@NAMED
def test_every_method_takes_both_names(svm, X, Y):
    fitted = quiet(clone(svm).fit, X, Y)
    for name in METHODS:
        make = (lambda: clone(svm)) if "fit" in name else (lambda: fitted)
        if not callable(getattr(make(), name, None)):
            continue
        expected = quiet(getattr(make(), name), X, Y)
        assert name not in WORK or not isinstance(expected, str), expected
        for other in ("y", "Y"):
            assert same(expected, quiet(getattr(make(), name), X, **{other: Y})), (name, other)
            found = quiet(getattr(make(), name), **{"X": X, other: Y})
            assert same(expected, found), (name, other)


@NAMED
def test_both_names_at_once_are_refused(svm, X, Y):
    for name in METHODS:
        if not callable(getattr(svm, name, None)):
            continue
        for given in (lambda call: call(X, Y, Y=Y), lambda call: call(X, y=Y, Y=Y)):
            with pytest.raises(TypeError, match=f"{name}: .* two names of the same parameter"):
                given(getattr(svm, name))


@NAMED
def test_signatures_show_one_name(svm, X, Y):
    expected = "margins" if isinstance(svm, mm.GeneralizedSVM) else "y"
    for name in (name for name in METHODS if callable(getattr(svm, name, None))):
        assert list(inspect.signature(getattr(svm, name)).parameters)[1] == expected, name
    assert "y" in inspect.signature(svm.report).parameters


@NAMED
def test_no_name_is_metadata(svm, X, Y):
    for requests in vars(svm.get_metadata_routing()).values():
        assert not {"y", "Y", "margins"} & set(getattr(requests, "requests", {}))


@NAMED
def test_functions_take_both_names(svm, X, Y):
    fitted = quiet(clone(svm).fit, X, Y)
    w = getattr(fitted, "w_", fitted.coef_)
    expected = mm.certify(fitted, X, Y).primal, mm.objective(fitted, w, X, Y)
    for name in ("y", "Y"):
        given = {name: Y}
        assert (
            mm.certify(fitted, X, **given).primal,
            mm.objective(fitted, w, X, **given),
        ) == expected
    for function in (mm.certify, mm.objective, mm.regularization_path, mm.check_model):
        assert "y" in inspect.signature(function).parameters


@pytest.mark.parametrize("name", ["y", "Y"])
def test_paths_and_reports_take_both_names(name, tmp_path):
    given = {"X": ROWS, name: CLASSES}
    path = mm.regularization_path(mm.MulticlassSVC(**QUICK), Cs=[0.1, 1.0], **given)
    path.estimators[0].report(tmp_path / "page.html", **given)
    assert (tmp_path / "page.html").exists()


@pytest.mark.parametrize("svm", [mm.StructuralSVM(models.Multiclass(), **QUICK), mm.BinarySVC()])
def test_tools_of_scikit_learn_pass_y_by_name_with_routed_weights(svm):
    weights = np.ones(len(ROWS))
    with config_context(enable_metadata_routing=True):
        asked = clone(svm).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipe = make_pipeline(FunctionTransformer(), asked)
        step = type(svm).__name__.lower()
        search = GridSearchCV(pipe, {f"{step}__C": [0.1, 1.0]}, cv=2, error_score="raise")
        search.fit(ROWS, y=CLASSES, sample_weight=weights)
        assert search.best_estimator_.score(ROWS, y=CLASSES) > 0.5


def documented(kind, seen=()):
    """Return the words of a class docstring, and of the docstrings to which it refers."""
    text = inspect.getdoc(kind)
    words = set(re.findall(r"\w+", text))
    for name in re.findall(r"``(\w+)(?:\.fit)?``", text):
        other = getattr(mm, name, None)
        if inspect.isclass(other) and other not in seen:
            words |= documented(other, (*seen, kind))
    return words


@NAMED
def test_public_names_are_documented(svm, X, Y):
    fitted = quiet(clone(svm).fit, X, Y)
    words = documented(type(svm)) | {"n_features_in_"}  # scikit-learn's own
    for name in dir(fitted):
        if name.startswith("_") or hasattr(BaseEstimator, name):
            continue
        if re.fullmatch(r"set_\w+_request", name) or name in words:
            continue
        own = inspect.getattr_static(type(svm), name, None)
        described = hasattr(own, "__get__") and inspect.getdoc(own)  # a method or a property
        assert described, f"{type(svm).__name__}.{name} is not documented"


@NAMED
def test_parameters_of_other_estimators_are_no_names(svm, X, Y):
    shared = {"C", "hinge", "rescaling", "prior", "nonnegative", "fit_intercept", "warm_start"}
    assert shared & {*dir(svm)} == shared & {*svm.get_params(deep=False)}


@NAMED
def test_pickles_with_earlier_names_of_the_state_load(svm, X, Y):
    fitted = quiet(clone(svm).fit, X, Y)
    state = fitted.__getstate__()
    kept = {*STATE.values()} & state.keys()
    assert kept and kept <= learnt(fitted).keys()
    earlier = {old: state.pop(new) for old, new in STATE.items() if new in state}
    again = type(svm).__new__(type(svm))
    again.__setstate__({**state, **earlier})
    assert vars(again).keys() == vars(pickle.loads(pickle.dumps(fitted))).keys()
    assert mm.certify(again, X, Y).primal == mm.certify(fitted, X, Y).primal


def test_a_stream_goes_on_after_a_pickle_with_earlier_names():
    svm = mm.MulticlassSVC(**QUICK)
    quiet(svm.partial_fit, ROWS, CLASSES)
    state = svm.__getstate__()
    earlier = {old: state.pop(new) for old, new in STATE.items()}
    again = mm.MulticlassSVC()
    again.__setstate__({**state, **earlier})
    quiet(svm.partial_fit, ROWS, CLASSES)
    quiet(again.partial_fit, ROWS, CLASSES)
    np.testing.assert_array_equal(again.coef_, svm.coef_)
