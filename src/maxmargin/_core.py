"""The compiled core for this machine: the best instruction set that it runs, chosen once at import.

Set the environment variable ``MAXMARGIN_SIMD`` to ``baseline`` or ``v3`` to force one.
"""

import importlib
import importlib.util
import os
from types import ModuleType

LEVELS = ("baseline", "v3")


def load(level: str) -> ModuleType:
    """The core compiled for one instruction set."""
    if level not in LEVELS:
        raise ValueError(f"MAXMARGIN_SIMD must be one of {LEVELS}, got {level!r}")
    return importlib.import_module(f"maxmargin._core_{level}")


def available() -> list[str]:
    """The levels that are built and that this machine runs."""
    found = ["baseline"]
    if load("baseline").runs_v3() and importlib.util.find_spec("maxmargin._core_v3"):
        found.append("v3")
    return found


core = load(os.environ.get("MAXMARGIN_SIMD") or available()[-1])
