"""Ranking: put the documents of a query in order of relevance, learnt from graded examples.

Run: python examples/ranking.py [--small]
"""

import sys

import numpy as np
from sklearn.metrics import ndcg_score

import maxmargin as mm
from maxmargin import models

small = "--small" in sys.argv
TASTE = np.random.default_rng(7).normal(size=20)  # the direction that makes a document relevant


def sample(n, seed):
    """Draw queries with 10 to 30 documents of 20 features; most of the grades 0 to 4 are low."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(10, 31), 20)) for _ in range(n)]
    # A shift that all documents of a query share has no effect, as only these are compared.
    X = [x + 5 * rng.normal(size=20) for x in X]
    worth = [(x - x.mean(axis=0)) @ TASTE / 4 + 0.5 * rng.normal(size=len(x)) for x in X]
    return X, [np.clip(np.floor(2 * w), 0, 4) for w in worth]


X, Y = sample(50 if small else 400, seed=0)
X_test, Y_test = sample(200, seed=1)

svm = mm.StructuralSVM(models.Ranking(), C=10 / len(X), tol=0.01, random_state=0).fit(X, Y)
print(svm.certificate_)

places = svm.predict(
    X_test
)  # for each document, the number of documents of its query that rank below it
ndcg = np.mean([ndcg_score([y], [p], k=10) for y, p in zip(Y_test, places, strict=True)])
print(f"pairs in the right order: {svm.score(X_test, Y_test):.3f}   NDCG at 10: {ndcg:.3f}")

# A regression on the grades does not know that every query has its own level.
flat = mm.RegressionSVR(C=0.1, tol=0.01, random_state=0).fit(np.vstack(X), np.concatenate(Y))
right = [svm.model_.agreement(y, flat.predict(x)) for x, y in zip(X_test, Y_test, strict=True)]
right, total = np.sum(right, axis=0)
print(f"regression on the grades: {right / total:.3f} of the pairs in the right order")
assert svm.score(X_test, Y_test) > right / total
