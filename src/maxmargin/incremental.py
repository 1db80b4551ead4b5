"""Learning from chunks: what ``partial_fit`` keeps of the examples that it has seen.

After a chunk is optimised, an example is one of

    kept      its multipliers are not all on its true output: example and multipliers stay, and move on
    dropped   they are: it gives nothing to w nor to the dual, and goes
    frozen    it was kept, but the budget is full: its part of w and of the dual stays, fixed; it goes

The next chunk is optimised together with the kept examples, above the plane of those that are gone (see
``problem.past``). The dual bound holds for the objective over all examples seen so far, with weight C each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin._core import core
from maxmargin.data.labels import CodedSequences, LabelSet
from maxmargin.data.mapped import MappedRows, MappedSequences
from maxmargin.models.base import CompiledExamples, Examples
from maxmargin.models.python import bind_model
from maxmargin.problem import Certificate, Formulation, Past, PastProblem, Support
from maxmargin.result import Result
from maxmargin.solvers import Solver, Streaming
from maxmargin.train import train


@dataclass(frozen=True)
class Settings:
    """How a chunk is optimised."""

    solver: Streaming
    formulation: Formulation
    n_jobs: int
    options: dict[str, Any]  # of ``train``
    regularizer: Callable[[Examples], Any]  # of the examples at hand


SOME_BYTES = 200  # of a kept example besides its features: objects, labels, multipliers


@dataclass
class Memory:
    """What is left of the chunks so far."""

    C: float
    n_seen: int = 0
    X: Any = None  # of the kept examples
    Y: Any = None
    weights: np.ndarray = field(default_factory=lambda: np.empty(0))
    support: Support | None = None  # of the kept examples, numbered as they are kept
    index: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # among all seen
    past: Past | None = None
    n_frozen: int = 0

    @property
    def n_gone(self) -> int:
        """Examples that are dropped or frozen."""
        return self.n_seen - len(self.index)


def streaming_of(solver: Any) -> Streaming:
    """The solver of a chunk."""
    if isinstance(solver, Streaming):
        return solver
    if isinstance(solver, Solver) or solver not in ("auto", "streaming"):
        raise ValueError(
            'partial_fit needs solver="auto", "streaming" or an instance of solvers.Streaming, '
            f"got {solver!r}"
        )
    return Streaming(passes=None) if solver == "auto" else Streaming()


def first_model(model: Any, X: Any, Y: Any, classes: Any) -> Any:
    """The model of a stream, made ready by its first chunk."""
    if classes is not None:
        if "classes" not in getattr(model, "get_params", dict)():
            raise ValueError(f"classes: model {type(model).__name__} does not take them")
        model.set_params(classes=classes)
    model.initialize(X, Y)
    return model


def next_model(memory: Memory, svm: Any, classes: Any) -> Any:
    """The model of the chunks before; refuses what must stay as it was."""
    if memory.C != svm.C:
        raise ValueError(f"partial_fit: C was {memory.C} for the chunks before; fit begins anew")
    if classes is not None:
        given, known = LabelSet(classes).classes, svm.model_.classes_
        if not np.array_equal(given, known):
            raise ValueError("partial_fit: classes must be those of the first call, or None")
    return svm.model_


def check_model_of_stream(examples: Examples) -> None:
    """Refuse models whose examples cannot be told apart."""
    if examples.kernelised:
        raise ValueError("partial_fit: a kernel needs all examples at hand; use fit")
    if examples.n == 1 and getattr(examples, "joint", False):
        raise ValueError("partial_fit: a loss of the whole sample has one slack; use fit")


def in_memory(X: Any) -> Any:
    """A chunk of mapped rows as ordinary arrays."""
    if isinstance(X, MappedRows):
        return X.tocsr() if X.sparse else np.asarray(X)
    return list(X) if isinstance(X, MappedSequences | CodedSequences) else X


def size_of(X: Any) -> int:
    """How many examples."""
    return X.shape[0] if hasattr(X, "shape") else len(X)


def joined(first: Any, second: Any) -> Any:
    """Two sets of examples, one after the other."""
    if first is None or size_of(first) == 0:
        return second
    if sp.issparse(second):
        return sp.vstack([first, second], format="csr")
    if isinstance(second, np.ndarray) and isinstance(first, np.ndarray):
        return np.concatenate([first, second])
    return [*first, *second]


def taken(X: Any, blocks: np.ndarray) -> Any:
    """Some of the examples, as a copy."""
    if sp.issparse(X):
        return X.tocsr()[blocks]
    return X[blocks] if isinstance(X, np.ndarray) else [X[int(i)] for i in blocks]


def bytes_each(X: Any) -> np.ndarray:
    """About how many bytes each example takes."""
    if sp.issparse(X):
        return 12 * np.diff(X.tocsr().indptr) + SOME_BYTES
    if isinstance(X, np.ndarray) and X.ndim == 2:
        return np.full(len(X), X[:1].nbytes + SOME_BYTES)
    return np.array([bytes_of(x) + SOME_BYTES for x in X])


def bytes_of(x: Any) -> int:
    """Bytes of one example."""
    if sp.issparse(x):
        return 12 * x.nnz
    return x.nbytes if hasattr(x, "nbytes") else 100 * len(x)


class Outputs:
    """Kept outputs apart: which entries belong to which plane."""

    def __init__(self, examples: Examples, support: Support):
        self.examples, self.support = examples, support
        sizes = examples.output_sizes(support.blocks)
        self.ends = np.cumsum(sizes)
        self.starts = self.ends - sizes

    def of(self, planes: np.ndarray) -> Any:
        """The outputs of some planes."""
        outputs = self.support.outputs
        if not isinstance(outputs, np.ndarray):
            return [outputs[int(p)] for p in planes]
        places = [np.arange(self.starts[p], self.ends[p]) for p in planes]
        return outputs[np.concatenate(places)] if places else outputs[:0]

    def select(self, blocks: np.ndarray) -> Support:
        """The planes of some blocks, which are numbered anew."""
        place = np.full(self.examples.n, -1)
        place[blocks] = np.arange(len(blocks))
        planes = np.flatnonzero(place[self.support.blocks] >= 0)
        found = self.support
        return Support(
            place[found.blocks[planes]].astype(np.int64),
            found.multipliers[planes],
            self.of(planes),
            partial=True,
        )

    def bytes_each(self) -> np.ndarray:
        """About how many bytes the planes of each block take."""
        sizes = self.examples.output_sizes(np.arange(self.examples.n))
        count = np.bincount(self.support.blocks, minlength=self.examples.n)
        return count * (16 + 4 * sizes)

    def moved(self, problem: Any) -> np.ndarray:
        """Blocks whose multipliers are not all on the true output."""
        wrong = np.array([self._wrong(p, truth) for p, truth in self._truths(problem)], dtype=bool)
        return np.unique(self.support.blocks[wrong])

    def _truths(self, problem: Any) -> Any:
        """Every plane with the true output of its block."""
        if not isinstance(self.examples, CompiledExamples):
            return ((p, None) for p in range(len(self.support)))
        name = self.examples.state_name(problem.rescaling, False)
        everything = np.ones(self.examples.n)
        truth = getattr(core, name)(self.examples.core, everything, True).support()[2]
        ends = np.cumsum(self.examples.output_sizes(np.arange(self.examples.n)))
        starts = np.concatenate([[0], ends[:-1]])
        return ((p, truth[starts[i] : ends[i]]) for p, i in enumerate(self.support.blocks.tolist()))

    def _wrong(self, plane: int, truth: Any) -> bool:
        if truth is None:
            offset, (index, _) = self.support.outputs[plane]
            return bool(offset != 0 or len(index))
        own = self.support.outputs[self.starts[plane] : self.ends[plane]]
        return not np.array_equal(own, truth)


def problem_of(memory: Memory, examples: Examples, C: float, *rest: Any) -> PastProblem:
    """The problem of the examples at hand; ``rest`` as ``Problem`` takes it."""
    past = memory.past or Past(0.0, np.zeros(examples.dimension), 0.0)
    return PastProblem(past, examples, C, *rest)


def remember(
    memory: Memory, problem: PastProblem, result: Result, X: Any, Y: Sequence, most_bytes: int
) -> Memory:
    """What to keep after a chunk was optimised; X and Y are all examples at hand, kept ones first."""
    outputs = Outputs(problem.examples, result.support)
    moved = outputs.moved(problem)
    n_seen = memory.n_seen + problem.n_blocks - len(memory.index)
    index = np.concatenate([memory.index, np.arange(memory.n_seen, n_seen)])
    # From the newest to the oldest, as many as the budget holds.
    needs = bytes_each(X)[moved] + outputs.bytes_each()[moved]
    fits = np.cumsum(needs[::-1])[::-1] <= most_bytes
    kept, frozen = moved[fits], moved[~fits]
    past = problem.past
    if len(frozen):
        gone = outputs.select(frozen)
        planes = np.flatnonzero(np.isin(result.support.blocks, frozen))
        offset, vector = problem.examples.combine(
            result.support.blocks[planes], gone.multipliers, outputs.of(planes), problem.rescaling
        )
        past = replace(past, offset=past.offset + offset, vector=past.vector - vector)
    away = np.setdiff1d(problem.active, kept)
    return Memory(
        C=memory.C,
        n_seen=n_seen,
        X=taken(X, kept),
        Y=taken(Y, kept),
        weights=problem.mass[kept] / problem.C,
        support=outputs.select(kept),
        index=index[kept],
        past=replace(past, mass=past.mass + float(problem.mass[away].sum())),
        n_frozen=memory.n_frozen + len(frozen),
    )


def told(certificate: Certificate, memory: Memory) -> Certificate:
    """The certificate of a chunk: with examples gone, its primal is no bound on the objective of all."""
    if memory.n_gone == 0:
        return certificate
    status = (
        f"{certificate.status} for the examples at hand; {memory.n_gone} seen before are gone, "
        f"{memory.n_frozen} of them frozen"
    )
    return replace(certificate, exact=False, converged=False, status=status)


def advance(
    memory: Memory, model: Any, X: Any, Y: Any, weights: np.ndarray, settings: Settings
) -> tuple[Memory, Result, Examples]:
    """Optimise a chunk together with what is kept of those before it."""
    X, Y = joined(memory.X, in_memory(X)), joined(memory.Y, in_memory(Y))
    examples = bind_model(model, X, Y)
    check_model_of_stream(examples)
    v = np.concatenate([memory.weights, weights])
    regularizer = settings.regularizer(examples)
    if getattr(regularizer, "free", None) is not None:
        raise ValueError(
            "partial_fit: weights without a regulariser (infinite scales, penalized_intercept=False) need "
            "all examples at hand; use fit"
        )
    form = (settings.formulation, settings.n_jobs, regularizer)
    problem = problem_of(memory, examples, memory.C, v, *form)
    warm = memory.support if len(memory.index) else None
    result = train(problem, settings.solver, warm=warm, **settings.options)
    later = remember(memory, problem, result, X, Y, settings.solver.cache_bytes)
    return later, replace(result, certificate=told(result.certificate, memory)), examples


def support_of(memory: Memory) -> Support:
    """The multipliers of all examples seen; those of frozen ones are lost, and stand on the true output."""
    assert memory.support is not None
    return replace(memory.support, blocks=memory.index[memory.support.blocks])
