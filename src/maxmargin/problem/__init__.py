"""The problem to minimise: a model on data, a formulation, a regulariser and C."""

from maxmargin.formulation import Formulation
from maxmargin.problem.certificate import (
    Certificate,
    Status,
    Tolerance,
    gap_between,
    loss_units,
)
from maxmargin.problem.plane import Plane, Support
from maxmargin.problem.problem import Problem
from maxmargin.problem.regularizer import make_regularizer

__all__ = [
    "Certificate",
    "Formulation",
    "Plane",
    "Problem",
    "Status",
    "Support",
    "Tolerance",
    "gap_between",
    "loss_units",
    "make_regularizer",
]
