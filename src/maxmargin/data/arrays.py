"""Checks and conversion of user input: arrays, numbers, parameters and their rules, and examples.

Each function names the parameter in its error. Missing values are refused: masked entries, the NA of pandas
and None are not numbers. Examples may be lists, arrays, matrices, and tables and columns of pandas, polars
and pyarrow. This module does not import these packages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, wraps
from inspect import signature
from typing import Any, TypeVar, cast

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from maxmargin.io.quoting import short

Function = TypeVar("Function", bound=Callable[..., Any])
PACKAGES = ("pandas", "polars", "pyarrow")  # packages whose tables are known


def unmasked(data: Any, name: str) -> Any:
    """Return the data; unwrap a masked array, and refuse it if any entry is masked."""
    if not isinstance(data, np.ma.MaskedArray):
        return data
    if np.ma.getmaskarray(data).any():
        raise ValueError(f"{name} has masked entries; fill them, or drop these examples")
    return np.asarray(data.data)


def array_of(data: Any, name: str) -> np.ndarray:
    """Return the data as an array of any dtype; refuse masked entries and rows of different lengths."""
    if isinstance(data, list | tuple):
        data = [unmasked(item, name) for item in data]
    data = unmasked(data, name)
    try:
        return np.asarray(data)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be an array, or nested lists of equal lengths; {error}"
        ) from None


def reals(data: Any, name: str) -> np.ndarray:
    """Return the data as an array of real numbers of any dtype; refuse anything else."""
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
    """Whether a value is None or the NA of pandas, which is not equal to any value."""
    return value is None or type(value).__name__ == "NAType"


def floats(data: Any, name: str) -> np.ndarray:
    """Return the data as a float64 array."""
    return np.asarray(reals(data, name), dtype=np.float64)


def is_number(value: Any) -> bool:
    """Whether a parameter is a real number that a float can hold; infinity and NaN are not."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def is_whole(value: Any, least: int | None = None) -> bool:
    """Whether a parameter is a whole number, and at least ``least`` if that is given."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return bool(whole and (least is None or value >= least))


@dataclass(frozen=True)
class Rule:
    """The allowed values of a parameter, in words and as a test; options of solvers and models use it too."""

    says: str
    test: Callable[[Any], Any]

    def allows(self, value: Any) -> bool:
        """Whether the rule allows a value; a value that cannot be compared is not allowed."""
        try:
            return bool(self.test(value))
        except (TypeError, ValueError):
            return False

    def check(self, name: str, value: Any) -> None:
        """Refuse a value outside the rule; the error gives the name, the rule and the value."""
        if not self.allows(value):
            raise ValueError(f"{name} must be {self.says}, got {short(value)}")


def among(*allowed: Any) -> Rule:
    """The rule that a value is one of some names or whole numbers."""
    kinds = tuple({str if isinstance(value, str) else int for value in allowed})
    return Rule(
        f"one of {list(allowed)}",
        lambda x: isinstance(x, (*kinds, np.integer)) and not isinstance(x, bool) and x in allowed,
    )


def positive(none: bool = False, finite: bool = False) -> Rule:
    """The rule that a value is a positive number; ``none`` allows None, ``finite`` refuses infinity."""

    def test(value: Any) -> bool:
        if value is None:
            return none
        endless = not finite and isinstance(value, float | np.floating) and value == math.inf
        return bool((endless or is_number(value)) and value > 0)

    return Rule(f"a positive number{' or None' if none else ''}", test)


def whole(least: int = 1, none: bool = False) -> Rule:
    """The rule that a value is a whole number of at least ``least``; ``none`` allows None."""
    says = f"{'None or ' if none else ''}a whole number of at least {least}"
    return Rule(says, lambda x: is_whole(x, least) or (none and x is None))


FLAG = Rule(
    "True or False", lambda x: isinstance(x, bool | np.bool_) or (is_number(x) and x in (0, 1))
)
POSITIVE, FINITE = positive(), positive(finite=True)
TOLERANCE = Rule(
    "a positive number or 'auto'",
    lambda x: x == "auto" if isinstance(x, str) else POSITIVE.allows(x),
)
# Values above 2 mean 2.
VERBOSITY = Rule("0, 1 or 2", lambda x: isinstance(x, int | np.integer | np.bool_) and x >= 0)
BIAS_RULE = Rule("None or a number other than 0", lambda x: x is None or (is_number(x) and x != 0))


Check = Callable[[str, Any], Any]  # takes a parameter's name and value, and refuses bad values
Checks = dict[str, Rule | Check]  # the check of each parameter, by its name


def check_parameters(values: Mapping[str, Any], checks: Checks) -> None:
    """Refuse parameters whose values fail their declared checks."""
    for name, check in checks.items():
        if name in values:
            (check.check if isinstance(check, Rule) else check)(name, values[name])


def generator_of(random_state: Any) -> np.random.RandomState:
    """Return the random generator that scikit-learn makes of a random_state."""
    try:
        return check_random_state(unmasked(random_state, "random_state"))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state must be None, a RandomState or a whole number from 0 to 2^32 - 1; {error}"
        ) from None


def seed_of(random_state: Any) -> int:
    """Return a seed that depends on scikit-learn's random_state."""
    return _seed_of_number(int(random_state)) if is_whole(random_state) else drawn(random_state)


