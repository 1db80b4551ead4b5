"""The driver: rounds of proposals and their mixture, until the certificate is good enough.

    P(w) = R(w) + sum_k R_k(w)       R_k(w) = sum over the examples of part k of mass_i xi_i(w)
    D    = sum_k b_k - R*(sum_k q_k)

A round broadcasts w = (m + k z + Sigma q) / (1 + k), with the centre z = w + 0.4 (w - w before). The parts
measure R_k(w) and propose points (see ``worker``). The driver then finds the best mixture of all points (see
``bundle``). k starts and falls as in ``solvers.Proximal``. P and D are exact and cover all parts: P uses the
slacks of each example at one w, D uses b and q of the multipliers that the workers hold.

The first w has q = 0, so that the first P is P(0), which tol="auto" needs. Each step also sends the gap
that is currently wanted to the workers.

The first round waits for all parts. A later round leaves out a late part, whose points count when they
arrive; P needs a round that all parts have answered. If a worker dies, its points are lost: its part
starts over from the true outputs, while (b, q) of the lost points remains a valid bound. Training has
converged only when no part gives weight to lost points.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from maxmargin.callbacks import Callback, Progress
from maxmargin.checkpoint import CheckpointFile
from maxmargin.cluster.bundle import Bundle
from maxmargin.cluster.pool import PartError, Pool, connected
from maxmargin.cluster.source import FilePart
from maxmargin.cluster.worker import Answer, Facts, Job, Order
from maxmargin.data.digest import digest_of
from maxmargin.io.fields import FieldError, count, number, table
from maxmargin.problem import Certificate, Status, Tolerance, gap_between
from maxmargin.problem.plane import compact, inner
from maxmargin.result import History
from maxmargin.solvers.proximal import Proximal, ProximalTerm

# After this many rounds in a row with late parts, a round waits for all parts; a larger number delays P.
MOST_LATE_ROUNDS = 5
# The master problem is solved to this share of the gap. The error of the dual is about the square of the
# error of the primal, so with a coarser solution rounds would stop gaining anything.
QP_SHARE = 1e-5
# A bound may exceed the risk by this share because sums of many terms are rounded. A smaller share raises
# false alarms, a larger one hides real contradictions.
BOUND_ROUNDING = 1e-6


@dataclass
class ClusterRounds(ProximalTerm):
    """The state of the driver."""

    pool: Pool
    job: Job
    handle: Any  # future of the job, on the cluster
    facts: list[Facts]
    bundle: Bundle
    options: dict[str, Any]
    tolerance: Tolerance
    k: float
    w: np.ndarray
    w_before: np.ndarray
    z: np.ndarray
    started: float = field(default_factory=time.perf_counter)
    history: History = field(default_factory=History)
    round: int = 0
    versions: list[int] = field(default_factory=list)
    sent: dict[int, np.ndarray] = field(default_factory=dict)  # w of each part's last step
    complete: int = 0  # last round that all parts answered
    oracle_calls: int = 0
    pass_seconds: float = 0.0  # seconds of the workers' passes, summed over parts
    round_seconds: float = 0.0  # seconds of the rounds in this run
    planes: int = 0
    primal: float = math.inf
    seen: float = math.inf
    # D of the points that workers hold; -infinity while a part gives weight to a lost point.
    dual: float = -math.inf
    bound: float = -math.inf  # best lower bound proven so far
    best: np.ndarray | None = None
    least: float = math.inf  # least gap; ``stalled`` counts the rounds since
    stalled: int = 0
    status: Status | None = None

    @property
    def total(self) -> float:
        return sum(own.total for own in self.facts)

    @property
    def passes(self) -> float:
        return self.oracle_calls / sum(own.n for own in self.facts)

    @property
    def bounded(self) -> bool:
        return all(own.bounded for own in self.facts)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    @property
    def deadline(self) -> float:
        most = self.options["max_seconds"]
        return math.inf if most is None or self.best is None else self.started + most

    @property
    def tol(self) -> float:
        return self.tolerance.at(self.primal, self.bound)

    @property
    def gap(self) -> float:
        return gap_between(self.primal, self.dual, self.total)

    @property
    def stretch(self) -> float:
        """s of the subproblems of the parts."""
        return len(self.pool) / (1 + self.k)

    def advance(self) -> None:
        """Run one round."""
        began = time.perf_counter()
        self.round += 1
        solver, bundle = self.job.solver, self.bundle
        self.z = self.w + solver.momentum * (self.w - self.w_before)
        self.w_before = self.w
        q = bundle.q()
        self.w = bundle.weights(self.k, self.z, q)
        self._send()
        late = self.complete == 0 or self.round - self.complete >= MOST_LATE_ROUNDS
        answers = self.pool.receive(self.handle, late or len(self.pool) == 1, self.deadline)
        for part, answer in answers.items():
            self._check(part, answer)
        bundle.receive(answers)
        self.oracle_calls += sum(answer.oracle_calls for answer in answers.values())
        self.pass_seconds += sum(answer.seconds for answer in answers.values())
        self._measure(answers)
        known = math.isfinite(self.primal)
        missing = min(self.primal - self.bound, self.total) if known else math.inf
        left = QP_SHARE * max(missing, self.tol * self.total)
        bundle.solve(sorted(answers), self.k, self.z, left)
        self.w = bundle.weights(self.k, self.z, bundle.q())
        if gap_between(self.primal, self.bound, self.total) <= self.tol:
            bundle.thaw()  # the lost points are no longer needed
        self.round_seconds += time.perf_counter() - began

    def _send(self) -> None:
        """Send a step to every part that is not busy."""
        shared, stretch = self.pool.share(compact(self.w)), self.stretch
        for part in range(len(self.pool)):
            if part in self.pool.pending:
                continue
            mixture, keep, pull = self.bundle.order(part)
            self.versions[part] += 1
            order = Order(part, self.versions[part], mixture, keep, stretch, self.tol, pull)
            self.sent[part] = self.w
            self.pool.send(self.handle, order, shared)

    def _check(self, part: int, answer: Answer) -> None:
        """Raise an error if an answer holds numbers that are not finite or contradict a bound."""
        points = answer.current, answer.proposal, answer.cut
        numbers = [answer.seen, answer.risk, *(point.offset for point in points)]
        if not np.isfinite(numbers).all() or not all(point.finite for point in points):
            raise PartError(
                f"part {part}: {answer.worker or 'its worker'} sent numbers that are not finite; "
                "scale the features, lower C, or check the worker"
            )
        if self.facts[part].bounded:
            self._check_bounds(part, answer)

    def _check_bounds(self, part: int, answer: Answer) -> None:
        """Raise an error if a point of a part, old or new, violates R_k(w) >= b - <w, q>."""
        points, rows = (answer.current, answer.proposal, answer.cut), self.bundle.slots(part)
        offsets = np.append(self.bundle.offsets.ravel()[rows], [p.offset for p in points])
        w = self.sent[part]
        slopes = np.append(self.bundle.slopes(rows, w), [inner(p.vector, w) for p in points])
        noise = BOUND_ROUNDING * (np.abs(offsets) + np.abs(slopes) + self.facts[part].total)
        if (offsets - slopes > answer.risk + noise).any():
            raise PartError(
                f"part {part}: the answer of {answer.worker or 'its worker'} contradicts earlier "
                "answers; its data, its worker or the checkpoint have changed"
            )

    def _measure(self, answers: dict[int, Answer]) -> None:
        """Update D; update P if all parts have answered for the same w."""
        bundle, w = self.bundle, self.w
        q = bundle.q()
        dual = bundle.dual(q)
        self.bound = max(self.bound, dual)
        self.dual = -math.inf if bundle.frozen else dual
        if len(answers) < len(self.pool) or any(self.sent[k] is not w for k in answers):
            return
        self.complete = self.round
        start = bundle.regularizer.value(w)
        risk = sum(answer.risk for answer in answers.values())
        self.planes = sum(answer.planes for answer in answers.values())
        self.seen = min(self.seen, start + sum(answer.seen for answer in answers.values()))
        if self.round == 1:
            self.tolerance = replace(self.tolerance, zero=start + risk)
        if start + risk < self.primal or self.best is None:
            self.primal, self.best = start + risk, w
        if not math.isfinite(start + risk) or not math.isfinite(dual):
            self.status = Status.NUMERICAL
        gap, lag = start + risk - dual, start + bundle.regularizer.conjugate(q) - float(w @ q)
        self.balance(gap, gap - lag, lag, self.job.solver.decay)

    def settle(self) -> None:
        """Set the status if training is to end."""
        if self.status is not None:
            return
        if self.gap <= self.tol and not self.bundle.frozen:
            self.status = Status.SOLVED if self.bounded else Status.INEXACT
        elif gap_between(self.seen, self.dual, self.total) <= self.tol:
            self.status = Status.INEXACT
        elif self.passes >= self.options["max_passes"]:
            self.status = Status.PASS_LIMIT
        elif time.perf_counter() >= self.deadline:
            self.status = Status.TIME_LIMIT

    def known(self) -> dict[str, Any]:
        """The values of one row of the history."""
        return {
            "seconds": self.seconds,
            "passes": self.passes,
            "oracle_calls": self.oracle_calls,
            "primal": self.primal,
            "dual": self.bound,
            "gap": self.gap,
            "estimate": gap_between(self.primal, self.bound, self.total),
            "planes": self.planes,
        }

    def progress(self) -> Progress:
        """The progress of the last round, for callbacks."""
        return Progress(
            **self.known(),
            step=self.round,
            tol=self.tol,
            max_passes=self.options["max_passes"],
            max_seconds=self.options["max_seconds"],
            solver="cluster",
            status="" if self.status is None else self.status.value,
        )

    def certificate(self) -> Certificate:
        """The certificate of the best w and the best lower bound."""
        assert self.status is not None
        return Certificate(
            primal=self.primal,
            dual=self.bound,
            gap=gap_between(self.primal, self.bound, self.total),
            tol=self.tol,
            converged=self.status is Status.SOLVED,
            exact=self.bounded,
            passes=self.passes,
            oracle_calls=self.oracle_calls,
            support=self.planes,
            seconds=self.seconds,
            status=self.status.value,
        )


def first_proximity(facts: Sequence[Facts], C: float, dimension: int, solver: Proximal) -> float:
    """The first k, chosen as in ``Proximal`` from statistics of all parts."""
    n = np.array([own.n for own in facts], dtype=float)
    square, loss = (n @ [getattr(own, name) for own in facts] for name in ("square", "loss"))
    k = solver.first_k(C, dimension, facts[0].unit, float(square), float(loss))
    return 0.0 if facts[0].full else k


def first_round(
    pool: Pool, job: Job, handle: Any, facts: list[Facts], **settings: Any
) -> ClusterRounds:
    """The driver's state before the first round, with all multipliers on the true outputs."""
    regularizer, dimension = facts[0].regularizer, int(job.svm.model_.size_joint_feature)
    bundle = Bundle(regularizer, len(pool), dimension, settings.pop("older"))
    k = first_proximity(facts, float(job.svm.C), dimension, job.solver)
    w = bundle.mean.copy()
    options = settings["options"]
    loss = float(np.average([own.loss for own in facts], weights=[own.n for own in facts]))
    tolerance = Tolerance(options["tol"], sum(own.total for own in facts), loss)
    rounds = ClusterRounds(pool, job, handle, facts, bundle, options, tolerance, k, w, w, w)
    rounds.versions = [0] * len(pool)
    rounds.oracle_calls = sum(own.oracle_calls for own in facts)
    return rounds


