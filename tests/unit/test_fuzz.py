"""A short run of every fuzzer: fuzzers still run, and errors that they found stay fixed."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import pytest

# The fuzzers are a folder of the repository and are not in the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fuzz.__main__ import FUZZERS
from fuzz.common import run

CASES = {
    "command_lines": 150,
    "disk": 15,
    "extremes": 60,
    "files": 11_000,  # a thousand for each format
    "inputs": 150,
    "interrupts": 20,
    "model_files": 600,
    "oracles": 150,
    "problems": 60,
    "shards": 600,
}


def test_every_fuzzer_has_its_run() -> None:
    assert sorted(CASES) == FUZZERS


@pytest.mark.parametrize("name", CASES)
def test_a_short_run_finds_nothing(name: str, seed: int, monkeypatch) -> None:
    # Processes started by a fuzzer must find the folder too.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    attempt = import_module(f"fuzz.{name}").attempt
    tally = run(name, attempt, ["--cases", str(CASES[name]), "--seed", str(seed)])
    assert tally.cases == CASES[name] and tally.finds == []
