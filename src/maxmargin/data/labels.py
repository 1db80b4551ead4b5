"""Encode labels of any hashable kind as whole numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, repeat
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin._core import core
from maxmargin.data.arrays import unmasked
from maxmargin.data.mapped import CodedLabels, CodedSequences
from maxmargin.io.fields import FieldError, list_of
from maxmargin.io.quoting import short

PLAIN: set[type] = {list, tuple, np.ndarray}
SORTED = frozenset("biufUS")  # kinds of arrays that NumPy can sort and compare
# Largest range of integer labels that are counted in a table instead of sorted. A larger range takes more
# memory and may be slower than sorting; a smaller one sorts more often.
CLOSE = 10_000


def is_masked(label: Any) -> bool:
    """Whether a label is a masked entry."""
    return isinstance(label, np.ma.MaskedArray)


def as_array(labels: Sequence[Any]) -> np.ndarray:
    """Return labels as one array without changing any label (NumPy would turn [1, 'a'] into strings)."""
    kinds = {type(label) for label in labels}
    if len(kinds) == 1 and (
        kinds <= {str, int, float, bool} or issubclass(next(iter(kinds)), np.generic)
    ):
        array = np.asarray(labels)
        if array.dtype.kind in SORTED:
            return array
    array = np.empty(len(labels), dtype=object)
    for position, label in enumerate(labels):
        array[position] = label
    return array


class Outputs(list[Any]):
    """Predicted outputs: a list that NumPy converts to an array of n outputs, even of different lengths.

    scikit-learn joins the predictions of folds as arrays. Labellings become an array of objects. Outputs of
    one shape (``even``, or arrays of several dimensions) become an array of more dimensions.
    """

    def __init__(self, outputs: Iterable[Any], even: bool = False):
        super().__init__(outputs)
        self.even: bool = even or (len(self) > 0 and getattr(self[0], "ndim", 0) > 1)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        array = np.array(list(self)) if self.even else as_array(self)
        return array if dtype is None else array.astype(dtype)

    def tolist(self) -> list[Any]:
        """Return the outputs with arrays as lists of plain Python values, as seqeval expects."""
        return [y.tolist() if isinstance(y, np.ndarray | np.generic) else y for y in self]


def is_plain_array(labels: Any) -> bool:
    """Whether the labels are an array that NumPy can sort and compare."""
    return isinstance(labels, np.ndarray) and labels.dtype.kind in SORTED


def distinct_labels(labels: np.ndarray) -> np.ndarray:
    """Return the distinct labels, sorted; integers in a small range are counted, which is faster."""
    if labels.dtype.kind not in "iu" or len(labels) == 0 or labels.ndim != 1:
        return np.unique(labels)
    low = labels.min()
    if int(labels.max()) - int(low) >= CLOSE:
        return np.unique(labels)
    return np.flatnonzero(np.bincount(above(labels, low))).astype(labels.dtype) + low


def above(labels: np.ndarray, low: Any) -> np.ndarray:
    """Subtract ``low`` from integers, in int64 so that small dtypes do not overflow."""
    return np.subtract(labels, low, dtype=np.int64, casting="unsafe")


def flatten(Y: Sequence[Any]) -> Any:
    """Concatenate the labels of all sequences."""
    if isinstance(Y, CodedSequences):
        return Y
    types = set(map(type, Y))
    if not types <= PLAIN:  # testing every item is slow
        Y = [unmasked(y, f"Y[{i}]") if is_masked(y) else y for i, y in enumerate(Y)]
    if types and all(issubclass(kind, np.ndarray) for kind in types):
        kinds = {dtype.kind for dtype in set(map(attrgetter("dtype"), Y))}
        if len(kinds) == 1 and kinds <= SORTED:
            return np.concatenate(Y)
    return list(chain.from_iterable(y.tolist() if isinstance(y, np.ndarray) else y for y in Y))


def are_lists(Y: Any) -> bool:
    """Whether Y is a list of lists, which the core can read."""
    return type(Y) is list and set(map(type, Y)) == {list}


def check_classes(classes: np.ndarray) -> None:
    """Refuse a single class, with which a model cannot learn anything."""
    if len(classes) < 2:
        raise ValueError(
            f"at least 2 classes are needed, but Y has only one class: {classes.tolist()}"
        )


def fault_of_label(label: Any) -> str:
    """Describe why a value cannot be a label; empty if it can."""
    try:
        if label != label:
            return (
                "cannot be a label, because it does not equal itself; drop the example, or use "
                "another label"
            )
    except (TypeError, ValueError):  # a missing value of pandas
        return "cannot be a label, because it marks a missing value; drop the example"
    if isinstance(label, str | bytes) and label[-1:] in ("\0", b"\0"):
        return "ends with a NUL character, which arrays of NumPy drop; remove it"
    return ""


class UnfitLabel(ValueError):
    """A value that cannot be a label; ``placed`` adds its position to the message."""

    def __init__(self, name: str, label: Any, fault: str):
        super().__init__(f"{name}: {label!r} {fault}")
        self.label, self.fault = label, fault


@contextmanager
def placed(Y: Any, nested: bool = False, name: str = "Y") -> Iterator[None]:
    """Add the position of the first unfit label in Y to errors; ``nested``: outputs have several labels."""
    try:
        yield
    except UnfitLabel as error:
        for i, y in enumerate(Y):
            for t, label in enumerate(y) if nested else [(-1, y)]:
                if label is error.label or fault_of_label(label) == error.fault:
                    place = f"{name}[{i}]" if t < 0 else f"{name}[{i}][{t}]"
                    raise ValueError(f"{place}: {short(error.label)} {error.fault}") from None
        raise


def check_fit_for_labels(values: Iterable[Any], name: str) -> None:
    """Refuse values that cannot be labels."""
    for label in values:
        fault = fault_of_label(label)
        if fault:
            raise UnfitLabel(name, label, fault)


def hashed(look_up: Callable[[], Any], where: str) -> Any:
    """Return ``look_up()``; if a label is not hashable, the error says where."""
    try:
        return look_up()
    except TypeError as error:
        raise ValueError(f"{where}: labels must be hashable; {error}") from None


class LabelSet:
    """The distinct labels, sorted if they can be compared, and the code of each.

    Given ``classes`` fix the set, so that a fold without a label still has its class.
    """

    classes: np.ndarray

    def __init__(self, classes: Iterable[Hashable], name: str = "Y"):
        if isinstance(classes, CodedLabels | CodedSequences):
            classes = classes.used()
        classes = unmasked(classes, name) if is_masked(classes) else classes
        single = isinstance(classes, str | bytes) or getattr(classes, "shape", None) == ()
        if single or not isinstance(classes, Iterable):
            raise ValueError(f"{name} must be a sequence of labels, got {short(classes)}")
        if is_plain_array(classes):
            self.classes = distinct_labels(classes)  # type: ignore[arg-type]
            if self.classes.dtype.kind == "f":
                check_fit_for_labels(self.classes[-1:].tolist(), name)  # NaN comes last
        else:
            distinct: list[Any] = hashed(lambda: list(dict.fromkeys(classes)), name)
            if any(map(is_masked, distinct)):
                raise ValueError(f"{name} has masked labels; drop these examples first")
            check_fit_for_labels(distinct, name)
            with suppress(
                TypeError, ValueError
            ):  # labels of several kinds keep the order of first appearance
                distinct = sorted(distinct)  # type: ignore
            self.classes = as_array(distinct)
        named = self.classes.tolist() if is_plain_array(self.classes) else self.classes
        self.code: dict[Any, int] = {label: k for k, label in enumerate(named)}

    @classmethod
    def learn(cls, Y: Any, classes: Any = None, nested: bool = False) -> LabelSet:
        """Return the set of the given classes, or of the labels in Y; refuse fewer than two classes.

        ``nested`` : whether Y holds sequences of labels
        """
        if classes is not None:
            labels = cls(classes, "classes")
        else:
            with placed(Y, nested):
                listed = nested and are_lists(Y)
                found = hashed(partial(core.distinct_labels, Y), "Y") if listed else Y
                labels = cls(flatten(Y) if nested and not listed else found)
        check_classes(labels.classes)
        return labels

    def __len__(self) -> int:
        return len(self.classes)

    def encode_sequences(self, Y: Sequence[Any]) -> np.ndarray:
        """Return the codes of all labels of all sequences as one array; see ``encode``."""
        if are_lists(Y):
            return hashed(partial(core.label_codes, Y, self.code), "Y")
        return self.encode(flatten(Y))

    def encode(self, labels: Any, where: str = "Y") -> np.ndarray:
        """Return the codes (int32) of a flat sequence of labels; -1 marks a label outside the set."""
        if isinstance(labels, CodedLabels | CodedSequences):
            table = self.encode(labels.classes, where)
            return np.concatenate([table[part] for part in labels.codes])
        labels = unmasked(labels, where) if is_masked(labels) else labels
        if is_plain_array(labels) and self.classes.dtype.kind == labels.dtype.kind:
            if labels.dtype == self.classes.dtype and labels.dtype.kind in "iu" and len(labels) > 0:
                codes = self._by_table(labels)
                if codes is not None:
                    return codes
            place = np.searchsorted(self.classes, labels)
            place[place == len(self.classes)] = 0
            return np.where(self.classes[place] == labels, place, -1).astype(np.int32)
        if is_plain_array(labels):
            labels = labels.tolist()
        found = map(self.code.get, labels, repeat(-1))
        return hashed(lambda: np.fromiter(found, np.int32, len(labels)), where)

    def _by_table(self, labels: np.ndarray) -> np.ndarray | None:
        """Return the codes by a table if classes and labels lie in one small range; else None."""
        low, high = self.classes.min(), self.classes.max()
        inside = low <= labels.min() and labels.max() <= high
        if not inside or int(high) - int(low) >= CLOSE:
            return None
        table = np.full(int(high) - int(low) + 1, -1, np.int32)
        table[above(self.classes, low)] = np.arange(len(self.classes))
        return table[above(labels, low)]

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Return the labels of codes."""
        return self.classes[codes]

    def state(self) -> dict[str, Any]:
        """Return the labels as plain values; refuse labels that JSON cannot hold."""
        labels = self.classes.tolist()
        if not all(isinstance(label, str | int | float | bool | None) for label in labels):
            raise ValueError(
                "save: labels must be strings, numbers, booleans or None to be written to a file"
            )
        return {"classes": labels, "dtype": self.classes.dtype.str}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> LabelSet:
        """Return the labels that ``state`` describes, in their order."""
        labels, classes, dtype = cls([]), list_of(state, "classes"), saved_dtype(state)
        if not all(isinstance(label, str | int | float | bool | None) for label in classes):
            raise FieldError("labels must be texts, numbers, true, false or null")
        if len({(type(label), label) for label in classes}) != len(classes):
            raise FieldError("labels must be distinct")
        try:
            kept = as_array(classes) if dtype.hasobject else np.asarray(classes, dtype=dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise FieldError(f"the labels cannot have the dtype {dtype}: {error}") from error
        if kept.ndim != 1 or not all(map(same_label, kept.tolist(), classes)):
            raise FieldError(f"the labels do not have the dtype {dtype}")
        labels.classes = kept
        labels.code = {label: k for k, label in enumerate(classes)}
        return labels


# Sets of labels


def is_matrix(Y: Any) -> bool:
    """Whether Y is a matrix of numbers (0 and 1) rather than a list of sets of labels."""
    if sp.issparse(Y):
        return True
    return is_plain_array(Y) and Y.ndim == 2 and Y.dtype.kind in "biuf"


def ordered(names: Iterable[Hashable]) -> LabelSet:
    """Return a label set in the order of the columns that the labels name."""
    labels = LabelSet(names, "classes")
    given = list(names)
    if len(labels) != len(given):
        raise ValueError("classes must name each column once")
    order = [labels.code[name] for name in given]
    labels.classes = labels.classes[order]
    labels.code = {name: k for k, name in enumerate(given)}
    return labels


def members(y: Any, name: str) -> list[Hashable]:
    """Return the labels of one example; ``name`` identifies it in errors."""
    if isinstance(y, str) or not isinstance(y, Iterable) or getattr(y, "shape", None) == ():
        raise ValueError(
            f"{name} must be a set, list or tuple of labels (or give Y as a matrix), got {short(y)}"
        )
    labels = y.tolist() if isinstance(y, np.ndarray) else list(y)
    try:
        distinct = len(set(labels))
    except TypeError as error:
        raise ValueError(f"{name}: labels must be hashable; {error}") from None
    if distinct != len(labels):
        raise ValueError(
            f"{name} names a label twice: {short(y)}; give rows of 0 and 1 as a matrix, np.array(Y)"
        )
    return labels


# Files

DTYPE = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248]|U\d{1,8}|O8?)")
# Text labels from a file may take WIDE_TEXTS bytes plus TIMES the bytes that they need. Without this limit a
# small file could allocate huge memory; smaller values would refuse short texts beside a long one.
WIDE_TEXTS, TIMES = 2**24, 16


def saved_dtype(state: dict[str, Any]) -> np.dtype:
    """Return the dtype of labels from a file; refuse text types far wider than the texts."""
    text, classes = state.get("dtype"), list_of(state, "classes")
    if not isinstance(text, str) or not DTYPE.fullmatch(text):
        raise FieldError(f"dtype {short(text)} is not a type of labels")
    dtype = np.dtype(text)
    wanted = len(classes) * dtype.itemsize
    there = sum(4 * len(label) for label in classes if isinstance(label, str))
    if dtype.kind == "U" and wanted > WIDE_TEXTS + TIMES * there:
        raise FieldError(
            f"dtype {text} of {len(classes)} labels takes {wanted} bytes, but the texts need only "
            f"{there}"
        )
    return dtype


def same_label(kept: Any, label: Any) -> bool:
    """Whether a label from an array equals the written one in type and value; NaN equals NaN."""
    return type(kept) is type(label) and (kept == label or kept != kept)
