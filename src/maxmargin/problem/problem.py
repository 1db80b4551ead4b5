"""Problem: the function that every solver minimises.

P(w) = R(w) + sum_i mass_i xi_i(w),     mass_i = C v_i
D(a) = sum a Delta - R*(- sum a psi),   a >= 0, sum_y a_i(y) = mass_i
hinge="sum":  xi_i(w) = sum_y max(0, s_i(y)),   0 <= a_i(y) <= mass_i; outputs that a leaves out have a = 0
soft:         xi_i(w) = log sum_y exp(s_i(y)),   and sum a Delta stands for sum_i mass_i (H(a_i) + E Delta)

Which C is small follows from the losses and the features, not from their number alone. Let a be a dual point
for C with q = - sum a psi. For any C' the point a C' / C is feasible as well, hence

    P*(C') >= D(s a) = s sum a Delta - R*(s q),      s = C' / C

which for R = 1/2 |w|^2 grows until s = sum a Delta / |q|^2. Below that C' (``useful_c``) even the best w
hardly lowers the objective of w = 0: all multipliers that help are at their bound, and w only grows with C'.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from maxmargin.data.arrays import check_weights
from maxmargin.data.mapped import MappedParts
from maxmargin.formulation import Formulation
from maxmargin.models.examples import Examples
from maxmargin.problem.bounds import Bounds
from maxmargin.problem.plane import Cut, FrozenPlane, Plane, Support
from maxmargin.problem.regularizer import SquaredNorm
from maxmargin.problem.rounding import Rounding, Sizes

ZERO_SUM = 1e-10  # of sum a |psi_j|: a sum of a psi_j below this is zero
LARGEST_WEIGHT = 1e150  # beyond, its products with large features are not finite
SMALLEST = 1e-300  # of C sum v: below, a multiplier has too few digits
FAR_BELOW = 50.0  # times below the useful C: no w lowers P(0) by more than a hundredth
NOTHING_LEARNT = 0.99  # of P(0): an objective above it has learnt next to nothing
SUBNORMAL = 1e-318  # what rounding may do to the sum of the smallest multipliers


class Problem:
    """A model on data, with C, example weights, a formulation and a regulariser.

    A block has one slack: it is an example, or the whole sample where the loss is one of that.
    ``regularizer``: one of ``make_regularizer``; None is 1/2 |w|^2. ``frozen``: a fixed plane in place of the
    risk of other examples, or of unknown labels, which counts in P, in D and in the total mass.
    """

    n_blocks: int
    dimension: int
    exact: bool
    bounded: bool
    total: float

    # Where the examples are never in memory all at once: see ``parts``.
    open_stream: Any = None
    first_part: Any = None
    _zero: tuple[float, SquaredNorm, float] | None = None  # a C, a regulariser, and P there
    _plane: tuple[Support, tuple[float, np.ndarray]] | None = None  # of the last support asked for
    sizes: Sizes | None = None  # of the examples with these masses: ``problem.rounding``

    def __init__(
        self,
        examples: Examples,
        C: float = 1.0,
        sample_weight: Any = None,
        formulation: Formulation | None = None,
        n_jobs: int = 1,
        regularizer: SquaredNorm | None = None,
        frozen: FrozenPlane | None = None,
    ):
        self.examples: Examples = examples
        if formulation is not None and formulation != examples.formulation:
            self.examples = examples.under(formulation)
        self.formulation: Formulation = self.examples.formulation
        self.rescaling: str = self.formulation.rescaling
        self.n_blocks, self.dimension = examples.n, examples.dimension
        self.summed: bool = self.formulation.hinge == "sum"
        # Whether an exact pass finds every slack, and whether it has a proven ceiling for each.
        self.exact, self.bounded = self.examples.exact, self.examples.bounded
        self.checked: bool = examples.checked
        if sample_weight is not None and examples.unweighted:
            raise ValueError(
                f"sample_weight (and class_weight) must be None: {examples.unweighted}"
            )
        self.regularizer: SquaredNorm = regularizer or SquaredNorm(examples.metric)
        if self.formulation.soft and self.regularizer.free is not None:
            raise ValueError("the log loss is not solved with weights that have no regulariser")
        self.n_jobs = n_jobs
        self.frozen = frozen
        self.weights: np.ndarray = np.ones(examples.n)
        if sample_weight is not None:
            self.weights = check_weights(sample_weight, examples.n)
        self._weigh(C)
        # Mapped data, looked at before each pass: the core would read past the end of a file that was cut.
        arrays = getattr(getattr(examples, "rows", None), "keep", None)
        self.files: MappedParts | None = arrays if isinstance(arrays, MappedParts) else None

    def _weigh(self, C: float) -> None:
        """Take this weight of the risk."""
        self.C = float(C)
        self._plane = self.sizes = None
        with np.errstate(over="ignore"):  # what overflows is refused
            self.mass: np.ndarray = self.C * self.weights
            self.total = float(self.mass.sum())
        check_total(self.C, self.total)
        if self.examples.soft_truth is not None:
            offset, vector = self.examples.soft_truth.plane(self.mass, self.n_jobs)
            self.frozen = FrozenPlane(offset, vector, 0.0)
        if self.frozen is not None:
            self.total += self.frozen.mass
            check_total(self.C, self.total)
        self.active: np.ndarray = np.flatnonzero(self.mass > 0)

    def at(self, C: float) -> Problem:
        """The same problem with another weight of the risk."""
        assert self.frozen is None or self.frozen.mass == 0  # else its mass has the old C
        other = copy.copy(self)
        other._weigh(C)
        return other

    def try_oracle(self) -> int:
        """Try an argmax in Python before training; returns how often it was asked."""
        return self.examples.try_argmax()  # type: ignore[attr-defined]

    def check_ceilings(self, w: np.ndarray, ceilings: np.ndarray) -> None:
        """Compare the ceilings of an exact pass at w with what a model in Python predicts there."""
        self.examples.check_ceilings(w, ceilings)  # type: ignore[attr-defined]

    def oracle(self, blocks: np.ndarray, w: np.ndarray) -> list[Plane]:
        """The worst plane of each block at w (for models written in Python)."""
        found = self.examples.oracle(blocks, w)  # type: ignore[attr-defined]
        return [
            Plane(int(i), loss, index, value)
            for i, (loss, (index, value)) in zip(blocks, found, strict=True)
        ]

    def cut(self, w: np.ndarray, cache: Any = None) -> Cut:
        """The plane of the whole set at w: of the outputs in a cache, or by an exact pass."""
        if cache is None:
            slacks, outputs = self.examples.worst(w, self.n_jobs)
        else:
            slacks, outputs = self.examples.worst_kept(cache, w, self.n_jobs)
        everything = np.arange(self.n_blocks)
        offset, vector = self.examples.combine(everything, self.mass, outputs, self.n_jobs)
        risk = float(np.einsum("i,i->", self.mass, slacks))
        return Cut(offset, vector, outputs, slacks, risk)

    def slacks(self, w: np.ndarray) -> np.ndarray:
        """xi_i(w) of every block, by an exact pass."""
        return self.slack_bounds(w)[0]

    def slack_bounds(self, w: np.ndarray, leeway: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """xi_i(w) as far as the argmax found it, and what it cannot exceed."""
        return self.examples.slacks(np.ascontiguousarray(w, np.float64), self.n_jobs, leeway)

    def relaxed_bounds(self, w: np.ndarray, prices: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """The same for the slacks of the linear relaxation, which are at least as large."""
        examples: Any = self.examples  # graphs
        return examples.relaxed_slacks(np.ascontiguousarray(w, np.float64), self.n_jobs, prices)

    def objective(
        self, w: np.ndarray, slacks: np.ndarray | None = None, start: float | None = None
    ) -> float:
        """P(w) by definition; at the ceilings of the slacks where the argmax is a search that has them.

        ``start`` is that of the parts before this one.
        """
        if slacks is None:
            found, ceilings = self.slack_bounds(w)
            slacks = ceilings if self.bounded or self.summed else found
        start = self.regularizer.value(np.asarray(w)) if start is None else start
        mass = self.mass
        if len(self.active) < len(mass):  # an infinite ceiling without weight does not count
            mass, slacks = mass[self.active], slacks[self.active]
        value = start + float(np.einsum("i,i->", mass, slacks))
        if self.frozen is None:
            return value
        return value + self.frozen.offset - float(self.frozen.vector @ np.asarray(w))

    def tilt(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """The risk of a soft formulation at w, and its gradient."""
        risk, gradient = self.examples.tilt(w, self.mass, self.n_jobs)  # type: ignore[attr-defined]
        if self.frozen is None:
            return risk, gradient
        linear = float(np.einsum("i,i->", self.frozen.vector, w))
        return risk + self.frozen.offset - linear, gradient - self.frozen.vector

    def zero_known(self) -> bool:
        """Whether ``at_zero`` was computed for this C, or for another."""
        return self._zero is not None and self._zero[1] is self.regularizer

    def at_zero(self) -> float:
        """P at w = 0 or the mean of a prior: C times the risk there, which one exact pass finds for all C."""
        if self._zero is not None and self._zero[1] is self.regularizer:
            return self._zero[2] * (self.C / self._zero[0])
        w = self.regularizer.law(np.zeros(self.dimension))
        value = self.objective(w)
        if self.frozen is None and self.regularizer.value(w) == 0:
            self._zero = self.C, self.regularizer, value
        return value

    def walk(self, support: Support) -> Iterator[tuple[Problem, Support]]:
        """The problem part by part, with the multipliers of each: one part where all are in memory."""
        yield self, support

    def certify(
        self,
        w: np.ndarray,
        support: Support,
        slacks: np.ndarray | None = None,
        leeway: float = 0.0,
    ) -> Bounds:
        """Primal and dual of (w, multipliers) from their definitions, part by part.

            P(w) = R(w) + sum over parts of sum_i mass_i xi_i(w)
            D(a) = (sum over parts of b) - R*(- sum over parts of v),   b = sum a Delta,   v = sum a psi

        ``slacks`` may be given where an exact pass at this w has just been made. Where the argmax may miss
        the best output, the primal is made of the ceilings of the slacks, if these are known: a search may
        leave ``leeway`` between the two, on average.
        """
        if self._plane is not None and self._plane[0] is not support:
            self._plane = None  # not beside what an exact pass needs
        primal = seen = self.regularizer.value(w)
        rounding = Rounding(self.regularizer, self.frozen, w)
        offset, vector, first = 0.0, None, None
        for part, own in self.walk(support):
            known = part.slacks_beside(w, own) if slacks is None and part.examples.walks else slacks
            found, ceilings = part.checked_slacks(w, own, known, leeway)
            before, seen = seen, part.objective(w, found, seen)
            # A sum without a ceiling is infinite, for all that is known.
            proven = part.bounded or part.summed
            same = before == primal and (ceilings is found or not proven)
            primal = seen if same else part.objective(w, ceilings if proven else found, primal)
            b, v = part.plane(own)
            offset, vector = offset + b, v if vector is None else vector + v
            first = first or (found, ceilings)
            rounding.add(part, own)
        assert first is not None and vector is not None
        largest = max(w.max(initial=0.0), -w.min(initial=0.0))
        if not largest < LARGEST_WEIGHT:  # the argmax may find anything
            primal = seen = math.inf
        dual = self.dual_of(offset, vector, support)
        above, below = rounding.errors(primal, offset, vector)
        if self.frozen is None:  # no slack is negative: rounding takes no bound below zero
            below = min(max(dual, 0.0), below)
        return Bounds(primal, dual, first[0], seen, first[1], above, below)

    def slacks_beside(self, w: np.ndarray, support: Support) -> np.ndarray | None:
        """Exact slacks at w, where the walk that finds them makes the plane of the support as well."""
        if self.n_jobs > 1 or support.relaxed or not self.feasible(support):
            return None
        examples: Any = self.examples
        point = np.ascontiguousarray(w, np.float64)
        both = examples.slacks_and_plane(
            point, support.blocks, support.multipliers, support.outputs
        )
        if both is None:
            return None
        self._plane = support, both[1]
        return both[0]

    def checked_slacks(
        self, w: np.ndarray, support: Support, slacks: np.ndarray | None, leeway: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Slacks by an exact pass, and what they cannot exceed; compared with the kept outputs."""
        if support.relaxed:  # a labelling says nothing about the relaxation
            ceilings = np.maximum(*self.relaxed_bounds(w, support.prices))
            return ceilings, ceilings
        if slacks is None or not self.exact:
            slacks, ceilings = self.slack_bounds(w, leeway)
        else:
            ceilings = slacks
        if self.checked:
            self.examples.check_slacks(w, slacks, support.blocks, support.outputs)  # type: ignore[attr-defined]
        return slacks, slacks if ceilings is slacks else np.maximum(slacks, ceilings)

    def check_feasible(self, support: Support) -> None:
        """Refuse multipliers that are not a dual point of this problem."""
        if not self.feasible(support):
            raise ValueError("the multipliers are not feasible for this problem")

    def feasible(self, support: Support) -> bool:
        """Whether multipliers are a dual point; refuses those of other examples."""
        if self.summed:
            return self.in_box(support)
        a = support.multipliers
        sums = np.bincount(support.blocks, a, minlength=self.n_blocks)
        if support.partial:  # the other blocks have theirs on the true output
            sums = np.where(sums == 0, self.mass, sums) if len(sums) == self.n_blocks else sums
        if len(sums) != self.n_blocks:
            raise ValueError(
                f"the multipliers are those of {len(sums)} examples, but X has {self.n_blocks}"
            )
        close = np.abs(sums - self.mass) <= SUBNORMAL + 1e-9 * self.mass
        return bool((a >= 0).all() and close.all())

    def in_box(self, support: Support) -> bool:
        """The same for hinge="sum": no multiplier above its block's mass, no output twice."""
        a, blocks = support.multipliers, support.blocks
        if len(blocks) and (blocks.min() < 0 or blocks.max() >= self.n_blocks):
            raise ValueError(
                f"the multipliers are those of {blocks.max() + 1} examples, but X has {self.n_blocks}"
            )
        if not self.examples.distinct(blocks, support.outputs):
            raise ValueError("the multipliers name an output twice")
        return bool((a >= 0).all() and (a <= self.mass[blocks]).all())

    def dual_objective(self, support: Support) -> float:
        """D(a) by definition, from the multipliers alone; minus infinity where they are not feasible.

        Multipliers that have overflowed are not: nothing is bounded then.
        """
        offset, vector = self.plane(support)
        return self.dual_of(offset, vector, support)

    def plane(self, support: Support) -> tuple[float, np.ndarray]:
        """sum a Delta and sum a psi; the former is minus infinity where a is not feasible.

        Those of the last support are kept: who asks for advice asks for what was just certified.
        """
        if self._plane is None or self._plane[0] is not support:
            self._plane = None  # before the next is made: it is as long as w
            self._plane = support, self._sum(support)
        return self._plane[1]

    def forget_plane(self) -> None:
        """Let go of the plane of the last support: nobody asks for it while training goes on."""
        self._plane = None

    def _sum(self, support: Support) -> tuple[float, np.ndarray]:
        if not self.feasible(support):
            return -np.inf, np.zeros(self.dimension)
        a = support.multipliers
        return self.examples.combine(support.blocks, a, support.outputs, self.n_jobs)

    def dual_of(self, offset: float, vector: np.ndarray, support: Support) -> float:
        """D(a) from sum a Delta and sum a psi."""
        if offset == -np.inf:
            return offset
        if self.frozen is not None:
            offset, vector = self.frozen.offset + offset, vector - self.frozen.vector
        free = self.regularizer.free
        if free is not None:  # a sum of zero is asked for, and met to rounding
            vector = vector.copy()
            columns = np.flatnonzero(free)
            rows = self.examples.select(support.blocks, support.outputs, columns)
            noise = ZERO_SUM * (support.multipliers @ np.abs(rows))
            vector[columns] = np.where(np.abs(vector[columns]) <= noise, 0.0, vector[columns])
        return offset - self.regularizer.conjugate_of_sum(vector)

    def useful_c(self, support: Support) -> float:
        """The C at which the dual stops to grow along these multipliers; infinite where they give no w.

        R*(q) = <m, q> + 1/2 q' Sigma q for a prior: the value at -q separates its two parts.
        """
        offset, vector = self.plane(support)
        regularizer = self.regularizer
        there, back = regularizer.conjugate_of_sum(vector), regularizer.conjugate(vector)
        square, tilt = there + back, 0.5 * (there - back)
        if not 0 < square < np.inf or offset <= tilt:
            return np.inf
        return self.C * (offset - tilt) / square

    def first_c(self) -> float:
        """The same along the worst outputs at w = 0, by one exact pass: a C far below any that is of use."""
        cut = self.cut(np.zeros(self.dimension))
        return self.useful_c(Support(np.arange(self.n_blocks), self.mass, cut.outputs))

    def learns(self, support: Support, primal: float) -> bool:
        """Whether the objective is below that of w = 0, by more than a hundredth.

        P*(C) >= P(0) (1 - C / (2 useful)) along these multipliers: P(0), an exact pass, is looked at only
        where that is above NOTHING_LEARNT, and there is a w that could help.
        """
        if self.formulation.soft:
            if primal < NOTHING_LEARNT * self.floor_at_zero(support):
                return True
            return not primal >= NOTHING_LEARNT * self.at_zero()
        if not FAR_BELOW * self.C < self.useful_c(support) < np.inf:
            return True
        zero = self.at_zero()
        return not primal >= NOTHING_LEARNT * zero > 0

    def floor_of_constant(self) -> float:
        """At most P(w) of any w that predicts one label alone: xi_i(w) >= Delta_i of what is predicted."""
        if self.formulation.soft or self.frozen is not None:
            return 0.0
        return self.examples.least_constant_loss(self.mass)

    def floor_at_zero(self, support: Support) -> float:
        """At most P(0) of a soft formulation, by the distributions a; with a prior, P at its mean m.

        xi_i(m) = max over a_i of H(a_i) + E Delta + <m, E psi>: those that were certified are some of them.
        """
        offset, vector = self.plane(support)
        mean = self.regularizer.mean
        return offset if mean is None else offset + float(vector @ np.asarray(mean))


def check_total(C: float, total: float) -> None:
    """Refuse a mass of all examples that is not finite, or too small for multipliers to have digits."""
    if not (C > 0 and SMALLEST <= total < np.inf):
        raise ValueError(
            f"C times sample_weight must have a finite sum, of at least {SMALLEST:g}, got {total} for C={C}: "
            "change C"
        )
