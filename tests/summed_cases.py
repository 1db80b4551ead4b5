"""Machines with the summed error, and the reference optimum for them."""

from functools import partial

import numpy as np
from sklearn.base import clone

import helpers
import maxmargin as mm
from helpers import quietly

MAIN = ("sdcd", "one-slack", "n-slack")
fit, optimum_of = (partial(name, hinge="sum") for name in (helpers.fit, helpers.optimum_of))


def mm_svm(model, X, Y):
    """Return an estimator after one pass with a tiny C: its gap and primal are infinite."""
    svm = mm.StructuralSVM(clone(model), C=1e-6, hinge="sum", max_passes=1, random_state=0)
    svm = quietly(lambda: svm.fit(X, Y))
    assert svm.certificate_.gap == np.inf
    assert svm.certificate_.primal == np.inf
    assert np.isfinite(svm.certificate_.dual)
    assert not svm.certificate_.converged
    return svm
