"""Label the cells of a grid: a snake's parts look alike, and only their neighbours tell them apart.

The graph has cycles, so the argmax is message passing with a proven upper bound. The certificate
uses these upper bounds, so it is valid although the argmax is not always exact.

Run: python examples/grid_segmentation.py [--small]
"""

import sys

import numpy as np

from maxmargin import StructuralSVM, models
from maxmargin.data.synthetic_graphs import random_snakes
from maxmargin.models.constraints import AtMost

n = 20 if "--small" in sys.argv else 200
X_train, Y_train = random_snakes(n, random_state=0)
X_test, Y_test = random_snakes(50, random_state=1)

# Without neighbours: the same model on the same nodes, with no edges.
alone = [(nodes, np.empty((0, 2), int)) for nodes, _, _ in X_train]
flat = StructuralSVM(models.FactorGraph(), C=0.1, tol=0.5).fit(alone, Y_train)
alone = [(nodes, np.empty((0, 2), int)) for nodes, _, _ in X_test]
print(f"cells right without neighbours: {flat.score(alone, Y_test):.3f}")

svm = StructuralSVM(models.FactorGraph(), C=0.1, tol=0.5, random_state=0).fit(X_train, Y_train)
print(f"with neighbours: {svm.score(X_test, Y_test):.3f}")
print(svm.certificate_)

# A snake has one cell in each place. Training does not know these constraints.
one_each = [AtMost(1, place) for place in range(1, 7)]
some = slice(0, 10)
free = svm.predict(X_test[some])
kept = svm.predict(X_test[some], constraints=one_each)
for name, outputs in (("free", free), ("at most one cell a place", kept)):
    right = np.mean([(y == p).mean() for y, p in zip(Y_test[some], outputs, strict=True)])
    print(f"{name}: {right:.3f}")
print(Y_test[0].reshape(5, 6), kept[0].reshape(5, 6), sep="\n\n")
