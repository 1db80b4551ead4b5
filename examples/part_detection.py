"""Part-based detection: a root, parts that may shift, hidden components, and an image pyramid.

A creature is a body with two arms, small or large, somewhere in an image full of single bodies and
arms. It holds both arms up or both down. The hidden types of root and parts find that out; the
types of the root are the components of the detector.

An image and its smaller copies lie side by side in one map, so that a place of the root is both the
place and the size of a window. Distance transforms find the best window exactly, with the best
shifts of all parts. In most training images the places of the arms are unknown, and so hidden, too.

Run: python examples/part_detection.py [--small]
"""

import sys

import numpy as np

import maxmargin as mm
from maxmargin import models

SIDE, GAP, LEVELS = 28, 6, (1, 2)
BODY = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]])
ARMS = {
    "up": np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1]]),
    "down": np.array([[0, 1, 1], [1, 1, 0], [1, 0, 0]]),
}


def draw(image, pattern, row, column, scale):
    """Add a pattern around a place if it fits into the image."""
    big = np.kron(pattern, np.ones((scale, scale)))
    a, b = row * scale - scale, column * scale - scale
    if min(a, b) >= 0 and a + len(big) <= SIDE and b + len(big) <= SIDE:
        image[a : a + len(big), b : b + len(big)] = np.maximum(
            image[a : a + len(big), b : b + len(big)], big
        )


def creature(rng):
    """Draw an image; return it with the scale of its creature and the places of body and arms."""
    image = np.zeros((SIDE, SIDE))
    for _ in range(10):  # bodies and arms that belong to no creature
        pattern = [BODY, *ARMS.values()][rng.integers(3)]
        scale = int(rng.choice(LEVELS))
        draw(image, pattern, *rng.integers(1, SIDE // scale - 1, size=2), scale)
    scale, up = int(rng.choice(LEVELS)), bool(rng.integers(2))
    body = rng.integers(6, SIDE // scale - 6, size=2)
    side = -4 if up else 4
    arms = body + np.array([[side, -4], [side, 4]]) + rng.integers(-1, 2, size=(2, 2))
    image[tuple(slice((v - 6) * scale, (v + 7) * scale) for v in body)] = 0.0
    draw(image, BODY, *body, scale)
    for arm in arms:
        draw(image, ARMS["up" if up else "down"], *arm, scale)
    return image + 0.15 * rng.normal(size=image.shape), scale, np.vstack([body, arms])


def patches(image):
    """Return the 3 x 3 pixels around each pixel, with mean zero and at most norm one."""
    wide = np.pad(image, 1)
    rows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3)).reshape(*image.shape, 9)
    rows = rows - rows.mean(axis=2, keepdims=True)
    return rows / np.maximum(np.linalg.norm(rows, axis=2, keepdims=True), 0.5)


def pyramid(image):
    """Return one map with the image and smaller copies to its right, and the first column of each."""
    atlas, first, column = np.zeros((SIDE, sum(SIDE // s + GAP for s in LEVELS), 9)), {}, 0
    for scale in LEVELS:
        side = SIDE // scale
        small = image[: side * scale, : side * scale].reshape(side, scale, side, scale)
        atlas[:side, column : column + side] = patches(small.mean(axis=(1, 3)))
        first[scale], column = column, column + side + GAP
    return atlas, first


def sample(n, seed, arms_known=1.0):
    """Draw maps and the places in them; the arms are unknown in some images."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for i in range(n):
        image, scale, places = creature(rng)
        atlas, first = pyramid(image)
        y = (places + np.array([0, first[scale]])).astype(float)
        y[1:] = y[1:] if i < 10 or rng.random() < arms_known else np.nan
        X.append(atlas)
        Y.append(y)
    return X, Y


def found(svm, X, Y):
    """Return the share of images with the right window: right size, and right place up to one cell."""
    roots = np.array([places[0] for places in svm.predict(X)])
    return np.mean(np.abs(roots - [y[0] for y in Y]).max(axis=1) <= 1)


def by_hand(model, w, x):
    """Return the best score of a map by trying every place of every part and every component."""
    parts = model.unpack(w)
    score = x.reshape(-1, x.shape[2]) @ parts["parts"].T  # (places, states): two for each part
    rows, columns = np.divmod(np.arange(len(score)), x.shape[1])
    total = score[:, :2].copy()  # the root comes first
    for e in range(2):
        r, c = (
            (v[None, :] - v[:, None] - model.base_.anchors_[e, axis])
            / model.base_.spreads_[e, axis]
            for axis, v in enumerate((rows, columns))
        )
        together = parts["pairs"][4 * e : 4 * e + 4].reshape(2, 2)
        best = np.empty((2, len(score)))  # the best place for each type of the arm
        for t, v in enumerate(parts["springs"][2 * e : 2 * e + 2]):
            bend = v[0] * r + v[1] * r**2 + v[2] * c + v[3] * c**2
            best[t] = (score[:, 2 + 2 * e + t][None, :] + bend).max(axis=1)
        total += (best.T[:, None, :] + together).max(axis=2)
    return total.max()


small = "--small" in sys.argv
X, Y = sample(40 if small else 150, seed=0, arms_known=0.3)
X_test, Y_test = sample(40 if small else 150, seed=1)
settings = {"C": 20 / len(X), "tol": 0.1, "random_state": 0, "max_passes": 60}
star = [(0, 1), (0, 2)]

root = mm.StructuralSVM(models.Tree([]), **settings).fit(X, [y[:1] for y in Y])
print(f"root alone:                     {found(root, X_test, Y_test):.3f}")
plain = mm.LatentSVM(models.Latent(models.Tree(star), parts=1), **settings).fit(X, Y)
print(f"root and parts:                 {found(plain, X_test, Y_test):.3f}")
svm = mm.LatentSVM(models.Latent(models.Tree(star), parts=2), **settings).fit(X, Y)
path = svm.objective_path_
assert (np.diff(path) <= 1e-9 * path[0]).all(), "a round never raises the objective"
print(
    f"root, parts and two components: {found(svm, X_test, Y_test):.3f}   "
    f"objective {path[0]:.1f} -> {path[-1]:.1f} in {len(path)} rounds"
)
exact = svm.model_.over(X_test[:2]).decide(svm.coef_)
tried = [by_hand(svm.model_, svm.coef_, x) for x in X_test[:2]]
print(f"best scores by distance transforms {exact.round(6)}, by trying all {np.round(tried, 6)}")
assert np.allclose(exact, tried)
