"""A model bound to data, in one formulation: the interface that a problem uses.

``model.bind(X, Y)`` hands the data over. ``under(formulation)`` fixes the definition of a slack and
rejects a formulation that the model cannot solve. From then on

    xi_i(w) = max_y s_i(y)  or  sum_y max(0, s_i(y))  or  log sum_y exp(s_i(y))
    s_i(y)  = offset + <w, vector>

with the offset and the vector of an output from ``maxmargin.formulation``. In the third case a
distribution a over the outputs makes a plane, xi_i(w) >= H(a) + E_a s_i(y). Such a distribution is stored
as numbers: either the weights (float64) that give p(y) ~ exp(s_i(y)) for all examples, or the
potentials (float32) of each example.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.data.labels import LabelSet
from maxmargin.formulation import Formulation
from maxmargin.models.beliefs import Beliefs
from maxmargin.models.extent import MOST_SUMMED_VIOLATORS, Extent

NO_BELIEFS = (
    "only Multiclass, Binary, Chain, and FactorGraph and MultiLabel on forests can sum and "
    "maximise over all outputs with a given label; Tree can only maximise"
)
NO_SUMS = (
    "only Multiclass, Binary, Chain and Grammar without a kernel, and FactorGraph and MultiLabel "
    "on forests can sum over all outputs"
)
NO_DRAWS = "outputs can be drawn only if all outputs can be summed, so not on graphs with cycles"
# Work limit, in steps, of bracketing a summed hinge; a smaller limit leaves wider brackets.
WORK = 20_000_000


class Predictions(ABC):
    """Predictions and related values at weights w; a method raises ValueError if the model has no answer."""

    @abstractmethod
    def predict(self, w: Any, n_jobs: int = 1) -> Any:
        """Return argmax_y <w, Psi(x_i, y)> for every example; w is an array or a result of ``ready``."""

    def glance(self, w: np.ndarray, n: int) -> Any:
        """Predict the first n examples only; None if that takes as long as predicting all of them."""
        return None

    def least_constant_loss(self, mass: np.ndarray) -> float:
        """The least sum of mass_i Delta_i of a constant prediction of one label; 0 if unknown."""
        return 0.0

    def ready(self, w: np.ndarray) -> Any:
        """Prepare w for many predictions on any data; the cost of each then depends on its data only."""
        return w

    def decide(self, w: Any, n_jobs: int = 1) -> np.ndarray:
        """Return <w, Psi(x_i, y)> of the predicted output of every example."""
        raise ValueError("decision_function: this model has no score for each example of X")

    def margins(self, w: Any, n_jobs: int = 1) -> Any:
        """Return, for each node, the best score minus the best score with another label at that node."""
        raise ValueError(f"predict_margins: {NO_BELIEFS}")

    def beliefs(self, w: Any, temperature: float, n_jobs: int = 1) -> Beliefs:
        """Return the belief in each label of each node, at a temperature."""
        raise ValueError(f"predict_marginals: {NO_BELIEFS}")

    def true_codes(self) -> np.ndarray:
        """Return the code of the true label of every node."""
        raise ValueError(f"Y: {NO_BELIEFS}")

    def around(self, fixed: Any) -> Any:
        """Return the same examples with these labels fixed in all predictions."""
        raise ValueError(
            "fixed: this model does not take fixed labels; Chain does, with or without a kernel"
        )


@dataclass(frozen=True)
class ExplicitConstraints:
    """All constraints of all examples, listed explicitly: a solver needs no oracle.

    ``core`` is the compiled data set that defines them. ``scale`` is the largest loss, if single
    precision is worthwhile.
    """

    core: Any
    scale: float | None = None


class Examples(Predictions):
    """A model on data as a problem sees it; methods for use after training are in ``Predictions``.

    Ensures: ``slacks`` and ``combine`` follow the definition in double precision. Solvers never look inside
    an output: they store it and pass it to ``combine``.
    """

    n: int
    dimension: int
    formulation: Formulation = Formulation()
    argmax_exact: bool = True  # the argmax is always the best output
    # ``slacks`` finds every slack; a summed hinge needs all outputs, not only the best one
    exact: bool = True
    # ``slacks`` returns proven upper bounds. The bound of a summed hinge is infinite if the sum is
    # too large to bracket.
    bounded: bool = True
    # The argmax tries every output, so that all outputs cost hardly more than one.
    enumerates: bool = False
    # a step changes all of w, so it runs in double precision and in one thread
    kernelised: bool = False
    unweighted: str = ""  # the reason if examples cannot have weights of their own
    primal_alone: str = ""  # the reason if multipliers have no meaning on these data
    # Planes are made in Python; the result of each argmax is compared with known outputs.
    checked: bool = False
    # Checksum of the data that cached planes depend on, if planes are not rebuilt from outputs.
    fingerprint: str = ""
    core: Any = None  # the compiled data set, if there is one
    walks: bool = False  # ``slacks_and_plane`` computes both in one pass over the data
    # Maps v to M v, where <u, M v> is the inner product of weights; the identity without a kernel.
    metric: Any = staticmethod(np.asarray)
    powers: tuple[str, ...] = ()  # optional powers that some solvers need: see ``models.registry``
    # The value of true outputs with unknown labels, summed over completions: ``models.soft_truth``.
    soft_truth: Any = None
    # All constraints, if there are few enough to list them (margin rescaling).
    explicit: ExplicitConstraints | None = None

    def under(self, formulation: Formulation) -> Any:
        """Return the same examples in this formulation; reject one that the model cannot solve."""
        if formulation == self.formulation:
            return self
        if formulation.soft and not self.sums_all:
            raise ValueError(f"this model does not support {formulation}: {NO_SUMS}")
        other = copy.copy(self)
        other.formulation = formulation
        other.rebind()
        return other

    @property
    def sums_all(self) -> bool:
        """Whether the model can sum over all outputs of an example, as a soft formulation requires."""
        return False

    @property
    def summed(self) -> bool:
        """Whether a slack is a sum over all violating outputs."""
        return self.formulation.hinge == "sum"

    @abstractmethod
    def rebind(self) -> None:
        """Recompute the attributes that depend on the formulation, such as ``exact`` and ``bounded``."""

    # answers

    @abstractmethod
    def slacks(
        self, w: np.ndarray, n_jobs: int = 1, leeway: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the largest lower bound found on every xi_i(w), and an upper bound.

        ``leeway`` is the mean difference of the two at which a search for tighter bounds stops.
        """

    @abstractmethod
    def worst(self, w: np.ndarray, n_jobs: int = 1) -> tuple[np.ndarray, Any]:
        """Return max_y s_i(y) of every example, and the outputs that attain it."""

    @abstractmethod
    def combine(
        self, blocks: np.ndarray, multipliers: np.ndarray, outputs: Any, n_jobs: int = 1
    ) -> tuple[float, np.ndarray]:
        """Return the weighted sums of the offsets and of the vectors of cached outputs' planes."""

    def select(self, blocks: np.ndarray, outputs: Any, columns: np.ndarray) -> np.ndarray:
        """Return some columns of the vectors of cached outputs, one row for each output."""
        raise NotImplementedError

    @abstractmethod
    def cache(self, capacity: int) -> Any:
        """Make a cache of the last outputs of each example.

        Its ``add`` takes one output for each example, its ``best`` finds the worst cached outputs.
        """

    def worst_kept(self, cache: Any, w: np.ndarray, n_jobs: int = 1) -> tuple[np.ndarray, Any]:
        """Do as ``worst`` does, over the outputs in a cache."""
        return cache.best(w, n_jobs)

    # optional powers and properties

    def extent(self) -> Extent:
        """Bound the size of scores, for a bound on rounding errors."""
        raise NotImplementedError

    def output_sizes(self, blocks: np.ndarray) -> np.ndarray:
        """Return the number of entries of ``Support.outputs`` that an output of each block takes."""
        return np.ones(len(blocks), dtype=np.int64)

    def distinct(self, blocks: np.ndarray, outputs: Any) -> bool:
        """Whether all outputs of each block are different."""
        sizes, labels = self.output_sizes(blocks), np.ascontiguousarray(outputs)
        if (sizes == 1).all():
            pairs = blocks * (int(labels.max(initial=0)) + 1) + labels
            return len(np.unique(pairs)) == len(blocks)
        ends = np.cumsum(sizes)
        places = zip(blocks.tolist(), (ends - sizes).tolist(), ends.tolist(), strict=True)
        return len({(i, labels[a:b].tobytes()) for i, a, b in places}) == len(blocks)

    def table_bytes(self) -> int:
        """The memory, in bytes, of the core's tables of inner products; 0 without tables."""
        return 0


