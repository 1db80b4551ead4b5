"""The linear relaxation of a structural SVM over factor graphs, as one QP in a modelling package.

    maximise  sum_i mass_i Delta_i . p_i - 1/2 |sum_i mass_i (Psi_i(y_i) - Psi_i(p_i, q_i))|^2
    p_v in the simplex,  q_e >= 0,  row sums of q_e = p_a,  column sums = p_b

A prior replaces 1/2 |q|^2 by R*(q) = <m, q> + 1/2 q' Sigma q.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.losses import cost_of


def local_features(factors: Any, i: int) -> tuple[list, list, list]:
    """Features of each label of each node and of each pair of each edge, and the losses of labels."""
    shape = factors.shapes[factors.shape[i]]
    base = int(factors.node_offsets[i])
    edge_base = int(factors.edge_offsets[i])
    starts = np.cumsum([0, *(bank.columns * bank.width for bank in factors.banks)])

    def placed(bank: int, column: int, row: int) -> np.ndarray:
        psi = np.zeros(factors.dimension)
        if column >= 0:
            width = factors.banks[bank].width
            first = starts[bank] + column * width
            psi[first : first + width] = factors.banks[bank].row(row)
        return psi

    nodes, losses, edges = [], [], []
    for v, t in enumerate(shape.node_types):
        kind = factors.node_types[t]
        row = int(factors.node_rows[base + v])
        nodes.append(np.array([placed(kind.bank, int(c), row) for c in kind.columns]))
        true = int(factors.truth[base + v])
        costs = cost_of(kind.cost, true, np.arange(len(kind.columns)))
        losses.append(factors.node_weight[base + v] * costs)
    for e, t in enumerate(shape.edge_types):
        kind = factors.edge_types[t]
        row = int(factors.edge_rows[edge_base + e]) if len(factors.edge_rows) else 0
        edges.append(np.array([placed(kind.bank, int(c), row) for c in np.ravel(kind.columns)]))
    return nodes, losses, edges


def relaxed_optimum(
    factors: Any, mass: np.ndarray, mean: Any = None, covariance: Any = None
) -> float:
    """The optimum of the relaxation: at least the optimum over labellings, and equal to it on forests."""
    import cvxpy  # the import is slow, and few test processes need it

    w, gain, limits = np.zeros(factors.dimension), 0.0, []
    for i, m in enumerate(mass):
        if m == 0:
            continue
        shape = factors.shapes[factors.shape[i]]
        nodes, losses, edges = local_features(factors, i)
        base = int(factors.node_offsets[i])
        truth = factors.truth[base : base + len(nodes)]
        p = [cvxpy.Variable(len(loss), nonneg=True) for loss in losses]
        limits += [cvxpy.sum(x) == 1 for x in p]
        for x, psi, loss, y in zip(p, nodes, losses, truth, strict=True):
            gain = gain + m * (loss @ x)
            w = w + m * (psi[y] - psi.T @ x)
        for (a, b), psi in zip(shape.edges, edges, strict=True):
            q = cvxpy.Variable((len(losses[a]), len(losses[b])), nonneg=True)
            limits += [cvxpy.sum(q, axis=1) == p[a], cvxpy.sum(q, axis=0) == p[b]]
            true = int(truth[a]) * len(losses[b]) + int(truth[b])
            w = w + m * (psi[true] - psi.T @ cvxpy.reshape(q, (q.size,), order="C"))
    if mean is not None:
        gain = gain - mean @ w
        w = np.linalg.cholesky(covariance).T @ w
    problem = cvxpy.Problem(cvxpy.Maximize(gain - 0.5 * cvxpy.sum_squares(w)), limits)
    return float(problem.solve(solver=cvxpy.CLARABEL))
