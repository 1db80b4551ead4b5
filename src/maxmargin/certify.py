"""Certificates and objectives recomputed from scratch."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from maxmargin.data.arrays import floats, plain_outputs, plain_sequence, takes_outputs
from maxmargin.estimators.base import BaseSVM
from maxmargin.models.python import bind_model
from maxmargin.problem import Certificate, Problem, gap_between


@takes_outputs
@np.errstate(over="ignore", invalid="ignore")  # overflowed numbers bound nothing, and are reported
def certify(
    svm: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    node_weight: Any = None,
) -> Certificate:
    """Return the certificate of a fitted estimator, from its weights and multipliers alone.

    X, y and the weights must be the same as in the fit. The primal is computed by an exact pass
    over them, and the dual from the stored multipliers. After ``partial_fit``, pass all examples
    that it has seen, in order.
    """
    support = getattr(svm, "support_", None)
    if support is None:
        raise ValueError(
            "certify needs multipliers, but this estimator has none (it was loaded from a model "
            "file, or not fitted); use mm.objective for P(w)"
        )
    if getattr(svm, "_weighted_nodes", False) != (node_weight is not None):
        raise ValueError("certify: give node_weight if it was given to fit, and only then")
    began = time.perf_counter()
    X, Y = svm._read_again(X, y)
    sample_weight = svm._example_weights(Y, sample_weight)
    examples = svm._examples_at(X, Y, node_weight, None)
    problem = svm._problem_of(examples, sample_weight)
    if examples.primal_alone:
        raise ValueError(examples.primal_alone)
    bounds = problem.certify(svm._weights(), support)
    primal, dual = bounds.primal + bounds.above, bounds.dual - bounds.below
    if bounds.dual == -np.inf and np.isfinite(support.multipliers).all():
        problem.check_feasible(support)  # X, Y or the weights differ from the fit
    if problem.checked:
        problem.check_ceilings(svm._weights(), bounds.ceilings)
    # For "auto", use the number that resulted in training.
    tol = float(svm.certificate_.tol if isinstance(svm.tol, str) else svm.tol)
    gap = gap_between(primal, dual, problem.total)
    return Certificate(
        primal=primal,
        dual=dual,
        gap=gap,
        rounding=bounds.above + bounds.below,
        tol=tol,
        converged=gap <= tol and problem.bounded,
        exact=problem.bounded,
        passes=1.0,
        oracle_calls=problem.n_blocks,
        support=len(support),
        seconds=time.perf_counter() - began,
        status="certified",
        relaxed=support.relaxed,
    )


def objective_of(svm: Any, w: np.ndarray, chunks: Iterable[tuple[Any, Any]]) -> float:
    """Return P(w) of a fitted estimator over chunks (X, Y); only one chunk is in memory at a time."""
    value: float | None = None
    for X, Y in chunks:
        X, Y = svm._read_again(X, Y)
        examples = svm._examples_at(X, Y, None, w)
        problem = svm._problem_of(examples, svm._example_weights(Y, None))
        value = problem.objective(w, start=value)
    if value is None:
        raise ValueError("objective: there are no examples")
    return value


@takes_outputs
def objective(
    svm_or_model: Any,
    w: np.ndarray,
    X: Any,
    y: Any,
    C: float | None = None,
    sample_weight: Any = None,
    node_weight: Any = None,
) -> float:
    """Return P(w) by definition, or an upper bound on it if slack rescaling is solved by a search.

    Parameters
    ----------
    svm_or_model : fitted estimator, or a model on which ``initialize`` was called
    w : flat weights, in the order of the model; P(w) is infinite if they violate ``nonnegative``
    C : float; None means the C of the estimator
    """
    estimator = isinstance(svm_or_model, BaseSVM)
    model = svm_or_model.model_ if estimator else svm_or_model
    if not hasattr(model, "size_joint_feature"):
        raise ValueError(
            "objective: call initialize(X, Y) on the model first, or give a fitted estimator"
        )
    w = np.ascontiguousarray(floats(w, "w")).ravel()
    if w.shape != (model.size_joint_feature,):
        raise ValueError(f"w must have {model.size_joint_feature} weights, got {w.shape}")
    if estimator:
        X, Y = svm_or_model._read_again(X, y)
        sample_weight = svm_or_model._example_weights(Y, sample_weight)
        examples = svm_or_model._examples_at(X, Y, node_weight, w)
        problem = svm_or_model._problem_of(examples, sample_weight, C=C)
    else:
        examples = bind_model(model, plain_sequence(X), plain_outputs(y), node_weight)
        problem = Problem(examples, 1.0 if C is None else C, sample_weight)
    return problem.objective(w)
