"""Check that imports inside the package point one way.

    models -> problem -> solvers -> train -> (parts, checkpoint) -> estimators -> (certify, persistence, cli)

    python tools/check_imports.py src/maxmargin

A room is a folder or a top-level module of the package. `MAY_IMPORT` lists the rooms that each room may
import. Imports inside functions, relative imports and ``import_module("...")`` count as well. The script
prints ``file:line: rule`` for every import that breaks the order, and then ends with status 1.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

BASIC = {"_core", "_sklearn", "callbacks", "data", "losses", "runtime"}

MAY_IMPORT: dict[str, set[str]] = {
    "_core": set(),
    "_sklearn": set(),
    "formulation": set(),
    "callbacks": set(),
    "confidence": {"data", "io"},
    "io": set(),
    "losses": {"data"},
    "metrics": {"_sklearn", "data", "io"},
    "notebook": {"_sklearn"},
    "runtime": {"_core"},
    "data": {"_core", "_sklearn", "io", "runtime"},
    "models": {"_core", "_sklearn", "data", "formulation", "io", "losses", "notebook", "runtime"},
    "problem": {"data", "formulation", "models", "runtime"},
    "solvers": {"_core", "data", "formulation", "models", "problem", "runtime"},
    "result": {"problem", "solvers"},
    "budget": {"problem", "solvers"},
    "train": {"budget", "callbacks", "problem", "result", "runtime", "solvers"},
    "cccp": {"models", "problem", "result"},
    "checkpoint": {"data", "io", "models", "problem", "result", "solvers"},
    "parts": BASIC | {"models", "problem", "result", "solvers", "train"},
    "estimators": BASIC
    | {
        "cccp",
        "checkpoint",
        "confidence",
        "formulation",
        "io",
        "metrics",
        "models",
        "notebook",
        "parts",
        "problem",
        "result",
        "solvers",
        "train",
    },
    "certify": {"data", "estimators", "models", "problem"},
    "persistence": {
        "confidence",
        "data",
        "estimators",
        "io",
        "losses",
        "models",
        "problem",
        "solvers",
    },
    "cluster": BASIC | {"checkpoint", "estimators", "io", "models", "problem", "result", "solvers"},
    "report": {"data", "io", "metrics"},
}
MAY_IMPORT["cli"] = BASIC | {"io"} | (set(MAY_IMPORT) - {"_core"})
MAY_IMPORT["__main__"] = {"cli"}

# Imports that are allowed only inside functions, because the two rooms need each other at run time.
INSIDE_FUNCTIONS: dict[str, set[str]] = {"estimators": {"persistence", "report"}}

# The module of the public names. It may import every room, and no room may import it.
FRONT_DOOR = "__init__"


def module_parts(path: Path, package: Path) -> list[str]:
    """Return the parts of a module's name, as in ["solvers", "base"]; an ``__init__`` means its folder."""
    parts = list(path.relative_to(package).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts


def room_of(parts: list[str]) -> str:
    """Return the room of a module; all compiled variants of the core are "_core"."""
    room = parts[0] if parts else FRONT_DOOR
    return "_core" if room.startswith("_core") else room


def from_targets(node: ast.ImportFrom, here: list[str], package: str) -> Iterator[list[str]]:
    """Yield the modules of the package that a ``from ... import`` names, as parts."""
    if node.level:
        # `here` names a module, and one level up is the folder that holds it.
        base = [package, *here][: len(here) + 1 - node.level]
        base += node.module.split(".") if node.module else []
    else:
        base = (node.module or "").split(".")
    if base[:1] != [package]:
        return
    if len(base) > 1:
        yield base[1:]
    else:
        yield from ([alias.name] for alias in node.names)


def call_target(node: ast.Call) -> str:
    """Return the module that ``import_module("...")`` or ``__import__("...")`` names, or ""."""
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    named = node.args and isinstance(node.args[0], ast.Constant)
    wanted = name in ("import_module", "__import__") and named
    return str(node.args[0].value) if wanted else ""  # type: ignore[attr-defined]


def targets(node: ast.AST, here: list[str], package: str) -> Iterator[list[str]]:
    """Yield the modules of the package that a node imports, as parts."""
    if isinstance(node, ast.ImportFrom):
        yield from from_targets(node, here, package)
        return
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.Call):
        names = [call_target(node)]
    for name in names:
        first, *rest = name.split(".")
        if first == package:
            yield rest


def nodes(tree: ast.AST, inside: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Yield every node, and whether it is inside a function."""
    for child in ast.iter_child_nodes(tree):
        yield child, inside
        deeper = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from nodes(child, inside or deeper)


def broken_rule(room: str, other: str, inside: bool) -> str:
    """Return the message for a forbidden import of `other` in `room`, or "" for an allowed import."""
    if other == room or room == FRONT_DOOR:
        return ""
    if other not in MAY_IMPORT:
        return f"{room} must not import the package itself: import from the room that owns the name"
    if other in MAY_IMPORT[room]:
        return ""
    if other in INSIDE_FUNCTIONS.get(room, ()):
        return "" if inside else f"{room} may import {other} inside a function only"
    allowed = ", ".join(sorted(MAY_IMPORT[room])) or "no room of the package"
    return f"{room} must not import {other}; it may import {allowed}"


def check_file(path: Path, package: Path) -> Iterator[str]:
    """Yield the broken rules of one file."""
    here = module_parts(path, package)
    room = room_of(here)
    if room not in MAY_IMPORT and room != FRONT_DOOR:
        yield f"{path}:1: {room} is a new room: say what it may import in {Path(__file__).name}"
        return
    folder = [*here, "__init__"] if path.name == "__init__.py" and here != [FRONT_DOOR] else here
    for node, inside in nodes(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        for target in targets(node, folder, package.name):
            rule = broken_rule(room, room_of(target), inside)
            if rule:
                yield f"{path}:{getattr(node, 'lineno', 1)}: {rule}"


def check(package: Path) -> list[str]:
    """Return the broken rules of a package, file by file."""
    paths = sorted(package.rglob("*.py"))
    if not paths:
        return [f"{package}:1: no Python files here"]
    return [rule for path in paths for rule in check_file(path, package)]


def main(arguments: list[str]) -> int:
    """Check the package named on the command line."""
    if len(arguments) != 1:
        print("usage: python tools/check_imports.py src/maxmargin", file=sys.stderr)
        return 2
    broken = check(Path(arguments[0]))
    for rule in broken:
        print(rule)
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
