"""The scores and the report that fit a task: what a line of a command and a page show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maxmargin.data.table import Table
from maxmargin.data.tags import scheme_of_tags
from maxmargin.metrics.outputs import labels_of
from maxmargin.metrics.scores import (
    bracket_f1_score,
    bracket_report,
    entity_f1_score,
    entity_precision_score,
    entity_recall_score,
    entity_report,
    multilabel_f1_score,
    multilabel_report,
    sequence_accuracy_score,
    tag_accuracy_score,
    tag_counts,
    tag_report,
)


def scheme_of(*outputs: Any) -> str | None:
    """The scheme of spans that all tags are of; None: they are of none."""
    return scheme_of_tags(label for Y in outputs for y in Y for label in labels_of(y, "Y"))


def class_scores(Y: Any, P: Any) -> dict[str, float]:
    """Of one label per example."""
    return {
        "accuracy": tag_accuracy_score(Y, P),
        "macro F1": float(tag_counts(Y, P).average("macro")[2]),
    }


def tagging_scores(Y: Any, P: Any) -> dict[str, float]:
    """Of sequences of labels; of entities where the labels are tags of spans."""
    scores = {
        "tag accuracy": tag_accuracy_score(Y, P),
        "sequence accuracy": sequence_accuracy_score(Y, P),
    }
    scheme = scheme_of(Y, P)
    if scheme is not None:
        scores["entity precision"] = entity_precision_score(Y, P, scheme)
        scores["entity recall"] = entity_recall_score(Y, P, scheme)
        scores["entity F1"] = entity_f1_score(Y, P, scheme)
    return scores


def tagging_report(Y: Any, P: Any) -> Table:
    """Of entities by type, or of labels."""
    scheme = scheme_of(Y, P)
    return tag_report(Y, P) if scheme is None else entity_report(Y, P, scheme)


def set_scores(Y: Any, P: Any) -> dict[str, float]:
    """Of sets of labels."""
    return {f"{kind} F1": multilabel_f1_score(Y, P, average=kind) for kind in ("micro", "macro")}


def tree_scores(Y: Any, P: Any) -> dict[str, float]:
    """Of trees."""
    return {"bracket F1": bracket_f1_score(Y, P)}


def regression_scores(Y: Any, P: Any) -> dict[str, float]:
    """Of real numbers."""
    true, predicted = np.asarray(Y, dtype=float), np.asarray(P, dtype=float)
    spread = float(((true - true.mean()) ** 2).sum())
    squares = float(((true - predicted) ** 2).sum())
    return {
        "mean absolute error": float(np.abs(true - predicted).mean()),
        "R2": 1.0 - squares / spread if spread else float("nan"),
    }


SCORES: dict[str, Callable[[Any, Any], dict[str, float]]] = {
    "multiclass": class_scores,
    "binary": class_scores,
    "tagging": tagging_scores,
    "multilabel": set_scores,
    "parsing": tree_scores,
    "regression": regression_scores,
}
REPORTS: dict[str, Callable[[Any, Any], Table]] = {
    "multiclass": tag_report,
    "binary": tag_report,
    "tagging": tagging_report,
    "multilabel": multilabel_report,
    "parsing": bracket_report,
}
