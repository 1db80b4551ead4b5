"""Damaged model files: ``mm.load`` returns an estimator that predicts, or raises
``ModelFileError``.

    python -m fuzz.model_files --seconds 60

The fuzzer changes the structure of valid files of every kind of model: types, sizes, depth, huge
numbers,
NaN, names, swapped arrays. Most changed files get a correct checksum. Other files are cut, or have
flipped
bits.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import numpy as np
from safetensors.numpy import save as encode

import maxmargin as mm
from fuzz.common import Find, main
from fuzz.fitted import asked, fitted
from fuzz.limits import bounded, causes, workshop
from fuzz.mutate import (
    damaged_array,
    damaged_bytes,
    damaged_json,
    damaged_value,
    dumps,
    pick,
)
from maxmargin.io import model_file

Generator = np.random.Generator


@cache
def originals() -> list[tuple[str, dict, dict, Any]]:
    """The name, header, arrays and inputs of each kind of model."""
    found = []
    for name, estimator, inputs in fitted():
        path = workshop("model_files") / "original"
        estimator.save(path)
        found.append((name, *model_file.read(path), inputs))
    return found


def content(header: str, arrays: dict[str, np.ndarray], **changes: str) -> bytes:
    """Return the bytes of a file with this header; the checksum is correct unless ``changes`` sets it."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    metadata = {"format": model_file.MODEL, "version": "1", "header": header}
    metadata["sha256"] = model_file.digest(arrays, header)
    return encode(arrays, metadata=metadata | changes)


def damaged_arrays(rng: Generator, arrays: dict, other: dict) -> dict:
    """Change, drop, rename, exchange or add arrays."""
    arrays, name, kind = dict(arrays), pick(rng, sorted(arrays)), int(rng.integers(6))
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        second = pick(rng, sorted(arrays))
        arrays[name], arrays[second] = arrays[second], arrays[name]
    elif kind == 2:
        arrays[name] = other[pick(rng, sorted(other))]
    elif kind == 3:
        arrays[pick(rng, ["extra", "nonnegative", "prior.mean", "prior.scale", "centres"])] = (
            arrays[name]
        )
    else:
        arrays[name] = damaged_array(rng, arrays[name])
    return arrays


def damaged_frame(rng: Generator, data: bytes) -> bytes:
    """Damage the outer header, written by safetensors: its types, shapes and offsets."""
    size = struct.unpack("<Q", data[:8])[0]
    frame = data[8 : 8 + size].decode()
    for _ in range(int(rng.integers(1, 3))):
        old = pick(rng, ['"F64"', '"I32"', '"shape":[', '"data_offsets":[0', "sha256", '"1"'])
        new = pick(
            rng,
            ['"F16"', '"BF16"', '"F8_E4M3"', '"U64"', '"shape":[0,', '"shape":[99999999999,', "x"],
        )
        frame = frame.replace(old, new, 1)
    if rng.random() < 0.2:
        frame = damaged_json(rng, frame)
    text = frame.encode("utf-8", "replace")
    length = len(text) if rng.random() < 0.9 else int(rng.integers(2**63))
    return struct.pack("<Q", length) + text + data[8 + size :]


def made(rng: Generator) -> tuple[str, bytes, Any]:
    """Make one file; return what was done to which kind of model, the bytes, and inputs for the model."""
    name, header, arrays, inputs = pick(rng, originals())
    other = pick(rng, originals())
    kind = rng.random()
    if kind < 0.5:
        for _ in range(1 + int(rng.integers(3)) // 2):
            header = damaged_value(rng, header, [other[1]])
        return f"{name}: header", content(dumps(header), arrays), inputs
    if kind < 0.75:
        return (
            f"{name}: arrays",
            content(dumps(header), damaged_arrays(rng, arrays, other[2])),
            inputs,
        )
    if kind < 0.85:
        return f"{name}: text", content(damaged_json(rng, dumps(header)), arrays), inputs
    if kind < 0.88:
        return f"{name}: other model", content(dumps(header), other[2]), inputs
    data = content(dumps(header), arrays)
    if kind < 0.94:
        return f"{name}: frame", damaged_frame(rng, data), inputs
    return f"{name}: bytes", damaged_bytes(rng, data), inputs


def attempt(rng: Generator) -> str:
    """Try one file."""
    try:
        what, data, inputs = made(rng)
    except UnicodeEncodeError:  # a lone surrogate, which no file can hold
        return "not a file"
    path = workshop("model_files") / "model"
    path.write_bytes(data)
    with bounded():
        try:
            loaded = mm.load(path)
        except mm.ModelFileError as error:
            if any(isinstance(cause, MemoryError) for cause in causes(error)):
                raise Find(f"{what}: memory for a file of {len(data)} bytes") from error
            if path.name not in str(error):
                raise Find(f"{what}: the error does not name the file: {error}") from error
            return f"{what.split(': ')[1]}, refused"
        except Exception as error:
            raise Find(f"{what}: mm.load raised {error!r}") from error
        try:
            asked(loaded, inputs)
        except ValueError:
            return f"{what.split(': ')[1]}, loaded, inputs refused"
        except Exception as error:
            raise Find(f"{what}: prediction raised {error!r}") from error
    return f"{what.split(': ')[1]}, loaded"


if __name__ == "__main__":
    main("model_files", attempt)
