"""Grammar: a parse tree for a sentence, by a context-free grammar that is read from a treebank.

    <w, Psi(x, y)> = sum of the weights of the rules that derive y, as often as they are used
    Delta(y, y')   = number of labelled spans that only one of the two trees has, or [y != y']

``coef_``: a weight for each binary rule, then for each unary rule, then for each lexical rule, in the order
of ``rules_``. Binary rules are sorted by left child, right child, parent; unary rules by upper, lower;
lexical rules by word or signature, tag. See ``models.rules`` and ``models.lexicon``.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from maxmargin._core import core
from maxmargin.data.arrays import (
    Checks,
    Rule,
    among,
    check_lengths,
    check_parameters,
    check_start,
    whole,
)
from maxmargin.data.spans import matches, shown_words
from maxmargin.data.trees import ParseTree, as_tree
from maxmargin.io.fields import FieldError, count, field_of, table, texts
from maxmargin.io.quoting import short
from maxmargin.models.examples import CompiledExamples
from maxmargin.models.extent import Extent
from maxmargin.models.lexicon import UNKNOWN, Lexicon
from maxmargin.models.protocol import Model, as_weights
from maxmargin.models.registry import SUMS
from maxmargin.models.rules import GrammarRules, check_tree, derive


class GrammarExamples(CompiledExamples):
    """Sentences in the core."""

    powers: tuple[str, ...] = (SUMS,)

    def __init__(self, model: Grammar, sentences: list[list[str]], truth: list[int]):
        self.model = model
        self.sentences = sentences
        rules, lexicon = model.rule_table_, model.lexicon_
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        words = [t for sentence in sentences for t in lexicon.terminals(sentence)]
        # The offset of the output of each block.
        self.first: np.ndarray = 3 * (2 * offsets - np.arange(len(offsets)))
        self.take(
            core.GrammarData(
                rules.core,
                offsets,
                np.array(words, dtype=np.int32),
                np.array(truth, dtype=np.int32),
                model.task_loss == "spans",
            )
        )

    def extent(self) -> Extent:
        words = np.array([len(sentence) for sentence in self.sentences], dtype=np.float64)
        longest = int(words.max(initial=1))
        # The score of a span is a sum over its splits and over the rules.
        parts, rules = int(2 * words.sum()), longest * self.dimension
        return Extent(2 * words, 2 * longest, 2 * longest, parts, rules, True)

    def output_sizes(self, blocks: np.ndarray) -> np.ndarray:
        return np.diff(self.first)[blocks]

    def tree(self, i: int, codes: np.ndarray) -> ParseTree:
        """Return the tree of sentence i from the numbers of its derivation."""
        return self.model.rule_table_.decode(codes.tolist(), self.sentences[i])

    def ready(self, w: np.ndarray) -> np.ndarray:
        return w  # the rules for sentences without a parse use w itself

    def predict(self, w: np.ndarray, n_jobs: int = 1) -> list[ParseTree]:
        codes = self.answers.predict(w, n_jobs)
        trees, lost = [], []
        for i in range(self.n):
            own = codes[self.first[i] : self.first[i + 1]]
            if own[1] < 0:
                lost.append(i)
            trees.append(
                self.model.flat_tree(self.sentences[i], w) if own[1] < 0 else self.tree(i, own)
            )
        if lost:
            named = ", ".join(map(str, lost[:10])) + (", ..." if len(lost) > 10 else "")
            warnings.warn(
                f"{len(lost)} of {self.n} sentences have no parse in the grammar and got a flat tree: "
                f"X[{named}]",
                UserWarning,
                stacklevel=3,
            )
        return trees

    def decide(self, w: np.ndarray, n_jobs: int = 1) -> np.ndarray:
        """Return the score of each prediction; -infinity for a sentence without a parse."""
        best = [self.core.best_k(w, i, 1)[1] for i in range(self.n)]
        return np.array([scores[0] if len(scores) else -np.inf for scores in best])

    def decode(self, codes: np.ndarray) -> list[ParseTree]:
        bounds = pairwise(self.first.tolist())
        return [self.tree(i, codes[a:b]) for i, (a, b) in enumerate(bounds)]

    def best_k(self, w: np.ndarray, i: int, k: int) -> list[tuple[ParseTree, float]]:
        """Return the k best trees of sentence i with their scores; an empty list if it has no parse."""
        codes, scores = self.core.best_k(w, i, k)
        trees = codes.reshape(len(scores), int(self.first[i + 1] - self.first[i]))
        return [(self.tree(i, y), float(s)) for y, s in zip(trees, scores, strict=True)]


class Grammar(Model):
    """Context-free grammar.

    Parameters
    ----------
    loss : "spans" or "zero-one"
        "spans" counts the labelled spans of phrases that only one of the two trees has. "zero-one" is 1 for
        a wrong tree.
    horizontal : int or None
        How many previous children a symbol of the binarised grammar remembers. None: all of them, so that
        exactly the phrases seen in training can be derived.
    rare : int
        Words that occur at most this often in training, and unknown words, are represented by their form
        only.
    top : str or None
        The label that the root of every tree has; None: any root label of the training data.
    """

    powers: ClassVar[tuple[str, ...]] = (SUMS,)
    checks: ClassVar[Checks] = {
        "loss": among("spans", "zero-one"),
        "horizontal": whole(0, none=True),
        "rare": whole(0),
        "top": Rule("None or a label", lambda x: x is None or (isinstance(x, str) and x)),
    }
    task = "parsing"

    def __init__(
        self,
        loss: str = "spans",
        horizontal: int | None = None,
        rare: int = 1,
        top: str | None = None,
    ):
        self.task_loss = loss
        self.horizontal = horizontal
        self.rare = rare
        self.top = top

    def initialize(self, X: Sequence[Any], Y: Sequence[Any]) -> None:
        """Read the lexicon and the rules from a treebank."""
        check_start(X, Y, self)
        sentences = read_sentences(X)
        trees = list(read_trees_of(sentences, Y))
        derivations, roots = [], Counter[str]()
        for i, tree in enumerate(trees):
            with example(i):
                derivations.append(derive(tree, self.horizontal))
                self._check_top(tree)
            roots[tree.label()] += 1
        self.lexicon_: Lexicon = Lexicon.learn(sentences, self.rare)
        lexical = self.lexicon_.lexical_rules([tree.pos() for tree in trees])
        self._take(GrammarRules.read(derivations, roots, lexical, len(self.lexicon_)))

    def _check_top(self, tree: ParseTree) -> None:
        if self.top is not None and tree.label() != self.top:
            raise ValueError(
                f"the root must be {short(self.top)}, the parameter top, got {short(tree.label())}"
            )

    def _take(self, rules: GrammarRules) -> None:
        """Set the fitted attributes from the rules."""
        names, words = rules.symbols, self.lexicon_.names()
        self.rule_table_ = rules
        self.classes_: np.ndarray = np.array(names[: rules.reals])
        self.rules_: dict[str, list[tuple[str, ...]]] = {
            "binary": [(names[a], names[b], names[c]) for b, c, a in rules.binary],
            "unary": [(names[a], names[b]) for a, b in rules.unary],
            "lexical": [(names[tag], words[t]) for t, tag in rules.lexical],
        }
        self.size_joint_feature: int = rules.size

    def bind(self, X: Sequence[Any], Y: Any = None, node_weight: Any = None) -> GrammarExamples:
        """Bind the model to these data; without Y for prediction only."""
        if node_weight is not None:
            raise ValueError(
                "node_weight must be None, because a tree has no positions to weigh; use "
                "sample_weight"
            )
        check_lengths(X, Y)
        sentences = read_sentences(X)
        truth: list[int] = []
        for i, tree in enumerate([] if Y is None else read_trees_of(sentences, Y)):
            with example(i):
                truth += self.encode(tree, sentences[i])
        return GrammarExamples(self, sentences, truth)

    def encode(self, tree: ParseTree, words: Sequence[str]) -> list[int]:
        """Return the numbers of a tree's derivation; raise an error for a rule that training has not seen."""
        steps = derive(tree, self.horizontal)
        return self.rule_table_.encode(steps, self.lexicon_.terminals(words), words)

    def flat_tree(self, words: Sequence[str], w: np.ndarray) -> ParseTree:
        """Return the tree for a sentence without a parse: the root over the best tag of each word.

        The root is ``top``, or the most frequent root of training.
        """
        rules = self.rule_table_
        weights = w[len(rules.binary) + len(rules.unary) :]
        best: dict[int, tuple[float, int]] = {}
        wanted = set(terminals := self.lexicon_.terminals(words))
        for (terminal, tag), weight in zip(rules.lexical, weights.tolist(), strict=True):
            if terminal in wanted and (terminal not in best or weight > best[terminal][0]):
                best[terminal] = (weight, tag)
        tags = [rules.symbols[best[t][1]] for t in terminals]
        root = self.top or rules.symbols[int(np.argmax(rules.roots))]
        return ParseTree(
            root, [ParseTree(tag, [word]) for tag, word in zip(tags, words, strict=True)]
        )

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Return Psi(x, y), in the order of ``coef_``."""
        (words,) = read_sentences([x])
        (tree,) = read_trees_of([words], [y])
        rules = self.rule_table_
        codes = np.array(self.encode(tree, words)).reshape(-1, 3)
        unary, lexical = len(rules.binary), len(rules.binary) + len(rules.unary)
        psi = np.zeros(rules.size)
        over_word = codes[:, 2] == 0
        np.add.at(psi, codes[:, 1] + lexical * over_word, 1.0)
        for above in codes[codes[:, 0] > 0, 0]:
            chain = rules.chains[above - 1]
            for pair in pairwise(chain):
                psi[unary + rules.unary_code[pair]] += 1.0
        return psi

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return Delta(y, y_hat) of any two trees over the same words."""
        matched, true, found = matches(y, y_hat)
        if self.task_loss == "zero-one":
            return float(as_tree(y) != as_tree(y_hat))
        return float(true + found - 2 * matched)

    def agreement(self, y: Any, y_hat: Any) -> tuple[float, float]:
        """Return two counts; the ratio of their sums over the examples is labelled bracket F1."""
        matched, true, found = matches(y, y_hat)
        return 2.0 * matched, float(true + found)

    def inference_k_best(self, x: Any, w: np.ndarray, k: int) -> list[tuple[ParseTree, float]]:
        """Return the k best trees with their scores, best first; an empty list if there is no parse."""
        return self.bind([x]).best_k(as_weights(w), 0, k)

    def unpack(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """Return the named parts of w: ``binary``, ``unary`` and ``lexical``, in the order of ``rules_``."""
        ends = np.cumsum([len(self.rules_[name]) for name in ("binary", "unary")])
        return dict(zip(self.rules_, np.split(np.asarray(w), ends), strict=True))

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        rules, lexicon = self.rule_table_, self.lexicon_
        state = {
            "loss": self.task_loss,
            "horizontal": None if self.horizontal is None else int(self.horizontal),
            "rare": int(self.rare),
            "top": self.top,
            "symbols": rules.symbols,
            "reals": rules.reals,
            "words": list(lexicon.words),
            "signatures": list(lexicon.signatures),
        }
        arrays: dict[str, np.ndarray] = {
            "binary": np.array(rules.binary, dtype=np.int32).reshape(-1, 3),
            "chains": np.array([s for chain in rules.chains for s in chain], dtype=np.int32),
            "chain_lengths": np.array([len(chain) for chain in rules.chains], dtype=np.int32),
            "lexical": np.array(rules.lexical, dtype=np.int32).reshape(-1, 2),
            "roots": np.array(rules.roots, dtype=np.int64),
        }
        return state, arrays

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Grammar:
        options = (field_of(state, name) for name in ("loss", "horizontal", "rare", "top"))
        model = cls(*options)
        check_parameters(model.get_params(), cls.checks)
        chains = saved_chains(arrays)
        pairs = {pair for chain in chains for pair in pairwise(chain)}
        model.lexicon_ = Lexicon(texts(state, "words"), texts(state, "signatures"))
        symbols, terminals = texts(state, "symbols"), len(model.lexicon_)
        reals = count(state, "reals", 1, len(symbols))
        lexical = table(arrays, "lexical", np.int32, -1, 2)
        # A flat tree needs a rule for each word, so every terminal must have one.
        if UNKNOWN not in state["signatures"] or len(np.unique(lexical[:, 0])) != terminals:
            raise FieldError("the lexical rules do not match the words and signatures")
        rules = GrammarRules(
            symbols,
            reals,
            [tuple(rule) for rule in table(arrays, "binary", np.int32, -1, 3).tolist()],
            sorted(pairs),
            chains,
            [tuple(rule) for rule in lexical.tolist()],
            table(arrays, "roots", np.int64, reals).tolist(),
            terminals,
        )
        model._take(rules)
        return model


def saved_chains(arrays: dict[str, np.ndarray]) -> list[tuple[int, ...]]:
    """Read unary chains from a file."""
    symbols = table(arrays, "chains", np.int32, -1)
    lengths = table(arrays, "chain_lengths", np.int32, -1).astype(np.int64)
    if (lengths < 2).any() or lengths.sum() != len(symbols):
        raise FieldError(f"the lengths of the chains do not match their {len(symbols)} symbols")
    ends = np.cumsum(lengths)
    return [tuple(symbols[b - n : b].tolist()) for b, n in zip(ends, lengths, strict=True)]


@contextmanager
def example(i: int) -> Iterator[None]:
    """Add the number of the example to error messages about its tree."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"Y[{i}]: {error}") from None


def read_sentences(X: Sequence[Any]) -> list[list[str]]:
    """Return sentences as lists of words; raise ValueError for anything else."""
    sentences = []
    for i, sentence in enumerate(X):
        if isinstance(sentence, str):
            raise ValueError(
                f"X[{i}] is one string; a sentence is a sequence of words, such as X[{i}].split()"
            )
        if not hasattr(sentence, "__iter__") or getattr(sentence, "shape", None) == ():
            raise ValueError(f"X[{i}] must be a sequence of words, got {short(sentence)}")
        words = [str(word) if isinstance(word, np.str_) else word for word in sentence]
        if not words:
            raise ValueError(f"X[{i}] is an empty sentence")
        for t, word in enumerate(words):
            if not isinstance(word, str) or not word:
                raise ValueError(f"X[{i}][{t}] must be a word, got {short(word)}")
        sentences.append(words)
    return sentences


def read_trees_of(sentences: list[list[str]], Y: Sequence[Any]) -> Iterator[ParseTree]:
    """Read trees in any form one by one, and check each against its sentence."""
    for i, (words, y) in enumerate(zip(sentences, Y, strict=True)):
        with example(i):
            tree = as_tree(y)
            check_tree(tree)
            if tree.leaves() != words:
                raise ValueError(
                    f"the tree has the leaves {shown_words(tree.leaves())}, but X[{i}] has the words "
                    f"{shown_words(words)}"
                )
        yield tree
