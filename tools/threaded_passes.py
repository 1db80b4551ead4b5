"""Run every pass that uses several threads once, for the thread sanitizer."""

from __future__ import annotations

import warnings

import numpy as np

import maxmargin as mm
from maxmargin import models
from maxmargin.data import AttributeEncoder
from maxmargin.data.synthetic import random_chains, random_multiclass
from maxmargin.data.synthetic_graphs import random_snakes

SOLVERS = ("proximal", "sda", "sdm", "bcfw", "fasole", "one-slack", "n-slack", "streaming")


def fitted(model: object, X: object, Y: object, **options: object) -> None:
    """Train with four threads, then predict and certify with them."""
    settings = {"n_jobs": 4, "max_passes": 8, "random_state": 0} | options
    svm = mm.StructuralSVM(model, **settings)
    svm.fit(X, Y)
    svm.predict(X)
    mm.certify(svm, X, Y)


def probabilities(X: object, Y: object) -> None:
    """Run the solvers of the log loss, which sum over all outputs, with several threads."""
    for solver in ("exponentiated", "lbfgs"):
        crf = mm.CRF(models.Chain(), n_jobs=4, max_passes=8, random_state=0, solver=solver)
        crf.fit(X, Y).predict_marginals(X)


def hidden(X: object, Y: list[np.ndarray]) -> None:
    """Complete unknown labels with several threads."""
    partly = [[None if t % 3 == 0 else int(label) for t, label in enumerate(y)] for y in Y]
    mm.LatentSVM(models.Chain(), n_jobs=4, max_passes=8, random_state=0).fit(X, partly)


def attributes() -> None:
    """Learn and look up attribute names with several threads."""
    X = [[[f"w{(i + t) * k % 977}" for k in range(20)] for t in range(20)] for i in range(200)]
    encoder = AttributeEncoder(sequences=True, n_jobs=4)
    encoder.fit_transform(X)
    encoder.transform(X)
    AttributeEncoder(n_features=100, sequences=True, n_jobs=4).fit_transform(X)


def main() -> None:
    """Run every solver on chains and classes, with both hinges; then many labels, and graphs.

    With many labels, the threads search for outputs ahead of the updates.
    """
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
    # With more threads than cores, a thread may be delayed: the others then do its share. The
    # second fit
    # has passes that end early.
    fitted(models.Chain(), *chains, solver="proximal", n_jobs=16, max_passes=30)
    many = random_chains(2000, 5, 6, max_length=8, random_state=0)
    fitted(models.Chain(), *many, solver="sda", max_passes=1e6, max_seconds=0.3, tol=1e-9)
    probabilities(*chains)
    hidden(*chains)
    attributes()
    print("all threaded passes ran")


if __name__ == "__main__":
    main()
