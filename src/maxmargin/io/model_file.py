"""Model files: safetensors (plain numbers) with a JSON header (plain text). Nothing in them is executed.

The header names the format and its version, the estimator, its parameters and the model's state; a
checksum over the numbers and the header guards against changes. Files are written whole or not at all:
to a temporary file beside the target, which then takes its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as encode

FORMAT = "maxmargin-model"
VERSION = 1


class ModelFileError(ValueError):
    """A file that is no model file, or a damaged or a newer one."""


def plain_number(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a model file holds numbers and text only, not {type(value).__name__}")


def digest(arrays: dict[str, np.ndarray], header: str) -> str:
    """Checksum of all that the file says."""
    total = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def write(path: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write a model file, whole or not at all."""
    text = json.dumps(header, sort_keys=True, default=plain_number)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "header": text,
        "sha256": digest(arrays, text),
    }
    content = encode(arrays, metadata=metadata)
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        raise ValueError(f"save: {path} exists and is no regular file")
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.umask(mask := os.umask(0))
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a model file; refuses what is not whole."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"no model file at {path}")
    try:
        with safe_open(str(path), framework="numpy") as stream:
            metadata = stream.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise ModelFileError(f"{path} is no maxmargin model file")
            check_version(path, metadata.get("version", ""))
            arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, UnicodeDecodeError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{path} is damaged or no model file: {error}") from None
    text = metadata.get("header", "")
    if digest(arrays, text) != metadata.get("sha256"):
        raise ModelFileError(f"{path} is damaged: its content does not fit its checksum")
    try:
        header = json.loads(text)
    except json.JSONDecodeError:
        raise ModelFileError(f"{path} is damaged: its header is no JSON") from None
    return header, arrays


def check_version(path: Any, version: str) -> None:
    """Refuse a file of a later format."""
    if not version.isdigit() or int(version) > VERSION:
        raise ModelFileError(
            f"{path} has format version {version or '?'}; this version of maxmargin reads up to {VERSION}"
        )
