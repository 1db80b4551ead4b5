"""Cut a noisy signal into segments: features on edges, and a chain of second order.

A machine runs in one of three modes, whose mean levels overlap. When the mode changes, a sensor
clicks. The click belongs to the edge between two positions, not to a position. A mode lasts at
least two steps, and it takes three labels in a row to see that.

Run: python examples/segmenting_signals.py [--small]
"""

import sys

import numpy as np

from maxmargin import StructuralSVM, models

LEVELS = np.array([0.0, 0.7, 1.4])


def signals(n, seed):
    """Draw n signals as pairs (nodes, edges), with their modes."""
    g = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        lasts = g.integers(2, 7, size=12)
        modes = np.cumsum(g.integers(1, 3, size=12)) % 3  # never the same mode twice in a row
        y = np.repeat(modes, lasts)
        level = LEVELS[y] + g.normal(scale=0.8, size=len(y))
        nodes = np.column_stack([level, level**2, np.ones(len(y))])
        changes = np.diff(y) != 0
        click = np.where(changes, 1.0, 0.0) + g.normal(scale=0.5, size=len(changes))
        X.append((nodes, click[:, None]))
        Y.append(y)
    return X, Y


n = 20 if "--small" in sys.argv else 150
X, Y = signals(n, seed=0)
X_test, Y_test = signals(60, seed=1)
nodes, nodes_test = [x for x, _ in X], [x for x, _ in X_test]

print("model                      accuracy   gap")
for name, model, train, test in [
    ("levels alone", models.Chain(), nodes, nodes_test),
    ("order 2", models.Chain(order=2), nodes, nodes_test),
    ("clicks on edges", models.Chain(edges=True), X, X_test),
    ("clicks and order 2", models.Chain(edges=True, order=2), X, X_test),
]:
    svm = StructuralSVM(model, C=0.1, tol=0.05, random_state=0).fit(train, Y)
    print(f"{name:25}  {svm.score(test, Y_test):8.3f}   {svm.certificate_.gap:.4f}")

weights = svm.model_.unpack(svm.coef_)["edges"][:, :, 0]
print("\nwhat a click is worth, from mode (row) to mode (column):")
print(np.array2string(weights, precision=2, suppress_small=True))
