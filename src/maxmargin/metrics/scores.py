"""Scores of predicted outputs, each with its report: entities, tags, brackets, sets of labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from operator import eq
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.data.labels import is_matrix, members
from maxmargin.data.spans import bracket_f1, bracket_scores, labelled_spans
from maxmargin.data.table import Table
from maxmargin.data.tags import Span, spans_of
from maxmargin.data.trees import as_tree
from maxmargin.metrics.counts import Counts, flat, pairs, sequence_pairs

# Entities


def entity_spans(
    tags: Any, scheme: str = "iob2", outside: str = "O", strict: bool = False
) -> list[Span]:
    """The entities (type, first position, position after the last) of a sequence of tags.

    Parameters
    ----------
    scheme : "iob1", "iob2", "ioe1", "ioe2", "iobes" or "bioes", "bilou"
    outside : the tag of what is in no entity
    strict : count only entities whose tags are well-formed; else tags are repaired as conlleval does
    """
    return spans_of(list(tags), scheme, outside, strict)


def entity_counts(Y: Any, P: Any, scheme: str, outside: str, strict: bool) -> Counts:
    """Entities by type; one is right if its type, its start and its end are."""
    counts = Counts()
    for i, (true, predicted) in enumerate(sequence_pairs(Y, P)):
        try:
            spans = [Counter(spans_of(tags, scheme, outside, strict)) for tags in (true, predicted)]
        except ValueError as error:
            raise ValueError(f"Y[{i}] or P[{i}]: {error}") from None
        counts.add(*spans)
    return counts


def entity_f1_score(
    Y: Any,
    P: Any,
    scheme: str = "iob2",
    average: str = "micro",
    outside: str = "O",
    strict: bool = False,
) -> float:
    """F1 of entities in tag sequences: that of conlleval; average="macro": the mean over types."""
    return float(entity_counts(Y, P, scheme, outside, strict).average(average)[2])


def entity_precision_score(
    Y: Any,
    P: Any,
    scheme: str = "iob2",
    average: str = "micro",
    outside: str = "O",
    strict: bool = False,
) -> float:
    """Share of the predicted entities that are right."""
    return float(entity_counts(Y, P, scheme, outside, strict).average(average)[0])


def entity_recall_score(
    Y: Any,
    P: Any,
    scheme: str = "iob2",
    average: str = "micro",
    outside: str = "O",
    strict: bool = False,
) -> float:
    """Share of the true entities that were found."""
    return float(entity_counts(Y, P, scheme, outside, strict).average(average)[1])


def entity_report(
    Y: Any, P: Any, scheme: str = "iob2", outside: str = "O", strict: bool = False
) -> Table:
    """Precision, recall and F1 of entities by type."""
    return entity_counts(Y, P, scheme, outside, strict).report("entity")


# Tags


def tag_counts(Y: Any, P: Any) -> Counts:
    """Positions by label."""
    counts = Counts()
    for true, predicted in sequence_pairs(Y, P):
        counts.add(*(Counter((y, t) for t, y in enumerate(side)) for side in (true, predicted)))
    return counts


def tag_accuracy_score(Y: Any, P: Any) -> float:
    """Share of the positions, of all sequences together, whose label is right."""
    true, predicted = flat(Y, P)
    return float(np.mean(list(map(eq, true, predicted)))) if true else 0.0


def tag_report(Y: Any, P: Any) -> Table:
    """Precision, recall and F1 of positions by label; (micro) is the share of right labels."""
    return tag_counts(Y, P).report("label")


def sequence_accuracy_score(Y: Any, P: Any) -> float:
    """Share of the sequences whose labels are all right."""
    right = same_sequences(Y, P)
    return float(np.mean(right)) if right else 0.0


def same_sequences(Y: Any, P: Any) -> list[bool]:
    """Of each sequence whether its labels are all right."""
    return [true == predicted for true, predicted in sequence_pairs(Y, P)]


def unknown_accuracy_score(Y: Any, P: Any, words: Any, known: Collection[Any]) -> float:
    """Share of right labels among the positions whose word is not a known one; NaN if there is none.

    Parameters
    ----------
    words : sequences of words, as long as those of labels
    known : the words of training; a set is fastest
    """
    known, right, total = set(known), 0, 0
    for i, ((true, predicted), row) in enumerate(zip(sequence_pairs(Y, P), words, strict=True)):
        if len(row) != len(true):
            raise ValueError(f"words[{i}] has {len(row)} words, but Y[{i}] has {len(true)} labels")
        new = [y == p for y, p, word in zip(true, predicted, row, strict=True) if word not in known]
        right, total = right + sum(new), total + len(new)
    return right / total if total else float("nan")


def confusion(Y: Any, P: Any, labels: Any = None) -> Table:
    """How often each label (row) was predicted as each (column), over all positions.

    labels : those of the rows and columns, in this order; None: all that occur
    """
    seen = Counter(
        pair
        for true, predicted in sequence_pairs(Y, P)
        for pair in zip(true, predicted, strict=True)
    )
    counts = Counts()
    counts.true.update(y for y, _ in seen)
    counts.predicted.update(p for _, p in seen)
    names = counts.kinds() if labels is None else list(labels)
    columns = {p: [seen[y, p] for y in names] for p in names}
    return Table(columns, names, "true \\ predicted")


# Brackets


def bracket_f1_score(Y: Any, P: Any, root: bool = True) -> float:
    """Labelled bracket F1 of trees; root=False leaves the roots out, as evalb does with TOP."""
    return bracket_f1(Y, P, root)


def bracket_report(Y: Any, P: Any, root: bool = True) -> Table:
    """Labelled bracket precision, recall and F1 by label of the phrases."""
    bracket_scores(Y, P, root)  # refuses trees over different words
    return bracket_counts(Y, P, root).report("phrase")


def bracket_counts(Y: Any, P: Any, root: bool = True) -> Counts:
    """Phrases by label."""
    counts = Counts()
    for _, true, predicted in pairs(Y, P):
        counts.add(*(labelled_spans(as_tree(tree), root) for tree in (true, predicted)))
    return counts


# Sets of labels


def set_counts(Y: Any, P: Any) -> Counts:
    """Labels of sets, or columns of matrices of 0 and 1."""
    counts = Counts()
    for i, true, predicted in pairs(sets_of_labels(Y), sets_of_labels(P)):
        both = members(true, f"Y[{i}]"), members(predicted, f"P[{i}]")
        counts.add(*(Counter((label,) for label in labels) for labels in both))
    return counts


def sets_of_labels(Y: Any) -> Any:
    """A matrix of 0 and 1 as the tuples of the columns that are on; sets as they are."""
    if not is_matrix(Y):
        return Y
    table = Y.toarray() if sp.issparse(Y) else Y
    return [tuple(np.flatnonzero(row).tolist()) for row in table]


def multilabel_f1_score(Y: Any, P: Any, average: str = "micro") -> float:
    """F1 of sets of labels, or matrices of 0 and 1: of all labels together, or the mean over labels.

    "macro" is over the labels that the truth or the prediction has, where scikit-learn counts a column
    without either as 0.
    """
    return float(set_counts(Y, P).average(average)[2])


def multilabel_report(Y: Any, P: Any) -> Table:
    """Precision, recall and F1 by label of the sets."""
    return set_counts(Y, P).report("label")
