"""Check a user's model and report what is wrong with it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from maxmargin.data.arrays import takes_outputs
from maxmargin.models.checks import OracleError, lent, value
from maxmargin.models.protocol import Model, check_protocol
from maxmargin.models.python import PythonExamples, predict_each


@takes_outputs
def check_model(model: Any, X: Any, y: Any, n_checks: int = 20, random_state: int = 0) -> None:
    """Check a model on data; raise ``OracleError`` at the first contradiction.

    Up to `n_checks` examples are checked at several random w. Features must be finite and have the right
    shape. The loss must be zero at the truth and never negative. Calls with the same arguments must return
    the same result. The outputs of inference and of loss-augmented inference must not be beaten by the
    truth, by each other, by outputs of other w, or by the list of ``inference_k_best`` if that exists. The
    batch oracle must reach the scores of the single oracle.
    """
    check_protocol(model)
    if getattr(model, "joint", False):
        raise ValueError(
            "check_model checks one example at a time, but this model has a loss of the whole "
            "sample"
        )
    model = copy.deepcopy(model)
    model.initialize(X, y)
    rng = np.random.default_rng(random_state)
    examples = PythonExamples(model, X, y)
    chosen = rng.permutation(examples.n)[:n_checks].tolist()
    scales = (0.0, 0.1, 1.0, 10.0)
    weights = [scale * rng.standard_normal(examples.dimension) for scale in scales]
    for i in chosen:
        check_example(examples, i, weights)
    check_batch(examples, chosen, weights)


def check_example(examples: PythonExamples, i: int, weights: list[np.ndarray]) -> None:
    """Run all checks of one example."""
    model, x, y = examples.model, examples.X[i], examples.Y[i]  # type: ignore[index]
    outputs = [y]
    for w in weights:
        outputs += [*predict_each(model, [x], [y], w), ask_singly(model, x, y, w)]
    features = [examples.features(i, output) for output in outputs]
    losses = [examples.difference(i, output)[0] for output in outputs]
    again = examples.features(i, outputs[-1])
    if not np.array_equal(features[-1], again):
        raise OracleError(
            f"joint_feature of example {i} differs between two calls on the same output"
        )
    exact = examples.exact
    for k, w in enumerate(weights):
        scores = np.array([psi @ w for psi in features])
        check_best(i, "inference", scores, 1 + 2 * k, exact)
        check_best(i, "loss_augmented_inference", scores + losses, 2 + 2 * k, exact)
        if hasattr(model, "inference_k_best"):
            check_k_best(examples, i, w, scores[1 + 2 * k])


def ask_singly(model: Any, x: Any, y: Any, w: np.ndarray) -> Any:
    """Return the loss-augmented output of one example, from the method for single examples."""
    with lent(w, "loss_augmented_inference") as seen:
        return model.loss_augmented_inference(x, y, seen)


def check_best(i: int, name: str, scores: np.ndarray, own: int, exact: bool) -> None:
    """Raise OracleError if a known output beats the output that a method returned."""
    lead = float(scores.max() - scores[own])
    if exact and lead > 1e-8 * (1 + float(np.abs(scores).max())):
        raise OracleError(
            f"{name} of example {i} is worse by {lead:.3g} than a known output: either it is not "
            "an argmax (set exact = False if it is approximate), or it does not score with "
            "joint_feature and loss"
        )


def check_k_best(examples: PythonExamples, i: int, w: np.ndarray, best: float) -> None:
    """Check that the k-best list is sorted, has the right scores, and starts with the best output."""
    with lent(w, "inference_k_best") as seen:
        listed = examples.model.inference_k_best(examples.X[i], seen, 3)
    scores = [float(s) for _, s in listed]
    true = [float(examples.features(i, y) @ w) for y, _ in listed]
    slack = 1e-6 * (1 + max(map(abs, true)))
    wrong = any(abs(a - b) > slack for a, b in zip(scores, true, strict=True))
    if (
        wrong
        or scores != sorted(scores, reverse=True)
        or (examples.exact and best > true[0] + slack)
    ):
        raise OracleError(
            f"inference_k_best of example {i} is not sorted, has scores that do not belong to its "
            "outputs, or misses the best output"
        )


def check_batch(examples: PythonExamples, chosen: list[int], weights: list[np.ndarray]) -> None:
    """Check that the batch oracle reaches the scores of the single oracle."""
    model, X, Y = examples.model, examples.X, examples.Y
    if isinstance(model, Model) or not hasattr(model, "batch_loss_augmented_inference"):
        return
    for w in weights:
        for i, plane in zip(chosen, examples.oracle(chosen, w), strict=True):
            single = examples.difference(i, ask_singly(model, X[i], Y[i], w))  # type: ignore[index]
            a, b = value(plane, w), value(single, w)
            if examples.exact and abs(a - b) > 1e-8 * (1 + abs(a)):
                raise OracleError(
                    f"batch_loss_augmented_inference of example {i} scores {a:.6g}, but "
                    f"loss_augmented_inference scores {b:.6g}"
                )
