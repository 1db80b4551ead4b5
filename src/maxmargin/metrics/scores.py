"""Scores of predicted outputs, each with a report: entities, tags, brackets, label sets."""

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
    """Return the entities (type, first position, position after the last) of a tag sequence.

    Parameters
    ----------
    scheme : "iob1", "iob2", "ioe1", "ioe2", "iobes" or "bioes", "bilou"
    outside : the tag of positions outside all entities
    strict : count only entities whose tags are well-formed; otherwise repair tags as conlleval does
    """
    return spans_of(list(tags), scheme, outside, strict)


def entity_counts(Y: Any, P: Any, scheme: str, outside: str, strict: bool) -> Counts:
    """Count entities by type; an entity is correct if its type, start and end match."""
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
    """F1 of the entities in tag sequences, as conlleval computes it; average="macro": the mean over types."""
    return float(entity_counts(Y, P, scheme, outside, strict).average(average)[2])


def entity_precision_score(
    Y: Any,
    P: Any,
    scheme: str = "iob2",
    average: str = "micro",
    outside: str = "O",
    strict: bool = False,
) -> float:
    """Share of the predicted entities that are correct."""
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
    """Count the positions of each label."""
    counts = Counts()
    for true, predicted in sequence_pairs(Y, P):
        counts.add(*(Counter((y, t) for t, y in enumerate(side)) for side in (true, predicted)))
    return counts


def tag_accuracy_score(Y: Any, P: Any) -> float:
    """Share of all positions, over all sequences together, whose label is correct."""
    true, predicted = flat(Y, P)
    return float(np.mean(list(map(eq, true, predicted)))) if true else 0.0


def tag_report(Y: Any, P: Any) -> Table:
    """Precision, recall and F1 of positions by label; the (micro) row is the share of correct labels."""
    return tag_counts(Y, P).report("label")


def sequence_accuracy_score(Y: Any, P: Any) -> float:
    """Share of the sequences whose labels are all correct."""
    right = same_sequences(Y, P)
    return float(np.mean(right)) if right else 0.0


def same_sequences(Y: Any, P: Any) -> list[bool]:
    """Whether all labels of a sequence are correct, for each sequence."""
    return [true == predicted for true, predicted in sequence_pairs(Y, P)]


def unknown_accuracy_score(Y: Any, P: Any, words: Any, known: Collection[Any]) -> float:
    """Share of correct labels at positions whose word is not in ``known``; NaN if there are none.

    Parameters
    ----------
    words : word sequences, as long as the label sequences
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
    """Count how often each true label (row) was predicted as each label (column), over all positions.

    labels : the labels of the rows and columns, in this order; None: all labels that occur
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
    """Labelled bracket F1 of trees; root=False leaves out the roots, as evalb leaves out TOP."""
    return bracket_f1(Y, P, root)


def bracket_report(Y: Any, P: Any, root: bool = True) -> Table:
    """Labelled bracket precision, recall and F1, by phrase label."""
    bracket_scores(Y, P, root)  # checks that paired trees have the same words
    return bracket_counts(Y, P, root).report("phrase")


def bracket_counts(Y: Any, P: Any, root: bool = True) -> Counts:
    """Count phrases by label."""
    counts = Counts()
    for _, true, predicted in pairs(Y, P):
        counts.add(*(labelled_spans(as_tree(tree), root) for tree in (true, predicted)))
    return counts


# Sets of labels


def set_counts(Y: Any, P: Any) -> Counts:
    """Count the labels of label sets, or of the rows of 0-1 matrices."""
    counts = Counts()
    for i, true, predicted in pairs(sets_of_labels(Y), sets_of_labels(P)):
        both = members(true, f"Y[{i}]"), members(predicted, f"P[{i}]")
        counts.add(*(Counter((label,) for label in labels) for labels in both))
    return counts


def sets_of_labels(Y: Any) -> Any:
    """Turn a 0-1 matrix into tuples of the columns that are 1, row by row; return label sets unchanged."""
    if not is_matrix(Y):
        return Y
    table = Y.toarray() if sp.issparse(Y) else Y
    return [tuple(np.flatnonzero(row).tolist()) for row in table]


def multilabel_f1_score(Y: Any, P: Any, average: str = "micro") -> float:
    """F1 of label sets or 0-1 matrices.

    The average "micro" counts all labels together. The average "macro" is the mean over the labels that occur
    in the truth or in the prediction. The macro average of scikit-learn scores a column without either as 0.
    """
    return float(set_counts(Y, P).average(average)[2])


def multilabel_report(Y: Any, P: Any) -> Table:
    """Precision, recall and F1 of label sets, by label."""
    return set_counts(Y, P).report("label")
