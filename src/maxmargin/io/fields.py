"""Checks of the values of an untrusted JSON text: each value is checked before it is used.

The readers of model files and of manifests share these checks. All of them raise ``FieldError``, which
names the field, the values that it may have, and the value that came.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from maxmargin.io.quoting import ForeignError, short

MOST_COUNT = 2**53  # the largest count; a double holds all whole numbers up to it
MOST_FEATURES = 2**31 - 1  # column numbers have 32 bits


class FieldError(ForeignError):
    """A value that no writer could have written."""


def parse_json(text: str, finite: bool = False) -> Any:
    """Parse a JSON text; refuse names that appear twice and, with ``finite``, NaN and infinity."""
    try:
        constant = _refuse_constant if finite else None
        return json.loads(text, object_pairs_hook=_distinct, parse_constant=constant)
    except FieldError:
        raise
    except RecursionError as error:
        raise FieldError("it is nested too deeply") from error
    except ValueError as error:  # also whole numbers of thousands of digits
        raise FieldError(f"it is not JSON: {error}") from error


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise FieldError(f"the name {short(twice)} appears twice in one object")
    return found


def _refuse_constant(name: str) -> float:
    raise FieldError(f"the number {name} is not allowed")


def entries_of(value: Any, what: str) -> dict[str, Any]:
    """Return the value if it is a JSON object; refuse anything else."""
    if not isinstance(value, dict):
        raise FieldError(f"{what} must be a JSON object, got {short(value)}")
    return value


def check_names(found: Iterable[str], known: Iterable[str], what: str) -> None:
    """Refuse names that are not among the known ones."""
    for name in set(found) - set(known):
        raise FieldError(f"{what} has an unknown entry {short(name)}")


def field_of(fields: Mapping[str, Any], name: str) -> Any:
    """Return a field; refuse its absence."""
    if name not in fields:
        raise FieldError(f"{name} is missing")
    return fields[name]


def field_that_is(
    says: str, fits: Callable[[Any], bool], fields: Mapping[str, Any], name: str
) -> Any:
    """Return a field that passes a test; ``says`` describes the allowed values in the error."""
    value = field_of(fields, name)
    if not fits(value):
        raise FieldError(f"{name} must be {says}, got {short(value)}")
    return value


def list_of(fields: Mapping[str, Any], name: str) -> list[Any]:
    """Return a field that must be a list."""
    return field_that_is("a list", lambda value: isinstance(value, list), fields, name)


def texts(fields: Mapping[str, Any], name: str) -> list[str]:
    """Return a field that must be a list of distinct texts."""
    values = list_of(fields, name)
    if not all(isinstance(value, str) for value in values) or len(set(values)) != len(values):
        raise FieldError(f"{name} must be a list of distinct texts")
    return values


def choice(fields: Mapping[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    """Return a field that must be one of several texts."""
    says = f"one of {list(allowed)}"
    return field_that_is(says, lambda v: isinstance(v, str) and v in allowed, fields, name)


def flag(fields: Mapping[str, Any], name: str) -> bool:
    """Return a field that must be true or false."""
    return field_that_is("true or false", lambda value: isinstance(value, bool), fields, name)


def is_whole_in(value: Any, least: int, most: int) -> bool:
    """Whether a value is a whole number in a range."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def count(fields: Mapping[str, Any], name: str, least: int = 0, most: int = MOST_COUNT) -> int:
    """Return a field that must be a whole number from ``least`` to ``most``."""
    says = f"a whole number from {least} to {most}"
    return field_that_is(says, lambda value: is_whole_in(value, least, most), fields, name)


def number(fields: Mapping[str, Any], name: str) -> float:
    """Return a field that must be a finite number."""
    value = field_of(fields, name)
    real = isinstance(value, int | float) and not isinstance(value, bool)
    if not real or abs(value) > 1e308 or not math.isfinite(value):
        raise FieldError(f"{name} must be a finite number, got {short(value)}")
    return value


def bias_of(fields: Mapping[str, Any]) -> float | None:
    """The value of the constant feature, or None."""
    if field_of(fields, "bias") is None:
        return None
    if number(fields, "bias") == 0:
        raise FieldError("bias must be null or a number other than 0, got 0")
    return fields["bias"]


def costs_of(arrays: Mapping[str, np.ndarray], name: str, labels: int) -> np.ndarray:
    """Return the costs of mistakes: one number for each true label, or a matrix."""
    matrix = field_of(arrays, name).ndim > 1
    return table(arrays, name, np.float64, *(labels,) * (1 + matrix))


def table(
    arrays: Mapping[str, np.ndarray], name: str, dtype: Any, *shape: int, finite: bool = True
) -> np.ndarray:
    """Return an array that must have this dtype and shape; refuse NaN and infinity.

    A length of -1 in the shape allows any length. With ``finite=False`` NaN and infinity are allowed.
    """
    found = field_of(arrays, name)
    fits = len(found.shape) == len(shape) and all(
        wanted in (-1, length) for wanted, length in zip(shape, found.shape, strict=True)
    )
    if found.dtype != dtype or not fits:
        raise FieldError(
            f"the array {name} must be {np.dtype(dtype)} of shape {shape}, got {found.dtype} of shape "
            f"{found.shape}"
        )
    if finite and found.dtype.kind == "f" and not np.isfinite(found).all():
        raise FieldError(f"the array {name} holds NaN or infinity")
    return found
