"""Quickstart: classify 8 x 8 images of digits, and see how close training came to the optimum.

Run: python examples/digits_multiclass.py [--small]
"""

import sys

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import maxmargin as mm

X, y = load_digits(return_X_y=True)
X = X / 16.0
if "--small" in sys.argv:
    X, y = X[:400], y[:400]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)

svm = mm.MulticlassSVC(C=0.1, tol=1e-3, random_state=0).fit(X_train, y_train)

print(f"test accuracy   {svm.score(X_test, y_test):.3f}")
print(f"weights         {svm.coef_.shape} and intercepts {svm.intercept_.shape}")

# The certificate bounds the distance of the objective from its optimum, in units of the loss: no
# other
# weights lower the regularised training error by more than the gap.
certificate = svm.certificate_
print(f"gap             {certificate.gap:.2e} (asked for {certificate.tol:g})")
print(f"work            {certificate.passes:.1f} passes, {certificate.seconds:.2f} seconds")
assert certificate.converged

# The two classes with the highest scores for the first test image.
scores = svm.decision_function(X_test[:1])[0]
best, second = scores.argsort()[::-1][:2]
print(f"first image     {svm.classes_[best]}, then {svm.classes_[second]}", end=" ")
print(f"(margin {scores[best] - scores[second]:.2f})")
