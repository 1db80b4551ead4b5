"""Models in Python whose oracles lie or break, with every solver that accepts such models.

The library promises a truthful result, or an OracleError, a ValueError, a TypeError, or the user's
own
exception unchanged. A result is truthful if its primal is at least P(w), computed by brute force
over all
outputs, and its dual is at most the optimum.

Lies that cannot be caught are counted as "believed". The library notices a wrong answer only if it
has seen
a better output, and it sees few outputs. So it may miss an oracle that is wrong only for some
examples, some
outputs or some w, or one whose ``inference`` tells the same lie. Among the lies below these are
"sometimes",
"later", "random" and "loss alone" (right if the loss is larger than the scores). All other lies
must be
caught.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from fuzz.common import Find, main
from maxmargin import solvers

K = 4  # number of labels


class OwnError(Exception):
    """An exception that a user's model raises."""


class Honest:
    """An honest model: it predicts one of K labels for a row of features, with a cost matrix."""

    def __init__(self, costs: np.ndarray, lie: str = "", number: float = 1.0):
        self.costs, self.lie, self.number = costs, lie, number
        self.calls = 0

    def initialize(self, X: Any, Y: Any) -> None:
        self.size_joint_feature = K * len(X[0])

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        return np.kron(np.eye(K)[y], x)

    def loss(self, y: int, y_hat: int) -> float:
        return float(self.costs[y, y_hat])

    def scores(self, x: Any, w: np.ndarray) -> np.ndarray:
        return w.reshape(K, -1) @ x

    def inference(self, x: Any, w: np.ndarray) -> int:
        return int(np.argmax(self.scores(x, w)))

    def loss_augmented_inference(self, x: Any, y: int, w: np.ndarray) -> Any:
        return int(np.argmax(self.scores(x, w) + self.costs[y]))


class Liar(Honest):
    """An honest model but for the lie in its oracle."""

    def loss_augmented_inference(self, x: Any, y: int, w: np.ndarray) -> Any:
        self.calls += 1
        right = super().loss_augmented_inference(x, y, w)
        return LIES[self.lie](self, x, y, w, right)


class Batched(Liar):
    """A model that lies through the batch form of the oracle; some lies exist only there."""

    def batch_loss_augmented_inference(self, X: Any, Y: Any, w: np.ndarray) -> Any:
        found = [self.loss_augmented_inference(x, y, w) for x, y in zip(X, Y, strict=True)]
        if self.lie == "short batch":
            return found[:-1]
        if self.lie == "long batch":
            return [*found, 0]
        if self.lie == "generator":
            return (y for y in found)
        if self.lie == "no batch":
            return None
        return found


class BadFeatures(Honest):
    """A model whose joint features are broken."""

    def joint_feature(self, x: Any, y: Any) -> Any:
        psi = super().joint_feature(x, y)
        bad = {"nan features": np.where(y == 1, np.nan, psi), "short features": psi[:-1]}
        bad |= {"no features": None, "words": ["a"] * len(psi), "table": psi.reshape(K, -1)}
        return bad[self.lie]


class BadLoss(Honest):
    """A model whose losses are broken."""

    def loss(self, y: int, y_hat: int) -> Any:
        right = super().loss(y, y_hat)
        bad = {"negative loss": -right, "own loss": right + 0.25, "nan loss": right * np.nan}
        bad |= {"no loss": None, "endless loss": np.inf if right else 0.0}
        return bad[self.lie]


def own_error(*arguments: Any) -> None:
    raise OwnError("my own mistake")


def spoil(model: Liar, x: Any, y: Any, w: np.ndarray, right: int) -> int:
    w[0] += 1.0
    return right


def changing(model: Liar, x: Any, y: Any, w: np.ndarray, right: int) -> int:
    return right if model.calls <= model.number else y


Lie = Callable[[Liar, Any, int, np.ndarray, int], Any]
LIES: dict[str, Lie] = {
    "": lambda model, x, y, w, right: right,
    "truth": lambda model, x, y, w, right: y,
    "argmin": lambda model, x, y, w, right: int(np.argmin(model.scores(x, w) + model.costs[y])),
    "no loss added": lambda model, x, y, w, right: model.inference(x, w),
    "loss alone": lambda model, x, y, w, right: int(np.argmax(model.costs[y])),
    "other sign": lambda model, x, y, w, right: int(np.argmax(model.costs[y] - model.scores(x, w))),
    "none": lambda model, x, y, w, right: None,
    "raises": own_error,
    "writes": spoil,
    "outside": lambda model, x, y, w, right: K + 3,
    "later": changing,
    "sometimes": lambda model, x, y, w, right: y if x[0] > 1.0 else right,
    "random": lambda model, x, y, w, right: int(model.calls * 7 % K),
}
BATCH_LIES = ("short batch", "long batch", "generator", "no batch")
LIES |= dict.fromkeys(BATCH_LIES, LIES[""])
UNSEEN = ("later", "sometimes", "random", "loss alone")
FEATURES = ("nan features", "short features", "no features", "words", "table")
LOSSES = ("negative loss", "own loss", "nan loss", "no loss", "endless loss")

