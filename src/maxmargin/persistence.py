"""Save and load fitted estimators: the contents of a model file, and how to restore them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.confidence import confidence_state, set_confidence
from maxmargin.data.arrays import among
from maxmargin.data.from_file import Reading
from maxmargin.estimators import (
    CRF,
    BinarySVC,
    GeneralizedSVM,
    LatentSVM,
    MulticlassLogistic,
    MulticlassSVC,
    RegressionSVR,
    StructuralSVM,
)
from maxmargin.estimators.confidence import ConfidentSVM
from maxmargin.io.fields import (
    FieldError,
    check_names,
    choice,
    entries_of,
    field_of,
    flag,
    is_whole_in,
    table,
    texts,
)
from maxmargin.io.model_file import TYPES, ModelFileError, fold, read, unfold, write
from maxmargin.io.quoting import short
from maxmargin.models import Binary, Latent, Multiclass
from maxmargin.models.groups import Groups, Regression
from maxmargin.models.registry import LABELS, MODELS, is_listed
from maxmargin.problem import Certificate
from maxmargin.problem.regularizer import check_bound, check_prior
from maxmargin.solvers import SOLVERS

# The models that each estimator can have. StructuralSVM and CRF take all models without hidden
# parts.
OWN: dict[Any, Any] = {
    StructuralSVM: object,
    LatentSVM: Latent,
    MulticlassSVC: Multiclass,
    BinarySVC: Binary,
    RegressionSVR: Regression,
    GeneralizedSVM: Groups,
    CRF: object,
    MulticlassLogistic: (Multiclass, Binary),
}
ESTIMATORS = {kind.__name__: kind for kind in OWN}
# Parameters that are not in the header: parameters of the model, and values that are stored
# elsewhere.
APART = ("model", "loss", "epsilon", "solver", "prior", "nonnegative")
SAVED = {f.name for kind in ESTIMATORS.values() for f in dataclasses.fields(kind)} - {*APART}  # type: ignore
HEADER_TYPES = (str, int, float, bool, type(None))
HEADER = (
    "estimator",
    "params",
    "solver",
    "certificate",
    "model",
    "reading",
    "weights",
    "confidence",
    "history",
)
HISTORY, MOST_STEPS = "history", 100
REGULARIZERS = ("prior.mean", "prior.scale", "nonnegative")
# Errors that decoding a damaged file can raise without a check. The file is to blame; the cause is
# kept.
UNFORESEEN = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)


def is_plain(value: Any) -> bool:
    """Return whether a parameter is plain text or a number: a model file holds no objects."""
    return isinstance(value, (*HEADER_TYPES, np.generic))


def save(svm: Any, path: Any, dtype: str = "float64") -> None:
    """Write a fitted estimator with a built-in model to a file; `dtype` is the type of the weights."""
    check_is_fitted(svm, "coef_")
    among(*TYPES).check("save: dtype", dtype)
    model = svm.model_
    if not is_listed(model):
        raise ValueError(
            f"save: model {type(model).__name__} is not one of {sorted(MODELS)}; a model written "
            "in Python is code, which a model file cannot hold; save coef_ and rebuild the model"
        )
    given = LABELS in model.powers and model.classes is not None
    model, w = model.compact(svm._weights())
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
    if hasattr(svm, "reading_"):
        header["reading"] = svm.reading_
    if hasattr(svm, "temperature_") or hasattr(svm, "conformal_"):
        header["confidence"] = confidence_state(svm)
    weights, folded = fold(w, dtype)
    names, steps = history_of(svm)
    header |= {HISTORY: names} if names else {}
    write(path, {**header, **weights}, {**folded, **arrays, **regularizer_arrays(svm), **steps})


def history_of(svm: Any) -> tuple[list[str], dict[str, np.ndarray]]:
    """Return the names of the columns of the history, and a table with a row for each.

    The table has at most MOST_STEPS steps, the last one included.
    """
    history = getattr(svm, HISTORY + "_", None)
    if not history or len(history["passes"]) == 0:
        return [], {}
    steps = np.stack(list(history.values()))
    kept = np.linspace(0, steps.shape[1] - 1, min(steps.shape[1], MOST_STEPS)).astype(int)
    return list(history), {HISTORY: np.ascontiguousarray(steps[:, kept])}


def solver_state(svm: Any) -> Any:
    """Return the name of the solver, or its name and its options.

    "auto" replaces a solver of the user's own: it is code, which a model file cannot hold.
    """
    if isinstance(svm.solver, str):
        return svm.solver
    if SOLVERS.get(svm.solver.name) is not type(svm.solver):
        return "auto"
    options = {f.name: getattr(svm.solver, f.name) for f in dataclasses.fields(svm.solver)}
    if not all(map(is_plain, options.values())):
        return svm.solver_
    return {"name": svm.solver.name, "options": options}


def solver_of(state: Any) -> Any:
    """Return the solver that ``solver_state`` wrote: a name, or a solver with options."""
    if isinstance(state, str):
        return choice({"solver": state}, "solver", ("auto", *SOLVERS))
    kind = SOLVERS[choice(entries_of(state, "solver"), "name", tuple(SOLVERS))]
    check_names(state, ("name", "options"), "a solver")
    options = entries_of(field_of(state, "options"), "options")
    check_plain(options)
    return kind(**options)


def regularizer_arrays(svm: Any) -> dict[str, np.ndarray]:
    """Return the arrays of ``prior`` and ``nonnegative``, if they are given."""
    prior, bound = (getattr(svm, name, None) for name in ("prior", "nonnegative"))
    arrays = {} if bound is None else {"nonnegative": np.asarray(bound)}
    if prior is not None:
        mean, scale = (np.asarray(part, dtype=np.float64) for part in prior)
        arrays |= {"prior.mean": mean, "prior.scale": scale}
    return arrays


def regularizer_params(arrays: dict[str, np.ndarray], d: int) -> dict[str, Any]:
    """Return the parameters that ``regularizer_arrays`` wrote, for d weights."""
    params: dict[str, Any] = {}
    if "prior.mean" in arrays or "prior.scale" in arrays:
        # A file cannot store arrays without dimensions, so a single number comes back as an array
        # of length 1.
        parts = [field_of(arrays, f"prior.{name}") for name in ("mean", "scale")]
        mean, scale = (float(a[0]) if a.shape == (1,) else a for a in parts)
        params["prior"] = (mean, scale)
        if np.ndim(scale) == 2:  # computing its factor takes long, so this happens on first use
            table(arrays, "prior.scale", np.float64, d, d)
            scale = 1.0
        check_prior((mean, scale), d)
    if "nonnegative" in arrays:
        params["nonnegative"] = arrays["nonnegative"]
        check_bound(arrays["nonnegative"], d)
    return params


def rebuild(state: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[Any, np.ndarray]:
    """Return a fitted model from its plain values and arrays, and its weights.

    Raise FieldError if these do not fit together.
    """
    w = table(arrays, "w", np.float64, -1)
    given = flag(state, "classes_given")
    model = MODELS[choice(state, "kind", tuple(MODELS))].from_state(state, arrays)
    if w.shape != (model.size_joint_feature,):
        raise FieldError(
            f"the file has {len(w)} weights, but the model has {model.size_joint_feature}"
        )
    known, tables = model.state()
    check_names(state, {"kind", "classes_given", *known}, type(model).__name__)
    check_names(arrays, {"w", HISTORY, *REGULARIZERS, *tables}, type(model).__name__)
    if given and LABELS in model.powers:
        model.classes = model.classes_
    return model, w


def check_plain(values: dict[str, Any]) -> None:
    """Raise FieldError for parameters that are neither text nor numbers of usual size."""
    for name, value in values.items():
        large = isinstance(value, int) and not is_whole_in(int(value), -(2**63), 2**64 - 1)
        if not isinstance(value, HEADER_TYPES) or large or value != value:
            raise FieldError(f"{short(name)} must be a text or a number, got {short(value)}")


def certificate_of(fields: dict[str, Any]) -> Certificate:
    """Return the certificate in a file; bounds may be infinite, and tol is NaN if none was asked for."""
    texts = {"status"}
    flags = {field.name for field in dataclasses.fields(Certificate) if field.type == "bool"}
    for name, value in fields.items():
        kind: Any = str if name in texts else bool if name in flags else int | float
        empty = name == "reduced_gap" and value is None
        if not empty and (
            not isinstance(value, kind) or (kind not in (bool, str) and value is True)
        ):
            raise FieldError(f"certificate: {short(name)} is wrong, got {short(value)}")
    return Certificate(**fields)


def saved_estimator(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Return the estimator of a header and arrays; raise an error if ``save`` cannot have made them."""
    check_names(header, HEADER, "the header")
    arrays = unfold(header, arrays)
    kind: Any = ESTIMATORS[choice(header, "estimator", tuple(ESTIMATORS))]
    model, w = rebuild(entries_of(field_of(header, "model"), "model"), arrays)
    hidden = getattr(model, "hidden", False)
    if not isinstance(model, OWN[kind]) or (kind in (StructuralSVM, CRF) and hidden):
        raise FieldError(f"{kind.__name__} cannot have a model {type(model).__name__}")
    params = entries_of(field_of(header, "params"), "params")
    check_plain(params)
    check_names(params, SAVED, "the parameters")
    solver = solver_of(field_of(header, "solver"))
    regularizer = regularizer_params(arrays, len(w))
    svm: Any = kind(**kind._params_of(model), **params, solver=solver, **regularizer)
    if params.get("class_weight") not in (None, "balanced"):
        raise FieldError(f"class_weight must be null or balanced, got {short(svm.class_weight)}")
    svm._check_parameters()
    svm.certificate_ = certificate_of(entries_of(field_of(header, "certificate"), "certificate"))
    svm.solver_ = solver if isinstance(solver, str) else solver.name
    svm._adopt(model, w)
    if HISTORY in header:
        names = texts(header, HISTORY)
        steps = table(arrays, HISTORY, np.float64, len(names), -1, finite=False)
        svm.history_ = dict(zip(names, steps, strict=True))
    if "reading" in header:
        svm.reading_ = Reading.from_state(entries_of(header["reading"], "reading")).state()
    if "confidence" in header:
        if not isinstance(svm, ConfidentSVM):
            raise FieldError(f"{kind.__name__} cannot have confidence entries")
        set_confidence(svm, entries_of(header["confidence"], "confidence"))
    return svm


def load(path: Any) -> Any:
    """Read a fitted estimator from a file written by ``save``; predictions are identical to the bit.

    A model file does not contain multipliers, so ``certify`` and ``warm_start`` need a new fit. For
    any file that is not a valid model file, ``ModelFileError`` is raised.
    """
    header, arrays = read(path)
    try:
        return saved_estimator(header, arrays)
    except UNFORESEEN as error:
        reason = str(error) if isinstance(error, FieldError) else repr(error)[:200]
        raise ModelFileError(f"{path} is damaged: {reason}") from error
