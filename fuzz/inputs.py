"""Odd inputs: every estimator, every parameter and argument, every odd value.

The library promises a normal fit, or a ValueError or TypeError whose message names the parameter.
Anything
else is a find: another error, a message from the bindings of the core, or a fit that gives only a
RuntimeWarning. Masked entries are always refused. A model in Python gets X and Y unchanged: the
errors that
it raises itself come through, and are counted separately.
"""

from __future__ import annotations

import datetime
import decimal
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from fuzz.common import Find, main
from maxmargin import models

PLACES = (3, 3)  # rows and columns of the maps for Tree
LIMITS = {"max_passes": 3, "max_seconds": 5.0, "random_state": 0}


class Steps:
    """A model in Python that predicts one of three labels for a row."""

    def initialize(self, X: Any, Y: Any) -> None:
        self.size_joint_feature = 3 * len(np.ravel(X[0]))

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        return np.kron(np.eye(3)[y], np.ravel(x))

    def loss(self, y: Any, y_hat: Any) -> float:
        return float(y != y_hat)

    def inference(self, x: Any, w: np.ndarray) -> int:
        return int(np.argmax(w.reshape(3, -1) @ np.ravel(x)))

    def loss_augmented_inference(self, x: Any, y: Any, w: np.ndarray) -> int:
        return int(np.argmax(w.reshape(3, -1) @ np.ravel(x) + (np.arange(3) != y)))


@dataclass
class Subject:
    """An estimator with valid data; ``data`` holds the arguments of fit by name."""

    estimator: Any
    data: dict[str, Any]
    labels: str = "Y"  # the name that fit gives to the true outputs


def rows(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(9, 3))


def chains(rng: np.random.Generator) -> dict[str, Any]:
    X = [rng.normal(size=(int(rng.integers(1, 4)), 3)) for _ in range(6)]
    Y = [np.array(list("abcab"))[i % 3 : i % 3 + len(x)] for i, x in enumerate(X)]
    return {"X": X, "Y": Y, "sample_weight": None, "node_weight": None}


def graphs(rng: np.random.Generator) -> dict[str, Any]:
    edges = np.array([[0, 1], [1, 2], [2, 0]])
    X = [(rng.normal(size=(3, 2)), edges, rng.normal(size=(3, 2))) for _ in range(4)]
    return {"X": X, "Y": [np.array([0, 1, i % 2]) for i in range(4)], "node_weight": None}


def structural(model: Any, **data: Any) -> Subject:
    return Subject(mm.StructuralSVM(model, **LIMITS), {"sample_weight": None, **data})


def flat(rng: np.random.Generator) -> dict[str, Any]:
    return {"X": rows(rng), "Y": np.arange(9) % 3}


def two(rng: np.random.Generator) -> dict[str, Any]:
    return {"X": rows(rng), "Y": np.arange(9) % 2}


def sets(rng: np.random.Generator) -> dict[str, Any]:
    return {"X": rows(rng), "Y": rng.integers(0, 2, (9, 3)), "node_weight": None}


def maps(rng: np.random.Generator) -> dict[str, Any]:
    X = [rng.normal(size=(*PLACES, 2)) for _ in range(4)]
    return {"X": X, "Y": [rng.integers(0, 3, (2, 2)) for _ in range(4)]}


def trees(rng: np.random.Generator) -> dict[str, Any]:
    X = [["the", "dog"], ["a", "cat"], ["the", "cat"]]
    Y = [f"(S (D {a}) (N {b}))" for a, b in X]
    return {"X": X, "Y": Y}


def attributes(rng: np.random.Generator) -> dict[str, Any]:
    X = [[{"w": "dog", "long": 0.5}, {"w": "sat"}], [{"w": "cat"}], [{"w": "sat", "long": 1.0}]]
    return {"X": X, "Y": [["n", "v"], ["n"], ["v"]], "node_weight": None}


