"""Random tiny problems that are hard to solve: degenerate data, uneven weights, every regulariser.

A problem is a `Case` of `reference.cases` with spoilt data, and the parameters of the estimator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular

from maxmargin import solvers
from maxmargin.models.registry import MODELS
from maxmargin.problem import Formulation

from . import cases
from .cases import Case
from .enumerate import dense_rows

Values = Callable[[np.random.Generator, np.ndarray], np.ndarray]

# Ways to spoil the features, which are standard normal before.
SPOILERS: dict[str, Values] = {
    "gaussian": lambda rng, X: X,
    "constant": lambda rng, X: np.full_like(X, rng.choice([0.0, 1.0, -2.5])),
    "zero-one": lambda rng, X: (X > 0).astype(float),
    "duplicates": lambda rng, X: X[rng.integers(max(1, len(X) // 3), size=len(X))],
    "equal-columns": lambda rng, X: np.repeat(X[:, :1], X.shape[1], axis=1),
    "empty-rows": lambda rng, X: X * (rng.random((len(X), 1)) < 0.6),
    "large": lambda rng, X: 1e3 * X,
    "small": lambda rng, X: 1e-3 * X,
    "uneven": lambda rng, X: X * 10.0 ** rng.integers(-3, 4, size=X.shape[1]),
    "one-outlier": lambda rng, X: np.where(np.arange(len(X))[:, None] == 0, 1e4 * X, X),
}

SMALL = 1e-3  # a loss that is always added to the size of a slack
REGULARIZERS = ("plain", "scalar", "mean", "vector", "matrix", "nonnegative", "free")


@dataclass(frozen=True)
class Prior:
    """R(w) = 1/2 (w - mean)' Sigma^-1 (w - mean), Sigma = root root'; infinite if a bounded w is below 0."""

    mean: np.ndarray
    root: np.ndarray  # a lower factor, or diagonal entries, some of them infinite
    bound: np.ndarray | None = None

    def value(self, w: np.ndarray) -> float:
        """R(w), by definition."""
        if self.bound is not None and (w[self.bound] < 0).any():
            return np.inf
        r = w - self.mean
        u = r / self.root if self.root.ndim == 1 else solve_triangular(self.root, r, lower=True)
        return 0.5 * (u @ u)

    def conjugate(self, q: np.ndarray) -> float:
        """max_w <q, w> - R(w), coordinate by coordinate if there are bounds."""
        if self.root.ndim == 2:
            u = self.root.T @ q
            return float(self.mean @ q) + 0.5 * float(u @ u)
        scale = np.where(np.isinf(self.root), 0.0, self.root)
        w = self.mean + scale**2 * q
        w = w if self.bound is None else np.where(self.bound, np.maximum(w, 0.0), w)
        return float(q @ w) - self.value(w)


@dataclass(frozen=True)
class Hostile:
    """A problem, and the parameters of its solution."""

    case: Case
    solver: str
    hinge: str
    tol: float
    prior: Prior
    given: dict[str, Any]  # parameters of the estimator for this regulariser
    name: str  # a description of the problem
    max_passes: int = 30
    form: str = "built-in"  # other values: "python", "kernel"

    @property
    def python(self) -> bool:
        """Return whether the model is written in Python."""
        return self.form == "python"

    @cached_property
    def planes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Owner, offset and vector of every output of every example."""
        blocks = self.case.blocks
        owner = np.repeat(np.arange(len(blocks)), [len(block.offsets) for block in blocks])
        offsets = np.concatenate([block.offsets for block in blocks])
        return owner, offsets, np.concatenate([block.vectors for block in blocks])

    @cached_property
    def sizes(self) -> np.ndarray:
        """|Psi(x_i, y_i)|; scores of this size determine the rounding error of their differences."""
        case, truth = self.case, self.case.truth
        pairs = zip(truth.examples(case.X), case.Y, strict=True)
        return np.abs([truth.joint_feature(x, y) for x, y in pairs])

    def primal(self, w: np.ndarray, wide: bool = False) -> tuple[float, float]:
        """P(w) by definition, and the size of its terms, which bounds rounding.

        With ``wide`` nothing overflows, thanks to extended precision. The core ignores violations
        below 1e-13 of a loss (`cpp/solvers/dual_ascent.hpp`); the size covers them too.
        """
        owner, offsets, vectors = self.planes
        if wide:
            w, offsets, vectors = (x.astype(np.longdouble) for x in (w, offsets, vectors))
        s = offsets + vectors @ w
        sizes = np.abs(offsets) + np.abs(vectors) @ np.abs(w)
        budgets, n = self.case.budgets, len(self.case.budgets)
        others = SMALL + self.sizes.astype(w.dtype) @ np.abs(w)
        if self.hinge == "sum":
            slacks = np.zeros(n, dtype=s.dtype)
            np.add.at(slacks, owner, np.maximum(s, 0.0))
        else:
            slacks = np.full(n, -np.inf, dtype=s.dtype)
            np.maximum.at(slacks, owner, s)
        R = self.prior.value(w)
        return R + budgets @ slacks, R + budgets[owner] @ sizes + budgets @ others


