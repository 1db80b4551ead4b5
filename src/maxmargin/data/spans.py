"""Labelled spans of trees, and labelled bracket precision, recall and F1.

    precision = matched / predicted,  recall = matched / gold,  F1 = 2 matched / (gold + predicted)

Spans are counted over all trees together, as in evalb. The span of a phrase is (label, first word, word after
the last); tags have no span. A span that occurs twice in a tree counts twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from maxmargin.data.tags import Span
from maxmargin.data.trees import ParseTree, as_tree

__all__ = ["BracketScores", "bracket_f1", "bracket_scores", "labelled_spans"]


@dataclass(frozen=True)
class BracketScores:
    """Counts of labelled spans over a set of trees, and precision, recall and F1."""

    matched: int
    gold: int
    predicted: int
    right_trees: int  # trees without a wrong or missing span
    trees: int

    def __add__(self, other: BracketScores) -> BracketScores:
        """Return the counts of both sets of trees together."""
        return BracketScores(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def precision(self) -> float:
        """Share of the predicted spans that are right; 1 without predicted spans."""
        return self.matched / self.predicted if self.predicted else 1.0

    @property
    def recall(self) -> float:
        """Share of the true spans that were found; 1 without true spans."""
        return self.matched / self.gold if self.gold else 1.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 1 without any spans."""
        total = self.gold + self.predicted
        return 2 * self.matched / total if total else 1.0

    @property
    def exact(self) -> float:
        """Share of the trees with all spans right."""
        return self.right_trees / self.trees if self.trees else 1.0


def labelled_spans(tree: ParseTree, root: bool = True) -> Counter[Span]:
    """Count each labelled span of a tree; root=False leaves out the span of the root."""
    found: Counter[Span] = Counter()
    begun: list[tuple[str, int]] = []
    stack: list[Any] = [tree]
    words = 0
    while stack:
        node = stack.pop()
        if node is None:  # a phrase ends
            label, start = begun.pop()
            found[label, start, words] += 1
        elif isinstance(node, str):
            words += 1
        else:
            if not node.is_tag():
                begun.append((node.label(), words))
                stack.append(None)
            stack += reversed(node)
    if not root and not tree.is_tag():
        found -= Counter({(tree.label(), 0, words): 1})
    return found


def matches(gold: Any, predicted: Any, root: bool = True) -> tuple[int, int, int]:
    """Count the matched, true and predicted spans of two trees over the same words."""
    gold, predicted = as_tree(gold), as_tree(predicted)
    if gold.leaves() != predicted.leaves():
        raise ValueError(
            f"trees over different words: {shown_words(gold.leaves())} and {shown_words(predicted.leaves())}"
        )
    a, b = labelled_spans(gold, root), labelled_spans(predicted, root)
    return (a & b).total(), a.total(), b.total()


def shown_words(words: Sequence[str]) -> str:
    """Quote words in a message, at most 60 characters."""
    text = " ".join(words)
    return repr(text if len(text) <= 60 else text[:57] + "...")


def bracket_scores(
    gold: Iterable[Any], predicted: Iterable[Any], root: bool = True
) -> BracketScores:
    """Labelled bracket counts over pairs of trees; root=False leaves the roots out."""
    gold, predicted = list(gold), list(predicted)
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} true trees, but {len(predicted)} predicted ones")
    totals, right = [0, 0, 0], 0
    for i, (y, y_hat) in enumerate(zip(gold, predicted, strict=True)):
        try:
            counts = matches(y, y_hat, root)
        except ValueError as error:
            raise ValueError(f"tree {i}: {error}") from None
        totals = [a + b for a, b in zip(totals, counts, strict=True)]
        right += counts[0] == counts[1] == counts[2]
    return BracketScores(totals[0], totals[1], totals[2], right, len(gold))


def bracket_f1(gold: Iterable[Any], predicted: Iterable[Any], root: bool = True) -> float:
    """Labelled bracket F1 over pairs of trees; root=False leaves the roots out."""
    return bracket_scores(gold, predicted, root).f1
