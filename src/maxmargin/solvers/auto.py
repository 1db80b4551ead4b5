"""Solvers by name, what each can solve, and the choice of ``solver="auto"``."""

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
# "auto" takes the first that suits, or the last that solves the formulation: that is also the choice before
# data are known. Proximal was measured on OCR letters, USPS and CoNLL-2000, for strong and weak
# regularisation, cheap and expensive oracles: the fewest oracle calls and the least time of all solvers
# here. SDCD is ten times faster than cutting planes on OCR letters, covertype and a treebank.
RANKED: tuple[Solver, ...] = (OneSlack(), Gdmm(), SDCD(), Proximal(), Exponentiated(), LBFGS())


def compatible(formulation: Formulation, asks_for: tuple[str, ...] = ()) -> list[str]:
    """Names of the solvers that can solve a formulation with these regularisers."""
    return [
        name
        for name, kind in SOLVERS.items()
        if formulation in kind.formulations and set(asks_for) <= set(kind.honours)
    ]


@cache
def ranked_for(formulation: Formulation) -> tuple[Solver, ...]:
    """Those that "auto" may take, in its order."""
    return tuple(solver for solver in RANKED if formulation in solver.formulations)


def automatic(
    formulation: Formulation, problem: Problem | None, asks_for: tuple[str, ...]
) -> Solver:
    """The choice of ``solver="auto"``."""
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
    """The solver from a name or an instance; refuses early what it cannot solve.

    ``problem``, where it is known already, is what "auto" looks at; ``asks_for`` names the parameters of
    the regulariser that the solver must honour.
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
        raise ValueError(f"{beyond}; solvers that can: {compatible(formulation, asks_for)}")
    return made


def compatibility_table() -> str:
    """Solver x model x formulation as a Markdown table, from what solvers and models declare."""
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
