"""A small training problem for every model, used by the contracts that every fit must keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import maxmargin as mm
from helpers import as_python, built_in
from maxmargin import models
from reference.cases import fresh
from reference.problems import make_case


@dataclass(frozen=True)
class Fit:
    """An unfitted estimator and its data."""

    svm: Any
    X: Any
    Y: Any


class Labels:
    """A kernel on pairs, k(x, x') [y = y']: a user's model without features."""

    def outputs(self, x: Any) -> list[int]:
        """Return three classes."""
        return [0, 1, 2]

    def loss(self, y: int, y_hat: int) -> float:
        """Return the zero-one loss."""
        return float(y != y_hat)

    def joint_kernel(self, x: Any, y: int, x2: Any, y2: int) -> float:
        """Return a Gaussian kernel in x for equal labels, else 0."""
        return float(np.exp(-0.4 * np.sum((x - x2) ** 2)) * (y == y2))


def structural(model: Any, X: Any, Y: Any, C: float = 1.0) -> Fit:
    """Return a problem of StructuralSVM."""
    return Fit(mm.StructuralSVM(model, C=C, tol=1e-4, random_state=0), X, Y)


def of_case(name: str) -> Callable[[int], Fit]:
    """Return a maker of problems with the built-in model of an enumerated case."""

    def make(seed: int) -> Fit:
        case = make_case(name, seed)
        return structural(built_in(case), case.X, case.Y, case.C)

    return make


def own(seed: int) -> Fit:
    """Return a problem whose model is written in Python."""
    case = make_case("multiclass-cost-dense", seed)
    return structural(*as_python(case), case.Y)


def with_rows(
    model: Callable[[], Any] | None, classes: int, C: float = 1.0, front_end: Any = None
) -> Callable[[int], Fit]:
    """Return a maker of problems for a model of feature rows, or a flat front end, on overlapping
    classes."""

    def make(seed: int) -> Fit:
        generator = fresh(seed, 200)
        y = np.arange(18) % classes
        X = generator.normal(size=(18, 3)) + np.eye(3)[y]
        if model is None:
            return Fit(front_end(C, tol=1e-4, random_state=0), X, y)
        return structural(model(), X, y, C)

    return make


def chain_kernel(seed: int) -> Fit:
    """Return a problem with a kernel of given rank between the rows of a chain."""
    case = make_case("chain-1to4-dense", seed)
    return structural(models.Kernel(models.Chain(), "rbf", rank=5), case.X, case.Y)


def latent(seed: int) -> Fit:
    """Return a problem with two hidden parts for each of two classes that lie like XOR."""
    generator = fresh(seed, 201)
    corner = np.arange(40) % 4
    X = np.array([[2, 2], [-2, -2], [2, -2], [-2, 2.0]])[corner] + generator.normal(size=(40, 2))
    model = models.Latent(models.Multiclass(bias=1.0), parts=2)
    return Fit(mm.LatentSVM(model, C=0.1, tol=1e-4, random_state=0), X, corner // 2)


def latent_chain(seed: int) -> Fit:
    """Return a problem with two hidden states for each label of a chain."""
    case = make_case("chain-1to4-csr-ends", seed)
    model = models.Latent(built_in(case), parts=2)
    return Fit(mm.LatentSVM(model, C=0.2, tol=1e-4, random_state=0), case.X, case.Y)


def latent_tree(seed: int) -> Fit:
    """Return a problem with two hidden types for each part of a tree."""
    case = make_case("tree-three-parts", seed)
    model = models.Latent(built_in(case), parts=2)
    return Fit(mm.LatentSVM(model, C=0.5, tol=1e-4, random_state=0), case.X, case.Y)


def bags(seed: int) -> Fit:
    """Return a problem of bags; each positive bag holds one shifted candidate."""
    generator = fresh(seed, 202)
    y = np.arange(24) % 2
    X = [generator.normal(size=(int(generator.integers(1, 5)), 3)) for _ in y]
    for x, label in zip(X, y, strict=True):
        x[0, :2] += 3.0 * label
    svm = mm.LatentSVM(models.Bags(bias=1.0), C=0.3, tol=1e-4, random_state=0)
    return Fit(svm, X, y)


def groups(seed: int) -> Fit:
    """Return a problem of explicit constraints, each with its own slack."""
    generator = fresh(seed, 203)
    svm = mm.GeneralizedSVM(C=0.7, tol=1e-6, random_state=0)
    return Fit(svm, generator.normal(size=(20, 3)), generator.normal(size=20) + 0.5)


def regression(seed: int) -> Fit:
    """Return a regression problem."""
    generator = fresh(seed, 204)
    X = generator.normal(size=(20, 3))
    return Fit(mm.RegressionSVR(C=0.7, tol=1e-6, random_state=0), X, X[:, 0] + 1)


def partial(seed: int) -> Fit:
    """Return a problem of chains in which every third label is unknown."""
    case = make_case("chain-cost-four-labels", seed)
    Y = [[None if t % 3 == 2 else label for t, label in enumerate(y)] for y in case.Y]
    svm = mm.LatentSVM(models.Partial(built_in(case)), C=0.2, tol=1e-4, random_state=0)
    return Fit(svm, case.X, Y)


FITS: dict[str, Callable[[int], Fit]] = {
    "multiclass": of_case("multiclass-cost-dense"),
    "binary": of_case("binary-bias-csr32"),
    "chain": of_case("chain-1to4-csr-ends"),
    "chain-legal": of_case("chain-illegal"),
    "chain-edges": of_case("edges-csr32"),
    "chain-second-order": of_case("second-order-edges"),
    "grammar": of_case("grammar-spans"),
    "tree": of_case("tree-three-parts"),
    "graph": of_case("graph-edge-features"),
    "multilabel": of_case("multilabel-cycle"),
    "ranking": of_case("ranking-three-grades"),
    "whole-sample": with_rows(lambda: models.Binary("f1"), 2, C=10.0),
    "kernel": with_rows(lambda: models.Kernel(models.Multiclass(), "rbf"), 3),
    "kernel-rank": chain_kernel,
    "joint-kernel": with_rows(lambda: models.JointKernel(Labels()), 3),
    "latent": latent,
    "latent-chain": latent_chain,
    "latent-tree": latent_tree,
    "bags": bags,
    "partial": partial,
    "groups": groups,
    "regression": regression,
    "own": own,
    "multiclass-front-end": with_rows(None, 3, front_end=mm.MulticlassSVC),
    "binary-front-end": with_rows(None, 2, front_end=mm.BinarySVC),
}
