"""Model files: safetensors (plain numbers) with a JSON header (plain text). Nothing in them is executed.

The header names the format and its version, the estimator, its parameters and the model's state. A checksum
over the numbers and the header detects damage. It does not protect against a malicious author, so every size
in the header is compared with the arrays. Files are written whole or not at all.

A file holds all weights or, if most of them are zero, only the others and their places:

    "w"                       all weights
    "w.index", "w.value"      places, in order, and the weights there; any other weight is zero

With places, the header has ``weights``, the number of all weights. At least one place in ``SPARSEST`` is
listed, whether its weight is zero or not, so that a small file cannot unfold to a huge array.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as encode

from maxmargin.io.fields import FieldError, count, entries_of, parse_json, table
from maxmargin.io.files import resolved, write_whole
from maxmargin.io.quoting import ForeignError, short

MODEL, CHECKPOINT = "maxmargin-model", "maxmargin-checkpoint"
MODEL_VERSION = 2  # version 1 always has all weights, in double precision
LATEST = {MODEL: MODEL_VERSION, CHECKPOINT: 1}
# Errors of the safetensors reader for damaged bytes, or for types that NumPy does not have.
DAMAGE: tuple[type[Exception], ...] = (
    SafetensorError,
    OSError,
    TypeError,
    ValueError,
    AttributeError,
    KeyError,
    MemoryError,
    OverflowError,
)


class ModelFileError(ForeignError):
    """The file is not a model file (or checkpoint), is damaged, or has a newer format."""


def plain_number(value: Any) -> Any:
    """Return a NumPy number as a Python number; refuse anything else."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a model file holds numbers and text only, not {type(value).__name__}")


def digest(arrays: dict[str, np.ndarray], header: str) -> str:
    """The checksum of the arrays and the header of a file."""
    total = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        total.update(array.reshape(-1).view(np.uint8))
    return total.hexdigest()


def write(
    path: Any, header: dict[str, Any], arrays: dict[str, np.ndarray], kind: str = MODEL
) -> None:
    """Write a file of this kind, whole or not at all."""
    text = json.dumps(header, sort_keys=True, default=plain_number)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    metadata = {
        "format": kind,
        "version": str(MODEL_VERSION if "weights" in header else 1),
        "header": text,
        "sha256": digest(arrays, text),
    }
    content = encode(arrays, metadata=metadata)
    target = resolved(Path(path))
    if target.exists() and not target.is_file():
        raise ValueError(f"save: {path} exists and is not a regular file")
    try:
        write_whole(target, content)
    except OSError as error:
        message = f"save: cannot write {len(content)} bytes: {error.strerror or error}"
        raise OSError(error.errno, message, str(target)) from error


def read(path: Any, kind: str = MODEL) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the header and arrays of a file of this kind; refuse a damaged file."""
    what = kind.replace("maxmargin-", "")
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no {what} file at {path}")
    try:
        with safe_open(str(path), framework="numpy") as stream:
            metadata = stream.metadata() or {}
            if metadata.get("format") != kind:
                raise ModelFileError(f"{path} is not a maxmargin {what} file")
            check_version(path, metadata.get("version", ""), LATEST[kind])
            arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    except ModelFileError:
        raise
    except DAMAGE as error:
        raise ModelFileError(f"{path} is damaged or not a {what} file: {error}") from error
    text = metadata.get("header", "")
    if digest(arrays, text) != metadata.get("sha256"):
        raise ModelFileError(f"{path} is damaged: its content does not match its checksum")
    try:
        return entries_of(parse_json(text), "the header"), arrays
    except FieldError as error:
        raise ModelFileError(f"{path} is damaged: its header is wrong: {error}") from error


def may_be_stored(path: Path) -> bool:
    """Whether a file is empty or begins like a safetensors file, with the length of its header."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        start = file.read(9)
    return size == 0 or (start[8:] == b"{" and int.from_bytes(start[:8], "little") <= size - 8)


def check_version(path: Any, version: str, latest: int) -> None:
    """Refuse a file of a later format."""
    if version not in [str(known) for known in range(1, latest + 1)]:
        raise ModelFileError(
            f"{path} has format version {short(version)}; this version of maxmargin reads up to {latest}"
        )


SPARSEST = 1000
TYPES = ("float64", "float32")
ARRAYS = ("w", "w.index", "w.value")


def fold(w: np.ndarray, dtype: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the entries of the header and the arrays that store the weights in fewer bytes."""
    with np.errstate(over="ignore"):
        plain = np.asarray(w).astype(dtype, copy=False)
    if np.isinf(plain).any():
        raise ValueError(f"save: a weight is too large for dtype={short(dtype)}")
    index = np.union1d(np.flatnonzero(plain), np.arange(0, plain.size, SPARSEST))
    index = index.astype(np.int32 if plain.size < 2**31 else np.int64)
    if index.nbytes + len(index) * plain.itemsize < plain.nbytes:
        return {"weights": plain.size}, {"w.index": index, "w.value": plain[index]}
    return ({} if dtype == "float64" else {"weights": plain.size}), {"w": plain}


def unfold(header: Mapping[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays of a file with all weights as "w", in double precision."""
    if "weights" not in header:  # the layout of version 1
        return {**arrays, "w": table(arrays, "w", np.float64, -1)}
    size, rest = count(header, "weights"), {k: v for k, v in arrays.items() if k not in ARRAYS}
    if "w" in arrays:
        return {**rest, "w": table(arrays, "w", np.float32, size).astype(np.float64)}
    index, value = (stored_array(arrays, name) for name in ARRAYS[1:])
    if len(index) != len(value) or len(index) * SPARSEST < size:
        raise FieldError(f"{len(value)} values and {len(index)} indices cannot give {size} weights")
    if len(index) and (index[0] < 0 or index[-1] >= size or (np.diff(index) <= 0).any()):
        raise FieldError("the indices of the weights are not in order, or are out of range")
    w = np.zeros(size)
    w[index] = value
    return {**rest, "w": w}


def stored_array(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """Return the places of weights (32 or 64 bits) or their values (in either precision)."""
    known = (np.int32, np.int64) if name == "w.index" else (np.float64, np.float32)
    found = arrays.get(name)
    dtype = known[1] if found is not None and found.dtype == known[1] else known[0]
    return table(arrays, name, dtype, -1)
