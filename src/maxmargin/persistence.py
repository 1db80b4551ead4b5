"""Save and load fitted estimators: what goes into a model file, and how it comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.data.attributes import Vocabulary
from maxmargin.data.labels import LabelSet, as_array
from maxmargin.estimators import MulticlassSVC, StructuralSVM
from maxmargin.io.model_file import ModelFileError, read, write
from maxmargin.losses import Costs, Hamming, ZeroOne, sequence_loss
from maxmargin.models import Chain, Multiclass
from maxmargin.problem import Certificate

ESTIMATORS = {kind.__name__: kind for kind in (StructuralSVM, MulticlassSVC)}
MODELS = {kind.__name__: kind for kind in (Multiclass, Chain)}
SAVED = (
    "C",
    "hinge",
    "rescaling",
    "tol",
    "max_passes",
    "max_seconds",
    "fit_intercept",
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
    solver = svm.solver if isinstance(svm.solver, str) else svm.solver_
    header = {
        "estimator": type(svm).__name__,
        "params": {
            k: v for k, v in svm.get_params(deep=False).items() if k in SAVED and is_plain(v)
        },
        "solver": solver,
        "certificate": vars(svm.certificate_),
        "model": describe(model),
    }
    w = svm.w_ if isinstance(svm, MulticlassSVC) else svm.coef_
    write(path, header, {"w": w, "cost": model.cost_})


def describe(model: Any) -> dict[str, Any]:
    """A fitted model as plain values."""
    labels = model.classes_.tolist()
    if not all(isinstance(label, PLAIN) for label in labels):
        raise ValueError(
            "save: labels must be strings, numbers, booleans or None to be written to a file"
        )
    state = {
        "kind": type(model).__name__,
        "bias": model.bias,
        "classes": labels,
        "dtype": model.classes_.dtype.str,
        "n_features": model.n_features_,
    }
    if isinstance(model, Chain):
        names = None if model.vocabulary_ is None else list(model.vocabulary_.index)
        if not all(isinstance(name, str) for name in names or ()):
            raise ValueError("save: attribute names must be strings to be written to a file")
        state |= {"start": bool(model.start), "end": bool(model.end)}
        state |= {"mean": model.hamming_.mean, "attributes": names}
    return state


def rebuild(state: dict[str, Any], cost: np.ndarray) -> Any:
    """A fitted model from its plain values."""
    classes = state["classes"]
    labels = LabelSet([])
    dtype = np.dtype(state["dtype"])
    labels.classes = as_array(classes) if dtype.hasobject else np.asarray(classes, dtype=dtype)
    labels.code = {label: k for k, label in enumerate(classes)}
    plain = np.array_equal(cost, 1.0 - np.eye(len(classes)))
    if state["kind"] == "Chain":
        loss = Hamming(costs=None if plain else cost, mean=state["mean"])
        model: Any = Chain(loss, state["bias"], state["start"], state["end"])
        model.hamming_ = sequence_loss(loss)
        model.vocabulary_ = None
        if state["attributes"] is not None:
            model.vocabulary_ = Vocabulary()
            model.vocabulary_.index = {name: j for j, name in enumerate(state["attributes"])}
        extra = len(classes) * (len(classes) + state["start"] + state["end"])
    else:
        model = Multiclass(ZeroOne() if plain else Costs(cost), state["bias"])
        extra = 0
    model.labels_, model.classes_, model.cost_ = labels, labels.classes, cost
    model.n_features_ = state["n_features"]
    width = model.n_features_ + (model.bias is not None)
    model.size_joint_feature = len(classes) * width + extra
    return model


def check_arrays(path: Any, arrays: dict[str, np.ndarray], classes: list) -> None:
    """Refuse numbers that no saved model has."""
    w, cost, K = arrays["w"], arrays["cost"], len(classes)
    fine = w.dtype == np.float64 and cost.dtype == np.float64 and cost.shape == (K, K)
    fine = fine and len({(type(label), label) for label in classes}) == K
    if not fine or not np.isfinite(w).all() or not np.isfinite(cost).all() or (cost < 0).any():
        raise ModelFileError(f"{path} is damaged: its weights or costs are not those of a model")


def load(path: Any) -> Any:
    """Read a fitted estimator from a file written by ``save``; predictions are the same to the bit.

    The multipliers are not in a model file: ``certify`` and ``warm_start`` need a fresh fit.
    """
    header, arrays = read(path)
    try:
        kind = ESTIMATORS[header["estimator"]]
        check_arrays(path, arrays, header["model"]["classes"])
        model = rebuild(header["model"], arrays["cost"])
        if arrays["w"].shape != (model.size_joint_feature,):
            raise ModelFileError(f"{path} is damaged: its weights do not fit its model")
        params = dict(header["params"], solver=header["solver"])
        own = {"model": model} if kind is StructuralSVM else {"loss": model.task_loss}
        svm: Any = kind(**own, **params)
        svm.certificate_ = Certificate(**header["certificate"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{path} is damaged: {error!r}") from None
    svm.model_, svm.classes_, svm.solver_ = model, model.classes_, header["solver"]
    if kind is MulticlassSVC:
        svm.w_, svm.n_features_in_ = arrays["w"], model.n_features_
        svm._unpack()
    else:
        svm.coef_ = arrays["w"]
    return svm
