"""Labels with hidden states: a chain that knows in which phase of a movement it is.

A hand goes up slowly, through low, middle and high, and comes down fast. Frames are labelled "up"
or "down". One frame tells little, and the label does not say what comes next. With hidden states a
label has phases, which the machine finds while it learns. The transitions between states then
describe the movement.

Run: python examples/latent_states.py [--small]
"""

import sys

import numpy as np

import maxmargin as mm
from maxmargin import models


def films(n, seed):
    """Draw films of six movements in any order: noisy heights, and a label for each frame."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        ups = rng.integers(2, size=6)
        heights = np.concatenate([[0, 1, 2] if up else [2, 0, 0] for up in ups])
        X.append(np.eye(3)[heights] + 0.25 * rng.normal(size=(len(heights), 3)))
        Y.append([("down", "up")[up] for up in ups for _ in range(3)])
    return X, Y


X, Y = films(40 if "--small" in sys.argv else 200, seed=0)
X_test, Y_test = films(100, seed=1)

plain = mm.StructuralSVM(models.Chain(), C=0.3, random_state=0).fit(X, Y)
print(f"one state a label:      {plain.score(X_test, Y_test):.3f}")

for parts in (2, 3, 4):
    model = models.Latent(models.Chain(), parts=parts)
    svm = mm.LatentSVM(model, C=0.3, random_state=0).fit(X, Y)
    path = svm.objective_path_
    assert (np.diff(path) <= 1e-9 * path[0]).all(), "a round never raises the objective"
    print(
        f"{parts} hidden states a label: {svm.score(X_test, Y_test):.3f}   "
        f"objective {path[0]:.2f} -> {path[-1]:.2f} in {len(path)} rounds"
    )

print("states of the first film:", svm.predict_complete(X_test[:1])[0].tolist())
print("its labels:              ", svm.predict(X_test[:1])[0].tolist())
