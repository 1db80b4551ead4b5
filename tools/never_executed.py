"""List code that no test executes: whole functions, and blocks of three lines in other functions.

    python tools/never_executed.py build                build the core with counters, in build/coverage
    python tools/never_executed.py run -m "not slow"    run pytest with these arguments; adds to the counts
    python tools/never_executed.py report               list code without a count

A function template counts as executed if one of its instances is. The tool needs GCC and
`pip install coverage`. Do not run pytest with workers (`-n`): they may end before they write their
counts.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from itertools import groupby
from pathlib import Path

from sanitized import ROOT, build

PLACE = ROOT / "build" / "coverage"
SITE = PLACE / "site"
SETTINGS = PLACE / "settings.ini"
# The flags of this tool come last, after the flags of a build for users.
COMPILE = (
    "<CMAKE_CXX_COMPILER> <DEFINES> <INCLUDES> <FLAGS> -O1 -fno-inline-small-functions --coverage"
)
LEAST = 3  # the smallest number of lines of a block that is listed


def prepare() -> None:
    """Build the core with counters, and delete earlier counts.

    Every Python process that starts with these settings is counted.
    """
    defines = {"CMAKE_CXX_COMPILE_OBJECT": f"{COMPILE} -o <OBJECT> -c <SOURCE>"}
    build(PLACE.name, MAXMARGIN_LEVELS="native", CMAKE_CXX_FLAGS="--coverage", **defines)
    for old in [*PLACE.rglob("*.gcda"), *PLACE.glob("python.*")]:
        old.unlink()
    (SITE / "sitecustomize.py").write_text("import coverage\n\ncoverage.process_startup()\n")
    options = (
        f"source = maxmargin\ndata_file = {PLACE / 'python'}\nparallel = true\npatch = _exit\n"
    )
    SETTINGS.write_text("[run]\n" + options)


def run(arguments: list[str]) -> int:
    """Run pytest and all processes that tests start, with counters."""
    paths = os.pathsep.join([str(SITE), str(ROOT)])
    added = {"PYTHONPATH": paths, "COVERAGE_PROCESS_START": str(SETTINGS)}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **added}).returncode


def plain(name: str) -> str:
    """Return the name of a C++ function without its arguments and its template arguments."""
    while (shorter := re.sub("<[^<>]*>", "", name)) != name:
        name = shorter
    return name.split("(")[0].split(" ")[-1]


def core_counts() -> tuple[set, dict]:
    """Return functions of the core as (file, first line, last line, name), and counts of lines by file."""
    functions: set[tuple] = set()
    lines: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for notes in PLACE.rglob("*.gcno"):
        told = subprocess.run(
            ["gcov", "-i", "-m", "-t", str(notes)], cwd=PLACE, capture_output=True
        )
        for text in told.stdout.splitlines():
            for file in json.loads(text)["files"]:
                if not Path(file["file"]).is_relative_to(ROOT / "cpp"):
                    continue
                name = str(Path(file["file"]).relative_to(ROOT))
                for one in file["functions"]:
                    where = one["start_line"], one["end_line"]
                    functions.add((name, *where, plain(one["demangled_name"])))
                for one in file["lines"]:
                    lines[name][one["line_number"]] += one["count"]
    return functions, lines


def package_counts() -> tuple[set, dict]:
    """Return the same for the Python package."""
    import coverage

    counted = coverage.Coverage(config_file=str(SETTINGS))
    counted.combine(keep=True)
    functions: set[tuple] = set()
    lines = {}
    for path in sorted((SITE / "maxmargin").rglob("*.py")):
        name = f"src/{path.relative_to(SITE)}"
        _, executable, _, missing, _ = counted.analysis2(str(path))
        lines[name] = {line: int(line not in missing) for line in executable}
        for node in ast.walk(ast.parse(path.read_text())):
            # the first line of a function runs when the function is defined
            if isinstance(node, ast.FunctionDef):
                functions.add((name, node.body[0].lineno, node.end_lineno, node.name))
    return functions, lines


def report(functions: set, lines: dict) -> None:
    """Print functions and blocks in which no line was executed; calls may have been inlined."""
    idle = []
    for name, first, last, function in sorted(functions):
        inside = [count for line, count in lines[name].items() if first <= line <= last]
        if inside and not any(inside):
            idle.append((name, first, last, function))
    print(f"{len(idle)} of {len(functions)} functions")
    for name, first, last, function in idle:
        print(f"  {name}:{first}-{last} {function}")
        lines[name] = {line: n for line, n in lines[name].items() if not first <= line <= last}
    print(f"blocks of {LEAST} lines and more in other functions")
    for name, counts in sorted(lines.items()):
        for executed, block in groupby(sorted(counts.items()), lambda one: one[1] > 0):
            found = [line for line, _ in block]
            if not executed and len(found) >= LEAST:
                print(f"  {name}:{found[0]}-{found[-1]}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        sys.exit(run(sys.argv[2:]))
    if sys.argv[1:] == ["build"]:
        prepare()
    elif sys.argv[1:] == ["report"]:
        report(*core_counts())
        report(*package_counts())
    else:
        sys.exit(__doc__)
