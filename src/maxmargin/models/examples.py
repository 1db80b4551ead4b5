"""A model bound to data, in one formulation: all that a problem asks of it.

``model.bind(X, Y)`` hands the data over; ``under(formulation)`` says once what a slack is, and refuses what
the model cannot answer. From then on

    xi_i(w) = max_y s_i(y)  or  sum_y max(0, s_i(y))  or  log sum_y exp(s_i(y))
    s_i(y)  = offset + <w, vector>

with the offset and the vector of an output as ``maxmargin.formulation`` has them. A plane of the last is made
by a distribution a over the outputs, xi_i(w) >= H(a) + E_a s_i(y): such outputs are numbers, the weights
(double precision) at which all examples have theirs, p(y) ~ exp(s_i(y)), or the potentials (single) of each
example.
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
    "sums and maxima over all outputs with a given label are found for Multiclass, Binary, Chain, and for "
    "FactorGraph and MultiLabel whose graphs are forests; maxima also for Tree"
)
NO_SUMS = (
    "sums over all outputs are found for Multiclass, Binary, Chain and Grammar without a kernel, and for "
    "FactorGraph and MultiLabel whose graphs are forests"
)
NO_DRAWS = "outputs are drawn where all can be summed over: not on graphs with cycles"
WORK = 20_000_000  # steps of such a bracket, about


class Predictions(ABC):
    """Answers at weights w for every example; what a model has no answer for is refused in words."""

    @abstractmethod
    def predict(self, w: Any, n_jobs: int = 1) -> Any:
        """argmax_y <w, Psi(x_i, y)> for every example; w as it is, or what ``ready`` made of it."""

    def glance(self, w: np.ndarray, n: int) -> Any:
        """The same of the first n examples; None where that takes as long as all of them."""
        return None

    def least_constant_loss(self, mass: np.ndarray) -> float:
        """The least sum of mass_i Delta_i where one label alone is predicted; 0 where it is not known."""
        return 0.0

    def ready(self, w: np.ndarray) -> Any:
        """w made ready for many predictions, on any data of the model: their cost then follows the data."""
        return w

    def decide(self, w: Any, n_jobs: int = 1) -> np.ndarray:
        """<w, Psi(x_i, y)> of the prediction of every example."""
        raise ValueError("decision_function: this model has no score of the single examples of X")

    def margins(self, w: Any, n_jobs: int = 1) -> Any:
        """For each node of every example the best score less the best one with another label there."""
        raise ValueError(f"predict_margins: {NO_BELIEFS}")

    def beliefs(self, w: Any, temperature: float, n_jobs: int = 1) -> Beliefs:
        """What each label of each node is worth, at a temperature."""
        raise ValueError(f"predict_marginals: {NO_BELIEFS}")

    def true_codes(self) -> np.ndarray:
        """The code of the true label of every node."""
        raise ValueError(f"Y: {NO_BELIEFS}")

    def around(self, fixed: Any) -> Any:
        """The same examples, for predictions that have these labels where they are given."""
        raise ValueError(
            "fixed: this model takes no fixed labels; Chain does, with a kernel or without"
        )


@dataclass(frozen=True)
class ExplicitConstraints:
    """All constraints of all examples, written down: what needs no oracle.

    ``core`` are the data that they are. ``scale`` is the size of a loss where single precision is worth
    having.
    """

    core: Any
    scale: float | None = None


class Examples(Predictions):
    """A model on data, as a problem asks it; what is asked after training is in ``Predictions``.

    Ensures: ``slacks`` and ``combine`` follow the definition in double precision; solvers
    never look inside an output: they keep it and hand it back in ``combine``.
    """

    n: int
    dimension: int
    formulation: Formulation = Formulation()
    argmax_exact: bool = True  # the argmax is always the best output
    exact: bool = True  # ``slacks`` finds every slack; a sum needs all outputs, not the best one
    # ``slacks`` has proven ceilings; those of a sum may be infinite where it is too large to bracket.
    bounded: bool = True
    # The argmax tries every output, which costs no more than a few of them.
    enumerates: bool = False
    kernelised: bool = False  # a step changes all of w: in double precision and by one thread
    unweighted: str = ""  # why examples have no weights of their own, where they have none
    primal_alone: str = ""  # why multipliers mean nothing on these data, where they do not
    # Planes are made in Python, and an argmax there is held against what is known.
    checked: bool = False
    # What kept planes depend on besides the model, where they are not rebuilt from outputs.
    fingerprint: str = ""
    core: Any = None  # the compiled data set, where there is one
    walks: bool = False  # ``slacks_and_plane`` reads the data once for both
    # M v, where <u, M v> is the inner product of weights: v itself unless there is a kernel
    metric: Any = staticmethod(np.asarray)
    powers: tuple[str, ...] = ()  # that some solvers need: see ``models.registry``
    # What true outputs with unknown labels are worth, all completions together: ``models.soft_truth``.
    soft_truth: Any = None
    # All constraints, where they are few enough to be written down (margin rescaling).
    explicit: ExplicitConstraints | None = None

    def under(self, formulation: Formulation) -> Any:
        """The same examples in this formulation; refuses one that they have no answers for."""
        if formulation == self.formulation:
            return self
        if formulation.soft and not self.sums_all:
            raise ValueError(f"{formulation} is not solved for this model: {NO_SUMS}")
        other = copy.copy(self)
        other.formulation = formulation
        other.rebind()
        return other

    @property
    def sums_all(self) -> bool:
        """Whether sums over all outputs of an example are found, as a soft formulation needs them."""
        return False

    @property
    def summed(self) -> bool:
        """Whether a slack is the sum over all violating outputs."""
        return self.formulation.hinge == "sum"

    @abstractmethod
    def rebind(self) -> None:
        """Make ready what depends on the formulation: what is exact, what is bounded."""

    # answers

    @abstractmethod
    def slacks(
        self, w: np.ndarray, n_jobs: int = 1, leeway: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """xi_i(w) of every example as far as it was found, and what it cannot exceed.

        ``leeway``: by how much these may differ, on average, where a search would go on to close it.
        """

    @abstractmethod
    def worst(self, w: np.ndarray, n_jobs: int = 1) -> tuple[np.ndarray, Any]:
        """max_y s_i(y) of every example, and the outputs that attain it."""

    @abstractmethod
    def combine(
        self, blocks: np.ndarray, multipliers: np.ndarray, outputs: Any, n_jobs: int = 1
    ) -> tuple[float, np.ndarray]:
        """Sums of the offsets and of the vectors of the planes of kept outputs, with multipliers."""

    def select(self, blocks: np.ndarray, outputs: Any, columns: np.ndarray) -> np.ndarray:
        """Some weights of the vectors of kept outputs: a row for each."""
        raise NotImplementedError

    @abstractmethod
    def cache(self, capacity: int) -> Any:
        """The last outputs of each example: ``add`` takes one of each, ``best`` finds the worst kept ones."""

    def worst_kept(self, cache: Any, w: np.ndarray, n_jobs: int = 1) -> tuple[np.ndarray, Any]:
        """As ``worst``, of the outputs that a cache has."""
        return cache.best(w, n_jobs)

    # powers and properties of some

    def extent(self) -> Extent:
        """How large scores can be, for a bound on rounding."""
        raise NotImplementedError

    def output_sizes(self, blocks: np.ndarray) -> np.ndarray:
        """How many entries of ``Support.outputs`` an output of each of these blocks takes."""
        return np.ones(len(blocks), dtype=np.int64)

    def distinct(self, blocks: np.ndarray, outputs: Any) -> bool:
        """Whether no output of a block appears twice."""
        sizes, labels = self.output_sizes(blocks), np.ascontiguousarray(outputs)
        if (sizes == 1).all():
            pairs = blocks * (int(labels.max(initial=0)) + 1) + labels
            return len(np.unique(pairs)) == len(blocks)
        ends = np.cumsum(sizes)
        places = zip(blocks.tolist(), (ends - sizes).tolist(), ends.tolist(), strict=True)
        return len({(i, labels[a:b].tobytes()) for i, a, b in places}) == len(blocks)

    def table_bytes(self) -> int:
        """What the core's tables of inner products take, where it builds some."""
        return 0


