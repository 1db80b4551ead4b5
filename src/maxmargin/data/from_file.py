"""What is read from a file: examples and true outputs, and how they were read."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.data.patterns import template_of
from maxmargin.data.templates import TEMPLATES
from maxmargin.io import FORMATS, TASKS
from maxmargin.io.fields import (
    MOST_FEATURES,
    FieldError,
    check_names,
    choice,
    count,
    field_of,
    texts,
)
from maxmargin.io.quoting import ForeignError, short

NUMBERED = ("svmlight", "svmhmm")  # features, by columns from 1 on


class FileError(ForeignError):
    """What is wrong with a file, with its name and line."""


@dataclass
class Reading:
    """How a file is read: kept in a model file, so that new files are read the same way."""

    format: str
    task: str
    label: str = ""  # name or number of the column that is the label; empty: the usual one
    templates: str = "words"  # of columns, a name or the text of a template: see ``data.templates``
    n_features: int = 0  # of numbered features, as many as in training; 0: as many as there are
    columns: int = 0  # of text in columns, with the label; 0: as many as there are
    names: list[str] = field(default_factory=list)  # of the columns of a table of numbers, in order
    unlabelled: bool = False  # whether labels may be missing: for predictions

    def state(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return {name: value for name, value in vars(self).items() if name != "unlabelled"}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Reading:
        """What ``state`` gave; refuses what is not a way of reading."""
        known = {f.name for f in fields(cls)} - {"unlabelled"}
        state = {"columns": 0, "names": [], **state}  # which older files do not say
        check_names(state, sorted(known), "reading")
        for name in ("label", "templates"):
            if not isinstance(field_of(state, name), str):
                raise FieldError(f"{name} must be a text, got {short(state[name])}")
        return cls(
            choice(state, "format", FORMATS),
            choice(state, "task", TASKS),
            state["label"],
            known_templates(state),
            count(state, "n_features", 0, MOST_FEATURES),
            count(state, "columns", 0, MOST_FEATURES),
            texts(state, "names"),
        )


def known_templates(state: dict[str, Any]) -> str:
    """A name, or the text of a template; refuses any other."""
    if state["templates"] not in TEMPLATES:
        try:
            template_of(state["templates"])
        except ValueError as error:
            raise FieldError(str(error)) from None
    return state["templates"]


@dataclass
class FromFile:
    """Examples and true outputs, and the tokens of each example where a format has some.

    Y is None where there are no labels, and ``Reading.unlabelled`` allows that.
    """

    X: Any
    Y: Any
    reading: Reading
    tokens: list[Any] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # of the columns of a table, but for the label
    lines: list[int] = field(default_factory=list)  # of the rows of a table
    bare: int = 0  # the line of the first row without a label

    def __len__(self) -> int:
        return int(self.X.shape[0]) if hasattr(self.X, "shape") else len(self.X)

    @property
    def width(self) -> int:
        """How many numbered features there are; 0 where features have names."""
        if self.reading.format not in NUMBERED:
            return 0
        first = self.X if sp.issparse(self.X) else self.X[0]
        return int(first.shape[1])


def joined_batches(batches: list[FromFile]) -> FromFile:
    """The examples of several batches of a file, which are of one kind."""
    first = batches[0]
    if len(batches) == 1:
        return first
    return replace(
        first,
        X=stacked_batches([own.X for own in batches]),
        Y=None if first.Y is None else stacked_batches([own.Y for own in batches]),
        tokens=[lines for own in batches for lines in own.tokens],
        lines=[line for own in batches for line in own.lines],
    )


def stacked_batches(parts: list[Any]) -> Any:
    """Matrices, arrays or lists, one after the other."""
    if sp.issparse(parts[0]):
        return sp.vstack(parts, format="csr")
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return list(chain.from_iterable(parts))
