"""Small fitted estimators of every kind that a model file can hold, each with inputs to predict from."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

import maxmargin as mm
from maxmargin import losses, models, solvers
from maxmargin.data.synthetic import random_treebank

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3))
Y = np.array(["a", "b", "c"] * 4)
TWO = np.array([0, 1] * 6)
CHAINS = [RNG.normal(size=(3, 2)) for _ in range(5)]
TAGS = [["a", "b", "c"], ["b", "a", "c"], ["c", "c", "b"], ["a", "a", "a"], ["b", "c", "a"]]
WORDS = [[{"w": "x", "n": 1.0}, ["y"]], ["x", {"z": 2.0}], [["y", "z"], "x"]]
EDGES = np.array([[0, 1], [1, 2], [0, 2]])
GRAPHS = [(RNG.normal(size=(3, 2)), EDGES) for _ in range(4)]
NODES = [["u", "v", "v"], ["v", "u", "u"], ["u", "u", "v"], ["v", "v", "u"]]
SETS = RNG.integers(2, size=(12, 3))
MAPS = [RNG.normal(size=(4, 5, 2)) for _ in range(4)]
PLACES = [RNG.integers(4, size=(3, 2)) for _ in range(4)]
BAGS = [RNG.normal(size=(int(m), 2)) for m in RNG.integers(1, 4, size=8)]
BANK = random_treebank(12, random_state=0)


def svm(model: Any, **options: Any) -> Any:
    return mm.StructuralSVM(model, tol=0.1, **options)


def latent(model: Any) -> Any:
    return mm.LatentSVM(model, tol=0.1, max_rounds=2)


KINDS: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "Binary": (lambda: svm(models.Binary(bias=1.0)), X, TWO),
    "Binary, F1": (lambda: svm(models.Binary("f1")), X, TWO),
    "Binary, precision": (lambda: svm(models.Binary(losses.PrecisionAt(3))), X, TWO),
    "Multiclass": (lambda: svm(models.Multiclass(1 - np.eye(3), bias=2.0), C=3.0), X, Y),
    "Multiclass, prior": (
        lambda: svm(models.Multiclass(), prior=(0.0, 2.0), nonnegative=[1, 2]),
        X,
        Y,
    ),
    "Multiclass, solver": (
        lambda: svm(models.Multiclass(), solver=solvers.OneSlack(cache=5)),
        X,
        Y,
    ),
    "Multiclass, sum": (lambda: svm(models.Multiclass(), hinge="sum"), X, Y),
    "Chain": (lambda: svm(models.Chain(start=True, end=True, bias=1.0)), CHAINS, TAGS),
    "Chain, costs": (lambda: svm(models.Chain(losses.Hamming(1 - np.eye(3), True))), CHAINS, TAGS),
    "Chain, attributes": (lambda: svm(models.Chain()), WORDS, [["p", "q"], ["q", "q"], ["p", "p"]]),
    "Chain, observed": (
        lambda: svm(models.Chain(features="observed", bias=1.0)),
        [sp.csr_matrix(np.where(x > 0, x, 0.0)) for x in CHAINS],
        TAGS,
    ),
    "Grammar": (lambda: svm(models.Grammar()), *BANK),
    "Tree": (lambda: svm(models.Tree()), MAPS, PLACES),
    "Tree, one part": (lambda: svm(models.Tree()), MAPS, [y[:1] for y in PLACES]),
    "FactorGraph": (lambda: svm(models.FactorGraph(bias=1.0)), GRAPHS, NODES),
    "FactorGraph, potts": (lambda: svm(models.FactorGraph("potts")), GRAPHS, NODES),
    "MultiLabel": (lambda: svm(models.MultiLabel(bias=1.0)), X, SETS),
    "MultiLabel, sets": (
        lambda: svm(models.MultiLabel("none")),
        X,
        [tuple("abc"[j] for j in np.flatnonzero(row)) for row in SETS],
    ),
    "Kernel": (lambda: svm(models.Kernel(models.Multiclass())), X, Y),
    "Kernel, sparse": (lambda: svm(models.Kernel(models.Binary(), "poly")), sp.csr_matrix(X), TWO),
    "Kernel, rank": (lambda: svm(models.Kernel(models.Chain(bias=1.0), rank=3)), CHAINS, TAGS),
    "Latent": (lambda: latent(models.Latent(models.Multiclass(), parts=2)), X, Y),
    "Bags": (lambda: latent(models.Bags(bias=1.0)), BAGS, ["no", "yes"] * 4),
    "MulticlassSVC": (lambda: mm.MulticlassSVC(tol=0.1), X, Y),
    "BinarySVC": (lambda: mm.BinarySVC(class_weight="balanced", penalized_intercept=False), X, TWO),
    "RegressionSVR": (lambda: mm.RegressionSVR(random_state=3), X, X[:, 0]),
    "GeneralizedSVM": (lambda: mm.GeneralizedSVM(prior=(X[0], [1.0, 2.0, np.inf])), X, np.ones(12)),
}


def fitted() -> Iterator[tuple[str, Any, Any]]:
    """Yield the name, the fitted estimator and inputs of each kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (make, inputs, outputs) in KINDS.items():
            yield name, make().fit(inputs, outputs), inputs
        # Weights that are mostly zero are stored as (index, value) pairs.
        chain = svm(models.Chain()).fit(CHAINS, TAGS)
        yield "Chain, pruned", chain.prune(np.sort(np.abs(chain.coef_))[-2]), CHAINS


def asked(estimator: Any, inputs: Any) -> Any:
    """Return the prediction for the first two inputs."""
    few = inputs[:2]
    ask = estimator.predict if hasattr(estimator, "predict") else estimator.decision_function
    return ask(few)
