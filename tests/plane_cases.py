"""Problems for cutting planes, and what their solvers count."""

from helpers import (
    built_in,
)
from maxmargin.problem import Formulation, Problem


def open_problem(case):
    model = built_in(case)
    model.initialize(case.X, case.Y)
    formulation = Formulation("max", case.rescaling)
    return Problem(model.bind(case.X, case.Y), case.C, case.sample_weight, formulation)


def counts(solver, name="programs"):
    """A list that a frozen solver carries."""
    if name not in solver.__dict__:
        object.__setattr__(solver, name, [])
    return solver.__dict__[name]
