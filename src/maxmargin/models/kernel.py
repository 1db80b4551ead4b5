"""Kernel: a model with feature rows whose linear scores <w_y, x> become functions in the space of a kernel.

    exact:    w_y = sum_c A[y, c] phi(x_c) over all training rows;  |w|^2 = tr(A K A')
    rank k:   w_y linear in phi(x) = L^-1 k(b, x), k basis rows b, L the Cholesky factor of K[b, b]

``coef_`` has the order of the base model, with the centres (exact) or the k features of phi in place of its
features. A ``bias`` of the base model adds bias^2 to the kernel (exact) or appends a constant feature
(rank k); the two are equivalent.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from maxmargin._sklearn import BaseEstimator
from maxmargin.data.arrays import among, check_lengths, generator_of, is_number, whole
from maxmargin.data.memory import matrix_rows
from maxmargin.io.fields import (
    MOST_COUNT,
    FieldError,
    check_names,
    choice,
    count,
    field_of,
    is_whole_in,
    list_of,
    number,
    table,
)
from maxmargin.io.quoting import short
from maxmargin.models.examples import Examples
from maxmargin.models.kernel_examples import KernelExamples
from maxmargin.models.kernel_function import (
    KERNELS,
    SPANS,
    Basis,
    KernelFunction,
    check_kernel,
    choose_basis,
    resolve_gamma,
)
from maxmargin.models.protocol import Model, saved_base
from maxmargin.models.python import converted
from maxmargin.models.registry import ROWS, has_power, names_with

CHOICES = ("greedy", "random")


@dataclass(eq=False, repr=False)
class Kernel(Model):
    """A built-in model with a kernel on its feature rows.

    Parameters
    ----------
    model : models.Binary(...), models.Multiclass(...) or models.Chain(...)
        The base model: the form of outputs, and the loss. For a chain the kernel is on positions;
        transitions stay linear.
    kernel : "linear", "poly", "rbf", "laplacian", "sigmoid", "cosine", or a function
        A function takes two matrices of rows and returns the matrix of k(row, row').
    gamma : "scale", None or float
        "scale": 1 / (d var(X)); None: 1 / d. For "rbf", "poly", "laplacian" and "sigmoid".
    degree, coef0 : float
        For "poly", and coef0 for "sigmoid".
    rank : int or None
        Number of basis rows; None: the exact kernel.
    basis : "greedy" or "random"
        How basis rows are chosen: each time the row that the basis explains worst, or random rows.
    cache_bytes : int
        Memory for rows of the exact kernel's matrix.
    random_state : int, RandomState or None
        Seed of the random basis.
    """

    get_params: ClassVar[Callable[..., Any]] = BaseEstimator.get_params
    set_params: ClassVar[Callable[..., Any]] = BaseEstimator.set_params

    model: Any
    kernel: Any = "rbf"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 1.0
    rank: int | None = None
    basis: str = "greedy"
    cache_bytes: int = 1 << 30
    random_state: Any = None

    def convert(self, X: Any, n_jobs: int = 1) -> Any:
        return converted(getattr(self, "base_", self.model), X, n_jobs)

    @property
    def task(self) -> str:  # type: ignore[override]
        """The task of the base model."""
        return self.model.task

    @property
    def encoder_(self) -> Any:
        """The encoder of the base model."""
        return self.base_.encoder_

    def initialize(self, X: Any, Y: Any) -> None:
        """Initialise the base model; then keep the training rows, or choose the basis."""
        self._check()
        self.base_: Any = clone(self.model, safe=False)
        self.base_.initialize(X, Y)
        rows = self.base_.read(X).stacked()
        self._choose_kernel(rows)
        check_kernel(self.kernel_, rows)
        self.centres_: Any = rows
        self.basis_: Any = None
        rng = generator_of(self.random_state)
        if self.rank is not None:
            if self.rank > rows.shape[0]:
                raise ValueError(
                    f"rank must be at most the number of rows, {rows.shape[0]}, got {self.rank}"
                )
            self.basis_ = choose_basis(self.kernel_, rows, self.rank, self.basis, rng)
            self.centres_ = self.basis_.rows
        self._measure()

    def _choose_kernel(self, rows: Any) -> None:
        """Set the kernel from the parameters, for these rows."""
        bias = self.base_.bias
        # With a basis the bias is an additional feature; the exact kernel contains it.
        constant = float(bias) ** 2 if bias is not None and self.rank is None else 0.0
        gamma = resolve_gamma(self.gamma, rows)
        self.kernel_: KernelFunction = KernelFunction(
            self.kernel, gamma, self.degree, self.coef0, constant
        )

    def _check(self) -> None:
        if not has_power(self.model, ROWS):
            raise ValueError(
                f"Kernel: model must be one of {sorted(names_with(ROWS))}, got "
                f"{short(self.model)}; for a model written in Python, use JointKernel"
            )
        if getattr(self.model, "features", "all") != "all":
            raise ValueError(
                "Kernel: the model must have features='all', because a kernel has weights for all "
                f"pairs; got {short(self.model)}"
            )
        if self.rank is None and self.model.joint:
            raise ValueError("Kernel: a loss of the whole sample needs rank=k, got rank=None")
        named = isinstance(self.kernel, str) and self.kernel in KERNELS
        if isinstance(self.kernel, type) or not (named or callable(self.kernel)):
            raise ValueError(
                f"Kernel: kernel must be one of {list(KERNELS)} or a function, got {short(self.kernel)}"
            )
        among(*CHOICES).check("Kernel: basis", self.basis)
        whole(none=True).check("Kernel: rank", self.rank)
        whole().check("Kernel: cache_bytes", self.cache_bytes)
        for name in ("degree", "coef0"):
            value = getattr(self, name)
            if not is_number(value):
                raise ValueError(f"Kernel: {name} must be a number, got {short(value)}")

    @property
    def needs_all(self) -> str:
        """The reason why training needs all examples, if the kernel is exact or the base model needs them."""
        return SPANS if self.rank is None else self.model.needs_all

    @property
    def flat(self) -> bool:
        """Whether an output is one label."""
        return self.base_.flat

    def over(self, n_features: int, bias: float | None = None) -> Any:
        """Return the base model with other features in place of its own."""
        twin = copy.copy(self.base_)
        twin.n_features_, twin.bias, twin.encoder_ = n_features, bias, None
        twin._measure()
        return twin

    def _measure(self) -> None:
        self.classes_: np.ndarray = self.base_.classes_
        self.labels_: Any = self.base_.labels_
        bias = None if self.basis_ is None else self.base_.bias
        self.machine_: Any = self.over(self.centres_.shape[0], bias)
        self.size_joint_feature: int = self.machine_.size_joint_feature
        self.scores_: Any = self.over(1).size_joint_feature - self.over(0).size_joint_feature

    def split(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Split w into the weights under the kernel, a row for each score of an input row, and the rest."""
        width = self.centres_.shape[0] + (self.machine_.bias is not None)
        unary, rest = np.split(np.asarray(w, dtype=np.float64), [self.scores_ * width])
        return unary.reshape(self.scores_, width), rest

    def expand(self, w: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        """Return the centres, coefficients over them, a constant for each score, and the rest of w."""
        unary, rest = self.split(w)
        if self.basis_ is None:
            used = np.flatnonzero(unary.any(axis=0))
            part = np.ascontiguousarray(unary[:, used])
            return self.centres_[used], part, np.zeros(len(unary)), rest
        k = self.centres_.shape[0]
        bias = self.machine_.bias
        shift = np.zeros(len(unary)) if bias is None else bias * unary[:, k]
        return self.centres_, self.basis_.fold(unary[:, :k]), shift, rest

    def bind(self, X: Any, Y: Any = None, node_weight: Any = None) -> Examples:
        """Bind the model to these data; without Y for prediction only."""
        check_lengths(X, Y)
        read = self.base_.read(X)
        rows = read.stacked()
        if self.basis_ is None or Y is None:
            return KernelExamples(self, rows, read.offsets, Y, node_weight)
        phi = self.basis_.features(self.kernel_, rows)
        linear = matrix_rows(phi, read.offsets, self.machine_.bias)
        return self.machine_.bind_rows(linear, Y, node_weight)

    def features(self, x: Any) -> np.ndarray:
        """Return the features of one input for the base model: kernel values at the centres, or phi."""
        row = x if not self.flat or sp.issparse(x) else np.asarray(x)[None, :]
        rows = self.base_.read(row if self.flat else [x]).stacked()
        if self.basis_ is None:
            values = self.kernel_(rows, self.centres_)
        else:
            values = self.basis_.features(self.kernel_, rows)
        return values[0] if self.flat else values

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Return the vector whose product with w is the score of y.

        It is Psi(x, y) only if the model has a basis.
        """
        return self.machine_.joint_feature(self.features(x), y)

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return Delta(y, y_hat) of the base model."""
        return self.base_.loss(y, y_hat)

    def inference(self, x: Any, w: np.ndarray) -> Any:
        """Return the output with the best score."""
        return self.machine_.inference(self.features(x), w)

    def loss_augmented_inference(self, x: Any, y: Any, w: np.ndarray) -> Any:
        """Return argmax_y' Delta(y, y') + <w, Psi(x, y')>."""
        return self.machine_.loss_augmented_inference(self.features(x), y, w)

    def inference_k_best(self, x: Any, w: np.ndarray, k: int) -> list[tuple[Any, float]]:
        """Return the k best outputs with their scores, best first."""
        return self.machine_.inference_k_best(self.features(x), w, k)

    def unpack(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parts of w that the base model names, with the centres or phi as its features."""
        return self.machine_.unpack(w)

    def compact(self, w: np.ndarray) -> tuple[Model, np.ndarray]:
        """Return an exact kernel without the centres whose coefficients are all zero."""
        if self.basis_ is not None:
            return self, w
        unary, rest = self.split(w)
        used = np.flatnonzero(unary.any(axis=0))
        used = used if len(used) else np.arange(1)
        twin = copy.copy(self)
        twin.centres_ = self.centres_[used]
        twin._measure()
        return twin, np.concatenate([unary[:, used].ravel(), rest])

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        if callable(self.kernel):
            raise ValueError(
                "save: a kernel given as a function is code, which a model file cannot hold; use a named "
                f"kernel, one of {list(KERNELS)}"
            )
        seed = self.random_state if isinstance(self.random_state, int) else None
        base, arrays = self.base_.state()
        state = {
            "base": {"kind": type(self.base_).__name__, **base},
            "options": [self.kernel, self.kernel_.gamma, self.degree, self.coef0],
            "rank": [self.rank, self.basis, self.cache_bytes, seed],
            "shape": list(self.centres_.shape),
        }
        arrays = {f"base.{name}": array for name, array in arrays.items()}
        if sp.issparse(self.centres_):
            for name in ("data", "indices", "indptr"):
                arrays[f"centres.{name}"] = getattr(self.centres_, name)
        else:
            arrays["centres"] = self.centres_
        if self.basis_ is not None:
            arrays["factor"] = self.basis_.factor
        return state, arrays

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Kernel:
        own = {n[len("base.") :]: a for n, a in arrays.items() if n.startswith("base.")}
        base: Any = saved_base(state, own, names_with(ROWS))
        check_names(own, base.state()[1], "base")
        model = cls(base, *saved_options(state))
        model._check()
        shape = saved_shape(state, base.n_features_)
        model.centres_ = saved_rows(arrays, shape)
        model.base_, model.basis_ = base, None
        model._choose_kernel(model.centres_)
        if model.rank is not None:
            factor = table(arrays, "factor", np.float64, shape[0], shape[0])
            if (np.diagonal(factor) <= 0).any():
                raise FieldError("the factor is not the Cholesky factor of the centres")
            model.basis_ = Basis(model.centres_, factor, float("nan"))
        model._measure()
        return model


def saved_rows(arrays: dict[str, np.ndarray], shape: tuple[int, ...]) -> Any:
    """Read the centres from a file; raise an error unless they form a matrix of this shape."""
    if "centres" in arrays:
        return table(arrays, "centres", np.float64, *shape)
    values, parts = table(arrays, "centres.data", np.float64, -1), []
    for name in ("centres.indices", "centres.indptr"):
        kind = field_of(arrays, name).dtype
        parts.append(table(arrays, name, np.int64 if kind == np.int64 else np.int32, -1))
    if len(parts[0]) != len(values) or len(parts[1]) != shape[0] + 1:
        raise FieldError("the length of the centres does not match their shape")
    rows = sp.csr_matrix((values, *parts), shape=shape)
    rows.check_format(full_check=True)
    return rows


def saved_options(state: dict[str, Any]) -> list[Any]:
    """Read the parameters from a file, in the order of ``Kernel``."""
    found = [list_of(state, "options"), list_of(state, "rank")]
    if [len(part) for part in found] != [4, 4]:
        raise FieldError("options and rank must have 4 entries each")
    named = dict(zip(("kernel", "gamma", "degree", "coef0"), found[0], strict=True))
    named |= dict(zip(("rank", "basis", "cache_bytes", "random_state"), found[1], strict=True))
    choice(named, "kernel", KERNELS)
    choice(named, "basis", CHOICES)
    for name in ("degree", "coef0", *(["gamma"] if named["gamma"] is not None else [])):
        number(named, name)
    count(named, "cache_bytes", 1)
    for name, least in (("rank", 1), ("random_state", 0)):
        if named[name] is not None:
            count(named, name, least)
    return list(named.values())


def saved_shape(state: dict[str, Any], n_features: int) -> tuple[int, int]:
    """Read the numbers of rows and columns of the centres from a file."""
    shape = list_of(state, "shape")
    if len(shape) != 2 or not is_whole_in(shape[0], 1, MOST_COUNT) or shape[1] != n_features:
        raise FieldError(f"shape must be rows and {n_features} columns, got {short(shape)}")
    return shape[0], shape[1]
