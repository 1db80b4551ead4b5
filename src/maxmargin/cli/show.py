"""Results as lines or as JSON, and the files that they go to."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any


def show(values: dict[str, Any], as_json: bool) -> None:
    """A result, as lines or as JSON."""
    if as_json:
        print(json.dumps(values, default=str))
        return
    width = max(map(len, values))
    for name, value in values.items():
        text = f"{value:.6g}" if isinstance(value, float) else one_line(value)
        print(f"{name:{width}}  {text}")


def one_line(output: Any) -> str:
    """An output on one line."""
    return " ".join(str(output).split())


def check_target(path: str) -> None:
    """Refuse what cannot be written, before the work and not after it."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
