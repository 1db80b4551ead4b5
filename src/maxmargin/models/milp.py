"""The exact argmax of a pairwise problem as an integer program, with constraints on the labels.

    maximise   sum_v theta_v . p_v + sum_l theta_l . q_l
    p_v in {0, 1}^K, sum p_v = 1;   q_l >= 0, its margins are p_a and p_b      for each link l = (a, b)

With p free in [0, 1] this is the linear relaxation over the local polytope. HiGHS (SciPy) solves it.

HiGHS compares objectives with absolute tolerances of at most 1e-6. It drops a branch that promises less than
1e-6 above the best labelling found. A reduced cost may have the wrong sign by 1e-7, once for each node and
link of a labelling. So the scores are first scaled by a power of two, such that the largest |theta| is about
2^20. Then the bound is raised by 1e-6 for each node and link, which is about 1e-12 of the largest |theta|.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

INFEASIBLE = 2  # a status of scipy.optimize.milp
HIGHS_TOLERANCE = 1e-6  # absolute tolerance of HiGHS
# scores are scaled so that the largest is about 2^SCALE; a smaller value loosens the bound
SCALE = 20


@dataclass(frozen=True)
class Linear:
    """A constraint low <= sum of the indicators [y_v = k] over (v, k) in ``terms`` <= high."""

    terms: list[tuple[int, int]]
    low: float
    high: float


def solve_milp(
    counts: np.ndarray,
    unary: np.ndarray,
    links: np.ndarray,
    tables: np.ndarray,
    constraints: Sequence[Linear] = (),
) -> tuple[np.ndarray, float]:
    """Return a labelling that is best within the tolerance of HiGHS, and an upper bound on all scores.

    The upper bound is the bound of HiGHS plus its tolerance.
    """
    links = np.asarray(links).reshape(-1, 2)
    scores = np.concatenate([unary, tables])
    never = scores == -np.inf  # pairs of labels that no labelling has
    scores, exponent = scaled(np.where(never, 0.0, scores))
    first = np.concatenate([[0], np.cumsum(counts)])
    rows, right = consistency(counts, links, first)
    n, m = len(unary), len(tables)
    conditions = [LinearConstraint(rows, right, right), *constraint_rows(constraints, first, n + m)]
    answer = milp(
        -scores,
        integrality=np.concatenate([np.ones(n), np.zeros(m)]),
        bounds=Bounds(0.0, np.where(never, 0.0, 1.0)),
        constraints=conditions,
        options={"mip_rel_gap": 0.0},
    )
    if answer.x is None:
        if answer.status == INFEASIBLE:
            raise ValueError("no labelling satisfies the constraints")
        raise RuntimeError(f"the integer program was not solved: {answer.message}")
    labels = [int(np.argmax(answer.x[a:b])) for a, b in itertools.pairwise(first)]
    top = HIGHS_TOLERANCE * (2 + len(counts) + len(links)) - float(answer.mip_dual_bound)
    return np.array(labels, dtype=np.int32), float(np.ldexp(top, -exponent))


def scaled(scores: np.ndarray) -> tuple[np.ndarray, int]:
    """Scale the scores by 2^e, such that the largest is about 2^SCALE; return them and e."""
    largest = float(np.abs(scores).max())
    if not np.isfinite(largest):
        raise ValueError("the scores of the labels are not finite at these weights; lower C")
    exponent = SCALE - int(np.frexp(largest or 1.0)[1])
    return np.ldexp(scores, exponent), exponent


def consistency(
    counts: np.ndarray, links: np.ndarray, first: np.ndarray
) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return the rows of the equations: one label for each node, and the margins of every link."""
    nodes = np.repeat(np.arange(len(counts)), counts)
    parts = [(nodes, np.arange(first[-1]), np.ones(first[-1]))]
    row, column = len(counts), int(first[-1])
    for a, b in links:
        Ka, Kb = int(counts[a]), int(counts[b])
        own = column + np.arange(Ka * Kb).reshape(Ka, Kb)
        for end, K, index in ((a, Ka, own), (b, Kb, own.T)):
            labels = row + np.arange(K)
            parts.append((np.repeat(labels, index.shape[1]), index.ravel(), np.ones(index.size)))
            parts.append((labels, first[end] + np.arange(K), -np.ones(K)))
            row += K
        column += Ka * Kb
    i, j, x = (np.concatenate(p) for p in zip(*parts, strict=True))
    right = np.concatenate([np.ones(len(counts)), np.zeros(row - len(counts))])
    return sp.csr_matrix((x, (i, j)), shape=(row, column)), right


def constraint_rows(
    constraints: Sequence[Linear], first: np.ndarray, size: int
) -> list[LinearConstraint]:
    """Return constraints on the labels as rows of the program."""
    found = []
    for constraint in constraints:
        columns = [int(first[v]) + k for v, k in constraint.terms]
        row = sp.csr_matrix((np.ones(len(columns)), ([0] * len(columns), columns)), shape=(1, size))
        found.append(LinearConstraint(row, constraint.low, constraint.high))
    return found
