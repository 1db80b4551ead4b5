"""A model written in Python, bound to data: planes are sparse vectors, an executor runs the oracle."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin._core import core
from maxmargin.data.arrays import check_lengths, is_whole
from maxmargin.io.quoting import short
from maxmargin.models.checks import OracleError, check_ceilings, lent, try_argmax
from maxmargin.models.examples import Examples
from maxmargin.models.planes import PlaneExamples, PlaneTable, Vector
from maxmargin.models.protocol import Model, check_protocol
from maxmargin.models.search import search_slack
from maxmargin.runtime.executor import Workers, map_chunks

# Examples per call of the oracle in a pass over all examples; larger chunks hold more outputs in memory.
PASS = 256


def polled(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the items, and check the deadline of training before each."""
    for item in items:
        core.poll()
        yield item


def answer(model: Any, X: list[Any], Y: list[Any], w: np.ndarray) -> list[Any]:
    """Return loss-augmented outputs of some examples; a module function, so that any executor can run it."""
    batch = getattr(model, "batch_loss_augmented_inference", None)
    if batch is not None:
        with lent(w, "batch_loss_augmented_inference") as w:
            return list(batch(X, Y, w))
    with lent(w, "loss_augmented_inference") as w:
        return [model.loss_augmented_inference(x, y, w) for x, y in polled(zip(X, Y, strict=True))]


def answer_slack(model: Any, X: list[Any], Y: list[Any], w: np.ndarray) -> list[tuple[Any, float]]:
    """Return slack-rescaled outputs with upper bounds, from the model or by a search over the multiplier."""
    own = getattr(model, "slack_rescaled_inference", None)
    if own is not None:
        with lent(w, "slack_rescaled_inference") as w:
            return [(own(x, y, w), 0.0) for x, y in polled(zip(X, Y, strict=True))]
    with lent(w, "inference or loss_augmented_inference") as w:
        return [search_slack(model, x, y, w) for x, y in polled(zip(X, Y, strict=True))]


def predict_each(model: Any, X: list[Any], Y: list[Any], w: np.ndarray) -> list[Any]:
    """Return the predictions of some examples."""
    with lent(w, "inference") as w:
        return [model.inference(x, w) for x in X]


def converted(model: Any, X: Any, n_jobs: int = 1) -> Any:
    """Return X in the form that the model stores: a built-in model converts attributes once.

    Any other model takes X unchanged.
    """
    return model.convert(X, n_jobs) if isinstance(model, Model) else X


def portable(model: Any, Y: Any) -> Any:
    """Return outputs that can be split into examples and joined again."""
    return model.portable(Y) if isinstance(model, Model) else Y


def bind_model(
    model: Any, X: Any, Y: Any, node_weight: Any = None, executor: Workers | None = None
) -> Examples:
    """Bind any model to data: a built-in model in the core, any other in Python."""
    if isinstance(model, Model):
        return model.bind(X, Y, node_weight)
    return PythonExamples(model, X, Y, executor, node_weight)


def size_of(model: Any) -> int:
    """Return the length of w that a model declares."""
    size: Any = getattr(model, "size_joint_feature", None)
    if not is_whole(size, 0):
        raise OracleError(
            "size_joint_feature must be a whole number of at least 0 after initialize(X, Y), got "
            f"{short(size)}"
        )
    return int(size)


