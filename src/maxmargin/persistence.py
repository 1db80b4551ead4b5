"""Save and load fitted estimators: what goes into a model file, and how it comes back."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.cccp import LatentSVM
from maxmargin.classifiers import BinarySVC, MulticlassSVC
from maxmargin.estimators import StructuralSVM
from maxmargin.generalized import GeneralizedSVM, RegressionSVR
from maxmargin.io.model_file import ModelFileError, read, write
from maxmargin.models import (
    Bags,
    Binary,
    Chain,
    FactorGraph,
    Grammar,
    Kernel,
    Latent,
    Multiclass,
    MultiLabel,
    Tree,
)
from maxmargin.models.groups import Groups, Regression
from maxmargin.problem import Certificate
from maxmargin.solvers import SOLVERS

ESTIMATORS = {
    kind.__name__: kind
    for kind in (StructuralSVM, LatentSVM, MulticlassSVC, BinarySVC, RegressionSVR, GeneralizedSVM)
}
MODELS = {
    kind.__name__: kind
    for kind in (
        Binary,
        Multiclass,
        Chain,
        Grammar,
        Tree,
        FactorGraph,
        MultiLabel,
        Kernel,
        Latent,
        Bags,
        Groups,
        Regression,
    )
}
LABELLED = (
    Binary,
    Multiclass,
    Chain,
    MultiLabel,
)  # with one set of labels, which may be a parameter
SAVED = (
    "C",
    "hinge",
    "rescaling",
    "tol",
    "max_passes",
    "max_seconds",
    "max_rounds",
    "round_tol",
    "fit_intercept",
    "penalized_intercept",
    "warm_start",
    "class_weight",
    "n_jobs",
    "random_state",
    "verbose",
)
PLAIN = (str, int, float, bool, type(None))


def is_plain(value: Any) -> bool:
    """Whether a parameter can be written as text: a model file holds no objects."""
    return isinstance(value, (*PLAIN, np.generic))


def save(svm: Any, path: Any) -> None:
    """Write a fitted estimator with a built-in model."""
    check_is_fitted(svm, "coef_")
    model = svm.model_
    if type(model).__name__ not in MODELS or type(model) is not MODELS[type(model).__name__]:
        raise ValueError(
            f"save: model {type(model).__name__} is not one of {sorted(MODELS)}; a model written in "
            "Python is code, which a model file cannot hold: save coef_ and rebuild the model"
        )
    given = getattr(model, "classes", None) is not None and type(model) in LABELLED
    model, w = model.compact(svm.weights())
    state, arrays = model.state()
    header = {
        "estimator": type(svm).__name__,
        "params": {
            k: v for k, v in svm.get_params(deep=False).items() if k in SAVED and is_plain(v)
        },
        "solver": solver_state(svm),
        "certificate": vars(svm.certificate_),
        "model": {"kind": type(model).__name__, "classes_given": given, **state},
    }
    write(path, header, {"w": w, **arrays, **regularizer_arrays(svm)})


def solver_state(svm: Any) -> Any:
    """The name of the solver, or its name and its options; of a solver of one's own the name alone."""
    if isinstance(svm.solver, str):
        return svm.solver
    if SOLVERS.get(svm.solver.name) is not type(svm.solver):
        return svm.solver_
    options = {f.name: getattr(svm.solver, f.name) for f in dataclasses.fields(svm.solver)}
    if not all(map(is_plain, options.values())):
        return svm.solver_
    return {"name": svm.solver.name, "options": options}


def solver_of(state: Any) -> Any:
    """What ``solver_state`` wrote: a name, or a solver with options."""
    return state if isinstance(state, str) else SOLVERS[state["name"]](**state["options"])


def regularizer_arrays(svm: Any) -> dict[str, np.ndarray]:
    """The arrays of ``prior`` and ``nonnegative``, where they are given."""
    prior, bound = (getattr(svm, name, None) for name in ("prior", "nonnegative"))
    arrays = {} if bound is None else {"nonnegative": np.asarray(bound)}
    if prior is not None:
        mean, scale = (np.asarray(part, dtype=np.float64) for part in prior)
        arrays |= {"prior.mean": mean, "prior.scale": scale}
    return arrays


def regularizer_params(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The parameters that ``regularizer_arrays`` wrote."""
    params: dict[str, Any] = {}
    if "prior.mean" in arrays:
        # A file has no arrays without dimensions: a single number comes back as one.
        parts = (arrays["prior.mean"], arrays["prior.scale"])
        params["prior"] = tuple(float(a[0]) if a.shape == (1,) else a for a in parts)
    if "nonnegative" in arrays:
        params["nonnegative"] = arrays["nonnegative"]
    return params


def rebuild(state: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[Any, np.ndarray]:
    """A fitted model from its plain values and arrays, and its weights; refuses what does not fit."""
    w = arrays["w"]
    model = MODELS[state["kind"]].from_state(state, arrays)
    if w.dtype != np.float64 or w.shape != (model.size_joint_feature,) or not np.isfinite(w).all():
        raise ValueError("its weights do not fit its model")
    if state.get("classes_given") and type(model) in LABELLED:
        model.classes = model.classes_
    return model, w


def load(path: Any) -> Any:
    """Read a fitted estimator from a file written by ``save``; predictions are the same to the bit.

    The multipliers are not in a model file: ``certify`` and ``warm_start`` need a fresh fit.
    """
    header, arrays = read(path)
    try:
        kind = ESTIMATORS[header["estimator"]]
        model, w = rebuild(header["model"], arrays)
        solver = solver_of(header["solver"])
        params = dict(header["params"], solver=solver, **regularizer_params(arrays))
        svm: Any = kind(**kind.params_of(model), **params)
        svm.certificate_ = Certificate(**header["certificate"])
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"{path} is damaged: {error!r}") from None
    svm.solver_ = solver if isinstance(solver, str) else solver.name
    svm.adopt(model, w)
    return svm