class CompiledExamples(Examples):
    """A built-in model on data; the core computes the answers."""

    n: int
    dimension: int

    answers: Any  # computes exact answers in this formulation, in the core
    labels: LabelSet
    brackets_sums: bool = False  # a sum over too many outputs to list has an upper bound

    def take(self, data: Any) -> None:
        """Use these data, which the core holds now."""
        self.core = data
        self.rebind()
        self.n, self.dimension = self.answers.blocks, self.answers.dimension

    def rebind(self) -> None:
        if self.summed and not hasattr(self.core, "box"):
            kind = type(self.core).__name__.removesuffix("Data")
            raise ValueError(
                f"hinge='sum' is not supported for models of the kind {kind}; use 'max'"
            )
        self.answers = self.core.exact(self.formulation.rescaling)
        self.argmax_exact: bool = self.answers.exact
        self.exact: bool = self.enumerates if self.summed else self.argmax_exact
        self.bounded: bool = not self.summed or self.enumerates or self.brackets_sums

    @property
    def sums_all(self) -> bool:
        return self.answers.sums_all and not self.kernelised

    def log_sums(self, w: np.ndarray, n_jobs: int = 1) -> np.ndarray:
        """Return log sum_y exp(s_i(y)) of every example."""
        return self.answers.log_sums(w, n_jobs, float(self.formulation.augmented))

    def tilt(self, w: np.ndarray, mass: np.ndarray, n_jobs: int = 1) -> tuple[float, np.ndarray]:
        """Return sum_i mass_i xi_i(w) of a soft formulation, and its gradient."""
        return self.answers.tilt(w, mass, n_jobs, float(self.formulation.augmented))

    def draw(self, w: np.ndarray, n: int, seed: int, n_jobs: int = 1) -> list[Any]:
        """Draw n outputs of every example from p(y) ~ exp(<w, Psi(x_i, y)>).

        Returns a list of n draws; each draw has one output for every example.
        """
        if not self.answers.draws:
            raise ValueError(f"sample: {NO_DRAWS}")
        codes = self.answers.draw(w, n, seed, n_jobs)
        sizes = self.all_sizes()
        places = np.repeat(n * (np.cumsum(sizes) - sizes), sizes)
        places += np.concatenate([np.arange(size) for size in sizes]).astype(np.int64)
        return [self.decode(codes[places + k * np.repeat(sizes, sizes)]) for k in range(n)]

    def all_sizes(self) -> np.ndarray:
        """Return the number of labels in an output of each example."""
        return self.output_sizes(np.arange(self.n))

    def slacks(
        self, w: np.ndarray, n_jobs: int = 1, leeway: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        if self.formulation.soft:
            found = self.log_sums(w, n_jobs)
            return found, found
        if self.summed:
            return self.answers.sums(w, n_jobs, MOST_SUMMED_VIOLATORS, WORK)
        if not self.argmax_exact:
            return self.answers.slack_bounds(w, n_jobs, leeway)
        found = self.answers.slacks(w, n_jobs, False)[0]
        return found, found

    def worst(self, w: np.ndarray, n_jobs: int = 1) -> tuple[np.ndarray, np.ndarray]:
        if self.formulation.soft:
            return self.log_sums(w, n_jobs), w
        return self.answers.slacks(w, n_jobs, True)

    def combine(
        self, blocks: np.ndarray, multipliers: np.ndarray, outputs: Any, n_jobs: int = 1
    ) -> tuple[float, np.ndarray]:
        if self.formulation.soft:
            return self.mixture(np.bincount(blocks, multipliers, minlength=self.n), outputs, n_jobs)
        labels = np.ascontiguousarray(outputs, dtype=np.int32)
        return self.answers.combine(blocks, multipliers, labels, n_jobs)

    def mixture(self, mass: np.ndarray, given: np.ndarray, n_jobs: int) -> tuple[float, np.ndarray]:
        """Do as ``combine`` does, for distributions that weights or potentials define."""
        if given.dtype == np.float32:
            return self.answers.mixture(given, mass, n_jobs, self.formulation.augmented)
        risk, vector = self.tilt(given, mass, n_jobs)  # E_p s = log Z - H
        return risk - float(np.einsum("i,i->", given, vector)), vector

    def select(self, blocks: np.ndarray, outputs: Any, columns: np.ndarray) -> np.ndarray:
        labels = np.ascontiguousarray(outputs, dtype=np.int32)
        rows = self.answers.select(blocks, labels, columns)
        return rows.reshape(len(blocks), len(columns))

    def cache(self, capacity: int) -> Any:
        return self.core.cache(self.formulation.rescaling, capacity)

    def knows(self, outputs: np.ndarray, blocks: np.ndarray) -> bool:
        """Whether cached outputs of these blocks contain only labels of this model."""
        return self.answers.knows(blocks, np.ascontiguousarray(outputs, dtype=np.int32))

    def decode(self, codes: np.ndarray) -> Any:
        """Convert the core's codes of all examples to outputs with the user's labels."""
        raise NotImplementedError

    def decode_nodes(self, codes: np.ndarray) -> Any:
        """Do as ``decode`` does, but from codes of the user's labels, if the core also has other codes."""
        return self.decode(codes)

    def predict(self, w: Any, n_jobs: int = 1) -> Any:
        return self.decode(self.answers.predict(w, n_jobs))

    def ready(self, w: np.ndarray) -> Any:
        return self.answers.pack(w)

    def packed(self, w: Any) -> Any:
        """Convert w to the form that the core's answers take, unless it already has that form."""
        return self.answers.pack(w) if isinstance(w, np.ndarray) else w

    def decide(self, w: Any, n_jobs: int = 1) -> np.ndarray:
        w = self.packed(w)
        return self.answers.scores(w, self.answers.predict(w, n_jobs), n_jobs)

    def true_codes(self) -> np.ndarray:
        return self.answers.truth()

    def augmented(self, w: np.ndarray) -> Any:
        """Return the loss-augmented argmax of every example."""
        return self.decode(self.worst(w)[1])
