"""Problem: the function that every solver minimises.

P(w) = R(w) + sum_i mass_i xi_i(w),     mass_i = C v_i
D(a) = sum a Delta - R*(- sum a psi),   a >= 0, sum_y a_i(y) = mass_i
hinge="sum":  xi_i(w) = sum_y max(0, s_i(y)),   0 <= a_i(y) <= mass_i; a_i(y) = 0 for omitted outputs
soft:         xi_i(w) = log sum_y exp(s_i(y)),  D(a) = sum_i mass_i (H(a_i) + E Delta) - R*(- sum a psi)

The losses and the features decide which C is small, not only their number. Let a be a dual point
for C with q = - sum a psi. For any C' the point a C' / C is feasible as well, hence

    P*(C') >= D(s a) = s sum a Delta - R*(s q),      s = C' / C

For R = 1/2 |w|^2 the right side grows with s until s = sum a Delta / |q|^2. Below that C'
(``useful_c``) even the best w hardly lowers the objective of w = 0: all multipliers that help are
at their bound, and w only grows with C'.
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

# A component of sum a psi counts as zero if it is below this share of sum a |psi|.
ZERO_SUM = 1e-10
LARGEST_WEIGHT = 1e150  # products of larger weights with large features may overflow
SMALLEST = 1e-300  # least allowed C sum v: below it, multipliers have too few digits
# If C is smaller than the useful C by this factor, no w lowers P(0) by more than a hundredth.
FAR_BELOW = 50.0
# A fit whose objective is above this share of P(0) has learnt next to nothing.
NOTHING_LEARNT = 0.99
SUBNORMAL = 1e-318  # largest rounding error of a sum of the smallest multipliers


class Problem:
    """A model on data, with C, example weights, a formulation and a regulariser.

    A block owns one slack. It is an example, or the whole sample if the loss is a loss of the whole
    sample. ``regularizer`` comes from ``make_regularizer``; None means 1/2 |w|^2. ``frozen`` is a
    fixed plane that replaces the risk of other examples or of unknown labels. It counts in P, in D
    and in the total mass.
    """

    n_blocks: int
    dimension: int
    exact: bool
    bounded: bool
    total: float

    # Set if the data are read part by part and never all in memory; see ``walk``.
    open_stream: Any = None
    first_part: Any = None
    # A value of C, a regulariser, and P at w = 0 (or the mean of a prior) for these two.
    _zero: tuple[float, SquaredNorm, float] | None = None
    # The last support whose plane was computed, and that plane.
    _plane: tuple[Support, tuple[float, np.ndarray]] | None = None
    sizes: Sizes | None = None  # sizes of the examples, cached for ``problem.rounding``

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
        # Whether an exact pass finds every slack, and whether it gives a proven upper bound on
        # each.
        self.exact, self.bounded = self.examples.exact, self.examples.bounded
        self.checked: bool = examples.checked
        if sample_weight is not None and examples.unweighted:
            raise ValueError(
                f"sample_weight (and class_weight) must be None: {examples.unweighted}"
            )
        self.regularizer: SquaredNorm = regularizer or SquaredNorm(examples.metric)
        if self.formulation.soft and self.regularizer.free is not None:
            raise ValueError(
                "the log loss needs a regulariser on every weight; use a finite scale in prior, "
                "and penalized_intercept=True"
            )
        self.n_jobs = n_jobs
        self.frozen = frozen
        self.weights: np.ndarray = np.ones(examples.n)
        if sample_weight is not None:
            self.weights = check_weights(sample_weight, examples.n)
        self._weigh(C)
        # The files of memory-mapped data. They are checked before each pass: if a file was
        # truncated, the core would read past its end.
        arrays = getattr(getattr(examples, "rows", None), "keep", None)
        self.files: MappedParts | None = arrays if isinstance(arrays, MappedParts) else None

    def _weigh(self, C: float) -> None:
        """Set C, and compute the masses from it."""
        self.C = float(C)
        self._plane = self.sizes = None
        with np.errstate(over="ignore"):  # check_total refuses an infinite mass
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
        """Return the same problem with another C."""
        # Otherwise its mass belongs to the old C.
        assert self.frozen is None or self.frozen.mass == 0
        other = copy.copy(self)
        other._weigh(C)
        return other

    def try_oracle(self) -> int:
        """Test a model's Python argmax before training; return the number of calls made."""
        return self.examples.try_argmax()  # type: ignore[attr-defined]

    def check_ceilings(self, w: np.ndarray, ceilings: np.ndarray) -> None:
        """Compare the ceilings of an exact pass at w with the predictions of a model in Python."""
        self.examples.check_ceilings(w, ceilings)  # type: ignore[attr-defined]

    def oracle(self, blocks: np.ndarray, w: np.ndarray) -> list[Plane]:
        """Return the worst plane of each block at w (for models written in Python)."""
        found = self.examples.oracle(blocks, w)  # type: ignore[attr-defined]
        return [
            Plane(int(i), loss, index, value)
            for i, (loss, (index, value)) in zip(blocks, found, strict=True)
        ]

    def cut(self, w: np.ndarray, cache: Any = None) -> Cut:
        """Return the plane of the whole set at w, from cached outputs or by an exact pass."""
        if cache is None:
            slacks, outputs = self.examples.worst(w, self.n_jobs)
        else:
            slacks, outputs = self.examples.worst_kept(cache, w, self.n_jobs)
        everything = np.arange(self.n_blocks)
        offset, vector = self.examples.combine(everything, self.mass, outputs, self.n_jobs)
        risk = float(np.einsum("i,i->", self.mass, slacks))
        return Cut(offset, vector, outputs, slacks, risk)

    def slacks(self, w: np.ndarray) -> np.ndarray:
        """Return xi_i(w) of every block, by an exact pass."""
        return self.slack_bounds(w)[0]

    def slack_bounds(self, w: np.ndarray, leeway: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Return the slacks that the argmax found at w, and an upper bound on each."""
        return self.examples.slacks(np.ascontiguousarray(w, np.float64), self.n_jobs, leeway)

    def relaxed_bounds(self, w: np.ndarray, prices: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Return both for the slacks of the linear relaxation, which are at least as large."""
        examples: Any = self.examples  # only factor graphs have this method
        return examples.relaxed_slacks(np.ascontiguousarray(w, np.float64), self.n_jobs, prices)

    def objective(
        self, w: np.ndarray, slacks: np.ndarray | None = None, start: float | None = None
    ) -> float:
        """Return P(w) by definition.

        If the argmax is a search that has ceilings, P uses the ceilings of the slacks. ``start`` is
        R(w) plus the risk of the parts before this one; None means R(w).
        """
        if slacks is None:
            found, ceilings = self.slack_bounds(w)
            slacks = ceilings if self.bounded or self.summed else found
        start = self.regularizer.value(np.asarray(w)) if start is None else start
        mass = self.mass
        if len(self.active) < len(mass):  # a block without weight may have an infinite ceiling
            mass, slacks = mass[self.active], slacks[self.active]
        value = start + float(np.einsum("i,i->", mass, slacks))
        if self.frozen is None:
            return value
        return value + self.frozen.offset - float(self.frozen.vector @ np.asarray(w))

    def tilt(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the risk of a soft formulation at w, and its gradient."""
        risk, gradient = self.examples.tilt(w, self.mass, self.n_jobs)  # type: ignore[attr-defined]
        if self.frozen is None:
            return risk, gradient
        linear = float(np.einsum("i,i->", self.frozen.vector, w))
        return risk + self.frozen.offset - linear, gradient - self.frozen.vector

    def zero_known(self) -> bool:
        """Return whether ``at_zero`` was already computed with this regulariser, for any C."""
        return self._zero is not None and self._zero[1] is self.regularizer

    def at_zero(self) -> float:
        """Return P at w = 0, or at the mean of a prior.

        It is C times the risk there, so one exact pass gives it for every C.
        """
        if self._zero is not None and self._zero[1] is self.regularizer:
            return self._zero[2] * (self.C / self._zero[0])
        w = self.regularizer.law(np.zeros(self.dimension))
        value = self.objective(w)
        if self.frozen is None and self.regularizer.value(w) == 0:
            self._zero = self.C, self.regularizer, value
        return value

    def walk(self, support: Support) -> Iterator[tuple[Problem, Support]]:
        """Yield each part of the problem with its multipliers; data in memory are one part."""
        yield self, support

    def certify(
        self,
        w: np.ndarray,
        support: Support,
        slacks: np.ndarray | None = None,
        leeway: float = 0.0,
    ) -> Bounds:
        """Compute primal and dual of (w, multipliers) from their definitions, part by part.

            P(w) = R(w) + sum over parts of sum_i mass_i xi_i(w)
            D(a) = (sum over parts of b) - R*(- sum over parts of v),   b = sum a Delta,   v = sum a psi

        ``slacks`` may be given if an exact pass at this w has just been made. If the argmax may
        miss the best output, the primal uses the ceilings of the slacks if they are known.
        ``leeway`` is how far a search may leave slack and ceiling apart, on average.
        """
        if self._plane is not None and self._plane[0] is not support:
            self._plane = None  # free the memory of the old plane: an exact pass needs it
        primal = seen = self.regularizer.value(w)
        rounding = Rounding(self.regularizer, self.frozen, w)
        offset, vector, first = 0.0, None, None
        for part, own in self.walk(support):
            known = part.slacks_beside(w, own) if slacks is None and part.examples.walks else slacks
            found, ceilings = part.checked_slacks(w, own, known, leeway)
            before, seen = seen, part.objective(w, found, seen)
            # Without ceilings, only infinity is a proven bound on hinge="sum".
            proven = part.bounded or part.summed
            same = before == primal and (ceilings is found or not proven)
            primal = seen if same else part.objective(w, ceilings if proven else found, primal)
            b, v = part.plane(own)
            offset, vector = offset + b, v if vector is None else vector + v
            first = first or (found, ceilings)
            rounding.add(part, own)
        assert first is not None and vector is not None
        largest = max(w.max(initial=0.0), -w.min(initial=0.0))
        if not largest < LARGEST_WEIGHT:  # the argmax may return anything
            primal = seen = math.inf
        dual = self.dual_of(offset, vector, support)
        above, below = rounding.errors(primal, offset, vector)
        if self.frozen is None:  # slacks are >= 0, so D >= 0 stays true despite rounding
            below = min(max(dual, 0.0), below)
        return Bounds(primal, dual, first[0], seen, first[1], above, below)

    def slacks_beside(self, w: np.ndarray, support: Support) -> np.ndarray | None:
        """Compute exact slacks at w and the plane of the support in one walk over the data.

        Return the slacks and cache the plane. Return None if one walk cannot do both.
        """
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
        """Return slacks by an exact pass and an upper bound on each.

        A model in Python is checked: no cached output may beat its argmax.
        """
        if support.relaxed:  # a labelling bounds nothing in the relaxation
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
        """Raise ValueError unless the multipliers are a dual point of this problem."""
        if not self.feasible(support):
            raise ValueError("the multipliers are not feasible for this problem")

    def feasible(self, support: Support) -> bool:
        """Return whether the multipliers are a dual point.

        Raise ValueError if they belong to other examples.
        """
        if self.summed:
            return self.in_box(support)
        a = support.multipliers
        sums = np.bincount(support.blocks, a, minlength=self.n_blocks)
        if support.partial:  # the mass of the other blocks is on their true outputs
            sums = np.where(sums == 0, self.mass, sums) if len(sums) == self.n_blocks else sums
        if len(sums) != self.n_blocks:
            raise ValueError(
                f"the multipliers belong to {len(sums)} examples, but X has {self.n_blocks}"
            )
        close = np.abs(sums - self.mass) <= SUBNORMAL + 1e-9 * self.mass
        return bool((a >= 0).all() and close.all())

    def in_box(self, support: Support) -> bool:
        """Return the same for hinge="sum": 0 <= a_i(y) <= mass_i, and no output is listed twice."""
        a, blocks = support.multipliers, support.blocks
        if len(blocks) and (blocks.min() < 0 or blocks.max() >= self.n_blocks):
            raise ValueError(
                f"the multipliers belong to {blocks.max() + 1} examples, but X has {self.n_blocks}"
            )
        if not self.examples.distinct(blocks, support.outputs):
            raise ValueError("the multipliers name an output twice")
        return bool((a >= 0).all() and (a <= self.mass[blocks]).all())

    def dual_objective(self, support: Support) -> float:
        """Return D(a) by definition, from the multipliers alone.

        It is minus infinity if they are not feasible. Multipliers that overflowed are not feasible:
        they bound nothing.
        """
        offset, vector = self.plane(support)
        return self.dual_of(offset, vector, support)

    def plane(self, support: Support) -> tuple[float, np.ndarray]:
        """Return sum a Delta and sum a psi; the first is minus infinity if a is not feasible.

        The plane of the last support is cached, because advice after training asks for it again.
        """
        if self._plane is None or self._plane[0] is not support:
            self._plane = None  # free the old plane first: it is as long as w
            self._plane = support, self._sum(support)
        return self._plane[1]

    def forget_plane(self) -> None:
        """Drop the cached plane of the last support: training does not need it."""
        self._plane = None

    def _sum(self, support: Support) -> tuple[float, np.ndarray]:
        if not self.feasible(support):
            return -np.inf, np.zeros(self.dimension)
        a = support.multipliers
        return self.examples.combine(support.blocks, a, support.outputs, self.n_jobs)

    def dual_of(self, offset: float, vector: np.ndarray, support: Support) -> float:
        """Return D(a), given sum a Delta and sum a psi."""
        if offset == -np.inf:
            return offset
        if self.frozen is not None:
            offset, vector = self.frozen.offset + offset, vector - self.frozen.vector
        free = self.regularizer.free
        if free is not None:  # sum a psi must be 0 at free weights, and is up to rounding
            vector = vector.copy()
            columns = np.flatnonzero(free)
            rows = self.examples.select(support.blocks, support.outputs, columns)
            noise = ZERO_SUM * (support.multipliers @ np.abs(rows))
            vector[columns] = np.where(np.abs(vector[columns]) <= noise, 0.0, vector[columns])
        return offset - self.regularizer.conjugate_of_sum(vector)

    def useful_c(self, support: Support) -> float:
        """Return the C at which the dual stops growing along these multipliers.

        It is infinite if the multipliers give w = 0. With a prior, R*(q) = <m, q> + 1/2 q' Sigma q.
        The values at q and -q separate the two terms.
        """
        offset, vector = self.plane(support)
        regularizer = self.regularizer
        there, back = regularizer.conjugate_of_sum(vector), regularizer.conjugate(vector)
        square, tilt = there + back, 0.5 * (there - back)
        if not 0 < square < np.inf or offset <= tilt:
            return np.inf
        return self.C * (offset - tilt) / square

    def first_c(self) -> float:
        """Return the useful C for the worst outputs at w = 0, by one exact pass.

        It is far below any C that is worth using.
        """
        cut = self.cut(np.zeros(self.dimension))
        return self.useful_c(Support(np.arange(self.n_blocks), self.mass, cut.outputs))

    def learns(self, support: Support, primal: float) -> bool:
        """Return whether the objective is more than a hundredth below P(0).

        Along these multipliers, P*(C) >= P(0) (1 - C / (2 useful)). P(0) costs an exact pass. It is
        computed only if this bound is above NOTHING_LEARNT P(0) and some w could help.
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
        """Return a lower bound on P(w) over all w that predict one label everywhere.

        The bound follows from xi_i(w) >= Delta_i(prediction).
        """
        if self.formulation.soft or self.frozen is not None:
            return 0.0
        return self.examples.least_constant_loss(self.mass)

    def floor_at_zero(self, support: Support) -> float:
        """Return a lower bound on P(0) of a soft formulation, or on P(m) with a prior of mean m.

        The slack xi_i(m) is the maximum over a_i of H(a_i) + E Delta + <m, E psi>, and the
        certified distributions are feasible.
        """
        offset, vector = self.plane(support)
        mean = self.regularizer.mean
        return offset if mean is None else offset + float(vector @ np.asarray(mean))


def check_total(C: float, total: float) -> None:
    """Check that the total mass is finite, and large enough for precise multipliers."""
    if not (C > 0 and SMALLEST <= total < np.inf):
        raise ValueError(
            f"C times sample_weight must have a finite sum, of at least {SMALLEST:g}, got {total} for C={C}: "
            "change C"
        )