SOLVERS: list[Any] = [
    *("auto", "proximal", "fasole", "sda", "sdm", "bcfw", "dual-coordinate"),
    *("one-slack", "n-slack", "streaming", "subgradient"),
    solvers.BCFW(pairwise=True),
    solvers.Streaming(passes=None),
]


def slacks_of(model: Honest, X: np.ndarray, Y: list[int], w: np.ndarray) -> np.ndarray:
    """Return xi_i(w) over all labels, with the honest costs and features."""
    scores = X @ w.reshape(K, -1).T
    rows = np.arange(len(Y))
    return (scores - scores[rows, Y][:, None] + model.costs[Y]).max(axis=1)


def check_truth(svm: Any, model: Honest, X: np.ndarray, Y: list[int]) -> None:
    """Check the bounds: primal against P(w) by brute force, and dual against the optimum."""
    w, certificate = svm.coef_, svm.certificate_
    primal = 0.5 * w @ w + svm.C * slacks_of(model, X, Y, w).sum()
    if certificate.exact and certificate.primal < primal * (1 - 1e-6) - 1e-9:
        raise Find(f"primal {certificate.primal:.9g} is below P(w) = {primal:.9g}")
    reference = mm.MulticlassSVC(C=svm.C, loss=model.costs, fit_intercept=False, tol=1e-8)
    top = 0.5 * svm.C * len(Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if len(set(Y)) == K:
            top = reference.fit(X, Y).certificate_.primal
    if certificate.dual > top * (1 + 1e-6) + 1e-9 and len(set(Y)) == K:
        raise Find(f"dual {certificate.dual:.9g} is above the optimum, {top:.9g}")


def liar(rng: np.random.Generator, costs: np.ndarray) -> Honest:
    """Draw a model with a lie; a few are honest."""
    number = float(rng.integers(1, 80))
    kind = int(rng.integers(5))
    if kind == 0:
        return BadFeatures(costs, str(rng.choice(FEATURES)), number)
    if kind == 1:
        return BadLoss(costs, str(rng.choice(LOSSES)), number)
    names = [name for name in LIES if name not in BATCH_LIES]
    if kind == 2:
        return Batched(costs, str(rng.choice([*names, *BATCH_LIES])), number)
    return Liar(costs, str(rng.choice(names)), number)


def attempt(rng: np.random.Generator) -> str:
    """Try one model with one solver."""
    n = int(rng.integers(8, 30))
    X, Y = rng.normal(size=(n, 3)), (np.arange(n) % K).tolist()
    costs = rng.uniform(0.5, 2.0, size=(K, K)) * (1 - np.eye(K))
    model, honest = liar(rng, costs), Honest(costs)
    settings = {"C": 10.0 ** rng.uniform(-2, 1), "max_passes": 60, "random_state": 0}
    solver = SOLVERS[int(rng.integers(len(SOLVERS)))]
    if rng.random() < 0.3:
        settings["n_jobs"] = 2
    svm = mm.StructuralSVM(model, solver=solver, tol=1e-3, **settings)
    shown = f"{type(model).__name__} {model.lie!r}"
    before = X.copy()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            svm.fit(X, Y)
    except (ValueError, TypeError, IndexError, OwnError) as error:
        if isinstance(error, OwnError) != (model.lie == "raises"):
            raise Find(f"{shown}, {solver}: {error!r}") from error
        if isinstance(error, IndexError) and model.lie not in ("outside", "none"):
            raise Find(f"{shown}, {solver}: {error!r}") from error
        if model.lie in ("", "generator"):
            raise Find(f"an honest model was refused by {solver}: {error!r}") from error
        return f"refused: {shown}"
    if not np.array_equal(X, before):
        raise Find(f"{shown}, {solver}: X was changed")
    try:
        check_truth(svm, honest, X, Y)
    except Find as find:
        if model.lie in UNSEEN:
            return f"believed: {shown}"
        raise Find(f"{shown}, {solver}, {svm.certificate_}: {find}") from None
    return f"truthful: {shown}"


if __name__ == "__main__":
    main("oracles", attempt)
