"""Readable twins of the solvers: the papers' pseudo-code in NumPy, slow and plain.

All twins work on the dual of P(w) = 1/2 |w|^2 + sum_i c_i xi_i(w), c_i = C v_i. FASOLE's paper has
lambda/2 |w|^2 + 1/m sum_i xi_i instead; dividing by lambda gives C = 1/(lambda m). So its alpha is
ours divided by lambda, its 1/m is our c_i, and "m sum_y alpha_i(y) s_i(y)" is
sum_y alpha_i(y) s_i(y) / c_i.

    symbol   meaning
    c        budget of each block, sum_y alpha_i(y) = c_i
    s_i(y)   Delta_i(y) + <w, psi_i(y)>
    G_i      max_y s_i(y) - sum_y alpha_i(y) s_i(y) / c_i, the block's gap in units of the loss
    Y_i      outputs of block i seen so far: the keys of alpha[i]

The paper has two slips. Its gain (9) for tau < 1 should be g^2 / (2 |psi_u - psi_v|^2),
g = s_u - s_v. Its Algorithm 3 compares a sum of G_i with epsilon, although it means the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .enumerate import enumerate_blocks

Output = Hashable


class EnumeratedBlocks:
    """Blocks whose oracle tries every output of a model of `reference.enumerate`."""

    def __init__(self, truth: Any, X: Any, Y: Any, C: float, sample_weight: Any = None) -> None:
        self.blocks = enumerate_blocks(truth, X, Y)
        weights = np.ones(len(self.blocks)) if sample_weight is None else sample_weight
        self.budgets = C * np.asarray(weights, dtype=np.float64)
        self.dimension = truth.size_joint_feature
        correct = [tuple(y) if isinstance(y, (list, np.ndarray)) else y for y in Y]
        self.correct = [
            block.outputs.index(y) for block, y in zip(self.blocks, correct, strict=True)
        ]

    def oracle(self, i: int, w: np.ndarray) -> Output:
        """argmax_y s_i(y) over all outputs."""
        block = self.blocks[i]
        return int(np.argmax(block.offsets + block.vectors @ w))

    def plane(self, i: int, output: Any) -> tuple[float, np.ndarray]:
        """(Delta_i(y), psi_i(y))."""
        return float(self.blocks[i].offsets[output]), self.blocks[i].vectors[output]


class ModelBlocks:
    """Blocks that call a user's model; labels are made hashable here."""

    def __init__(self, model: Any, X: Any, Y: Any, C: float, sample_weight: Any = None) -> None:
        model.initialize(X, Y)
        self.model, self.X, self.Y = model, X, Y
        weights = np.ones(len(Y)) if sample_weight is None else sample_weight
        self.budgets = C * np.asarray(weights, dtype=np.float64)
        self.dimension = model.size_joint_feature
        self.correct = [self.hashable(y) for y in Y]
        self.planes: dict[tuple[int, Output], tuple[float, np.ndarray]] = {}

    @staticmethod
    def hashable(y: Any) -> Output:
        """Return arrays and lists as tuples."""
        return tuple(np.asarray(y).tolist()) if np.ndim(y) else y

    def oracle(self, i: int, w: np.ndarray) -> Output:
        """The model's own loss-augmented argmax."""
        return self.hashable(self.model.loss_augmented_inference(self.X[i], self.Y[i], w))

    def plane(self, i: int, output: Any) -> tuple[float, np.ndarray]:
        """(Delta_i(y), psi_i(y)), cached after the first call."""
        if (i, output) not in self.planes:
            x, y = self.X[i], self.Y[i]
            vector = self.model.joint_feature(x, output) - self.model.joint_feature(x, y)
            self.planes[i, output] = (self.model.loss(y, output), vector)
        return self.planes[i, output]


