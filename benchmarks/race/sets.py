"""CPU of `fit` on sets of labels, with weights for all pairs and without pairs, in turn."""

from __future__ import annotations

import warnings
from typing import Any

import maxmargin as mm
from benchmarks.papers.factor_graphs.__main__ import label_sets
from benchmarks.timing import best_of
from maxmargin import models
from maxmargin.data.synthetic_graphs import random_label_sets

Row = dict[str, Any]
SETS = {"yeast": (0.1, 1.0, 10.0), "enron": (0.01, 0.1, 1.0, 10.0), "medical": (0.1, 1.0)}


def rows(small: bool, repeats: int) -> list[Row]:
    """Return a row for each data set and C, at the default tolerance."""
    if small:
        X, Y = random_label_sets(40, random_state=0)
        return [row_of("small", X, Y, 1.0, 1)]
    return [
        row_of(name, *label_sets(name)[:2], C, repeats) for name, own in SETS.items() for C in own
    ]


def row_of(name: str, X: Any, Y: Any, C: float, repeats: int) -> Row:
    """Fit with and without pairs; return the row."""
    best: dict[str, Any] = {}
    for _ in range(repeats):
        for pairs in ("none", "all"):
            svm = mm.StructuralSVM(models.MultiLabel(pairs, bias=1.0), C=C, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an unfinished fit shows in its status
                timed = best_of(1, lambda svm=svm: svm.fit(X, Y))
            if pairs not in best or timed.cpu < best[pairs].cpu:
                best[pairs] = timed
    row: Row = {"data": name, "C": C}
    for pairs, timed in best.items():
        certificate = timed.result.certificate_
        row |= {f"{pairs} cpu": timed.cpu, f"{pairs} passes": certificate.passes}
        row |= {f"{pairs} primal": certificate.primal, f"{pairs} status": str(certificate.status)}
    return row | {"times": best["all"].cpu / best["none"].cpu}
