"""Graphs with factors over several nodes: scores and outputs by definition, the relaxation as one QP."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from .enumerate import Block


def clique_feature(kind: str, K: int, labels: tuple[int, ...]) -> np.ndarray:
    """An indicator of the factor's labelling, or of a label that all its nodes share."""
    if kind == "full":
        table = np.zeros((K,) * len(labels))
        table[labels] = 1
        return table.ravel()
    all_same = len(set(labels)) == 1
    if kind == "potts":
        return np.array([float(all_same)])
    return np.eye(K)[labels[0]] * all_same


def joint_feature(x: Any, y: tuple[int, ...], K: int, kind: str) -> np.ndarray:
    """Unary features (K, d), pairwise features (K, K), then the features of the factors."""
    nodes, edges, _, _, cliques = x
    unary, pairwise = np.zeros((K, nodes.shape[1])), np.zeros((K, K))
    for row, label in zip(nodes, y, strict=True):
        unary[label] += row
    for a, b in edges:
        pairwise[y[a], y[b]] += 1
    own = sum(clique_feature(kind, K, tuple(y[v] for v in members)) for members in cliques)
    return np.concatenate([unary.ravel(), pairwise.ravel(), own])


def every_output(n: int, K: int) -> list[tuple[int, ...]]:
    return list(product(range(K), repeat=n))


def blocks_of(X: list, Y: list, K: int, kind: str) -> list[Block]:
    """Every plane of every example, with the Hamming loss."""
    found = []
    for x, y in zip(X, Y, strict=True):
        true = joint_feature(x, tuple(y), K, kind)
        outputs = every_output(len(y), K)
        offsets = np.array([sum(a != b for a, b in zip(y, u, strict=True)) for u in outputs], float)
        vectors = np.array([joint_feature(x, u, K, kind) - true for u in outputs])
        found.append(Block(outputs, offsets, vectors))
    return found


def relaxed_optimum(X: list, Y: list, K: int, kind: str, mass: float) -> float:
    """The optimum of the relaxation: marginals of each factor's labellings, which agree at the nodes."""
    import cvxpy

    d = len(joint_feature(X[0], tuple(Y[0]), K, kind))
    w, gain, limits = np.zeros(d), 0.0, []
    for x, y in zip(X, Y, strict=True):
        nodes, edges, _, _, cliques = x
        n, width = nodes.shape
        p = [cvxpy.Variable(K, nonneg=True) for _ in range(n)]
        limits += [cvxpy.sum(own) == 1 for own in p]
        for v, own in enumerate(p):
            gain = gain + mass * sum(own[k] for k in range(K) if k != y[v])
            psi = np.zeros((K, d))
            for k in range(K):
                psi[k, k * width : (k + 1) * width] = nodes[v]
            w = w + mass * (psi[y[v]] - psi.T @ own)
        scopes = [(tuple(e), False) for e in edges] + [(tuple(c), True) for c in cliques]
        for scope, clique in scopes:
            labels = every_output(len(scope), K)
            q = cvxpy.Variable(len(labels), nonneg=True)
            for j, v in enumerate(scope):
                rows = np.array([[float(u[j] == k) for u in labels] for k in range(K)])
                limits.append(rows @ q == p[v])
            psi = np.zeros((len(labels), d))
            for r, u in enumerate(labels):
                if clique:
                    own = clique_feature(kind, K, u)
                    psi[r, d - len(own) :] = own
                else:
                    psi[r, K * width + u[0] * K + u[1]] = 1
            true = labels.index(tuple(y[v] for v in scope))
            w = w + mass * (psi[true] - psi.T @ q)
    problem = cvxpy.Problem(cvxpy.Maximize(gain - 0.5 * cvxpy.sum_squares(w)), limits)
    return float(problem.solve(solver=cvxpy.CLARABEL))
