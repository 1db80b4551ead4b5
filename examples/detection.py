"""Detection without boxes: some images hold a cross somewhere, and the others hold none.

Every image is a bag of windows. The labels do not say which window of a positive image holds the
cross: the machine chooses the best window while it learns. Every window of a negative image must
score below -1. The oracle finds the worst of them, the hard negative.

Run: python examples/detection.py [--small]
"""

import sys

import numpy as np

import maxmargin as mm
from maxmargin import models

small = "--small" in sys.argv
SIZE, WINDOW = 12, 5
CROSS = np.zeros((WINDOW, WINDOW))
CROSS[WINDOW // 2, :] = CROSS[:, WINDOW // 2] = 1.0


def images(n, seed):
    """Images of noise and parts of crosses; every other image also has a whole cross.

    Return the images, their labels and the windows of the crosses. Only the test uses the windows.
    """
    rng = np.random.default_rng(seed)
    places, pictures = [], []
    for i in range(n):
        picture = 0.4 * rng.normal(size=(SIZE, SIZE))
        for _ in range(3):  # clutter: parts of a cross
            r, c = rng.integers(SIZE - WINDOW + 1, size=2)
            part = CROSS * rng.integers(2, size=(1, WINDOW)) if rng.random() < 0.5 else 0.0
            picture[r : r + WINDOW, c : c + WINDOW] += 0.7 * part
        r, c = rng.integers(SIZE - WINDOW + 1, size=2)
        if i % 2 == 0:
            picture[r : r + WINDOW, c : c + WINDOW] += CROSS
        pictures.append(picture)
        places.append(int(r * (SIZE - WINDOW + 1) + c))
    return pictures, np.arange(n) % 2 == 0, np.array(places)


def windows(picture):
    """Return every window of the picture as a row."""
    view = np.lib.stride_tricks.sliding_window_view(picture, (WINDOW, WINDOW))
    return np.ascontiguousarray(view.reshape(-1, WINDOW * WINDOW))


n = 120 if small else 600
train, y, _ = images(n, seed=0)
test, y_test, places = images(300, seed=1)
bags, bags_test = [windows(p) for p in train], [windows(p) for p in test]

whole = [np.stack([p.ravel() for p in pictures]) for pictures in (train, test)]
flat = mm.BinarySVC(C=0.01).fit(whole[0], y)
print(f"all pixels, one row of weights:  {flat.score(whole[1], y_test):.3f}")

svm = mm.LatentSVM(models.Bags(bias=1.0), C=0.1, random_state=0).fit(bags, y)
path = svm.objective_path_
assert (np.diff(path) <= 1e-9 * path[0]).all(), "a round never raises the objective"
assert svm.score(bags_test, y_test) > flat.score(whole[1], y_test)
print(
    f"bags of {len(bags[0])} windows:              {svm.score(bags_test, y_test):.3f}   "
    f"objective {path[0]:.2f} -> {path[-1]:.2f} in {len(path)} rounds"
)
found = np.array([window for _, window in svm.predict_complete(bags_test)])
print(f"windows found in positive images: {np.mean((found == places)[y_test]):.3f}")
