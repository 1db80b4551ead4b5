"""The problem of a stream: its examples are never at hand all at once, and its certificate is made by parts.

    P(w) = R(w) + sum over parts of sum_i mass_i xi_i(w)
    D(a) = (sum over parts of b) - R*(- sum over parts of v),   b = sum a Delta,   v = sum a psi

Examples that no multiplier of the support names have all of their mass on the true output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.data.source import RUN, Chunk
from maxmargin.data.store import Store
from maxmargin.formulation import Formulation
from maxmargin.models.examples import Examples
from maxmargin.problem.certificate import Bounds
from maxmargin.problem.past import Past, PastProblem
from maxmargin.problem.plane import Support
from maxmargin.problem.problem import Problem, check_weight_of_risk
from maxmargin.problem.regularizer import SquaredNorm, dot


@dataclass(frozen=True)
class StreamSupport(Support):
    """The multipliers of a stream, in the order of its examples, and the D(a) that the solver found."""

    dual: float = float("nan")


class StreamedProblem(Problem):
    """A model on a source of examples.

    ``bind(X, Y)`` gives the model on some of them; ``part_bytes`` of them are read at a time for a
    certificate.
    """

    def __init__(
        self,
        bind: Callable[[Any, Any], Examples],
        source: Any,
        C: float,
        dimension: int,
        formulation: Formulation | None = None,
        n_jobs: int = 1,
        part_bytes: float = 2**23,
    ):
        self.bind_examples, self.source, self.part_bytes = bind, source, part_bytes
        self.C = check_weight_of_risk(C)
        self.formulation, self.summed = formulation or Formulation(), False
        self.rescaling, self.n_jobs = self.formulation.rescaling, n_jobs
        self.regularizer = SquaredNorm(np.asarray)
        self.dimension = dimension
        self.exact = self.bounded = True  # of the parts that were bound so far

    def check_source(self) -> None:
        """The source looks at its files whenever it hands out a chunk."""

    @property
    def n_blocks(self) -> int:  # type: ignore[override]
        return self.source.n

    @property
    def total(self) -> float:  # type: ignore[override]
        """The mass of all examples; of an iterable, of those that were read."""
        return self.C * self.source.weight

    def bind(self, store: Store, weights: np.ndarray, past: Past | None = None) -> Problem:
        """The problem of the examples in memory; above the plane of the others, where that is given."""
        X, Y = store.joined()
        try:
            examples = self.bind_examples(X, Y)
        except ValueError as error:
            raise ValueError(
                f"{error} (counted from the first of the examples in memory)"
            ) from None
        examples = examples.under(self.formulation)
        self.exact &= examples.exact
        self.bounded &= examples.bounded
        rest = (examples, self.C, weights, self.formulation, self.n_jobs)
        return Problem(*rest) if past is None else PastProblem(past, *rest)

    def parts(self) -> Iterator[tuple[Chunk, Problem]]:
        """All examples, some at a time."""
        layout = self.source.store()
        for chunk in self.source.chunks(layout, np.empty(0, np.int64), self.part_bytes):
            layout.parts = [chunk.part]
            yield chunk, self.bind(layout, chunk.weights)

    def certify(self, w: np.ndarray, support: Support, slacks: np.ndarray | None = None) -> Bounds:
        """Primal and dual of (w, multipliers) from their definitions, by one pass over the source."""
        reader = SupportReader(support)
        primal = seen = self.regularizer.value(w)
        offset, vector = 0.0, np.zeros(self.dimension)
        for chunk, problem in self.parts():
            own = reader.of(chunk.index, problem.examples)
            offset = offset if problem.feasible(own) else -np.inf
            slacks, ceilings = problem.checked_slacks(w, own)
            if chunk.index[0] == 0:  # one part is enough of a check
                problem.hold(w, ceilings)
            seen += dot(problem.mass, slacks)
            primal += dot(problem.mass, ceilings if self.bounded else slacks)
            b, v = plane_of(problem, own)
            offset += b
            vector += v
        dual, nothing = offset - self.regularizer.conjugate(-vector), np.empty(0)
        return Bounds(primal, dual, nothing, seen, nothing)

    def try_oracle(self) -> int:
        return 0  # no examples are at hand

    def hold(self, w: np.ndarray, ceilings: np.ndarray) -> None:
        return  # done in the exact pass

    def dual_objective(self, support: Support) -> float:
        """D(a) as the solver found it: the source need not be there any more."""
        assert isinstance(support, StreamSupport)
        return support.dual


def plane_of(problem: Problem, support: Support) -> tuple[float, np.ndarray]:
    """sum a Delta and sum a psi of some multipliers, from their definition."""
    return problem.examples.combine(support.blocks, support.multipliers, support.outputs)


def ascending(blocks: np.ndarray) -> bool:
    """Whether the numbers do not fall; they may be in a file, and are looked at in runs."""
    runs = (blocks[first : first + RUN + 1] for first in range(0, len(blocks), RUN))
    return all(bool((np.diff(run) >= 0).all()) for run in runs)


class SupportReader:
    """Multipliers in the order of the examples, a part of them at a time."""

    def __init__(self, support: Support):
        self.support, self.first = support, 0
        if not ascending(support.blocks):
            raise ValueError("the multipliers must be in the order of the examples")

    def of(self, index: np.ndarray, examples: Examples) -> Support:
        """The multipliers of the next examples, which are numbered from zero."""
        blocks, outputs = self.support.blocks, self.support.outputs
        a, b = np.searchsorted(blocks, [index[0], index[-1] + 1])
        own = np.searchsorted(index, blocks[a:b]).astype(np.int64)
        multipliers = np.array(self.support.multipliers[a:b])
        if isinstance(outputs, list):
            return Support(own, multipliers, outputs[a:b], partial=True)
        last = self.first + int(examples.output_sizes(own).sum())
        found = np.array(outputs[self.first : last])
        self.first = last
        return Support(own, multipliers, found, partial=True)
