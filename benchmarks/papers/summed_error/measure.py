"""One fit under a limit of CPU seconds, with its curve."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from maxmargin import StructuralSVM, callbacks, solvers

Row = dict[str, Any]


@dataclass
class CpuTrace(callbacks.Callback):
    """CPU seconds and dual after every step; ends training when the budget is spent."""

    budget: float
    began: float = field(default_factory=time.process_time)
    rows: list[Row] = field(default_factory=list)

    def on_step(self, info: callbacks.Progress) -> bool:
        cpu = time.process_time() - self.began
        self.rows.append({"cpu": cpu, "dual": info.dual, "estimate": info.estimate})
        return cpu > self.budget


@dataclass(frozen=True)
class Fit:
    """What one fit gave."""

    svm: Any
    cpu: float
    curve: list[Row]

    def row(self) -> Row:
        """The certificate, and what training took."""
        c = self.svm.certificate_
        return {
            "cpu": self.cpu,
            "finished": c.status in ("solved", "reduced problem solved"),
            "status": c.status,
            "dual": c.dual,
            "primal": c.primal,
            "gap": c.gap,
            "reduced_gap": c.reduced_gap,
            "kept": int(self.svm.history_["planes"][-1]),
            "support": c.support,
        }


def fit(
    model: Any, X: Any, Y: Any, C: float, method: Row, tol: float, cpu: float, hinge: str = "sum"
) -> Fit:
    """Train with a solver of ``maxmargin.solvers`` and its settings."""
    solver = getattr(solvers, method["solver"])(**method["settings"])
    trace = CpuTrace(cpu)
    svm = StructuralSVM(
        model, C=C, hinge=hinge, solver=solver, tol=tol, max_passes=10**6, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        svm.fit(X, Y, callbacks=[trace])
    return Fit(svm, time.process_time() - trace.began, trace.rows)
