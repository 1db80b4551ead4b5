"""Few positives: train for the measure that counts, not for the error rate.

Run: python examples/imbalanced.py [--small]
"""

import sys

import numpy as np
from sklearn.metrics import f1_score, roc_auc_score

import maxmargin as mm
from maxmargin import losses

small = "--small" in sys.argv


def sample(n, seed):
    """Draw n examples: 3 % are positive, and 5 of 20 features are informative.

    The informative features of a positive example are shifted by less than their spread.
    """
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.03).astype(int)
    X = rng.normal(size=(n, 20))
    X[:, :5] += 0.9 * y[:, None]
    return X, y


X, y = sample(2000 if small else 20_000, seed=0)
X_test, y_test = sample(20_000, seed=1)
best = int(0.02 * len(y_test))  # the number of examples that somebody will look at

# A loss of the whole sample has one slack for all examples, so it needs a C of another order of
# magnitude than a loss of single examples (see docs/models/binary.md). Choose C by validation.
candidates = {
    "error": mm.BinarySVC(C=0.1),
    "error, balanced": mm.BinarySVC(C=0.1, class_weight="balanced"),
    "F1": mm.BinarySVC(C=1e6, loss="f1", tol=1e-2),
    "precision at 2 %": mm.BinarySVC(C=1e5, loss=losses.PrecisionAt(0.02), tol=1e-2),
    "ROC area": mm.BinarySVC(C=1e2, loss="roc-area", tol=1e-2),
}
print("trained for        F1     precision at 2 %  ROC area  oracle calls  gap")
for name, svc in candidates.items():
    svc.fit(X, y)
    scores = svc.decision_function(X_test)  # for ranking; predict uses the signs
    top = y_test[np.argsort(-scores)[:best]].mean()
    c = svc.certificate_
    print(f"{name:<17}  {f1_score(y_test, svc.predict(X_test)):.3f}  {top:16.3f}", end="")
    print(f"  {roc_auc_score(y_test, scores):8.3f}  {c.oracle_calls:12d}  {c.gap:.1g}")