@dataclass
class State:
    """Multipliers and w = (k z - sum alpha psi) / (1 + k); k = 0 without a proximal term."""

    problem: Any
    alpha: list[dict[Output, float]] = field(default_factory=list)
    k: float = 0.0
    oracle_calls: int = 0

    def __post_init__(self) -> None:
        # Initialization of Algorithm 2: alpha_i(y_i) = c_i, all other alpha are 0, w = 0.
        problem = self.problem
        pairs = zip(problem.correct, problem.budgets, strict=True)
        self.alpha = [{y: float(c)} for y, c in pairs]
        self.w = np.zeros(problem.dimension)
        self.z = np.zeros(problem.dimension)

    def score(self, i: int, output: Output) -> float:
        """s_i(y)."""
        offset, vector = self.problem.plane(i, output)
        return offset + float(self.w @ vector)

    def ask(self, i: int) -> Output:
        """Count one oracle call and return u_1, the oracle's output."""
        self.oracle_calls += 1
        return self.problem.oracle(i, self.w)

    def best_cached(self, i: int) -> Output:
        """u_2: the best output of Y_i."""
        return max(self.alpha[i], key=lambda output: self.score(i, output))

    def average_score(self, i: int) -> float:
        """sum_y alpha_i(y) s_i(y) / c_i."""
        total = sum(a * self.score(i, output) for output, a in self.alpha[i].items() if a > 0)
        return total / self.problem.budgets[i]

    def squared_distance(self, i: int, u: Output, v: Output) -> float:
        """|psi_i(u) - psi_i(v)|^2 divided by the curvature 1 + k."""
        difference = self.problem.plane(i, u)[1] - self.problem.plane(i, v)[1]
        return float(difference @ difference) / (1.0 + self.k)

    def move(self, i: int, u: Output, v: Output, amount: float) -> None:
        """Shift `amount` of multiplier from v to u."""
        difference = self.problem.plane(i, v)[1] - self.problem.plane(i, u)[1]
        self.w += difference * (amount / (1.0 + self.k))
        left = self.alpha[i][v] - amount
        self.alpha[i][v] = left if left > 0 else 0.0
        self.alpha[i][u] = self.alpha[i].get(u, 0.0) + amount

    def direct(self) -> np.ndarray:
        """-sum alpha psi, from scratch."""
        total = np.zeros(self.problem.dimension)
        for i, block in enumerate(self.alpha):
            for output, a in block.items():
                total -= a * self.problem.plane(i, output)[1]
        return total

    def dual(self) -> float:
        """D(alpha) of the problem without the proximal term, from scratch."""
        linear = sum(
            a * self.problem.plane(i, output)[0]
            for i, block in enumerate(self.alpha)
            for output, a in block.items()
        )
        w = self.direct()
        return linear - 0.5 * float(w @ w)

    def primal(self, w: np.ndarray) -> float:
        """P(w) by one exact pass."""
        total = 0.5 * float(w @ w)
        for i, c in enumerate(self.problem.budgets):
            offset, vector = self.problem.plane(i, self.problem.oracle(i, w))
            total += c * (offset + float(w @ vector))
        return total


@dataclass
class Trace:
    """The run of a twin: final state; dual, primal and oracle calls after each pass."""

    state: State
    w: np.ndarray
    dual: list[float] = field(default_factory=list)
    primal: list[float] = field(default_factory=list)
    oracle_calls: list[int] = field(default_factory=list)
    converged: bool = False

    def note(self) -> float:
        """Append a row and return the gap in units of the loss."""
        self.w = self.state.w.copy()
        self.dual.append(self.state.dual())
        self.primal.append(self.state.primal(self.w))
        self.oracle_calls.append(self.state.oracle_calls)
        return (self.primal[-1] - self.dual[-1]) / float(self.state.problem.budgets.sum())


def wss2_gain(state: State, i: int, u: Output, v: Output) -> float:
    """delta(i, u, v), equation (9) with its slip corrected."""
    g, a = state.score(i, u) - state.score(i, v), state.alpha[i][v]
    if g <= 0 or a <= 0:
        return 0.0
    distance = state.squared_distance(i, u, v)
    if g < a * distance:  # tau < 1
        return g * g / (2 * distance)
    return a * g - 0.5 * a * a * distance


def choose_wss2(state: State, i: int, u: Output) -> Output | None:
    """Return the v of largest gain among outputs with a multiplier, equation (11), or None."""
    gains = {v: wss2_gain(state, i, u, v) for v, a in state.alpha[i].items() if a > 0 and v != u}
    v = max(gains, key=lambda output: gains[output], default=None)
    return v if v is not None and gains[v] > 0 else None


