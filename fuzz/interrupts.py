"""Training that is interrupted at a random moment, by Ctrl-C or by its time limit.

The library promises a solution with a true certificate (primal and dual are recomputed from
scratch), or
KeyboardInterrupt. After KeyboardInterrupt, an estimator that was fitted before predicts as it did
before.

    python -m fuzz.interrupts --seconds 60 --seed 1
"""

from __future__ import annotations

import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import maxmargin as mm
from fuzz.common import Find, main
from maxmargin import models, solvers
from maxmargin.data.synthetic import random_chains, random_multiclass

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers import EVERY
from reference.python_chain import PythonMulticlass

FEW = 100  # number of examples for solvers that are slow per example
SUMS = {"sdcd": lambda: "sdcd", "one-slack": lambda: "one-slack", "n-slack": lambda: "n-slack"}


def data_of(rng: np.random.Generator, kind: str) -> tuple[Any, Any, Any]:
    """Draw a model with data on which a fit takes some ten milliseconds."""
    seed = int(rng.integers(2**31))
    if kind == "chain":
        X, Y = random_chains(int(rng.integers(50, 400)), 6, 8, max_length=12, random_state=seed)
        return models.Chain(), X, Y
    X, y = random_multiclass(int(rng.integers(100, 2000)), 5, 8, random_state=seed)
    if kind == "own":
        n = 5 * int(rng.integers(4, 20))  # all five classes
        return PythonMulticlass(1.0 - np.eye(5)), X[:n], np.arange(n) % 5
    return models.Multiclass(), X, y


def estimator(rng: np.random.Generator) -> tuple[str, Any, Any, Any]:
    """Draw a random estimator with its data; return its name first."""
    kind = str(rng.choice(["chain", "multiclass", "own"]))
    model, X, Y = data_of(rng, kind)
    hinge = "sum" if kind != "own" and rng.random() < 0.2 else "max"
    pool = SUMS if hinge == "sum" else EVERY
    if kind == "chain" and hinge == "max":
        pool = pool | {"gdmm": solvers.Gdmm}
    solver = str(rng.choice(sorted(pool)))
    if getattr(pool[solver](), "batch", 0) == 1:  # solves a quadratic program after every example
        X, Y = X[:FEW], Y[:FEW]
    svm = mm.StructuralSVM(
        model,
        C=float(10 ** rng.uniform(-3, 1)),
        hinge=hinge,
        solver=pool[solver](),
        tol=1e-7,
        max_passes=200,
        n_jobs=2 if rng.random() < 0.3 else None,
        random_state=0,
    )
    return f"{kind}, hinge {hinge}", svm, X, Y


def check(svm: Any, X: Any, Y: Any) -> None:
    """Check that the certificate is true, however training ended."""
    reported, again = svm.certificate_, mm.certify(svm, X, Y)
    if not np.isfinite(svm.coef_).all():
        raise Find("weights that are not finite")
    for name in ("primal", "dual"):
        a, b = getattr(reported, name), getattr(again, name)
        if a != b and not abs(a - b) <= 1e-7 * (1 + abs(b)):
            raise Find(f"{name} {a!r}, recomputed {b!r}, status {reported.status!r}")
    if reported.dual > reported.primal + 1e-9 * (1 + abs(reported.primal)):
        raise Find(f"dual {reported.dual!r} above primal {reported.primal!r}")


def attempt(rng: np.random.Generator) -> str:
    name, svm, X, Y = estimator(rng)
    moment = float(10 ** rng.uniform(-4, -1))
    if rng.random() < 0.3:
        svm.set_params(max_seconds=moment).fit(X, Y)
        check(svm, X, Y)
        return f"{svm.certificate_.status}: {name}"
    before = None
    if rng.random() < 0.3:  # fit twice: the second fit is interrupted
        before = svm.set_params(max_passes=2).fit(X, Y).predict(X)
        warm = bool(rng.random() < 0.5) and svm.solver_ != "subgradient"  # which has no warm start
        svm.set_params(max_passes=200, warm_start=warm)
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, moment)
        svm.fit(X, Y)
    except KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if before is not None and not all(map(np.array_equal, before, svm.predict(X))):
            raise Find("an interrupted refit changed what was fitted before") from None
        return f"Ctrl-C: {name}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    check(svm, X, Y)
    return f"{svm.certificate_.status}: {name}"


warnings.simplefilter("ignore")

if __name__ == "__main__":
    main("interrupts", attempt)