def drawn(random_state: Any) -> int:
    """Draw a seed from the generator of a random_state."""
    return int(generator_of(random_state).randint(np.iinfo(np.int32).max))


@lru_cache(maxsize=64)
def _seed_of_number(number: int) -> int:
    return drawn(number)  # cached, since making a generator takes longer than a small fit


# Tables


def package_of(data: Any) -> str:
    """The package that a table or column comes from; empty for anything else."""
    if hasattr(data, "iloc"):
        return "pandas"
    package = type(data).__module__.split(".")[0]
    return package if package in PACKAGES and hasattr(data, "__array__") else ""


def names_of(data: Any) -> list[Any] | None:
    """The names of the columns of a table; None for anything else."""
    if not package_of(data):
        return None
    names = getattr(data, "column_names", None)  # in pyarrow ``columns`` holds the data
    names = getattr(data, "columns", None) if names is None else names
    return None if names is None else list(names)


def plain_sequence(data: Any) -> Any:
    """Return tables and columns as arrays: they index by label, this library by position."""
    if type(data) is np.ndarray or type(data) is list:  # the common case
        return data
    package = package_of(data)
    if package == "pandas":
        return data.to_numpy()
    return np.asarray(data) if package else data


def is_frame(data: Any) -> bool:
    """Whether the data are a table whose columns have names."""
    names = names_of(data)
    return names is not None and all(isinstance(name, str) for name in names)


def any_table(data: Any) -> bool:
    """Whether some item of a sequence is a table or a column."""
    kinds = set(map(type, data))
    return any(hasattr(k, "iloc") or k.__module__.split(".")[0] in PACKAGES for k in kinds)


def values_of(column: Any) -> list[Any]:
    """The entries of a column; missing entries are None."""
    listed = getattr(column, "to_pylist", None) or column.to_list
    return [None if is_missing(v) or v != v else v for v in listed()]


