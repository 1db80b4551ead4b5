"""Predict sets of labels, with weights for pairs of labels that occur together.

Run: python examples/multilabel.py [--small]
"""

import sys

import numpy as np

from maxmargin import StructuralSVM, models
from maxmargin.data.synthetic_graphs import random_label_sets
from maxmargin.models.constraints import AtMost

n = 100 if "--small" in sys.argv else 1000
X_train, Y_train = random_label_sets(n, random_state=0)
X_test, Y_test = random_label_sets(500, random_state=1)

for pairs in ("none", "all"):
    model = models.MultiLabel(pairs, bias=1.0)
    svm = StructuralSVM(model, C=1.0 / n, tol=0.05, random_state=0).fit(X_train, Y_train)
    exact = np.mean((svm.predict(X_test) == Y_test).all(axis=1))
    print(f"pairs={pairs}: labels right {svm.score(X_test, Y_test):.3f}, whole sets {exact:.3f}")
    print(f"  {svm.certificate_}")

weights = svm.model_.unpack(svm.coef_)["pairs"]
strongest = np.argsort(-weights)[:3]
print("labels that come together:", [svm.model_.pairs_[k] for k in strongest])
print("at most one label:", svm.predict(X_test[:3], constraints=[AtMost(1, 1)]).tolist())
