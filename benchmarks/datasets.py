"""Loaders of the benchmark sets, from the folder that the environment variable MAXMARGIN_DATA
names.

    ocr_letters()  handwritten words, chain of 26 letters, 128 pixels each
    usps()         handwritten digits, 10 classes, 256 intensities
    conll2000()    text chunking, chain of 22 IOB2 tags, sparse attributes
    treebank()     parses of newspaper sentences of at most 15 words

`small=True` gives a tiny synthetic set of the same shape, which needs no file.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks import stand_ins
from benchmarks.text_features import Sentence, Vocabulary, iterate_attributes
from maxmargin.data.spans import bracket_scores
from maxmargin.data.trees import ParseTree, clean, read_trees
from maxmargin.metrics import entity_f1_score, tag_accuracy_score

VARIABLE = "MAXMARGIN_DATA"
CHECKOUT_DATA = Path(__file__).parents[1] / "data"
Inputs = Literal["raw", "unit"]

__all__ = [
    "VARIABLE",
    "Dataset",
    "conll2000",
    "load",
    "ocr_letters",
    "treebank",
    "usps",
]


@dataclass(frozen=True)
class Dataset:
    """One data set, split into training and test parts.

    `kind` names the model that predicts it; "tree" stands for models.Tree, a tree of parts with
    places.
    """

    name: str
    kind: Literal["chain", "multiclass", "grammar", "tree"]
    X_train: Any
    Y_train: Any
    X_test: Any
    Y_test: Any
    mean_loss: bool = False  # chains: whether the Hamming loss is divided by the length
    rich: bool = False
    unit: float = 1.0  # the unit of the model's loss, in units of a paper's loss
    sentences: dict[str, list[Sentence]] = field(default_factory=dict, repr=False)

    @property
    def size(self) -> int:
        """m, the number of training examples."""
        return len(self.Y_train)

    @property
    def width(self) -> int:
        """d, the number of features of one node; 0 for sentences to be parsed."""
        if self.kind == "grammar":
            return 0
        first = self.X_train if self.kind == "multiclass" else self.X_train[0]
        return int(first.shape[1])

    def attributes(self, part: Literal["train", "test"]) -> Iterator[list[list[str]]]:
        """The attribute lists of every sentence (text sets only), for learners that take strings."""
        return iterate_attributes(self.sentences[part], self.rich)

    def scores(self, predicted: Sequence[Any]) -> dict[str, float]:
        """Return the scores of the predictions on the test part.

        Trees of parts get the mean distance. Parses get the share of wrong trees and the bracket
        F1. Other
        sets get the error, and text sets also the chunk F1.
        """
        if self.kind == "tree":
            away = np.linalg.norm(np.subtract(self.Y_test, predicted), axis=2)
            return {"test_error": self.unit * float(away.mean())}
        if self.kind == "grammar":
            found = bracket_scores(self.Y_test, predicted, root=False)
            return {"test_error": 1 - found.exact, "bracket_f1": found.f1}
        result = {"test_error": 1 - tag_accuracy_score(self.Y_test, predicted)}
        if self.sentences:
            result["chunk_f1"] = entity_f1_score(self.Y_test, predicted)
        return result


def ocr_letters(
    inputs: Inputs = "raw",
    test_folds: Sequence[int] = (0,),
    dtype: type = np.float64,
    small: bool = False,
) -> Dataset:
    """Words as lists of (T, 128) arrays: 0/1 pixels ("raw") or letters of norm one ("unit")."""
    if small:
        X, Y, folds = stand_ins.letters()
    else:
        with np.load(data_file("ocr_letters", "ocr_letters.npz"), allow_pickle=False) as stored:
            pixels, letters, ends = stored["X"], stored["y"], stored["ptr"][1:-1]
            folds = stored["fold"]
        X, Y = np.split(pixels, ends), np.split(letters.astype(np.int64), ends)
    X = [np.ascontiguousarray(_scaled(x.astype(dtype), inputs)) for x in X]
    test = np.isin(folds, test_folds)
    return Dataset(
        name="ocr",
        kind="chain",
        X_train=_pick(X, ~test),
        Y_train=_pick(Y, ~test),
        X_test=_pick(X, test),
        Y_test=_pick(Y, test),
        mean_loss=True,
    )


def usps(inputs: Inputs = "raw", dtype: type = np.float64, small: bool = False) -> Dataset:
    """Digits as (n, 256) arrays: intensities in [-1, 1] ("raw") or rows of norm one ("unit")."""
    if small:
        X, y = stand_ins.digits()
        parts = [(X[:150], y[:150]), (X[150:], y[150:])]
    else:
        parts = [_digits(data_file("usps", f"zip.{part}.gz")) for part in ("train", "test")]
    (X_train, y_train), (X_test, y_test) = parts
    return Dataset(
        name="usps",
        kind="multiclass",
        X_train=_scaled(X_train.astype(dtype), inputs),
        Y_train=y_train,
        X_test=_scaled(X_test.astype(dtype), inputs),
        Y_test=y_test,
    )


def conll2000(rich: bool = False, dtype: type = np.float64, small: bool = False) -> Dataset:
    """Sentences as CSR matrices over the attributes of the training part; labels are strings.

    Attributes: word and tag at -2..2 and a bias (d = 92,790); with `rich` also word and tag
    bigrams, tag trigrams, affixes and the word's shape (d = 561,682). Attributes of test
    sentences that training has not seen are dropped.
    """
    parts = {part: chunked(part, small) for part in ("train", "test")}
    vocabulary = Vocabulary()
    X = {
        part: vocabulary.encode(iterate_attributes(parts[part][0], rich), dtype, part == "train")
        for part in ("train", "test")
    }
    return Dataset(
        name="conll2000",
        kind="chain",
        X_train=X["train"],
        Y_train=parts["train"][1],
        X_test=X["test"],
        Y_test=parts["test"][1],
        rich=rich,
        sentences={part: texts for part, (texts, _) in parts.items()},
    )


def treebank(max_words: int = 15, small: bool = False) -> Dataset:
    """Sentences of at most `max_words` words with their trees; files up to wsj_0150 are for training.

    Traces, function tags and unary loops are dropped, and every tree has the root TOP.
    """
    if small:
        trees = [ParseTree("TOP", [tree]) for tree in stand_ins.trees()]
        test = [number % 5 == 0 for number in range(len(trees))]
    else:
        with data_file("treebank", "files.tsv").open(encoding="utf-8") as lines:
            rows = [line.split("\t") for line in lines][1:]
        test = [name > "wsj_0150" for name, count, _ in rows for _ in range(int(count))]
        with gzip.open(data_file("treebank", "treebank.mrg.gz"), "rt") as stream:
            trees = read_trees(stream, top="TOP")
    parts: dict[bool, list[ParseTree]] = {False: [], True: []}
    for tree, held_out in zip(map(clean, trees), test, strict=True):
        if tree is not None and len(tree.leaves()) <= max_words:
            parts[held_out].append(tree)
    return Dataset(
        name="treebank",
        kind="grammar",
        X_train=[tree.leaves() for tree in parts[False]],
        Y_train=parts[False],
        X_test=[tree.leaves() for tree in parts[True]],
        Y_test=parts[True],
    )


_LOADERS: dict[str, Callable[..., Dataset]] = {
    "ocr": ocr_letters,
    "usps": usps,
    "conll2000": conll2000,
    "treebank": treebank,
}


def load(name: str, **options: Any) -> Dataset:
    """Load the set called "ocr", "usps", "conll2000" or "treebank"."""
    if name not in _LOADERS:
        raise ValueError(f"data set {name!r} is not one of {sorted(_LOADERS)}")
    return _LOADERS[name](**options)


def data_root() -> Path | None:
    """The folder that the environment variable names, else `data/` of the checkout if it exists."""
    if root := os.environ.get(VARIABLE):
        return Path(root)
    return CHECKOUT_DATA if CHECKOUT_DATA.is_dir() else None


def missing_files(files: Iterable[str]) -> list[str]:
    """Return the files (folder/file) that are not in the data folder."""
    root = data_root()
    return [file for file in files if root is None or not (root / file).is_file()]


def data_file(folder: str, file: str) -> Path:
    """Return the path of a file in the data folder; raise FileNotFoundError if it is missing."""
    root = data_root()
    if root is None:
        raise FileNotFoundError(
            f"{folder}/{file} is needed: set the environment variable {VARIABLE} to the folder "
            f"that holds it, or make it {CHECKOUT_DATA}, or ask for the synthetic stand-in with small=True"
        )
    path = root / folder / file
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing; {VARIABLE} (or data/ of the checkout) is {str(root)!r}"
        )
    return path


def _digits(path: Path) -> tuple[np.ndarray, np.ndarray]:
    with gzip.open(path, "rt") as lines:
        table = np.array([line.split() for line in lines], dtype=np.float64)
    return np.ascontiguousarray(table[:, 1:]), table[:, 0].astype(np.int64)


def chunked(part: str, small: bool = False) -> tuple[list[Sentence], list[list[str]]]:
    """Sentences of CoNLL-2000 with their chunk tags, "train" or "test"."""
    if small:
        texts, labels = stand_ins.sentences()
        own = slice(30) if part == "train" else slice(30, None)
        return texts[own], labels[own]
    with gzip.open(data_file("conll2000", f"{part}.txt.gz"), "rt") as stream:
        blocks = stream.read().strip().split("\n\n")
    texts, labels = [], []
    for block in blocks:
        words, tags, chunk_tags = zip(*(line.split() for line in block.splitlines()), strict=True)
        texts.append((list(words), list(tags)))
        labels.append(list(chunk_tags))
    return texts, labels


def _scaled(X: np.ndarray, inputs: Inputs) -> np.ndarray:
    if inputs == "raw":
        return X
    if inputs == "unit":
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        # A blank image has no direction; it stays zero.
        return X / np.where(norms > 0, norms, 1)
    raise ValueError(f"inputs={inputs!r} is not one of 'raw', 'unit'")


def _pick(items: list[Any], mask: np.ndarray) -> list[Any]:
    return [item for item, wanted in zip(items, mask, strict=True) if wanted]
