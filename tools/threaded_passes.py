"""Every pass that runs with several threads, once: for a run under the thread sanitizer."""

from __future__ import annotations

import warnings

import numpy as np

import maxmargin as mm
from maxmargin import models
from maxmargin.data.synthetic import random_chains, random_multiclass
from maxmargin.data.synthetic_graphs import random_snakes

SOLVERS = ("proximal", "sda", "sdm", "bcfw", "fasole", "one-slack", "n-slack", "streaming")


def fitted(model: object, X: object, Y: object, **options: object) -> None:
    """Train with four threads, then predict and certify with them."""
    svm = mm.StructuralSVM(model, n_jobs=4, max_passes=8, random_state=0, **options)
    svm.fit(X, Y)
    svm.predict(X)
    mm.certify(svm, X, Y)


def main() -> None:
    """Every solver on chains and classes, both hinges; many labels, where searches run ahead; graphs."""
    warnings.simplefilter("ignore")
    chains = random_chains(60, 5, 6, max_length=8, random_state=0)
    flat = random_multiclass(200, 4, 6, random_state=0)
    for solver in SOLVERS:
        fitted(models.Chain(), *chains, solver=solver)
        fitted(models.Multiclass(), *flat, solver=solver)
    for solver in ("sdcd", "one-slack", "n-slack"):
        fitted(models.Chain(), *chains, solver=solver, hinge="sum")
        fitted(models.Multiclass(), *flat, solver=solver, hinge="sum")
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(10, 3)) for _ in range(300)]
    Y = [rng.integers(0, 400, size=10) for _ in range(300)]
    fitted(models.Chain(), X, Y, solver="sda")
    fitted(models.FactorGraph(), *random_snakes(12, random_state=0), solver="sda")
    print("all threaded passes ran")


if __name__ == "__main__":
    main()
