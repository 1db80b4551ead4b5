"""What is known of a file only when all of it was read: what its labels are, the task, how many columns.

Labels of a table or of numbered features are whole numbers, numbers or texts, for all of a file; the readers
give them as they are written: numbers, sets of them, or texts. A model that was trained says what they are.
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
MOST_EXACT = 2**53  # whole numbers that a double holds
LABEL_KINDS = {"U": "texts", "O": "texts", "f": "numbers"}  # of the classes of a model; else whole


@dataclass
class Summary:
    """Of the labels and columns of a file, batch by batch; then every batch as the whole file has it."""

    path: Any
    reading: Reading
    kind: str = ""  # of the labels, where it is known before
    examples: int = 0
    bare: int = 0  # the first line without a label
    sets: bool = False
    texts: bool = False
    large: bool = False
    broken: bool = False
    some: set[Any] = field(default_factory=set)  # different labels, of which three are enough

    def __post_init__(self) -> None:
        self.width: int = self.reading.n_features

    @classmethod
    def of_model(cls, path: Any, reading: Reading, classes: Any) -> Summary:
        """What a model says of files like the one that it was trained on."""
        found = cls(path, reading)
        kind = getattr(np.asarray(classes), "dtype", np.dtype(int)).kind
        found.kind = "numbers" if reading.task == "regression" else LABEL_KINDS.get(kind, "whole")
        return found

    def add(self, read: FromFile) -> None:
        """Look at a batch as it was read."""
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
        """All was seen: the task, where it was not given."""
        reading = self.reading
        if self.bare and not (self.sets or reading.task == "multilabel" or reading.unlabelled):
            raise FileError(f"{self.path}, line {self.bare}: there is no label before the features")
        reading.task = reading.task or USUAL.get(reading.format, "") or self._task()

    def _task(self) -> str:
        """The task of rows, by their labels."""
        if self.sets:
            return "multilabel"
        if self.broken and not self.texts:
            return "regression"
        return "binary" if len(self.some) == 2 else "multiclass"

    def final(self, read: FromFile) -> FromFile:
        """A batch as the whole file has it."""
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
        """One label, as all of the file are."""
        if self.reading.format not in (*NUMBERED, *TABLES):
            return given
        sets = self.reading.task == "multilabel"
        return self._member(given) if sets else self._labels([given])[0]

    def _member(self, label: float) -> int:
        """A label of a set."""
        if label != round(label):
            raise FileError(f"{self.path}: labels of sets are whole numbers, got {label}")
        return int(label)

    def _labels(self, given: Any) -> np.ndarray:
        """Labels of a batch: whole numbers, numbers or texts, as all labels of the file are."""
        kind = self.kind or self._kind()
        if kind == "texts":
            return np.array([y if isinstance(y, str) else str(y) for y in given])
        values = self._values(given)
        if any(isinstance(v, str) for v in values):  # of a file unlike the one of training
            return np.array([str(y) for y in given])
        numbers = np.array(values, dtype=float)
        return whole_where_exact(numbers) if kind == "whole" else numbers

    def _values(self, Y: Any) -> list[Any]:
        """The values of labels, sets or sequences of them: numbers, or texts that are none."""
        if isinstance(Y, np.ndarray):
            return Y.tolist()
        if len(Y) and isinstance(Y[0], tuple | np.ndarray):
            return [v for y in Y for v in y]
        if self.reading.format == "parquet":  # whose texts stay texts
            return list(Y)
        return [value_of(v) if isinstance(v, str) else v for v in Y]

    def _kind(self) -> str:
        """Of all labels that were seen."""
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
    """Whole numbers as such, where a float has them exactly."""
    return y.astype(np.int64) if (np.abs(y) < MOST_EXACT).all() and (y == np.floor(y)).all() else y


def is_sets(Y: Any) -> bool:
    """Whether each example has several labels, or may have."""
    return isinstance(Y, list) and len(Y) > 0 and isinstance(Y[0], tuple)