class ClusterCheckpoint(CheckpointFile):
    """The checkpoint of the driver: b and q of each part, the last w, and the proximal term.

    The file does not hold the points of the workers: a resumed fit treats them as lost. The point (b, q) of
    each part remains a valid bound and pulls its worker towards the old position. The part starts over from
    the true outputs, and training has converged when no part gives weight to the old points any more. The
    driver restores w, k and the centre, so the new points are near the old ones at once.
    """

    saved: float

    def open(self, svm: Any, rounds: ClusterRounds) -> None:
        """Record the identity of the fit; resume from the file if requested."""
        sizes = {
            "number of parts": len(rounds.pool),
            "numbers of examples": [own.n for own in rounds.facts],
            "number of weights": len(rounds.w),
        }
        # Files keep the checksum of their first reader; examples in memory are hashed here.
        checksums = [
            part.checksum if isinstance(part, FilePart) else digest_of(list(part), f"source[{k}]")
            for k, part in enumerate(rounds.pool.parts)
        ]
        if self.begin(svm, sizes | {"checksums of the parts": checksums}):
            self.stored(lambda header, arrays: go_on(rounds, header, arrays))
        self.saved = rounds.seconds

    def keep(self, rounds: ClusterRounds, ended: bool) -> None:
        """Replace the file when training ends or the interval has passed."""
        if not ended and rounds.seconds - self.saved < self.every:
            return
        points = [rounds.bundle.at(part) for part in range(len(rounds.pool))]
        header = {
            "round": rounds.round,
            "k": rounds.k,
            "oracle_calls": int(rounds.oracle_calls),
            "seconds": rounds.seconds,
        }
        arrays = {
            "offsets": np.array([b for b, _ in points]),
            "vectors": np.stack([q for _, q in points]),
            "w": rounds.w,
            "w_before": rounds.w_before,
        }
        self.store(header, arrays)
        self.saved = rounds.seconds


