"""The compiled core for this machine: the best instruction set that it runs, chosen once at import.

A wheel has the core for several instruction sets, a developer's build for the best of this machine alone.
Set the environment variable ``MAXMARGIN_SIMD`` to ``baseline`` or ``v3`` to force one.
"""

import importlib
import importlib.util
import os
from types import ModuleType

LEVELS = ("baseline", "v3")


def load_core(level: str) -> ModuleType:
    """The core compiled for one instruction set."""
    if level not in LEVELS:
        raise ValueError(f"MAXMARGIN_SIMD must be one of {LEVELS}, got {level!r}")
    return importlib.import_module(f"maxmargin._core_{level}")


def available() -> list[str]:
    """The levels that are built and that this machine runs."""
    built = [level for level in LEVELS if importlib.util.find_spec(f"maxmargin._core_{level}")]
    if not built:
        raise ImportError("the compiled core of maxmargin is missing: install the package again")
    # Where only one was built, it was built for this machine.
    return built if len(built) == 1 or load_core("baseline").runs_v3() else built[:1]


core = load_core(os.environ.get("MAXMARGIN_SIMD") or available()[-1])