def bags(rng: np.random.Generator) -> dict[str, Any]:
    return {"X": [rng.normal(size=(3, 2)) for _ in range(6)], "Y": ["a", "b"] * 3}


def classifier(estimator: Any, data: dict[str, Any]) -> Subject:
    own = {"X": data["X"], "y": data["Y"], "sample_weight": None}
    return Subject(estimator, own, "y")


def latent(model: Any, data: dict[str, Any]) -> Subject:
    return Subject(mm.LatentSVM(model, max_rounds=2, **LIMITS), {"sample_weight": None, **data})


def groups(rng: np.random.Generator) -> Subject:
    data = {"X": rows(rng), "margins": np.ones(9), "groups": np.array([0, 3, 6, 9])}
    return Subject(mm.GeneralizedSVM(**LIMITS), {**data, "sample_weight": None}, "margins")


SUBJECTS: dict[str, Callable[[np.random.Generator], Subject]] = {
    "MulticlassSVC": lambda r: classifier(mm.MulticlassSVC(**LIMITS), flat(r)),
    "BinarySVC": lambda r: classifier(mm.BinarySVC(**LIMITS), two(r)),
    "RegressionSVR": lambda r: classifier(
        mm.RegressionSVR(**LIMITS), {"X": rows(r), "Y": np.linspace(0, 1, 9)}
    ),
    "GeneralizedSVM": groups,
    "Multiclass": lambda r: structural(models.Multiclass(), **flat(r)),
    "Binary": lambda r: structural(models.Binary(), **two(r)),
    "F1": lambda r: structural(models.Binary("f1"), **two(r)),
    "Chain": lambda r: structural(models.Chain(), **chains(r)),
    "attributes": lambda r: structural(models.Chain(), **attributes(r)),
    "FactorGraph": lambda r: structural(models.FactorGraph(), **graphs(r)),
    "MultiLabel": lambda r: structural(models.MultiLabel(), **sets(r)),
    "gdmm": lambda r: Subject(
        mm.StructuralSVM(models.MultiLabel(), solver="gdmm", **LIMITS), sets(r)
    ),
    "Tree": lambda r: structural(models.Tree(), **maps(r)),
    "Grammar": lambda r: structural(models.Grammar(rare=0), **trees(r)),
    "Kernel": lambda r: structural(models.Kernel(models.Multiclass()), **flat(r)),
    "python": lambda r: structural(Steps(), **flat(r)),
    "Latent": lambda r: latent(models.Latent(models.Multiclass(), parts=2), flat(r)),
    "Bags": lambda r: latent(models.Bags(), bags(r)),
}

# Values that are odd for most parameters.
ODD: list[Any] = [
    None,
    "",
    "word",
    b"bytes",
    True,
    False,
    0,
    -1,
    1,
    2.5,
    10**20,
    10**400,
    -(10**400),
    1e-300,
    5e-324,
    1e200,
    1e300,
    1e308,
    float("nan"),
    float("inf"),
    -float("inf"),
    1j,
    decimal.Decimal("0.5"),
    datetime.datetime(2020, 1, 1),
    np.datetime64("2020-01-01"),
    [],
    (),
    {},
    set(),
    [[1.0], [1.0, 2.0]],
    [None, None],
    object(),
    int,
    np.array(1.0),
    np.array([]),
    np.zeros((0, 3)),
    np.ma.masked,
    range(3),
    lambda: None,
]


def masked(good: Any, rng: np.random.Generator) -> Any:
    """Return the data with masked entries if they can have some."""
    if isinstance(good, list):
        place = int(rng.integers(len(good)))
        return [masked(item, rng) if k == place else item for k, item in enumerate(good)]
    if isinstance(good, tuple):
        return (masked(good[0], rng), *good[1:])
    array = np.asarray(good)
    if array.dtype.kind not in "biuf" or array.size == 0:
        return np.ma.masked
    mask = np.zeros(array.shape, bool)
    mask.flat[int(rng.integers(array.size))] = True
    return np.ma.array(array, mask=mask)


