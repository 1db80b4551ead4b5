"""Learn to tag from sentences with only some tags known: None in Y is an unknown label.

Tagging every word takes an expert's time, so here only a share of all labels is known. A chain that
sees only the known parts learns little about which tag follows which. LatentSVM completes the
unknown labels and learns that too.

Run: python examples/unknown_labels.py [--small]
"""

import sys

import numpy as np

from maxmargin import LatentSVM, StructuralSVM, models

FOLLOWS = np.array(
    [[0.1, 0.6, 0.3, 0.0], [0.0, 0.1, 0.2, 0.7], [0.0, 0.8, 0.2, 0.0], [0.7, 0.1, 0.0, 0.2]]
)


def sentences(n, seed):
    """Draw n sequences of noisy evidence, and their labels."""
    g = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        y = [int(g.integers(4))]
        while len(y) < 20:
            y.append(int(g.choice(4, p=FOLLOWS[y[-1]])))
        X.append(np.eye(4)[y] + g.normal(scale=0.8, size=(20, 4)))
        Y.append(y)
    return X, Y


X, Y = sentences(20 if "--small" in sys.argv else 80, seed=0)
X_test, Y_test = sentences(100, seed=1)
g = np.random.default_rng(2)

print("labels known   known parts alone   with completions   rounds")
for share in (1.0, 0.5, 0.3, 0.2):
    known = [[label if g.random() < share else None for label in y] for y in Y]
    svm = LatentSVM(models.Chain(), C=0.1, tol=0.02, round_tol=0.005, random_state=0)
    svm.fit(X, known)
    parts = svm.model_.known_part(X, known)
    alone = StructuralSVM(models.Chain(), C=0.1, tol=0.02, random_state=0).fit(*parts)
    print(
        f"{share:12.0%}   {alone.score(X_test, Y_test):17.3f}   {svm.score(X_test, Y_test):16.3f}   "
        f"{len(svm.objective_path_):6}"
    )
