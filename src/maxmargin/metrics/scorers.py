"""Scores as scikit-learn takes them: ``scoring=get_scorer("entity_f1")`` in cross-validation and searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer as plain_scorer
from sklearn.metrics import get_scorer_names as plain_names
from sklearn.metrics import make_scorer

from maxmargin.metrics.outputs import flat
from maxmargin.metrics.scores import (
    bracket_f1_score,
    entity_f1_score,
    entity_precision_score,
    entity_recall_score,
    multilabel_f1_score,
    sequence_accuracy_score,
    tag_accuracy_score,
)

SCORES = {
    "bracket_f1": bracket_f1_score,
    "entity_f1": entity_f1_score,
    "entity_precision": entity_precision_score,
    "entity_recall": entity_recall_score,
    "multilabel_f1": multilabel_f1_score,
    "sequence_accuracy": sequence_accuracy_score,
    "tag_accuracy": tag_accuracy_score,
}


class Said(BaseEstimator):
    """Predictions that are there already, as an estimator."""

    def __init__(self, labels: Any):
        self.labels = labels

    def predict(self, X: Any) -> Any:
        """What was predicted."""
        return self.labels


@dataclass(frozen=True)
class NodeScorer:
    """A scorer of scikit-learn's over all nodes of all outputs: its name is one of theirs."""

    name: str

    def __call__(self, svm: Any, X: Any, Y: Any) -> float:
        true, predicted = flat(Y, svm.predict(X))
        return plain_scorer(self.name)(Said(predicted), None, true)


def get_scorer(name: str, **options: Any) -> Any:
    """A scorer by name, for ``scoring=``.

    Parameters
    ----------
    name : one of ``get_scorer_names()``; or a name of scikit-learn's that needs predictions only, such as
        "f1_macro", which is then over all nodes of all outputs
    options : of the score, such as scheme="iobes" of "entity_f1" or average="macro"
    """
    if name in SCORES:
        return make_scorer(SCORES[name], **options)
    if name not in plain_names():
        raise ValueError(
            f"name must be one of {get_scorer_names()}, or one of scikit-learn's, got {name!r}"
        )
    if options:
        raise ValueError(f"{name!r} takes no options, got {options}")
    return NodeScorer(name)


def get_scorer_names() -> list[str]:
    """The names of the scores of this library."""
    return sorted(SCORES)
