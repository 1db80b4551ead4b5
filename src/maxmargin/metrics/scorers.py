"""Scorers for scikit-learn: ``scoring=get_scorer("entity_f1")`` in cross-validation and searches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.metrics import get_scorer as plain_scorer
from sklearn.metrics import get_scorer_names as plain_names
from sklearn.metrics import make_scorer

from maxmargin._sklearn import BaseEstimator
from maxmargin.io.quoting import short
from maxmargin.metrics.counts import flat
from maxmargin.metrics.scores import (
    bracket_f1_score,
    entity_f1_score,
    entity_precision_score,
    entity_recall_score,
    multilabel_f1_score,
    sequence_accuracy_score,
    tag_accuracy_score,
    unknown_accuracy_score,
)

SCORES: dict[str, Callable[..., float]] = {
    "bracket_f1": bracket_f1_score,
    "entity_f1": entity_f1_score,
    "entity_precision": entity_precision_score,
    "entity_recall": entity_recall_score,
    "multilabel_f1": multilabel_f1_score,
    "sequence_accuracy": sequence_accuracy_score,
    "tag_accuracy": tag_accuracy_score,
}
UNKNOWN_ACCURACY = "unknown_accuracy"


class Said(BaseEstimator):
    """An estimator that returns predictions computed beforehand."""

    def __init__(self, labels: Any):
        self.labels = labels

    def predict(self, X: Any) -> Any:
        """Return the stored predictions, whatever X is."""
        return self.labels


@dataclass(frozen=True)
class NodeScorer:
    """A scikit-learn scorer, given by its name, applied to all nodes of all outputs."""

    name: str

    def __call__(self, svm: Any, X: Any, Y: Any) -> float:
        true, predicted = flat(Y, svm.predict(X))
        return plain_scorer(self.name)(Said(predicted), None, true)


@dataclass(frozen=True)
class UnknownScorer:
    """Accuracy at positions whose word is not among the attributes of training.

    attribute : the key of the word in a token's dict, or the text before "=" in a token's strings; None if
        tokens are words.
    """

    attribute: str | None = None

    def __call__(self, svm: Any, X: Any, Y: Any) -> float:
        words = [[self.word(token) for token in x] for x in X]
        return unknown_accuracy_score(Y, svm.predict(X), words, svm.feature_names_)

    def word(self, token: Any) -> str:
        """The word of a token, written like the name of its feature in training."""
        if isinstance(token, str):
            return token
        start = f"{self.attribute}="
        if isinstance(token, Mapping) and self.attribute in token:
            return f"{start}{token[self.attribute]}"
        found = next((name for name in token if str(name).startswith(start)), None)
        if found is None:
            raise ValueError(
                f"unknown_accuracy: no attribute {short(self.attribute)} in {short(token)}"
            )
        return found


def get_scorer(name: str, **options: Any) -> Any:
    """Return a scorer by name, for ``scoring=``.

    Parameters
    ----------
    name : one of ``get_scorer_names()``; or a scikit-learn name that needs predictions only.
        A scikit-learn score, such as "f1_macro", is computed over all nodes of all outputs.
    options : options of the score, such as scheme="iobes" for "entity_f1" or average="macro".
        For "unknown_accuracy", attribute="word" names the attribute that holds the word.
    """
    if name == UNKNOWN_ACCURACY:
        return UnknownScorer(**options)
    if name in SCORES:
        return make_scorer(SCORES[name], **options)
    if name not in plain_names():
        raise ValueError(
            f"name must be one of {get_scorer_names()}, or one of scikit-learn's, got {short(name)}"
        )
    if options:
        raise ValueError(f"{short(name)} takes no options, got {options}")
    return NodeScorer(name)


def get_scorer_names() -> list[str]:
    """The names of the scores of this library, in alphabetical order."""
    return sorted([*SCORES, UNKNOWN_ACCURACY])
