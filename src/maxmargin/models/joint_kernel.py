"""JointKernel: any model, with a kernel K((x, y), (x', y')) on pairs of input and output.

    Psi(x, y) = L^-1 [K((x, y), (x_j, y_j))]_j        basis pairs (x_j, y_j), L the Cholesky factor of
                                                      their kernel matrix (OP8 and OP9 of Joachims,
                                                      Finley and Yu, 2009)

The basis pairs are chosen from (x_i, y) with the training inputs x_i and all their outputs y. Without a rank
the basis spans all these pairs, so that the problem is the problem with K itself. The argmax enumerates the
outputs of x.
"""

from __future__ import annotations

import operator
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.data.arrays import among, generator_of, whole
from maxmargin.io.quoting import short
from maxmargin.models.kernel import CHOICES
from maxmargin.models.kernel_function import SPANS, KernelFunction, check_kernel, choose_basis
from maxmargin.notebook import Shown

NEEDED = ("joint_kernel", "outputs", "loss")


# Limit on pairs for a basis without a rank; 4000 pairs take 16 million calls of the kernel.
MOST_PAIRS = 4000


@dataclass(eq=False, repr=False)
class JointKernel(Shown):
    """A model written in Python, given by a kernel on pairs of input and output.

    Parameters
    ----------
    model : object
        An object with ``joint_kernel(x, y, x2, y2)``, ``outputs(x)`` (a list of all outputs of x) and
        ``loss(y, y_hat)``. Its ``initialize(X, Y)`` is called if it exists.
    rank : int or None
        Number of basis pairs; None: as many as are needed to span all pairs, which is exact.
    basis : "greedy" or "random"
        How basis pairs are chosen: each time the pair that the basis explains worst, or random pairs.
    cache_bytes : int
        Memory for the features of inputs, which are often used again.
    random_state : int, RandomState or None
        Seed of the random basis.
    """

    model: Any
    rank: int | None = None
    basis: str = "greedy"
    cache_bytes: int = 1 << 28
    random_state: Any = None

    @property
    def needs_all(self) -> str:
        """The reason why training needs all examples, if the basis spans all pairs."""
        return "" if self.rank is not None else SPANS

    def initialize(self, X: Any, Y: Any) -> None:
        """Choose the basis among the pairs of the training inputs and their outputs."""
        self._check()
        if hasattr(self.model, "initialize"):
            self.model.initialize(X, Y)
        inputs = [X[i] for i in range(X.shape[0] if hasattr(X, "shape") else len(X))]
        pairs = []
        for i, (x, y) in enumerate(zip(inputs, Y, strict=True)):
            outputs = list(self.model.outputs(x))
            if position(outputs, y) is None:
                raise ValueError(f"Y[{i}] = {short(y)} is not among the outputs of X[{i}]")
            pairs += [(x, output) for output in outputs]
        if self.rank is not None and self.rank > len(pairs):
            raise ValueError(
                f"rank must be at most the number of pairs of input and output, {len(pairs)}, "
                f"got {self.rank}"
            )
        if self.rank is None and len(pairs) > MOST_PAIRS:
            raise ValueError(
                f"JointKernel: {len(pairs)} pairs of input and output are too many without a rank "
                f"(at most {MOST_PAIRS}), because the kernel is called for every two of them; "
                "give a rank, such as rank=200"
            )
        self._known = FeatureCache(self.cache_bytes)
        self.kernel_: KernelFunction = KernelFunction(PairKernel(self.model.joint_kernel))
        pool = as_pairs(pairs)
        check_kernel(self.kernel_, pool)
        rng = generator_of(self.random_state)
        self.basis_: Any = choose_basis(
            self.kernel_, pool, self.rank or len(pairs), self.basis, rng
        )
        self.size_joint_feature: int = len(self.basis_.factor)

    def _check(self) -> None:
        missing = [name for name in NEEDED if not callable(getattr(self.model, name, None))]
        if missing:
            raise TypeError(
                f"JointKernel: model {type(self.model).__name__} lacks {', '.join(missing)}"
            )
        among(*CHOICES).check("JointKernel: basis", self.basis)
        whole(none=True).check("JointKernel: rank", self.rank)
        whole().check("JointKernel: cache_bytes", self.cache_bytes)

    def features(self, x: Any) -> tuple[list[Any], np.ndarray]:
        """Return all outputs of x, and Psi(x, y) of each."""
        known = self._known.find(x)
        if known is None:
            outputs = list(self.model.outputs(x))
            psi = self.basis_.features(self.kernel_, as_pairs([(x, y) for y in outputs]))
            known = self._known.keep(x, outputs, psi)
        return known

    def outputs(self, x: Any) -> list[Any]:
        """Return all outputs of x."""
        return self.features(x)[0]

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Return Psi(x, y)."""
        outputs, psi = self.features(x)
        place = position(outputs, y)
        if place is None:
            raise ValueError(f"{short(y)} is not among the outputs of this input")
        return psi[place]

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return Delta(y, y_hat) of the model."""
        return self.model.loss(y, y_hat)

    def _best(
        self, x: Any, value: Callable[[np.ndarray, list[Any]], np.ndarray], w: np.ndarray
    ) -> Any:
        outputs, psi = self.features(x)
        return outputs[int(np.argmax(value(psi @ w, outputs)))]

    def inference(self, x: Any, w: np.ndarray) -> Any:
        """Return argmax_y <w, Psi(x, y)>."""
        return self._best(x, lambda scores, _: scores, w)

    def loss_augmented_inference(self, x: Any, y: Any, w: np.ndarray) -> Any:
        """Return argmax_y' Delta(y, y') + <w, Psi(x, y')>."""
        return self._best(x, lambda scores, outputs: scores + self._losses(y, outputs), w)

    def slack_rescaled_inference(self, x: Any, y: Any, w: np.ndarray) -> Any:
        """Return argmax_y' Delta(y, y') (1 + <w, Psi(x, y') - Psi(x, y)>)."""
        own = float(self.joint_feature(x, y) @ w)
        return self._best(x, lambda scores, o: self._losses(y, o) * (1 + scores - own), w)

    def inference_k_best(self, x: Any, w: np.ndarray, k: int) -> list[tuple[Any, float]]:
        """Return the k best outputs with their scores, best first."""
        outputs, psi = self.features(x)
        scores = psi @ w
        return [(outputs[j], float(scores[j])) for j in np.argsort(-scores, kind="stable")[:k]]

    def _losses(self, y: Any, outputs: list[Any]) -> np.ndarray:
        return np.array([self.model.loss(y, output) for output in outputs], dtype=np.float64)


