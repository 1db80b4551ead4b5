"""The compiled core for the best instruction set of this machine, chosen once at import.

A wheel contains the core for several instruction sets. A developer's build has it only for the best
one of this machine. Set the environment variable ``MAXMARGIN_SIMD`` to ``baseline`` or ``v3`` to
force a choice.
"""

import importlib
import importlib.util
import os
from types import ModuleType

LEVELS = ("baseline", "v3")


def load_core(level: str) -> ModuleType:
    """Import the core that was compiled for one instruction set."""
    if level not in LEVELS:
        raise ValueError(f"MAXMARGIN_SIMD must be one of {LEVELS}, got {level!r}")
    return importlib.import_module(f"maxmargin._core_{level}")


def available() -> list[str]:
    """Return the instruction sets that were built and that this machine supports."""
    built = [level for level in LEVELS if importlib.util.find_spec(f"maxmargin._core_{level}")]
    if not built:
        raise ImportError("the compiled core of maxmargin is missing; reinstall the package")
    # A single one was built for this machine.
    return built if len(built) == 1 or load_core("baseline").runs_v3() else built[:1]


core = load_core(os.environ.get("MAXMARGIN_SIMD") or available()[-1])
