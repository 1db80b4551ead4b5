"""The maximum of all violations, or their sum: two objectives, for digits and for words.

Run: python examples/summed_error.py [--small]
"""

import sys

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import maxmargin as mm
from maxmargin import models
from maxmargin.data.synthetic import words_of_letters

small = "--small" in sys.argv
X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16.0, y, random_state=0, stratify=y)
if small:
    X_train, y_train = X_train[:400], y_train[:400]

# Classes: hinge="max" is the machine of Crammer and Singer, hinge="sum" the one of Weston and
# Watkins.
print("digits  hinge  C      test accuracy  gap")
for hinge in ("max", "sum"):
    for C in (0.01, 0.1, 1.0):
        svm = mm.MulticlassSVC(C=C, hinge=hinge, tol=1e-3, random_state=0).fit(X_train, y_train)
        assert svm.certificate_.converged
        accuracy = svm.score(X_test, y_test)
        print(f"        {hinge:<5}  {C:<5g}  {accuracy:.3f}          {svm.certificate_.gap:.1e}")

# Words: every violating spelling counts. There are 26^T spellings, yet the certificate is exact as
# long as the violators of each word can be listed one by one.
X, Y = words_of_letters(60 if small else 200, random_state=0)
svm = mm.StructuralSVM(models.Chain(bias=1.0), C=0.1, hinge="sum", tol=0.05, random_state=0).fit(
    X, Y
)
certificate = svm.certificate_
print(f"words   {certificate}")
assert certificate.converged

# The sum is never below the maximum, at any weights.
largest = mm.StructuralSVM(models.Chain(bias=1.0), C=0.1, random_state=0).fit(X, Y)
print(f"P(w) of the maximum {mm.objective(largest, svm.coef_, X, Y):.3f}", end=", ")
print(f"of the sum {mm.objective(svm, svm.coef_, X, Y):.3f}")
assert mm.objective(largest, svm.coef_, X, Y) <= mm.objective(svm, svm.coef_, X, Y)