class PythonExamples(PlaneExamples):
    """A model of the user with its data."""

    model: Any

    def __init__(
        self,
        model: Any,
        X: Sequence[Any],
        Y: Sequence[Any] | None,
        executor: Workers | None = None,
        node_weight: Any = None,
    ):
        if node_weight is not None:
            raise ValueError(
                "node_weight works for the built-in models; put weights into your model's loss"
            )
        check_protocol(model)
        check_lengths(X, Y)
        self.model, self.X, self.Y = model, X, Y
        self.executor = executor
        self.n: int = X.shape[0] if hasattr(X, "shape") else len(X)
        self.dimension: int = size_of(model)
        # Whether the model claims that its own argmax is always the best output.
        self.trusted: bool = bool(getattr(model, "exact", True))
        self.enumerable: bool = callable(getattr(model, "outputs", None))
        self._truth: list[Vector | None] = [None] * self.n
        self.rebind()

    def rebind(self) -> None:
        self._table: PlaneTable | None = None
        # The model's own slack-rescaled argmax is exact, but a search over the loss multiplier may
        # miss the best output. The search has upper bounds if the margin oracle that it calls is
        # exact.
        margin = self.formulation.rescaling == "margin"
        own = margin or hasattr(self.model, "slack_rescaled_inference")
        self.argmax_exact: bool = self.trusted and own
        self.exact: bool = self.enumerable if self.summed else self.argmax_exact
        self.bounded: bool = self.enumerable if self.summed else self.trusted

    def decide(self, w: Any, n_jobs: int = 1) -> np.ndarray:
        outputs = self.predict(w, n_jobs)
        return np.array([self.features(i, y) @ w for i, y in enumerate(outputs)])

    def features(self, i: int, y: Any) -> np.ndarray:
        """Return Psi(x_i, y), checked."""
        psi = self.model.joint_feature(self.X[i], y)
        psi = np.ascontiguousarray(psi.toarray().ravel() if sp.issparse(psi) else psi, np.float64)
        if psi.shape != (self.dimension,):
            raise OracleError(
                f"joint_feature of example {i} has shape {psi.shape}, "
                f"expected ({self.dimension},) = (size_joint_feature,)"
            )
        return psi

    def truth(self, i: int) -> Vector:
        """Return Psi(x_i, y_i), computed once."""
        known = self._truth[i]
        if known is None:
            assert self.Y is not None
            own = float(self.model.loss(self.Y[i], self.Y[i]))
            if abs(own) > 1e-12:
                raise OracleError(f"loss(y, y) of example {i} is {own}, but must be 0")
            dense = self.features(i, self.Y[i])
            index = np.flatnonzero(dense).astype(np.int32)
            known = self._truth[i] = (index, dense[index])
        return known

    def difference(self, i: int, y: Any) -> tuple[float, Vector]:
        """Return Delta_i(y) and psi_i(y), checked."""
        assert self.Y is not None
        loss = float(self.model.loss(self.Y[i], y))
        if not loss >= 0 or not np.isfinite(loss):
            raise OracleError(f"loss of example {i} is {loss}, but must be finite and not negative")
        index, value, finite = core.difference(self.features(i, y), *self.truth(i))
        if not finite:
            raise OracleError(
                f"joint_feature of example {i} contains NaN, infinity or a number above 1e150"
            )
        return loss, (index, value)

    def plane(self, i: int, y: Any) -> tuple[float, Vector]:
        """Return offset and vector of the plane of an output."""
        loss, (index, value) = self.difference(i, y)
        return loss, (index, loss * value if self.formulation.rescaling == "slack" else value)

    def every_plane(self, i: int) -> list[tuple[float, Vector]]:
        """Return the planes of all outputs that the model's ``outputs`` lists, except zero planes."""
        planes = [self.plane(i, y) for y in self.model.outputs(self.X[i])]
        if not any(loss == 0 and len(index) == 0 for loss, (index, _) in planes):
            raise OracleError(f"outputs of example {i} does not list the true output")
        return [p for p in planes if p[0] != 0 or p[1][1].any()]

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        """A checksum of the data and the rescaling.

        Cached planes hold vectors, so they have no meaning for other examples or another rescaling.
        """
        total = hashlib.sha256(f"{self.formulation.rescaling} {self.dimension}".encode())
        for i in range(self.n if self.Y is not None else 0):
            index, value = self.truth(i)
            total.update(index.tobytes() + value.tobytes())
        return total.hexdigest()

    def oracle(self, blocks: Sequence[int], w: np.ndarray) -> list[tuple[float, Vector]]:
        """Return offset and vector of the worst plane of each block."""
        return self.ask(blocks, w)[0]

    def ask(
        self, blocks: Sequence[int], w: np.ndarray
    ) -> tuple[list[tuple[float, Vector]], list[float]]:
        """Return the worst plane of each block, and upper bounds on the slacks if a search found them."""
        assert self.Y is not None
        items = [int(i) for i in blocks]
        X, Y = [self.X[i] for i in items], [self.Y[i] for i in items]
        margin = self.formulation.rescaling == "margin"
        answers = self._map(answer if margin else answer_slack, X, Y, w)
        if len(answers) != len(items):
            raise OracleError(
                f"the oracle returned {len(answers)} outputs for {len(items)} examples"
            )
        if margin:
            return [self.difference(i, y) for i, y in zip(items, answers, strict=True)], []
        planes = [self.plane(i, y) for i, (y, _) in zip(items, answers, strict=True)]
        return planes, [ceiling for _, ceiling in answers]

    def ask_all(self, w: np.ndarray) -> tuple[list[tuple[float, Vector]], list[float]]:
        """Do as ``ask`` does, for all examples."""
        planes: list[tuple[float, Vector]] = []
        ceilings: list[float] = []
        for start in range(0, self.n, PASS):
            found, tops = self.ask(range(start, min(start + PASS, self.n)), w)
            planes += found
            ceilings += tops
        return planes, ceilings

    def planes(self, w: np.ndarray, n_jobs: int) -> list[tuple[float, Vector]]:
        return self.ask_all(w)[0]

    def slacks(
        self, w: np.ndarray, n_jobs: int = 1, leeway: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        if self.summed and self.enumerable:
            if self._table is None:
                every = [self.every_plane(i) for i in range(self.n)]
                self._table = PlaneTable(every, self.dimension)
                for i, planes in enumerate(every):
                    self.note([i] * len(planes), planes)
            found = self._table.sums(w)
            return found, found
        planes, ceilings = self.ask_all(w)
        found = self.measure(planes, w)
        if not self.bounded:  # the largest term is only a lower bound of a sum
            return found, np.full_like(found, np.inf)
        return found, np.maximum(found, ceilings) if ceilings else found

    def most_planes(self) -> Any:
        return 1 if self._table is None else np.bincount(self._table.owner, minlength=self.n)

    def try_argmax(self) -> int:
        # A sum that lists all outputs does not need the argmax.
        return try_argmax(self) if self.trusted and not self.summed else 0

    def check_ceilings(self, w: np.ndarray, ceilings: np.ndarray) -> None:
        if self.trusted:
            check_ceilings(self, w, ceilings)

    def inferred(self, blocks: Sequence[int], w: np.ndarray) -> list[Any]:
        """Return the predictions of some examples."""
        X = [self.X[i] for i in blocks]
        return self._map(predict_each, X, [None] * len(X), w)

    def _map(
        self, work: Callable[..., Any], X: list[Any], Y: list[Any], w: np.ndarray
    ) -> list[Any]:
        """Apply a function of the model to some examples, in the workers if there are any."""
        try:
            return map_chunks(self.executor, work, self.model, X, Y, w)
        except KeyboardInterrupt:
            # The interrupt may leave a lock of the user's executor closed, so that it waits for
            # itself. Do the remaining work in this process.
            self.executor = None
            raise

    def predict(self, w: np.ndarray, n_jobs: int = 1) -> list[Any]:
        return self.inferred(range(self.n), w)
