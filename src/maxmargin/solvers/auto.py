"""Solvers by name, the problems that each can solve, and the choice of ``solver="auto"``."""

from __future__ import annotations

from functools import cache
from typing import Any

from maxmargin.formulation import HINGES, RESCALINGS, SOFT
from maxmargin.models.registry import MODELS, STRUCTURAL
from maxmargin.problem import Formulation, Problem
from maxmargin.problem.regularizer import NONNEGATIVE, PRIOR
from maxmargin.solvers.base import Solver
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

SOLVERS: dict[str, type[Solver]] = {
    kind.name: kind
    for kind in (
        Proximal,
        Fasole,
        SDA,
        SDM,
        BCFW,
        DualCoordinate,
        OneSlack,
        NSlack,
        Streaming,
        Gdmm,
        Subgradient,
        SDCD,
        Exponentiated,
        LBFGS,
        SGD,
    )
}
# The order of choice of "auto": the first solver that suits the problem, else the last one that
# solves the formulation. That last one is also the choice before the data are known. Proximal needs
# the fewest oracle calls and the least time of all solvers here, and SDCD is much faster than
# cutting planes.
RANKED: tuple[Solver, ...] = (OneSlack(), Gdmm(), SDCD(), Proximal(), Exponentiated(), LBFGS())


def compatible(formulation: Formulation, asks_for: tuple[str, ...] = ()) -> list[str]:
    """Return the names of the solvers that can solve a formulation with these regularisers."""
    return [
        name
        for name, kind in SOLVERS.items()
        if formulation in kind.formulations and set(asks_for) <= set(kind.honours)
    ]


@cache
def ranked_for(formulation: Formulation) -> tuple[Solver, ...]:
    """Return the solvers that "auto" may choose for a formulation, in its order."""
    return tuple(solver for solver in RANKED if formulation in solver.formulations)


def automatic(
    formulation: Formulation, problem: Problem | None, asks_for: tuple[str, ...]
) -> Solver:
    """Return the choice of ``solver="auto"``."""
    able = ranked_for(formulation)
    if problem is not None:
        for solver in able[:-1]:
            powers = set(solver.needs) <= set(problem.examples.powers)
            if powers and set(asks_for) <= set(solver.honours) and solver.suits(problem):
                return solver
    return able[-1]


def make_solver(
    solver: Any,
    formulation: Formulation,
    problem: Problem | None = None,
    asks_for: tuple[str, ...] = (),
) -> Solver:
    """Return the solver for a name or an instance.

    Raise ValueError if it cannot solve the formulation. "auto" looks at ``problem`` if it is given.
    ``asks_for`` names the parameters of the regulariser that the solver must support.
    """
    if isinstance(solver, type) and issubclass(solver, Solver):
        raise TypeError(f"solver: give an instance, {solver.__name__}(), not the class")
    if isinstance(solver, Solver):
        made = solver
    elif isinstance(solver, str) and solver == "auto":
        made = automatic(formulation, problem, asks_for)
    elif isinstance(solver, str) and solver in SOLVERS:
        made = SOLVERS[solver]()
    else:
        known = ["auto", *SOLVERS]
        raise ValueError(f"solver must be one of {known} or an instance of these, got {solver!r}")
    beyond = made.beyond(formulation, asks_for)
    if beyond:
        raise ValueError(f"{beyond}; solvers that support it: {compatible(formulation, asks_for)}")
    return made


def compatibility_table() -> str:
    """Return a Markdown table of solvers, models and formulations, from their declarations."""
    forms = [Formulation(hinge, rescaling) for hinge in HINGES for rescaling in RESCALINGS]
    soft = [Formulation(name) for name in SOFT]
    head = [
        "solver",
        "models",
        *(f"{f.hinge} hinge, {f.rescaling} rescaling" for f in forms),
        *(str(f) for f in soft),
        *(f"`{name}`" for name in (PRIOR, NONNEGATIVE)),
        "reaches any tol",
    ]
    rows = [head, ["---"] * len(head)]
    for name, kind in SOLVERS.items():
        able = [n for n in STRUCTURAL if set(kind.needs) <= set(MODELS[n].powers)]
        marks = [f in kind.formulations for f in forms + soft]
        marks += [parameter in kind.honours for parameter in (PRIOR, NONNEGATIVE)]
        marks += [kind.pairwise_optimum]
        own = [] if kind.needs else ["own model in Python"]
        rows.append([f'`"{name}"`', ", ".join(able + own), *("yes" if m else "-" for m in marks)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"
