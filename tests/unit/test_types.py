"""Type checkers know every public name of the package."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import maxmargin

PACKAGE = Path(maxmargin.__file__).parent


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").exists()


@pytest.mark.slow
def test_every_public_name_has_a_type(tmp_path):
    pytest.importorskip("pyright")
    shutil.copytree(
        PACKAGE, tmp_path / "maxmargin", ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    command = ["-m", "pyright", "--pythonpath", sys.executable, "--outputjson"]
    run = subprocess.run(
        [sys.executable, *command, "--verifytypes", "maxmargin", "--ignoreexternal"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    found = json.loads(run.stdout)["typeCompleteness"]
    unknown = [
        symbol["name"]
        for symbol in found["symbols"]
        if symbol["isExported"] and (symbol["isTypeAmbiguous"] or not symbol["isTypeKnown"])
    ]
    assert not unknown and found["completenessScore"] == 1
