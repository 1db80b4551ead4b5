"""Parse trees: an immutable ``ParseTree``, reading and writing of Penn brackets, cleaning of treebanks.

    (S (NP (DT the) (NN dog)) (VP (VBZ barks)))

A *tag* is a node whose only child is a word; every other node is a *phrase*. This module avoids recursion, so
a tree may be as deep as memory allows.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from maxmargin.io.quoting import ForeignError, short

__all__ = [
    "ParseTree",
    "TreeError",
    "as_tree",
    "clean",
    "drop_loops",
    "drop_traces",
    "read_trees",
    "strip_functions",
    "write_trees",
]

BRACKET_TOKEN = re.compile(r"[()]|[^\s()]+")
COMMENT = re.compile(r"[#%;][^\n]*")
FUNCTION = re.compile(r"(?<=.)[-=]")
TRACE = "-NONE-"
BRACKETS = {"(": "-LRB-", ")": "-RRB-"}


def __getattr__(name: str) -> Any:
    """Return ``ParseTree`` under its old name ``Tree``, with a warning."""
    if name != "Tree":
        raise AttributeError(f"module {short(__name__)} has no attribute {short(name)}")
    warnings.warn("trees.Tree is deprecated, use ParseTree", FutureWarning, stacklevel=2)
    return ParseTree


class TreeError(ForeignError):
    """A text or an object is not a tree."""


class ParseTree(Sequence[Any]):
    """A label with children, each a ``ParseTree`` or a word; immutable, hashable, compared by content.

    It works like ``nltk.Tree``: ``label()``, children by index and by iteration, ``leaves()``,
    ``pos()`` and ``ParseTree.fromstring(text)``. ``str`` writes Penn brackets on one line.
    """

    __slots__ = ("_children", "_hash", "_label")
    _label: str
    _children: tuple[ParseTree | str, ...]
    _hash: int

    def __init__(self, label: str, children: Iterable[ParseTree | str]):
        if not isinstance(label, str):
            raise TreeError(f"the label of a tree must be a string, got {short(label)}")
        if isinstance(children, str):
            raise TreeError(f"the children of {short(label)} must be a sequence, got a string")
        kids = tuple(children)
        for child in kids:
            if not isinstance(child, ParseTree | str):
                raise TreeError(
                    f"a child of {short(label)} must be a ParseTree or a word, got {type(child).__name__}"
                )
        object.__setattr__(self, "_label", label)
        object.__setattr__(self, "_children", kids)
        object.__setattr__(self, "_hash", hash((label, kids)))

    @classmethod
    def fromstring(cls, text: str) -> ParseTree:
        """Parse a text in brackets that holds exactly one tree."""
        trees = read_trees(text)
        if len(trees) != 1:
            raise TreeError(f"expected one tree, got {len(trees)}: {short(text)}")
        return trees[0]

    def label(self) -> str:
        """Return the symbol of this node."""
        return self._label

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a ParseTree cannot be changed; build a new one")

    def __len__(self) -> int:
        return len(self._children)

    def __getitem__(self, index: Any) -> Any:
        return self._children[index]

    def __iter__(self) -> Iterator[ParseTree | str]:
        return iter(self._children)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, ParseTree):
            return NotImplemented
        pairs: list[tuple[Any, Any]] = [(self, other)]
        while pairs:
            a, b = pairs.pop()
            if a is b:
                continue
            if isinstance(a, str) or isinstance(b, str):
                if a != b:
                    return False
                continue
            if a._hash != b._hash or a._label != b._label or len(a) != len(b):
                return False
            pairs += zip(a, b, strict=True)
        return True

    def __reduce__(self) -> Any:
        flat: list[
            tuple[str, int] | str
        ] = []  # children before parents: no recursion on deep trees
        stack: list[ParseTree | str] = [self]
        while stack:
            node = stack.pop()
            flat.append(node if isinstance(node, str) else (node._label, len(node)))
            stack += [] if isinstance(node, str) else node._children
        return from_flat, (tuple(reversed(flat)),)

    def __copy__(self) -> ParseTree:
        return self

    def __deepcopy__(self, memo: dict[Any, Any]) -> ParseTree:
        return self

    def is_tag(self) -> bool:
        """Whether the only child is a word."""
        return len(self._children) == 1 and isinstance(self._children[0], str)

    def subtrees(self) -> Iterator[ParseTree]:
        """Yield every node, parents before children, left to right."""
        stack: list[ParseTree] = [self]
        while stack:
            node = stack.pop()
            yield node
            stack += [child for child in reversed(node._children) if isinstance(child, ParseTree)]

    def leaves(self) -> list[str]:
        """Return the words of the sentence in order."""
        return [word for word, _ in self.pos()]

    def pos(self) -> list[tuple[str, str]]:
        """Return (word, label of its parent) for every word of the sentence in order."""
        found: list[tuple[str, str]] = []
        stack: list[tuple[Any, str]] = [(self, self._label)]
        while stack:
            node, above = stack.pop()
            if isinstance(node, str):
                found.append((node, above))
            else:
                stack += [(child, node._label) for child in reversed(node._children)]
        return found

    def __str__(self) -> str:
        parts: list[str] = []
        stack: list[Any] = [self]
        while stack:
            node = stack.pop()
            if node is None:
                parts.append(")")
            elif isinstance(node, str):
                parts.append(" " + BRACKETS.get(node, node))
            else:
                parts.append(" (" + node._label)
                stack.append(None)
                stack += reversed(node._children)
        return "".join(parts)[1:]

    def __repr__(self) -> str:
        return f"ParseTree.fromstring({str(self)!r})"


# Penn brackets


def from_flat(flat: tuple[tuple[str, int] | str, ...]) -> ParseTree:
    """Build a tree from a flat list of words and (label, number of children), children before parents."""
    done: list[Any] = []
    for item in flat:
        if isinstance(item, str):
            done.append(item)
            continue
        label, count = item
        children = done[len(done) - count :]
        del done[len(done) - count :]
        done.append(ParseTree(label, children))
    return done[0]


def read_trees(source: Any, top: str | None = None) -> list[ParseTree]:
    """Read all trees of a text or of an open text file.

    Parameters
    ----------
    source : str, or an object whose ``read()`` returns one
        Trees one after the other. Spaces may separate them, and comments from ``#``, ``%`` or ``;`` to
        the end of the line.
    top : str or None
        The label for an outer bracket without one, ``( (S ...))``. None removes such a bracket.

    Raises ``TreeError`` with the line, the column, the expected token and the token found.
    """
    text = source.read() if hasattr(source, "read") else source
    if not isinstance(text, str):
        raise TreeError(f"trees are read from text, got {type(text).__name__}")
    trees: list[ParseTree] = []
    open_nodes: list[tuple[str | None, list[Any]]] = []  # label, children so far
    position = 0
    while (token := next_token(text, position, outside=not open_nodes)) is not None:
        position = token.end()
        word = token.group()
        if word == "(":
            after = BRACKET_TOKEN.search(text, position)
            named = after is not None and after.group() not in "()"
            if not named and open_nodes:
                raise wrong(text, position, "a label after the bracket", after)
            open_nodes.append((after.group() if named and after else None, []))
            position = after.end() if named and after else position
        elif not open_nodes:
            raise wrong(text, token.start(), "an opening bracket", token)
        elif word == ")":
            label, children = open_nodes.pop()
            tree = closed(text, token, label, children, top)
            (open_nodes[-1][1] if open_nodes else trees).append(tree)
        else:
            open_nodes[-1][1].append(word)
    if open_nodes:
        raise wrong(text, len(text), f"{len(open_nodes)} more closing bracket(s)", None)
    return trees


def next_token(text: str, position: int, outside: bool) -> re.Match[str] | None:
    """Find the next bracket or word; comments occur only between trees (inside, # and % are words)."""
    token = BRACKET_TOKEN.search(text, position)
    while outside and token is not None and token.group()[0] in "#%;":
        comment = COMMENT.match(text, token.start())
        token = BRACKET_TOKEN.search(text, comment.end() if comment else token.end())
    return token


def closed(
    text: str, token: re.Match[str], label: str | None, children: list[Any], top: str | None
) -> ParseTree:
    """Build the tree of a bracket that ends here."""
    if not children:
        raise wrong(text, token.start(), "a child before the bracket ends", token)
    if label is not None:
        return ParseTree(label, children)
    if top is not None:
        return ParseTree(top, children)
    if len(children) > 1:
        raise wrong(text, token.start(), "one tree in a bracket without a label", token)
    return children[0]


def wrong(text: str, position: int, expected: str, came: re.Match[str] | None) -> TreeError:
    """Return the error for a position in the text."""
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    got = "the end of the text" if came is None else repr(came.group()[:40])
    return TreeError(f"line {line}, column {column}: expected {expected}, got {got}")


def write_trees(trees: Iterable[ParseTree], target: Any = None) -> str:
    """Return trees in brackets as text, one per line, and write it to a text file if one is given.

    The words ``(`` and ``)`` become -LRB- and -RRB-. Refuses labels and words that brackets cannot hold.
    """
    lines = []
    for number, tree in enumerate(trees):
        for node in tree.subtrees():
            for name in (node.label(), *(child for child in node if isinstance(child, str))):
                whole = BRACKET_TOKEN.fullmatch(name) is not None
                if not whole or (name in "()" and name is node.label()):
                    raise TreeError(f"tree {number}: {short(name)} cannot be written in brackets")
            if len(node) == 0:
                raise TreeError(f"tree {number}: {short(node.label())} has no children")
        lines.append(f"{tree}\n")
    text = "".join(lines)
    if target is not None:
        target.write(text)
    return text


# Other forms of a tree


def as_tree(value: Any) -> ParseTree:
    """Return a tree given as ``ParseTree``, text in brackets, nltk tree or nested (label, child, ...)."""
    if isinstance(value, ParseTree):
        return value
    if isinstance(value, str):
        return ParseTree.fromstring(value)
    pending: list[tuple[str, list[Any], list[Any], Any]] = [(*node_parts(value), [], value)]
    inside = {id(value)}
    while True:
        label, rest, done, origin = pending[-1]
        if rest:
            child = rest.pop()
            if isinstance(child, str | ParseTree):
                done.append(child)
                continue
            if id(child) in inside:
                raise TreeError(f"a tree contains itself, under {short(label)}")
            inside.add(id(child))
            pending.append((*node_parts(child), [], child))
            continue
        pending.pop()
        inside.discard(id(origin))
        tree = ParseTree(label, done)
        if not pending:
            return tree
        pending[-1][2].append(tree)


def node_parts(value: Any) -> tuple[str, list[Any]]:
    """Return the label and the children (last first) of a node in any form."""
    if callable(getattr(value, "label", None)) and hasattr(value, "__iter__"):
        return value.label(), list(value)[::-1]
    if isinstance(value, list | tuple) and len(value) > 1 and isinstance(value[0], str):
        return value[0], list(value[:0:-1])
    raise TreeError(
        "expected a tree: a ParseTree, text in brackets, an object with label() and children, or "
        f"(label, child, ...); got {repr(value)[:60]}"
    )


# Cleaning


def rebuilt(tree: ParseTree, build: Callable[[str, list[Any]], ParseTree | None]) -> Any:
    """Rebuild every node of a tree from its label and its remaining children; None removes a node."""
    order = list(tree.subtrees())
    made: dict[int, ParseTree | None] = {}
    for node in reversed(order):
        children = [made[id(c)] if isinstance(c, ParseTree) else c for c in node]
        made[id(node)] = build(node.label(), [c for c in children if c is not None])
    return made[id(tree)]


def drop_traces(tree: ParseTree) -> ParseTree | None:
    """Remove -NONE- and the phrases that become empty; return None if no node remains."""
    return rebuilt(
        tree, lambda label, kids: ParseTree(label, kids) if kids and label != TRACE else None
    )


def strip_functions(tree: ParseTree) -> ParseTree:
    """Shorten NP-SBJ-1 and NP=2 to NP; labels that begin with a dash (-LRB-, -NONE-) stay."""

    def build(label: str, children: list[Any]) -> ParseTree:
        return ParseTree(
            label if label[:1] == "-" else FUNCTION.split(label, maxsplit=1)[0], children
        )

    return rebuilt(tree, build)


def drop_loops(tree: ParseTree) -> ParseTree:
    """Cut chains of only children so that no label appears twice: (NP (NP x)) becomes (NP x).

    In a chain A B A C the upper A and B are removed, so that A C remains.
    """

    def build(label: str, children: list[Any]) -> ParseTree:
        below = children[0] if len(children) == 1 else None
        while isinstance(below, ParseTree):
            if below.label() == label:
                return below
            below = below[0] if len(below) == 1 else None
        return ParseTree(label, children)

    return rebuilt(tree, build)


def clean(tree: ParseTree) -> ParseTree | None:
    """Drop traces, function tags and unary loops, in this order; return None if no node remains."""
    left = drop_traces(tree)
    return None if left is None else drop_loops(strip_functions(left))
