"""Task-specific scores, readable reports, and scorers for scikit-learn."""

from maxmargin.metrics.scorers import get_scorer, get_scorer_names
from maxmargin.metrics.scores import (
    bracket_f1_score,
    bracket_report,
    confusion,
    entity_f1_score,
    entity_precision_score,
    entity_recall_score,
    entity_report,
    entity_spans,
    multilabel_f1_score,
    multilabel_report,
    sequence_accuracy_score,
    tag_accuracy_score,
    tag_report,
    unknown_accuracy_score,
)

__all__ = [
    "bracket_f1_score",
    "bracket_report",
    "confusion",
    "entity_f1_score",
    "entity_precision_score",
    "entity_recall_score",
    "entity_report",
    "entity_spans",
    "get_scorer",
    "get_scorer_names",
    "multilabel_f1_score",
    "multilabel_report",
    "sequence_accuracy_score",
    "tag_accuracy_score",
    "tag_report",
    "unknown_accuracy_score",
]
