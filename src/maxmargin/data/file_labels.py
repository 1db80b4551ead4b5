"""Facts that need the whole file: label type, task, number of columns.

All labels of a table or of numbered features have one type: whole numbers, numbers or texts. The readers
return unconverted labels: numbers, sets of numbers, or texts. If a trained model reads the file, the model
gives the type.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from maxmargin.data.file_rows import named_columns, value_of, widened
from maxmargin.data.from_file import NUMBERED, FileError, FromFile, Reading

TABLES = ("csv", "tsv", "parquet")
USUAL = {
    "svmhmm": "tagging",
    "crfsuite": "tagging",
    "conll": "tagging",
    "conllu": "tagging",
    "brackets": "parsing",
}
MOST_EXACT = 2**53  # a double holds every whole number below this
# Label type by the dtype kind of a model's classes; any other kind means whole numbers.
LABEL_KINDS = {"U": "texts", "O": "texts", "f": "numbers"}


@dataclass
class Summary:
    """Collects label types and columns batch by batch, then converts each batch accordingly."""

    path: Any
    reading: Reading
    kind: str = ""  # type of the labels, if it is known before reading
    examples: int = 0
    bare: int = 0  # number of the first line without a label
    sets: bool = False
    texts: bool = False
    large: bool = False
    broken: bool = False
    some: set[Any] = field(default_factory=set)  # up to three different labels, to count classes

    def __post_init__(self) -> None:
        self.width: int = self.reading.n_features

    @classmethod
    def of_model(cls, path: Any, reading: Reading, classes: Any) -> Summary:
        """Return a summary with the label type of a trained model, for files like its training file."""
        found = cls(path, reading)
        kind = getattr(np.asarray(classes), "dtype", np.dtype(int)).kind
        found.kind = "numbers" if reading.task == "regression" else LABEL_KINDS.get(kind, "whole")
        return found

    def add(self, read: FromFile) -> None:
        """Collect the labels and columns of a batch."""
        self.examples += len(read)
        self.bare = self.bare or read.bare
        if read.reading.format in NUMBERED:
            self.width = max(self.width, read.width)
        if read.reading.format in (*NUMBERED, *TABLES):
            self.sets |= any(len(y) > 1 for y in read.Y) if is_sets(read.Y) else False
            values = self._values(read.Y)
            self.texts |= any(isinstance(v, str) for v in values)
            numbers = np.array([v for v in values if not isinstance(v, str)], dtype=float)
            self.broken |= bool((numbers != np.round(numbers)).any())
            self.large |= bool((np.abs(numbers) >= MOST_EXACT).any())
        elif read.reading.format not in USUAL and read.Y is not None and not self.reading.task:
            values = np.asarray(read.Y).tolist()
            self.broken |= any(isinstance(v, float) and v != round(v) for v in values)
        else:
            return
        for value in values if len(self.some) < 3 else ():
            self.some.add(value)
            if len(self.some) == 3:
                break

    def settle(self) -> None:
        """Set the task, unless it was given, after all batches were added; refuse missing labels."""
        reading = self.reading
        if self.bare and not (self.sets or reading.task == "multilabel" or reading.unlabelled):
            raise FileError(f"{self.path}, line {self.bare}: there is no label before the features")
        reading.task = reading.task or USUAL.get(reading.format, "") or self._task()

    def _task(self) -> str:
        """The task of a file of rows, judged by its labels."""
        if self.sets:
            return "multilabel"
        if self.broken and not self.texts:
            return "regression"
        return "binary" if len(self.some) == 2 else "multiclass"

    def final(self, read: FromFile) -> FromFile:
        """Convert a batch to the label type and the width of the whole file."""
        form, task = self.reading.format, self.reading.task
        if form in NUMBERED:
            read = replace(read, X=widened(read.X, self.width))
        if form in TABLES and task == "regression":
            read = replace(read, X=named_columns(read, self.path))
        if form not in (*NUMBERED, *TABLES) or read.Y is None:
            return read
        if form == "svmhmm":
            return replace(read, Y=[self._labels(y).tolist() for y in read.Y])
        if task == "multilabel":
            return replace(read, Y=[tuple(map(self._member, y)) for y in read.Y])
        if is_sets(read.Y):
            if self.reading.unlabelled and not all(read.Y):
                return replace(read, Y=None)
            return replace(read, Y=self._labels([v for y in read.Y for v in y]))
        return replace(read, Y=self._labels(read.Y))

    def label(self, given: Any) -> Any:
        """Convert one label to the label type of the file."""
        if self.reading.format not in (*NUMBERED, *TABLES):
            return given
        sets = self.reading.task == "multilabel"
        return self._member(given) if sets else self._labels([given])[0]

    def _member(self, label: float) -> int:
        """Convert a label of a set to a whole number."""
        if label != round(label):
            raise FileError(f"{self.path}: labels of sets are whole numbers, got {label}")
        return int(label)

    def _labels(self, given: Any) -> np.ndarray:
        """Convert the labels of a batch to the type of the file: whole numbers, numbers or texts."""
        kind = self.kind or self._kind()
        if kind == "texts":
            return np.array([y if isinstance(y, str) else str(y) for y in given])
        values = self._values(given)
        if any(isinstance(v, str) for v in values):  # the file is unlike the training file
            return np.array([str(y) for y in given])
        numbers = np.array(values, dtype=float)
        return whole_where_exact(numbers) if kind == "whole" else numbers

    def _values(self, Y: Any) -> list[Any]:
        """The values of labels, sets or sequences: numbers, or texts that are not numbers."""
        if isinstance(Y, np.ndarray):
            return Y.tolist()
        if len(Y) and isinstance(Y[0], tuple | np.ndarray):
            return [v for y in Y for v in y]
        if self.reading.format == "parquet":  # texts in Parquet stay texts
            return list(Y)
        return [value_of(v) if isinstance(v, str) else v for v in Y]

    def _kind(self) -> str:
        """The type of all labels seen: texts, numbers or whole numbers."""
        single = self.reading.format in ("csv", "tsv") and self.reading.task in (
            "multiclass",
            "binary",
        )
        if self.texts or (single and self.broken):
            return "texts"
        if self.reading.task == "regression" and self.reading.format in TABLES:
            return "numbers"
        return "numbers" if self.broken or self.large else "whole"


def whole_where_exact(y: np.ndarray) -> np.ndarray:
    """Return an array as integers if all its values are whole numbers that a double holds exactly."""
    return y.astype(np.int64) if (np.abs(y) < MOST_EXACT).all() and (y == np.floor(y)).all() else y


def is_sets(Y: Any) -> bool:
    """Whether each example has several labels, or may have."""
    return isinstance(Y, list) and len(Y) > 0 and isinstance(Y[0], tuple)
