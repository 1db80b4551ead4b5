"""Regression and ranking as groups of linear constraints, each solution with a certificate.

Run: python examples/regression.py [--small]
"""

import sys

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import maxmargin as mm

small = "--small" in sys.argv

# Regression: the progress of a disease, in units of its score. Errors up to epsilon are free.
X, y = load_diabetes(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)
scaler = StandardScaler().fit(X)
X, X_test = scaler.transform(X), scaler.transform(X_test)
print("epsilon  mean error  R^2    support  certificate")
for epsilon in (1.0, 20.0, 50.0):
    svr = mm.RegressionSVR(C=10.0, epsilon=epsilon, tol=1e-2).fit(X, y)
    error = np.abs(svr.predict(X_test) - y_test).mean()
    c = svr.certificate_
    print(f"{epsilon:7.0f}  {error:10.1f}  {svr.score(X_test, y_test):.3f}  {c.support:7d}", end="")
    print(f"  {c.dual:.6g} <= optimum <= {c.primal:.6g}")

# Ranking: one document of each query was clicked. It must beat every other one by a margin. The
# pairs of a query form a group, which pays only for its worst pair.
rng = np.random.default_rng(0)
queries, documents, d = (50, 5, 10) if small else (1000, 10, 30)
taste = rng.normal(size=d)
shown = rng.normal(size=(queries, documents, d))
clicked = (shown @ taste + rng.gumbel(size=(queries, documents))).argmax(axis=1)
winners = shown[np.arange(queries), clicked][:, None, :]
others = np.arange(documents) != clicked[:, None]
pairs = (winners - shown)[others]
groups = np.arange(queries + 1) * (documents - 1)
svm = mm.GeneralizedSVM(C=0.1).fit(pairs, margins=1.0, groups=groups)
first = (
    svm.decision_function(shown.reshape(-1, d)).reshape(queries, -1).argmax(axis=1) == clicked
).mean()
cosine = svm.coef_ @ taste / np.linalg.norm(svm.coef_) / np.linalg.norm(taste)
print(f"\n{len(pairs)} pairs in {queries} groups: {svm.certificate_}")
print(
    f"the clicked document comes first in {first:.0%} of the queries; cosine to the taste {cosine:.2f}"
)
