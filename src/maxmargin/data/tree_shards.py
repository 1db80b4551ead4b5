"""Treebanks in shards: sentences and trees are mapped text, parsed only when they are accessed.

    data      the words of all sentences in UTF-8; a line feed separates the words of a sentence
    offsets   offset in bytes of each sentence
    trees     the trees in Penn brackets, one after the other; absent without trees
    starts    offset in bytes of each tree; absent without trees

Only the offsets are in memory. For a shard ``rows`` counts the bytes of ``data``, and ``entries`` counts the
bytes of ``trees``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data.file_sequences import bracket_trees
from maxmargin.data.manifest import Shard
from maxmargin.data.mapped import MappedParts, ShardError
from maxmargin.data.shard_writer import SHARD_BYTES, ShardWriter
from maxmargin.data.text import readable
from maxmargin.data.trees import ParseTree, TreeError, as_tree, clean, write_trees
from maxmargin.io.quoting import short


class TreeShardWriter(ShardWriter):
    """The writer that ``ShardWriter(folder, kind="trees")`` creates; it takes sentences and trees."""

    features: int = 1
    buffered: int
    examples: int

    def _stored_type(self, dtype: Any, grow: bool) -> np.dtype:
        if dtype is not None or grow:
            raise ValueError("trees have no dtype and no columns to grow")
        return np.dtype("u1")

    def add(self, X: Any, Y: Any = None) -> None:
        """Add a sentence, as words or as one string, and its tree; X may be None if Y is a tree."""
        self._check_given(Y)
        try:
            tree = None if Y is None else as_tree(Y)
            words = sentence_words(X, tree)
            text = "" if tree is None else brackets(tree, words)
        except ValueError as error:
            raise ValueError(f"example {self.examples}: {error}") from None
        sentence, drawn = "\n".join(words).encode("utf-8"), text.encode("utf-8")
        if self.buffer and self.buffered + len(sentence) + len(drawn) > self.shard_bytes:
            self._flush()
        self.buffer.append((sentence, drawn))
        self.buffered += len(sentence) + len(drawn)
        self.examples += 1

    def _flush(self) -> None:
        """Write the buffered examples as a shard."""
        parts: dict[str, np.ndarray] = {}
        for j, (text, starts) in enumerate([("data", "offsets"), ("trees", "starts")]):
            if j == 1 and not self.labelled:
                break
            pieces = [pair[j] for pair in self.buffer]
            parts[text] = np.frombuffer(b"".join(pieces), dtype=np.uint8)
            parts[starts] = np.cumsum([0, *map(len, pieces)]).astype("<i8")
        k = len(self.shards)
        files = {part: self._write(k, part, array) for part, array in parts.items()}
        drawn = len(parts["trees"]) if self.labelled else 0
        self.shards.append(Shard(len(self.buffer), len(parts["data"]), drawn, files))
        self._empty()

    def _layout(self) -> str:
        return "text"

    def _label_state(self) -> None:
        return None


def sentence_words(X: Any, tree: ParseTree | None) -> list[str]:
    """Return the words of a sentence; reject other objects, and words that differ from the tree's."""
    if X is None and tree is None:
        raise ValueError("the example needs a sentence, a tree or both, got neither")
    words = tree.leaves() if X is None and tree is not None else X
    words = words.split() if isinstance(words, str) else list(words)
    for word in words:
        if not isinstance(word, str) or not word or "\n" in word:
            raise ValueError(f"a word must be a text without a line feed, got {short(word)}")
    if not words:
        raise ValueError("the sentence is empty")
    if tree is not None and tree.leaves() != words:
        raise ValueError(f"the tree has the leaves {tree.leaves()}, but the sentence is {words}")
    return [str(word) for word in words]


def brackets(tree: ParseTree, words: list[str]) -> str:
    """Return the tree as text in brackets; refuse a tree that the text would not give back."""
    text = write_trees([tree])
    if ParseTree.fromstring(text) != tree:
        raise ValueError(
            "a word of this tree is a bracket, which the file cannot hold; write -LRB- and -RRB-"
        )
    return text


@dataclass(eq=False, repr=False)
class MappedTexts(Sequence[Any]):
    """Items stored as text in mapped files; an item is decoded and parsed when it is accessed."""

    parts: Sequence[np.ndarray]
    starts: list[np.ndarray]
    paths: list[Path]

    def __post_init__(self) -> None:
        self.firsts: np.ndarray = np.cumsum([0, *(len(own) - 1 for own in self.starts)])

    def __len__(self) -> int:
        return int(self.firsts[-1])

    def __getitem__(self, key: Any) -> Any:
        """Return an item, or a list of several items."""
        if not isinstance(key, int | np.integer):
            return [self[int(i)] for i in np.arange(len(self))[key]]
        i = range(len(self))[key]
        k = int(np.searchsorted(self.firsts, i, side="right")) - 1
        a, b = self.starts[k][i - self.firsts[k] : i - self.firsts[k] + 2]
        try:
            return self.made(self.parts[k][a:b].tobytes().decode("utf-8"))
        except (UnicodeDecodeError, TreeError) as error:
            raise ShardError(f"{self.paths[k]}: example {i} cannot be read: {error}") from None

    def made(self, text: str) -> Any:
        """Parse an item from its text."""
        raise NotImplementedError


class MappedSentences(MappedTexts):
    """Sentences as lists of words: X of a grammar."""

    def made(self, text: str) -> list[str]:
        return text.split("\n")


class MappedTrees(MappedTexts):
    """Trees: Y of a grammar."""

    by_position = True

    def made(self, text: str) -> ParseTree:
        return ParseTree.fromstring(text)


def open_trees(data: Any) -> tuple[MappedSentences, MappedTrees | None]:
    """Open X and Y of a ``ShardedDataset`` of trees; Y is None without trees."""
    shards = data.manifest.shards
    if len({shard.entries == 0 for shard in shards}) > 1:
        raise ShardError(f"{data.folder}: some shards have trees, but others have none")

    def texts(kind: Any, text: str, starts: str, sizes: list[int]) -> Any:
        parts, firsts, paths = [], [], []
        for k, (shard, size) in enumerate(zip(shards, sizes, strict=True)):
            own = data.offsets(k, shard, starts, size, f"{size} bytes of text")
            parts.append(data._map(k, text, "|u1", (size,)))
            firsts.append(np.array(own))
            paths.append(data.path(k, text))
        return kind(MappedParts(parts), firsts, paths)

    X = texts(MappedSentences, "data", "offsets", [shard.rows for shard in shards])
    if shards[0].entries == 0:
        return X, None
    return X, texts(MappedTrees, "trees", "starts", [shard.entries for shard in shards])


def trees_to_shards(
    paths: Any,
    folder: Any,
    top: str | None = None,
    cleaned: bool = True,
    shard_bytes: int = SHARD_BYTES,
    overwrite: bool = False,
) -> Path:
    """Convert files of trees in Penn brackets to shards for ``Grammar``.

    Parameters
    ----------
    paths : path, or a sequence of paths
    top : str or None
        The label for an outer bracket without one; None removes such a bracket.
    cleaned : bool
        Drop traces, function tags and unary loops (``data.trees.clean``), and trees that become empty.
    """
    sources = [
        readable(path, folder) for path in ([paths] if isinstance(paths, str | Path) else paths)
    ]
    with TreeShardWriter(folder, "trees", shard_bytes, overwrite) as writer:
        for path in sources:
            for tree in bracket_trees(path, top=top):
                kept = clean(tree) if cleaned else tree
                if kept is not None:
                    writer.add(None, kept)
    return Path(folder)
