"""The examples and true outputs read from a file, and the settings for reading it."""

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

NUMBERED = ("svmlight", "svmhmm")  # formats whose features are column numbers from 1 on


class FileError(ForeignError):
    """A fault in a file, with its name and line."""


@dataclass
class Reading:
    """The settings for reading a file; a model file keeps them, so that new files are read the same way."""

    format: str
    task: str
    label: str = ""  # name or number of the label column; empty: the usual one of the format
    templates: str = "words"  # name or text of the template for columns: see ``data.templates``
    n_features: int = 0  # number of numbered features in training; 0: as many as in the file
    columns: int = 0  # number of columns of text, with the label; 0: as many as in the file
    names: list[str] = field(default_factory=list)  # columns of a table of numbers, in order
    unlabelled: bool = False  # whether labels may be missing, for predictions

    def state(self) -> dict[str, Any]:
        """Return the settings as plain values, for a file."""
        return {name: value for name, value in vars(self).items() if name != "unlabelled"}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Reading:
        """Return the settings that ``state`` describes; refuse invalid values."""
        known = {f.name for f in fields(cls)} - {"unlabelled"}
        state = {"columns": 0, "names": [], **state}  # older files lack these
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
    """Return the ``templates`` field: a known name or the text of a template; refuse others."""
    if state["templates"] not in TEMPLATES:
        try:
            template_of(state["templates"])
        except ValueError as error:
            raise FieldError(str(error)) from None
    return state["templates"]


@dataclass
class FromFile:
    """Examples and true outputs, and the tokens of each example if the format has tokens.

    Y is None if there are no labels and ``Reading.unlabelled`` allows that.
    """

    X: Any
    Y: Any
    reading: Reading
    tokens: list[Any] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # columns of a table, without the label
    lines: list[int] = field(default_factory=list)  # line numbers of the rows of a table
    bare: int = 0  # number of the first line without a label

    def __len__(self) -> int:
        return int(self.X.shape[0]) if hasattr(self.X, "shape") else len(self.X)

    @property
    def width(self) -> int:
        """The number of numbered features; 0 if features have names."""
        if self.reading.format not in NUMBERED:
            return 0
        first = self.X if sp.issparse(self.X) else self.X[0]
        return int(first.shape[1])


def joined_batches(batches: list[FromFile]) -> FromFile:
    """Join several batches of one file."""
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
    """Concatenate matrices, arrays or lists."""
    if sp.issparse(parts[0]):
        return sp.vstack(parts, format="csr")
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return list(chain.from_iterable(parts))
