"""Ordinal regression as in Joachims (2006), which Section 3.2 names as a case of the 1-slack
algorithm.

    min 1/2 |w|^2 + C/m sum over the m pairs with g_i > g_j of max(0, 1 - (s_i - s_j)),   s = X w

The whole sample is one example, and an output is a set of pairs in the wrong order. For each row it
is
enough to know the number of these pairs in which the row is the better one (c+) and the worse one
(c-):

    Delta = 1/m sum_i c+_i,   Psi = -1/m sum_i (c+_i - c-_i) x_i

The worst set has all pairs with s_i - s_j < 1. They are counted by sorting, in O(r n log n) for r
grades. The data are grades of documents (LightGBM's example for ranking), as the sets of that paper
are not available.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.svm import LinearSVC

import maxmargin as mm
from benchmarks import stand_ins
from benchmarks.datasets import data_file
from benchmarks.papers import rows as reading
from benchmarks.papers.cutting_plane.measure import line
from maxmargin import solvers

SIZES = (250, 500, 1000, 2000, 4000)
ALL_PAIRS = 500  # most rows for which LIBLINEAR gets all pairs
WEIGHT, EPS = 100.0, 1e-3


class OrderedPairs:
    """A model in Python: x is (rows, grades), an output is (n, 2) with c+ / m and c- / m.

    The true output is all zero.
    """

    def initialize(self, X: Any, Y: Any) -> None:
        """Set one weight for each feature."""
        self.size_joint_feature = X[0][0].shape[1]

    def joint_feature(self, x: Any, y: np.ndarray) -> np.ndarray:
        """Return -1/m sum (c+ - c-) x."""
        return -(y[:, 0] - y[:, 1]) @ x[0]

    def loss(self, y: np.ndarray, y_hat: np.ndarray) -> float:
        """Return the share of pairs in the wrong order."""
        return float(y_hat[:, 0].sum() - y[:, 0].sum())

    def inference(self, x: Any, w: np.ndarray) -> np.ndarray:
        """Return the pairs in the wrong order."""
        return wrong_pairs(x[0] @ w, x[1], 0.0) / max(1, pairs(x[1]))

    def loss_augmented_inference(self, x: Any, y: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return the pairs whose scores are less than one apart in the right order."""
        return wrong_pairs(x[0] @ w, x[1], 1.0) / max(1, pairs(x[1]))


def pairs(grades: np.ndarray) -> int:
    """Return m, the number of pairs with different grades."""
    counts = np.unique(grades, return_counts=True)[1]
    return int((len(grades) ** 2 - (counts**2).sum()) // 2)


def wrong_pairs(scores: np.ndarray, grades: np.ndarray, margin: float) -> np.ndarray:
    """Count the pairs with s_i - s_j < margin and g_i > g_j, for each row.

    Column 0 counts the pairs in which the row is the better one, column 1 the others.
    """
    found = np.zeros((len(scores), 2))
    for grade in np.unique(grades):
        own, lower, higher = grades == grade, grades < grade, grades > grade
        below, above = np.sort(scores[lower]), np.sort(scores[higher])
        found[own, 0] = len(below) - np.searchsorted(below, scores[own] - margin, side="right")
        found[own, 1] = np.searchsorted(above, scores[own] + margin, side="left")
    return found


def fitted(X: np.ndarray, grades: np.ndarray, C: float, eps: float) -> mm.StructuralSVM:
    """Fit w to the pairs by 1-slack."""
    svm = mm.StructuralSVM(OrderedPairs(), C=C, solver=solvers.OneSlack(), tol=eps, max_passes=1e5)
    return svm.fit([(X, grades)], [np.zeros((len(grades), 2))])


def differences(X: np.ndarray, grades: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return x_i - x_j of all pairs, with alternating signs: two classes for LIBLINEAR."""
    better, worse = np.nonzero(grades[:, None] > grades[None, :])
    signs = np.where(np.arange(len(better)) % 2 == 0, 1, -1)
    return (X[better] - X[worse]) * signs[:, None], signs


def documents(part: str, small: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and grades, without their queries."""
    if small:
        X, y = stand_ins.digits(seed=part == "test", examples=60)
        return X, (y // 3).astype(float)
    X, grades = load_svmlight_file(
        str(data_file("lambdarank_example", f"rank.{part}.gz")), n_features=301
    )
    order = np.random.default_rng(0).permutation(len(grades))
    return np.asarray(X.todense())[order], grades[order]


def run(unused: Any, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure the time against n; LIBLINEAR runs only if all pairs fit into memory."""
    X, grades = documents("train", options.small)
    X_test, test_grades = documents("test", options.small)
    sizes = (
        [30, len(grades)]
        if options.small
        else [n for n in SIZES if n < len(grades)] + [len(grades)]
    )
    found = []
    for n in sizes:
        for method in ("1-slack", "liblinear")[: 2 if n <= ALL_PAIRS else 1]:
            row = {"method": method, "n": n, "pairs": pairs(grades[:n])}
            began = time.process_time()
            if method == "1-slack":
                svm: Any = fitted(X[:n], grades[:n], WEIGHT, EPS)
                row |= {"cuts": int(svm.history_["planes"][-1]), "gap": svm.certificate_.gap}
            else:
                D, signs = differences(X[:n], grades[:n])
                own = {"loss": "hinge", "dual": True, "fit_intercept": False, "max_iter": 20_000}
                svm = LinearSVC(C=WEIGHT / len(signs), tol=1e-3, random_state=0, **own).fit(
                    D, signs
                )
            row["cpu"] = time.process_time() - began
            w = svm.coef_.ravel()
            scores = X[:n] @ w
            gaps = 1 - (scores[:, None] - scores[None, :])
            better = grades[:n, None] > grades[None, :n]
            row["primal"] = 0.5 * float(w @ w) + WEIGHT * float(np.maximum(gaps[better], 0).mean())
            wrong = wrong_pairs(X_test @ w, test_grades, 0.0)[:, 0].sum()
            found.append(row | {"test_wrong_pairs": 100 * wrong / pairs(test_grades)})
            print(line(found[-1]), flush=True)
    return found


def says(rows: Sequence[reading.Row]) -> list[str]:
    """Describe the growth with n, and LIBLINEAR on all pairs."""
    ours = reading.chosen(rows, method="1-slack")
    found = [
        f"CPU time grows as n^{reading.growth(ours, 'n', 'cpu'):.2f} from {ours[0]['n']} to {ours[-1]['n']} "
        f"rows, pairs as n^{reading.growth(ours, 'n', 'pairs'):.2f}; cuts: "
        f"{', '.join(row['cuts'] for row in ours)}."
    ]
    for row in reading.chosen(rows, method="liblinear"):
        (own,) = reading.chosen(ours, n=row["n"])
        times = reading.number(row, "cpu") / reading.number(own, "cpu")
        worse = reading.number(row, "primal") / reading.number(own, "primal") - 1
        found.append(
            f"{row['n']} rows: LIBLINEAR on all pairs takes {times:.2g} times the time of 1-slack; its "
            f"primal differs by {100 * worse:+.2g} %."
        )
    return found
