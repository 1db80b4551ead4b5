"""Initialised factor graph models, and labellings as hashable keys."""

import numpy as np

from helpers import built_in


def prepared(case, **settings):
    model = built_in(case).set_params(**settings)
    model.initialize(case.X, case.Y)
    return model, case.truth.examples(case.X)


def as_key(output):
    return tuple(np.asarray(output).tolist())
