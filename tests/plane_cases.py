"""Problems for cutting planes, and lists in which solvers record counts."""

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
    """Return a list that is attached to a frozen solver."""
    if name not in solver.__dict__:
        object.__setattr__(solver, name, [])
    return solver.__dict__[name]
