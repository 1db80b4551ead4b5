"""The import-direction linter on the package and on planted violations."""

import subprocess
import sys
from pathlib import Path

import pytest

import maxmargin

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from check_imports import INSIDE_FUNCTIONS, MAY_IMPORT, check, main  # noqa: E402


def planted(tmp_path, file, text):
    """Create a package that holds one file with this text."""
    path = tmp_path / "maxmargin" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return tmp_path / "maxmargin"


def test_the_package_keeps_the_order():
    assert check(ROOT / "src" / "maxmargin") == []


def test_command_line_tells_file_line_and_rule(tmp_path):
    package = planted(
        tmp_path, "problem/plane.py", "import math\n\nfrom maxmargin.solvers import SDA\n"
    )
    command = [sys.executable, str(ROOT / "tools" / "check_imports.py"), str(package)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stdout.startswith(f"{package / 'problem' / 'plane.py'}:3: problem must not import")
    assert "it may import data, formulation, models" in run.stdout


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("models/chain.py", "from maxmargin.problem.plane import Plane", "not import problem"),
        ("models/chain.py", "import maxmargin.solvers.base as base", "not import solvers"),
        ("models/chain.py", "from maxmargin import train", "not import train"),
        ("models/chain.py", "from ..train import train", "not import train"),
        ("models/chain.py", "from .. import solvers", "not import solvers"),
        ("models/__init__.py", "from ..solvers import SDA", "not import solvers"),
        ("problem/plane.py", "from maxmargin._core import core", "not import _core"),
        ("solvers/base.py", "from maxmargin.train import Result", "not import train"),
        ("solvers/base.py", "import maxmargin", "the package itself"),
        ("solvers/base.py", "from maxmargin import load", "the package itself"),
        ("data/memory.py", "from maxmargin.models import Chain", "not import models"),
        ("runtime/executor.py", "from maxmargin.data import labels", "it may import _core"),
        ("io/model_file.py", "from maxmargin.estimators import MulticlassSVC", "not import est"),
        ("losses.py", "import maxmargin.models", "not import models"),
        ("callbacks.py", "from maxmargin.train import History", "not import train"),
        ("report/curves.py", "from maxmargin.solvers import SDA", "not import solvers"),
        ("train.py", "from maxmargin.estimators import MulticlassSVC", "not import estimators"),
        ("estimators/base.py", "from maxmargin.persistence import save", "inside a function only"),
        ("swarm/wire.py", "import os", "swarm is a new room"),
    ],
)
def test_planted_violation_is_caught(tmp_path, file, text, words):
    broken = check(planted(tmp_path, file, text + "\n"))
    assert len(broken) == 1
    assert f"{file}:1: " in broken[0]
    assert words in broken[0]


@pytest.mark.parametrize(
    "line",
    [
        "from maxmargin.train import train",
        "from ..train import train",
        'importlib.import_module("maxmargin.train")',
        '__import__("maxmargin.train")',
    ],
)
def test_an_import_inside_a_function_counts(tmp_path, line):
    text = f"import importlib\n\n\ndef late():\n    {line}\n"
    broken = check(planted(tmp_path, "solvers/base.py", text))
    assert len(broken) == 1
    assert "base.py:5: solvers must not import train" in broken[0]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("__init__.py", "from maxmargin import solvers\nfrom .train import train\n"),
        ("solvers/auto.py", "from . import base\nfrom ..problem import Problem\n"),
        ("data/memory.py", "import importlib\n\nfrom maxmargin import _core_v3\n"),
        ("estimators/base.py", "def save():\n    from maxmargin.persistence import save\n"),
        ("solvers/base.py", "import numpy\nfrom maxmargin_extras import train\n"),
    ],
)
def test_what_is_allowed_is_let_through(tmp_path, file, text):
    assert check(planted(tmp_path, file, text)) == []


def test_the_table_itself_has_no_way_round():
    seen = set()
    while len(seen) < len(MAY_IMPORT):
        ready = {room for room, others in MAY_IMPORT.items() if others - {room} <= seen} - seen
        assert ready, f"these rooms need each other: {sorted(set(MAY_IMPORT) - seen)}"
        seen |= ready
    assert set(INSIDE_FUNCTIONS) <= set(MAY_IMPORT)


def test_a_folder_without_python_and_a_missing_argument_are_refused(tmp_path, capsys):
    assert main([str(tmp_path)]) == 1
    assert "no Python files" in capsys.readouterr().out
    assert main([]) == 2


def test_names_are_listed_before_they_are_imported():
    code = "import sys, maxmargin as mm; print({*mm.__all__} <= {*dir(mm)}, 'maxmargin.train' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["True", "False"]


def test_every_public_name_works_after_importing_the_package_alone():
    code = (
        "import sys, maxmargin as mm; print('maxmargin.report' in sys.modules);"
        "print(all(hasattr(mm, name) for name in mm.__all__), callable(mm.report.plot_path))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "True", "True"]


def test_every_public_module_lists_its_names():
    for name in (
        "callbacks",
        "cluster",
        "data",
        "losses",
        "metrics",
        "models",
        "report",
        "solvers",
    ):
        module = getattr(maxmargin, name)
        assert all(hasattr(module, public) for public in module.__all__), name
    assert "Transitions" in maxmargin.models.__all__