class PairKernel:
    """A kernel on single pairs as a function of two lists of pairs."""

    def __init__(self, kernel: Callable[..., float]):
        self.kernel = kernel

    def __call__(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.array([[float(self.kernel(*a, *b)) for b in B[:, 0]] for a in A[:, 0]])

    def diag(self, A: np.ndarray) -> np.ndarray:
        """Return K((x, y), (x, y)) of every pair."""
        return np.array([float(self.kernel(*a, *a)) for a in A[:, 0]])


@dataclass(eq=False, repr=False)
class FeatureCache:
    """A cache of the features of inputs; it evicts the oldest first, and a pickled copy starts empty."""

    most_bytes: int
    bytes: int = 0
    known: OrderedDict[Any, tuple[Any, list[Any], np.ndarray]] = field(default_factory=OrderedDict)
    lock: Any = field(default_factory=threading.Lock)

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return FeatureCache, (self.most_bytes,)

    def find(self, x: Any) -> tuple[list[Any], np.ndarray] | None:
        """Return the outputs and the features of an input; None if they are not in the cache."""
        known = self.known.get(input_key(x))
        return None if known is None else known[1:]

    def keep(self, x: Any, outputs: list[Any], psi: np.ndarray) -> tuple[list[Any], np.ndarray]:
        """Store outputs and features of an input if they fit; evict older entries to make room."""
        with self.lock:
            key = input_key(x)
            if key not in self.known and psi.nbytes <= self.most_bytes:
                while self.bytes + psi.nbytes > self.most_bytes:
                    self.bytes -= self.known.popitem(last=False)[1][2].nbytes
                # The entry holds `x` too, so that no other object can get its id.
                self.known[key] = x, outputs, psi
                self.bytes += psi.nbytes
        return outputs, psi


def as_pairs(pairs: Sequence[tuple[Any, Any]]) -> np.ndarray:
    """Return pairs as a column, so that they can be indexed like rows of features."""
    column = np.empty((len(pairs), 1), dtype=object)
    for j, pair in enumerate(pairs):
        column[j, 0] = pair
    return column


def input_key(x: Any) -> Any:
    """Return a key for an input: arrays by content, since each slice is a new object; others by identity."""
    if sp.issparse(x):
        x = x.tocsr(copy=True)
        x.sum_duplicates()
        parts = (x.indptr, x.indices, x.data)
        return (x.shape, *(part.dtype.str for part in parts), *(part.tobytes() for part in parts))
    if isinstance(x, np.ndarray) and not x.dtype.hasobject:
        return x.shape, x.dtype.str, x.tobytes()
    return id(x)


def position(outputs: list[Any], y: Any) -> int | None:
    """Return the position of y among the outputs; None if it is not there."""
    places = (
        j for test in (operator.is_, np.array_equal) for j, o in enumerate(outputs) if test(o, y)
    )
    return next(places, None)
