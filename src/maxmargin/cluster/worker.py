"""Code that runs on a worker: its part of the data, bound to the model, and the dual points that it holds.

A step on part k, with R_k(u) = sum over its examples of mass_i xi_i(u):

    mix      set the current point a_k to the mixture, chosen by the driver, of the points held here
    measure  one exact pass at w: R_k(w), and the outputs found there as a further point, the cut
    propose  a few passes, starting at a_k, on   min_u  (1/2s) (u - m)' Sigma^-1 (u - m) + R_k(u),
             m = w - s Sigma q_k,   s = K / (1 + k)

The problem of ``propose`` is the part's problem with another prior, so every model and dual state can handle
it. A point is a feasible dual point of the part, with b = sum a Delta and q = - sum a psi. It is also a cut,
since R_k(u) >= b - <u, q> for every u.

Points live in this process, stored by run and part number. Each step has a version. A repeated request for
the same version gets the same answer. If the predecessor of a step was not made here, the worker refuses it.
So each point counts only once.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from maxmargin.cluster.source import ShardPart, read_part
from maxmargin.data.memory import laid_out
from maxmargin.estimators.base import Given
from maxmargin.problem import Problem, Support
from maxmargin.problem.plane import CompactVector, compact, joined_points, with_zeros
from maxmargin.problem.regularizer import Prior, SquaredNorm
from maxmargin.solvers.cut_state import slim, unslim
from maxmargin.solvers.proximal import PROBED, Proximal

CURRENT, FROZEN = -1, -2  # numbers of the current point of a part, and of a frozen (lost) one


@dataclass(frozen=True)
class Job:
    """Data that all parts share during a fit."""

    run: str
    svm: Any  # with the model initialised from all parts, without weights
    solver: Proximal
    passes: int  # passes per proposal
    seed: int


@dataclass(frozen=True)
class Order:
    """The order for a step of one part; ``pull`` is q_k if a frozen point has a share in it."""

    part: int
    version: int
    mixture: dict[int, float]
    keep: tuple[int, ...]
    stretch: float  # s
    tol: float  # currently wanted gap, in units of the loss
    pull: np.ndarray | None = None
    restart: bool = False  # start over if the predecessor was not made here


@dataclass(frozen=True)
class Point:
    """b and q of a dual point; the vector is sparse if that is shorter."""

    offset: float
    vector: CompactVector

    @property
    def dense(self) -> np.ndarray:
        """q as an array."""
        return with_zeros(self.vector)

    @property
    def finite(self) -> bool:
        """Whether all entries of q are finite."""
        q = self.vector
        return bool(np.isfinite(q if isinstance(q, np.ndarray) else q.data).all())


@dataclass(frozen=True)
class Missing:
    """The answer if the predecessor of a step was not made in this process."""

    worker: str


@dataclass(frozen=True)
class Answer:
    """The result of a step: R_k(w) as seen and as proven, and three points."""

    version: int
    worker: str
    fresh: bool  # whether the points held before are lost
    seen: float
    risk: float
    current: Point
    proposal: Point
    cut: Point
    oracle_calls: int
    planes: int
    seconds: float = 0.0  # seconds of its passes over the part


@dataclass(frozen=True)
class Facts:
    """Facts about a part that the driver needs before the first step."""

    worker: str
    n: int
    total: float  # C sum v
    exact: bool
    bounded: bool
    kernelised: bool
    regularizer: SquaredNorm
    square: float = 0.0  # mean |psi|^2 and mean Delta at the first w, for k
    loss: float = 0.0
    unit: float = 1.0
    full: bool = False
    oracle_calls: int = 0


@dataclass
class WorkerPart:
    """An open part: its problem, its points by number, and its last answer."""

    problem: Problem
    points: dict[int, Support] = field(default_factory=dict)
    version: int = 0
    answer: Answer | None = None


STATES: dict[tuple[str, int], WorkerPart] = {}  # the open parts of this process


@cache
def blas() -> ThreadpoolController:
    """The BLAS libraries of this process, cached because the search takes milliseconds."""
    return ThreadpoolController()


@contextmanager
def threads_of_blas(svm: Any) -> Iterator[None]:
    """Limit BLAS to as many threads as the estimator uses (``n_jobs``)."""
    with blas().limit(limits=svm._jobs(), user_api="blas"):
        yield


def here() -> str:
    """The address of this worker; empty outside a worker process."""
    from distributed import get_worker

    try:
        return get_worker().address
    except ValueError:
        return ""


def forget(run: str) -> None:
    """Delete all parts of a run."""
    for key in [key for key in STATES if key[0] == run]:
        del STATES[key]


def opened_part(job: Job, part: int, data: Any) -> WorkerPart:
    """Read a part and bind it to the common model."""
    X, Y, weights = read_part(job.svm, data)
    given = job.svm._read(Given(X, Y, weights), reset=False)
    examples = job.svm._bind(replace(given, model=job.svm.model_))
    weights = job.svm._example_weights(given.Y, weights)
    state = WorkerPart(job.svm._problem_of(examples, weights, job.svm._jobs()))
    STATES[job.run, part] = state
    return state


def start(job: Job, part: int, data: Any) -> Facts:
    """Open a part; return its size, weight and capabilities."""
    with threads_of_blas(job.svm):
        return facts_of(job, part, data)


def facts_of(job: Job, part: int, data: Any) -> Facts:
    """Open a part and probe it."""
    problem = opened_part(job, part, data).problem
    kernelised = problem.examples.kernelised
    facts = Facts(
        here(),
        problem.n_blocks,
        problem.total,
        problem.exact,
        problem.bounded,
        kernelised,
        SquaredNorm(np.asarray) if kernelised else problem.regularizer,
    )
    if kernelised or problem.regularizer.free is not None:
        return facts  # the driver refuses such problems
    tried = problem.try_oracle() if problem.checked else 0
    rng = np.random.default_rng([job.seed, part])
    dual = job.solver.open(problem, 1.0, rng, k=0.0, precision="double").dual
    square, loss = dual.probe(rng.permutation(problem.active)[:PROBED])
    calls = tried + dual.oracle_calls
    return replace(
        facts, square=square, loss=loss, unit=dual.unit, full=dual.full, oracle_calls=calls
    )


def step(job: Job, order: Order, data: Any, w: CompactVector) -> Answer | Missing:
    """Run one step of a part."""
    state = STATES.get((job.run, order.part))
    if state is not None and state.answer is not None and state.version == order.version:
        return state.answer
    fresh = state is None or state.version != order.version - 1
    if fresh:
        if not order.restart:
            return Missing(here())
        state = opened_part(job, order.part, data)
    assert state is not None
    with threads_of_blas(job.svm):  # ``laid_out``: arrays from messages are not aligned
        answer = obey(state, job, order, laid_out(with_zeros(w), np.float64), fresh)
    state.version, state.answer = order.version, answer
    return answer


def obey(state: WorkerPart, job: Job, order: Order, w: np.ndarray, fresh: bool) -> Answer:
    """Mix, measure and propose, as ordered."""
    problem, rng = state.problem, np.random.default_rng([job.seed, order.part, order.version])
    points = {} if fresh else state.points
    mixture = mixed(points, order.mixture) if points else truth(problem)
    b, v = problem.plane(mixture)
    pull = -v if order.pull is None else order.pull
    local = sub_problem(problem, w, order.stretch, pull)
    inner = job.solver.open(
        local, order.tol, rng, mixture if points else None, k=0.0, precision="double"
    )
    current = inner.dual.support()  # adds up the multipliers of outputs that several points share
    began = time.perf_counter()
    cut = problem.cut(w)
    found, ceilings = problem.checked_slacks(w, current, cut.slacks)
    for _ in range(job.passes):
        job.solver.round(local, inner, local.active)
    seconds = time.perf_counter() - began
    proposal = inner.dual.support()
    gain, u = problem.plane(proposal)
    vertex = Support(np.arange(problem.n_blocks), problem.mass, slim(cut.outputs))
    numbers = CURRENT, 2 * order.version, 2 * order.version + 1
    made = zip(numbers, (slimmed(current), slimmed(proposal), vertex), strict=True)
    kept = {number: points[number] for number in order.keep if number in points}
    state.points = kept | dict(made)
    exact = 1 if problem.exact else 2
    return Answer(
        order.version,
        here(),
        fresh,
        problem.objective(w, found, 0.0),
        problem.objective(w, ceilings if problem.bounded else found, 0.0),
        Point(b, compact(-v)),
        Point(gain, compact(-u)),
        Point(cut.offset, compact(-cut.vector)),
        exact * problem.n_blocks + inner.dual.oracle_calls,
        len(current),
        seconds,
    )


def truth(problem: Problem) -> Support:
    """The dual point with all multipliers on the true outputs."""
    outputs: Any = [] if problem.examples.core is None else np.empty(0, np.int32)
    return Support(np.empty(0, np.int64), np.empty(0), outputs, partial=True)


def mixed(points: dict[int, Support], mixture: dict[int, float]) -> Support:
    """A mixture of points; outputs in several points appear once for each."""
    found = joined_points([points[number].times(share) for number, share in mixture.items()])
    return replace(found, outputs=unslim(found.outputs))


def slimmed(point: Support) -> Support:
    """The same point with its labels stored in fewer bytes."""
    return replace(point, outputs=slim(point.outputs))


def sub_problem(problem: Problem, w: np.ndarray, stretch: float, q: np.ndarray) -> Problem:
    """The problem of a part with a prior that stands for all other parts."""
    prior, local = problem.regularizer, copy.copy(problem)
    scale = getattr(prior, "scale", 1.0) * math.sqrt(stretch)
    local.regularizer = Prior(w - stretch * prior.image(q), scale, None, prior.metric)
    return local


def prove(job: Job, w: np.ndarray, part: int, data: Any) -> None:
    """Compare the result of an exact pass of a Python model at w with its predictions there."""
    state = STATES.get((job.run, part)) or opened_part(job, part, data)
    w = laid_out(w, np.float64)
    state.problem.check_ceilings(w, state.problem.slack_bounds(w)[1])


def confirm(data: Any) -> None:
    """Compare mapped files with their checksums again, to show that all rounds saw the same examples."""
    if isinstance(data, ShardPart):
        data.read(None)


def collected(job: Job, part: int, data: Any) -> Support | None:
    """The multipliers of a part, or None if this worker does not hold them."""
    state = STATES.get((job.run, part))
    if state is None or CURRENT not in state.points:
        return None
    point = state.points[CURRENT]
    return replace(point, outputs=unslim(point.outputs))
