"""A short run of every fuzzer: none rots, and what it found before stays mended."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import pytest

# The fuzzers are a folder of the repository, not a part of the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fuzz.common import run

CASES = {
    "disk": 15,
    "model_files": 600,
    "shards": 600,
}


@pytest.mark.parametrize("name", CASES)
def test_a_short_run_finds_nothing(name: str, seed: int, monkeypatch) -> None:
    # Processes that a fuzzer starts must find the folder as well.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    attempt = import_module(f"fuzz.{name}").attempt
    assert run(name, attempt, ["--cases", str(CASES[name]), "--seed", str(seed)]).finds == []