def over_rows(X: Any, change: Callable[[np.ndarray], Any]) -> Any:
    """Apply a change to the matrix of features, whether the data are one matrix or a list of parts."""
    if not isinstance(X, list):
        return change(X)
    graphs = isinstance(X[0], tuple)
    parts = [dense_rows(x[0] if graphs else x) for x in X]
    flat = [part.reshape(-1, part.shape[-1]) for part in parts]
    rows = change(np.concatenate(flat))
    ends = np.cumsum([len(part) for part in flat])
    pieces = [rows[b - len(part) : b] for b, part in zip(ends, flat, strict=True)]
    shaped = [
        piece if sparse.issparse(piece) else piece.reshape(part.shape)
        for piece, part in zip(pieces, parts, strict=True)
    ]
    return [(p, *x[1:]) for p, x in zip(shaped, X, strict=True)] if graphs else shaped


def spoilt(rng: np.random.Generator, case: Case, spoiler: Values) -> Case:
    """Return the case with features changed by the spoiler, in any layout and precision."""
    if case.kind == "grammar":
        return case
    kind = np.float32 if rng.random() < 0.3 else np.float64
    layout = rng.random() < 0.3 and case.kind != "tree"

    def change(X: np.ndarray) -> Any:
        values = spoiler(rng, dense_rows(X)).astype(kind)
        return sparse.csr_matrix(values) if layout else values

    return case.replace(X=over_rows(case.X, change))


def random_case(rng: np.random.Generator, kind: str) -> Case:
    """A problem of this kind with Gaussian features."""
    n, d = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    bias = {"bias": float(rng.choice([1.0, 0.1]))} if rng.random() < 0.3 else {}
    costs = {"costs": bool(rng.random() < 0.4)}
    if kind in ("multiclass", "binary"):
        classes = {"n_classes": int(rng.integers(2, 5))} if kind == "multiclass" else {}
        made = {"multiclass": cases.multiclass_case, "binary": cases.binary_case}[kind]
        return made(rng, n=n + 3, n_features=d, **classes, **costs, **bias)
    if kind == "chain":
        ends = {"start": bool(rng.random() < 0.3), "end": bool(rng.random() < 0.3)}
        few = {"n_classes": int(rng.integers(2, 4)), "lengths": (1, 3, 2)}
        mean = {"mean": bool(rng.random() < 0.3)}
        return cases.chain_case(rng, n=n, n_features=d, **few, **ends, **mean, **costs, **bias)
    if kind == "graph":
        shape = str(rng.choice(["tree", "forest", "cycle"]))
        pairs = str(rng.choice(["full", "symmetric", "diagonal", "potts"]))
        few = {"n_classes": int(rng.integers(2, 4)), "sizes": (3, 1, 4 if shape == "tree" else 3)}
        return cases.graph_case(
            rng, n=n, n_features=d, shape=shape, kind=pairs, **few, **costs, **bias
        )
    if kind == "multilabel":
        pairs = str(rng.choice(["all", "none"]))
        return cases.multilabel_case(rng, n=n, n_features=d, n_labels=3, pairs=pairs, **bias)
    if kind == "tree":
        return cases.parts_case(rng, n=n, grids=((2, 2), (1, 3)), n_features=d)
    return cases.grammar_case(rng, n=n, lengths=(2, 3, 1), most=40)


def even_labels(rng: np.random.Generator, case: Case) -> Case:
    """Return the case with nearly all labels equal; every label of the model still occurs."""
    if case.kind in ("multiclass", "binary"):
        K = len(case.truth.classes)
        return case.replace(Y=[y if i < K else 0 for i, y in enumerate(case.Y)])
    if case.kind == "multilabel":
        return case.replace(Y=np.zeros_like(case.Y) if rng.random() < 0.5 else np.ones_like(case.Y))
    return case


