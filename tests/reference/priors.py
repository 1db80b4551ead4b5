"""Small problems with a prior, shared by the tests of regularisers."""

import numpy as np

import maxmargin as mm
from helpers import as_python, built_in
from reference.cases import binary_case, chain_case, fresh, multiclass_case

KINDS = ("scalar", "mean", "mean-scalar", "vector", "matrix")
CASES = {
    "multiclass": lambda g: multiclass_case(g, n=8, n_features=3, costs=True, weighted=True, C=0.6),
    "chain": lambda g: chain_case(g, n=4, lengths=(1, 2), n_classes=2, n_features=2, C=0.5),
    "binary-csr": lambda g: binary_case(g, n=9, layout="csr", C=1.5),
}


def small(name, seed, rescaling="margin"):
    return CASES[name](fresh(seed, 70 + list(CASES).index(name))).replace(rescaling=rescaling)


def draw(kind, generator, d):
    """A prior of this kind, with its mean and covariance."""
    mean = (
        generator.normal(size=d) if "mean" in kind or kind in ("vector", "matrix") else np.zeros(d)
    )
    if kind == "matrix":
        root = generator.normal(size=(d, d)) / np.sqrt(d)
        covariance = root @ root.T + 0.3 * np.eye(d)
        return (mean, covariance), mean, covariance
    scale = {"mean": 1.0, "vector": generator.uniform(0.4, 1.6, size=d)}.get(kind, 0.7)
    given = 0 if kind == "scalar" else mean
    return (given, scale), mean, np.diag(np.full(d, scale) ** 2)


def train(case, tol=1e-9, python=False, **settings):
    model, X = as_python(case) if python else (built_in(case), case.X)
    defaults = {"tol": tol, "max_passes": 100_000, "max_seconds": 120.0, "random_state": 0}
    defaults |= {"rescaling": case.rescaling, "C": case.C}
    return mm.StructuralSVM(model, **(defaults | settings)).fit(
        X, case.Y, sample_weight=case.sample_weight
    )
