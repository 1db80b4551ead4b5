"""Few examples of a new task, with the weights of an old task as a prior.

Run: python examples/transfer.py [--small]
"""

import sys

import numpy as np

import maxmargin as mm
from maxmargin import models

small = "--small" in sys.argv
K, d = 4, 20
rng = np.random.default_rng(0)
old_centres = rng.normal(size=(K, d))
new_centres = old_centres + 0.3 * rng.normal(size=(K, d))  # a related task


def sample(centres, n, seed):
    """Draw n examples: the centre of a class plus noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % K
    return centres[y] + 1.5 * rng.normal(size=(n, d)), y


X_old, y_old = sample(old_centres, 500 if small else 5000, seed=1)
X_test, y_test = sample(new_centres, 2000, seed=2)
old = mm.StructuralSVM(models.Multiclass(), C=0.01).fit(X_old, y_old)

print(f"the old weights on the new task: {old.score(X_test, y_test):.3f}")
print("examples  alone  with the prior")
for n in (8, 16, 32, 64, 128):
    X, y = sample(new_centres, n, seed=3)
    alone = mm.StructuralSVM(models.Multiclass(), C=0.1).fit(X, y)
    # R(w) = 1/2 |w - old|^2 / 0.1^2: the weights stay near the old ones unless the new examples
    # object.
    prior = mm.StructuralSVM(models.Multiclass(), C=0.1, prior=(old.coef_, 0.1)).fit(X, y)
    scores = [svm.score(X_test, y_test) for svm in (alone, prior)]
    print(f"{n:8d}  {scores[0]:.3f}  {scores[1]:.3f}")
    if n == 8:
        assert scores[1] > scores[0], "a good prior wins where examples are few"