def spoiled(good: Any, rng: np.random.Generator) -> Any:
    """Return data with one odd part, or data that are cut, wrapped or of another kind."""
    kind = int(rng.integers(11))
    sized = good is not None and hasattr(good, "__len__") and len(good) > 1
    if kind == 0 or not sized:
        return masked(good, rng) if sized else ODD[int(rng.integers(len(ODD)))]
    if kind == 1:
        return good[:-1]
    if kind == 2:
        return [*good, good[0]]
    if kind == 3:
        return np.asarray(good, dtype=object)[None] if not isinstance(good, list) else [good]
    if kind in (4, 5, 6):  # make one item odd
        items = list(good)
        items[int(rng.integers(len(items)))] = ODD[int(rng.integers(len(ODD)))]
        return items
    if kind == 7 and isinstance(good, np.ndarray) and good.ndim == 2:
        wide = sp.csr_matrix(good)
        indices = wide.indices.astype(np.int64)
        indices[int(rng.integers(len(indices)))] += 2**32
        wide.indices = indices
        return wide
    if kind == 8 and isinstance(good, np.ndarray):
        return good.astype(
            [object, complex, "datetime64[s]", "S4", np.float16][int(rng.integers(5))]
        )
    if kind == 9 and isinstance(good, np.ndarray):
        return good.astype(float) * 10.0 ** rng.integers(-320, 309)
    return iter(good)


def weights_like(data: dict[str, Any], name: str, rng: np.random.Generator) -> Any:
    """Return valid weights, which are then spoiled."""
    outputs = next(data[k] for k in ("Y", "y", "margins") if k in data)
    if name == "sample_weight":
        return np.ones(len(outputs))
    if isinstance(outputs, np.ndarray) and outputs.ndim == 2:
        return np.ones(outputs.shape)
    return [np.ones(len(y)) for y in outputs]


def message_names(error: Exception, name: str) -> bool:
    """Return whether the message names the parameter, or uses a usual word for its entries."""
    words = {
        "X": r"X|x",
        "Y": r"Y|y|[Ll]abels?|classes|outputs?",
        "y": r"y|Y|[Ll]abels?|classes|target",
    }
    words["y"] += "|y_true|numbers of samples"  # scikit-learn's own words in ``score``
    words["kernel"] = "kernel|takes 0 positional"  # errors of a user's function come through
    words |= {"loss": "loss|costs?", "margins": "margins|y", "hinge": "hinge|formulation"}
    words |= {"model": "model|Latent|Kernel", "sample_weight": "sample_weight|sample_weights"}
    text = str(error)
    return re.search(rf"\b({words.get(name, re.escape(name))})\b", text) is not None


