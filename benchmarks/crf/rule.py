"""Which solver is faster? The measurements behind the rule of solver="auto" for the log loss.

For parts of every data set and several C, both solvers run to the same gaps. `stiffness` is the
number that the rule uses. A solver stops after 1,000 passes, its default budget. The second solver
also stops after `PATIENCE` times the CPU seconds of the first. If it stops early, `reached` is
false, and it would take more than the reported time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import maxmargin as mm
from benchmarks import datasets
from benchmarks.crf.regression import rows_of, timed
from maxmargin import models
from maxmargin.solvers.exponentiated import stiffness

Row = dict[str, Any]
# For each set, the share of the examples, and the values of C.
BED: dict[str, tuple[float, tuple[float, ...]]] = {
    "ocr-rule": (0.2, (0.01, 1.0, 10.0, 30.0, 100.0)),
    "conll2000-rule": (0.05, (0.01, 0.1, 1.0, 10.0)),
    "usps-rule": (0.5, (0.01, 1.0, 10.0, 20.0, 100.0)),
    "newsgroups-rule": (0.3, (1.0, 100.0, 1000.0, 3000.0, 10_000.0)),
    "covertype-rule": (0.02, (0.1, 10.0, 300.0, 1000.0, 3000.0)),
}
PARTS = (1e-2, 1e-3)  # gaps, as fractions of the objective
SOLVERS = ("exponentiated", "lbfgs")
PATIENCE, LEAST = 8.0, 2.0  # multiple of the other's CPU seconds; seconds for any solver


def data_of(name: str, small: bool) -> tuple[Any, Any, Any]:
    """Return a model and some examples."""
    share, name = (1.0 if small else BED[name][0]), name.removesuffix("-rule")
    if name not in ("ocr", "conll2000"):
        return models.Multiclass(), *rows_of(name, share, small)
    load = datasets.ocr_letters if name == "ocr" else datasets.conll2000
    data = load(small=small, dtype=np.float32)
    most = max(1, int(share * data.size))
    return models.Chain(), data.X_train[:most], data.Y_train[:most]


def bed(name: str, small: bool) -> list[Row]:
    """Run both solvers for every C and gap; also return the solver that "auto" takes."""
    model, X, Y = data_of(name, small)
    rows = []
    for C in (1.0,) if small else BED[name][1]:
        crf = mm.CRF(model, C=C, max_seconds=60.0, random_state=0)
        timed(lambda crf=crf: crf.fit(X, Y))
        problem, auto = posed(crf, X, Y), crf.solver_
        for part in PARTS:
            tol = part * crf.certificate_.primal / problem.total
            row = {"data": name, "learner": f"maxmargin {auto}", "C": C, "part": part}
            rows.append(row | {"stiffness": stiffness(problem)} | race(crf, X, Y, tol))
    return rows


def posed(crf: Any, X: Any, Y: Any) -> Any:
    """Return the problem that a fitted machine minimises."""
    return crf._problem_of(crf._examples_at(X, Y, None, crf.coef_), None)


def race(crf: Any, X: Any, Y: Any, tol: float) -> Row:
    """Run one solver after the other."""
    row: Row = {"gap": tol}
    limit = crf.max_seconds
    for solver in SOLVERS:
        one = mm.CRF(crf.model, crf.C, solver=solver, tol=tol, max_seconds=limit, random_state=0)
        _, cpu = timed(lambda one=one: one.fit(X, Y))
        found = one.certificate_
        row |= {f"{solver} cpu": cpu, f"{solver} passes": found.passes}
        row[f"{solver} reached"] = found.converged
        limit = max(LEAST, PATIENCE * cpu)
    return row