def records(frame: Any) -> list[dict[str, Any]]:
    """The rows of a table as dicts; missing entries are None."""
    names = names_of(frame) or []
    columns = [values_of(frame[name]) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def fault_of(frame: Any) -> str:
    """Describe the first entry that is not a finite number, with its column and row; empty if all are."""
    for j, name in enumerate(names_of(frame) or []):
        column = frame.iloc[:, j] if package_of(frame) == "pandas" else frame[name]
        array = np.asarray(column)
        if array.dtype.kind in "biuf" and np.isfinite(array).all():
            continue
        for i, value in enumerate(values_of(column)):
            where = f"column {name!r}, row {i}"
            if value is None:
                return f"{where}: a value is missing; fill it, or drop such rows"
            try:
                finite = np.isfinite(float(value))
            except (TypeError, ValueError):
                return f"{where}: {value!r} is not a number; encode the column, or leave it out"
            if not finite:
                return f"{where}: {value} is not finite"
    return ""


# Examples


def check_columns(x: Any, where: str) -> None:
    """Refuse a CSR matrix with a column index outside its shape, at which SciPy itself may crash."""
    if not sp.issparse(x) or x.format != "csr" or len(x.indices) == 0:
        return
    if int(x.indices.min()) < 0 or int(x.indices.max()) >= x.shape[1]:
        raise ValueError(f"{where} holds a column index outside its shape")


def plain_outputs(Y: Any) -> Any:
    """Return the true outputs so that positions index them; arrays of numbers or strings stay arrays."""
    Y = plain_sequence(Y)
    single = isinstance(Y, str | bytes) or getattr(Y, "shape", None) == ()
    if single or (Y is not None and not hasattr(type(Y), "__iter__")):
        raise ValueError(f"Y must be a sequence of true outputs, got {short(Y)}")
    if sp.issparse(Y):  # MultiLabel: rows of 0 and 1
        check_columns(Y, "Y")
        return Y.toarray()
    plain = isinstance(Y, np.ndarray) and Y.dtype.kind in "biufUS"
    kept = Y is None or plain or getattr(Y, "by_position", False)
    return Y if kept else [plain_sequence(y) for y in Y]


def examples_of(X: Any, Y: Any) -> tuple[Any, Any]:
    """Return inputs and true outputs that positions index; refuse different lengths."""
    X, Y = plain_sequence(X), plain_outputs(Y)
    if Y is None:
        raise ValueError("Y must be given, with the true output of every example")
    check_lengths(X, Y)
    return X, Y


def count_of(data: Any, name: str) -> int:
    """Return the number of examples; refuse data that are not a sequence."""
    shape = getattr(data, "shape", None)
    if isinstance(shape, tuple) and shape:
        return int(shape[0])
    odd = isinstance(data, str | bytes | Mapping | set | frozenset | type)
    if odd or isinstance(shape, tuple) or not hasattr(data, "__len__"):
        kind = "a single value" if isinstance(shape, tuple) else type(data).__name__
        raise ValueError(f"{name} must be a sequence of examples, got {kind}")
    return len(data)


def check_lengths(X: Any, Y: Any) -> None:
    """Refuse X and Y of different lengths, and an empty X."""
    n = count_of(X, "X")
    if n == 0:
        raise ValueError("X is empty; at least one example is needed")
    if Y is not None and n != count_of(Y, "Y"):
        raise ValueError(f"X has {n} examples, but Y has {count_of(Y, 'Y')}")


def takes_outputs(function: Function) -> Function:
    """Let callers pass the outputs by the name ``y`` or ``Y``, whatever the function calls them.

    The signature shows the function's own name, ``y`` or ``margins``. Two names in one call are refused.
    """
    parameters = list(signature(function).parameters)
    own = next(name for name in ("y", "margins") if name in parameters)
    position, others = parameters.index(own), {"y", "Y"} - {own}

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        for other in others & options.keys():
            if own in options or len(args) > position:
                raise TypeError(
                    f"{function.__name__}: {own} and {other} are two names of the same parameter, "
                    "the outputs; give only one of them"
                )
            options[own] = options.pop(other)
        return function(*args, **options)

    return cast(Function, call)


def check_weights(sample_weight: Any, n: int) -> np.ndarray:
    """Return the example weights, which are 1 by default."""
    if sample_weight is None:
        return np.ones(n)
    v = floats(sample_weight, "sample_weight")
    if v.ndim == 0:
        v = np.full(n, float(v))
    if v.shape != (n,):
        raise ValueError(
            f"sample_weight must have shape ({n},), one for each example, got {v.shape}"
        )
    if not np.isfinite(v).all() or (v < 0).any():
        i = int(np.argmax(~np.isfinite(v) | (v < 0)))
        raise ValueError(f"sample_weight[{i}] = {v[i]}: weights must be finite and not negative")
    if not v.any():
        raise ValueError("sample_weight is zero for every example")
    return v


def check_start(X: Any, Y: Any, model: Any) -> None:
    """Check the data that a model is about to learn from, and the parameters that it declares."""
    check_lengths(X, Y)
    values = {name: getattr(model, model.stored.get(name, name)) for name in model.checks}
    check_parameters(values, model.checks)
