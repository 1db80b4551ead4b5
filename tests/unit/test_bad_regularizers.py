"""Priors and bounds that are invalid, or that a solver cannot honour, are refused early."""

import numpy as np
import pytest

import maxmargin as mm
from helpers import refusal
from maxmargin import models, solvers
from maxmargin.problem import make_regularizer


@pytest.mark.parametrize(
    "settings, patterns",
    [
        ({"prior": 1.0}, ["prior", "pair", "1.0"]),
        ({"prior": (0.0, 1.0, 2.0)}, ["prior", "pair"]),
        ({"prior": (np.zeros(4), 1.0)}, ["prior", "mean", r"\(9,\)", r"\(4,\)"]),
        ({"prior": (np.nan, 1.0)}, ["prior", "mean", "finite"]),
        ({"prior": ("zero", 1.0)}, ["prior", "mean", "zero"]),
        ({"prior": (0, 0.0)}, ["prior", "scale", "positive", "0"]),
        ({"prior": (0, -np.ones(9))}, ["prior", "scale", "positive"]),
        ({"prior": (0, 1e200)}, ["prior", "scale", "square"]),
        ({"prior": (0, np.inf)}, ["infinite", "vector", r"\(9,\)"]),
        ({"prior": (0, np.full(9, np.nan))}, ["prior", "scale", "NaN"]),
        (
            {"prior": (0, np.where(np.arange(9) == 2, np.inf, 1.0)), "nonnegative": [1, 2]},
            ["nonnegative", "2", "infinite"],
        ),
        (
            {"prior": (0, np.where(np.arange(9) == 2, np.inf, 1.0)), "solver": "subgradient"},
            ["subgradient", "infinite"],
        ),
        ({"prior": (0, np.ones(5))}, ["prior", "scale", r"\(5,\)"]),
        ({"prior": (0, np.ones((9, 2)))}, ["prior", "scale", r"\(9, 2\)"]),
        ({"prior": (0, np.triu(np.ones((9, 9))))}, ["covariance", "symmetric"]),
        ({"prior": (0, np.ones((9, 9)))}, ["covariance", "positive definite"]),
        ({"nonnegative": [9]}, ["nonnegative", "9"]),
        ({"nonnegative": [-1]}, ["nonnegative", "-1"]),
        ({"nonnegative": np.ones(4, dtype=bool)}, ["nonnegative", "mask", r"\(4,\)"]),
        ({"nonnegative": [0.5]}, ["nonnegative", "indices", "0.5"]),
        ({"nonnegative": "all"}, ["nonnegative", "all"]),
        ({"nonnegative": [0], "prior": (0, np.eye(9))}, ["nonnegative", "covariance", "vector"]),
        ({"nonnegative": [0], "solver": "one-slack"}, ["one-slack|OneSlack", "nonnegative", "sda"]),
        ({"nonnegative": [0], "solver": "subgradient"}, ["Subgradient", "nonnegative"]),
        (
            {"nonnegative": [0], "solver": solvers.BCFW(averaging=True)},
            ["averaging", "nonnegative"],
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_regularisers_are_refused(generator, settings, patterns):
    X, y = generator.normal(size=(9, 3)), np.arange(9) % 3
    with refusal(*patterns):
        mm.StructuralSVM(models.Multiclass(), **settings).fit(X, y)


def test_train_refuses_what_the_solver_cannot(generator):
    model = models.Binary()
    X, y = generator.normal(size=(6, 3)), np.arange(6) % 2
    model.initialize(X, y)
    examples = model.bind(X, y)
    problem = mm.Problem(examples, 1.0, regularizer=make_regularizer(None, [0], examples))
    with refusal("one-slack", "nonnegative"):
        mm.train(problem, solvers.OneSlack())
    assert mm.train(problem, solvers.SDM(), tol=1e-4).certificate.converged
