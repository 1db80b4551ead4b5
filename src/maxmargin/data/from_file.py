"""What is read from a file: examples and true outputs, and how they were read."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import scipy.sparse as sp

from maxmargin.data.templates import TEMPLATES, template_of
from maxmargin.io.fields import (
    MOST_FEATURES,
    FieldError,
    check_names,
    choice,
    count,
    field_of,
    short,
)

FORMATS = (
    "svmlight",
    "svmhmm",
    "crfsuite",
    "conll",
    "conllu",
    "brackets",
    "csv",
    "tsv",
    "npz",
    "parquet",
    "shards",
)
TASKS = ("multiclass", "binary", "tagging", "multilabel", "parsing", "regression")


class FileError(ValueError):
    """What is wrong with a file, with its name and line."""


@dataclass
class Reading:
    """How a file is read: kept in a model file, so that new files are read the same way."""

    format: str
    task: str
    label: str = ""  # name or number of the column that is the label; empty: the usual one
    templates: str = "words"  # of columns, a name or the text of a template: see ``data.templates``
    n_features: int = 0  # of numbered features, as many as in training; 0: as many as there are

    def state(self) -> dict[str, Any]:
        """Plain values."""
        return dict(vars(self))

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Reading:
        """What ``state`` gave; refuses what is not a way of reading."""
        check_names(state, [f.name for f in fields(cls)], "reading")
        for name in ("label", "templates"):
            if not isinstance(field_of(state, name), str):
                raise FieldError(f"{name} must be a text, got {short(state[name])}")
        return cls(
            choice(state, "format", FORMATS),
            choice(state, "task", TASKS),
            state["label"],
            known_templates(state),
            count(state, "n_features", 0, MOST_FEATURES),
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
    """Examples and true outputs, and the tokens of each example where a format has some."""

    X: Any
    Y: Any
    reading: Reading
    tokens: list[Any] = field(default_factory=list)

    @property
    def width(self) -> int:
        """How many numbered features there are; 0 where features have names."""
        if self.reading.format not in ("svmlight", "svmhmm"):
            return 0
        first = self.X if sp.issparse(self.X) else self.X[0]
        return int(first.shape[1])
