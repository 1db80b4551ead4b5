"""Two different things of the package never share a name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import maxmargin
from maxmargin.data.read_file import READERS
from maxmargin.data.write_file import WRITERS
from maxmargin.io import FORMATS

PACKAGE = Path(maxmargin.__file__).parent
SAME_THING = {
    "logger": "the package's one logger",
    "__getattr__": "Python's own name",
    "certify": "the command, and what it calls",
    "train": "the command, and what it calls",
}


def module_names(tree):
    """Yield the names that a module defines, without its imports."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))


def test_no_two_things_share_a_name():
    homes = defaultdict(set)
    for file in sorted(PACKAGE.rglob("*.py")):
        for name in module_names(ast.parse(file.read_text())):
            homes[name].add(file.relative_to(PACKAGE).as_posix())
    shared = {
        name: sorted(files)
        for name, files in homes.items()
        if len(files) > 1 and name not in SAME_THING and name != "__all__"
    }
    assert not shared
    assert all(len(homes[name]) > 1 for name in SAME_THING)


def test_lists_of_the_command_line_are_those_of_the_readers():
    assert sorted(FORMATS) == sorted(READERS) and set(FORMATS) == {*WRITERS, "shards"}
