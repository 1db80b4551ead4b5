"""Rules of a binarised grammar: read from trees, and conversion between trees and derivations.

Binarisation is to the left. A phrase A -> c1 c2 ... cn with n > 2 becomes

    A -> @(n-1) cn,   @(i) -> @(i-1) ci,   @(2) -> c1 c2

with @(i) the symbol "@A c1 ... ci". ``horizontal`` is the number of last children that the symbol names. None
means all of them, so that exactly the phrases seen in training can be derived. A run of only children, such
as A -> B -> C, over a word or over a phrase of several children is one *chain*. Only chains that occur in
training are allowed. A tree has exactly one derivation, and a derivation gives one tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from maxmargin._core import core
from maxmargin.data.trees import ParseTree, TreeError
from maxmargin.io.quoting import short

MADE = "@"  # first letter of the symbols that binarisation makes


class Step(NamedTuple):
    """A node of a derivation.

    ``chain`` goes from the top down; it is empty without a chain. ``rule`` is (tag,) over a word, else
    (parent, left, right). ``split`` is the number of words of the left child.
    """

    chain: tuple[str, ...]
    rule: tuple[str, ...]
    split: int


def check_tree(tree: ParseTree) -> None:
    """Raise TreeError for trees that no grammar can derive.

    Such trees have words beside phrases, nodes without children, or labels that are not allowed.
    """
    for node in tree.subtrees():
        label = node.label()
        if not label or label[0] == MADE or any(letter.isspace() for letter in label):
            raise TreeError(
                f"a label must be a word without space that does not begin with {short(MADE)}, "
                f"got {short(label)}"
            )
        if len(node) == 0:
            raise TreeError(f"the node {short(label)} has no children")
        if not node.is_tag() and any(isinstance(child, str) for child in node):
            word = next(child for child in node if isinstance(child, str))
            raise TreeError(f"the word {short(word)} under {short(label)} has no tag of its own")


def made(parent: str, labels: Sequence[str], horizontal: int | None) -> str:
    """Return the symbol for the first children of a phrase."""
    kept = labels if horizontal is None else labels[len(labels) - min(horizontal, len(labels)) :]
    return MADE + " ".join((parent, *kept))


def derive(tree: ParseTree, horizontal: int | None) -> list[Step]:
    """Return the derivation of a tree, in preorder."""
    width = widths(tree)
    steps: list[Step] = []
    # a node, and how many of its first children remain, or None for the node itself
    stack: list[tuple[ParseTree, int | None]] = [(tree, None)]
    while stack:
        node, first = stack.pop()
        chain: tuple[str, ...] = ()
        if first is None:
            chain, node = descend(node)
            if node.is_tag():
                steps.append(Step(chain, (node.label(),), 0))
                continue
        labels = [child.label() for child in node if isinstance(child, ParseTree)]
        count = len(node) if first is None else first
        parent = node.label() if first is None else made(node.label(), labels[:count], horizontal)
        left = labels[0] if count == 2 else made(node.label(), labels[: count - 1], horizontal)
        split = sum(width[id(child)] for child in node[: count - 1])
        steps.append(Step(chain, (parent, left, labels[count - 1]), split))
        stack.append((node[count - 1], None))
        stack.append((node[0], None) if count == 2 else (node, count - 1))
    return steps


def descend(node: ParseTree) -> tuple[tuple[str, ...], ParseTree]:
    """Return the chain of only children that begins at a node, and the node at its bottom."""
    chain = [node.label()]
    while len(node) == 1 and isinstance(node[0], ParseTree):
        node = node[0]
        chain.append(node.label())
    if len(set(chain)) < len(chain):
        raise TreeError(
            f"the unary chain {' -> '.join(chain)} has a label twice; remove such loops with "
            "maxmargin.data.trees.drop_loops"
        )
    return (tuple(chain) if len(chain) > 1 else ()), node


def widths(tree: ParseTree) -> dict[int, int]:
    """Return the number of words under each node, by identity."""
    found: dict[int, int] = {}
    for node in reversed(list(tree.subtrees())):
        found[id(node)] = sum(1 if isinstance(c, str) else found[id(c)] for c in node)
    return found


@dataclass
class GrammarRules:
    """All rules, as numbers of symbols: real symbols first, then symbols of binarisation, both sorted.

    ``binary`` holds (left, right, parent), ``unary`` (upper, lower), ``chains`` tuples of symbols from the
    top down, ``lexical`` (terminal, tag). All are numbers, and all lists are sorted (chains by their bottom
    first). ``roots`` counts how often each real symbol was the root of a tree.
    """

    symbols: list[str]
    reals: int
    binary: list[tuple[int, ...]]
    unary: list[tuple[int, ...]]
    chains: list[tuple[int, ...]]
    lexical: list[tuple[int, ...]]
    roots: list[int]
    terminals: int
    core: Any = field(init=False)

    def __post_init__(self) -> None:
        unary = numbered_items(self.unary)
        parts = [[unary[pair] for pair in pairwise(chain)] for chain in self.chains]
        first = np.cumsum([0, *map(len, parts)], dtype=np.int32)
        codes = columns(self.binary, 3) + columns(self.unary, 2)
        words = columns(self.lexical, 2)
        flat = np.array([r for part in parts for r in part], dtype=np.int32)
        root = np.array(self.roots, dtype=np.int64) > 0
        self.core = core.GrammarRules(
            len(self.symbols), self.terminals, root.astype(np.uint8), *codes, first, flat, *words
        )
        self.code: dict[str, int] = numbered_items(self.symbols)
        self.binary_code: dict[tuple[int, ...], int] = numbered_items(self.binary)
        self.lexical_code: dict[tuple[int, ...], int] = numbered_items(self.lexical)
        self.chain_code: dict[tuple[int, ...], int] = numbered_items(self.chains)
        self.unary_code = unary

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild the core's table on unpickling, because it cannot be pickled."""
        given = [f.name for f in fields(self) if f.init]
        return type(self), tuple(getattr(self, name) for name in given)

    @classmethod
    def read(
        cls,
        derivations: Iterable[Sequence[Step]],
        roots: Counter[str],
        lexical: set[tuple[int, str]],
        terminals: int,
    ) -> GrammarRules:
        """Collect the rules of derivations."""
        binary: set[tuple[str, ...]] = set()
        chains: set[tuple[str, ...]] = set()
        for steps in derivations:
            chains.update(step.chain for step in steps if step.chain)
            binary.update(step.rule for step in steps if step.split)
        names = {symbol for rule in binary | chains for symbol in rule}
        names |= {tag for _, tag in lexical} | set(roots)
        real = sorted(name for name in names if name[0] != MADE)
        symbols = real + sorted(name for name in names if name[0] == MADE)
        code = numbered_items(symbols)
        runs = sorted((tuple(code[s] for s in chain) for chain in chains), key=lambda c: c[::-1])
        return cls(
            symbols,
            len(real),
            sorted((code[left], code[right], code[parent]) for parent, left, right in binary),
            sorted({pair for chain in runs for pair in pairwise(chain)}),
            runs,
            sorted((terminal, code[tag]) for terminal, tag in lexical),
            [roots[symbol] for symbol in real],
            terminals,
        )

    @property
    def size(self) -> int:
        """The number of weights."""
        return len(self.binary) + len(self.unary) + len(self.lexical)

    def encode(
        self, steps: Sequence[Step], terminals: Sequence[int], words: Sequence[str]
    ) -> list[Any]:
        """Return the numbers of a derivation: (chain + 1, rule, split) of each node in preorder."""
        root = (steps[0].chain or steps[0].rule)[0]
        if not self.roots[self.number(root, f"the root {root}")]:
            raise TreeError(f"no tree of the training data has the root {root}")
        codes: list[int] = []
        position = 0
        for chain, rule, split in steps:
            above = 0
            if chain:
                place = f"the unary chain {' -> '.join(chain)}"
                above = 1 + find(self.chain_code, self.numbers(chain, place), place)
            if split:
                place = f"the rule {rule[0]} -> {' '.join(rule[1:])}"
                parent, left, right = self.numbers(rule, place)
                number = find(self.binary_code, (left, right, parent), place)
            else:
                place = f"the rule {rule[0]} -> {words[position]!r}"
                pair = (terminals[position], self.number(rule[0], place))
                number = find(self.lexical_code, pair, place)
                position += 1
            codes += (above, number, split)
        return codes

    def number(self, symbol: str, place: str) -> int:
        """Return the number of a symbol; raise an error with ``place`` for an unseen symbol."""
        if symbol not in self.code:
            raise unseen(place)
        return self.code[symbol]

    def numbers(self, symbols: Sequence[str], place: str) -> tuple[int, ...]:
        """Return the numbers of several symbols."""
        return tuple(self.number(symbol, place) for symbol in symbols)

    def decode(self, codes: Sequence[int], words: Sequence[str]) -> ParseTree:
        """Return the tree of a derivation that is given in numbers."""
        stack: list[Any] = []  # trees, and lists of the first children of a phrase
        position = len(words)
        for p in range(len(codes) - 3, -1, -3):
            above, rule, split = codes[p : p + 3]
            if split == 0:
                position -= 1
                node: Any = ParseTree(self.symbols[self.lexical[rule][1]], [words[position]])
            else:
                left, _, parent = self.binary[rule]
                before, last = stack.pop(), stack.pop()
                node = [*before, last] if left >= self.reals else [before, last]
                if parent < self.reals:
                    node = ParseTree(self.symbols[parent], node)
            if above:
                for symbol in self.chains[above - 1][-2::-1]:
                    node = ParseTree(self.symbols[symbol], [node])
            stack.append(node)
        return stack[0]


def numbered_items(items: Sequence[Any]) -> dict[Any, int]:
    """Return the number of each item."""
    return {item: number for number, item in enumerate(items)}


def columns(rows: Sequence[tuple[int, ...]], n: int) -> list[np.ndarray]:
    """Return the n columns of a table of numbers, for the core."""
    table = np.array(rows, dtype=np.int32).reshape(len(rows), n)
    return [np.ascontiguousarray(table[:, j]) for j in range(n)]


def find(table: dict[Any, Any], key: Any, place: str) -> int:
    """Return the number of a rule; raise an error for an unseen rule."""
    number = table.get(key)
    if number is None:
        raise unseen(place)
    return number


def unseen(place: str) -> TreeError:
    """Return the error for a symbol or rule that training has not seen."""
    return TreeError(f"{place} does not occur in the training data")
