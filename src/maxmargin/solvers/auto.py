"""Solvers by name, what each can solve, and the choice of ``solver="auto"``."""

from __future__ import annotations

from typing import Any

from maxmargin.formulation import HINGES, RESCALINGS
from maxmargin.models.factors import GraphExamples
from maxmargin.problem import Formulation, Problem
from maxmargin.problem.regularizer import NONNEGATIVE, PRIOR
from maxmargin.solvers.base import Solver
from maxmargin.solvers.cutting_plane import NSlack, OneSlack
from maxmargin.solvers.dual_ascent import BCFW, SDA, SDM
from maxmargin.solvers.dual_coordinate import DualCoordinate
from maxmargin.solvers.fasole import Fasole
from maxmargin.solvers.gdmm import Gdmm
from maxmargin.solvers.gdmm_graph import DENSE
from maxmargin.solvers.gdmm_labels import are_labels
from maxmargin.solvers.proximal import Proximal
from maxmargin.solvers.sdcd import SDCD
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
    )
}


MANY_LABELS = 100  # of a set: above, with many pairs, "auto" solves the linear relaxation


def compatible(formulation: Formulation, needs: tuple[str, ...] = ()) -> list[str]:
    """Names of the solvers that can solve a formulation with these regularisers."""
    return [
        name
        for name, kind in SOLVERS.items()
        if formulation in kind.formulations and set(needs) <= set(kind.honours)
    ]


def automatic(
    problem: Problem | None, needs: tuple[str, ...] = (), formulation: Formulation | None = None
) -> Solver:
    """The choice of ``solver="auto"``."""
    if formulation is not None and formulation.hinge == "sum":
        return SDCD()
    if problem is not None and problem.n_blocks == 1 and NONNEGATIVE not in needs:
        # One slack: dual ascent over blocks has nothing to sweep, and every oracle call is a cut.
        return OneSlack()
    if problem is not None and not needs and large_label_sets(problem):
        return Gdmm()
    # Measured on OCR letters, USPS and CoNLL-2000: the fewest oracle calls and the least time of all
    # solvers here, for strong and weak regularisation, cheap and dear oracles.
    return Proximal()


def large_label_sets(problem: Problem) -> bool:
    """Sets of many labels with many pairs: the argmax of a whole set is neither cheap nor exact (RCV1)."""
    examples: Any = problem.examples
    if problem.formulation not in Gdmm.formulations or not isinstance(examples, GraphExamples):
        return False
    shape = examples.factors.shapes[0]
    many = len(shape.node_types) > MANY_LABELS and len(shape.edges) > DENSE * len(shape.node_types)
    return many and are_labels(examples)


def make_solver(
    solver: Any,
    formulation: Formulation,
    problem: Problem | None = None,
    needs: tuple[str, ...] = (),
) -> Solver:
    """The solver from a name or an instance; refuses early what it cannot solve.

    ``problem``, where it is known already, is what "auto" looks at; ``needs`` names the parameters of
    the regulariser that must be honoured.
    """
    if isinstance(solver, type) and issubclass(solver, Solver):
        raise TypeError(f"solver: give an instance, {solver.__name__}(), not the class")
    if isinstance(solver, Solver):
        made = solver
    elif isinstance(solver, str) and solver == "auto":
        made = automatic(problem, needs, formulation)
    elif isinstance(solver, str) and solver in SOLVERS:
        made = SOLVERS[solver]()
    else:
        known = ["auto", *SOLVERS]
        raise ValueError(f"solver must be one of {known} or an instance of these, got {solver!r}")
    if formulation not in made.formulations:
        others = compatible(formulation)
        able = "; ".join(str(f) for f in made.formulations)
        advice = f"solvers that can: {others}" if others else f"this version solves {able}"
        raise ValueError(f"solver {made.name!r} does not solve {formulation}; {advice}")
    if formulation.hinge == "sum" and needs:
        raise ValueError(
            f"hinge='sum' is solved for 1/2 |w|^2 alone: {' and '.join(needs)} must be None"
        )
    missing = [name for name in needs if name not in made.honoured()]
    if missing:
        raise ValueError(
            f"{made!r} does not honour {' and '.join(missing)}; solvers that can: "
            f"{compatible(formulation, needs)}"
        )
    return made


def compatibility_table(
    models: tuple[str, ...] = (
        "Binary",
        "Multiclass",
        "Chain",
        "Grammar",
        "Tree",
        "FactorGraph",
        "MultiLabel",
        "Kernel",
        "own model in Python",
    ),
) -> str:
    """Solver x model x formulation as a Markdown table, from what the solvers declare."""
    forms = [Formulation(hinge, rescaling) for hinge in HINGES for rescaling in RESCALINGS]
    head = [
        "solver",
        "models",
        *(f"{f.hinge} hinge, {f.rescaling} rescaling" for f in forms),
        *(f"`{need}`" for need in (PRIOR, NONNEGATIVE)),
        "reaches any tol",
    ]
    rows = [head, ["---"] * len(head)]
    for name, kind in SOLVERS.items():
        marks = ["yes" if f in kind.formulations else "-" for f in forms]
        marks += ["yes" if need in kind.honours else "-" for need in (PRIOR, NONNEGATIVE)]
        rows.append(
            [
                f'`"{name}"`',
                ", ".join(kind.models or models),
                *marks,
                "yes" if kind.pairwise_optimum else "-",
            ]
        )
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"