def choose_mvp(state: State, i: int, u: Output) -> Output | None:
    """Return the v of smallest score among outputs with a multiplier (SDM), or None."""
    active = [v for v, a in state.alpha[i].items() if a > 0 and v != u]
    v = min(active, key=lambda output: state.score(i, output), default=None)
    return v if v is not None and state.score(i, v) < state.score(i, u) else None


Choice = Callable[[State, int, Output], "Output | None"]


def pair_step(state: State, i: int, u: Output, choose: Choice) -> bool:
    """Apply the SMO rule (7) with the step (6); return False if no pair improves the dual."""
    v = choose(state, i, u)
    if v is None:
        return False
    g, a = state.score(i, u) - state.score(i, v), state.alpha[i][v]
    distance = state.squared_distance(i, u, v)
    step = a if g >= a * distance else g / distance  # tau alpha_i(v)
    state.move(i, u, v, step)
    return True


def frank_wolfe_step(state: State, i: int, u: Output) -> bool:
    """Move the whole block towards u, equation (13), with the optimal step."""
    c = float(state.problem.budgets[i])
    psi_u = state.problem.plane(i, u)[1]
    mean_psi = sum(a * state.problem.plane(i, y)[1] for y, a in state.alpha[i].items()) / c
    gap = state.score(i, u) - state.average_score(i)
    distance = float((psi_u - mean_psi) @ (psi_u - mean_psi)) * c
    if gap <= 0:
        return False
    tau = 1.0 if gap >= distance else gap / distance
    state.w += tau * c * (mean_psi - psi_u)
    state.alpha[i] = {y: (1 - tau) * a for y, a in state.alpha[i].items()}
    state.alpha[i][u] = state.alpha[i].get(u, 0.0) + tau * c
    return True


def violator(state: State, i: int) -> tuple[Output, float]:
    """Return u-hat, the better of u_1 and u_2, and the block's gap G_i."""
    u1, u2 = state.ask(i), state.best_cached(i)
    u = u1 if state.score(i, u1) > state.score(i, u2) else u2
    return u, state.score(i, u) - state.average_score(i)


def active_blocks(problem: Any) -> list[int]:
    """Blocks with a positive budget; examples of weight zero are left out."""
    return [i for i, c in enumerate(problem.budgets) if c > 0]


def dual_ascent(
    problem: Any,
    update: Callable[[State, int, Output], bool],
    tol: float,
    max_passes: int,
    order: Callable[[], Iterable[int]] | None = None,
) -> Trace:
    """Algorithm 2 with any update; it makes passes over the examples until the exact gap is <= tol."""
    state = State(problem)
    trace = Trace(state, state.w.copy())
    blocks = active_blocks(problem)
    for _ in range(max_passes):
        for i in blocks if order is None else order():
            u, gap = violator(state, i)
            if gap > 0:
                state.alpha[i].setdefault(u, 0.0)  # Y_i := Y_i + u_1
                update(state, i, u)
        if trace.note() <= tol:
            trace.converged = True
            break
    return trace


def sda(problem: Any, tol: float = 1e-6, max_passes: int = 1000, order: Any = None) -> Trace:
    """SDA-WSS2, Algorithm 2."""
    update = lambda state, i, u: pair_step(state, i, u, choose_wss2)  # noqa: E731
    return dual_ascent(problem, update, tol, max_passes, order)


def sdm(problem: Any, tol: float = 1e-6, max_passes: int = 1000, order: Any = None) -> Trace:
    """The sequential dual method: Algorithm 2 with the maximal violating pair."""
    update = lambda state, i, u: pair_step(state, i, u, choose_mvp)  # noqa: E731
    return dual_ascent(problem, update, tol, max_passes, order)


def bcfw(problem: Any, tol: float = 1e-6, max_passes: int = 1000, order: Any = None) -> Trace:
    """Block-coordinate Frank-Wolfe with line search."""
    return dual_ascent(problem, frank_wolfe_step, tol, max_passes, order)