def judge(call: Callable[[], Any], name: str, shown: str) -> str:
    """Run the call; return "taken" or "refused", or raise a Find."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            # scikit-learn gives this warning when it checks labels that are floats.
            warnings.filterwarnings("ignore", "invalid value encountered in cast", RuntimeWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            call()
    except (ValueError, TypeError) as error:
        text = str(error)
        if "incompatible function arguments" in text or not message_names(error, name):
            line = " ".join(text.split())
            raise Find(f"{shown}: {type(error).__name__} without {name}: {line}") from error
        return "refused"
    except Exception as error:
        raise Find(f"{shown}: {type(error).__name__}: {error}") from error
    return "taken"


def of_parameter(subject: Subject, rng: np.random.Generator) -> tuple[Callable[[], Any], str, Any]:
    """Make one parameter of the estimator or of its model odd."""
    own = [k for k in subject.estimator.get_params(deep=False) if k not in LIMITS]
    inner = getattr(subject.estimator, "model", None)
    deep = (
        [f"model__{k}" for k in inner.get_params(deep=False)]
        if hasattr(inner, "get_params")
        else []
    )
    name = str(rng.choice(own + deep + list(LIMITS)))
    value = ODD[int(rng.integers(len(ODD)))]
    estimator = clone(subject.estimator, safe=False)
    part = name.removeprefix("model__")

    def call() -> None:
        if name != part:
            estimator.model.set_params(**{part: value})
        else:
            estimator.set_params(**{name: value})
        estimator.fit(**{k: v for k, v in subject.data.items() if v is not None})

    return call, part, value


def of_data(subject: Subject, rng: np.random.Generator) -> tuple[Callable[[], Any], str, Any]:
    """Make one argument of fit odd."""
    name = str(rng.choice(list(subject.data)))
    good = subject.data[name]
    if name in ("sample_weight", "node_weight") and good is None:
        good = weights_like(subject.data, name, rng)
    value = ODD[int(rng.integers(len(ODD)))] if rng.random() < 0.5 else spoiled(good, rng)
    given = {k: v for k, v in subject.data.items() if v is not None} | {name: value}
    return lambda: clone(subject.estimator, safe=False).fit(**given), name, value


def of_use(subject: Subject, rng: np.random.Generator) -> tuple[Callable[[], Any], str, Any]:
    """Make one argument of a method of the fitted estimator odd."""
    estimator = clone(subject.estimator, safe=False)
    given = {k: v for k, v in subject.data.items() if v is not None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(**given)
    X, labels = given["X"], given[subject.labels]
    value = ODD[int(rng.integers(len(ODD)))] if rng.random() < 0.5 else spoiled(X, rng)
    outputs = ODD[int(rng.integers(len(ODD)))] if rng.random() < 0.5 else spoiled(labels, rng)
    asked: list[tuple[Callable[[], Any], str, Any]] = []
    for name in ("predict", "decision_function", "predict_complete"):
        if hasattr(estimator, name):
            asked.append((partial(getattr(estimator, name), value), "X", value))
    for name in ("score", "loss"):
        if callable(getattr(estimator, name, None)) and name not in estimator.get_params():
            call = partial(getattr(estimator, name), X, outputs)
            asked.append((call, subject.labels, outputs))
    if isinstance(estimator, mm.StructuralSVM) and hasattr(estimator.model_, "inference_k_best"):
        k = ODD[int(rng.integers(len(ODD)))]
        asked.append((lambda: estimator.predict_k_best(X, k), "k", k))
    return asked[int(rng.integers(len(asked)))]


def printed(value: Any) -> str:
    """Return the value as one short line; of a sparse matrix only the shape, as printing may fail."""
    text = f"{type(value).__name__} {value.shape}" if sp.issparse(value) else str(value)
    return repr(text[:100])


def has_mask(value: Any) -> bool:
    """Return whether any entry is masked."""
    if isinstance(value, list | tuple):
        return any(has_mask(item) for item in value)
    return isinstance(value, np.ma.MaskedArray) and bool(np.ma.getmaskarray(value).any())


def attempt(rng: np.random.Generator) -> str:
    """Try one estimator with one odd value."""
    title = str(rng.choice(list(SUBJECTS)))
    subject = SUBJECTS[title](rng)
    where = [of_parameter, of_data, of_use][int(rng.integers(3))]
    call, name, value = where(subject, rng)
    shown = f"{title}, {where.__name__}, {name} = {printed(value)} ({type(value).__name__})"
    try:
        outcome = judge(call, name, shown)
    except Find as find:
        if (
            title != "python"
            or name not in ("X", "Y")
            or isinstance(find.__cause__, AssertionError)
        ):
            raise
        return "python, its own error"
    if outcome == "taken" and has_mask(value) and title != "python":
        raise Find(f"{shown}: masked entries were read")
    return f"{where.__name__} {outcome}"


if __name__ == "__main__":
    main("inputs", attempt)
