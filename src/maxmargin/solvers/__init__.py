"""The solvers, by name or as objects: how a problem is minimised."""

from maxmargin.solvers.auto import SOLVERS, compatibility_table, make_solver
from maxmargin.solvers.base import Snapshot, Solver, StepReport
from maxmargin.solvers.cutting_plane import OneSlack
from maxmargin.solvers.dual_ascent import BCFW, SDA, SDM
from maxmargin.solvers.dual_coordinate import DualCoordinate
from maxmargin.solvers.exponentiated import Exponentiated
from maxmargin.solvers.fasole import Fasole
from maxmargin.solvers.gdmm import Gdmm
from maxmargin.solvers.lbfgs import LBFGS
from maxmargin.solvers.n_slack import NSlack
from maxmargin.solvers.proximal import Proximal
from maxmargin.solvers.sdcd import SDCD
from maxmargin.solvers.sgd import SGD
from maxmargin.solvers.streaming import Streaming
from maxmargin.solvers.subgradient import Subgradient

__all__ = [
    "BCFW",
    "LBFGS",
    "SDA",
    "SDCD",
    "SDM",
    "SGD",
    "SOLVERS",
    "DualCoordinate",
    "Exponentiated",
    "Fasole",
    "Gdmm",
    "NSlack",
    "OneSlack",
    "Proximal",
    "Snapshot",
    "Solver",
    "StepReport",
    "Streaming",
    "Subgradient",
    "compatibility_table",
    "make_solver",
]
