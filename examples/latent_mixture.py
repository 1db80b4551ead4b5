"""Classes that are mixtures: the machine finds hidden sub-classes while it learns the weights.

Run: python examples/latent_mixture.py [--small]
"""

import sys

import numpy as np

import maxmargin as mm
from maxmargin import models

small = "--small" in sys.argv
BLOBS = 3  # blobs per class; there are three classes


def sample(n, seed):
    """Draw points from nine blobs on a circle; neighbouring blobs belong to different classes."""
    rng = np.random.default_rng(seed)
    blob = np.arange(n) % (3 * BLOBS)
    angle = 2 * np.pi * blob / (3 * BLOBS)
    X = 4 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.5 * rng.normal(size=(n, 2))
    return X, np.array(["red", "green", "blue"])[blob % 3]


X, y = sample(270 if small else 1800, seed=0)
X_test, y_test = sample(900, seed=1)

flat = mm.StructuralSVM(models.Multiclass(bias=1.0), C=0.1).fit(X, y)
print(f"one row of weights per class: {flat.score(X_test, y_test):.3f}")

for parts in (2, 3, 4):
    model = models.Latent(models.Multiclass(bias=1.0), parts=parts)
    svm = mm.LatentSVM(model, C=0.1, random_state=0).fit(X, y)
    path = svm.objective_path_
    assert (np.diff(path) <= 1e-9 * path[0]).all(), "a round never raises the objective"
    print(
        f"{parts} hidden parts a class:     {svm.score(X_test, y_test):.3f}   "
        f"objective {path[0]:.2f} -> {path[-1]:.2f} in {len(path)} rounds"
    )
