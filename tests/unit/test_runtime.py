"""Threads, teams and crews of the core, in a program of its own."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which(os.environ.get("CXX", "")) or shutil.which("c++") or shutil.which("g++")


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
@pytest.mark.skipif(os.name == "nt", reason="the flags are those of GCC and Clang")
def test_the_runtime_keeps_its_promises(tmp_path):
    program = tmp_path / "runtime"
    sources = [ROOT / "tests/reference/runtime.cpp", *(ROOT / "cpp/runtime").glob("*.cpp")]
    command = [COMPILER, "-std=c++20", "-O1", "-pthread", f"-I{ROOT / 'cpp'}", *sources]
    made = subprocess.run([*command, "-o", program], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    for cores in ("2", "5"):  # the teams wait for each other: one is not enough
        run = subprocess.run(
            [program], env={**os.environ, "MAXMARGIN_CORES": cores}, capture_output=True, text=True
        )
        lines = run.stdout.splitlines()
        assert run.returncode == 0 and len(lines) == 8, run
        assert all(line.startswith("holds") for line in lines), run.stdout
