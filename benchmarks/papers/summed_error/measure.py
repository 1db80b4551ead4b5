"""One fit under a limit of CPU seconds, with its curve."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxmargin import StructuralSVM, callbacks, models, solvers
from maxmargin.formulation import Formulation
from maxmargin.metrics import tag_accuracy_score
from maxmargin.problem import Problem

Row = dict[str, Any]
FINISHED = ("solved", "reduced problem solved", "multipliers unchanged")


def say(row: Row) -> None:
    """Print a row as a line."""
    shown = (f"{k} {v:.5g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
    print(", ".join(shown), flush=True)


@dataclass
class CpuTrace(callbacks.Callback):
    """Record CPU seconds and dual after every step; end training when the budget is spent."""

    budget: float
    began: float = field(default_factory=time.process_time)
    rows: list[Row] = field(default_factory=list)

    def on_step(self, info: callbacks.Progress) -> bool:
        cpu = time.process_time() - self.began
        self.rows.append({"cpu": cpu, "dual": info.dual, "estimate": info.estimate})
        return cpu > self.budget


@dataclass(frozen=True)
class Fit:
    """The result of one fit."""

    svm: Any
    cpu: float
    curve: list[Row]
    # what the history's planes count: "violators" (sum |V_i| without the true outputs) or "cuts"
    kept: str

    def row(self) -> Row:
        """Return the numbers of the certificate, and the cost of training."""
        c = self.svm.certificate_
        return {
            "cpu": self.cpu,
            "finished": c.status in FINISHED,
            "status": c.status,
            "dual": c.dual,
            "primal": c.primal,
            "gap": c.gap,
            "reduced_gap": c.reduced_gap,
            self.kept: int(self.svm.history_["planes"][-1]),
            "support": c.support,
        }


def fit(
    model: Any, X: Any, Y: Any, C: float, method: Row, tol: float, cpu: float, hinge: str = "sum"
) -> Fit:
    """Train with a solver of ``maxmargin.solvers`` and its settings.

    A "printed" solver has its own stopping rule.
    """
    kind = getattr(solvers, method["solver"])
    if method.get("printed"):
        solver, tol = kind.printed(method["printed"] * C**2), 1e-9
    else:
        solver = kind(**method["settings"])
    trace = CpuTrace(cpu)
    svm = StructuralSVM(
        model,
        C=C,
        hinge=method.get("hinge", hinge),
        solver=solver,
        tol=tol,
        max_passes=10**6,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        svm.fit(X, Y, callbacks=[trace])
    return Fit(svm, trace.rows[-1]["cpu"], trace.rows, kept_by(solver))


def kept_by(solver: Any) -> str:
    """Return what the planes of a solver are."""
    return "cuts" if isinstance(solver, solvers.OneSlack) else "violators"


def walk(data: Any, C: float, method: Row, tol: float, budgets: Sequence[float]) -> Iterator[Row]:
    """Train for the summed error of tags without a certificate.

    A certificate would need sums over all taggings, which take longer than training. There is a row
    for each
    step. The first row past each budget, and the last row, have the test accuracy, whose time does
    not count.
    """
    model, solver = models.Chain(), getattr(solvers, method["solver"])(**method["settings"])
    model.initialize(data.X_train, data.Y_train)
    summed = Formulation(hinge="sum")
    problem = Problem(model.bind(data.X_train, data.Y_train), C=C, formulation=summed)
    test = model.bind(data.X_test)
    began, left, finished = time.process_time(), sorted(budgets), False
    state = solver.start(problem, tol, np.random.default_rng(0))
    while left and not finished:
        report = solver.step(problem, state)
        cpu = time.process_time() - began
        finished = report.ended is not None or report.estimate <= tol
        row = {"cpu": cpu, "dual": report.dual, kept_by(solver): report.planes}
        if finished or cpu >= left[0]:
            row |= {"budget": left[0], "finished": finished}
            row["reduced_gap"] = solver.reduced_gap(problem, state)
            w, support = solver.solution(problem, state)
            row["support"] = int(np.count_nonzero(support.multipliers))
            row["accuracy"] = 100 * tag_accuracy_score(data.Y_test, test.predict(w, 1))
            left = [each for each in left if each > cpu]
            began = time.process_time() - cpu
        yield row
