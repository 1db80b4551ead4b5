"""MulticlassLogistic compared with scikit-learn's LogisticRegression, and under scikit-learn's checks."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import maxmargin as mm
from helpers import refusal
from reference.cases import binary_case, multiclass_case


@parametrize_with_checks([mm.MulticlassLogistic(), mm.MulticlassLogistic(solver="lbfgs")])
def test_it_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("solver", ["auto", "exponentiated", "lbfgs"])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_the_weights_are_those_of_scikit_learn(generator, classes, solver, layout):
    make = binary_case if classes == 2 else multiclass_case
    case = make(generator, n=60, weighted=True, layout=layout)
    ours = mm.MulticlassLogistic(C=0.7, fit_intercept=False, solver=solver, tol=1e-11)
    ours.fit(case.X, case.Y, sample_weight=case.sample_weight)
    theirs = LogisticRegression(C=0.7, fit_intercept=False, tol=1e-10, max_iter=10_000)
    theirs.fit(case.X, case.Y, sample_weight=case.sample_weight)
    assert ours.coef_ == pytest.approx(theirs.coef_, abs=1e-4)
    assert ours.predict_proba(case.X) == pytest.approx(theirs.predict_proba(case.X), abs=1e-4)
    assert ours.predict_log_proba(case.X) == pytest.approx(np.log(ours.predict_proba(case.X)))
    assert (ours.predict(case.X) == theirs.predict(case.X)).mean() > 0.98
    assert ours.certificate_.converged


@pytest.mark.parametrize("classes", [2, 3])
def test_what_is_saved_predicts_the_same(generator, classes, tmp_path):
    case = multiclass_case(generator, n=30, n_classes=classes)
    names = np.array(["red", "green", "blue"])[case.Y]
    svm = mm.MulticlassLogistic(C=2.0, class_weight="balanced").fit(case.X, names)
    svm.save(tmp_path / "logistic.model")
    again = mm.load(tmp_path / "logistic.model")
    assert isinstance(again, mm.MulticlassLogistic)
    assert again.get_params() == svm.get_params()
    assert (again.predict_proba(case.X) == svm.predict_proba(case.X)).all()


def test_a_path_over_c_and_attributes(generator):
    case = multiclass_case(generator, n=40)
    path = mm.regularization_path(mm.MulticlassLogistic(), case.X, case.Y, 4)
    assert [c.converged for c in path.certificates] == [True] * 4
    dicts = [{"a": float(x[0]), "b": float(x[1])} for x in case.X]
    named = mm.MulticlassLogistic().fit(dicts, case.Y)
    assert named.predict_proba(dicts).shape == (40, 3)
    rows = sparse.csr_matrix(case.X)
    assert mm.MulticlassLogistic().fit(rows, case.Y).score(rows, case.Y) > 0.3


def test_hinge_solvers_are_refused(generator):
    case = multiclass_case(generator)
    with refusal("does not support formulation='log'", "exponentiated"):
        mm.MulticlassLogistic(solver="proximal").fit(case.X, case.Y)
