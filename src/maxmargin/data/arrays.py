"""What a user gave, as arrays and numbers: the one door for all models, weights, costs and parameters.

Each function names the parameter in its error, and reads nothing that is not there: masked entries, the NA of
pandas and None are not numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def unmasked(data: Any, name: str) -> Any:
    """The data; of a masked array its values, if no entry is masked."""
    if not isinstance(data, np.ma.MaskedArray):
        return data
    if np.ma.getmaskarray(data).any():
        raise ValueError(f"{name} has masked entries: fill them, or drop these examples, first")
    return np.asarray(data.data)


def array_of(data: Any, name: str) -> np.ndarray:
    """An array of any type; refuses masked entries, and rows of different lengths."""
    if isinstance(data, list | tuple):
        data = [unmasked(item, name) for item in data]
    data = unmasked(data, name)
    try:
        return np.asarray(data)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be an array, or lists that are of equal length at every depth; {error}"
        ) from None


def reals(data: Any, name: str) -> np.ndarray:
    """An array of real numbers, whatever their type."""
    array = array_of(data, name)
    if array.dtype.kind == "O":
        with suppress(TypeError, ValueError, OverflowError):
            array = array.astype(np.float64)
    if array.dtype.kind not in "fbiu":
        missing = array.dtype.kind == "O" and any(map(is_missing, array.ravel()[:100_000]))
        holes = " with missing values (None or NA)" if missing else ""
        what = f"an array of dtype {array.dtype}{holes}" if array.ndim else repr(data)
        raise ValueError(f"{name} must hold real numbers, got {what}")
    return array


def is_missing(value: Any) -> bool:
    """Whether it is None or the NA of pandas, which is equal to nothing."""
    return value is None or type(value).__name__ == "NAType"


def floats(data: Any, name: str) -> np.ndarray:
    """An array of float64."""
    return np.asarray(reals(data, name), dtype=np.float64)


def is_number(value: Any) -> bool:
    """Whether a parameter is a real number that a float can hold; infinity and NaN are not."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool | np.bool_) and not (is_number(value) and value in (0, 1)):
        raise ValueError(f"{name} must be True or False, got {value!r}")


def check_choice(name: str, value: Any, allowed: Any) -> None:
    """Refuse what is not one of some names."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {list(allowed)}, got {value!r}")


def check_positive(name: str, value: Any, none: bool = False, finite: bool = False) -> None:
    """Refuse what is not a positive number; infinity may be one, and None passes where it is allowed."""
    endless = not finite and isinstance(value, float | np.floating) and np.isposinf(value)
    if (value is not None or not none) and (not (endless or is_number(value)) or value <= 0):
        raise ValueError(
            f"{name} must be a positive number{' or None' if none else ''}, got {value!r}"
        )


def is_whole(value: Any, least: int | None = None) -> bool:
    """Whether a parameter is a whole number, of some size."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return bool(whole and (least is None or value >= least))


def check_whole(name: str, value: Any, least: int = 1, none: bool = False) -> None:
    """Refuse what is not a whole number of some size; None passes where it is allowed."""
    if (value is not None or not none) and not is_whole(value, least):
        also = "None or " if none else ""
        raise ValueError(f"{name} must be {also}a whole number of at least {least}, got {value!r}")


def generator_of(random_state: Any) -> np.random.RandomState:
    """The generator of scikit-learn's random_state."""
    try:
        return check_random_state(unmasked(random_state, "random_state"))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state must be None, a RandomState or a whole number from 0 to 2^32 - 1; {error}"
        ) from None


def seed_of(random_state: Any) -> int:
    """A seed from scikit-learn's random_state."""
    return _seed_of_number(int(random_state)) if is_whole(random_state) else drawn(random_state)


def drawn(random_state: Any) -> int:
    """The next seed of a generator."""
    return int(generator_of(random_state).randint(np.iinfo(np.int32).max))


@lru_cache(maxsize=64)
def _seed_of_number(number: int) -> int:
    return drawn(number)  # a generator takes longer to make than a small fit


def count_of(data: Any, name: str) -> int:
    """How many examples there are; refuses what is not a sequence of them."""
    shape = getattr(data, "shape", None)
    if isinstance(shape, tuple) and shape:
        return int(shape[0])
    odd = isinstance(data, str | bytes | Mapping | set | frozenset | type)
    if odd or isinstance(shape, tuple) or not hasattr(data, "__len__"):
        kind = "a single value" if isinstance(shape, tuple) else type(data).__name__
        raise ValueError(f"{name} must be a sequence of examples, got {kind}")
    return len(data)


def check_lengths(X: Any, Y: Any) -> None:
    """Refuse data of different length, or none."""
    n = count_of(X, "X")
    if n == 0:
        raise ValueError("X is empty: at least one example is needed")
    if Y is not None and n != count_of(Y, "Y"):
        raise ValueError(f"X has {n} examples, but Y has {count_of(Y, 'Y')}")


def check_start(X: Any, Y: Any, bias: Any, **flags: Any) -> None:
    """What a model is about to learn from, and its parameters: a bias that could never act is refused."""
    check_lengths(X, Y)
    if bias is not None and (not is_number(bias) or bias == 0):
        raise ValueError(f"bias must be None or a number other than 0, got {bias!r}")
    for name, value in flags.items():
        check_flag(name, value)