def random_weights(rng: np.random.Generator, n: int) -> np.ndarray | None:
    """None, uneven weights with zeros, or weights that differ by many orders of magnitude."""
    which = rng.random()
    if which < 0.5:
        return None
    weights = rng.uniform(0.2, 3.0, size=n) if which < 0.8 else 10.0 ** rng.uniform(-4, 2, size=n)
    weights[rng.random(n) < 0.2] = 0.0
    weights[0] = weights[0] or 1.0
    return weights


def random_prior(
    rng: np.random.Generator, kind: str, d: int, bias: np.ndarray
) -> tuple[Prior, dict[str, Any]]:
    """A regulariser of this kind and its parameters; ``bias`` marks the weights that "free" leaves free."""
    mean, ones = np.zeros(d), np.ones(d)
    if kind == "plain":
        return Prior(mean, ones), {}
    if kind == "nonnegative":
        bound = rng.random(d) < 0.6
        return Prior(mean, ones, bound), {"nonnegative": bound}
    if kind == "free":
        scale = np.where(bias, np.inf, 1.0)
        return Prior(mean, scale), {"prior": (0.0, scale)}
    if kind == "scalar":
        s = float(10 ** rng.uniform(-1, 1))
        return Prior(mean, s * ones), {"prior": (0.0, s)}
    mean = rng.normal(size=d)
    if kind == "mean":
        return Prior(mean, 0.7 * ones), {"prior": (mean, 0.7)}
    if kind == "vector":
        scale = rng.uniform(0.3, 2.0, size=d)
        return Prior(mean, scale), {"prior": (mean, scale)}
    factor = rng.normal(size=(d, d)) / np.sqrt(d)
    covariance = factor @ factor.T + 0.3 * np.eye(d)
    return Prior(mean, np.linalg.cholesky(covariance)), {"prior": (mean, covariance)}


def free_weights(case: Case) -> np.ndarray | None:
    """The mask of the bias weights of flat models with a bias, else None."""
    if case.kind not in ("multiclass", "binary") or case.options["bias"] is None:
        return None
    width = case.truth.n_features + 1
    return np.arange(1, case.truth.size_joint_feature + 1) % width == 0


def able(kind: str, formulation: Formulation, needs: tuple[str, ...], form: str) -> list[str]:
    """The names of the solvers that accept a problem."""
    model = {"graph": "FactorGraph", "multilabel": "MultiLabel"}.get(kind, kind.capitalize())
    found = []
    for name, solver in solvers.SOLVERS.items():
        has = form == "built-in" and set(solver.needs) <= set(MODELS[model].powers)
        fits = has or not solver.needs
        if formulation in solver.formulations and set(needs) <= set(solver.honours) and fits:
            found.append(name)
    return [*found, "auto"]


def random_formulation(rng: np.random.Generator, kind: str) -> tuple[str, str]:
    """A hinge and a rescaling that the model supports."""
    hinge = "sum" if kind in ("multiclass", "binary", "chain") and rng.random() < 0.2 else "max"
    rescaling = "slack" if kind not in ("grammar", "tree") and rng.random() < 0.25 else "margin"
    return hinge, rescaling


def random_problem(rng: np.random.Generator, kinds: tuple[str, ...]) -> Hostile:
    """A random compatible choice of model, formulation, regulariser and solver."""
    form, _, kind = str(rng.choice(kinds)).rpartition("-")
    hinge, rescaling = ("max", "margin") if form == "kernel" else random_formulation(rng, kind)
    spoiler = str(rng.choice(list(SPOILERS)))
    case = spoilt(rng, random_case(rng, kind), SPOILERS[spoiler])
    case = even_labels(rng, case) if rng.random() < 0.15 else case
    case = case.replace(C=float(10 ** rng.uniform(-6, 6)), rescaling=rescaling)
    case = replace(case, sample_weight=random_weights(rng, len(case.Y)))
    bias = free_weights(case)
    usable = list(REGULARIZERS[: -1 if bias is None else None])
    usable = ["plain"] if hinge == "sum" else usable[:2] if form == "kernel" else usable
    regularizer = "plain" if rng.random() < 0.4 else str(rng.choice(usable))
    prior, given = random_prior(rng, regularizer, case.truth.size_joint_feature, bias)
    names = able(kind, Formulation(hinge, rescaling), tuple(given), form)
    if regularizer == "free":
        names.remove("subgradient")
    solver = str(rng.choice(names))
    name = f"{form}{'-' * bool(form)}{kind} {hinge} {rescaling} {regularizer} {solver}"
    tol = float(10 ** rng.uniform(-9, -1))
    return Hostile(case, solver, hinge, tol, prior, given, name, form=form or "built-in")
