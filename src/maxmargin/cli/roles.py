"""Roles of command arguments: inputs, outputs, and words that are not paths.

The type of an argument is its role, and the parser also applies types to defaults. So one check sees all
inputs and outputs of a command before it opens a file. A test fails if an argument has no type.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from maxmargin.io.files import check_target
from maxmargin.io.paths import Location, clash, location_of, open_location

STREAM = "-"  # standard input or output, if given as the name of a data file
NAMED_TEMPLATES = ("words", "window")


def word(text: str) -> str:
    """Return a text that does not name a file."""
    return text


class InputPath(str):
    """A file that a command reads."""


class InputData(InputPath):
    """A data file, a folder of data files, or standard input."""


class OutputPath(str):
    """A file that a command writes, or reads and then rewrites, such as a checkpoint."""


class OutputModel(OutputPath):
    """A model file to write; it may replace a model, but no other file."""


class OutputData(OutputPath):
    """A data file to write, a folder of shards, or standard output."""


def template_path(text: str) -> str:
    """Return the name of templates that come with the package, or the path of a template file."""
    return text if text in NAMED_TEMPLATES else InputData(text)


# The types of all arguments whose values are texts.
ROLES = (word, InputPath, InputData, OutputPath, OutputModel, OutputData, template_path)


def argument_values(given: Namespace) -> Iterator[object]:
    """The values of all arguments; a list gives its items."""
    for value in vars(given).values():
        yield from value if isinstance(value, list) else [value]


def input_locations(given: Namespace) -> list[Location]:
    """The locations that a command reads."""
    return [
        open_location(sys.stdin, "standard input")
        if isinstance(path, InputData) and path == STREAM
        else location_of(path)
        for path in argument_values(given)
        if isinstance(path, InputPath)
    ]


def output_paths(given: Namespace) -> list[OutputPath]:
    """The paths that a command writes, without standard output."""
    return [
        path
        for path in argument_values(given)
        if isinstance(path, OutputPath) and not (isinstance(path, OutputData) and path == STREAM)
    ]


def check_model_target(path: Path) -> None:
    """Refuse to replace a file that is not a model.

    It may be a data file that the parser took for the model because MODEL was forgotten.
    """
    if not path.is_file():
        return
    from maxmargin.io.model_file import may_be_stored

    if not may_be_stored(path):
        raise ValueError(f"{path} exists and is not a model file; name another file, or remove it")


def check_roles(given: Namespace) -> None:
    """Raise an error if an output cannot be written, is an input, or is the same file as another output."""
    paths = output_paths(given)
    for path in paths:
        if not isinstance(path, OutputData) or Path(path).is_file():
            check_target(Path(path))
    outputs = [*map(location_of, paths), open_location(sys.stdout, "standard output")]
    found = clash(input_locations(given), outputs)
    if found:
        raise ValueError(found)
    for path in paths:
        if isinstance(path, OutputModel):
            check_model_target(Path(path))
