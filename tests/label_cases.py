"""Sets of labels and the problems built from them."""

import numpy as np

from maxmargin import models
from maxmargin.problem import Problem


def independent(g, n=12, labels=5):
    X = g.normal(size=(n, 4))
    return X, (X @ g.normal(size=(4, labels)) + g.normal(size=(n, labels)) > 0.5).astype(int)


def attractive(g, n=14, labels=6, together=2):
    """Return labels that occur together in groups and that features hardly predict: only joint
    moves gain."""
    X = 0.2 * g.normal(size=(n, 3))
    sets = g.integers(2, size=(n, labels // together))
    Y = np.repeat(sets, together, axis=1)
    flip = g.uniform(size=Y.shape) < 0.05
    return X, np.where(flip, 1 - Y, Y)


def problem_of(X, Y, C, mass=None, **options):
    model = models.MultiLabel(**options)
    model.initialize(X, Y)
    return Problem(model.bind(X, Y), C=C, sample_weight=mass)
