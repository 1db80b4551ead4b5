"""All trees of a sentence, one by one: the slow reference for grammars.

Phrases keep all their children; only the question whether a phrase is allowed uses its binarised
rules. The vectors have the documented order of `coef_`: binary rules by (left, right, parent),
unary rules by (upper, lower), lexical rules by (word, tag). Symbols made by binarisation ("@A c1
c2") come after all labels, and <unknown> comes after all words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, pairwise, product

import numpy as np

from maxmargin.data.trees import ParseTree, as_tree

UNKNOWN = "<unknown>"
MOST_WORK = 20_000  # limit on the combinations of children that are tried for one treebank


class TooManyTreesError(Exception):
    """The grammar is so ambiguous that brute force would take too long."""


def rank(symbol: str) -> tuple[bool, str]:
    """A sort key: labels come before symbols made by binarisation."""
    return symbol[0] == "@", symbol


def binarised(parent: str, labels: Sequence[str], horizontal: int | None) -> list[tuple]:
    """The binary rules (parent, left, right) of one phrase of two or more children."""

    def first(count: int) -> str:
        seen = (
            labels[:count] if horizontal is None else labels[:count][max(0, count - horizontal) :]
        )
        return "@" + " ".join([parent, *seen])

    names = [labels[0], *(first(count) for count in range(2, len(labels))), parent]
    return [(names[k + 1], names[k], labels[k + 1]) for k in range(len(labels) - 1)]


def nodes_of(tree: ParseTree, horizontal: int | None) -> tuple[list, list, list, list]:
    """Binary rules, unary rules, (tag, word) pairs and unary chains of a tree, by recursion."""
    binary, unary, lexical, chains = [], [], [], []

    def walk(node: ParseTree, above: tuple[str, ...]) -> None:
        chain = (*above, node.label())
        if len(node) == 1 and isinstance(node[0], ParseTree):
            unary.append((node.label(), node[0].label()))
            return walk(node[0], chain)
        if len(chain) > 1:
            chains.append(chain)
        if len(node) == 1:
            return lexical.append((node.label(), node[0]))
        binary.extend(binarised(node.label(), [child.label() for child in node], horizontal))
        for child in node:
            walk(child, ())

    walk(tree, ())
    return binary, unary, lexical, chains


def spans_of(tree: ParseTree) -> Counter:
    """The labelled spans of phrases, by recursion."""
    found: Counter = Counter()

    def walk(node: ParseTree | str, start: int) -> int:
        if isinstance(node, str):
            return start + 1
        end = start
        for child in node:
            end = walk(child, end)
        if not (len(node) == 1 and isinstance(node[0], str)):
            found[node.label(), start, end] += 1
        return end

    walk(tree, 0)
    return found


class GrammarTruth:
    """The trees that the rules of a treebank allow; every word is known (rare=0)."""

    def __init__(
        self, trees: Sequence[ParseTree], loss: str, horizontal: int | None = None
    ) -> None:
        parts = [nodes_of(tree, horizontal) for tree in trees]
        binary, unary, lexical, chains = (
            {item for part in parts for item in part[k]} for k in range(4)
        )
        self.chains = chains
        self.roots = {tree.label() for tree in trees}
        self.horizontal, self.kind, self.work = horizontal, loss, 0
        self.tags = {}
        for tag, word in sorted(lexical):
            self.tags.setdefault(word, []).append(tag)
        seen = Counter(word for part in parts for _, word in part[2])
        open_tags = {tag for tag, word in lexical if seen[word] == 1} or {t for t, _ in lexical}
        self.binary = sorted(binary, key=lambda r: (rank(r[1]), rank(r[2]), rank(r[0])))
        self.unary = sorted(unary)
        self.lexical = sorted(lexical, key=lambda r: (r[1], r[0]))
        self.lexical += [(tag, UNKNOWN) for tag in sorted(open_tags)]
        self.parents = {parent for parent, _, _ in binary if parent[0] != "@"}
        every = self.binary + self.unary + self.lexical
        self.place = {rule: k for k, rule in enumerate(every)}
        self.size_joint_feature = len(every)
        labels = {s for rule in binary | unary for s in rule if s[0] != "@"}
        self.classes = sorted(labels | {tag for tag, _ in lexical} | self.roots)

    def examples(self, X: list) -> list[list[str]]:
        """The sentences, unchanged."""
        return list(X)

    def outputs(self, x: Sequence[str]) -> list[ParseTree]:
        """Every tree over the words whose rules, chains and root occur in the treebank."""
        return [tree for tree in self.over(tuple(x)) if tree.label() in self.roots]

    @cache  # noqa: B019
    def over(self, words: tuple[str, ...]) -> list[ParseTree]:
        """Every tree over some words, with any root."""
        bottoms = list(self.bottoms(words))
        found = bottoms.copy()
        for chain in sorted(self.chains):
            for tree in [tree for tree in bottoms if tree.label() == chain[-1]]:
                for label in chain[-2::-1]:
                    tree = ParseTree(label, [tree])
                found.append(tree)
        return found

    def bottoms(self, words: tuple[str, ...]) -> Iterator[ParseTree]:
        """Yield trees whose root has a word or several children."""
        if len(words) == 1:
            yield from (ParseTree(tag, words) for tag in self.tags[words[0]])
            return
        for n in range(1, len(words)):
            for cuts in combinations(range(1, len(words)), n):
                bounds = [0, *cuts, len(words)]
                for children in product(*(self.over(words[a:b]) for a, b in pairwise(bounds))):
                    self.work += 1
                    if self.work > MOST_WORK:
                        raise TooManyTreesError
                    labels = [child.label() for child in children]
                    for parent in sorted(self.parents):
                        rules = binarised(parent, labels, self.horizontal)
                        if all(rule in self.place for rule in rules):
                            yield ParseTree(parent, children)

    def joint_feature(self, x: Sequence[str], y: ParseTree) -> np.ndarray:
        """The counts of rules."""
        psi = np.zeros(self.size_joint_feature)
        binary, unary, lexical, _ = nodes_of(as_tree(y), self.horizontal)
        for rule in binary + unary + lexical:
            psi[self.place[rule]] += 1
        return psi

    def loss(self, y: ParseTree, y_hat: ParseTree) -> float:
        """The zero-one loss, or the symmetric difference of the labelled spans."""
        if self.kind == "zero-one":
            return float(str(y) != str(y_hat))
        a, b = spans_of(y), spans_of(y_hat)
        return float(((a - b) + (b - a)).total())