class CompiledExamples(Examples):
    """A built-in model on data, answered by the core."""

    n: int
    dimension: int

    answers: Any  # the core's exact answers in this formulation
    labels: LabelSet
    brackets_sums: bool = False  # a sum over outputs that are too many to list has a ceiling

    def take(self, data: Any) -> None:
        """Answer for these data, which the core has now."""
        self.core = data
        self.rebind()
        self.n, self.dimension = self.answers.blocks, self.answers.dimension

    def rebind(self) -> None:
        if self.summed and not hasattr(self.core, "box"):
            kind = type(self.core).__name__.removesuffix("Data")
            raise ValueError(f"hinge='sum' is not solved for models of the kind {kind}; use 'max'")
        self.answers = self.core.exact(self.formulation.rescaling)
        self.argmax_exact: bool = self.answers.exact
        self.exact: bool = self.enumerates if self.summed else self.argmax_exact
        self.bounded: bool = not self.summed or self.enumerates or self.brackets_sums

    @property
    def sums_all(self) -> bool:
        return self.answers.sums_all and not self.kernelised

    def log_sums(self, w: np.ndarray, n_jobs: int = 1) -> np.ndarray:
        """log sum_y exp(s_i(y)) of every example."""
        return self.answers.log_sums(w, n_jobs, float(self.formulation.augmented))

    def tilt(self, w: np.ndarray, mass: np.ndarray, n_jobs: int = 1) -> tuple[float, np.ndarray]:
        """sum_i mass_i xi_i(w) of a soft formulation, and its gradient."""
        return self.answers.tilt(w, mass, n_jobs, float(self.formulation.augmented))

    def draw(self, w: np.ndarray, n: int, seed: int, n_jobs: int = 1) -> list[Any]:
        """n outputs of every example, drawn from p(y) ~ exp(<w, Psi(x_i, y)>): a list of n draws of all."""
        if not self.answers.draws:
            raise ValueError(f"sample: {NO_DRAWS}")
        codes = self.answers.draw(w, n, seed, n_jobs)
        sizes = self.all_sizes()
        places = np.repeat(n * (np.cumsum(sizes) - sizes), sizes)
        places += np.concatenate([np.arange(size) for size in sizes]).astype(np.int64)
        return [self.decode(codes[places + k * np.repeat(sizes, sizes)]) for k in range(n)]

    def all_sizes(self) -> np.ndarray:
        """How many labels an output of each example has."""
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
        """The same of distributions, which weights or potentials give."""
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
        """Whether outputs of these blocks that were kept before hold this model's labels only."""
        return self.answers.knows(blocks, np.ascontiguousarray(outputs, dtype=np.int32))

    def decode(self, codes: np.ndarray) -> Any:
        """Outputs of all examples, as the user knows them, from the numbers of the core."""
        raise NotImplementedError

    def decode_nodes(self, codes: np.ndarray) -> Any:
        """The same from the codes of labels that the user knows, where the core has others too."""
        return self.decode(codes)

    def predict(self, w: Any, n_jobs: int = 1) -> Any:
        return self.decode(self.answers.predict(w, n_jobs))

    def ready(self, w: np.ndarray) -> Any:
        return self.answers.pack(w)

    def packed(self, w: Any) -> Any:
        """w as the core's answers take it, if it is not that already."""
        return self.answers.pack(w) if isinstance(w, np.ndarray) else w

    def decide(self, w: Any, n_jobs: int = 1) -> np.ndarray:
        w = self.packed(w)
        return self.answers.scores(w, self.answers.predict(w, n_jobs), n_jobs)

    def true_codes(self) -> np.ndarray:
        return self.answers.truth()

    def augmented(self, w: np.ndarray) -> Any:
        """The loss-augmented argmax of every example."""
        return self.decode(self.worst(w)[1])
