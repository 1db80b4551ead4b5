"""Cuts of the whole risk, their Gram matrix, their multipliers and w: the state of 1-slack cutting planes.

    risk(w) >= b_c + <g_c, w>  for every cut c;     D(beta) = <b, beta> - R*(- sum_c beta_c g_c)

with beta on the simplex. With a prior, w = m + Sigma q; without one, m = 0 and Sigma = I. Then
D(beta) = <b + <g, m>, beta> - 1/2 |sum_c beta_c g_c|^2 in the metric of Sigma. A cut takes
one output of every block, so it is a dual point of the problem. Any beta is a mixture of such dual
points, hence a dual point as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from maxmargin._core import core
from maxmargin.problem import Problem, Support
from maxmargin.problem.plane import CompactVector, Cut, inner, joined_points, thin
from maxmargin.problem.regularizer import Prior
from maxmargin.solvers.box_state import BoxState, open_box
from maxmargin.solvers.dual_state import open_state, unpriored

# Most steps of the inner quadratic program, since budgets are checked only between rounds.
QP_STEPS = 100_000
MOST_UNMERGED = 20  # cuts of the line search before they are merged into one


def solve_program(
    hessian: np.ndarray, offsets: np.ndarray, start: np.ndarray, tolerance: float
) -> tuple[np.ndarray, bool]:
    """Maximise <offsets, beta> - 1/2 beta' hessian beta over the simplex.

    Return beta, and whether it is optimal up to the tolerance.
    """
    beta = start.copy()
    left = core.simplex_qp(hessian, offsets, beta, tolerance, QP_STEPS)
    return beta / beta.sum(), left <= tolerance


@dataclass(frozen=True)
class PrimalPoint:
    """A w with its exact slacks and objective."""

    primal: float
    w: np.ndarray
    slacks: np.ndarray


@dataclass(frozen=True)
class Cuts:
    """All data of the cuts in one immutable value, so that an interrupt never leaves it half changed."""

    offsets: np.ndarray  # b_c + <g_c, m>
    beta: np.ndarray
    trial: np.ndarray  # beta of the program that has the proximal term
    idle: np.ndarray  # rounds that each cut had no multiplier
    pulls: np.ndarray  # <g_c, center - m>
    hessian: np.ndarray
    vectors: tuple[CompactVector, ...]
    points: tuple[Any, ...]  # each cut as a dual point

    @classmethod
    def none(cls) -> Cuts:
        """Return an empty set of cuts."""
        empty = np.empty(0)
        return cls(empty, empty, empty, np.empty(0, np.int64), empty, np.empty((0, 0)), (), ())

    def grown(
        self, offset: float, vector: np.ndarray, image: np.ndarray, pull: float, point: Any
    ) -> Cuts:
        """Return these cuts and one more, which has no multiplier yet; the Hessian grows by a row."""
        row = np.array([inner(g, image) for g in self.vectors] + [vector @ image])
        n = len(self.beta)
        hessian = np.empty((n + 1, n + 1))
        hessian[:n, :n] = self.hessian
        hessian[n, :] = hessian[:, n] = row
        return Cuts(
            np.append(self.offsets, offset),
            np.append(self.beta, 0.0),
            np.append(self.trial, 0.0),
            np.append(self.idle, 0),
            np.append(self.pulls, pull),
            hessian,
            (*self.vectors, thin(vector)),
            (*self.points, point),
        )

    def only(self, stays: np.ndarray) -> Cuts:
        """Return only the cuts at these places."""
        columns = ("offsets", "beta", "trial", "idle", "pulls")
        kept: dict[str, Any] = {name: getattr(self, name)[stays] for name in columns}
        kept |= {n: tuple(getattr(self, n)[c] for c in stays) for n in ("vectors", "points")}
        return Cuts(**kept, hessian=np.ascontiguousarray(self.hessian[np.ix_(stays, stays)]))


@dataclass
class CutState:
    """The state of 1-slack cutting planes."""

    tol: float
    w: np.ndarray
    everything: np.ndarray  # the numbers of all blocks, shared by the cuts
    cache: Any = None  # cache of the last outputs of each block, or None
    best: PrimalPoint | None = None
    gap: float = np.inf  # P(best) - D(beta), after the last exact cut
    rounds: int = 0  # number of cuts so far, including cuts from the cache
    cuts: Cuts = field(default_factory=Cuts.none)
    proximity: float = 0.0  # k of the proximal term k/2 |w - center|^2
    center: np.ndarray | None = None
    settled: bool = False  # whether no further cut would help
    lasting: bool = True  # whether the best primal of earlier rounds is still valid

    @property
    def beta(self) -> np.ndarray:
        """The multipliers of the cuts."""
        return self.cuts.beta

    @property
    def best_w(self) -> np.ndarray:
        """The best w so far, or w itself if none was evaluated yet, as after a warm start."""
        return self.w if self.best is None else self.best.w

    def add(
        self,
        problem: Problem,
        offset: float,
        vector: np.ndarray,
        point: Any,
        beta: np.ndarray | None = None,
    ) -> None:
        """Add a cut; `beta`, if given, becomes the multipliers of all cuts."""
        prior = problem.regularizer
        near = 0.0 if prior.mean is None else float(prior.mean @ vector)
        pull = 0.0
        if self.center is not None:
            pull = float(vector @ prior.metric(prior.centred(self.center)))
        cuts = self.cuts.grown(offset + near, vector, prior.image(vector), pull, point)
        self.cuts = cuts if beta is None else replace(cuts, beta=beta)

    def ask(self, problem: Problem) -> Cut:
        """Return a cut by the oracle at w, and add its outputs to the cache."""
        cut = problem.cut(self.w)
        if self.cache is not None:
            self.cache.add(cut.outputs)
            if not problem.exact:  # cached outputs may beat the oracle
                cut = problem.cut(self.w, self.cache)
        return cut

    def ask_cache(self, problem: Problem) -> Cut:
        """Return a cut of cached outputs at w."""
        return problem.cut(self.w, self.cache)

    def point(self, problem: Problem, cut: Cut) -> Any:
        """Return a cut as a dual point."""
        return Support(self.everything, problem.mass, slim(cut.outputs))

    def mixed(self, beta: np.ndarray) -> np.ndarray:
        """Return sum_c beta_c g_c."""
        total = np.zeros_like(self.w)
        for b, g in zip(beta, self.cuts.vectors, strict=True):
            if b <= 0:
                continue
            if isinstance(g, np.ndarray):
                total += b * g
            else:
                total[g.indices] += b * g.data
        return total

    def solve(self, problem: Problem, tolerance: float) -> bool:
        """Solve the program over the cuts from the current beta, then set w; return whether it was solved."""
        cuts = self.cuts
        beta, solved = solve_program(cuts.hessian, cuts.offsets, cuts.beta, tolerance)
        if self.proximity == 0:
            self.cuts = replace(cuts, beta=beta)
            self.w = problem.regularizer.law(-self.mixed(beta))
            return solved
        # With the proximal term: w = (k z + m - Sigma sum beta g) / (1 + k).
        assert self.center is not None
        shrink = 1 / (1 + self.proximity)
        offsets = cuts.offsets + self.proximity * shrink * cuts.pulls
        start = cuts.trial if cuts.trial.any() else beta
        trial, near = solve_program(cuts.hessian * shrink, offsets, start, tolerance)
        self.cuts = replace(cuts, beta=beta, trial=trial)
        law = problem.regularizer.law(-self.mixed(trial))
        self.w = shrink * (self.proximity * self.center + law)
        return solved and near

    def search_line(self, problem: Problem) -> None:
        """Move beta to the best point on the line to the newest cut, as in the proof of Theorem 5."""
        cuts = self.cuts
        towards = -cuts.beta
        towards[-1] += 1.0
        slope = float((cuts.offsets - cuts.hessian @ cuts.beta) @ towards)
        curvature = float(towards @ cuts.hessian @ towards)
        step = 1.0 if curvature <= slope else max(0.0, slope / curvature)
        beta = np.maximum(cuts.beta + step * towards, 0.0)
        self.cuts = replace(cuts, beta=beta / beta.sum())
        self.w = problem.regularizer.law(-self.mixed(self.beta))

    def dual(self) -> float:
        """Return D(beta)."""
        beta = self.beta
        return float(self.cuts.offsets @ beta - 0.5 * beta @ self.cuts.hessian @ beta)

    def risk(self, problem: Problem, w: np.ndarray) -> float:
        """Return the lower bound of the cuts on the risk at w."""
        prior, cuts = problem.regularizer, self.cuts
        image = prior.metric(prior.centred(w))
        return max(b + inner(g, image) for b, g in zip(cuts.offsets, cuts.vectors, strict=True))

    def recenter(self, problem: Problem, center: np.ndarray, proximity: float) -> None:
        """Set the centre and the weight of the proximal term."""
        self.proximity = proximity
        if center is not self.center:
            prior = problem.regularizer
            image = prior.metric(prior.centred(center))
            pulls = np.array([inner(g, image) for g in self.cuts.vectors])
            self.center, self.cuts = center, replace(self.cuts, pulls=pulls)

    def take_prior(self, before: Prior, prior: Prior) -> bool:
        """Continue with another mean; return False if the scales differ, since the Hessian is then wrong."""
        if not np.array_equal(before.scale, prior.scale):
            return False
        assert before.mean is not None and prior.mean is not None
        shift, cuts = prior.mean - before.mean, self.cuts
        rises = np.array([inner(g, shift) for g in cuts.vectors])
        # Pulls are relative to the mean.
        self.cuts = replace(cuts, offsets=cuts.offsets + rises, pulls=cuts.pulls - rises)
        self.best, self.gap, self.settled = None, np.inf, False
        return True

    def forget(self, keep: int) -> None:
        """Drop cuts that had no multiplier for `keep` rounds."""
        cuts = self.cuts
        idle = np.where((cuts.beta > 0) | (cuts.trial > 0), 0, cuts.idle + 1)
        cuts = replace(cuts, idle=idle)
        stays = np.flatnonzero(idle <= keep)
        self.cuts = cuts if len(stays) == len(idle) else cuts.only(stays)

    def gather(self, problem: Problem) -> None:
        """Merge all cuts into one if there are many: their mixture is a dual point as well."""
        if len(self.beta) <= MOST_UNMERGED:
            return
        offset, vector = float(self.cuts.offsets @ self.beta), self.mixed(self.beta)
        if problem.regularizer.mean is not None:
            offset -= float(problem.regularizer.mean @ vector)
        whole = CutState(self.tol, self.w, self.everything)
        whole.add(problem, offset, vector, self.mixture(problem), beta=np.ones(1))
        self.cuts = whole.cuts

    def mixture(self, problem: Problem) -> Any:
        """Return the mixture of the cuts by beta, as one dual point."""
        return self.merged(problem)

    def support(self) -> Support:
        """Return the multipliers of the blocks, summed over the cuts by their own multipliers."""
        pairs = zip(self.beta, self.cuts.points, strict=True)
        return joined_points([point.times(b) for b, point in pairs if b > 0])

    def merged(self, problem: Problem) -> Support:
        """Return the same support, with the multipliers of equal planes added up by a dual state."""
        state = open_state(unpriored(problem), self.tol, np.random.default_rng(0))
        state.restore(self.support())
        return state.support()

    def earlier(self, problem: Problem, warm: Support) -> tuple[Support, Any]:
        """Return the multipliers of an earlier fit for this problem, and again as the point of a cut."""
        point = warm.rescaled(problem.mass)
        return point, point


def parted(point: Support, sizes: np.ndarray) -> list[Support]:
    """Split a joint dual point into its parts; ``sizes`` has their numbers of planes and output lengths."""
    ends = np.cumsum(sizes, axis=0)
    if len(ends) == 0 or ends[-1].tolist() != [len(point), len(point.outputs)]:
        raise ValueError("a snapshot must have one plane for each cut")
    firsts = ends - sizes
    return [
        Support(point.blocks[a:b], point.multipliers[a:b], point.outputs[c:d])
        for (a, c), (b, d) in zip(firsts.tolist(), ends.tolist(), strict=True)
    ]


def slim(outputs: Any) -> Any:
    """Store labels in the smallest integer type, because a cut keeps an output of every block."""
    if not isinstance(outputs, np.ndarray) or len(outputs) == 0:
        return outputs
    return outputs.astype(np.min_scalar_type(int(outputs.max())))


def unslim(outputs: Any) -> Any:
    """Return the outputs in the integer type that the model takes."""
    return outputs.astype(np.int32) if isinstance(outputs, np.ndarray) else outputs


@dataclass
class SetCuts(CutState):
    """The state of 1-slack cutting planes for the summed error (OP2-1-slack).

        risk(w) = sum_i mass_i max over sets S_i of outputs: sum_{y in S_i} s_i(y)

    A cut is a set of violators for each block (Algorithm 1 of Balamurugan, Shevade and Babu),
    stored as a bit mask over all outputs found so far. A mixture beta of cuts is the dual point
    a_i(y) = mass_i (sum of beta over the cuts that contain y), which lies in the box.
    """

    box: BoxState = field(kw_only=True)

    def ask(self, problem: Problem) -> Cut:
        return self.box.cut(self.w, oracle=True)[0]

    def ask_cache(self, problem: Problem) -> Cut:
        return self.box.cut(self.w, oracle=False)[0]

    def point(self, problem: Problem, cut: Cut) -> np.ndarray:
        return cut.outputs

    def shares(self) -> np.ndarray:
        """Return a_i(y) / mass_i of the cached outputs, by number."""
        parts = [
            (beta, point if point.dtype == np.float64 else np.unpackbits(point))
            for beta, point in zip(self.beta, self.cuts.points, strict=True)
            if beta > 0
        ]
        shares = np.zeros(max((len(part) for _, part in parts), default=0))
        for beta, part in parts:
            shares[: len(part)] += beta * part
        return shares

    def mixture(self, problem: Problem) -> np.ndarray:
        return self.shares()

    def support(self) -> Support:
        self.box.core.set_shares(self.shares())
        return self.box.support()

    def merged(self, problem: Problem) -> Support:
        return self.support()

    def earlier(self, problem: Problem, warm: Support) -> tuple[Support, Any]:
        self.box.restore(warm)
        return self.box.support(), self.box.core.shares()

    def widen(self, problem: Problem, most: int) -> None:
        """Add violators at the best w that are not cached yet; if the gap stays small, end training."""
        if self.box.complete:
            return
        self.box.widen(most, self.best_w)
        left = self.reduced_primal(problem) - self.dual()
        self.settled: bool = left <= self.tol * problem.total

    def reduced_primal(self, problem: Problem) -> float:
        """Return the objective at the best w for the cached outputs alone."""
        cut = self.box.cut(self.best_w, oracle=False)[0]
        return problem.regularizer.value(self.best_w) + cut.risk


def open_set_cuts(problem: Problem, tol: float, rng: np.random.Generator, cached: bool) -> SetCuts:
    """Open a state whose only cut is the empty one, with all multipliers at zero."""
    box = open_box(problem, tol, rng, cuts=True)
    start = problem.regularizer.law(np.zeros(problem.dimension))
    state = SetCuts(tol, start, np.arange(problem.n_blocks), box=box)
    state.lasting = box.complete
    state.cache = True if cached and not box.complete else None
    zero: Any = np.zeros(0)
    state.add(problem, 0.0, np.zeros(problem.dimension), zero, beta=np.ones(1))
    return state
