"""Landmarks: a tree of parts finds a face among look-alikes, because its parts hold together.

Run: python examples/landmarks.py [--small]
"""

import sys

import numpy as np

import maxmargin as mm
from maxmargin import models

small = "--small" in sys.argv
SHAPE = np.array([[3, 3], [3, 9], [7, 6], [10, 4], [10, 8]])  # eyes, nose, corners of the mouth
LOOKS = np.array([0, 0, 1, 2, 2])  # both eyes look the same, and both corners of the mouth


def sample(n, seed):
    """Draw maps of three features; every part leaves a mark, and so do ten distractors."""
    rng = np.random.default_rng(seed)
    Y = SHAPE + rng.integers(0, 6, size=(n, 1, 2)) + rng.integers(-1, 2, size=(n, 5, 2))
    X = 0.5 * rng.normal(size=(n, 20, 20, 3))
    for x, y in zip(X, Y, strict=True):
        x[y[:, 0], y[:, 1], LOOKS] += 2
        x[rng.integers(0, 20, 10), rng.integers(0, 20, 10), rng.integers(0, 3, 10)] += 2
    return X, list(Y)


X, Y = sample(60 if small else 300, seed=0)
X_test, Y_test = sample(200, seed=1)

svm = mm.StructuralSVM(models.Tree(), C=20 / len(X), tol=0.05, random_state=0).fit(X, Y)
print("tree:", svm.model_.edges_.tolist())
print(f"mean distance in cells:      {svm.loss(X_test, Y_test):.2f}   {svm.certificate_}")

# The same parts without springs: each part goes to the cell that looks best to it alone.
loose = svm.coef_.copy()
loose[-4 * len(svm.model_.edges_) :] = 0
apart = svm.model_.bind(X_test).predict(loose, 1)
distance = np.mean([svm.model_.loss(y, p) for y, p in zip(Y_test, apart, strict=True)])
print(f"every part for itself:       {distance:.2f}")