def go_on(rounds: ClusterRounds, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Restore the state that ``ClusterCheckpoint.keep`` wrote, before the first round."""
    parts, d = len(rounds.pool), len(rounds.w)
    offsets = table(arrays, "offsets", np.float64, parts)
    vectors = table(arrays, "vectors", np.float64, parts, d)
    w, before = (table(arrays, name, np.float64, d) for name in ("w", "w_before"))
    k = number(header, "k")
    if k < 0:
        raise FieldError(f"k must not be negative, got {k}")
    rounds.bundle.freeze(offsets, vectors)
    rounds.k, rounds.w, rounds.w_before = k, w, before
    rounds.round = rounds.complete = count(header, "round")
    rounds.oracle_calls += count(header, "oracle_calls")
    rounds.started -= max(0.0, number(header, "seconds"))


def play(rounds: ClusterRounds, keeper: ClusterCheckpoint | None = None) -> None:
    """Run rounds until training ends."""
    callbacks: Sequence[Callback] = rounds.options["callbacks"]
    for callback in callbacks:
        callback.on_start(Progress(tol=rounds.tol, solver="cluster"))
    try:
        while rounds.status is None:
            with connected():
                rounds.advance()
            rounds.settle()
            rounds.history.rows.append(rounds.known())
            progress = rounds.progress()
            stop = [callback.on_step(progress) for callback in callbacks]
            if any(stop) and rounds.status is None:
                rounds.status = Status.STOPPED
            if keeper is not None:
                keeper.keep(rounds, ended=rounds.status is not None)
    except PartError:
        if keeper is not None:
            keeper.keep(rounds, ended=True)
        raise
    except KeyboardInterrupt:
        if rounds.best is None:
            raise
        rounds.status = Status.INTERRUPTED
        if keeper is not None:
            keeper.keep(rounds, ended=True)
    for callback in callbacks:
        callback.on_end(rounds.progress())
